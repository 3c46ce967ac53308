"""The data of a run that both kinds of maps share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.reports.data import RunData
from coordinator.reports.layout import Layout, Ranks, has_layout
from coordinator.reports.maps.marks import ALL_TO_ALL, NodeMark, broken_nodes, giving, root_of
from coordinator.reports.numbers import plural
from coordinator.reports.votes import Votes, segments_due
from emunode.topologies.base import Topology


@dataclass
class NetworkMap:
    """The drawing, the data of its script, and its legend."""

    svg: str
    script: dict[str, object]
    legend: str
    """HTML."""
    layout: Layout
    ramp: bool
    """Whether colours stand for a scale."""
    scale: tuple[str, str] | None = None
    """Names of the ends of the scale; None: the first and the last step."""

    @property
    def frames(self) -> int:
        """Positions of the slider."""
        names = self.script["names"]
        return len(names) if isinstance(names, list) else 0


@dataclass(frozen=True)
class MapRun:
    """A run of a known network."""

    data: RunData
    topology: Topology
    layout: Layout
    hops: pl.DataFrame | None
    """One row per packet (`packets_of`), or None if the journal is not available."""
    steps: int
    votes: Votes | None

    @property
    def order(self) -> int:
        """Number of nodes."""
        return self.topology.order

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

    @property
    def source(self) -> int | None:
        """Rank of the source, or of the target of a gather or reduce; None if there is no single one."""
        return root_of(self.data)

    @property
    def labels(self) -> list[str]:
        """Labels by rank."""
        if self.data.nodes is not None:
            return [str(label) for label in self.data.nodes["label"].to_list()]
        return [self.topology.label(rank) for rank in self.topology.ranks()]

    @cached_property
    def finish(self) -> Ranks:
        """By rank, the step in which the node was done; 0 for never."""
        steps = np.zeros(self.order, dtype=np.int64)
        if self.data.nodes is not None and not self.giving:
            steps[:] = self.data.nodes["last_step"].fill_null(0).to_numpy()
        elif self.hops is not None:
            end, moved = ("sender", self.hops) if self.giving else ("receiver", self.hops.filter(pl.col("first") > 0))
            table = moved.group_by(end).agg(pl.col("step").max())
            steps[table[end].to_numpy()] = table["step"].to_numpy()
        return steps

    def full(self, gained: list[int]) -> list[int]:
        """By rank, the segments after which a node is done; `gained` is what it received (or sent) in all."""
        if self.giving or self.hops is None:
            return gained
        data, most = self.data, max(gained, default=0)
        if data.plan is None or data.get("intact_deliveries") == data.get("expected_deliveries"):
            return [most] * self.order
        return segments_due(data.plan)

    def due(self, gained: Sequence[int]) -> NDArray[np.bool_]:
        """By rank, whether the node is to receive (or send) anything: not the source, and not a faulty node."""
        if self.data.nodes is None or self.giving:
            return np.asarray(gained) > 0 if any(gained) else np.ones(len(gained), dtype=np.bool_)
        return np.asarray(self.data.nodes["expected"].fill_null(0).to_numpy() > 0)

    def svg(self, body: Sequence[str]) -> str:
        """The drawing with this content."""
        return (
            f'<svg class="map" id="map" viewBox="0 0 1000 {self.layout.height:.0f}" role="img" '
            f'aria-label="{escape(self.topology.title)}">{"".join(body)}</svg>'
        )

    def legend(self, keys: Sequence[str], omitted: Sequence[str], width: int, *more: str) -> str:
        """Keys and notes as HTML; `width` is the number of steps in one position of the slider."""
        notes = list(omitted)
        if not has_layout(self.topology):
            family = escape(self.topology.family)
            notes.insert(0, f"The family {family} has no layout of its own: positions are computed from the links.")
        if width > 1:
            notes.append(f"One position of the slider covers {width} steps.")
        return f'<span class="keys">{"".join(keys)}</span>{" ".join([*notes, *more])}'

    def done(self, count: int, due: int, step: int) -> str:
        """The progress after `step`: how votes ended, or how many of the nodes are done."""
        return self.votes.sentence(step) if self.votes else f"{count:,} of {plural(due, 'node')} done"
