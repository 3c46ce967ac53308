"""The results of votes in a run with altered payloads: which nodes hold the right value, a wrong value, or none.

elections.parquet holds the results of contested votes. All other votes follow from the journal, which lists every copy that
crossed a link as intact or altered. A vote is settled in the step of the last copy that counts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.planning.plan import Plan
from coordinator.reports.data import RunData
from coordinator.reports.layout import Ranks
from coordinator.results.deliveries import messages_due, owner, pieces_due, silent_sources, switches
from coordinator.results.voting import PIECE, elect
from emunode.model import ALL_RANKS, FOLDING, Collective


class State(IntEnum):
    """The result of a vote; the state of a node with several votes is the worst of them."""

    WAITING = 0
    """Not every segment due has arrived."""
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
ALL_TO_ALL = (Collective.ALLGATHER, Collective.ALLTOALL, Collective.ALLREDUCE)
"""The collectives in which every rank receives something from every other."""


@dataclass(frozen=True)
class Votes:
    """The votes of a run by rank: that of the receiver, or in a gather that of the origin of the message."""

    state: NDArray[np.int64]
    """The `State` of each rank."""
    heard: Ranks
    """The step of the first copy; 0 if none arrived."""
    settled: Ranks
    """The step of the last copy that counts; 0 if none arrived."""
    due: NDArray[np.bool_]
    """Whether the rank is judged."""
    messages: pl.DataFrame
    """One row per complete message: whether it is intact, and the step in which that was settled."""
    expected: int
    """The number of messages due."""
    segments: pl.DataFrame
    """The `count` of segments by `rank`, `state` and the step in which they were `settled`; ascending."""
    segments_due: list[int]
    """By rank, the segments due."""
    all_to_all: bool

    def count(self, state: State, step: int | None = None) -> int:
        """The number of judged nodes in this state, after `step` or after the run."""
        wanted = self.due & (self.state == state)
        return int((wanted if step is None else wanted & (self.settled <= step)).sum())

    def sentence(self, step: int | None = None) -> str:
        """The number of nodes (in all-to-all collectives: of segments) in each state, after `step` or after the run."""
        states = (State.RIGHT, State.WRONG, State.SPLIT)
        intact = f"{self.intact(step):,} of {self.expected:,} messages intact"
        if self.all_to_all:
            pieces = self.segments if step is None else self.segments.filter(pl.col("settled") <= step)
            count = dict(pieces.group_by("state").agg(pl.col("count").sum()).iter_rows())
            right, wrong, split = (count.get(state, 0) for state in states)
            return f"{intact}; of the segments {right:,} have the right value, {wrong:,} a wrong one, {split:,} no majority"
        right, wrong, split = (self.count(state, step) for state in states)
        due = int(self.due.sum())
        words = (
            f"of {due:,} node{'' if due == 1 else 's'} {right:,} {'has' if right == 1 else 'have'} the right value, "
            f"{wrong:,} a wrong one, {split:,} no majority"
        )
        return words if self.expected == due else f"{intact}; {words}"

    def intact(self, step: int | None = None) -> int:
        """The number of complete and intact messages, after `step` or after the run."""
        good = self.messages.filter(pl.col("intact"))
        return len(good if step is None else good.filter(pl.col("settled") <= step))


def votes_of(data: RunData) -> Votes | None:
    """The votes of a run in which an altered copy arrived; None for other runs and for incomplete ones."""
    if data.summary.get("corrupt") == 0 or data.hops is None:
        return None
    plan = data.plan
    if plan is None:
        return None
    altered = data.hops.filter(pl.col("outcome").cast(pl.String) == "corrupt")
    if not altered.head(1).collect(engine="streaming").height:
        return None
    segments = _segments(plan, data.hops, data.elections)
    messages = _messages(plan, segments)
    return _by_rank(plan, segments, messages)


def _segments(plan: Plan, journal: pl.LazyFrame, contested: pl.DataFrame | None) -> pl.DataFrame:
    """One row per segment that reached a healthy rank it is meant for: `PIECE`, state, heard, settled."""
    found = elect(plan, journal, ()).select(*PIECE, "elected", heard="step")
    if contested is not None:  # the recorded result replaces the one derived from first copies
        by = ["receiver", "origin", "segment"]
        found = found.join(contested.select(*by, said="elected"), by, "left").with_columns(
            elected=pl.coalesce("said", "elected")
        )
    copies = (
        journal.filter(
            pl.col("outcome").cast(pl.String).is_in(["first", "duplicate", "corrupt"]),
            (pl.col("target") == ALL_RANKS) | (pl.col("target") == pl.col("receiver")),
        )
        .with_columns(owner(plan))
        .group_by(*PIECE, "tree")
        .agg(pl.col("step").min())
        .group_by(*PIECE)
        .agg(settled=pl.col("step").max())
        .collect(engine="streaming")
    )
    return found.join(copies, list(PIECE)).select(
        *PIECE, "heard", "settled", state=pl.col("elected").replace_strict(_OF, return_dtype=pl.Int64)
    )


def _messages(plan: Plan, segments: pl.DataFrame) -> pl.DataFrame:
    """One row per complete message: receiver, owner, intact, settled. `measure` counts messages in the same way."""
    heard = (
        segments.filter(~pl.col("owner").is_in(silent_sources(plan)))
        .with_columns(message=pl.col("segment") // plan.algorithm.segments_per_message)
        .filter(pl.col("message").is_between(0, plan.spec.messages - 1))
        .group_by("receiver", "owner", "message", maintain_order=True)
        .agg(got=pl.len(), intact=(pl.col("state") == State.RIGHT).all(), settled=pl.col("settled").max())
    )
    due = pieces_due(plan, *(heard[name].to_numpy() for name in ("receiver", "owner", "message")))
    return heard.filter(pl.Series(due) == pl.col("got")).select("receiver", "owner", "intact", "settled")


def _by_rank(plan: Plan, segments: pl.DataFrame, messages: pl.DataFrame) -> Votes:
    order, messages_by_rank = plan.topology.order, _messages_by_rank(plan)
    due = messages_by_rank > 0
    gather = plan.spec.collective is Collective.GATHER
    if not gather:
        segments = segments.filter(~pl.col("owner").is_in(silent_sources(plan)))
    who = "owner" if gather else "receiver"
    table = segments.group_by(rank=who).agg(pl.col("state").max(), pl.col("heard").min(), pl.col("settled").max())
    state, heard, settled = (_spread(table, name, order) for name in ("state", "heard", "settled"))
    whole = _spread(messages.group_by(rank=who).agg(n=pl.len()), "n", order)
    state[(state == State.RIGHT) & (whole < messages_by_rank)] = State.WAITING
    expected = int(messages_by_rank.sum())
    by_state = segments.group_by("settled", "state", rank=who).agg(count=pl.len()).sort("settled", "state", "rank")
    return Votes(
        state,
        heard,
        settled,
        due,
        messages,
        expected,
        by_state,
        segments_due(plan),
        plan.spec.collective in ALL_TO_ALL,
    )


def segments_due(plan: Plan) -> list[int]:
    """By rank, the segments that a node is due in the run, or in a gather those that it gives.

    A node to which nothing is due has the number of the others: a faulty one is drawn with its share of that.
    """
    return _without_zeros(_segments_by_rank(plan))


def all_segments_due(plan: Plan) -> int:
    """The segments that are due to all nodes together."""
    return sum(_segments_by_rank(plan))


def _segments_by_rank(plan: Plan) -> list[int]:
    algorithm, numbers = plan.algorithm, range(plan.spec.messages)
    due = _messages_by_rank(plan).tolist()
    if plan.spec.collective not in FOLDING:
        each = sum(algorithm.segments_due(number) for number in numbers) // plan.spec.messages
        return [number * each for number in due]
    segments = []
    for rank, messages in enumerate(due):
        # Of its own block a rank receives partial results, of all others the finished ones.
        own = sum(algorithm.segments_due(number, rank) for number in numbers) if messages else 0
        finished = messages - plan.spec.messages if own else messages
        segments.append(own + finished * algorithm.segments_per_message)
    return segments


def lacking(data: RunData) -> NDArray[np.bool_] | None:
    """By rank, whether a healthy node lacks something that is due to it; None if the nodes are unknown."""
    if data.nodes is None:
        return None
    if data.get("intact_deliveries") == data.get("expected_deliveries"):
        return np.zeros(len(data.nodes), dtype=np.bool_)
    listed = data.summary.get("cut_off")
    if isinstance(listed, list) and len(listed) == data.summary.get("cut_off_count"):
        labels = {str(node.get("label")) for node in listed if isinstance(node, dict)}
        return data.nodes["label"].is_in(sorted(labels)).to_numpy()
    received, expected = (data.nodes[name].fill_null(0).to_numpy() for name in ("received", "expected"))
    due = expected if data.plan is None else segments_due(data.plan)
    return np.asarray((received < due) & (expected > 0))


def _without_zeros(counts: Sequence[int]) -> list[int]:
    largest = max(counts)
    return [count or largest for count in counts]


def _messages_by_rank(plan: Plan) -> NDArray[np.signedinteger]:
    """By rank, the messages that are due to it; in a gather, those that are due from it."""
    if plan.spec.collective is not Collective.GATHER:
        return messages_due(plan)
    due = np.full(plan.topology.order, plan.spec.messages)
    due[[plan.spec.source, *plan.states, *switches(plan.topology)]] = 0
    return due


def _spread(table: pl.DataFrame, column: str, order: int) -> Ranks:
    """A column as an array over all ranks; 0 where the table has no row."""
    values = np.zeros(order, dtype=np.int64)
    values[table["rank"].to_numpy()] = table[column].to_numpy()
    return values
