"""The queue of a port under the timed clock: the sends that may leave when the port is free, and their steps."""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import NamedTuple

from emunode.engine.node import make_segment
from emunode.model import Packet, Port, Segment, Step


class Send(NamedTuple):
    """A segment that is to leave; sends of one queue are in order of their turns, and no two have the same number."""

    step: Step
    passed_on: bool
    """False for a rank's own sends: they come first in their step."""
    number: int
    port: Port
    item: Segment | Callable[[], Segment]


class SendQueue:
    """The sends of a port, or of all ports of a rank that uses one at a time, in the order of their steps.

    Sends that find no room in a packet move to the next step, after the rank's own sends and before all others, as in
    lock-step. `used` are the steps of the packets so far: no two packets share a step.
    """

    def __init__(self, capacity: int | None, used: set[Step]) -> None:
        self._capacity = capacity
        self._used = used
        self._heap: list[Send] = []
        self._left: deque[Send] = deque()
        self._next: Step = 0
        """The step of the sends that found no room."""

    def __bool__(self) -> bool:
        return bool(self._heap or self._left)

    def push(self, send: Send) -> None:
        """Add a send."""
        heappush(self._heap, send)

    def pop(self) -> tuple[Step, Port, Packet]:
        """Return the packet whose turn it is: its step, port and segments."""
        step = self._next if self._left else self._heap[0].step
        # A step names one packet of a port, so journals have no two packets of one name.
        while step in self._used:
            step += 1
        own, others = deque[Send](), deque[Send]()
        while self._heap and self._heap[0].step <= step:
            send = heappop(self._heap)
            (others if send.passed_on else own).append(send)
        # The order of `Node`: own sends, sends left over from the step before, sends on arrivals. Over one port the
        # first of them decides about the port.
        port = (own or self._left or others)[0].port
        packet: list[Segment] = []
        for sends in (own, self._left, others):
            self._fill(packet, port, sends)
        # Sends that are left keep that order in the next step, as on the agenda of a `Node`.
        self._left.extendleft(reversed(own))
        self._left.extend(others)
        self._next = step + 1
        self._used.add(step)
        return step, port, tuple(packet)

    def _fill(self, packet: list[Segment], port: Port, sends: deque[Send]) -> None:
        """Move sends by `port` to a packet while it has room."""
        skipped = []
        while sends and (self._capacity is None or len(packet) < self._capacity):
            send = sends.popleft()
            if send.port == port:
                # Made only now: a queue may hold more sends than their payloads would leave memory for.
                packet.append(make_segment(send.item))
            else:
                skipped.append(send)
        sends.extendleft(reversed(skipped))
