"""From the flags of a command, and a scenario file, to a scenario; `--help` needs nothing of this."""

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from coordinator.scenario.durations import parse_duration
from coordinator.scenario.model import Scenario, make_scenario, read_scenario
from coordinator.scenario.named import name_values, values_of_file
from coordinator.scenario.networks import with_absolute_network
from coordinator.scenario.plugins import load_plugins, require_loaded
from coordinator.scenario.programs import allow_program, require_named
from coordinator.scenario.schedule_text import with_schedule
from emunode.errors import ScenarioError

DAY = 86400.0
LONGER_UNITS = {"h": 3600.0, "min": 60.0, "m": 60.0}
"""Units of waiting times, in seconds, beside the units of a scenario."""
LONGER = re.compile(r"(\d+(?:\.\d+)?)\s*(h|min|m)", re.ASCII)


def values_from(file: Path | None, flags: Any) -> dict[str, object]:
    """Return the keys of a scenario file, overridden by flags, not validated yet. Plug-ins that the flags name are
    executed. `flags` is a record with None for flags that are not given, or a dictionary.
    """
    given = texts_of(flags)
    name_values(with_absolute_network(given, Path.cwd()))
    values = values_of_file(read_scenario(file), file.parent, given) if file else {}
    if "plugin" in values or "plugin" in given:
        values["plugin"] = _plugins(values.get("plugin", ()), given.pop("plugin", ()))
    if "program" in values or "program" in given:
        named = given.pop("program", None)
        allowed = None if named is None else allow_program(named)
        values["program"] = require_named(values.get("program", allowed), allowed)
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


def scenario_from(file: Path | None, flags: Any) -> Scenario:
    """Return a scenario from a file, overridden by flags."""
    return make_scenario(values_from(file, flags))


def seconds_from(name: str, text: str) -> float:
    """Return the waiting time that a flag gives, in seconds: more than 0 and at most a day."""
    longer = LONGER.fullmatch(text.strip())
    with suppress(ValueError):
        seconds = float(longer[1]) * LONGER_UNITS[longer[2]] if longer else parse_duration(text)
        if 0 < seconds <= DAY:
            return seconds
    raise ScenarioError(name, text, "expected a time such as 90s, 30m or 2h; more than 0s, at most 24h")
