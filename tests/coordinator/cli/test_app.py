"""The table of commands, against the commands."""

import importlib
from inspect import getdoc
from typing import Any

import pytest

from coordinator.cli.app import COMMANDS, JUDGES, LISTS, MANIFESTS, NEW, app

ALL: dict[tuple[str, ...], tuple[str, str]] = {
    **{(name,): entry for name, entry in COMMANDS.items()},
    **{("list", name): entry for name, entry in LISTS.items()},
    **{("judge", name): entry for name, entry in JUDGES.items()},
    **{("manifest", name): entry for name, entry in MANIFESTS.items()},
    **{("new", name): entry for name, entry in NEW.items()},
}


def function_of(command: tuple[str, ...]) -> Any:
    """Return the function that a command calls."""
    module, _, attribute = ALL[command][0].partition(":")
    return getattr(importlib.import_module(f"coordinator.cli.{module}"), attribute).default_command


def test_the_tables_have_all_commands() -> None:
    assert {name for name in app if not name.startswith("-")} == {*COMMANDS, "judge", "list", "manifest", "new"}
    assert {name for name in app["list"] if not name.startswith("-")} == {*LISTS}
    assert {name for name in app["judge"] if not name.startswith("-")} == {*JUDGES}
    assert {name for name in app["manifest"] if not name.startswith("-")} == {*MANIFESTS}
    assert {name for name in app["new"] if not name.startswith("-")} == {*NEW}


@pytest.mark.parametrize("command", ALL, ids=" ".join)
def test_the_table_repeats_the_first_line_of_the_docstring(command: tuple[str, ...]) -> None:
    assert ALL[command][1] == (getdoc(function_of(command)) or "").splitlines()[0]
