"""`scripts/release` in a repository of its own, with the files of this one that it reads and writes."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from emunode import __version__
from tests.helpers.command_line import ROOT, Ended

FILES = (
    "CHANGELOG.md", "CITATION.cff", "changes/README.md", "changes/template.md", "emunode/__init__.py", "pyproject.toml",
    "scripts/release.py",
)  # fmt: skip
CHECK = "scripts/check"


class Repository:
    """A repository that is ready to be released as 99.0.0."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in FILES:
            self.write(name, (ROOT / name).read_text(encoding="utf-8"))
        self.write("changes/faster-exports.changed.md", "Exports are twice as fast.\n")
        self.write(CHECK, "#!/bin/sh\necho checked\n")
        (folder / CHECK).chmod(0o755)
        self.git("init", "--quiet", "--initial-branch=main")
        for name, value in {"user.name": "A", "user.email": "a@example.org", "commit.gpgsign": "false"}.items():
            self.git("config", name, value)
        self.commit()

    def read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=self.folder, capture_output=True, text=True, check=True, timeout=60
        ).stdout.strip()

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "Change something")

    def release(self, *words: str) -> Ended:
        program = [sys.executable, "scripts/release.py", *words]
        done = subprocess.run(program, cwd=self.folder, capture_output=True, text=True, check=False, timeout=60)
        return Ended(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_dry_run_shows_the_section_and_changes_nothing(repository: Repository) -> None:
    before = repository.git("rev-parse", "HEAD")
    shown = repository.release("99.0.0")
    assert (shown.status, shown.err) == (0, "")
    assert shown.out.startswith("checked\n## [99.0.0] - ")
    assert "### Changed\n\n- Exports are twice as fast.\n" in shown.out
    assert (repository.git("rev-parse", "HEAD"), repository.git("status", "--porcelain")) == (before, "")
    assert repository.git("tag") == ""


def test_a_release_is_one_commit_with_a_tag(repository: Repository) -> None:
    assert repository.release("99.0.0", "--tag", "--checked").status == 0
    assert repository.git("log", "--format=%s").splitlines() == ["Release 99.0.0", "Change something"]
    assert repository.git("describe") == "v99.0.0"
    assert repository.git("status", "--porcelain") == ""
    assert '__version__ = "99.0.0"' in repository.read("emunode/__init__.py")
    (date,) = re.findall(r"^## \[99\.0\.0\] - (\S+)$", repository.read("CHANGELOG.md"), re.MULTILINE)
    assert f"version: 99.0.0\ndate-released: {date}\n" in repository.read("CITATION.cff")
    # The new section comes first, and the fragment is gone.
    versions = re.findall(r"^## \[(.+?)\]", repository.read("CHANGELOG.md"), re.MULTILINE)
    assert versions[:3] == ["Unreleased", "99.0.0", __version__]
    assert sorted(path.name for path in (repository.folder / "changes").iterdir()) == ["README.md", "template.md"]


def test_failed_checks_stop_a_release(repository: Repository) -> None:
    repository.write(CHECK, "#!/bin/sh\nexit 1\n")
    repository.commit()
    ended = repository.release("99.0.0", "--tag")
    assert (ended.status, ended.err) == (1, "scripts/release: scripts/check failed\n")
    assert repository.git("tag") == ""


@pytest.mark.parametrize(
    ("file", "text", "problem"),
    [
        ("emunode/__init__.py", '__version__ = "99.0.1"\n', "version 99.0.0 is not above the current one, 99.0.1"),
        ("emunode/__init__.py", '__version__ = "99.0.0"\n', "version 99.0.0 is not above the current one, 99.0.0"),
        (
            "CHANGELOG.md",
            "<!-- changes -->\n\n## [Unreleased]\n\n- Faster.\n\n## [0.3.0]\n",
            "entries under [Unreleased]",
        ),
    ],
)
def test_an_unready_tree_is_refused(repository: Repository, file: str, text: str, problem: str) -> None:
    repository.write(file, text)
    repository.commit()
    ended = repository.release("99.0.0", "--tag", "--checked")
    assert (ended.status, ended.out) == (1, "")
    assert problem in ended.err
    assert repository.git("tag") == ""


def test_every_problem_is_named_at_once(repository: Repository) -> None:
    repository.git("tag", "v99.0.0")
    (repository.folder / "changes" / "faster-exports.changed.md").unlink()
    ended = repository.release("99.0.0", "--tag", "--checked")
    assert ended.err.splitlines() == [
        "scripts/release: the tag v99.0.0 exists",
        "scripts/release: 1 files are not committed, such as changes/faster-exports.changed.md",
        "scripts/release: there is no news: changes/ has no fragment",
    ]


def test_a_failed_step_leaves_the_last_commit(repository: Repository) -> None:
    repository.write("CITATION.cff", "cff-version: 1.2.0\n")
    repository.commit()
    ended = repository.release("99.0.0", "--tag", "--checked")
    assert ended.status == 1
    assert "CITATION.cff has 0 lines" in ended.err
    assert repository.git("status", "--porcelain") == ""


@pytest.mark.parametrize("version", ["1.2", "v1.2.3", "01.2.3", "1.2.3rc1"])
def test_a_malformed_version_is_refused(repository: Repository, version: str) -> None:
    ended = repository.release(version)
    assert ended.status == 2
    assert f"invalid version '{version}': expected three numbers such as 0.3.0" in ended.err
