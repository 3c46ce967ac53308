"""Breadth-first broadcast: an allgather on any connected network, with every block on shortest paths.

In phase t every node receives the blocks of all origins at distance t, spread over its links as evenly as the shortest paths
allow (`last_hops`). A neighbour that passes a block on received it in the phase before, so nothing ever waits for a block.

The decision is the receiver's, but the sender has to know it: the schedule is a table, computed once per process. For
every node it lists each (origin, chunk) to pass on, when and over which ports. Where translations carry every node to
every other, one receiver is computed and the table has a row per relative address.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from math import ceil

from emunode.algorithms.any_network.last_hops import Phases, last_hops, phases, require_searchable, share_out
from emunode.algorithms.any_network.table_collective import TableCollective, TableHop
from emunode.algorithms.base import byte_relation
from emunode.algorithms.claims import Claim, lower_bound, one_segment
from emunode.model import ALL_RANKS, Collective, CollectiveSpec, Port, PortModel, Rank, Step
from emunode.registry import register
from emunode.topologies.base import Topology

CITATION = "breadth-first broadcast (Zhao et al. 2022, arXiv:2202.03356)"
MOST_CHUNKS = 1000
"""Most segments per message that `segments=auto` chooses."""


class BreadthFirstAllgather(TableCollective):
    """The common part of both forms of breadth-first broadcast: the receipts of each phase, and the loads.

    Segment number s of an origin is on tree s, because every segment may take other arcs.
    """

    family = "any"
    collective = Collective.ALLGATHER
    citation = CITATION

    def validate(self) -> None:
        require_searchable(self.topology, self.name)
        if not self.translated:
            # One receipt per step in the order of a table is free of collisions only if all nodes use the same port.
            self.port_models = (PortModel.ALL_PORT,)
        super().validate()
        self.cut()

    @property
    def phases(self) -> Phases:
        """The loads of all phases, found without the table."""
        return phases(self.topology)

    @abstractmethod
    def arrivals(self, receiver: Rank) -> Iterator[tuple[Step, Port, Rank, int]]:
        """Yield (step, port, origin, segment) of everything that a node receives. With translations only node 0 is
        asked.
        """

    def hops(self) -> Iterator[TableHop]:
        topology, found = self.topology, []
        for receiver in range(1) if self.translated else topology.ranks():
            ends = {port: (sender, its_port) for port, sender, its_port in topology.ends(receiver)}
            for step, port, origin, segment in self.arrivals(receiver):
                sender, its_port = ends[port]
                # The receiver was node 0: the translation of the origin makes this hop one of the tree of node 0.
                place, root = (topology.relative(sender, origin), 0) if self.translated else (sender, origin)
                found.append(TableHop(step, place, its_port, (root, ALL_RANKS, segment)))
        return iter(found if len(topology.data_ranks) == topology.order else self._without_idle_switches(found))

    def _without_idle_switches(self, hops: Iterable[TableHop]) -> list[TableHop]:
        """Leave out segments for a switch that does not pass them on."""
        passed_on, kept = set(), []
        # Backwards in time: the sends of a switch are known before its receipts.
        for hop in sorted(hops, reverse=True):
            receiver = self.topology.neighbour(hop.sender, hop.port)
            if not self.topology.is_switch(receiver) or (receiver, hop.item) in passed_on:
                passed_on.add((hop.sender, hop.item))
                kept.append(hop)
        return kept

    def tree(self, segment: int) -> int:
        return segment

    def _shares(self, receiver: Rank) -> list[Mapping[Port, list[tuple[Rank, int]]]]:
        """Return the receipts of a node as (origin, segment), by phase and port."""
        return [share_out(classes, self.copies) for classes in last_hops(self.topology, receiver)]

    def claims(self) -> list[Claim]:
        data, order = len(self.topology.data_ranks), self.topology.order
        hops, source = self.copies * data * (order - 1), f"{CITATION}: every node receives every block once"
        return [
            # Switches receive only segments that they pass on.
            Claim("segments", hops, "==" if data == order else "<=", source),
            Claim("intact_deliveries", data * (data - 1) * self.spec.messages, "==", source),
            Claim("duplicates", 0, "==", source),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        return [Claim("longest_detour", 0, "==", f"{CITATION}: shortest paths")]


@register
class PhasedBreadthFirstAllgather(BreadthFirstAllgather):
    """Breadth-first broadcast with one segment per link and step; a phase takes as many steps as its busiest link needs.

    With c segments per message the load L_t of phase t, a fraction, takes ceil(c L_t) steps; `segments=auto` chooses the c
    that takes the least time. Over one port, on networks with translations, a node receives one segment per step in the
    order of the phases: c (N-1) steps, the optimum. All of this holds for any number of messages: they count as further
    segments.
    """

    name = "bfb"
    link_capacity = 1
    port_models = (PortModel.ALL_PORT, PortModel.ONE_PORT)

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        require_searchable(topology, cls.name)
        found, most = phases(topology), min(spec.most_parts, MOST_CHUNKS)
        # Beyond the number that makes all loads whole, further cuts cannot lower the bytes on a link.
        return min(
            range(1, min(found.whole_chunks, most) + 1),
            key=lambda chunks: found.steps(chunks) * (startup + per_byte * spec.cut(chunks).longest),
        )

    @cached_property
    def _starts(self) -> list[Step]:
        """The step before each phase: a phase ends when the busiest receiver of the network has everything of it."""
        longest: list[int] = []
        for receiver in range(1) if self.translated else self.topology.ranks():
            for phase, shares in enumerate(self._shares(receiver)):
                longest += [0] * (phase + 1 - len(longest))
                longest[phase] = max(longest[phase], *map(len, shares.values()), 0)
        return list(accumulate(longest, initial=0))

    def arrivals(self, receiver: Rank) -> Iterator[tuple[Step, Port, Rank, int]]:
        one_port, received = self.spec.port_model is PortModel.ONE_PORT, 0
        for phase, shares in enumerate(self._shares(receiver)):
            for port, items in shares.items():
                start = received if one_port else self._starts[phase]
                for step, (origin, segment) in enumerate(items, start + 1):
                    yield step, port, origin, segment
                received += len(items)

    def claims(self) -> list[Claim]:
        chunks, order = self.copies, self.topology.order
        claims = [*super().claims(), Claim("max_link_segments_per_step", 1, "==", f"{CITATION}: one segment per step")]
        if self.spec.port_model is PortModel.ONE_PORT:
            return [*claims, Claim("steps", chunks * (order - 1), "==", "one receipt per step: c (N-1), optimal")]
        exact = len(self.topology.data_ranks) == order
        least = self.phases.least_steps(chunks)
        return [
            *claims,
            Claim(
                "steps", self.phases.steps(chunks), "==" if exact else "<=", f"{CITATION}: sum over t of ceil(c L_t)"
            ),
            lower_bound(
                "steps",
                least,
                "lower bound: t - 1 + c N_t / d for the blocks from distance t or more",
                one_segment(self.segments_per_message),
            ),
        ]


@register
class PackedAllgather(BreadthFirstAllgather):
    """Breadth-first broadcast with one packet per link and phase, of whatever size: as many start-ups as the diameter.

    With c segments per message the packets of phase t hold ceil(c L_t) segments; `segments=auto` chooses the least c
    that makes all c L_t whole numbers. On arc-transitive networks (star, hypercube, Eisenstein-Jacobi, square tori, ..)
    both bounds on an allgather are then met at once: the diameter in start-ups, and (N-1)/d messages over every link in
    transfer.
    """

    name = "bfb-packed"

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        del startup, per_byte
        require_searchable(topology, cls.name)
        return min(phases(topology).whole_chunks, spec.most_parts, MOST_CHUNKS)

    def arrivals(self, receiver: Rank) -> Iterator[tuple[Step, Port, Rank, int]]:
        for phase, shares in enumerate(self._shares(receiver), 1):
            for port, items in shares.items():
                for origin, segment in items:
                    yield phase, port, origin, segment

    def claims(self) -> list[Claim]:
        found, size = self.phases, self.largest_segment_bytes
        packets = tuple(ceil(self.copies * load) for load in found.loads)
        exact = len(self.topology.data_ranks) == self.topology.order
        transfer = ceil(found.transfer * self.spec.messages * self.spec.message_bytes)
        claims = [*super().claims(), Claim("transfer_bytes", transfer, ">=", f"{CITATION}: T_B = sum of the loads L_t")]
        if not exact:
            return [*claims, Claim("steps", len(packets), "<=", f"{CITATION}: one phase per distance")]
        claims += [
            Claim("steps", len(packets), "==", f"{CITATION}: one phase per distance, optimal"),
            Claim("heaviest_link_segments_per_step", packets, "==", f"{CITATION}: ceil(c L_t) segments in phase t"),
            Claim(
                "transfer_bytes", sum(packets) * size, byte_relation(self), f"{CITATION}: sum of ceil(c L_t) segments"
            ),
        ]
        if not self.spec.packet_limit:
            claims.append(Claim("startups", len(packets), "==", f"{CITATION}: one packet per phase and link, optimal"))
        return claims
