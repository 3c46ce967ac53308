"""Collectives in which the same content goes to everybody, or comes from everybody into one: trees and a timetable.

All of broadcast, allgather and reduce over trees is one idea. At root 0 there are some spanning trees and, for every arc
of a tree, a *delay*: what reaches a node in step s leaves for that child in step s + delay. The source puts piece number q
of a tree on its way `period` steps after number q - 1. That is a schedule of one source; then

* a **broadcast** runs it from one source;
* an **allgather** runs it from every rank at once, each on the translated trees (the schedule must then be free of
  collisions under translation: links used in one step of different types, or capacity for those that coincide);
* a **reduce** runs it backwards: what would arrive in step s leaves in step T + 1 - s, folded with what came in before.

So an algorithm is data: `make_trees`, `delays`, `period`. Rules are local: a node needs its own relative address.

Pieces. A message is cut into `pieces`. With redundancy x, piece number s of the whole run travels as copies
x s .. x s + x - 1, and copy c is number c div count on tree c mod count, so that the copies of one piece take different
trees and every tree carries the same load within one.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache

from emunode.collective.base import Algorithm, Claim, Content, LocalView, Rule
from emunode.model import EVERYBODY, Collective, Job, Packet, Port, PortModel, Rank, Segment, Send, Step
from emunode.topology.base import Topology
from emunode.trees.base import CACHE_ENTRIES, Trees

NEVER: Step = 2**62


class Dissemination(Algorithm):
    """Spanning trees at root 0 with a timetable, run forwards from one source or all, or backwards into one."""

    link_capacity: int | None = 1
    striped = True
    """Whether a message is cut into different parts for the trees (`count` x segments pieces), or goes whole over one."""

    def __init__(self, topology: Topology, job: Job) -> None:
        super().__init__(topology, job)
        self.onward = lru_cache(CACHE_ENTRIES)(self._onward)
        self._folded = lru_cache(CACHE_ENTRIES)(self._fold)

    def validate(self) -> None:
        self.trees = self.make_trees(self.topology)
        super().validate()
        self.cut(self.trees.count if self.striped and self.job.redundancy == 1 else 1)

    # --- what an algorithm states ----------------------------------------------------------------------------------

    @abstractmethod
    def make_trees(self, topology: Topology) -> Trees:
        """The spanning trees, rooted at 0."""

    def delays(self, relative: Rank, tree: int, ports: Sequence[Port]) -> Sequence[Step]:
        """Steps from the arrival of a piece at `relative` to its departure on each of `ports`, its children in order.

        Here: at once over all ports; over one port, one child after the other.
        """
        if self.job.port_model is PortModel.ALL_PORT:
            return [1] * len(ports)
        return range(1, len(ports) + 1)

    @cached_property
    def period(self) -> Step:
        """Steps between two pieces of one tree. Here: one; over one port, the number of the root's children."""
        return 1 if self.job.port_model is PortModel.ALL_PORT else len(self.trees.children(0, 0))

    @property
    def max_redundancy(self) -> int:
        return 1 if self.striped or self.collective is Collective.REDUCE else self.trees.count

    # --- what follows ----------------------------------------------------------------------------------------------

    def _onward(self, relative: Rank, tree: int) -> tuple[tuple[Port, Step], ...]:
        """(port, delay) of every child."""
        ports = self.trees.children(relative, tree)
        return tuple(zip(ports, self.delays(relative, tree, ports), strict=True))

    def offset(self, relative: Rank, tree: int) -> Step:
        """The step in which number 0 of `tree` reaches `relative`; 0 at the root."""
        step, here = 0, 0
        for port in self.trees.route(relative, tree):
            step += dict(self.onward(here, tree))[port]
            here = self.topology.neighbour(here, port)
        return step

    @cached_property
    def last_offset(self) -> Step:
        """The latest offset in any tree, by walking them; subclasses with a formula state it."""
        return max(step for tree in range(self.trees.count) for _, step in self._walk(tree))

    def _walk(self, tree: int) -> Iterator[tuple[Rank, Step]]:
        reached = [(0, 0)]
        while reached:
            rank, step = reached.pop()
            yield rank, step
            reached += [(self.topology.neighbour(rank, port), step + delay) for port, delay in self.onward(rank, tree)]

    @property
    def copies(self) -> int:
        """Copies of pieces that one source sends, over all trees."""
        return self.job.messages * self.pieces * self.job.redundancy

    @property
    def numbers(self) -> int:
        """Most copies that one tree carries: the copies over the trees, rounded up."""
        return -(-self.copies // self.trees.count)

    @property
    def last_step(self) -> Step:
        """The step in which the last copy arrives, by the timetable."""
        return self.last_offset + (self.numbers - 1) * self.period

    def numbered(self, tree: int) -> Iterator[tuple[int, int]]:
        """(number, segment) of every copy that travels on `tree`."""
        for copy in range(tree, self.copies, self.trees.count):
            yield copy // self.trees.count, copy // self.job.redundancy

    @cached_property
    def departures(self) -> list[tuple[Step, int, int, int, Port]]:
        """(step, tree, segment, place of the child, port) of all that a source starts, in order; the same for all."""
        return sorted(
            (number * self.period + delay, tree, segment, place, port)
            for tree in range(self.trees.count)
            for number, segment in self.numbered(tree)
            for place, (port, delay) in enumerate(self.onward(0, tree))
        )

    def rule(self, view: LocalView) -> Rule:
        return FoldRule(self, view) if self.collective is Collective.REDUCE else ForwardRule(self, view)

    # --- reduce ----------------------------------------------------------------------------------------------------

    def pieces_due(self, message: int) -> int:
        if self.collective is not Collective.REDUCE:
            return self.pieces
        pieces = range(message * self.pieces, (message + 1) * self.pieces)
        return sum(len(self.trees.children(0, piece % self.trees.count)) for piece in pieces)

    @cached_property
    def content(self) -> Content:
        return self._partial_result if self.collective is Collective.REDUCE else self.payloads.piece

    def _partial_result(self, origin: Rank, target: Rank, segment: int) -> bytes:
        return self._folded(self.topology.relative(origin, target), segment)

    def _fold(self, relative: Rank, segment: int) -> bytes:
        """The exclusive or of a piece over the subtree of `relative`: what a complete partial result says."""
        total, reached = 0, [relative]
        for rank in reached:
            origin = self.topology.absolute(rank, self.job.source)
            total ^= int.from_bytes(self.payloads.piece(origin, self.job.source, segment))
            ports = self.trees.children(rank, segment % self.trees.count)
            reached += [self.topology.neighbour(rank, port) for port in ports]
        return total.to_bytes(self.payloads.piece_bytes(segment))

    # --- theory ----------------------------------------------------------------------------------------------------

    def claims(self) -> list[Claim]:
        """What any timetable of trees implies; subclasses add what their paper states."""
        order, job = self.topology.order, self.job
        sources = order if self.collective is Collective.ALLGATHER else 1
        hops = sources * self.copies * (order - 1)
        deliveries = job.messages * (1 if self.collective is Collective.REDUCE else sources * (order - 1))
        return [
            Claim("steps", self.last_step, "==", f"{self.citation}: timetable of the trees", derived=True),
            Claim("segments", hops, "==", f"{self.citation}: spanning trees"),
            Claim("intact_deliveries", deliveries, "==", f"{self.citation}: spanning trees"),
        ]

    def claims_under(self, crashed: Mapping[Rank, Step]) -> list[Claim]:
        """A crash adds neither traffic nor delay; whom it cuts off, the trees tell."""
        if not self._sources_live(crashed):
            return []
        bounds = [
            Claim(claim.name, claim.predicted, "<=", f"{claim.source}; less where nodes crash")
            for claim in self.claims()
            if claim.relation == "==" and claim.name in ("steps", "segments")
        ]
        if self.collective is Collective.BROADCAST:
            source = f"{self.citation}: tree paths without a crashed node"
            bounds.insert(0, Claim("intact_deliveries", self._served(crashed), "==", source))
        return super().claims_under(crashed) + bounds

    def _served(self, crashed: Mapping[Rank, Step]) -> int:
        """Messages of a broadcast of which a rank that never crashes gets every piece by some tree."""
        gone = {self.topology.relative(rank, self.job.source): step for rank, step in crashed.items()}
        got: dict[Rank, set[int]] = {}
        for tree in range(self.trees.count):
            copies = list(self.numbered(tree))
            for rank, step, alive_until in self._reach(tree, gone):
                segments = got.setdefault(rank, set())
                segments.update(segment for number, segment in copies if step + number * self.period < alive_until)
        messages = range(0, self.job.messages * self.pieces, self.pieces)
        return sum(
            segments.issuperset(range(first, first + self.pieces))
            for rank, segments in got.items()
            if rank and rank not in gone
            for first in messages
        )

    def _reach(self, tree: int, gone: Mapping[Rank, Step]) -> Iterator[tuple[Rank, Step, Step]]:
        """(rank, offset, limit): what would arrive before the step `limit` does arrive at `rank`."""
        reached = [(0, 0, gone.get(0, NEVER))]
        while reached:
            rank, step, limit = reached.pop()
            yield rank, step, limit
            for port, delay in self.onward(rank, tree):
                child = self.topology.neighbour(rank, port)
                # sent while the parent lives, of what the parent got, while the child lives
                own = min(gone.get(rank, NEVER), gone.get(child, NEVER))
                reached.append((child, step + delay, min(own, limit + delay)))


class ForwardRule(Rule):
    """Pass what arrives on a tree to the children in that tree, each after its delay; a source starts all copies."""

    __slots__ = ("_algorithm", "_view")

    def __init__(self, algorithm: Dissemination, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view

    def start(self) -> Iterator[Send]:
        algorithm, me = self._algorithm, self._view.rank
        if me not in algorithm.sources:
            return
        piece = algorithm.payloads.piece
        for step, tree, segment, _, port in algorithm.departures:
            yield step, port, (me, EVERYBODY, tree, segment, piece(me, EVERYBODY, segment))

    def receive(self, step: Step, packets: Sequence[Packet]) -> Iterable[Send]:
        onward, relative = self._algorithm.onward, self._view.relative
        return [
            (step + delay, port, segment)
            for _, segments in packets
            for segment in segments
            for port, delay in onward(relative(segment[0]), segment[2])
        ]


class FoldRule(Rule):
    """Fold what the children send into the own contribution, and pass it to the parent when the timetable says so."""

    __slots__ = ("_algorithm", "_partial", "_relative", "_view")

    def __init__(self, algorithm: Dissemination, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view
        self._relative = view.relative(algorithm.job.source)
        self._partial: dict[int, int] = {}

    def start(self) -> Iterator[Send]:
        algorithm, relative = self._algorithm, self._relative
        if not relative:
            return
        end = algorithm.last_step + 1
        sends = []
        for tree in range(algorithm.trees.count):
            port, offset = algorithm.trees.parent(relative, tree), algorithm.offset(relative, tree)
            for number, segment in algorithm.numbered(tree):
                sends.append((end - offset - number * algorithm.period, tree, segment, port))
        for step, tree, segment, port in sorted(sends):
            yield step, port, lambda tree=tree, segment=segment: self._fold(tree, segment)  # type: ignore[misc]

    def receive(self, step: Step, packets: Sequence[Packet]) -> Iterable[Send]:
        for _, segments in packets:
            for _, _, _, index, payload in segments:
                self._partial[index] = self._partial.get(index, 0) ^ int.from_bytes(payload)
        return ()

    def _fold(self, tree: int, segment: int) -> Segment:
        """Own piece and everything folded so far."""
        me, root = self._view.rank, self._algorithm.job.source
        own = self._algorithm.payloads.piece(me, root, segment)
        total = int.from_bytes(own) ^ self._partial.pop(segment, 0)
        return me, root, tree, segment, total.to_bytes(len(own))
