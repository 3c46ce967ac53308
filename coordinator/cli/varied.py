"""`--vary FIELD=VALUES`: several values of a field of a scenario, for campaigns and sweeps."""

import re
from collections.abc import Iterable
from pathlib import Path

from coordinator.campaigns.grid import MOST_VALUES
from coordinator.scenario.networks import absolute_value
from emunode.errors import ScenarioError

RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def varied_values(texts: Iterable[str]) -> dict[str, list[object]]:
    """Parse `redundancy=1..4`, `algorithm=edt,greedy-tree`, ..: the values of each field, of all its flags together."""
    found: dict[str, list[object]] = {}
    for text in texts:
        name, equals, given = text.partition("=")
        if not equals or not name:
            raise ScenarioError("vary", text, "expected FIELD=VALUE,VALUE or FIELD=1..4")
        field = name.replace("-", "_")
        values = _networks(given) if field == "topology" else _values(text, given)
        found.setdefault(field, []).extend(values)
    return found


def _networks(given: str) -> list[object]:
    """Split names of networks that may contain commas: every name begins with its family and a colon."""
    return [absolute_value("topology", name, Path.cwd()) for name in re.split(r",(?=[A-Za-z-]+:)", given) if name]


def _values(text: str, given: str) -> list[object]:
    """Return the values of one flag; a range stands for all its numbers."""
    values: list[object] = []
    for value in given.split(","):
        match = RANGE.fullmatch(value)
        if match and (len(value) > 40 or int(match[2]) - int(match[1]) >= MOST_VALUES):
            raise ScenarioError("vary", text, f"a range holds at most {MOST_VALUES:,} values")
        values += range(int(match[1]), int(match[2]) + 1) if match else [value] if value else []
    return values
