"""Reliable links: every segment is acknowledged, and sent again until it is, with a window for each port.

The sender keeps at most `window` segments of a port unacknowledged; with a window of 1 this is stop and wait. When an
acknowledgement has not come `retransmit_after` after a transmission began, the segment is sent again, at most `attempts`
times in all; then the segment is given up, and the next one takes its place. With back-off each time-out of a segment is
twice the one before, at most `LONGEST_BACK_OFF` times the first. The receiver answers every copy at once and passes on the
first only, in the order of arrival.

An acknowledgement names its segment by origin, target, tree and number, so there are no sequence numbers that a
restarted neighbour would have forgotten. Acknowledgements are not acknowledged, and leave before everything else.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final
from zlib import crc32

from emunode.model import Packet, Port, ReliableLinks, Segment
from emunode.protocols.base import ControlKind, PortSegment, Protocol, control_kind, control_segment, is_control

LONGEST_BACK_OFF: Final = 64
"""The longest time-out with back-off, in first time-outs."""


def acknowledgement_of(segment: Segment) -> Segment:
    """Return the acknowledgement of a segment: the same for each copy of it that crosses this link."""
    origin, target, tree, number, payload = segment
    # Control segments of other layers differ in their payload; their values are disjoint from the numbers of trees.
    value = tree if not is_control(segment) else 1 << 15 | crc32(payload) & 0x7FFF
    return control_segment(ControlKind.ACKNOWLEDGEMENT, origin, target, number, value)


def time_out(after: int, attempt: int, back_off: bool) -> int:
    """Return how long the sender waits for the acknowledgement of attempt 1, 2, .. of a segment."""
    return after * min(2 ** (attempt - 1), LONGEST_BACK_OFF) if back_off else after


class Outstanding:
    """A segment that has no acknowledgement yet; `deadline` is None while it waits to be sent (again)."""

    __slots__ = ("attempts", "deadline", "port", "segment")

    def __init__(self, port: Port, segment: Segment) -> None:
        self.port = port
        self.segment = segment
        self.attempts = 0
        self.deadline: int | None = None


class ReliableLayer(Protocol):
    """The reliable ends of all links of one rank."""

    def __init__(self, settings: ReliableLinks) -> None:
        super().__init__()
        self._settings = settings
        self._acknowledgements: list[PortSegment] = []
        # Segments outside the window stay here, as many as the rule sends: a window bounds what is under way, not what
        # waits.
        self._queues: dict[Port, deque[Segment]] = {}
        self._windows: dict[Port, dict[Segment, Outstanding]] = {}
        """Unacknowledged segments by port, and by the acknowledgement that each waits for."""
        # Never emptied: a copy is sent again whenever its acknowledgement was lost, however late.
        self._received: set[tuple[Port, Segment]] = set()
        """Segments that have been passed on, by port and acknowledgement."""
        self._to_send: list[Outstanding] = []
        """Segments that may leave now; the first to become ready is first."""

    @property
    def alarm(self) -> int | None:
        return min((each.deadline for each in self._outstanding() if each.deadline is not None), default=None)

    def receive(self, now: int, port: Port, packet: Packet) -> Packet:
        """Answer segments that arrive, and return the new ones; an acknowledgement that a fault has altered is ignored."""
        passed = []
        for segment in packet:
            kind = control_kind(segment)
            if kind is ControlKind.ACKNOWLEDGEMENT:
                self._acknowledged(port, segment)
            elif kind is not None or not is_control(segment):
                # A copy that was received before is answered as well: it is here because the answer to an earlier copy
                # was lost.
                answer = acknowledgement_of(segment)
                # Copies that arrive together, as from a link that duplicates packets, get one answer.
                if (port, answer) not in self._acknowledgements:
                    self._acknowledgements.append((port, answer))
                if (port, answer) not in self._received:
                    self._received.add((port, answer))
                    passed.append(segment)
        return tuple(passed)

    def submit(self, now: int, port: Port, segment: Segment) -> None:
        self._queues.setdefault(port, deque()).append(segment)
        self._fill(port)

    def wake(self, now: int) -> None:
        """Send timed-out segments again, or give them up."""
        # A list first: giving up a segment takes it out of the window that is read.
        for each in [each for each in self._outstanding() if each.deadline is not None and each.deadline <= now]:
            each.deadline = None
            if each.attempts < self._settings.attempts:
                # At the end of the line: segments that became ready before it leave first.
                self._to_send.append(each)
            else:
                del self._windows[each.port][acknowledgement_of(each.segment)]
                # Its place in the window is free, and the next segment can do no worse.
                self._fill(each.port)

    def ready(self, now: int) -> Sequence[PortSegment]:
        del now
        # A late acknowledgement makes the neighbour send its segment again, so acknowledgements wait for nothing.
        return [*self._acknowledgements, *((each.port, each.segment) for each in self._to_send)]

    def sent(self, now: int, port: Port, segment: Segment) -> None:
        if (port, segment) in self._acknowledgements:
            self._acknowledgements.remove((port, segment))
            return
        each = self._windows[port][acknowledgement_of(segment)]
        self._to_send.remove(each)
        # Counted when it leaves: waiting for a port is no attempt.
        each.attempts += 1
        settings = self._settings
        # From the beginning of the transmission on: the time that a segment waits for its port is no sign of a loss.
        each.deadline = now + time_out(settings.retransmit_after, each.attempts, settings.back_off)

    def _acknowledged(self, port: Port, answer: Segment) -> None:
        """Take an acknowledged segment out of the window. Answers to segments that were given up, or answered before,
        are ignored.
        """
        each = self._windows.get(port, {}).pop(answer, None)
        if each is None:
            return
        if each.deadline is None:
            # It timed out and waits to be sent again, but the acknowledgement was only late.
            self._to_send.remove(each)
        self._fill(port)

    def _fill(self, port: Port) -> None:
        """Move segments from the queue of a port into its window."""
        # Called whenever a place may be free: after a new segment, an acknowledgement, and a segment that was given up.
        queue, window = self._queues.get(port, deque()), self._windows.setdefault(port, {})
        while queue and len(window) < self._settings.window:
            segment = queue.popleft()
            answer = acknowledgement_of(segment)
            # A neighbour may have asked for a segment on its way to it.
            if answer not in window:
                each = window[answer] = Outstanding(port, segment)
                self._to_send.append(each)

    def _outstanding(self) -> Iterable[Outstanding]:
        return chain.from_iterable(window.values() for window in self._windows.values())
