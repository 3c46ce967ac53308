"""Text and tables outside of a terminal, against those that rich prints."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.api.progress import STYLED_BY
from coordinator.cli import render
from coordinator.cli.markup import escape

TEXTS = st.text(st.sampled_from(r"ab 1[]/\@#=é≥" + "\n\x1b") | st.characters(codec="utf-8"), max_size=12)
MARKUP = st.lists(TEXTS.map(escape) | st.sampled_from(["[bold]x[/bold]", "[green]holds[/]"]), max_size=3).map("".join)
CELLS = st.text(st.sampled_from("abc [1]-"), max_size=9).map(escape) | MARKUP


def printed(by_rich: bool, show: str, *values: object, **options: object) -> str:
    """Return the text that a method of the output prints, by rich or as it chooses."""
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        for name in STYLED_BY:
            patch.delenv(name, raising=False)
        output = render.console()
        if by_rich:
            patch.setattr(output, "_is_plain", False)
        getattr(output, show)(*values, **options)
    stream.flush()
    return stream.detach().getvalue().decode()


@given(text=MARKUP | st.text(st.sampled_from("ab c"), max_size=200), soft_wrap=st.booleans(), markup=st.booleans())
def test_lines_are_those_of_rich(text: str, soft_wrap: bool, markup: bool) -> None:
    ways = [printed(by_rich, "print", text, soft_wrap=soft_wrap, markup=markup) for by_rich in (True, False)]
    assert ways[0] == ways[1]


@given(data=st.data(), title=st.sampled_from(["", "a title", "[1]", "a title that is longer than most of the tables"]))
def test_tables_are_those_of_rich(data: st.DataObject, title: str) -> None:
    columns = data.draw(st.lists(st.sampled_from(["claim", "to_bound", "x", "[y]"]), min_size=1, max_size=4))
    rows = data.draw(st.lists(st.lists(CELLS, min_size=len(columns), max_size=len(columns)), min_size=1, max_size=3))
    ways = [printed(by_rich, "table", columns, rows, title) for by_rich in (True, False)]
    assert ways[0] == ways[1]
