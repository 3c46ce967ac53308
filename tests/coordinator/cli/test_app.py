"""The table of commands, against the commands."""

from inspect import getdoc

import pytest

from coordinator.cli.app import COMMANDS, PLACES, app
from emunode.annexes import load
from tests.helpers.annex_support import needs_every_annex


def test_the_table_has_all_commands() -> None:
    top = {name for name in app if not name.startswith("-")}
    assert top == {words.split()[0] for words in COMMANDS}
    for name in {words.split()[0] for words in COMMANDS if " " in words}:
        below = {f"{name} {each}" for each in app[name] if not each.startswith("-")}
        assert below == {words for words in COMMANDS if words.startswith(f"{name} ")}


@needs_every_annex
def test_every_command_has_a_use() -> None:
    assert PLACES.keys() == {words.split()[0] for words in COMMANDS}


@pytest.mark.parametrize("words", COMMANDS)
def test_the_table_repeats_the_first_line_of_the_docstring(words: str) -> None:
    target, summary = COMMANDS[words]
    assert summary == (getdoc(load(target).default_command) or "").splitlines()[0]
