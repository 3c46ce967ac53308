"""The kinds of rows of a journal, as expressions to filter by."""

from typing import TYPE_CHECKING, Final

import polars as pl

from emunode.model import AGAIN_TREE, CONTROL_TREE, HopOutcome
from emunode.protocols.base import NEWS_TREES, ControlKind

if TYPE_CHECKING:
    from coordinator.features.base import ResolvedRun
    from coordinator.history.journal import Records

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
IS_NEWS: Final = pl.col("tree").is_in(sorted(NEWS_TREES)) & ~IS_REPORT
"""A control segment of the agreement."""
IS_REPETITION: Final = pl.col("tree").is_between(AGAIN_TREE, CONTROL_TREE - 1)
"""A segment of a collective that runs again; only where nodes agree."""
SEGMENT: Final = ["origin", "target", "segment"]
"""The columns that identify a segment."""
LINK: Final = ["sender", "receiver", *SEGMENT]
"""The columns that identify a segment on a link, whatever its tree."""


def hops_of(run: "ResolvedRun", journal: pl.LazyFrame) -> pl.LazyFrame:
    """Keep the rows of a journal that are hops, or packets withheld: rows that are no reports of nodes."""
    # Few runs have reports, and a filter costs a pass over the journal.
    return journal if run.spec.agreement is None else journal.filter(~IS_REPORT)


def data_hops(run: "ResolvedRun", journal: pl.LazyFrame) -> pl.LazyFrame:
    """Keep the hops of a journal that carry data of the collective as it ran first.

    A repetition after a failure is measured as a run of its own.
    """
    # Without protocols every row is data, and a filter would cost a pass over the journal.
    return journal if run.has_only_data else journal.filter(pl.col("tree") < run.first_other_tree, ~WITHHELD)


def data_records(run: "ResolvedRun", records: "Records") -> "Records":
    """Keep the rows of `data_hops` in a journal of records."""
    if run.has_only_data:
        return records
    kept: Records = records[(records["tree"] < run.first_other_tree) & (records["outcome"] != HopOutcome.WITHHELD)]
    return kept
