"""Changes of the files in a stored folder: a run, a campaign or a sweep that somebody has damaged or forged."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

Spoil = Callable[[Path], object]
"""Changes the files in a folder."""
Change = Callable[[Any], object]
"""Changes a value in its place."""


def content(name: str, new: str | bytes) -> Spoil:
    """Replace what is in a file."""
    return lambda folder: (folder / name).write_bytes(new if isinstance(new, bytes) else new.encode())


def edited(name: str, old: str, new: str) -> Spoil:
    """Replace a part of a text."""

    def spoil(folder: Path) -> None:
        text = (folder / name).read_text()
        assert old in text
        (folder / name).write_text(text.replace(old, new, 1))

    return spoil


def changed(name: str, change: Change) -> Spoil:
    """Change the value in a file of JSON."""

    def spoil(folder: Path) -> None:
        value = json.loads((folder / name).read_text())
        change(value)
        (folder / name).write_text(json.dumps(value))

    return spoil


def summary(**values: object) -> Spoil:
    """Replace values of a summary."""
    return changed("summary.json", lambda value: value.update(values))


def claim(**values: object) -> Spoil:
    """Replace values of the first claim."""
    return changed("summary.json", lambda value: value["claims"][0].update(values))


def lacking(*names: str) -> Spoil:
    """Take values out of a summary."""
    return changed("summary.json", lambda value: [value.pop(name) for name in names])


def record(name: str, at: int, change: Change = bool, /, **values: object) -> Spoil:
    """Replace values of a record in a file of one JSON value a line, or change it."""

    def spoil(folder: Path) -> None:
        lines = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        lines[at].update(values)
        change(lines[at])
        (folder / name).write_text("".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines))

    return spoil


def column(table: str, name: str, value: pl.Expr) -> Spoil:
    """Replace a column of a table."""

    def spoil(folder: Path) -> None:
        file = folder / f"{table}.parquet"
        pl.read_parquet(file).with_columns(value.alias(name)).write_parquet(file)

    return spoil


def linked(name: str) -> Spoil:
    """Replace a file by a link to its content."""

    def spoil(folder: Path) -> None:
        (folder / name).rename(folder.parent / f"elsewhere-{name}")
        (folder / name).symlink_to(folder.parent / f"elsewhere-{name}")

    return spoil


def pipe(name: str) -> Spoil:
    """Replace a file by a pipe without a writer."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil
