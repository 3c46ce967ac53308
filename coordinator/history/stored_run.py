"""The files of a stored run, from any source: every value is checked for its type before it is used.

Reports, comparisons, exports and `verify` read runs through this module. As in `stored.reading`, a ValueError is damage, and
a RefusedError is content that no version of this program writes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import make_dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import polars as pl

from coordinator.history.stored.reading import read_json, read_toml
from coordinator.history.stored.records import InWords, Items, described, read_record
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

TEXTS: Final = (
    VERSION_KEY, "topology", "collective", "algorithm", "source", "target", "permutation", "port_model", "driver", "clock",
    "undecided_because", "reason", "unjudged", "journal_hash", "branch_of", "branch_hash",
)  # fmt: skip
NUMBERS: Final = (
    "order", "degree", "diameter", "hosts", "seed", "messages", "message_bytes", "blocks", "redundancy", "cut_off_count",
    "wall_seconds", "setup_seconds", "network_read_seconds", "links_opened", "journal_rows",
    "links_within_hosts", "links_across_hosts", "packets_within_hosts", "packets_across_hosts", "branch_step", *METRICS,
)  # fmt: skip
SingleNumber = Annotated[int | float | None, InWords("a number")]
NumberOrRow = Annotated[int | float | Items[int | float | None] | None, InWords("a number or a list of numbers")]
ObjectRows = Annotated[Items[dict[str, Any]] | None, InWords("a list of objects")]


def _all_optional(name: str, kinds: Mapping[Any, Iterable[str]]) -> Any:
    """Return a dataclass whose fields may all be absent; it only checks types, and values are read from the file's own."""
    return make_dataclass(name, [(key, kind, None) for kind, keys in kinds.items() for key in keys], frozen=True)


SummaryClaim: Final = _all_optional(
    "SummaryClaim",
    {str | None: ("name", "relation", "verdict", "source"), NumberOrRow: ("predicted", "measured", "ratio")},
)
Summary: Final = _all_optional(
    "Summary",
    {
        str | None: TEXTS,
        NumberOrRow: NUMBERS,
        Items[str] | None: ("faults", "without_effect", "fault_searches"),
        ObjectRows: ("dropped_claims", "cut_off", "agreement", "bits"),
        Items[SummaryClaim] | None: ("claims",),  # type: ignore[valid-type]
        Annotated[int | float | str | None, InWords("a number or text")]: ("segments_per_tree",),
        Literal["holds", "violated", "undecided"] | None: ("verdict",),
    },
)
"""The keys of a summary whose types are checked."""
Entry: Final = _all_optional(
    "Entry",
    {
        str | None: ("kind", "label", "neighbour"),
        SingleNumber: (
            "step", "last", "seen", "rank", "sender", "port", "seconds", "until_seconds", "achieved_seconds",
        ),
    },
)  # fmt: skip
"""The keys of the entries of lists whose types are checked; kinds of faults have values of their own."""


def read_summary(path: Path) -> dict[str, Any]:
    """Return the content of summary.json; OSError, ValueError, RefusedError, and VersionError for other minor versions."""
    summary: dict[str, Any] = _read_whole(path / "summary.json", dict)
    require_version(summary, "run", path)
    read_record(Summary, summary)
    return summary


def _read_whole(path: Path, kind: Callable[[], Any]) -> Any:
    """Return the content of a JSON file; a power failure may leave another kind of value, so that is a ValueError."""
    value = read_json(path, follow=False)
    if type(value) is not kind:
        raise ValueError(f"it holds {described(value)}, expected {described(kind())}")
    return value


def read_entries(path: Path) -> list[dict[str, Any]]:
    """Return the objects of faults.json, served.json or suspicions.json; errors as `read_summary`."""
    entries: list[dict[str, Any]] = _read_whole(path, list)
    read_record(Items[Entry], entries)  # type: ignore[valid-type]
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


def unknown_keys(name: str, keys: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return a line for each key that this version does not know (a later version may have written it)."""
    expected = set(known)
    return [f"{name}: unknown key {key[:60]!r}" for key in keys if key not in expected]
