"""The options of a scenario as a typed dictionary, for type checkers and editors."""

from collections.abc import Mapping

from coordinator.api.options import NOT_OPTIONS
from coordinator.scenario.model import OPTIONS
from coordinator.scenario.option import ScenarioOption

HEAD = '''"""The keyword arguments of a run, written by `scripts/reference` from the fields of `Scenario`."""

from collections.abc import Sequence
from typing import TypedDict

Duration = str | float
"""Text with a unit, such as "5ms", or seconds as a number."""


class Options(TypedDict, total=False):
    """Every field of a scenario but network, collective, algorithm and faults, with the names and units of a scenario file.

    `coordinator run --help` and docs/reference/scenario.md describe them.
    """

'''


def option_types(options: Mapping[str, ScenarioOption] = OPTIONS) -> str:
    """Return the text of `coordinator/api/option_types.py`."""
    members = (f"    {name}: {option.python}" for name, option in options.items() if name not in NOT_OPTIONS)
    return HEAD + "\n".join(members) + "\n"
