"""Foreign histories: traffic that was measured elsewhere, in an MPI library or by another tool, as a run directory.

Only measured quantities are stored: messages and bytes between pairs. Steps, times, segments and payloads were not measured,
so their files and keys are absent, never zero. `foreign.json` has the origin of the numbers, and the rule's own traffic.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from coordinator.history.stored.reading import RefusedError
from coordinator.history.stored.tables import Column, Columns, read_table
from coordinator.history.stored_run import PORT, RANK, read_records

FOREIGN: Final = "foreign"
"""The driver of a history that no driver of this program made."""
FOREIGN_FILE: Final = "foreign.json"
NOT_MEASURED: Final = ("steps", "times", "segments", "payloads")
MOST_PAIRS: Final = 4_000_000
COUNT: Final = Column("whole numbers", 0, 2**62)
PAIRS: Final[Columns] = {"sender": RANK, "port": PORT, "receiver": RANK, "packets": COUNT, "bytes": COUNT}
"""Columns of links.parquet of a foreign history: packets are its messages."""
ROW_LENGTH: Final = 4
"""Source, target, messages and bytes."""


def is_foreign(summary: Mapping[str, Any]) -> bool:
    """Return whether a summary is one of a foreign history."""
    return summary.get("driver") == FOREIGN


def read_foreign_links(folder: Path) -> Any:
    """Return messages and bytes of every pair; errors as `read_table`."""
    return read_table(folder / "links.parquet", PAIRS, MOST_PAIRS)


def read_origin(folder: Path) -> dict[str, Any]:
    """Return the content of foreign.json: OSError, ValueError, and RefusedError for values of other types."""
    origin: dict[str, Any] = read_records(folder / FOREIGN_FILE, dict)
    rule, parts = origin.get("rule"), origin.get("parts") or []
    if not isinstance(origin.get("call"), dict | None):
        raise RefusedError("call is no object")
    if not isinstance(parts, list):
        raise RefusedError("parts is no list")
    tables = {f"part {index}": part for index, part in enumerate(parts)} | ({} if rule is None else {"rule": rule})
    for name, rows in tables.items():
        if not _are_rows(rows):
            raise RefusedError(f"{name} is no list of source, target, messages and bytes")
    return origin


def _are_rows(rows: object) -> bool:
    return isinstance(rows, list) and all(
        isinstance(row, list) and len(row) == ROW_LENGTH and all(type(each) is int and each >= 0 for each in row)
        for row in rows
    )
