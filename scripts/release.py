"""Release a version: check the tree, move the news fragments into the changelog, set the version, commit and tag.

A dry run by default: it prints every problem and the new section of the changelog, and changes nothing. With `--tag` it
changes, commits and tags; nothing is pushed. Exit status: 0 done, 1 not ready, 2 usage, 4 could not run.
"""

import argparse
import datetime
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE = "emunode/__init__.py"
CITATION = "CITATION.cff"
CHANGELOG = "CHANGELOG.md"
MARK = "<!-- changes -->"
"""The place in the changelog where the section of the new version is put (`start_string` in pyproject.toml)."""
NUMBER = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
UNRELEASED = re.compile(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
LONGEST_SECONDS = 1800


def main(words: Sequence[str] | None = None) -> int:
    """Check that the release can be made; make it with `--tag`."""
    parser = argparse.ArgumentParser(
        prog="scripts/release", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("version", help="the new version, such as 0.3.0", type=_version)
    parser.add_argument(
        "--tag", action="store_true", help="change the files, commit and tag; without it nothing is changed"
    )
    parser.add_argument(
        "--checked", action="store_true", help="do not run scripts/check: it has passed for this commit"
    )
    options = parser.parse_args(words)
    problems = list(_problems(options.version))
    if not problems and not options.checked and _status("scripts/check"):
        problems.append("scripts/check failed")
    for problem in problems:
        print(f"scripts/release: {problem}", file=sys.stderr)
    if problems:
        return 1
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    if not options.tag:
        print(_output("towncrier", "build", "--draft", "--version", options.version, "--date", today).strip())
        print(
            f"\nNothing was changed. scripts/release {options.version} --tag commits this and creates v{options.version}."
        )
        return 0
    _release(options.version, today)
    print(f"created the tag v{options.version}; publish it with `git push --follow-tags`")
    return 0


def _version(text: str) -> str:
    if not NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"invalid version {text!r}: expected three numbers such as 0.3.0")
    return text


def _problems(version: str) -> Iterator[str]:
    """Yield every reason why this version cannot be released from this tree."""
    current = current_version()
    if _parts(version) <= _parts(current):
        yield f"version {version} is not above the current one, {current}"
    if _output("git", "tag", "--list", f"v{version}").strip():
        yield f"the tag v{version} exists"
    if changed := _output("git", "status", "--porcelain").splitlines():
        yield f"{len(changed)} files are not committed, such as {changed[0][3:]}"
    if not any((ROOT / "changes").glob("*.*.md")):
        yield "there is no news: changes/ has no fragment"
    unreleased = UNRELEASED.search((ROOT / CHANGELOG).read_text(encoding="utf-8"))
    if unreleased and unreleased[1].replace(MARK, "").strip():
        yield f"{CHANGELOG} has entries under [Unreleased]: move them into fragments in changes/"


def current_version() -> str:
    """Read the version of the tree."""
    found = re.search(r'^__version__ = "(.*)"$', (ROOT / VERSION_FILE).read_text(encoding="utf-8"), re.MULTILINE)
    if not found:
        raise SystemExit(f"scripts/release: {VERSION_FILE} has no __version__")
    return found[1]


def _parts(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _release(version: str, date: str) -> None:
    """Change the files, commit and tag. If a step fails, the files of the last commit are restored."""
    try:
        _replace(VERSION_FILE, r'^__version__ = ".*"$', f'__version__ = "{version}"')
        _replace(CITATION, r"^version: .*$", f"version: {version}")
        _replace(CITATION, r"^date-released: .*$", f"date-released: {date}")
        _output("towncrier", "build", "--yes", "--version", version, "--date", date)
        _output("git", "commit", "--quiet", "--all", "--message", f"Release {version}")
        _output("git", "tag", "--annotate", f"v{version}", "--message", f"Version {version}")
    except BaseException:
        _output("git", "reset", "--quiet", "--hard", "HEAD")
        raise


def _replace(file: str, pattern: str, line: str) -> None:
    """Replace the one line of a file that matches."""
    path = ROOT / file
    text, count = re.subn(pattern, line, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    if count != 1:
        raise SystemExit(f"scripts/release: {file} has {count} lines that match {pattern}, expected 1")
    path.write_text(text, encoding="utf-8")


def _output(*words: str) -> str:
    """Run a program in the project and return its output; a failure ends this one with its message."""
    program = [sys.executable, "-m", *words] if words[0] == "towncrier" else [*words]
    done = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS)
    if done.returncode:
        print(f"scripts/release: {' '.join(words)}: {(done.stderr or done.stdout).strip()}", file=sys.stderr)
        raise SystemExit(4)
    return done.stdout


def _status(program: str) -> int:
    return subprocess.run([ROOT / program], cwd=ROOT, check=False, timeout=LONGEST_SECONDS).returncode


if __name__ == "__main__":
    sys.exit(main())
