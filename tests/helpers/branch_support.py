"""A stored run to branch from, and its history up to a step."""

from pathlib import Path

import polars as pl

from tests.helpers.scenarios import Case

LINE = "star:4 broadcast edt redundancy=3"
EARLY, LATE = "crash:2134@2", "crash:3214@4"


def up_to(journal: pl.DataFrame, step: int) -> pl.DataFrame:
    """Return the rows of a journal up to a step."""
    return journal.filter(pl.col("step") <= step)


def stored_origin(folder: Path) -> Path:
    """Store a run with a fault early and a fault late; return its directory."""
    return Case(LINE, EARLY, LATE).stored(folder / "origin").path
