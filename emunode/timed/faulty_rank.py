"""A rank under the timed clock with faults: one step of it, and the fate of the packets that it sends.

Model. The steps of a rank are those of lock-step, and so is what it decides in each. It runs step t when it has received all
packets of earlier steps that reach it, as without faults. For a packet that was lost it waits no longer than its timetable
says: no packet starts before its time in the fault-free timetable. So

    start = max(port free, last receipt of earlier steps, fault-free start)

and faults make no packet earlier. A rank that has received all that its timetable has goes by arrivals alone: they come no
earlier than without faults. One that lacks something reads the fault-free start off its own clock, which may drift. A rank
that recovers begins a new *life*: a node in its initial state, whose packets that should have started before are missed.
No clock, no socket.
"""

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from emunode.algorithms.base import LocalView
from emunode.engine.node import Node
from emunode.faults.in_time import FaultsInTime
from emunode.model import Hop, Packet, Port, PortModel, Rank, Step
from emunode.timed.cost_model import LinearCostModel, PortOccupancy
from emunode.topologies.base import Topology

Arrival = tuple[int, Port, Packet]
"""(time at which it has crossed, port, segments) of a packet that arrives."""


class Departure(NamedTuple):
    """A packet that starts; `end` is the time at which it has crossed, or would have."""

    start: int
    end: int
    port: Port
    step: Step
    segments: Packet


class RankStep(NamedTuple):
    """The outcome of one step of a rank."""

    receipts: list[tuple[int, Port, int]]
    """Time of receipt, port, and time at which it had crossed, of every packet that it read."""
    departures: list[Departure]
    """Packets that arrive; a delayed one is of a later step."""
    losses: list[Departure]
    hops: list[Hop]


class Timetable(NamedTuple):
    """The part of one rank in the fault-free timetable."""

    receipts: Mapping[Step, int]
    """Packets that arrive, by step."""
    starts: Mapping[tuple[Step, Port], int]
    """The time at which each packet leaves, in nanoseconds."""
    ends: Mapping[Step, int]
    """The time at which all packets of a step have been received, by steps in which any arrive."""


class Life:
    """A node between its creation and its crash."""

    def __init__(self, node: Node, view: LocalView, born: int, dies: int, ports: PortOccupancy) -> None:
        self.node = node
        self.view = view
        self.born = born
        self.dies = dies
        self.ports = ports
        ports.wait_until(born)


class FaultyRank:
    """One rank of a run with faults. Call `step` for every step in which packets have arrived, or in which it is `due`."""

    def __init__(
        self,
        rank: Rank,
        topology: Topology,
        create_node: Callable[[LocalView], Node],
        model: PortModel,
        costs: LinearCostModel,
        faults: FaultsInTime,
        timetable: Timetable,
        last: Step,
    ) -> None:
        """It sends nothing after step `last`."""
        self.rank = rank
        self._last = last
        self._faults = faults
        self._costs = costs
        self._timetable = timetable
        self._unread = sorted(timetable.receipts, reverse=True)
        self._behind = False
        """Whether something did not come that the timetable has: then the clock of the rank decides when it goes on."""
        self._begins: dict[Step, int] = {}
        for (step, _), time in timetable.starts.items():
            self._begins[step] = min(time, self._begins.get(step, time))
        self._lives = []
        for born, dies in faults.lives(rank):
            view = LocalView(topology, rank)
            if faults.knows:
                view.live_ports = faults.live_ports(rank, born)
            node = create_node(view)
            if faults.timing_affected:
                node.enable_queueing()
            self._lives.append(Life(node, view, born, dies, PortOccupancy(model, topology.degree)))

    @property
    def due(self) -> Step | None:
        """The next step in which it has something to send without receiving anything first, or None."""
        return min((life.node.due for life in self._lives if life.node.due is not None), default=None)

    def step(self, step: Step, arrivals: Sequence[Arrival]) -> RankStep:
        """Read the packets of step - 1; send those of `step`. RuleError as of `Node.step`.

        Arrivals come in any order, but those of one port in the order in which they were sent.
        """
        result = RankStep([], [], [], [])
        self._note_missing(step, len(arrivals))
        came: dict[int, list[Arrival]] = {}
        # Sorted, because the order of receipts over one port decides about their times; packets of one port keep theirs.
        for arrival in sorted(arrivals, key=itemgetter(0, 1)):
            number = next(number for number, life in enumerate(self._lives) if arrival[0] <= life.dies)
            came.setdefault(number, []).append(arrival)
        for number, life in enumerate(self._lives):
            if number in came or life.node.due == step:
                self._live(life, step, came.get(number, ()), result)
        return result

    def _live(self, life: Life, step: Step, came: Sequence[Arrival], result: RankStep) -> None:
        """Run a step of one life."""
        inbox: dict[Port, Packet] = {}
        for crossed, port, segments in came:
            duration = self._costs.nanoseconds(packet_size(segments))
            result.receipts.append((life.ports.arrive(step - 1, crossed, duration), port, crossed))
            # What arrives by one port in one step is one packet for the rule, as in lock-step.
            inbox[port] = inbox.get(port, ()) + segments
        if self._faults.knows:
            begins = max(life.ports.received, self._begins.get(step, 0))
            life.view.live_ports = self._faults.live_ports(self.rank, begins)
        outbox, hops = life.node.step(step, list(inbox.items()))
        result.hops.extend(hops)
        if step <= self._last:  # the step after the last one only reads
            for port, segments in outbox:
                self._send(life, step, port, segments, result)

    def _note_missing(self, step: Step, came: int) -> None:
        """Note whether packets of earlier steps are missing, of which `came` of step - 1 have come."""
        while self._unread and self._unread[-1] < step:
            last = self._unread.pop()
            # Of steps before step - 1 that are left nothing has come at all.
            self._behind |= last < step - 1 or self._timetable.receipts[last] > came

    # --- packets ---------------------------------------------------------------------------------------------------

    def _send(self, life: Life, step: Step, port: Port, segments: Packet, result: RankStep) -> None:
        """Let a packet start, unless its sender is down or knows that it would not arrive; it may be lost."""
        faults, rank = self._faults, self.rank
        intended = self._timetable.starts.get((step, port))
        start = life.ports.earliest(step, port)
        if intended is not None:
            # A node that has received nothing yet follows its own schedule: what that has for earlier times is missed.
            if intended < life.born == life.ports.received:
                return
            start = max(start, faults.clock(rank, intended) if self._behind or life.born else intended)
        if start >= life.dies or faults.silent(rank, start) or (faults.knows and faults.is_dead(rank, port, start)):
            return
        sent, lost, free = launch(faults, self._costs, rank, step, port, segments, start)
        if free is not None:
            life.ports.occupy(port, free)
        if lost:
            result.losses.extend(each for each in lost if each.step <= self._last)
        if sent is not None and sent.step <= self._last:
            result.departures.append(sent)


def launch(
    faults: FaultsInTime, costs: LinearCostModel, rank: Rank, step: Step, port: Port, segments: Packet, start: int
) -> tuple[Departure | None, list[Departure], int | None]:
    """Let a packet start: what arrives of it, what is lost of it, and when its port is free; None if nothing is sent.

    A delayed packet arrives in a later step, and later than its port is free.
    """
    losses = []
    segments, withheld = faults.treated(step, rank, port, segments, start)
    if withheld:
        losses.append(Departure(start, start, port, step, withheld))
    if not segments:
        return None, losses, None
    duration = costs.nanoseconds(packet_size(segments))
    end = start + faults.occupancy(step, rank, port, start, duration)
    transit = faults.transit(step, rank, port, segments, start)
    # A duplicate arrives with the first copy and occupies nothing.
    sent = Departure(start, end, port, step, transit.segments * transit.copies)
    crosses = faults.crosses(rank, port, start, end)
    if transit.lost or (transit.delay and not crosses):
        return None, [*losses, sent._replace(segments=transit.segments)], end
    if not crosses:
        return None, [*losses, sent], end
    # Anything may happen to a delayed packet until it arrives.
    late = sent._replace(end=end + transit.delay * duration, step=step + transit.delay)
    if faults.crosses(rank, port, start, late.end):
        return late, losses, end
    return None, [*losses, late], end


def packet_size(segments: Packet) -> int:
    """The bytes of a packet that its occupancy depends on."""
    return sum(len(segment[4]) for segment in segments)
