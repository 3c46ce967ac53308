"""One-port broadcast on the star graph by recursion over substars, each with its own part of the message (Qiu).

K. Qiu, "Broadcasting on the star and pancake interconnection networks", Proc. Int'l Parallel Processing Symp., 1995, in
the words of Tseng and Sheu 1997, section 6.1: S_n is partitioned into n substars and the message sliced into n segments;
each segment is sent to one substar, where the broadcast proceeds recursively; finally the segments are combined in each
node. That leaves the paths and the order of the exchanges open; both are our choice here.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from heapq import heapify, heappop, heappush
from math import factorial

from emunode.algorithms.base import Crosses, Dependence, LocalView, Rule, Timing, byte_relation
from emunode.algorithms.claims import Claim
from emunode.algorithms.star.bounds import MULTIPLE, TimeBounded, time_bounds
from emunode.errors import ScenarioError
from emunode.model import (
    ALL_RANKS,
    Collective,
    Duplex,
    Port,
    PortModel,
    PortPacket,
    Rank,
    ScheduledSend,
    Step,
    StepPort,
)
from emunode.registry import register
from emunode.topologies.star import StarGraph
from emunode.trees.base import CACHE_ENTRIES, require


@register
class SubstarSegments(TimeBounded):
    """Distribute the parts of a message to the n substars, recursively, then exchange them over every link. One-port.

    All positions are relative to the source. The message has n!/2 segments, one for each substar S_2. S_i stands for a
    substar with fixed symbols at positions i+1..n; its block consists of the segments of all S_2 in it.

    1. Distribution, levels i = n..3, i-1 steps each: the root x of each S_i sends the block of the substar with symbol x_j
       at position i over link j, for j = 2..i-1, and the receiver passes it on over link i. Last, x sends the block for x_1
       over link i.
    2. Base, one step: the root of each S_2 sends its segment to the other node.
    3. Combination, levels i = 3..n, i-1 steps each: all nodes exchange the blocks of their S_{i-1} over link i, and then
       what that brought over links 2..i-1. The first symbols of the neighbours are those of all the other substars.

    n^2 - n - 1 start-ups and 2m (n!-1)/n! bytes: T = O(n^2 Ts + m Tc). The term n log n Tc of table 1 belongs to messages
    that are too short to be cut into n!/2 segments; they are refused here. A node knows its own relative label only.
    Several messages travel together. The algorithm survives no fault.
    """

    name = "substar-segments"
    collective = Collective.BROADCAST
    port_models = (PortModel.ONE_PORT,)
    duplexes = (Duplex.FULL,)
    dependence = Dependence.FIRST_ARRIVAL
    timing = Timing.FIXED
    citation = f"{MULTIPLE}, section 6.1 (Qiu)"

    def validate(self) -> None:
        super().validate()
        self.star = require(self.topology, StarGraph, self.name)
        self.segments_per_message = self.star.order // 2
        if self.spec.segments != 1:
            raise ScenarioError(
                "segments", self.spec.segments, f"{self.name} cuts each message into n!/2 segments itself"
            )
        if self.segments_per_message > self.spec.message_bytes:
            raise ScenarioError(
                "message_bytes",
                self.spec.message_bytes,
                f"{self.name} cuts each message into n!/2 = {self.segments_per_message} segments of a byte or more",
            )
        # 2 + .. + (n-1) steps of distribution, and the base step: n(n-1)/2.
        self.base = (self.star.n * (self.star.n - 1)) // 2
        self.home = lru_cache(CACHE_ENTRIES)(self._home)

    def _home(self, number: int) -> bytes:
        """Return a node of the S_2 that segment `number` of a message is for: ranks 2p and 2p + 1 differ in positions 1
        and 2.
        """
        return self.star.permutation(2 * number)

    def distribution(self, level: int) -> Step:
        """Return the first step of a level of the distribution; level 2 is the base."""
        # Levels n .. i+1 take (n-1) + .. + i steps before level i.
        return self.base - (level * (level - 1)) // 2 + 1 if level > 2 else self.base

    def combination(self, level: int) -> Step:
        """Return the first step of a level of the combination."""
        # Levels 3 .. i-1 take 2 + .. + (i-2) steps before level i.
        return self.base + ((level - 1) * (level - 2)) // 2

    def hand_down(self, symbols: bytes, number: int, level: int) -> StepPort:
        """Return the step and port when the root of an S_level sends a segment of its block (distribution and base)."""
        home = self.home(number)
        # From the outermost level down: the first position that differs names the target substar of the segment.
        for i in range(level, 2, -1):
            wanted = home[i - 1]
            if symbols[i - 1] != wanted:
                j = symbols.index(wanted) + 1
                # x_1 is wanted: over link i itself, in the last step of the level; else over link j, in step j-1 of it
                return (self.distribution(i) + i - 2, i - 2) if j == 1 else (self.distribution(i) + j - 2, j - 2)
        # All of positions 3..n agree: the segment is the root's own, and goes to the other node of its S_2.
        return self.base, 0

    def exchanges(self, symbols: bytes, number: int) -> Iterator[StepPort]:
        """Yield the steps when a node sends a segment of the block of its own S_{i-1} over link i (combination, first
        step)."""
        home = self.home(number)
        for i in range(self.star.n, 2, -1):
            # Outside the S_{i-1} of the segment the node has nothing of it to exchange at this level or below.
            if symbols[i - 1] != home[i - 1]:
                return
            yield self.combination(i), i - 2

    def follow_ups(self, symbols: bytes, number: int, step: Step, port: Port) -> Iterator[StepPort]:
        """Yield the sends that follow the arrival of a segment in `step` on `port`, even if the node has it already."""
        if step == self.base:
            return
        if step < self.base:
            # The level is the one whose span of steps contains `step`.
            level = next(i for i in range(self.star.n, 2, -1) if step < self.distribution(i - 1))
            # By link `level`, the segment has reached the root of its S_{level-1}; by another link, it is passed on.
            yield self.hand_down(symbols, number, level - 1) if port == level - 2 else (step + 1, level - 2)
        # Only the first exchange of a level is handed on; what came over links 2..i-1 is complete.
        elif step == self.combination(port + 2):  # the exchange over link i is followed by links 2..i-1
            yield from ((step + j - 1, j - 2) for j in range(2, port + 2))

    def rule(self, view: LocalView) -> Rule:
        return SubstarRule(self, view)

    def follow(self, segment: int, crosses: Crosses) -> Collection[Rank]:
        """Return the ranks that a segment reaches, in order of steps: a lost segment takes away the exchanges that
        would have followed its arrival.
        """
        star, source, number = self.star, self.spec.source, segment % self.segments_per_message
        reached, root = {0}, star.permutation(0)
        crossings = [
            (step, 0, port) for step, port in (self.hand_down(root, number, star.n), *self.exchanges(root, number))
        ]
        heapify(crossings)
        while crossings:
            step, rank, port = heappop(crossings)
            peer = star.neighbour(rank, port)
            if not crosses(step, star.absolute(rank, source), port, star.absolute(peer, source)):
                continue
            symbols = star.permutation(peer)
            # The rule repeats every forwarding, even for a segment that the node holds; the own exchanges only once.
            following = list(self.follow_ups(symbols, number, step, port))
            if peer not in reached:
                reached.add(peer)
                following += self.exchanges(symbols, number)
            for later, out in following:
                # An exchange whose step has passed cannot be made up for.
                if later > step:
                    heappush(crossings, (later, peer, out))
        return {star.absolute(rank, source) for rank in reached}

    def claims(self) -> list[Claim]:
        star, spec = self.star, self.spec
        n, order = star.n, star.order
        source = f"{self.citation}: recursion over substars"
        received = order * (order - 2) // 2 + order // 2
        passed = sum((2 * i - 3) * (order // factorial(i)) * (factorial(i - 1) // 2) for i in range(3, n + 1))
        transferred = spec.messages * self.largest_segment_bytes * (order - 1)
        claims = [
            Claim("steps", n * n - n - 1, "==", source),
            Claim("segments", spec.messages * (received + passed), "==", source),
            Claim("intact_deliveries", spec.messages * (order - 1), "==", source),
            Claim("transfer_bytes", transferred, byte_relation(self), f"{source}: 2m (n!-1)/n!"),
            *time_bounds(star, spec),
        ]
        if not spec.packet_limit:
            claims.append(Claim("startups", n * n - n - 1, "==", source))
        return claims


class SubstarRule(Rule):
    """Send each segment where its place in the recursion leads; a node's own exchanges follow the first arrival."""

    __slots__ = ("_algorithm", "_known", "_rank", "_symbols")

    def __init__(self, algorithm: SubstarSegments, view: LocalView) -> None:
        self._algorithm = algorithm
        self._rank: Rank = view.rank
        self._symbols = algorithm.star.permutation(view.relative(algorithm.spec.source))
        self._known: set[int] = set()

    def start(self) -> Iterable[ScheduledSend]:
        algorithm, me, symbols = self._algorithm, self._rank, self._symbols
        if me != algorithm.spec.source:
            return ()
        sends: list[ScheduledSend] = []
        for index in range(algorithm.spec.messages * algorithm.segments_per_message):
            number = index % algorithm.segments_per_message
            self._known.add(index)
            segment = (me, ALL_RANKS, 0, index, algorithm.payloads.segment(me, ALL_RANKS, index))
            departures = (
                algorithm.hand_down(symbols, number, algorithm.star.n),
                *algorithm.exchanges(symbols, number),
            )
            sends += [(step, port, segment) for step, port in departures]
        # The engine draws the sends in order of steps.
        return sorted(sends, key=lambda send: send[:2])

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        algorithm, symbols = self._algorithm, self._symbols
        sends: list[ScheduledSend] = []
        for port, segments in packets:
            for segment in segments:
                index = segment[3]
                number = index % algorithm.segments_per_message
                departures = list(algorithm.follow_ups(symbols, number, step, port))
                if index not in self._known:
                    self._known.add(index)
                    departures += algorithm.exchanges(symbols, number)
                sends += [(later, out, segment) for later, out in departures]
        return sends
