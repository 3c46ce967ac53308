"""The journal: every hop of every segment, sorted, hashed and streamed to disk, or kept in memory.

Hosts send rows as packed records in no particular order. Once a step is settled, its rows are complete: they are sorted,
hashed and written. A journal with a folder holds only the rows of recent steps in memory, not the history.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from emunode.model import HopOutcome, Step
from emunode.net.wire import ROW
from emunode.runtime import hold_interrupts

SORT_KEY = ("step", "sender", "port", "origin", "target", "tree", "segment")
ROW_ORDER = (*SORT_KEY, "outcome", "bytes")
"""The columns that order the rows of a journal: all that can differ."""
COLUMNS = ("step", "sender", "port", "receiver", "origin", "target", "tree", "segment", "bytes", "outcome")
RECORD = np.dtype(
    [
        ("step", "<i4"),
        ("sender", "<i4"),
        ("receiver", "<i4"),
        ("origin", "<i4"),
        ("target", "<i4"),
        ("segment", "<i4"),
        ("bytes", "<i4"),
        ("tree", "<i4"),
        ("port", "<i2"),
        ("outcome", "i1"),
    ]
)
Records = NDArray[np.void]
"""Rows with the fields of `RECORD`."""
# The dtype has to match the rows that hosts pack.
assert RECORD.itemsize == ROW.size
OUTCOMES = pl.Enum([outcome.name.lower() for outcome in HopOutcome])
FILE = "journal.parquet"
with hold_interrupts():
    # Polars looks up numpy when it first passes an array on, and an exception in the middle of that is a panic in Rust.
    # Every command that uses tables imports this module before it uses one.
    pl.Series([0]).to_numpy()
SETTLE_BYTES = 32 * 2**20
"""Bytes of rows that are collected before they are sorted and written together."""


FEW_ROWS = 5_000
"""Up to this many rows are sorted by numpy."""
HASHED_ROWS = 500_000
"""Rows that are hashed at a time."""
Observe = Callable[[Sequence[bytes | bytearray]], None]


class Journal:
    """Collects rows, sorted, in parts. With a `folder`, `close` leaves one `journal.parquet` there.

    `observe` is called with all rows that are added, before they are sorted.
    """

    def __init__(self, folder: Path | None = None, observe: Observe | None = None) -> None:
        self.folder = folder
        self._observe = observe
        self._hash = new_hash()
        self._pending = bytearray()
        self._settled: Step = 0
        self._parts: list[pl.DataFrame] = []
        """Without a folder: the journal so far."""
        self._files: list[Path] = []
        self.rows = 0

    @property
    def frame(self) -> pl.LazyFrame:
        """The finished journal, after `close`."""
        if self.folder is not None:
            return pl.scan_parquet(self.folder / FILE, glob=False)
        return pl.concat(self._parts or [table(np.empty(0, RECORD))]).lazy()

    @property
    def hash(self) -> str:
        """Digest over the sorted rows settled so far; equal for equal histories."""
        return self._hash.hexdigest()

    def add(self, rows: Sequence[bytes | bytearray]) -> None:
        """Take packed rows of any steps not settled yet."""
        for block in rows:
            self._pending += block
        if self._observe is not None:
            self._observe(rows)

    def settle(self, step: Step, *, force: bool = False) -> None:
        """Declare the rows up to `step` complete; write them if there are enough, or with `force`."""
        self._settled = step
        if self._pending and (force or len(self._pending) > SETTLE_BYTES):
            self._write()

    def _write(self) -> None:
        records = np.frombuffer(bytes(self._pending), dtype=RECORD)
        # Rows of later steps wait: their step may not be complete.
        done = records["step"] <= self._settled
        self._pending = bytearray(records[~done].tobytes())
        records = records[done]
        if not len(records):
            return
        records = records[sorting(records)]
        # Hashed before it is written: the hash is over the rows, not over the file.
        self._hash.update(records.tobytes())
        frame = table(records)
        self.rows += len(frame)
        if self.folder is None:
            self._parts.append(frame)
        else:
            part = self.folder / f"journal-{len(self._files):05}.parquet"
            frame.write_parquet(part)
            self._files.append(part)

    def close(self) -> None:
        """Write the remaining rows, settled or not, and join the parts."""
        # Past every step: a run that ended early has rows of a step that was never settled.
        self.settle(2**31 - 1, force=True)
        if self.folder is None:
            return
        path = self.folder / FILE
        match self._files:
            # No part at all: an empty table with the right columns, so that readers need no special case.
            case []:
                table(np.empty(0, RECORD)).write_parquet(path)
            case [only]:
                only.rename(path)
            case parts:
                # Parts are sorted and follow each other in steps, so joining keeps the order.
                pl.scan_parquet(parts, glob=False).sink_parquet(path)
                for part in parts:
                    part.unlink()
        self._files.clear()


def sorted_records(rows: Iterable[bytes | bytearray]) -> np.ndarray:
    """Return packed rows as records, sorted like a journal."""
    records = np.frombuffer(b"".join(rows), dtype=RECORD)
    return np.asarray(records[sorting(records)])


def new_hash() -> blake2b:
    """Return the digest that takes the sorted rows of a journal, in parts."""
    return blake2b(digest_size=16)


def hash_of(records: np.ndarray) -> str:
    """Return the journal hash of sorted rows; equal for equal histories."""
    digest = new_hash()
    for start in range(0, len(records), HASHED_ROWS):  # no copy of all rows
        digest.update(records[start : start + HASHED_ROWS].tobytes())
    return digest.hexdigest()


def sorting(records: np.ndarray) -> np.ndarray:
    """Return the indices that sort records by all columns that can differ, so that their order does not depend on
    arrival.
    """
    # np.lexsort is faster on the few rows of a trial, polars on the many of a run.
    if len(records) <= FEW_ROWS:
        return np.asarray(np.lexsort([records[name] for name in reversed(ROW_ORDER)]))
    table = pl.DataFrame({name: records[name] for name in ROW_ORDER})
    return table.select(pl.arg_sort_by(*ROW_ORDER)).to_series().to_numpy()


def records_of_rows(rows: pl.LazyFrame) -> np.ndarray:
    """Return the rows of a table as records, sorted like a journal."""
    frame = rows.with_columns(pl.col("outcome").to_physical()).sort(*ROW_ORDER).collect()
    records = np.empty(len(frame), RECORD)
    for name in COLUMNS:
        records[name] = frame[name].to_numpy()
    return records


def table(records: np.ndarray) -> pl.DataFrame:
    """Return packed rows as a table with the columns of a journal."""
    frame = pl.DataFrame({name: records[name] for name in COLUMNS})
    return frame.with_columns(pl.col("outcome").cast(pl.UInt8).cat.to(OUTCOMES))


class Difference(NamedTuple):
    """The first row where two journals differ. A journal that ended before has no row."""

    number: int
    """Of the row, from 1."""
    one: Mapping[str, object] | None
    other: Mapping[str, object] | None


def first_difference(one: pl.LazyFrame, other: pl.LazyFrame, rows_at_once: int = 500_000) -> Difference | None:
    """Return the first row where two sorted journals differ; None if they are equal. PolarsError if one cannot be
    read.
    """
    # An old journal may have another type for the outcome.
    columns = [pl.col(name).cast(pl.String if name == "outcome" else pl.Int64) for name in COLUMNS]
    differs = pl.any_horizontal(pl.col(name).ne_missing(pl.col(f"other {name}")) for name in COLUMNS)
    offset = 0
    while True:
        left, right = (frame.select(columns).slice(offset, rows_at_once).collect() for frame in (one, other))
        common = min(len(left), len(right))
        both = [left.head(common), right.head(common).rename(lambda name: f"other {name}")]
        unequal = pl.concat(both, how="horizontal").select(differs).to_series().arg_true()
        if len(unequal) or len(left) != len(right):
            at = int(unequal[0]) if len(unequal) else common
            rows = [frame.row(at, named=True) if at < len(frame) else None for frame in (left, right)]
            return Difference(offset + at + 1, *rows)
        if common < rows_at_once:
            return None
        offset += rows_at_once
