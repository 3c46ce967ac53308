"""Parquet files that another user may have written: columns, types, rows and values are checked before a file is read."""

import stat
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import polars as pl

from coordinator.history.stored.reading import RefusedError

ROWS: Final = 200_000_000
"""The most rows of a table that is read a part at a time."""
SHORT_ROWS: Final = 50_000
"""Up to this many rows, a table is read once, and queried in memory."""


@dataclass(frozen=True)
class Column:
    """The values that a column may have."""

    kind: Literal["whole numbers", "numbers", "text"]
    least: int | None = None
    most: int | None = None
    optional: bool = False
    """Whether a value may be missing."""
    words: tuple[str, ...] = ()
    """The texts that a column may have; empty: any."""

    def fits(self, kind: pl.DataType) -> bool:
        """Return whether a column of this type can have such values."""
        match self.kind:
            case "whole numbers":
                return kind.is_integer()
            case "numbers":
                return kind.is_numeric()
            case "text":
                return isinstance(kind, pl.String | pl.Enum | pl.Categorical)


Columns = Mapping[str, Column]


def open_table(path: Path, columns: Columns, rows: int = ROWS) -> pl.LazyFrame:
    """Return a table whose values have been checked, to be read in parts, or from memory if it is short; further columns are
    left as they are.

    OSError if it cannot be opened. ValueError if it is damaged, lacks a column, or has more than `rows` rows. RefusedError
    for a link or a device, other types, missing values and values out of range.
    """
    return _open(path, columns, rows, whole=False)


def _open(path: Path, columns: Columns, rows: int, *, whole: bool) -> pl.LazyFrame:
    """Return a table for `open_table`, or, with `whole`, for a caller that reads all of it."""
    require_regular(path)
    with damage_as_value_error():
        stored = pl.read_parquet_schema(path)
        missing = [name for name in columns if name not in stored]
        if missing:
            raise ValueError(f"no column {', '.join(missing)}")
        for name, column in columns.items():
            if not column.fits(stored[name]):
                raise RefusedError(f"column {name} is of type {stored[name]}; expected {column.kind}")
        scan = pl.scan_parquet(path, glob=False)
        held = scan.head(SHORT_ROWS + 1).collect() if whole or _has_only_numbers(stored) else None
        if held is not None and len(held) <= SHORT_ROWS:
            count, scan = len(held), held.lazy()
        else:
            count, held = scan.select(pl.len()).collect().item(), None
        if count > rows:
            raise ValueError(f"{count} rows, and at most {rows} are read")
        _require_values(scan, columns, "streaming" if held is None else "in-memory")
    return scan


def read_table(path: Path, columns: Columns, rows: int) -> pl.DataFrame:
    """Return a whole table; errors as `open_table`."""
    scan = _open(path, columns, rows, whole=True)
    with damage_as_value_error():
        return scan.collect()


def _has_only_numbers(stored: Mapping[str, pl.DataType]) -> bool:
    """Return whether no value of a table is longer than a number: a short file may hold the longest texts."""
    return all(kind.is_numeric() or isinstance(kind, pl.Enum) for kind in stored.values())


def require_regular(path: Path) -> None:
    """Refuse a path that is not a regular file: polars follows links, and waits for pipes. OSError if the file is
    missing.
    """
    mode = path.lstat().st_mode
    if stat.S_ISLNK(mode):
        raise RefusedError("it is a symbolic link")
    if not stat.S_ISREG(mode):
        raise RefusedError("it is not a regular file")


@contextmanager
def damage_as_value_error() -> Iterator[None]:
    """Turn the errors of polars for damaged files, panics included, into a ValueError of one line."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise ValueError((str(error).splitlines() or [type(error).__name__])[0][:200]) from None


def _require_values(scan: pl.LazyFrame, columns: Columns, engine: Literal["streaming", "in-memory"]) -> None:
    """Refuse missing values and values out of range, in one pass over the table."""
    checks: dict[str, tuple[pl.Expr, Callable[[], str]]] = {}
    for name, column in columns.items():
        values = pl.col(name)
        if not column.optional:
            checks[f"{name} missing"] = values.is_null().any(), lambda name=name: f"rows with missing values of {name}"  # type: ignore[misc]
        if column.kind == "numbers":
            checks[f"{name} finite"] = (
                (~values.is_finite()).any(),
                lambda name=name: f"values of {name} that are not finite",  # type: ignore[misc]
            )
        if column.words:
            checks[f"{name} words"] = (
                (~values.cast(pl.String).is_in(column.words)).any(),
                lambda name=name, column=column: f"values of {name} other than {', '.join(column.words)}",  # type: ignore[misc]
            )
        outside = [values < column.least] if column.least is not None else []
        outside += [values > column.most] if column.most is not None else []
        if outside:
            checks[f"{name} range"] = (
                pl.any_horizontal(outside).any(),
                lambda name=name, column=column: (  # type: ignore[misc]
                    f"values of {name} that are not within {column.least}..{'' if column.most is None else column.most}"
                ),
            )
    if not checks:
        return
    found = scan.select(check.alias(name) for name, (check, _) in checks.items()).collect(engine=engine)
    for name, (_, words) in checks.items():
        if found[name][0]:
            raise RefusedError(words())
