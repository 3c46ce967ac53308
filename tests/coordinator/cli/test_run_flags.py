"""The flags of `run` and `serve` beside the options of a scenario."""

from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from coordinator.cli.run_flags import FlagHelp, PageFlags, RunOutput
from tests.command_line import Call
from tests.coordinator.cli.conftest import help_of


def flags_of(kind: type[Any]) -> dict[str, FlagHelp]:
    """Return the help of the flags of a record, by their names."""
    hints = get_type_hints(kind, include_extras=True)
    return {f"--{name.replace('_', '-')}": hint.__metadata__[0] for name, hint in hints.items()}


@pytest.mark.usefixtures("wide_terminal")
@pytest.mark.parametrize(("command", "kinds"), [("run", (RunOutput, PageFlags)), ("serve", (RunOutput,))])
def test_help_shows_each_flag_with_its_text(call: Call, command: str, kinds: tuple[type[Any], ...]) -> None:
    lines = help_of(call, command).splitlines()
    for kind in kinds:
        for flag, text in flags_of(kind).items():
            (line,) = (line for line in lines if f" {flag} " in line or f" {flag}  " in line)
            assert text.help in line
            assert text.metavar is None or f"{flag} {text.metavar}" in line


def test_nothing_is_asked_for_by_default() -> None:
    for record in (RunOutput(), PageFlags()):
        assert not any(getattr(record, name) for name in type(record).__annotations__)


def test_flags_are_given_by_name_and_stay() -> None:
    output = RunOutput(json=True)
    with pytest.raises(FrozenInstanceError):
        output.json = False  # type: ignore[misc]
    with pytest.raises(TypeError):
        RunOutput(Path("here"))  # type: ignore[call-arg]
