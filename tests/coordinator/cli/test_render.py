"""Text and tables outside of a terminal: whole lines, plain text, and all of every cell."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.markup import escape

from coordinator.api.console import STYLED_BY
from coordinator.cli import render

TEXTS = st.text(st.sampled_from("ab 1[]/@#="), min_size=1, max_size=300).filter(lambda text: text.strip() == text)
WORDS = st.text(st.sampled_from("abc[1]-"), min_size=1, max_size=9)


def printed(show: str, *values: object, **options: object) -> str:
    """Return the text that a method of the output prints."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        for name in (*STYLED_BY, "COLUMNS"):
            patch.delenv(name, raising=False)
        getattr(render.console(), show)(*values, **options)
    stream.flush()
    return stream.detach().getvalue().decode()


@given(text=TEXTS)
def test_an_escaped_text_is_one_whole_line(text: str) -> None:
    assert printed("print", escape(text)) == f"{text}\n"


def test_control_characters_are_shown() -> None:
    assert printed("print", "[bold]x[/bold] is [green]holds[/]") == "x is holds\n"
    assert printed("print", "a\x1b[31mb") == "a\\x1b[31mb\n"


@given(data=st.data())
def test_a_table_has_all_of_its_cells_below_their_headings(data: st.DataObject) -> None:
    columns = data.draw(st.lists(st.sampled_from(["claim", "to_bound", "x", "[y]"]), min_size=1, max_size=4))
    rows = data.draw(st.lists(st.lists(WORDS, min_size=len(columns), max_size=len(columns)), min_size=1, max_size=3))
    heading, rule, *lines = printed("table", columns, [[escape(cell) for cell in row] for row in rows]).splitlines()
    assert heading.split() == " ".join(columns).replace("_", " ").split()
    assert set(rule) == {"─"}
    assert [line.split() for line in lines] == rows
