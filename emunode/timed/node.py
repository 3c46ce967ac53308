"""A node that runs free: the same `Node`, whose steps begin when what they need is there. No clock, no socket.

It knows the timetable's side that concerns it: in which steps how many packets come to it, as a program of the papers'
machines says what it receives before it goes on. It executes its step t + 1 as soon as everything due in steps up to t is
there, whatever other nodes do. So it takes the very decisions of lock-step, in the same steps of its own, and its history is
the same byte for byte; what is new is when. Everything here is virtual time, in nanoseconds since the run began (`pacing`),
and may be worked out before the time has come: the shell lets no packet leave and takes none in before its time.
"""

from collections.abc import Iterable
from itertools import groupby

from emunode.engine.node import Node
from emunode.errors import FrameError
from emunode.model import Hop, Packet, Port, PortPacket, Step
from emunode.timed.cost_model import LinearCostModel, PortOccupancy

NEVER: Step = 2**62

Receipt = tuple[int, Port, Step]
"""(when it is received, port, step) of a packet that has come in."""
Departure = tuple[int, int, Port, Step, Packet]
"""(when it starts, when it is received at the other end, port, step, segments) of a packet that is to leave."""


Progress = tuple[list[Receipt], list[Departure], list[tuple[Step, list[Hop]]]]
"""What a node has decided: packets taken in, packets that leave, and hops judged with the step they belong to."""


class TimedNode:
    """One rank under the timed clock.

    `receipts` are the steps of all packets that come to it, in ascending order; after step `last` it sends nothing more.
    `pending` counts the departures handed out and not reported by `departed`: with some pending it does not go on to a
    step that needs nothing received, so that a source with a thousand packets does not make them all at once.
    """

    __slots__ = (
        "_costs", "_durations", "_filed", "_inbox", "_last", "_missing", "_node", "_ports", "_schedule", "awaited",
        "pending",
    )  # fmt: skip

    def __init__(
        self, node: Node, ports: PortOccupancy, costs: LinearCostModel, receipts: Iterable[Step], last: Step
    ) -> None:
        self._node = node
        self._ports = ports
        self._costs = costs
        self._durations: dict[int, int] = {}
        self._last = last
        self._schedule = [(step, len(list(same))) for step, same in groupby(receipts)]
        self._schedule.append((NEVER, 0))
        self._schedule.reverse()
        self.awaited, self._missing = self._schedule.pop()
        """The next step in which packets come to it, and how many of them are not there yet."""
        self._filed: dict[Step, list[tuple[Port, int, Packet]]] = {}
        self._inbox: list[PortPacket] = []
        self.pending = 0

    @property
    def done(self) -> bool:
        """Whether everything was received and nothing more will be sent, but for what is pending."""
        due = self._node.due
        return self.awaited == NEVER and (due is None or due > self._last)

    def arrive(self, step: Step, port: Port, deadline: int, segments: Packet) -> Progress | None:
        """Take a packet whose sender is done with it at `deadline`, and decide what can be now; None if nothing can.

        Raises FrameError for a packet that the timetable does not have.
        """
        awaited, due = self.awaited, self._node.due
        if step == awaited and (due is None or due > step):
            return self._advance([(port, deadline, segments)])
        if step < awaited or step > self._last:
            raise FrameError(f"rank {self._node.rank} is sent a packet of step {step} and waits for step {awaited}")
        self._filed.setdefault(step, []).append((port, deadline, segments))
        return None

    def advance(self) -> Progress:
        """Take in and decide whatever can be by now, as in the beginning. Raises RuleError as `Node.step` does."""
        return self._advance(None)

    def departed(self) -> Progress | None:
        """Count one departure off, and decide what waited for that; None if nothing did."""
        self.pending -= 1
        due = self._node.due
        if self.pending or due is None or due > self.awaited or due > self._last:
            return None
        return self._advance(None)

    def _advance(self, filed: list[tuple[Port, int, Packet]] | None) -> Progress:
        receipts: list[Receipt] = []
        departures: list[Departure] = []
        judged: list[tuple[Step, list[Hop]]] = []
        node, ports, durations, last = self._node, self._ports, self._durations, self._last
        while True:
            due, awaited = node.due, self.awaited
            if due is not None and due <= awaited:
                if self.pending or due > last:
                    break
                step, inbox = due, []
            else:
                if filed is None:
                    filed = self._filed.pop(awaited, None)
                    if filed is None:
                        break
                inbox = self._inbox
                for port, deadline, segments in filed:
                    size = len(segments[0][4]) if len(segments) == 1 else _size(segments)
                    duration = durations[size] if size in durations else self._duration(size)
                    receipts.append((ports.arrive(awaited, deadline, duration), port, awaited))
                    inbox.append((port, segments))
                self._missing -= len(filed)
                filed = None
                if self._missing > 0:
                    break
                if self._missing:
                    raise FrameError(f"rank {node.rank} is sent more packets of step {awaited} than the timetable has")
                step, self._inbox = awaited + 1, []
                self.awaited, self._missing = self._schedule.pop()
            outbox, hops = node.step(step, inbox)
            if hops:
                judged.append((step - 1, hops))
            if outbox and step <= last:
                for port, segments in outbox:
                    size = len(segments[0][4]) if len(segments) == 1 else _size(segments)
                    duration = durations[size] if size in durations else self._duration(size)
                    start = ports.depart(step, port, duration)
                    departures.append((start, start + duration, port, step, segments))
                self.pending += len(outbox)
        return receipts, departures, judged

    def _duration(self, size: int) -> int:
        self._durations[size] = self._costs.nanoseconds(size)
        return self._durations[size]


def _size(segments: Packet) -> int:
    return sum(len(segment[4]) for segment in segments)
