"""News fragments in `changes/`: their names, their form, and the section of the changelog that they become."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Final

import pytest

from tests.helpers.command_line import ROOT

FOLDER: Final = ROOT / "changes"
SETTINGS: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["towncrier"]
TYPES: Final = [kind["directory"] for kind in SETTINGS["type"]]
OTHERS: Final = {"README.md", Path(SETTINGS["template"]).name}
NAME: Final = re.compile(rf"[a-z0-9]+(-[a-z0-9]+)*\.({'|'.join(TYPES)})\.md")
LONGEST: Final = 500
"""Characters of a fragment: about two sentences."""


def faults_of(name: str, text: str) -> list[str]:
    """Return the reasons why a fragment is malformed."""
    reasons = []
    if not NAME.fullmatch(name):
        reasons.append(f"{name}: expected SLUG.TYPE.md, with lower-case words in SLUG and TYPE one of {TYPES}")
    if not text.strip():
        return [*reasons, f"{name}: empty"]
    if not text.rstrip().endswith("."):
        reasons.append(f"{name}: the last sentence has no full stop")
    if not text.endswith("\n"):
        reasons.append(f"{name}: the last line has no end")
    if len(text) > LONGEST:
        reasons.append(
            f"{name}: {len(text)} characters, expected at most {LONGEST}: details belong in the documentation"
        )
    if re.search(r"^\s*([-*#]|$)", text.strip(), re.MULTILINE):
        reasons.append(f"{name}: has a heading, list or empty line, expected plain sentences")
    return reasons


def fragments() -> list[Path]:
    return sorted(path for path in FOLDER.iterdir() if path.name not in OTHERS)


def test_every_fragment_is_well_formed() -> None:
    assert [reason for path in fragments() for reason in faults_of(path.name, path.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("exports.feature.md", "Exports are faster.\n"),
        ("Exports.added.md", "Exports are faster.\n"),
        ("exports.added.rst", "Exports are faster.\n"),
        ("exports.added.md", ""),
        ("exports.added.md", "Exports are faster\n"),
        ("exports.added.md", "Exports are faster."),
        ("exports.added.md", "- Exports are faster.\n"),
        ("exports.added.md", "# Exports\nThey are faster.\n"),
        ("exports.added.md", "Exports are faster.\n\nMuch faster.\n"),
        ("exports.added.md", "Exports are faster. " * 30 + "\n"),
    ],
)
def test_a_malformed_fragment_is_found(name: str, text: str) -> None:
    assert len(faults_of(name, text)) == 1


def test_fragments_become_a_section_of_the_changelog(tmp_path: Path) -> None:
    for name in ("pyproject.toml", SETTINGS["filename"], SETTINGS["template"]):
        target = tmp_path / name
        target.parent.mkdir(exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    for name, text in {"b.added": "Two\nlines.", "a.added": "One line.", "c.removed": "Gone."}.items():
        (tmp_path / "changes" / f"{name}.md").write_text(f"{text}\n")
    build = ["towncrier", "build", "--draft", "--version", "9.8.7", "--date", "2030-01-02"]
    done = subprocess.run(
        [sys.executable, "-m", *build], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == (
        "## [9.8.7] - 2030-01-02\n\n### Added\n\n- One line.\n- Two\n  lines.\n\n### Removed\n\n- Gone."
    )
    assert SETTINGS["start_string"] in (ROOT / SETTINGS["filename"]).read_text()
