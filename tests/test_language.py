"""A short list of phrases that code, messages and pages must not contain, with the words to use instead.

`ALLOWED` has the number of uses that a folder still has. It may only shrink: a folder below its allowance passes.
`ALLOWED_WHICH` limits relative clauses in docstrings: a sentence names a thing by its noun and is cut in two instead.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from tests.command_line import ROOT

PLACES: Final = (
    "coordinator", "emunode", "scripts", "compose", "docs", "tests", ".ci/run",
    "README.md", "CONTRIBUTING.md", "SECURITY.md",
)  # fmt: skip
GENERATED: Final = tuple(f"docs/reference/{name}.md" for name in ("commands", "interfaces", "scenario", "faults"))
"""Pages that repeat texts of the code, where they are counted."""
LEFT_OUT: Final = {"corpus", "golden", "__pycache__", "test_language.py", "licences.md"}
SUFFIXES: Final = {".py", ".md", ".sh", ".toml", ".yaml", ".jinja", ".js", ".css", ""}

PHRASES: Final[Mapping[str, str]] = {
    r"will not do": "invalid ..: expected ..",
    r"(is|are) none\b": "malformed",  # not Python's None
    r"(is|are) told\b": "receives, is given",
    r"whoever\b": "a node that, a host that",
    r"(nobody|everybody)\b": "no node, every node",
    r"so many\b": "that number of",
    r"as the case may be": "name the cases",
    r"for good\b": "permanently",
    r"what becomes of": "the outcome of",
    r"no more than that": "leave it out",
    r"comes? to life": "starts",
    r"process a (rank|node|core)": "one process per ..",
    r"strangers?\b": "unauthenticated connection",
    r"liars?\b": "byzantine node",
    r"this machine refuses": "operating system error",
    r"without news": "no message for ..",
    r"gone on with|goes on with": "is resumed",
    r"of its own accord": "by itself",
    r"tortur(e|ing)": "stress test",
    r'"{3}wh(at|o)\b': "a docstring that begins with a noun or a verb",
}
# Tried at the beginnings of words and docstrings alone, in a third of the time.
BANNED: Final = re.compile(rf'(?:\b|(?="))(?:{"|".join(f"(?:{phrase})" for phrase in PHRASES)})')

ALLOWED: Final[Mapping[str, int]] = {
    "emunode/algorithms": 2,
    "tests/coordinator": 17,
}

PACKAGES: Final = ("coordinator", "emunode")
DOCSTRING: Final = re.compile(r'^ *r?"{3}(.*?)"{3}', re.MULTILINE | re.DOTALL)
"""A triple-quoted text at the beginning of a line. Parsing the files instead would take seconds."""
WHICH: Final = re.compile(r"\bwhich\b", re.IGNORECASE)
ALLOWED_WHICH: Final = 0.5
"""Uses of "which" per 1,000 words of the docstrings of both packages, at most. It may only shrink."""


def folder(path: Path) -> str:
    """Return the row of `ALLOWED` that a file belongs to: its first two parts."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def files() -> Iterator[Path]:
    """Yield every text file that readers and users see."""
    for place in PLACES:
        path = ROOT / place
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            relative = file.relative_to(ROOT)
            left_out = LEFT_OUT.intersection(relative.parts) or str(relative) in GENERATED
            if file.is_file() and file.suffix in SUFFIXES and not left_out:
                yield file


def phrases(text: str) -> Iterator[re.Match[str]]:
    """Yield every banned phrase of a text, in lower case: ignoring case in the expression takes twice the time."""
    yield from BANNED.finditer(text.replace("\n", " ").replace("None", "N0NE").lower())


def uses() -> Iterator[tuple[Path, int, str]]:
    """Yield file, line and text of every banned phrase."""
    for file in files():
        text = file.read_text(encoding="utf-8", errors="replace")
        for match in phrases(text):
            yield file, text.count("\n", 0, match.start()) + 1, match[0]


def docstrings(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and text of every docstring of a module, class, function or attribute."""
    for match in DOCSTRING.finditer(source):
        yield source.count("\n", 0, match.start(1)) + 1, match[1]


def test_no_folder_uses_more_banned_phrases_than_allowed() -> None:
    found = list(uses())
    counts = Counter(folder(file) for file, _, _ in found)
    excess = {place for place, count in counts.items() if count > ALLOWED.get(place, 0)}
    listed = [f"{file.relative_to(ROOT)}:{line}: {text!r}" for file, line, text in found if folder(file) in excess]
    assert listed == []


def test_the_allowance_names_existing_folders() -> None:
    assert [place for place in ALLOWED if not (ROOT / place).exists()] == []


def test_docstrings_name_things_without_relative_clauses() -> None:
    words, found = 0, []
    for package in PACKAGES:
        for file in sorted((ROOT / package).rglob("*.py")):
            for line, text in docstrings(file.read_text(encoding="utf-8")):
                words += len(re.findall(r"\w+", text))
                found += [f"{file.relative_to(ROOT)}:{line}"] * len(WHICH.findall(text))
    assert len(found) <= words / 1000 * ALLOWED_WHICH, found


def test_docstrings_of_all_parts_are_found() -> None:
    source = '"""Module."""\nX = 1\n"""X."""\nclass C:\n    """C."""\n    def f(self):\n        """F."""\n'
    assert list(docstrings(source)) == [(1, "Module."), (3, "X."), (5, "C."), (7, "F.")]


@pytest.mark.parametrize(
    "text", ["it will not do", "a frame that\nis none", "Nobody hears", "one process a node", "tortured"]
)
def test_banned_phrases_are_found(text: str) -> None:
    assert list(phrases(text))


@pytest.mark.parametrize(
    "text", ["one process per node", "none of them", "it is None", "invalid source", "no node receives it"]
)
def test_plain_phrases_pass(text: str) -> None:
    assert not list(phrases(text))
