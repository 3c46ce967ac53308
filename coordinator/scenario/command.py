"""A scenario as the command line that runs it."""

import shlex

from coordinator.scenario.model import Scenario
from coordinator.scenario.option import options_of
from coordinator.scenario.plugins import plugin_flags

LONGEST_COMMAND = 100_000
"""Longer command lines exceed the limit of a shell for one argument."""


def run_command(scenario: Scenario) -> str:
    """Write `coordinator run` with a flag for every field that differs from its default.

    Relative file names are relative to the folder where the scenario was read.
    """
    return shlex.join(["coordinator", "run", *scenario_flags(scenario)]) + plugin_flags(scenario.plugin)


def scenario_flags(scenario: Scenario) -> list[str]:
    """Return a flag for every field that differs from its default, without plug-ins."""
    words: list[str] = []
    values = scenario.model_dump(mode="json")
    for name, option in options_of(type(scenario)).items():
        if name == "plugin":
            continue
        value = values[name]
        flag = f"--{name.replace('_', '-')}"
        if getattr(scenario, name) == option.field.default:
            continue
        if value is True:
            words.append(flag)
            continue
        for each in value if isinstance(value, list) else [value]:
            # Joined by `=` where the value could be taken for a flag: labels such as -1,2.
            words += [f"{flag}={each}"] if str(each).startswith("-") else [flag, str(each)]
    return words
