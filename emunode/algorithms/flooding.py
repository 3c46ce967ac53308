"""Flooding: a node forwards every new segment to all neighbours that have not just sent it."""

from collections.abc import Collection, Iterable, Iterator, Sequence

from emunode.algorithms.base import Algorithm, Crosses, Dependence, LocalView, Rule, Timing, receivers_by_distance
from emunode.algorithms.claims import Claim
from emunode.model import (
    ALL_RANKS,
    Collective,
    Duplex,
    Port,
    PortPacket,
    Rank,
    ScheduledSend,
    Segment,
    Step,
)
from emunode.registry import register


class FloodRule(Rule):
    """Send a new segment on every port except those where it arrived in the step of its first arrival."""

    __slots__ = ("_algorithm", "_known", "_view")

    def __init__(self, algorithm: "Flood", view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view
        self._known: set[int] = set()

    def start(self) -> Iterable[ScheduledSend]:
        return self._own_sends() if self._view.rank == self._algorithm.spec.source else ()

    def _own_sends(self) -> Iterator[ScheduledSend]:
        source = self._algorithm.spec.source
        for index in range(self._algorithm.segments_per_message * self._algorithm.spec.messages):
            self._known.add(index)
            segment = (source, ALL_RANKS, 0, index, self._algorithm.payloads.segment(source, ALL_RANKS, index))
            for port in self._view.live_ports:
                # Live ports at the time of sending: a rank that knows its broken links does not send on them.
                yield index + 1, port, segment

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        known = self._known
        fresh: dict[int, tuple[Segment, list[Port]]] = {}
        # All copies of a step first: a segment that came over two ports must go out over neither of them.
        for port, segments in packets:
            for segment in segments:
                index = segment[3]
                if index in fresh:
                    fresh[index][1].append(port)
                elif index not in known:
                    known.add(index)
                    fresh[index] = segment, [port]
        live_ports, after = self._view.live_ports, step + 1
        # A neighbour that has just sent the segment has it already.
        return [
            (after, port, segment)
            for segment, came_over in fresh.values()
            for port in live_ports
            if port not in came_over
        ]


@register
class Flood(Algorithm):
    """Flooding on any network.

    A node needs to remember only its receipts. Every rank receives a segment in the step that is its distance; P
    segments are pipelined, one per step. Every link carries each segment once, or twice if both ends receive it in the same
    step; so networks with odd cycles need full-duplex links. Flooding reaches every rank that the faults leave connected to
    the source.
    """

    family = "any"
    name = "flood"
    collective = Collective.BROADCAST
    citation = "flooding (Segall 1983, PI protocol)"
    timing = Timing.ADAPTIVE
    dependence = Dependence.FIRST_ARRIVAL

    def validate(self) -> None:
        if not self.topology.bipartite:  # neighbours at the same distance send to each other in the same step
            self.duplexes = (Duplex.FULL,)
        super().validate()
        self.cut()

    def rule(self, view: LocalView) -> Rule:
        return FloodRule(self, view)

    @property
    def least_hops(self) -> int:
        """Every link carries each segment once, or twice."""
        return self.topology.link_count * self.spec.messages * self.segments_per_message

    @property
    def tolerated_faults(self) -> int:
        return (self.topology.connectivity or 1) - 1

    def follow(self, segment: int, crosses: Crosses) -> Collection[Rank]:
        """Return the ranks that a segment reaches, found breadth first: a rank is reached in its first possible step."""
        received = {self.spec.source: segment}
        reached = [self.spec.source]
        for rank in reached:
            for port, peer in self.topology.adjacent(rank):
                if peer not in received and crosses(received[rank] + 1, rank, port, peer):
                    received[peer] = received[rank] + 1
                    reached.append(peer)
        return received

    def claims(self) -> list[Claim]:
        topology, segments = self.topology, self.segments_per_message * self.spec.messages
        links = topology.link_count * segments
        receivers, farthest = len(topology.data_ranks) - 1, topology.eccentricity(self.spec.source)
        claims = [Claim("deliveries", receivers * self.spec.messages, "==", f"{self.citation}: connected")]
        if topology.bipartite:
            claims += [
                Claim("steps", farthest + segments - 1, "==", f"{self.citation}: distance + segment"),
                Claim("packets", links, "==", f"{self.citation}: each link once if there are no odd cycles"),
            ]
        else:
            claims += [
                Claim(
                    "steps",
                    farthest + segments,
                    "<=",
                    f"{self.citation}: a last step between nodes of equal distance",
                ),
                Claim("packets", links, ">=", f"{self.citation}: each link once or twice"),
                Claim("packets", 2 * links, "<=", f"{self.citation}: each link once or twice"),
            ]
        if segments == 1:
            claims.append(
                Claim("receivers_per_step", receivers_by_distance(self), "==", f"{self.citation}: ranks by distance")
            )
        return claims
