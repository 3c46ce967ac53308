"""Collectives that carry the same content to all ranks, or combine content of all ranks: trees and a timetable.

Broadcast, allgather and reduce over trees follow one scheme. There are spanning trees with root 0 and, for every arc of a
tree, a *delay*: a segment that reaches a node in step s leaves for that child in step s + delay. The source starts segment
q of a tree `period` steps after segment q - 1. This is the schedule of one source. Then

* a **broadcast** runs it from one source;
* an **allgather** runs it from every rank at once, each on the translated trees (the schedule must then be free of
  collisions under translation: links used in one step of different types, or capacity for those that coincide);
* a **reduce** runs it backwards: a segment that would arrive in step s leaves in step T + 1 - s, combined with
  everything that came in before;
* a **reduce-scatter** runs an allgather backwards in this way: a reduce into every rank at once.

So an algorithm is data: `trees_class`, `delays`, `period`. Rules are local: a node needs its own relative address.

Segments. A message is cut into `segments`. With redundancy x, segment number s of the whole run travels as copies
x s .. x s + x - 1, and copy c is number c div count on tree c mod count, so that the copies of one segment take different
trees and every tree carries the same load within one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import ClassVar, Final

from emunode.algorithms.base import Algorithm, LocalView, Pipe, Rule, require_translations
from emunode.algorithms.claims import Claim
from emunode.algorithms.folding import FoldingSchedule, FoldReceipt, FoldSend
from emunode.errors import RegistrationError
from emunode.model import (
    ALL_RANKS,
    ROOTLESS,
    Collective,
    CollectiveSpec,
    Port,
    PortModel,
    PortPacket,
    Rank,
    ScheduledSend,
    Step,
)
from emunode.topologies.base import Topology
from emunode.trees.base import CACHE_ENTRIES, Trees

WALKED: Final = 10_000
"""Nodes of the largest network whose tree is walked for a claim."""


def original_of(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm as it runs without faults; another one if this goes around them."""
    return (isinstance(algorithm, TreeCollective) and algorithm.replaces) or algorithm


class OverTrees(Algorithm):
    """An algorithm whose messages travel over spanning trees."""

    trees: Trees
    trees_class: ClassVar[Callable[..., Trees]]
    """Makes the spanning trees of a topology; an algorithm whose trees depend on more than that overrides `make_trees`."""

    def make_trees(self, topology: Topology) -> Trees:
        """Return the spanning trees, rooted at 0; here from `trees_class`."""
        if not hasattr(self, "trees_class"):
            raise RegistrationError(f"algorithm {type(self).__qualname__} defines neither make_trees nor trees_class")
        return self.trees_class(topology)


def tree_count(algorithm: Algorithm) -> int:
    """Return the number of spanning trees that messages travel over; 0 if they take other ways."""
    return algorithm.trees.count if isinstance(algorithm, OverTrees) else 0


class TreeCollective(OverTrees, FoldingSchedule):
    """Spanning trees with root 0 and a timetable.

    The timetable runs forwards from one source or from all, or backwards to one target.

    >>> from emunode.algorithms.registry import make_algorithm
    >>> from emunode.model import Collective, CollectiveSpec
    >>> from emunode.topologies.registry import parse_topology
    >>> spec = CollectiveSpec("star:4", Collective.BROADCAST, "edt", source=0, redundancy=3)
    >>> algorithm = make_algorithm(parse_topology("star:4"), spec)
    >>> isinstance(algorithm, TreeCollective), algorithm.trees.count, algorithm.trees.path(23, 0)
    (True, 3, (0, 1, 15, 13, 12, 18, 23))
    """

    replaces: Algorithm | None = None
    """The algorithm as it runs without faults, if this one goes around them."""
    link_capacity: int | None = 1
    splits_across_trees = True
    """Whether a message is cut into `count` x `segments` parts for the trees.

    If not, it travels whole over one tree.
    """

    def __init__(self, topology: Topology, spec: CollectiveSpec) -> None:
        super().__init__(topology, spec)
        # Hot path: rules ask for the same (rank, tree) for every segment; plain form: the methods without a cache.
        self.child_delays = lru_cache(CACHE_ENTRIES)(self._child_delays)
        self._offset = lru_cache(CACHE_ENTRIES)(self.offset)

    def validate(self) -> None:
        # Trees first: the base class checks `redundancy`, and the number of trees limits it.
        require_translations(self)
        self.trees = self.make_trees(self.rooted)
        super().validate()
        # With redundancy every tree must carry whole messages, so there are no parts to cut.
        self.cut(self.trees.count if self.splits_across_trees and self.spec.redundancy == 1 else 1)

    # --- defined by an algorithm -----------------------------------------------------------------------------------

    def delays(self, relative: Rank, tree: int, ports: Sequence[Port]) -> Sequence[Step]:
        """Return for each of `ports` the steps from arrival to departure of a segment.

        The ports lead from `relative` to its children. Here a node forwards at once over all ports. Over one port it
        forwards to one child after the other.
        """
        if self.spec.port_model is PortModel.ALL_PORT:
            return [1] * len(ports)
        # One child per step, in the order of `children`.
        return range(1, len(ports) + 1)

    @cached_property
    def period(self) -> Step:
        """Steps between two segments of one tree.

        This is 1, or over one port the number of children of the root.
        """
        # Over one port the source is busy with a segment for one step per child.
        return 1 if self.spec.port_model is PortModel.ALL_PORT else len(self.trees.children(0, 0))

    @property
    def max_redundancy(self) -> int:
        # A reduce folds over one path per contribution; a second copy would be counted twice.
        return 1 if self.splits_across_trees or self.folds else self.trees.count

    # --- derived from that -----------------------------------------------------------------------------------------

    @property
    def forwards(self) -> bool:
        """Whether this is a broadcast whose nodes only forward their receipts."""
        if self.spec.collective is not Collective.BROADCAST:
            return False
        return type(self.rule(LocalView(self.topology, self.spec.source))) is ForwardRule

    @property
    def pipe(self) -> Pipe | None:
        """The pipe that the algorithm is, if it is one."""
        all_port = self.spec.port_model is PortModel.ALL_PORT
        if not all_port or self.link_capacity != 1 or self.trees.count != 1 or not self.forwards:
            return None
        return Pipe(self.numbers, self.last_offset, self.period)

    @property
    def forwards_at_once(self) -> bool:
        """Whether the algorithm is a pipe whose nodes forward in the step after a receipt.

        False for a network that is too large to look at.
        """
        if self.pipe is None or self.topology.order > WALKED:
            return False
        return all(delay == 1 for rank in self.topology.ranks() for _, delay in self.child_delays(rank, 0))

    def _child_delays(self, relative: Rank, tree: int) -> tuple[tuple[Port, Step], ...]:
        """Return (port, delay) of every child."""
        ports = self.trees.children(relative, tree)
        return tuple(zip(ports, self.delays(relative, tree, ports), strict=True))

    def offset(self, relative: Rank, tree: int) -> Step:
        """Return the step when copy number 0 of `tree` reaches `relative`.

        0 at the root.
        """
        step, here = 0, 0
        for port in self.trees.route(relative, tree):
            # Delays add up along the path: this is the step of arrival of number 0.
            step += dict(self.child_delays(here, tree))[port]
            here = self.rooted.neighbour(here, port)
        return step

    @cached_property
    def last_offset(self) -> Step:
        """The largest offset in any tree, found by walking all trees.

        Subclasses with a formula override it.
        """
        return max(step for tree in range(self.trees.count) for _, step in self._walk(tree))

    def _walk(self, tree: int) -> Iterator[tuple[Rank, Step]]:
        reached = [(0, 0)]
        while reached:
            rank, step = reached.pop()
            yield rank, step
            reached += [
                (self.rooted.neighbour(rank, port), step + delay) for port, delay in self.child_delays(rank, tree)
            ]

    @property
    def copies(self) -> int:
        """Copies that one source sends over all trees."""
        return self.spec.messages * self.segments_per_message * self.spec.redundancy

    @property
    def numbers(self) -> int:
        """The most copies that one tree carries.

        That is the number of copies divided by the number of trees, rounded up.
        """
        # Copies are dealt to the trees in turn, so the fullest tree has the quotient, rounded up.
        return -(-self.copies // self.trees.count)

    @property
    def last_step(self) -> Step:
        """The step of the last copy's arrival, by the timetable."""
        return self.last_offset + (self.numbers - 1) * self.period

    def copies_on_tree(self, tree: int) -> Iterator[tuple[int, int]]:
        """Yield (number, segment) of every copy that travels on `tree`."""
        # Copies `tree`, `tree` + count, ..: the inverse of copy mod count.
        for copy in range(tree, self.copies, self.trees.count):
            yield copy // self.trees.count, copy // self.spec.redundancy

    @cached_property
    def places_of_copies(self) -> list[list[tuple[int, int]]]:
        """(tree, number) of every copy, by segment."""
        places: list[list[tuple[int, int]]] = [[] for _ in range(self.spec.messages * self.segments_per_message)]
        for tree in range(self.trees.count):
            for number, segment in self.copies_on_tree(tree):
                places[segment].append((tree, number))
        return places

    def tree_of(self, segment: int) -> int:
        """Return the tree of a segment that travels only once.

        Segments do so where contributions are folded.
        """
        return segment % self.trees.count

    @cached_property
    def departures(self) -> list[tuple[Step, int, int, int, Port]]:
        """All sends of a source, in order: (step, tree, segment, place of the child, port).

        They are the same for all sources.
        """
        return sorted(
            # Lists every send of a source once and sorts: rules then replay it lazily, step by step.
            (number * self.period + delay, tree, segment, place, port)
            for tree in range(self.trees.count)
            for number, segment in self.copies_on_tree(tree)
            for place, (port, delay) in enumerate(self.child_delays(0, tree))
        )

    def rule(self, view: LocalView) -> Rule:
        return self.fold_rule(view) if self.folds else ForwardRule(self, view)

    # --- reduce and reduce-scatter --------------------------------------------------------------------------------------

    def segments_due(self, message: int, receiver: Rank = ALL_RANKS) -> int:
        # The trees of all roots look the same from their root.
        del receiver
        if not self.folds:
            return self.segments_per_message
        segments = range(message * self.segments_per_message, (message + 1) * self.segments_per_message)
        # The root receives one partial result per child of its tree, and they count as contributions.
        return sum(len(self.trees.children(0, self.tree_of(segment))) for segment in segments)

    def feeders(self, rank: Rank, root: Rank, segment: int) -> Sequence[Rank]:
        # Without steps, as they cost a walk down the tree: most questions are about the number of children only.
        children = self.tree_children(self.topology.relative(rank, root), self.tree_of(segment))
        return [self.topology.absolute(child, root) for child in children]

    def fold_receipts(self, rank: Rank, root: Rank, segment: int) -> Sequence[FoldReceipt]:
        end, tree, number = self.last_step + 1, self.tree_of(segment), segment // self.trees.count
        children = self.tree_children(self.topology.relative(rank, root), tree)
        return [
            (end - self.crossing_step(child, tree, number), self.topology.absolute(child, root)) for child in children
        ]

    def fold_sends(self, view: LocalView) -> Iterator[FoldSend]:
        end = self.last_step + 1
        for root in self.block_owners:
            relative = view.relative(root)
            for tree in range(self.trees.count) if relative else ():
                port = self.trees.parent(relative, tree)
                for number, segment in self.copies_on_tree(tree):
                    yield end - self.crossing_step(relative, tree, number), root, tree, segment, port

    # --- theory ----------------------------------------------------------------------------------------------------

    def claims(self) -> list[Claim]:
        """Return the claims that every timetable of trees implies.

        Subclasses add claims of their paper.
        """
        order, spec = self.topology.order, self.spec
        # An allgather has a source at every rank; a schedule that runs backwards has as many hops as the one it reverses.
        sources = order if self.collective in ROOTLESS else 1
        hops = sources * self.copies * (order - 1)
        receivers = sources * (1 if self.folds else len(self.topology.data_ranks) - 1)
        deliveries = spec.messages * receivers
        return [
            Claim("steps", self.last_step, "==", f"{self.citation}: timetable of the trees", derived=True),
            Claim("segments", hops, "==", f"{self.citation}: spanning trees"),
            Claim("intact_deliveries", deliveries, "==", f"{self.citation}: spanning trees"),
        ]

    def crossing_step(self, child: Rank, tree: int, number: int) -> Step:
        """Return the step when copy `number` of `tree` reaches `child`, in the forward direction."""
        return self._offset(child, tree) + number * self.period

    @cached_property
    def _spanned(self) -> frozenset[Rank]:
        """Ranks that the trees reach, without the root.

        A tree that avoids broken links may not reach all ranks.
        """
        # With several trees all ranks are spanned; only the single tree that avoids broken links may miss some.
        if self.trees.count > 1:
            return frozenset(range(1, self.topology.order))
        return frozenset(rank for rank, _ in self._walk(0)) - {0}

    @cached_property
    def receivers(self) -> frozenset[Rank]:
        """Ranks that the trees reach and that own data."""
        if len(self.topology.data_ranks) == self.topology.order:
            return self._spanned
        return frozenset(rank for rank in self._spanned if not self.rooted.is_switch(rank))

    @property
    def reached(self) -> frozenset[Rank]:
        """Ranks that the trees reach, relative to the source and without it."""
        return self._spanned

    def tree_children(self, relative: Rank, tree: int) -> list[Rank]:
        """Return the children of a relative rank."""
        return [self.rooted.neighbour(relative, port) for port in self.trees.children(relative, tree)]


class ForwardRule(Rule):
    """Forward each arrival to the children in its tree, each after its delay.

    A source starts all copies.
    """

    __slots__ = ("_algorithm", "_view")

    def __init__(self, algorithm: TreeCollective, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._view.rank
        if me not in algorithm.sources:
            return
        payload = algorithm.payloads.segment
        # Lazily: only the payload of the segment that is sent next has to exist.
        for step, tree, segment, _, port in algorithm.departures:
            yield step, port, (me, ALL_RANKS, tree, segment, payload(me, ALL_RANKS, segment))

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        child_delays, relative = self._algorithm.child_delays, self._view.relative
        # Hot path: one list per step and rank, without a generator per segment.
        return [
            (step + delay, port, segment)
            for _, segments in packets
            for segment in segments
            for port, delay in child_delays(relative(segment[0]), segment[2])
        ]
