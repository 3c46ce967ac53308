"""Small journals that tests write by hand, and their measurement."""

import polars as pl

from coordinator.history.journal import COLUMNS, OUTCOMES
from coordinator.results.metrics import Measurement, measure
from emunode.model import ALL_RANKS
from tests.helpers.scenarios import Case

Row = tuple[int, int, int, int, int, int, int, int, int, str]
"""step, sender, port, receiver, origin, target, tree, segment, bytes, outcome"""
SMALL = {"topology": "hypercube:2", "collective": "broadcast", "algorithm": "sbt", "driver": "memory"}


def table_of(rows: list[Row]) -> pl.LazyFrame:
    """Return a journal of these rows."""
    schema = {name: OUTCOMES if name == "outcome" else pl.Int16 if name == "port" else pl.Int32 for name in COLUMNS}
    return pl.DataFrame(rows, schema=schema, orient="row").lazy()


def measured(rows: list[Row], **values: object) -> Measurement:
    """Return the measurement of these rows."""
    return measure(Case(SMALL, **values).plan, table_of(rows))


def hop(
    step: int, sender: int, port: int, outcome: str = "first", segment: int = 0, tree: int = 0, size: int = 64
) -> Row:
    """Return a hop of a broadcast from rank 0 on the square."""
    return step, sender, port, sender ^ 1 << port, 0, ALL_RANKS, tree, segment, size, outcome


BROADCAST: list[Row] = [hop(1, 0, 0), hop(1, 0, 1), hop(2, 1, 1)]
"""0 sends to 1 and 2, 1 sends to 3."""
