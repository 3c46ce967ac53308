"""Breadth-first broadcast: an allgather on any connected network, in which every block travels on shortest paths.

In phase t every node receives the blocks of all origins at distance t, spread over its links as evenly as the shortest paths
allow (`last_hops`). A neighbour that passes a block on received it in the phase before, so nothing ever waits for a block.

The decision is the receiver's, but the sender has to know it: the schedule is a table, computed once per process. For every
node it says which (origin, chunk) to pass on, when and over which ports. Where translations carry every node to every other,
one receiver is computed and the table has a row per relative address.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from math import ceil
from typing import ClassVar

from emunode.algorithms.any_network.last_hops import Phases, last_hops, phases, require_searchable, share_out
from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.losses import Losses, Outages, Place
from emunode.model import (
    ALL_RANKS,
    Collective,
    CollectiveSpec,
    Duplex,
    Port,
    PortModel,
    PortPacket,
    Rank,
    ScheduledSend,
    Step,
)
from emunode.registry import register
from emunode.topologies.base import CayleyTopology, Topology

Hop = tuple[Step, Port]
Rows = dict[tuple[Rank, int], list[Hop]]
"""What one node passes on: (step, port) by origin and segment, in order of steps."""
CITATION = "breadth-first broadcast (Zhao et al. 2022, arXiv:2202.03356)"
MOST_CHUNKS = 1000
"""Most segments per message that `segments=auto` chooses."""


class TableAllgather(Algorithm):
    """An allgather by table: every node passes on each segment that it has received over given ports in given steps.

    Segment number s of an origin is on tree s, because every segment may take other arcs.
    """

    collective = Collective.ALLGATHER
    precomputed = True
    duplexes = (Duplex.FULL,)

    @abstractmethod
    def arrivals(self, receiver: Rank) -> Iterator[tuple[Step, Port, Rank, int]]:
        """(step, port, origin, segment) of everything that a node receives. With translations only node 0 is asked."""

    @property
    def copies(self) -> int:
        """Segments of one origin, over all messages."""
        return self.spec.messages * self.segments_per_message

    @cached_property
    def _tables(self) -> list[Rows]:
        """What every node passes on, by rank; with translations by address relative to the origin, which is then 0."""
        topology, tables = self.topology, [Rows() for _ in self.topology.ranks()]
        translated = isinstance(topology, CayleyTopology)
        for receiver in range(1) if translated else topology.ranks():
            ends = {port: (sender, its_port) for port, sender, its_port in topology.ends(receiver)}
            for step, port, origin, segment in self.arrivals(receiver):
                sender, its_port = ends[port]
                # The receiver was node 0: the translation of the origin makes this hop one of the tree of node 0.
                place = topology.relative(sender, origin) if translated else sender
                tables[place].setdefault((0 if translated else origin, segment), []).append((step, its_port))
        if len(topology.data_ranks) < topology.order:
            self._spare_switches(tables)
        for rows in tables:
            for hops in rows.values():
                hops.sort()
        return tables

    def _spare_switches(self, tables: Sequence[Rows]) -> None:
        """Leave out what would go to a switch that does not pass it on."""
        hops = sorted(
            (
                (step, port, rank, item)
                for rank, rows in enumerate(tables)
                for item, row in rows.items()
                for step, port in row
            ),
            reverse=True,
        )
        # Backwards in time: what a switch passes on is known before what it receives.
        for step, port, rank, item in hops:
            receiver = self.topology.neighbour(rank, port)
            if self.topology.is_switch(receiver) and not tables[receiver].get(item):
                tables[rank][item].remove((step, port))

    def rows(self, rank: Rank) -> Rows:
        """What `rank` passes on, by origin and segment; with translations `rank` is relative to the origin, which is then
        0."""
        return self._tables[rank]

    def onward(self, origin: Rank, rank: Rank, segment: int) -> Sequence[Hop]:
        """The steps and ports in which `rank` passes on a segment, or sends its own."""
        if isinstance(self.topology, CayleyTopology):
            return self._tables[self.topology.relative(rank, origin)].get((0, segment), ())
        return self._tables[rank].get((origin, segment), ())

    def rule(self, view: LocalView) -> Rule:
        return TableRule(self, view)

    def losses(self, outages: Outages) -> Losses | None:
        """Everything behind a blocked hop misses the segment; the table says what is behind it."""
        receivers = [rank for rank in self.topology.data_ranks if rank not in outages.faulty]
        losses, messages = Losses(), self.spec.messages
        for origin in receivers:
            losses.delivered += messages * (len(receivers) - 1)
            missing = set()
            for segment in range(self.copies):
                for rank, place in self._unreached(outages, origin, segment):
                    if rank not in outages.faulty and not self.topology.is_switch(rank):
                        missing.add((rank, segment // self.segments_per_message))
                        losses.blame(rank, [place])
            losses.delivered -= len(missing)
        return losses

    def _unreached(self, outages: Outages, origin: Rank, segment: int) -> Iterator[tuple[Rank, Place]]:
        """The ranks that a segment does not reach, each with the first outage on its way."""
        waiting: list[tuple[Rank, Place | None]] = [(origin, None)]
        while waiting:
            rank, above = waiting.pop()
            for step, port in self.onward(origin, rank, segment):
                receiver = self.topology.neighbour(rank, port)
                place = above or outages.blocks(step, rank, port, receiver)
                if place is not None:
                    yield receiver, place
                waiting.append((receiver, place))


class TableRule(Rule):
    """Send the own segments and pass on those of others, as the table says."""

    __slots__ = ("_algorithm", "_rank", "_relative", "_rows", "_translated")

    def __init__(self, algorithm: TableAllgather, view: LocalView) -> None:
        self._algorithm = algorithm
        self._rank = view.rank
        self._relative = view.relative
        self._translated = isinstance(algorithm.topology, CayleyTopology)

    def _onward(self, origin: Rank, segment: int) -> Sequence[Hop]:
        if self._translated:
            return self._algorithm.rows(self._relative(origin)).get((0, segment), ())
        return self._algorithm.rows(self._rank).get((origin, segment), ())

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._rank
        if me not in algorithm.sources:
            return
        hops = sorted((*hop, segment) for segment in range(algorithm.copies) for hop in self._onward(me, segment))
        for step, port, segment in hops:
            yield step, port, (me, ALL_RANKS, segment, segment, algorithm.payloads.segment(me, ALL_RANKS, segment))

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        onward = self._onward
        return [
            (when, port, segment)
            for _, segments in packets
            for segment in segments
            for when, port in onward(segment[0], segment[3])
        ]


class BreadthFirstAllgather(TableAllgather):
    """What both forms of breadth-first broadcast share: the phases and their loads."""

    family = "any"
    citation = CITATION
    packed: ClassVar[bool]

    def validate(self) -> None:
        require_searchable(self.topology, self.name)
        if not isinstance(self.topology, CayleyTopology):
            # One node a step in the order of a table is collision-free only if all nodes use the same port.
            self.port_models = (PortModel.ALL_PORT,)
        super().validate()
        self.cut()

    @property
    def phases(self) -> Phases:
        """The loads of all phases, found without the table."""
        return phases(self.topology)

    def _shares(self, receiver: Rank) -> list[Mapping[Port, list[tuple[Rank, int]]]]:
        """By phase and port: what a node receives, as (origin, segment)."""
        return [share_out(classes, self.copies) for classes in last_hops(self.topology, receiver)]

    def claims(self) -> list[Claim]:
        data, order = len(self.topology.data_ranks), self.topology.order
        hops, source = self.copies * data * (order - 1), f"{CITATION}: every node receives every block once"
        return [
            # Switches receive only what they pass on.
            Claim("segments", hops, "==" if data == order else "<=", source),
            Claim("intact_deliveries", data * (data - 1) * self.spec.messages, "==", source),
            Claim("duplicates", 0, "==", source),
            *self.structure_claims(),
        ]

    def structure_claims(self) -> list[Claim]:
        return [Claim("longest_detour", 0, "==", f"{CITATION}: shortest paths")]


@register
class PhasedAllgather(BreadthFirstAllgather):
    """Breadth-first broadcast with one segment per link and step; a phase takes as many steps as its busiest link needs.

    With c segments per message the load L_t of phase t, a fraction, takes ceil(c L_t) steps; `segments=auto` chooses the c
    that takes the least time. Over one port, on networks with translations, a node receives one segment per step in the
    order of the phases: c (N-1) steps, which is optimal. All of this holds for any number of messages, which count as
    further segments.
    """

    name = "bfb"
    link_capacity = 1
    port_models = (PortModel.ALL_PORT, PortModel.ONE_PORT)

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        require_searchable(topology, cls.name)
        found, most = phases(topology), min(spec.message_bytes, MOST_CHUNKS)
        # Beyond the number that makes all loads whole, further cuts cannot lower the bytes on a link.
        return min(
            range(1, min(found.whole_chunks, most) + 1),
            key=lambda chunks: found.steps(chunks) * (startup + per_byte * ceil(spec.message_bytes / chunks)),
        )

    @cached_property
    def _starts(self) -> list[Step]:
        """The step before each phase: a phase ends when the busiest receiver of the network has everything of it."""
        longest: list[int] = []
        for receiver in [0] if isinstance(self.topology, CayleyTopology) else self.topology.ranks():
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
            Claim("steps", least, ">=", "lower bound: t - 1 + c N_t / d for the blocks from distance t or more"),
        ]


@register
class PackedAllgather(BreadthFirstAllgather):
    """Breadth-first broadcast with one packet per link and phase, of whatever size: as many start-ups as the diameter.

    With c segments per message the packets of phase t hold ceil(c L_t) segments; `segments=auto` chooses the least c for
    which all c L_t are whole numbers. On arc-transitive networks (star, hypercube, Eisenstein-Jacobi, square tori, ..) both
    bounds on an allgather are then met at once: the diameter in start-ups, and (N-1)/d messages over every link in transfer.
    """

    name = "bfb-packed"

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        del startup, per_byte
        require_searchable(topology, cls.name)
        return min(phases(topology).whole_chunks, spec.message_bytes, MOST_CHUNKS)

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
                "transfer_bytes", sum(packets) * size, self.byte_relation, f"{CITATION}: sum of ceil(c L_t) segments"
            ),
        ]
        if not self.spec.packet_limit:
            claims.append(Claim("startups", len(packets), "==", f"{CITATION}: one packet per phase and link, optimal"))
        return claims
