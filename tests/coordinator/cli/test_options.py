"""The flags of a scenario: types, defaults, allowed values and groups."""

import pytest

from coordinator.scenario.model import OPTIONS, scenario_model
from coordinator.scenario.option import OptionGroup
from tests.coordinator.cli.conftest import help_of
from tests.helpers.annex_support import MISSING
from tests.helpers.command_line import Call

pytestmark = pytest.mark.usefixtures("wide_terminal")
SCENARIO_COMMANDS = ("run", "plan", "serve", "campaign", "certify")


@pytest.mark.parametrize("name", SCENARIO_COMMANDS)
def test_scenario_flags_show_types_defaults_and_allowed_values(call: Call, name: str) -> None:
    text = help_of(call, name)
    for field in OPTIONS:
        assert f"--{field.replace('_', '-')}" in text
    shown = {
        "--collective CHOICE": "[choices: broadcast, scatter, gather, reduce, allgather, alltoall, allreduce,",
        "--port-model CHOICE": "[choices: all-port, one-port, exchange, send-or-receive] [default: all-port]",
        "--message-bytes INT": "default: 64, and for a vector 64 for each rank (1 to 33,554,432)",
        "--segments INT|auto": "[default: 1]",
        "--startup TIME": "[default: 1ms]",
        "--lateness-limit NUMBER": "(above 0 to 1) [default: 0.05]",
        "--topology TEXT": "required, here or in the file",
        "--fault TEXT": "(repeatable)",
    }
    for flag, words in shown.items():
        (line,) = (line for line in text.splitlines() if f"{flag} " in line)
        assert words in line
    for title in {option.group for option in OPTIONS.values()}:
        assert f"─ {title} ─" in text


def test_every_field_of_a_scenario_is_in_one_group() -> None:
    assert OPTIONS.keys() == scenario_model().model_fields.keys()
    groups = {option.group for option in OPTIONS.values()}
    assert groups == {*OptionGroup} if not MISSING else groups <= {*OptionGroup}
