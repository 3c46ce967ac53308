"""The files of a stored run, from any source: every value is checked for its type before it is used.

Reports, comparisons, exports and `verify` read runs through this module. As in `stored.reading`, a ValueError is damage, and
a RefusedError is content that no version of this program writes.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import polars as pl

from coordinator.history.stored.reading import RefusedError, read_json, read_toml
from coordinator.history.stored.tables import (
    Column,
    Columns,
    damage_as_value_error,
    open_table,
    read_table,
    require_regular,
)
from coordinator.history.stored.version import VERSION_KEY, require_version
from emunode.algorithms.claims import METRICS
from emunode.model import HopOutcome

MOST_STEPS: Final = 2_000_000
"""The last step of a run that is read."""
UNPROVEN: Final = 50_000
"""Nodes of the largest network that a scenario may name without a row for each of them."""
MOST_ROWS: Final = 10_000_000
"""Most rows of a table that is read as a whole."""
LARGEST: Final = 2**31 - 1

COUNT: Final = Column("whole numbers", 0)
RANK: Final = Column("whole numbers", 0, LARGEST)
PORT: Final = Column("whole numbers", 0, LARGEST)
STEP: Final = Column("whole numbers", 1, MOST_STEPS)
MAYBE_STEP: Final = Column("whole numbers", 0, MOST_STEPS, optional=True)
SECONDS: Final = Column("numbers")
MAYBE_SECONDS: Final = Column("numbers", optional=True)
TEXT: Final = Column("text")
OUTCOME: Final = Column("text", words=tuple(outcome.name.lower() for outcome in HopOutcome))
ELECTED: Final = Column("text", words=("right", "wrong", "none"))

TABLES: Final[Mapping[str, Columns]] = {
    "journal": {
        "step": STEP, "sender": RANK, "port": PORT, "receiver": RANK, "origin": RANK,
        "target": Column("whole numbers", -1, LARGEST), "tree": COUNT, "segment": COUNT, "bytes": COUNT, "outcome": OUTCOME,
    },
    "nodes": {
        "rank": RANK, "label": TEXT, "received": COUNT, "expected": COUNT, "first_step": MAYBE_STEP,
        "last_step": MAYBE_STEP, "state": TEXT,
    },
    "links": {
        "sender": RANK, "port": PORT, "receiver": RANK, "packets": COUNT, "segments": COUNT, "bytes": COUNT,
        "busiest_step_segments": COUNT,
    },
    "steps": {
        "step": STEP, "sending": COUNT, "receiving": COUNT, "active": COUNT, "free": Column("whole numbers"),
        "packets": COUNT, "segments": COUNT, "bytes": COUNT, "max_link_segments": COUNT, "virtual_seconds": SECONDS,
    },
    "elections": {"receiver": RANK, "origin": RANK, "segment": COUNT, "elected": ELECTED},
    "timeline": {
        "step": STEP, "sender": RANK, "port": PORT, "receiver": RANK, "bytes": COUNT, "start": MAYBE_SECONDS,
        "started": MAYBE_SECONDS, "end": MAYBE_SECONDS, "ended": MAYBE_SECONDS,
    },
}  # fmt: skip
"""The columns of the tables of a run directory that are used; a file may have more."""

TEXTS: Final = frozenset({
    VERSION_KEY, "topology", "collective", "algorithm", "source", "target", "permutation", "port_model", "driver", "clock",
    "verdict", "undecided_because", "reason", "unjudged", "journal_hash", "branch_of", "branch_hash",
})  # fmt: skip
TEXT_LISTS: Final = frozenset({"faults", "without_effect", "fault_searches"})
RECORD_LISTS: Final = frozenset({"claims", "dropped_claims", "cut_off", "agreement", "bits"})
NUMBERS: Final = frozenset({
    "order", "degree", "diameter", "hosts", "seed", "messages", "message_bytes", "blocks", "redundancy", "cut_off_count",
    "wall_seconds", "setup_seconds", "network_read_seconds", "links_opened", "journal_rows",
    "links_within_hosts", "links_across_hosts", "packets_within_hosts", "packets_across_hosts", "branch_step", *METRICS,
})  # fmt: skip
KNOWN: Final = TEXTS | TEXT_LISTS | RECORD_LISTS | NUMBERS | {"segments_per_tree"}
"""The keys of a summary whose types are checked."""
VERDICTS: Final = ("holds", "violated", "undecided")
CLAIM_TEXTS: Final = ("name", "relation", "verdict", "source")
CLAIM_NUMBERS: Final = ("predicted", "measured", "ratio")

ENTRY_TEXTS: Final = ("kind", "label", "neighbour")
ENTRY_NUMBERS: Final = (
    "step", "last", "seen", "rank", "sender", "port", "seconds", "until_seconds", "achieved_seconds",
)  # fmt: skip
"""The keys of the entries of lists whose types are checked; kinds of faults have values of their own."""


def read_summary(path: Path) -> dict[str, Any]:
    """Return the content of summary.json; OSError, ValueError, RefusedError, and VersionError for other minor versions."""
    summary: dict[str, Any] = read_records(path / "summary.json", dict)
    require_version(summary, "run", path)
    for name, value in summary.items():
        require(name, value, *_kind_of(name))
    require("verdict", summary.get("verdict"), f"one of {', '.join(VERDICTS)}", VERDICTS.__contains__)
    for claim in summary.get("claims") or ():
        for name in CLAIM_TEXTS:
            require(f"claims: {name}", claim.get(name), "text", is_text)
        for name in CLAIM_NUMBERS:
            require(f"claims: {name}", claim.get(name), "a number or a list of numbers", is_number)
    return summary


def _kind_of(name: str) -> tuple[str, Callable[[Any], bool]]:
    if name in TEXTS:
        return "text", is_text
    if name in TEXT_LISTS:
        return "a list of texts", lambda value: _all(value, is_text)
    if name in RECORD_LISTS:
        return "a list of objects", lambda value: _all(value, is_record)
    if name in NUMBERS:
        return "a number or a list of numbers", is_number
    if name == "segments_per_tree":
        return "a number or text", lambda value: is_number(value) or is_text(value)
    return "any value", lambda _: True


def read_records(path: Path, kind: type[dict[str, Any]] | type[list[Any]]) -> Any:
    """Return the content of a JSON file of a stored run (an object or a list); errors as `read_summary`."""
    value = read_json(path, follow=False)
    if not isinstance(value, kind):
        expected = "an object" if kind is dict else "a list"
        raise ValueError(f"it holds {_described(value)}, expected {expected}")
    return value


def read_entries(path: Path) -> list[dict[str, Any]]:
    """Return the objects of faults.json, served.json or suspicions.json; errors as `read_summary`."""
    entries: list[dict[str, Any]] = read_records(path, list)
    require("it", entries, "a list of objects", lambda value: _all(value, is_record))
    for entry in entries:
        for name, value in entry.items():
            if name in ENTRY_TEXTS:
                require(name, value, "text", is_text)
            elif name in ENTRY_NUMBERS:
                require(name, value, "a number", is_single)
    return entries


def read_scenario_file(path: Path) -> dict[str, Any]:
    """Return the values of the scenario.toml of a stored run, not validated yet; errors as `read_summary`."""
    return read_toml(path / "scenario.toml", follow=False)


def read_run_table(folder: Path, name: str, rows: int = MOST_ROWS) -> pl.DataFrame:
    """Return a whole table of a stored run; errors as `read_table`."""
    return read_table(folder / f"{name}.parquet", TABLES[name], rows)


def open_journal(path: Path) -> pl.LazyFrame:
    """Return a journal, or a part of one, to be read in parts; errors as `open_table`."""
    return open_table(path, TABLES["journal"])


def why_unproven(folder: Path, order: int) -> str | None:
    """Return why a stored run cannot have `order` nodes; None if it can.

    A large network takes time and memory, and a forged name could ask for it. So the run must have a row for each node.
    Networks of at most `UNPROVEN` nodes need no such proof.
    """
    if order <= UNPROVEN:
        return None
    file = folder / "nodes.parquet"
    try:
        require_regular(file)
        with damage_as_value_error():
            rows = pl.scan_parquet(file, glob=False).select(pl.len()).collect().item()
    except (OSError, ValueError):
        return f"{file.name} cannot be read, and the network has {order} nodes"
    return None if rows == order else f"{file.name} has {rows} rows, and the network {order} nodes"


# --- types -----------------------------------------------------------------------------------------------------------


def require(name: str, value: object, expected: str, fits: Callable[[Any], bool]) -> None:
    """Refuse a value that is there and has another type."""
    if value is not None and not fits(value):
        raise RefusedError(f"{name} is {_described(value)}, expected {expected}")


def is_text(value: object) -> bool:
    """Return whether a value is text, or absent."""
    return value is None or isinstance(value, str)


def is_number(value: object) -> bool:
    """Return whether a value is a number, or a list of numbers with any of them absent."""
    if isinstance(value, list):
        return all(each is None or (isinstance(each, int | float) and not isinstance(each, bool)) for each in value)
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def is_single(value: object) -> bool:
    """Return whether a value is one number, or absent."""
    return not isinstance(value, list) and is_number(value)


def is_record(value: object) -> bool:
    """Return whether a value is an object."""
    return isinstance(value, dict)


def _all(values: object, fits: Callable[[Any], bool]) -> bool:
    return isinstance(values, list) and all(map(fits, values))


def _described(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
    text = str(value)
    shown = text if len(text) <= 40 else f"{text[:37]}..."
    return repr(shown) if isinstance(value, str) else shown


def unknown_keys(name: str, keys: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return a line for each key that this version does not know (a later version may have written it)."""
    expected = set(known)
    return [f"{name}: unknown key {key[:60]!r}" for key in keys if key not in expected]
