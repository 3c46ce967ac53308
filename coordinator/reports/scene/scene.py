"""The scene of a run of a known network: its nodes, its packets and its votes, as every picture of the run shows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.reports.computed_layout import Ranks
from coordinator.reports.data import RunData
from coordinator.reports.scene.nodes import ALL_TO_ALL, NodeMark, broken_nodes, giving, lacking, root_of
from coordinator.reports.scene.packets import NO_MARKS, Marks, busy_count, framed, marks_of, until, withheld_links
from coordinator.reports.scene.votes import State, Votes, segments_due
from coordinator.reports.theme import viridis
from emunode.terminal import plural
from emunode.topologies.base import Topology

MOST_FRAMES = 240
LINK_ENTRIES = 60_000
"""Busy links summed over frames: frames get longer until the page holds at most this many."""


@dataclass(frozen=True)
class Positions:
    """The positions of a slider over `steps` steps: frames of `width` steps, the last one perhaps of fewer."""

    steps: int
    width: int

    @property
    def first(self) -> list[int]:
        """First step of each frame."""
        return list(range(1, self.steps + 1, self.width))

    @property
    def last(self) -> list[int]:
        """Last step of each frame."""
        return [min(self.steps, first + self.width - 1) for first in self.first]

    @property
    def count(self) -> int:
        """Number of frames."""
        return len(self.first)

    @property
    def names(self) -> list[str]:
        """The steps of each frame in words."""
        ends = zip(self.first, self.last, strict=True)
        return [str(first) if first == last else f"{first} to {last}" for first, last in ends]

    @property
    def colours(self) -> list[str]:
        """The colour of each frame, dark to bright."""
        return [viridis(at / (self.count - 1) if self.count > 1 else 0.6) for at in range(self.count)]


@dataclass(frozen=True)
class Scene:
    """A run as data for pictures. Without a journal, nodes are known from the tables of the run, and links are not."""

    data: RunData
    topology: Topology
    packets: pl.DataFrame | None = None
    """One row per packet (`packets_of`), or None if the journal is not available."""
    votes: Votes | None = None

    @property
    def order(self) -> int:
        """Number of nodes."""
        return self.topology.order

    @cached_property
    def steps(self) -> int:
        """The last step."""
        if self.packets is not None and len(self.packets):
            return int(self.packets["step"].max())  # type: ignore[arg-type]
        return len(self.data.steps) if self.data.steps is not None else 0

    # --- nodes -----------------------------------------------------------------------------------------------------

    @property
    def giving(self) -> bool:
        """Whether a node is done when it has sent everything, not when it has received everything."""
        return giving(self.data)

    @property
    def all_to_all(self) -> bool:
        """Whether every node receives something from every other node."""
        return self.data.get("collective") in ALL_TO_ALL

    @cached_property
    def broken(self) -> Mapping[int, NodeMark]:
        """The faulty nodes by rank."""
        return broken_nodes(self.data)

    @cached_property
    def lacking(self) -> NDArray[np.bool_] | None:
        """By rank, whether a healthy node was cut off from something that is due to it; None if that is unknown."""
        return lacking(self.data)

    @cached_property
    def source(self) -> int | None:
        """Rank of the source, or of the target of a gather or reduce; None if there is no single one."""
        return root_of(self.data)

    @cached_property
    def labels(self) -> list[str]:
        """Labels by rank."""
        if self.data.nodes is not None:
            return [str(label) for label in self.data.nodes["label"].to_list()]
        return [self.topology.label(rank) for rank in self.topology.ranks()]

    @cached_property
    def finish(self) -> Ranks:
        """By rank, the step when the node was done; 0 for never."""
        steps = np.zeros(self.order, dtype=np.int64)
        if self.data.nodes is not None and not self.giving:
            steps[:] = self.data.nodes["last_step"].fill_null(0).to_numpy()
        elif self.packets is not None:
            end, gain = (
                ("sender", pl.col("segments") - pl.col("lost")) if self.giving else ("receiver", pl.col("first"))
            )
            moved = self.packets.filter(gain > 0)
            table = moved.group_by(end).agg(pl.col("step").max())
            steps[table[end].to_numpy()] = table["step"].to_numpy()
        return steps

    @cached_property
    def gained(self) -> Ranks:
        """By rank, the segments that a node received (or sent) in all."""
        return self.end.have

    @cached_property
    def full(self) -> list[int]:
        """By rank, the segments that a node needs to be done."""
        if self.votes is not None:
            return self.votes.segments_due
        gained: list[int] = self.gained.tolist()
        if self.giving or self.packets is None:
            return gained
        data, most = self.data, max(gained, default=0)
        if data.plan is None or data.get("intact_deliveries") == data.get("expected_deliveries"):
            return [most] * self.order
        return segments_due(data.plan)

    def due(self, gained: Sequence[int] | Ranks) -> NDArray[np.bool_]:
        """Return for each rank whether the node is to receive (or send) anything: not the source, and not a faulty
        node.
        """
        if self.data.nodes is None or self.giving:
            return np.asarray(gained) > 0 if any(gained) else np.ones(len(gained), dtype=np.bool_)
        return np.asarray(self.data.nodes["expected"].fill_null(0).to_numpy() > 0)

    # --- steps -----------------------------------------------------------------------------------------------------

    @cached_property
    def positions(self) -> Positions:
        """The positions of the slider: frames that are long enough to keep their number and the number of busy links
        small.
        """
        width = max(1, -(-self.steps // MOST_FRAMES))
        while self.packets is not None and width < self.steps and busy_count(self.packets, width) > LINK_ENTRIES:
            width *= 2
        return Positions(self.steps, width)

    @cached_property
    def marks(self) -> Marks:
        """Marks of links and nodes at each position of the slider. Without a journal, nodes gain a segment when done."""
        width = self.positions.width
        if self.packets is None:
            done = pl.DataFrame({"step": self.finish, "rank": np.arange(self.order)}).filter(
                pl.col("step").is_between(1, self.steps)
            )
            return NO_MARKS._replace(gains=framed(done.with_columns(segments=1), width).select(NO_MARKS.gains.columns))
        marks = marks_of(self.packets, width, giving=self.giving)
        if self.data.get("withheld_packets") and self.data.journal is not None:
            marks = marks._replace(withheld=withheld_links(self.data.journal, width))
        return (
            marks
            if self.votes is None
            else marks._replace(heard=self.votes.heard_by(width), votes=self.votes.settled_by(width))
        )

    def held(self, at: int) -> "Held":
        """Count the segments that nodes have after the position `at` of the slider, from 0."""
        have, when = np.zeros(self.order, dtype=np.int64), np.full(self.order, -1, dtype=np.int64)
        heard, settled = np.zeros_like(have), np.zeros((self.order, len(State)), dtype=np.int64)
        for counts, table in ((have, self.marks.gains), (heard, self.marks.heard)):
            _, rank, segments = until(table, at)
            np.add.at(counts, rank, segments)
        frame, rank, state, segments = until(self.marks.votes, at)
        np.add.at(settled, (rank, state), segments)
        if self.votes is None:
            frame, rank, _ = until(self.marks.gains, at)
        np.maximum.at(when, rank, frame)
        return Held(have, when, heard, settled)

    @cached_property
    def end(self) -> "Held":
        """The holdings of nodes after the run."""
        return self.held(self.steps)

    def done(self, count: int, due: int, step: int) -> str:
        """Return the progress after `step`: how votes ended, or how many of the nodes are done."""
        return self.votes.sentence(step) if self.votes else f"{count:,} of {plural(due, 'node')} done"


@dataclass(frozen=True)
class Held:
    """Segments that nodes have after a step."""

    have: Ranks
    """By rank, segments received for the first time, or sent."""
    when: Ranks
    """By rank, the last frame when that changed, or a vote was settled; -1: never."""
    heard: Ranks
    """By rank, segments with a received copy; only where copies were altered."""
    settled: Ranks
    """By rank and `State`, segments with a settled vote; only where copies were altered."""

    def state(self, rank: int, due: int) -> State | None:
        """Return the state of a node by its votes, WAITING while they are open; None before a copy arrived."""
        for state in (State.WRONG, State.SPLIT):
            if self.settled[rank, state]:
                return state
        if self.heard[rank]:
            return State.RIGHT if self.settled[rank, State.RIGHT] >= due else State.WAITING
        return None
