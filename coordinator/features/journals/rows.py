"""The kinds of rows of a journal, as expressions to filter by."""

from typing import Final

import polars as pl

from emunode.model import AGAIN_TREE, CONTROL_TREE, CollectiveSpec, HopOutcome
from emunode.protocols.agreement import TREES
from emunode.protocols.base import ControlKind

WITHHELD: Final = pl.col("outcome") == "withheld"
"""A packet that its sender has withheld because it suspects the receiver."""
ARRIVED: Final = pl.col("outcome") != "lost"
IS_DATA: Final = (pl.col("tree") < CONTROL_TREE) & ~WITHHELD
IS_CONTROL: Final = pl.col("outcome") == "control"
"""A control segment that has arrived."""
IS_ANSWER: Final = pl.col("tree") == CONTROL_TREE + ControlKind.ACKNOWLEDGEMENT
IS_REQUEST: Final = pl.col("tree") == CONTROL_TREE + ControlKind.REQUEST
IS_SIGN: Final = pl.col("tree") == CONTROL_TREE + ControlKind.KEEP_ALIVE
IS_REPORT: Final = pl.col("outcome") == HopOutcome.REPORT.name.lower()
"""The report of a decision by its node: nothing crosses a link."""
IS_NEWS: Final = pl.col("tree").is_in(sorted(TREES)) & ~IS_REPORT
"""A control segment by which nodes agree."""
IS_REPETITION: Final = pl.col("tree").is_between(AGAIN_TREE, CONTROL_TREE - 1)
"""A segment of a collective that runs again; only where nodes agree."""
LINK: Final = ["sender", "receiver", "origin", "target", "segment"]
"""The columns that identify a segment on a link, whatever its tree."""


def data_hops(spec: CollectiveSpec, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Keep the hops of a journal that carry data."""
    if spec.agreement is not None:
        # Without the repetition after a failure, which is measured as a run of its own.
        journal = journal.filter(pl.col("tree") < AGAIN_TREE)
    # Without protocols every row is data, and a filter would cost a pass over the journal.
    return journal.filter(IS_DATA) if spec.has_control else journal
