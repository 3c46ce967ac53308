"""Collectives whose ranks compute their own sends and receipts: a broadcast or an allgather, or the same backwards.

A forward schedule is a set of rows for every rank, (step, port, root, segment): its sends, and its receipts. Every
rank but the root receives each segment of a root once. Backwards a rank sends its partial result of a segment over the port
of that receipt, in step T + 1 - s.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from emunode.algorithms.base import LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.folding import FoldingSchedule, FoldReceipt, FoldSend
from emunode.model import (
    ALL_RANKS,
    CollectiveSpec,
    Port,
    PortPacket,
    Rank,
    ScheduledSend,
    Step,
)
from emunode.topologies.base import Topology
from emunode.trees.base import CACHE_ENTRIES

TimetableRow = tuple[Step, Port, Rank, int]
"""(step, port of this rank, root, segment)."""
Onward = Mapping[tuple[Rank, int], Sequence[tuple[Step, Port]]]
"""By (root, segment): the steps and ports of a rank's sends of the segment."""


class ScheduledCollective(FoldingSchedule):
    """A schedule by rows, forwards or backwards.

    >>> from emunode.algorithms.registry import make_algorithm
    >>> from emunode.model import Collective, CollectiveSpec
    >>> from emunode.topologies.registry import parse_topology
    >>> spec = CollectiveSpec("hypercube:3", Collective.ALLGATHER, "ring", source=0)
    >>> algorithm = make_algorithm(parse_topology("hypercube:3"), spec)
    >>> isinstance(algorithm, ScheduledCollective), algorithm.final_step
    (True, 7)
    """

    def __init__(self, topology: Topology, spec: CollectiveSpec) -> None:
        super().__init__(topology, spec)
        # Hot path: every arrival looks its rows up; a rank's own rows are computed once.
        self.onward = lru_cache(max(CACHE_ENTRIES // topology.order, 64))(self._onward)

    def validate(self) -> None:
        super().validate()
        self.cut()

    @abstractmethod
    def sends(self, rank: Rank) -> Iterable[TimetableRow]:
        """Return the sends of `rank` in the forward schedule."""

    @abstractmethod
    def receipts(self, rank: Rank) -> Iterable[TimetableRow]:
        """Return the receipts of `rank` in the forward schedule."""

    @property
    @abstractmethod
    def last_step(self) -> Step:
        """The last step of the schedule."""

    def tree(self, segment: int) -> int:
        """Return the tree of a segment; here all segments of a root take the same arcs."""
        del segment
        return 0

    @property
    def numbers(self) -> range:
        """The segments of one root, over all messages."""
        return range(self.spec.messages * self.segments_per_message)

    def _onward(self, rank: Rank) -> Onward:
        rows: dict[tuple[Rank, int], list[tuple[Step, Port]]] = {}
        for step, port, root, segment in self.sends(rank):
            rows.setdefault((root, segment), []).append((step, port))
        return rows

    def rule(self, view: LocalView) -> Rule:
        return self.fold_rule(view) if self.folds else FollowRule(self, view)

    # --- backwards -----------------------------------------------------------------------------------------------------

    def fold_sends(self, view: LocalView) -> Iterator[FoldSend]:
        for step, port, root, segment in self.receipts(view.rank):
            yield self.last_step + 1 - step, root, self.tree(segment), segment, port

    def fold_receipts(self, rank: Rank, root: Rank, segment: int) -> Sequence[FoldReceipt]:
        end = self.last_step + 1
        rows = self._rows_of(root, segment, rank)
        return [(end - step, self.topology.neighbour(rank, port)) for step, port in rows]

    # --- theory --------------------------------------------------------------------------------------------------------

    @cached_property
    def roots(self) -> Sequence[Rank]:
        """The ranks whose items are sent, or whose blocks are folded."""
        return self.block_owners if self.folds else self.sources

    def claims(self) -> list[Claim]:
        order = self.topology.order
        hops = len(self.roots) * len(self.numbers) * (order - 1)
        receivers = len(self.roots) * (1 if self.folds else order - 1)
        once = f"{self.citation}: every rank receives each segment once"
        return [
            Claim("segments", hops, "==", once),
            Claim("intact_deliveries", receivers * self.spec.messages, "==", once),
            *([] if self.folds else [Claim("duplicates", 0, "==", once)]),
        ]

    def _rows_of(self, root: Rank, segment: int, rank: Rank) -> Sequence[tuple[Step, Port]]:
        """Return the steps and ports of the sends of a segment of `root` by `rank`."""
        return self.onward(rank).get((root, segment), ())


class FollowRule(Rule):
    """Send own segments, and forward the segments of others, each in the steps of its rows."""

    __slots__ = ("_algorithm", "_rank")

    def __init__(self, algorithm: ScheduledCollective, view: LocalView) -> None:
        self._algorithm = algorithm
        self._rank = view.rank

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._rank
        if me not in algorithm.sources:
            return
        own = [
            (step, port, segment)
            for (root, segment), rows in algorithm.onward(me).items()
            if root == me
            for step, port in rows
        ]
        payload, tree = algorithm.payloads.segment, algorithm.tree
        for step, port, segment in sorted(own):
            yield step, port, (me, ALL_RANKS, tree(segment), segment, payload(me, ALL_RANKS, segment))

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        onward = self._algorithm.onward(self._rank)
        return [
            (when, port, segment)
            for _, segments in packets
            for segment in segments
            for when, port in onward.get((segment[0], segment[3]), ())
        ]
