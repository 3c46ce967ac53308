"""The command that repeats a scenario."""

from shlex import quote

from coordinator.scenario.model import Scenario
from coordinator.scenario.plugins import plugin_flags

REPEATED = ("fault",)
"""Fields with one flag for each of their values."""


def run_command(scenario: Scenario) -> str:
    """`coordinator run` with a flag for each field that differs from its default, quoted for a shell."""
    words = ["coordinator run"]
    for name, value in scenario.model_dump(mode="json", exclude_defaults=True).items():
        flag = f"--{name.replace('_', '-')}"
        if name in REPEATED:
            words += [f"{flag} {quote(str(each))}" for each in value]
        elif name != "plugin":
            # One word, so that a value with a hyphen in front, as the labels of some networks, is no flag.
            words.append(f"{flag}={quote(str(value))}")
    return " ".join(words) + plugin_flags(scenario.plugin)
