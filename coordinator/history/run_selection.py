"""The entries of an index that are shown, their order and their groups; the script of the page does the same."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from coordinator.history.run_index import RunEntry

ORDERS: Final[Mapping[str, Callable[[RunEntry], Any]]] = {
    "time": lambda entry: entry.time,
    "run": lambda entry: entry.path,
    "delivered": lambda entry: (entry.delivered or 0) / entry.expected if entry.expected else -1,
    "steps": lambda entry: -1 if entry.steps is None else entry.steps,
    "packets": lambda entry: -1 if entry.packets is None else entry.packets,
    "faults": lambda entry: entry.fault_count,
    "seed": lambda entry: entry.seed,
    "verdict": lambda entry: entry.outcome,
}
"""Sort keys of runs, by the name of their column; runs without a number come first."""
GROUPS: Final[Mapping[str, Callable[[RunEntry], str]]] = {
    "topology": lambda entry: entry.topology,
    "collective": lambda entry: entry.collective,
    "algorithm": lambda entry: entry.algorithm,
    "driver": lambda entry: entry.driver,
    "faults": lambda entry: entry.faults or "no fault",
    "verdict": lambda entry: entry.outcome,
}
"""Properties that the runs of a group share, by their name in `--group`."""


def matching(entries: Sequence[RunEntry], words: str) -> list[RunEntry]:
    """Return the entries that contain every word, in upper or lower case."""
    wanted = words.lower().split()
    return [entry for entry in entries if all(word in _text(entry) for word in wanted)]


def _text(entry: RunEntry) -> str:
    parts = (entry.path, entry.title, entry.driver, entry.clock, entry.faults, entry.outcome, f"seed {entry.seed}")
    return " ".join(parts).lower()


def sort_runs(entries: Sequence[RunEntry], order: str) -> list[RunEntry]:
    """Return the entries by one of ORDERS; equal ones stay in their order, and the newest come first."""
    return sorted(entries, key=ORDERS[order], reverse=order == "time")


def grouped(entries: Sequence[RunEntry], group: str) -> dict[str, list[RunEntry]]:
    """Return the entries by what they have in common, one of GROUPS, in the order of their first entries."""
    found: dict[str, list[RunEntry]] = {}
    for entry in entries:
        found.setdefault(GROUPS[group](entry), []).append(entry)
    return found
