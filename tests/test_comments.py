"""Damaged comments: fragments that an edit left behind, or that stand where they explain nothing."""

import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.helpers.command_line import ROOT

PLACES: Final = ("emunode", "coordinator", "compose", "examples", "scripts", "tests")
DANGLING: Final = re.compile(
    r"\b(a|an|and|are|as|at|be|because|between|by|for|from|if|in|into|is|its|of|on|or|than|that|the|to|which|whose|with)$|[,;(]$",
    re.IGNORECASE,
)
RANGE: Final = re.compile(r"\[[^][()]*\)|\([^][()]*\]")
"""A half-open interval."""
DEFINITION: Final = ("def ", "async def ", "class ")


def comments(text: str) -> Iterator[tuple[int, str, str, str]]:
    """Yield line number, content, line before and line after of every comment that has lines of its own."""
    lines = ["", *text.split("\n"), ""]
    first = 0
    for number, line in enumerate(lines):
        is_comment = line.lstrip().startswith("#") and not line.startswith("#!")
        if is_comment and not first:
            first = number
        elif not is_comment and first:
            content = " ".join(each.strip().lstrip("#").strip() for each in lines[first:number])
            if not content.startswith("---"):
                yield first, content, lines[first - 1].strip(), line.strip()
            first = 0


def damage(text: str) -> list[str]:
    """Return the damaged comments of a module, each with its line and the reason."""
    found = []
    for line, content, before, after in comments(text):
        balanced = RANGE.sub("", content)
        if DANGLING.search(content):
            found.append(f"{line}: ends in the middle of a sentence: {content}")
        elif content[:1].islower() and content.endswith(".") and len(content.split()) < 3:
            found.append(f"{line}: is the end of a sentence: {content}")
        elif balanced.count("(") != balanced.count(")") or content.count("`") % 2:
            found.append(f"{line}: lacks a parenthesis or a backtick: {content}")
        elif before.startswith("@") and after.startswith(DEFINITION):
            found.append(f"{line}: stands between a decorator and its function: {content}")
    return found


def test_no_comment_is_damaged() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{problem}"
        for place in PLACES
        for path in sorted((ROOT / place).rglob("*.py"))
        if not {"corpus", "golden"} & set(path.parts)
        for problem in damage(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text",
    [
        "if inwards:\n    # arc.\n    rows = at_receiver(rows)",
        "@property\n# Then there are M x / (n-1) rounds.\ndef even(self): ...",
        "# Trees do not change between\nrows = 1",
        "# The rows of every trial, of which\nrows = 1",
        "# Sorted (by step\nrows = 1",
        "# Sorted by `step\nrows = 1",
    ],
)
def test_damage_is_found(text: str) -> None:
    assert len(damage(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "# Distances.\nrows = 1",
        "# A number of [1, 2).\nrows = 1",
        "# --- the trees of ---\nrows = 1",
        "# Sorted by `step`,\n# then by rank.\nrows = 1",
        "@property\ndef even(self):\n    # Then all rounds are whole.\n    return True",
        "rows = 1  # of the",
    ],
)
def test_sound_comments_pass(text: str) -> None:
    assert damage(text) == []
