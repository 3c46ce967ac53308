"""Collectives by table: a precomputed list of hops has the segments that each node passes on, their steps and ports.

The table is computed once per process, as every node would compute the same one. A rule looks up its receipts in the
rows of its own node and nothing else. Where all nodes are sources and translations carry every node to every other, the
table has the hops of node 0 only, and a node uses the row of its address relative to the origin of a segment.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from emunode.algorithms.base import LocalView, Need, Rule
from emunode.algorithms.folding import FoldingSchedule, FoldReceipt, FoldSend
from emunode.model import ALL_RANKS, Collective, Duplex, Port, PortPacket, Rank, ScheduledSend, Step, StepPort
from emunode.topologies.base import CayleyTopology

SegmentKey = tuple[Rank, Rank, int]
"""(origin, target, segment number); in a table with translations origin 0 and the target relative to it."""
SendTable = dict[SegmentKey, list[StepPort]]
"""The segments that one node passes on or sends itself, in order of steps."""
HOP_BYTES = 330
"""Memory per hop of a table. Measured: 260 to 320 for tables of 40,000 to 160,000 hops."""


class TableHop(NamedTuple):
    """One segment that crosses one link. In a table with translations, all ranks are relative to the origin, 0."""

    step: Step
    sender: Rank
    port: Port
    item: SegmentKey


class TableCollective(FoldingSchedule):
    """An algorithm whose schedule is a table of hops; an allgather may run backwards as a reduce-scatter."""

    needs = frozenset({Need.TABLE})
    duplexes = (Duplex.FULL,)

    @abstractmethod
    def hops(self) -> Iterator[TableHop]:
        """Return every hop of a run, in any order; with translations every hop of the segments of node 0."""

    @cached_property
    def translated(self) -> bool:
        """Whether the table of node 0 serves all sources."""
        everywhere = self.collective in (Collective.ALLGATHER, Collective.ALLTOALL, Collective.REDUCE_SCATTER)
        return everywhere and isinstance(self.topology, CayleyTopology)

    @property
    def table_hops(self) -> int:
        """About how many hops the table has, known before it is computed; here one per receiver and segment."""
        origins = 1 if self.translated else len(self.topology.data_ranks)
        return origins * (self.topology.order - 1) * self.copies

    @property
    def table_bytes(self) -> int:
        return HOP_BYTES * self.table_hops

    def tree(self, segment: int) -> int:
        """Return the number of the tree that the journal shows for a segment; here one tree for all."""
        del segment
        return 0

    @property
    def copies(self) -> int:
        """Segments that one rank sends to one target, over all messages."""
        return self.spec.messages * self.segments_per_message

    @cached_property
    def _tables(self) -> list[SendTable]:
        """By rank, or by address relative to the origin."""
        tables = [SendTable() for _ in self.topology.ranks()]
        for step, sender, port, item in self.hops():
            tables[sender].setdefault(item, []).append((step, port))
        for rows in tables:
            for leaving in rows.values():
                leaving.sort()
        return tables

    def onward(self, rank: Rank, relative: Rank, item: SegmentKey) -> Sequence[StepPort]:
        """Return when and where `rank`, at the address `relative` to the origin, passes on or sends a segment."""
        if not self.translated:
            return self._tables[rank].get(item, ())
        origin, target, segment = item
        goal = target if target == ALL_RANKS else self.topology.relative(target, origin)
        return self._tables[relative].get((0, goal, segment), ())

    def departures(self, rank: Rank) -> list[tuple[Step, Port, Rank, int]]:
        """Return (step, port, target, segment) of all sends of a source, in order."""
        if not self.translated:
            own = [(item, leaving) for item, leaving in self._tables[rank].items() if item[0] == rank]
            return sorted((*each, target, segment) for (_, target, segment), leaving in own for each in leaving)
        return [
            (step, port, goal if goal == ALL_RANKS else self.topology.absolute(goal, rank), segment)
            for step, port, goal, segment in self._departures_of_zero
        ]

    @cached_property
    def _departures_of_zero(self) -> list[tuple[Step, Port, Rank, int]]:
        return sorted((*each, goal, segment) for (_, goal, segment), row in self._tables[0].items() for each in row)

    def rule(self, view: LocalView) -> Rule:
        return self.fold_rule(view) if self.folds else TableRule(self, view)

    # --- backwards -------------------------------------------------------------------------------------------------

    @cached_property
    def last_step(self) -> Step:
        """The last step of the table."""
        return max(step for rows in self._tables for leaving in rows.values() for step, _ in leaving)

    @cached_property
    def _receipts(self) -> list[list[tuple[Step, Port, Rank, int]]]:
        """By receiver, as the table names it: (step, port, origin, segment) of its receipts."""
        found: list[list[tuple[Step, Port, Rank, int]]] = [[] for _ in self.topology.ranks()]
        for sender, rows in enumerate(self._tables):
            for (origin, _, segment), leaving in rows.items():
                for step, port in leaving:
                    receiver, its_port = self.topology.end(sender, port)
                    found[receiver].append((step, its_port, origin, segment))
        return found

    def fold_sends(self, view: LocalView) -> Iterator[FoldSend]:
        end = self.last_step + 1
        if not self.translated:
            for step, port, root, segment in self._receipts[view.rank]:
                yield end - step, root, self.tree(segment), segment, port
            return
        for root in self.block_owners:
            # Translations keep ports.
            for step, port, _, segment in self._receipts[view.relative(root)]:
                yield end - step, root, self.tree(segment), segment, port

    def fold_receipts(self, rank: Rank, root: Rank, segment: int) -> Sequence[FoldReceipt]:
        end = self.last_step + 1
        rows = self._onward_of((root, ALL_RANKS, segment), rank)
        return [(end - step, self.topology.neighbour(rank, port)) for step, port in rows]

    def _onward_of(self, item: SegmentKey, rank: Rank) -> Sequence[StepPort]:
        """Return when and where `rank` passes on or sends a segment."""
        return self.onward(rank, self.topology.relative(rank, item[0]), item)


class TableRule(Rule):
    """Send own segments and forward the segments of others, as the table says."""

    __slots__ = ("_algorithm", "_view")

    def __init__(self, algorithm: TableCollective, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._view.rank
        if me not in algorithm.sources:
            return
        payload = algorithm.payloads.segment
        for step, port, target, segment in algorithm.departures(me):
            yield step, port, (me, target, algorithm.tree(segment), segment, payload(me, target, segment))

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        onward, me, relative = self._algorithm.onward, self._view.rank, self._view.relative
        return [
            (when, port, segment)
            for _, segments in packets
            for segment in segments
            for when, port in onward(me, relative(segment[0]), (segment[0], segment[1], segment[3]))
        ]
