"""The keys `schedule` and `trees` of a scenario: a text, or the path of a file that an annex reads."""

import json
from collections.abc import Mapping
from typing import Final

from coordinator.annexes import annex_function

READ: Final = ("schedule", "trees")
"""The keys whose files are read when a scenario is made."""


def is_text(value: str) -> bool:
    """Return whether the value of such a key is the text itself, as in the scenario of a stored run."""
    return value.startswith("{")


def readable_copies(values: Mapping[str, object]) -> dict[str, str]:
    """Return the files whose text a scenario keeps as one long line, by the names of their copies beside it."""
    text = values.get("trees")
    if not isinstance(text, str):
        return {}
    try:
        record = json.loads(text)
        name, copied = str(record["file"]), str(record["text"])
        copied.encode()
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}  # of a forged scenario, which is refused elsewhere
    return {f"trees{'.csv' if name.endswith('.csv') else '.py'}": copied}


def with_schedule(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a scenario with the files that they name as text, and with all that the files decide.

    Raises ScenarioError for a file that cannot run (exit status 2), for a schedule whose judgement is `violated` (1), and
    for values that contradict it.
    """
    found = dict(values)
    for key in READ:
        named = found.get(key)
        if isinstance(named, str) and not is_text(named):
            found = annex_function(f"--{key}")(found, named)
    return found
