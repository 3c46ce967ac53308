"""From the flags of a command, and a scenario file, to a scenario; `--help` needs nothing of this."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coordinator.scenario.durations import parse_duration
from coordinator.scenario.model import Scenario, make_scenario, read_scenario
from coordinator.scenario.named import name_values, values_of_file
from coordinator.scenario.networks import with_absolute_network
from coordinator.scenario.plugins import load_plugins, require_loaded
from coordinator.scenario.programs import allow_program, require_program_named
from coordinator.scenario.reach import FILE
from coordinator.scenario.schedule_text import with_schedule
from emunode.errors import ScenarioError

WORDS = ("topology", "collective", "algorithm")
"""The options that a command also takes as words, in this order."""
DAY = 86400.0
LONGER_UNITS = {"h": 3600.0, "min": 60.0, "m": 60.0}
"""Units of waiting times, in seconds, beside the units of a scenario."""
LONGER = re.compile(r"(\d+(?:\.\d+)?)\s*(h|min|m)", re.ASCII)


def values_from(words: Sequence[str], flags: Any) -> dict[str, object]:
    """Return the values that the words of a command and its flags give, not validated yet.

    `words` are the name of a scenario file, whose keys flags override, or the first values themselves. Plug-ins that the
    flags name are executed. `flags` is a record with None for flags that are not given, or a dictionary.
    """
    given = texts_of(flags)
    file = Path(words[0]) if words and is_file_name(words[0]) else None
    given |= named_values(words if file is None else words[1:], given, file)
    name_values(with_absolute_network(given, Path.cwd()))
    values = values_of_file(read_scenario(file), file.parent, given) if file else {}
    if "plugin" in values or "plugin" in given:
        values["plugin"] = _plugins(values.get("plugin", ()), given.pop("plugin", ()))
    if "program" in values or "program" in given:
        named = given.pop("program", None)
        allowed = None if named is None else allow_program(named)
        values["program"] = require_program_named(values.get("program", allowed), allowed)
    if given:
        values |= with_absolute_network(given, Path.cwd())
        if "topology" in given and "network_sha256" not in given:
            values.pop("network_sha256", None)  # the digest of the network in the file
    return with_schedule(values)


def texts_of(flags: Any) -> dict[str, Any]:
    """Return the texts of the flags that are given, from a record or a dictionary of flags."""
    texts = flags if isinstance(flags, dict) else {} if flags is None else asdict(flags)
    return {name: value for name, value in texts.items() if value is not None}


def _plugins(in_file: Any, named: Sequence[str]) -> tuple[str, ...]:
    """Return the plug-ins of a scenario: the plug-ins of the flags, after executing them; the file must name no others."""
    loaded = load_plugins(named)
    return loaded + tuple(entry for entry in require_loaded(in_file) if entry not in loaded)


def is_file_name(word: str) -> bool:
    """Return whether the first word of a command is a scenario file and not a network."""
    return word.endswith(".toml") or ("/" in word and not word.startswith(FILE))


def named_values(words: Sequence[str], given: Mapping[str, object], file: Path | None = None) -> dict[str, Any]:
    """Return the values of the words `TOPOLOGY COLLECTIVE ALGORITHM`; ScenarioError if flags or a file say otherwise."""
    if words and file is not None:
        raise ScenarioError(
            "scenario", " ".join(words), f"{file} is a scenario file; flags change its keys: --option VALUE"
        )
    if more := words[len(WORDS) :]:
        raise ScenarioError("scenario", " ".join(more), f"after {', '.join(WORDS)} options have names: --option VALUE")
    named = dict(zip(WORDS, words, strict=False))
    for name, word in named.items():
        if given.get(name, word) not in (word, [word]):
            raise ScenarioError(name, word, f"--{name} says {given[name]!r}; give one of the two")
    return named


def scenario_from(words: Sequence[str], flags: Any) -> Scenario:
    """Return the scenario of the words of a command and its flags."""
    return make_scenario(values_from(words, flags))


def seconds_from(name: str, text: str) -> float:
    """Return the waiting time that a flag gives, in seconds: more than 0 and at most a day."""
    longer = LONGER.fullmatch(text.strip())
    with suppress(ValueError):
        seconds = float(longer[1]) * LONGER_UNITS[longer[2]] if longer else parse_duration(text)
        if 0 < seconds <= DAY:
            return seconds
    raise ScenarioError(name, text, "expected a time such as 90s, 30m or 2h; more than 0s, at most 24h")
