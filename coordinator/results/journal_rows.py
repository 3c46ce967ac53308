"""The kinds of rows of a journal beside those of data, as expressions to filter by."""

from typing import Final

import polars as pl

from emunode.model import AGAIN_TREE, CONTROL_TREE, HopOutcome
from emunode.protocols.agreement import TREES

IS_REPORT: Final = pl.col("outcome") == HopOutcome.REPORT.name.lower()
"""A decision, as its node reports it: nothing crosses a link."""
IS_NEWS: Final = pl.col("tree").is_in(sorted(TREES)) & ~IS_REPORT
"""A control segment by which nodes agree."""
IS_REPETITION: Final = pl.col("tree").is_between(AGAIN_TREE, CONTROL_TREE - 1)
"""A segment of a collective that runs again; only where nodes agree."""
