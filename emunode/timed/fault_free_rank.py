"""A rank under the timed clock without faults: its steps begin as soon as their packets are there. No clock, no socket.

Its part of the timetable gives the number of packets that arrive in each step; programs of the papers' machines likewise
wait for a known number of receipts. It runs its step t + 1 once all packets due in steps up to t have arrived, regardless of
other nodes. So it takes the same decisions in the same steps as in lock-step, and its history is equal byte for byte; only
the times differ. All times are virtual (`cost_model`), in nanoseconds since the run began, and are computed ahead: the
engine lets no packet leave, and takes none in, before its time.
"""

from collections.abc import Iterable
from itertools import groupby

from emunode.engine.node import Node
from emunode.errors import FrameError
from emunode.model import Hop, Packet, Port, PortPacket, Step
from emunode.timed.cost_model import LinearCostModel, PortOccupancy
from emunode.timed.hosted_rank import RankProgress
from emunode.timed.rank import Receipt
from emunode.timed.transmission import Departure

NEVER: Step = 2**62


class FaultFreeRank:
    """One rank under the timed clock without faults: the fast equivalent of a `TimedRank` with the policy `BySteps`.

    It is here for its speed, because a run whose packets are late is undecided. A packet, with its bytes and rows, takes 4
    to 7 microseconds of processor time, and 17 to 29 with `BySteps` (a broadcast on star:5, an allgather on hypercube:6, in
    memory): 3 to 4 times as much.

    `receipts` are the steps of all packets that arrive, in ascending order; the rank sends nothing after step `last`.
    `pending` counts departures that were returned and not yet reported to `departed`. While there are pending
    departures, the node does not begin a step that needs no receipt; otherwise a source with a thousand packets would
    make them all at once.
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
        # By size: a run has few sizes of packets, and the formula is one of floats that are rounded.
        self._durations: dict[int, int] = {}
        self._last = last
        # (step, packets due) in ascending order; reversed, so that `pop` takes the next step at no cost.
        self._schedule = [(step, len(list(same))) for step, same in groupby(receipts)]
        # A step that never comes, so that the node waits for nothing after its last receipt.
        self._schedule.append((NEVER, 0))
        self._schedule.reverse()
        self.awaited, self._missing = self._schedule.pop()
        """The next step with arrivals, and the number of its packets that have not arrived yet."""
        self._filed: dict[Step, list[tuple[Port, int, Packet]]] = {}
        self._inbox: list[PortPacket] = []
        self.pending = 0

    @property
    def done(self) -> bool:
        """Whether everything has been received and nothing more will be sent, except pending departures."""
        due = self._node.due
        return self.awaited == NEVER and (due is None or due > self._last)

    def arrive(self, step: Step, port: Port, deadline: int, segments: Packet) -> RankProgress | None:
        """Take a packet that its sender has finished sending at `deadline`; return the decisions that follow, or None.

        FrameError for a packet that is not in the timetable.
        """
        awaited, due = self.awaited, self._node.due
        # Hot path: the common packet is for the awaited step, and needs no file of its own.
        if step == awaited and (due is None or due > step):
            return self._advance([(port, deadline, segments)])
        # Earlier steps are complete, and none is due after the last one.
        if step < awaited or step > self._last:
            raise FrameError(f"rank {self._node.rank} got a packet of step {step} and waits for step {awaited}")
        self._filed.setdefault(step, []).append((port, deadline, segments))
        return None

    def advance(self) -> RankProgress:
        """Run all steps that can run now, as at the beginning; RuleError as in `Node.step`."""
        return self._advance(None)

    def departed(self) -> RankProgress | None:
        """Count one pending departure as sent; return the decisions that waited for it, or None."""
        self.pending -= 1
        due = self._node.due
        # The node goes on when the last pending departure has left, unless it has to wait for a receipt first.
        if self.pending or due is None or due > self.awaited or due > self._last:
            return None
        return self._advance(None)

    def _advance(self, filed: list[tuple[Port, int, Packet]] | None) -> RankProgress:
        """Run steps until one lacks packets; `filed` are packets of the awaited step that have just arrived."""
        # Hot path, once per packet: attributes are bound to locals, and durations are looked up by size before they are
        # computed. Each round of the loop runs one step of the node. There are two reasons for a step:
        # 1. The node is due before, or in, the step whose packets it awaits: it sends without reading anything. It waits
        #    while departures are pending.
        # 2. All packets of the awaited step are there: the node reads them in the step after it.
        # Virtual times depend on the order of calls to `ports`: receipts of a step come before the departures that follow.
        receipts: list[Receipt] = []
        departures: list[Departure] = []
        judged: list[tuple[Step, list[Hop]]] = []
        node, ports, durations, last = self._node, self._ports, self._durations, self._last
        while True:
            due, awaited = node.due, self.awaited
            # On a tie the node sends first: packets of the awaited step are read in the step after it.
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
                    receipts.append((ports.arrive(awaited, deadline, duration), port, awaited, deadline))
                    inbox.append((port, segments))
                self._missing -= len(filed)
                filed = None
                if self._missing > 0:  # the packets so far stay in the inbox
                    break
                if self._missing:
                    raise FrameError(f"rank {node.rank} got more packets of step {awaited} than the timetable has")
                step, self._inbox = awaited + 1, []
                self.awaited, self._missing = self._schedule.pop()
            outbox, hops = node.step(step, inbox)
            if hops:
                judged.append((step - 1, hops))
            if outbox and step <= last:  # the step after the last one only reads
                for port, segments in outbox:
                    size = len(segments[0][4]) if len(segments) == 1 else _size(segments)
                    duration = durations[size] if size in durations else self._duration(size)
                    start = ports.depart(step, port, duration)
                    departures.append((start, start + duration, port, step, segments))  # type: ignore[arg-type]
                self.pending += len(outbox)
        # A plain tuple, made three times as fast.
        return receipts, departures, judged, (), (), ()  # type: ignore[return-value]

    def _duration(self, size: int) -> int:
        self._durations[size] = self._costs.nanoseconds(size)
        return self._durations[size]


def _size(segments: Packet) -> int:
    return sum(len(segment[4]) for segment in segments)
