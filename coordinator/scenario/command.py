"""A scenario in one line: as the command that runs it, and in a head what differs from the defaults."""

import shlex
from collections.abc import Mapping
from typing import Any, Final

from coordinator.scenario.model import OPTIONS, Scenario, make_scenario
from coordinator.scenario.option import OptionGroup, options_of
from coordinator.scenario.plugins import plugin_flags
from emunode.errors import ScenarioError

OTHERS: Final = {OptionGroup.PROCESSES, OptionGroup.REPETITION, OptionGroup.CODE}
"""The groups of options that no head shows."""
STATED: Final = {
    "topology", "collective", "algorithm", "source", "target", "permutation", "port_model", "network_sha256", "relabel",
    "merge_links", "messages", "message_bytes", "fault", "lateness_limit", "worst_lateness_limit",
}  # fmt: skip
"""Options that heads state in words of their own, or that only decide whether a run is valid."""
WORDS: Final = {
    "redundancy": "over {} trees",
    "segments": "in {} segments",
    "duplex": "{}-duplex",
    "values": "{} numbers",
    "packet_limit": "packets of at most {} bytes",
    "link_capacity": "link capacity {}",
    "clock": "{} clock",
    "startup": "start-up {}",
    "per_byte": "{} per byte",
    "fault_knowledge": "faults known: {}",
    "reliable": "reliable links",
    "repair": "repair by {}",
}
"""Options that read better than their name and their value."""
LONGEST_COMMAND = 100_000
"""Longer command lines exceed the limit of a shell for one argument."""


def run_command(scenario: Scenario) -> str:
    """Write `coordinator run` with the words of a scenario, and a flag for every other field that differs from its default.

    Relative file names are relative to the folder where the scenario was read.
    """
    flags = scenario_flags(scenario)
    # A name with a slash would be the file of a scenario.
    if flags[:6:2] == ["--topology", "--collective", "--algorithm"] and "/" not in flags[1]:
        flags[:6] = flags[1:6:2]
    return shlex.join(["coordinator", "run", *flags]) + plugin_flags(scenario.plugin)


def describe(values: Mapping[str, Any]) -> str:
    """Return the algorithm of a scenario, and every option that changes the history and differs from its default.

    `values` come from a scenario or its file.

    >>> describe({"algorithm": "edt", "redundancy": 3, "segments": 7, "duplex": "half", "startup": "5ms"})
    'edt over 3 trees in 7 segments, half-duplex, start-up 5ms'
    """
    words = {
        name: _in_words(name, option.written(values[name]))
        for name, option in OPTIONS.items()
        if name not in STATED and option.group not in OTHERS and values.get(name) not in (None, option.field.default)
        if option.written(values[name]) != option.written(option.field.default)
    }
    tied = [str(values.get("algorithm") or "an unknown algorithm")]
    tied += [words.pop(name) for name in ("redundancy", "segments") if name in words]
    return ", ".join([" ".join(tied), *words.values()])


def _in_words(name: str, text: str) -> str:
    form = WORDS.get(name) or name.replace("_", " ") + ("" if text == "True" else " {}")
    return form.format(text)


def portable_command(values: Mapping[str, Any]) -> str | None:
    """Return the command that repeats the scenario of a file in any folder; None if it needs a file or is too long."""
    try:
        scenario = make_scenario(values)
    except ScenarioError:
        return None
    options = options_of(type(scenario))
    texts = [(options[name], str(value)) for name, value in scenario if value != options[name].field.default]
    command = run_command(scenario)
    is_data = not any(option.acts(text) or option.path(text) for option, text in texts)
    return command if is_data and len(command) <= LONGEST_COMMAND else None


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
