"""Control characters and bidirectional overrides are escaped in everything that is printed."""

import ast
import json
import re
import unicodedata
from pathlib import Path

import pytest

from emunode.terminal import first_of, print_json, say, visible
from tests.helpers.command_line import ROOT

UNESCAPED = ("sys.stdout.write", "sys.stderr.write", "traceback.print_exception", "traceback.print_exc")
PRINTS = re.compile(r"\b(print|Console|" + "|".join(name.replace(".", r"\s*\.\s*") for name in UNESCAPED) + r")\b")
HARMFUL = "\x1b[2J\r\x07\x9b\u202e\u2066\u200f\u2028\udc80\x00\x7f"


def test_harmful_characters_are_escaped() -> None:
    assert visible("a\x1b[2Jb") == "a\\x1b[2Jb"
    assert visible("\r\x9b\x00") == "\\r\\x9b\\x00"
    assert visible("\u202eabc\u2066\U000e0041") == "\\u202eabc\\u2066\\U000e0041"
    assert visible("\udc80") == "\\udc80"
    assert visible("a\tb\nc") == "a\tb\nc"
    assert visible("a\tb\nc", lines=False) == "a\\tb\\nc"


def test_no_control_format_or_separator_character_is_left() -> None:
    every = "".join(map(chr, range(0x110000)))
    left = {unicodedata.category(char) for char in visible(every, lines=False)}
    assert left.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})


@pytest.mark.parametrize("text", ["größe €10 \u4e2d\u6587 \u00a0 1-2\u03c1 ≥", "\\x1b", "ä" * 1000, ""])
def test_other_text_is_unchanged(text: str) -> None:
    assert visible(text) == text
    assert visible(visible(text + HARMFUL)) == visible(text + HARMFUL)


def test_say_escapes(capsys: pytest.CaptureFixture[str]) -> None:
    say(HARMFUL, err=True)
    say("x\ny", lines=False)
    printed = capsys.readouterr()
    assert printed.out == "x\\ny\n"
    assert printed.err == visible(HARMFUL) + "\n"
    assert "\x1b" not in printed.err


def prints(path: Path) -> list[int]:
    """Return the lines of calls that print without escaping."""
    text = path.read_text()
    if not PRINTS.search(text):
        return []  # parsing takes longest
    tree = ast.parse(text)
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [
        call.lineno
        for call in calls
        if (isinstance(call.func, ast.Name) and call.func.id in ("print", "Console"))
        or ast.unparse(call.func) in UNESCAPED
    ]


def test_everything_is_printed_by_this_function() -> None:
    """`rich` has a console of its own, and it escapes too."""
    allowed = {Path("emunode/terminal.py")}
    found = {
        f"{path.relative_to(ROOT)}:{line}"
        for package in ("coordinator", "emunode")
        for path in sorted((ROOT / package).rglob("*.py"))
        # The checkers of archives are programs of their own.
        if path.relative_to(ROOT) not in allowed and "checkers" not in path.parts
        for line in prints(path)
    }
    assert found == set()


@pytest.mark.parametrize(
    ("names", "count", "written"),
    [("", None, ""), ("ab", None, "a, b"), ("abc", None, "a, b, 1 more"), ("ab", 1002, "a, b, 1,000 more")],
)
def test_the_first_names_and_the_number_of_others(names: str, count: int | None, written: str) -> None:
    assert first_of(names, 2, count) == written


def test_a_document_is_indented_json(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"label": "é", "rows": [{"steps": 4, "finding": None}]}
    print_json(value)
    text = capsys.readouterr().out
    assert json.loads(text) == value
    assert text.startswith('{\n  "label"')
    assert text.endswith("}\n")
