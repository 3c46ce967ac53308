"""How votes ended in a run in which payloads were altered: which nodes hold the right value, a wrong one, or none.

The outcome of a contested vote is in elections.parquet; every other vote follows from the journal, where all copies that
crossed a link are listed as intact or altered. A node's vote is settled in the step of the last copy that it counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.planning.plan import Plan
from coordinator.reports.data import RunData
from coordinator.reports.layout import Ranks
from coordinator.results.voting import PIECE, elect
from emunode.model import ALL_RANKS, Collective


class State(IntEnum):
    """What a node holds once its votes are counted; of several votes, the worst counts."""

    WAITING = 0
    """Something that is due to it never came."""
    RIGHT = 1
    SPLIT = 2
    """No value has a majority."""
    WRONG = 3


WORDS: Mapping[State, str] = {
    State.WAITING: "not everything arrived",
    State.RIGHT: "right value",
    State.SPLIT: "no majority",
    State.WRONG: "wrong value elected",
}
_OF: Mapping[str, State] = {"right": State.RIGHT, "none": State.SPLIT, "wrong": State.WRONG}
ALL_TO_ALL = (Collective.ALLGATHER, Collective.ALLTOALL)


@dataclass(frozen=True)
class Votes:
    """The votes of a run, by rank: of the node that received, or in a gather of the one whose message it was."""

    state: NDArray[np.int64]
    """A `State` for each rank."""
    heard: Ranks
    """The step of the first copy; 0 if none came."""
    settled: Ranks
    """The step of the last copy that counts; 0 if none came."""
    due: NDArray[np.bool_]
    """Nodes that are judged."""
    messages: pl.DataFrame
    """Complete messages: whether they are intact, and the step in which that was settled."""
    expected: int
    """Messages that are due."""
    pieces: pl.DataFrame
    """How many pieces of each `rank` have each `state`, by the step in which that was `settled`; ascending."""
    pieces_due: int
    """Pieces that are due to a node."""
    all_to_all: bool

    def count(self, state: State, step: int | None = None) -> int:
        """Nodes in this state among those that are judged, after `step` or after the run."""
        wanted = self.due & (self.state == state)
        return int((wanted if step is None else wanted & (self.settled <= step)).sum())

    def sentence(self, step: int | None = None) -> str:
        """How many nodes hold what, after `step` or after the run; in all-to-all collectives, how many pieces are what."""
        states = (State.RIGHT, State.WRONG, State.SPLIT)
        intact = f"{self.intact(step):,} of {self.expected:,} messages intact"
        if self.all_to_all:
            pieces = self.pieces if step is None else self.pieces.filter(pl.col("settled") <= step)
            count = dict(pieces.group_by("state").agg(pl.col("count").sum()).iter_rows())
            right, wrong, split = (count.get(state, 0) for state in states)
            return (
                f"{intact}; of the pieces {right:,} have the right value, {wrong:,} a wrong one, {split:,} no majority"
            )
        right, wrong, split = (self.count(state, step) for state in states)
        due = int(self.due.sum())
        words = (
            f"of {due:,} node{'' if due == 1 else 's'} {right:,} {'has' if right == 1 else 'have'} the right value, "
            f"{wrong:,} a wrong one, {split:,} no majority"
        )
        return words if self.expected == due else f"{intact}; {words}"

    def intact(self, step: int | None = None) -> int:
        """Messages that are complete and intact, after `step` or after the run."""
        good = self.messages.filter(pl.col("intact"))
        return len(good if step is None else good.filter(pl.col("settled") <= step))


def votes_of(data: RunData) -> Votes | None:
    """The votes of a run in which an altered copy arrived; None for every other run, or where its files do not tell."""
    if data.summary.get("corrupt") == 0 or data.journal is None:
        return None
    plan = data.plan
    if plan is None:
        return None
    altered = data.journal.filter(pl.col("outcome").cast(pl.String) == "corrupt")
    if not altered.head(1).collect(engine="streaming").height:
        return None
    pieces = _pieces(plan, data.journal, data.elections)
    messages = _messages(plan, pieces)
    return _by_rank(plan, pieces, messages)


def _pieces(plan: Plan, journal: pl.LazyFrame, contested: pl.DataFrame | None) -> pl.DataFrame:
    """receiver, origin, segment, state, heard and settled of every piece that reached a healthy rank it is meant for."""
    found = elect(plan, journal, ()).select(*PIECE, "elected", heard="step")
    if contested is not None:  # what altered copies said is known of these
        known = contested.select(*PIECE, said="elected")
        found = found.join(known, list(PIECE), "left").with_columns(elected=pl.coalesce("said", "elected"))
    copies = (
        journal.filter(
            pl.col("outcome").cast(pl.String).is_in(["first", "duplicate", "corrupt"]),
            (pl.col("target") == ALL_RANKS) | (pl.col("target") == pl.col("receiver")),
        )
        .group_by(*PIECE, "tree")
        .agg(pl.col("step").min())
        .group_by(*PIECE)
        .agg(settled=pl.col("step").max())
        .collect(engine="streaming")
    )
    return found.join(copies, list(PIECE)).select(
        *PIECE, "heard", "settled", state=pl.col("elected").replace_strict(_OF, return_dtype=pl.Int64)
    )


def _messages(plan: Plan, pieces: pl.DataFrame) -> pl.DataFrame:
    """receiver, origin, intact and settled of every message that is complete; as `measure` counts them."""
    algorithm, numbers = plan.algorithm, range(plan.spec.messages)
    due = pl.DataFrame(
        {"message": numbers, "due": [algorithm.segments_due(number) for number in numbers]},
        schema={"message": pl.Int32, "due": pl.UInt32},
    )
    from_all = plan.spec.collective in (Collective.GATHER, *ALL_TO_ALL)
    heard = pieces.filter(~pl.col("origin").is_in(list(plan.states) if from_all else []))
    by = ["receiver"] if plan.spec.collective is Collective.REDUCE else ["receiver", "origin"]
    return (
        heard.group_by(*by, message=pl.col("segment") // algorithm.segments_per_message)
        .agg(
            pl.col("origin").first() if "origin" not in by else pl.len().alias("copies"),
            got=pl.len(),
            intact=(pl.col("state") == State.RIGHT).all(),
            settled=pl.col("settled").max(),
        )
        .join(due, "message")
        .filter(pl.col("got") == pl.col("due"))
        .select("receiver", "origin", "intact", "settled")
    )


def _by_rank(plan: Plan, pieces: pl.DataFrame, messages: pl.DataFrame) -> Votes:
    order, due = plan.topology.order, _due(plan)
    if plan.spec.collective in ALL_TO_ALL:
        pieces = pieces.filter(~pl.col("origin").is_in(list(plan.states)))
    who = "origin" if plan.spec.collective is Collective.GATHER else "receiver"
    table = pieces.group_by(rank=who).agg(pl.col("state").max(), pl.col("heard").min(), pl.col("settled").max())
    state, heard, settled = (_spread(table, name, order) for name in ("state", "heard", "settled"))
    others = int(due.sum()) - 1 if plan.spec.collective in ALL_TO_ALL else 1
    whole = _spread(messages.group_by(rank=who).agg(n=pl.len()), "n", order)
    state[(state == State.RIGHT) & (whole < plan.spec.messages * others)] = State.WAITING
    expected = plan.spec.messages * others * int(due.sum())
    by_state = pieces.group_by("settled", "state", rank=who).agg(count=pl.len()).sort("settled", "state", "rank")
    pieces_due = others * sum(plan.algorithm.segments_due(number) for number in range(plan.spec.messages))
    return Votes(
        state, heard, settled, due, messages, expected, by_state, pieces_due, plan.spec.collective in ALL_TO_ALL
    )


def _due(plan: Plan) -> NDArray[np.bool_]:
    """The nodes that are judged: healthy ones, without the source; in a reduce, its target alone."""
    due = np.ones(plan.topology.order, dtype=np.bool_)
    if plan.spec.collective is Collective.REDUCE:
        due[:] = False
        due[plan.spec.source] = True
    elif plan.spec.collective not in ALL_TO_ALL:
        due[plan.spec.source] = False
    due[list(plan.states)] = False
    return due


def _spread(table: pl.DataFrame, column: str, order: int) -> Ranks:
    """A column as an array over all ranks, 0 where the table has none."""
    values = np.zeros(order, dtype=np.int64)
    values[table["rank"].to_numpy()] = table[column].to_numpy()
    return values
