"""The results of votes in a run with altered payloads: the nodes with the right value, a wrong value, or none.

elections.parquet holds the results of contested votes. All other votes follow from the journal: it lists every copy
that crossed a link as intact or altered. A vote is open as long as the copies to come may change it (`ballots`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.planning.plan import Plan
from coordinator.reports.computed_layout import Ranks
from coordinator.reports.data import RunData
from coordinator.reports.scene.packets import GAIN, VOTE, framed
from coordinator.results.deliveries import due_segments, messages_due, silent_sources
from coordinator.results.voting import VOTED_SEGMENT, cast_votes, count_votes
from emunode.engine.rank_set import AlteredCopy
from emunode.model import FOLDING, Collective


class State(IntEnum):
    """The result of a vote.

    The state of a node with several votes is the worst of them.
    """

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
"""The collectives that bring every rank something from every other."""


@dataclass(frozen=True)
class Votes:
    """The votes of a run by rank.

    The rank is the receiver, or in a gather the origin of the message.
    """

    state: NDArray[np.int64]
    """The `State` of each rank."""
    heard: Ranks
    """The step of the first copy; 0 if none arrived."""
    settled: Ranks
    """The step when the last of its votes was settled; 0 if nothing arrived."""
    due: NDArray[np.bool_]
    """Whether the rank is judged."""
    messages: pl.DataFrame
    """One row per complete message: whether it is intact, and the step when that was settled."""
    expected: int
    """The number of messages due."""
    segments: pl.DataFrame
    """The `count` of segments by `rank`, `state` and the step when they were `settled`; ascending."""
    first_copies: pl.DataFrame
    """The `count` of segments by `rank` and the step when they were `heard` of; ascending."""
    segments_due: list[int]
    """By rank, the segments due."""
    all_to_all: bool

    def count(self, state: State, step: int | None = None) -> int:
        """Return the number of judged nodes in this state, after `step` or after the run."""
        wanted = self.due & (self.state == state)
        return int((wanted if step is None else wanted & (self.settled <= step)).sum())

    def sentence(self, step: int | None = None) -> str:
        """Return the number of nodes in each state, after `step` or after the run.

        In all-to-all collectives, segments are counted instead.
        """
        states = (State.RIGHT, State.WRONG, State.SPLIT)
        intact = f"{self.intact(step):,} of {self.expected:,} messages intact"
        if self.all_to_all:
            segments = self.segments if step is None else self.segments.filter(pl.col("settled") <= step)
            count = dict(segments.group_by("state").agg(pl.col("count").sum()).iter_rows())
            right, wrong, split = (count.get(state, 0) for state in states)
            return f"{intact}; of the segments {right:,} have the right value, {wrong:,} a wrong one, {split:,} no majority"
        right, wrong, split = (self.count(state, step) for state in states)
        due = int(self.due.sum())
        words = (
            f"of {due:,} node{'' if due == 1 else 's'} {right:,} {'has' if right == 1 else 'have'} the right value, "
            f"{wrong:,} a wrong one, {split:,} no majority"
        )
        return words if self.expected == due else f"{intact}; {words}"

    def heard_by(self, width: int) -> pl.DataFrame:
        """Return first copies in frames of `width` steps, as `Marks.heard`."""
        table = self.first_copies.select("rank", step="heard", segments="count")
        return framed(table, width).group_by(GAIN[:2]).agg(pl.col("segments").sum()).sort(GAIN[:2])

    def settled_by(self, width: int) -> pl.DataFrame:
        """Return settled votes in frames of `width` steps, as `Marks.votes`."""
        table = self.segments.select("rank", "state", step="settled", segments="count")
        return framed(table, width).group_by(VOTE[:3]).agg(pl.col("segments").sum()).sort(VOTE[:3])

    def intact(self, step: int | None = None) -> int:
        """Return the number of complete and intact messages, after `step` or after the run."""
        good = self.messages.filter(pl.col("intact"))
        return len(good if step is None else good.filter(pl.col("settled") <= step))


def votes_of(data: RunData) -> Votes | None:
    """Return the votes of a run with an altered copy that arrived.

    None for other runs and for incomplete ones.
    """
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


def ballots(votes: pl.DataFrame, copies: int) -> pl.DataFrame:
    """Return the votes on every segment: `VOTED_SEGMENT`, state, heard, settled.

    `votes` has each vote that was cast. A vote is settled as soon as more than half of `copies` votes are for the right
    value, or all of them are cast. If that never happens, `settled` is null: the vote is open until the run ends.
    """
    segment = list(VOTED_SEGMENT)
    cast = votes.select(*VOTED_SEGMENT, "step", "right").sort("step")
    over = (2 * pl.col("right").cum_sum().over(segment) > copies) | (
        pl.int_range(1, pl.len() + 1).over(segment) >= copies
    )
    settled = cast.filter(over).group_by(segment).agg(settled=pl.col("step").min())
    found = count_votes(votes).select(*VOTED_SEGMENT, "elected", heard="step")
    return found.join(settled, segment, "left").select(
        *VOTED_SEGMENT, "heard", "settled", state=pl.col("elected").replace_strict(_OF, return_dtype=pl.Int64)
    )


def _segments(plan: Plan, journal: pl.LazyFrame, contested: pl.DataFrame | None) -> pl.DataFrame:
    """Return one row per segment that reached a healthy addressee: `VOTED_SEGMENT`, state, heard, settled."""
    found = ballots(cast_votes(plan, journal, ()), plan.spec.redundancy)
    if contested is not None:  # the recorded result replaces the one derived from first copies
        by = ["receiver", "origin", "segment"]
        said = contested.select(*by, said=pl.col("elected").replace_strict(_OF, return_dtype=pl.Int64))
        found = found.join(said, by, "left").with_columns(state=pl.coalesce("said", "state"))
    last = journal.select(pl.col("step").max()).collect(engine="streaming").item()
    return found.select(*VOTED_SEGMENT, "heard", "state", pl.col("settled").fill_null(last))


class BallotBox:
    """The votes of a run that goes on."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._copies = plan.spec.redundancy
        self._who = who_votes(plan)
        self._votes: pl.DataFrame | None = None

    def add(self, hops: pl.DataFrame, altered: Sequence[AlteredCopy]) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Cast the votes of some steps, later than those before.

        Returns by step and rank how many segments are heard of for the first time, and on how many the vote is settled, by
        state.
        """
        cast = cast_votes(self._plan, hops.lazy(), altered, len(hops))
        if self._who == "receiver":
            cast = cast.filter(~pl.col("owner").is_in(silent_sources(self._plan)))
        if self._votes is not None:
            cast = cast.join(self._votes, [*VOTED_SEGMENT, "tree"], "anti")
        self._votes = cast if self._votes is None else pl.concat([self._votes, cast])
        touched = self._votes.join(cast, list(VOTED_SEGMENT), "semi")
        found = ballots(touched, self._copies).rename({self._who: "rank"})
        first = cast["step"].min() or 0
        heard = found.filter(pl.col("heard") >= first).group_by("rank", step="heard").agg(count=pl.len())
        settled = found.filter(pl.col("settled") >= first).group_by("rank", "state", step="settled").agg(count=pl.len())
        return heard.sort("step", "rank"), settled.sort("step", "rank", "state")

    def close(self) -> pl.DataFrame:
        """Count for each rank the segments with open votes, by the final state of the votes."""
        if self._votes is None:
            return pl.DataFrame(schema={"rank": pl.Int64, "state": pl.Int64, "count": pl.Int64})
        found = ballots(self._votes, self._copies).rename({self._who: "rank"})
        still = found.filter(pl.col("settled").is_null())
        return still.group_by("rank", "state").agg(count=pl.len()).sort("rank", "state")


def who_votes(plan: Plan) -> str:
    """Return the column with the rank that votes.

    It is the receiver, or in a gather the origin of the message.
    """
    return "owner" if plan.spec.collective is Collective.GATHER else "receiver"


def _messages(plan: Plan, segments: pl.DataFrame) -> pl.DataFrame:
    """Return one row per complete message: receiver, owner, intact, settled.

    `measure` counts messages in the same way.
    """
    heard = (
        segments.filter(~pl.col("owner").is_in(silent_sources(plan)))
        .with_columns(message=pl.col("segment") // plan.algorithm.segments_per_message)
        .filter(pl.col("message").is_between(0, plan.spec.messages - 1))
        .group_by("receiver", "owner", "message", maintain_order=True)
        .agg(got=pl.len(), intact=(pl.col("state") == State.RIGHT).all(), settled=pl.col("settled").max())
    )
    due = due_segments(plan, *(heard[name].to_numpy() for name in ("receiver", "owner", "message")))
    return heard.filter(pl.Series(due) == pl.col("got")).select("receiver", "owner", "intact", "settled")


def _by_rank(plan: Plan, segments: pl.DataFrame, messages: pl.DataFrame) -> Votes:
    order, messages_by_rank = plan.topology.order, _messages_by_rank(plan)
    due = messages_by_rank > 0
    who = who_votes(plan)
    if who == "receiver":
        segments = segments.filter(~pl.col("owner").is_in(silent_sources(plan)))
    table = segments.group_by(rank=who).agg(pl.col("state").max(), pl.col("heard").min(), pl.col("settled").max())
    state, heard, settled = (_spread(table, name, order) for name in ("state", "heard", "settled"))
    whole = _spread(messages.group_by(rank=who).agg(n=pl.len()), "n", order)
    state[(state == State.RIGHT) & (whole < messages_by_rank)] = State.WAITING
    expected = int(messages_by_rank.sum())
    by_state = segments.group_by("settled", "state", rank=who).agg(count=pl.len()).sort("settled", "state", "rank")
    by_step = segments.group_by("heard", rank=who).agg(count=pl.len()).sort("heard", "rank")
    return Votes(
        state,
        heard,
        settled,
        due,
        messages,
        expected,
        by_state,
        by_step,
        segments_due(plan),
        plan.spec.collective in ALL_TO_ALL,
    )


def segments_due(plan: Plan) -> list[int]:
    """Count for each rank the segments that are due to a node in the run.

    In a gather, count the segments that it gives. A node with nothing due to it has the number of the other nodes: a
    faulty node is drawn with its share of that number.
    """
    return _without_zeros(_segments_by_rank(plan))


def judged_ranks(plan: Plan) -> NDArray[np.bool_]:
    """Return for each rank whether a message is due to the node.

    In a gather, whether a message is due from it.
    """
    return np.asarray(_messages_by_rank(plan) > 0)


def all_segments_due(plan: Plan) -> int:
    """Return the segments that are due to all nodes together."""
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


def _without_zeros(counts: Sequence[int]) -> list[int]:
    largest = max(counts)
    return [count or largest for count in counts]


def _messages_by_rank(plan: Plan) -> NDArray[np.signedinteger]:
    """Count for each rank the messages that are due to it.

    In a gather, count the messages that are due from it.
    """
    if plan.spec.collective is not Collective.GATHER:
        return messages_due(plan)
    due = np.full(plan.topology.order, plan.spec.messages)
    due[[plan.spec.source, *plan.judged.excluded]] = 0
    return due


def _spread(table: pl.DataFrame, column: str, order: int) -> Ranks:
    """Return a column as an array over all ranks.

    Ranks without a row have 0.
    """
    values = np.zeros(order, dtype=np.int64)
    values[table["rank"].to_numpy()] = table[column].to_numpy()
    return values
