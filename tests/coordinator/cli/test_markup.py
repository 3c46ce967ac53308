"""Markup without rich, against rich."""

from hypothesis import example, given
from hypothesis import strategies as st
from rich import markup as rich_markup

from coordinator.cli.markup import escape, unmarked
from emunode.terminal import visible

TEXTS = st.text(st.sampled_from(r"ab 1[]/\@#=é≥" + "\n\x1b") | st.characters(codec="utf-8"), max_size=12)


MARKUP = st.lists(TEXTS.map(escape) | st.sampled_from(["[bold]x[/bold]", "[green]holds[/]"]), max_size=3).map("".join)


@given(text=TEXTS)
@example(text="\\")
@example(text=r"\[bold]")
def test_text_is_escaped_as_by_rich(text: str) -> None:
    assert escape(text) == rich_markup.escape(text)


@given(text=MARKUP)
def test_markup_shows_the_text_that_rich_shows(text: str) -> None:
    printable = visible(text)  # rich drops control characters
    assert unmarked(printable) == rich_markup.render(printable, emoji=False).plain
