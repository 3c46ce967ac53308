"""The memory engine of the timed clock with faults: all ranks of a network, step by step, with the times of every packet.

It computes the history that hosts have to obtain. Packets of a step depend only on packets of earlier steps, whatever their
times, so one pass over the steps gives start and end of every packet without a queue of events.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from emunode.algorithms.base import Algorithm
from emunode.engine.known_paths import KnownPaths
from emunode.engine.rank_set import AlteredCopy, RankSet, altered_copies
from emunode.engine.step import reverse_ports_of
from emunode.faults.in_time import FaultsInTime, TimedFault
from emunode.model import FOLDING, FaultKnowledge, HopOutcome, Port, Rank, Step
from emunode.net.wire import encode_losses, encode_rows
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.faulty_rank import Arrival, FaultyRank, Timetable, packet_size

NOTHING_PLANNED = Timetable({}, {}, {})


class TimedPacket(NamedTuple):
    """A packet with its times in nanoseconds; `end` is -1 for one that was lost."""

    step: Step
    sender: Rank
    port: Port
    receiver: Rank
    bytes: int
    start: int
    end: int


class TimedMemoryEngine:
    """The ranks of one run with faults. Call `step` for steps 1, 2, .. until `busy` is false."""

    def __init__(
        self,
        algorithm: Algorithm,
        faults: Iterable[TimedFault],
        costs: LinearCostModel,
        timetables: Mapping[Rank, Timetable],
        last: Step,
    ) -> None:
        """Nothing is sent after step `last`."""
        self._last = last
        self._algorithm = algorithm
        self._topology = algorithm.topology
        self._costs = costs
        self._timetables = timetables
        self._create_node = RankSet(algorithm, self._topology.ranks()).create_node
        self._reverse_ports = reverse_ports_of(self._topology)
        self.faults = faults_of(algorithm, faults)
        self._ranks: dict[Rank, FaultyRank] = {}
        self._due: dict[Step, set[Rank]] = {}
        self._arrived: dict[Step, dict[Rank, list[Arrival]]] = {}
        self._places: dict[tuple[Step, Rank, Port, int], list[int]] = {}
        """By step, sender, port and end of crossing, the packets that are not received yet, as indices of `packets`."""
        self.packets: list[TimedPacket] = []
        """Every packet so far; those of the last step have the end of their crossing, which is no later than the receipt."""
        self.altered_copies: list[AlteredCopy] = []
        for rank in algorithm.sources:
            self._note_due(rank)

    @property
    def busy(self) -> bool:
        """Whether packets are unread, or sends are scheduled."""
        return bool(self._arrived) or any(step <= self._last for step in self._due)

    def step(self, step: Step) -> bytearray:
        """Run a step; returns journal rows: arrivals of step - 1 and losses."""
        rows = bytearray()
        arrived = self._arrived.pop(step - 1, {})
        for rank in sorted(arrived.keys() | self._due.pop(step, set())):
            self._run(step, rank, arrived.get(rank, []), rows)
        return rows

    def _run(self, step: Step, rank: Rank, arrivals: list[Arrival], rows: bytearray) -> None:
        reverse, neighbours = self._reverse_ports[rank], self._topology.neighbours(rank)
        result = self._rank(rank).step(step, arrivals)
        for received, port, crossed in result.receipts:
            place = self._places[step - 1, neighbours[port], reverse[port], crossed].pop()
            self.packets[place] = self.packets[place]._replace(end=received)
        encode_rows(rows, step - 1, rank, neighbours, 0, reverse, result.hops)
        if self._algorithm.spec.redundancy > 1 and self.faults.payload_altered:
            self.altered_copies += altered_copies(step - 1, rank, result.hops)
        for start, _, port, when, segments in result.losses:
            receiver = neighbours[port]
            encode_losses(rows, when, rank, port, receiver, segments, HopOutcome.LOST)
            self.packets.append(TimedPacket(when, rank, port, receiver, packet_size(segments), start, -1))
        for start, end, port, when, segments in result.departures:
            receiver = neighbours[port]
            self._places.setdefault((when, rank, port, end), []).append(len(self.packets))
            self.packets.append(TimedPacket(when, rank, port, receiver, packet_size(segments), start, end))
            self._arrived.setdefault(when, {}).setdefault(receiver, []).append((end, reverse[port], segments))
        self._note_due(rank)

    def _rank(self, rank: Rank) -> FaultyRank:
        found = self._ranks.get(rank)
        if found is None:
            timetable = self._timetables.get(rank, NOTHING_PLANNED)
            model = self._algorithm.spec.port_model
            found = self._ranks[rank] = FaultyRank(
                rank, self._topology, self._create_node, model, self._costs, self.faults, timetable, self._last
            )
        return found

    def _note_due(self, rank: Rank) -> None:
        due = self._rank(rank).due
        if due is not None:
            self._due.setdefault(due, set()).add(rank)


def faults_of(algorithm: Algorithm, faults: Iterable[TimedFault]) -> FaultsInTime:
    """The faults of a run of this algorithm."""
    spec = algorithm.spec
    return FaultsInTime(
        algorithm.topology,
        spec.seed,
        faults,
        # Where contributions are folded, a segment that carries a rank's own name is a fold of what others sent.
        origin_is_author=spec.collective not in FOLDING,
        knows=spec.knowledge in (FaultKnowledge.NEIGHBOURS, FaultKnowledge.ALL),
        known=KnownPaths(algorithm),
    )
