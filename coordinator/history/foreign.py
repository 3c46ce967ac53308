"""Foreign histories: traffic that was measured elsewhere, in an MPI library or by another tool, as a run directory.

Only measured quantities are stored: messages and bytes between pairs. Steps, times, segments and payloads were not measured,
so their files and keys are absent, never zero. `foreign.json` has the origin of the numbers, and the rule's own traffic.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from coordinator.history.stored.reading import read_json
from coordinator.history.stored.records import Items, Natural, read_record
from coordinator.history.stored.tables import Column, Columns, read_table
from coordinator.history.stored_run import PORT, RANK

FOREIGN: Final = "foreign"
"""The driver of a history that no driver of this program made."""
FOREIGN_FILE: Final = "foreign.json"
NOT_MEASURED: Final = ("steps", "times", "segments", "payloads")
MOST_PAIRS: Final = 4_000_000
COUNT: Final = Column("whole numbers", 0, 2**62)
PAIRS: Final[Columns] = {"sender": RANK, "port": PORT, "receiver": RANK, "packets": COUNT, "bytes": COUNT}
"""Columns of links.parquet of a foreign history: packets are its messages."""
PairRows = Items[tuple[Natural, Natural, Natural, Natural]]
"""Rows of source, target, messages and bytes."""


@dataclass(frozen=True)
class MeasuredCall:
    """The call of an MPI library that was measured."""

    collective: str
    algorithm: str
    ranks: Natural
    root: Natural
    elements: Natural
    segment: Natural


@dataclass(frozen=True)
class ForeignOrigin:
    """The content of foreign.json."""

    origin: str = "unknown"
    not_measured: Items[str] = NOT_MEASURED
    call: MeasuredCall | None = None
    rule: PairRows | None = None
    """The traffic that the rule of the call states."""
    parts: Items[PairRows] = ()
    wrong_result: str = ""


def is_foreign(summary: Mapping[str, Any]) -> bool:
    """Return whether a summary is one of a foreign history."""
    return summary.get("driver") == FOREIGN


def read_foreign_links(folder: Path) -> Any:
    """Return messages and bytes of every pair; errors as `read_table`."""
    return read_table(folder / "links.parquet", PAIRS, MOST_PAIRS)


def read_origin(folder: Path) -> ForeignOrigin:
    """Return the content of foreign.json: OSError, ValueError, and RefusedError for values of other types."""
    return read_record(ForeignOrigin, read_json(folder / FOREIGN_FILE, follow=False))
