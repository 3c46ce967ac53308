"""The findings of `coordinator doctor`, and the help of commands on a wide terminal, for several files of tests."""

from collections.abc import Callable

import pytest
from rich.console import Console

from coordinator.cli.app import app
from tests.helpers.command_line import Call

Examine = Callable[[], dict[str, tuple[str, str]]]


@pytest.fixture
def examine(call: Call) -> Examine:
    """Call `doctor` and return the state and what was seen, by subject."""
    return lambda: {finding["subject"]: (finding["state"], finding["seen"]) for finding in call("doctor --json").data}


@pytest.fixture
def wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    # every command keeps the console of its first use in this process, with the width of that time; this one comes first
    monkeypatch.setattr(app, "_console", Console(width=400))


def help_of(call: Call, *command: str) -> str:
    """Return the help of a command."""
    ended = call(" ".join(command), "--help")
    assert (ended.status, ended.err) == (0, "")
    return ended.out
