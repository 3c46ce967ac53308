"""The interface of a protocol: an object of one rank between its rule and its ports, the same under both clocks.

A rule says what to send. The protocol decides when a port sends it, sends it again, and answers what arrives. It passes
on to the rule what is new. It has no clock and no socket. Time is a whole number that the driver passes in: a step in
lock-step, nanoseconds of virtual time under the timed clock.

The driver is a node. At one time it calls, in this order:

* `receive` for what has arrived;
* `suspects` for ports whose state has changed;
* `wake` if the time of `alarm` has come;
* `submit` for what the rule wants to send.

Then it takes from `ready` what the port model and the ports allow, calls `sent` for each item whose transmission begins,
and asks again when a port is free. So acknowledgements and time-outs queue at a port like everything else.

A protocol speaks to its peers in *control segments*: segments whose tree is `CONTROL_TREE` plus a kind. They cross links
as all segments do. Their journal rows have an outcome of their own (`control`), and they never count as deliveries.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import lru_cache
from struct import Struct
from typing import Final, NamedTuple
from zlib import crc32

from emunode.model import CONTROL_TREE, Packet, Port, Rank, Segment, Step

PortSegment = tuple[Port, Segment]
"""A segment that is to leave by a port."""
_PAYLOAD: Final = Struct("<HxxI")
CONTROL_BYTES: Final = _PAYLOAD.size
"""Bytes of the payload of a control segment."""


class ControlKind(IntEnum):
    """The kinds of control segments, 0 to 255."""

    ACKNOWLEDGEMENT = 0
    """The segment with this origin, target and number, of tree `value`, has arrived."""
    KEEP_ALIVE = 1
    """The sender is alive."""
    REQUEST = 2
    """The sender lacks the segment with this origin, target and number, of tree `value`."""
    SUSPICION = 16
    """The link to the target at port `value` of the origin is suspected since step `number`."""
    REOPENING = 17
    """The origin has decided too early, as it learnt in step `number`."""
    QUESTION = 18
    """The origin asks for all suspicions and reopenings."""
    END = 19
    """How the collective ends for a rank, as a `RunEnd` in place of the number; in reports only."""


NEWS_TREES: Final = frozenset(
    CONTROL_TREE + kind for kind in (ControlKind.SUSPICION, ControlKind.REOPENING, ControlKind.QUESTION)
)
"""The trees of the control segments that ranks send one another for an agreement."""


@lru_cache(maxsize=4096)
def control_segment(kind: ControlKind, origin: Rank, target: Rank, number: int, value: int = 0) -> Segment:
    """Return a control segment.

    `number` is at most 2^31 - 1 and `value` at most 2^16 - 1. The payload holds the value and a checksum of everything.
    So two control segments differ in several bytes, and one that a fault has altered is not taken for another one.
    """
    # Kept: the sender of a segment and its receiver make the same acknowledgement, and the receiver of that a third one.
    # Over the decimal text: the same on every machine, and the commas keep a field from running into the next one.
    checksum = crc32(b"%d,%d,%d,%d,%d" % (kind, origin, target, number, value))
    return origin, target, CONTROL_TREE + kind, number, _PAYLOAD.pack(value, checksum)


def is_control(segment: Segment) -> bool:
    """Return whether a segment is a control segment, altered or not."""
    return segment[2] >= CONTROL_TREE


def is_news(segment: Segment) -> bool:
    """Return whether a segment is a control segment of the agreement."""
    return segment[2] in NEWS_TREES


def is_sign_of_life(packet: Packet) -> bool:
    """Return whether a packet is a sign of life.

    Such a packet carries nothing else and is the business of the detector.
    """
    # By the tree: it may have been altered or repeated.
    return packet[0][2] == CONTROL_TREE + ControlKind.KEEP_ALIVE


def control_kind(segment: Segment) -> ControlKind | None:
    """Return the kind of a control segment.

    None for a segment of data, and for a control segment that was altered.
    """
    origin, target, tree, number, payload = segment
    # Before the enum and the struct are asked: they raise errors for a tree without a kind and for another length.
    if tree - CONTROL_TREE not in _KINDS or len(payload) != CONTROL_BYTES:
        return None
    kind, (value, _) = ControlKind(tree - CONTROL_TREE), _PAYLOAD.unpack(payload)
    # Built again and compared as a whole, so an altered field is noticed wherever it stands.
    return kind if control_segment(kind, origin, target, number, value) == segment else None


def control_value(segment: Segment) -> int:
    """Return the value of a control segment of a known kind."""
    value: int = _PAYLOAD.unpack(segment[4])[0]
    return value


_KINDS: Final = frozenset(ControlKind)


class Durations(NamedTuple):
    """How long things take without faults, in the unit of the driver."""

    begins: Callable[[Step], int]
    """The beginning of a step."""
    step: int
    """The longest step: a packet that crosses a link in a step takes no longer."""
    control: int
    """A control segment that crosses a link."""


# In lock-step a step is its own time: `int` is the identity.
LOCK_STEP: Final = Durations(int, 1, 1)


class Protocol:
    """One layer at one rank.

    This base class passes everything through, at once and once.
    """

    waits = False
    """Whether it acts at a rank that has received nothing.

    Then every rank has to begin with step 1.
    """

    def __init__(self) -> None:
        self._passing: list[PortSegment] = []
        self.reports: list[Segment] = []
        """Decisions of the node, as control segments for the journal; the engine takes them."""

    @property
    def alarm(self) -> int | None:
        """The next time when the driver has to call `wake`, or None."""
        return None

    def start(self, now: int) -> None:
        """Begin when the node begins.

        A node that recovers begins anew.
        """

    def resume(self, now: int) -> None:
        """Note that the node runs again from `now` on, after a hang or a crash.

        Earlier events are unknown to it.
        """

    def receive(self, now: int, port: Port, packet: Packet) -> Packet:
        """Process a packet that has arrived by `port`.

        Returns the segments for the layer above. Above the top layer is the rule.
        """
        del now, port
        return packet

    def suspects(self, now: int, port: Port, suspected: bool) -> None:
        """Note that a detector suspects the neighbour behind `port`, or does so no longer."""

    def wake(self, now: int) -> None:
        """Act on the time-outs that have come."""

    def submit(self, now: int, port: Port, segment: Segment) -> None:
        """Take a segment from above that is to be sent by `port`."""
        del now
        self._passing.append((port, segment))

    def ready(self, now: int) -> Sequence[PortSegment]:
        """Return the segments that may leave at `now`, the most urgent first.

        Each stays ready until `sent` is called for it.
        """
        del now
        # The list itself, not a copy: nodes ask before every packet, and only `sent` changes it.
        return self._passing

    def sent(self, now: int, port: Port, segment: Segment) -> None:
        """Note that the transmission of a ready segment begins at `now`.

        Time-outs count from here.
        """
        del now
        self._passing.remove((port, segment))


class Stack(Protocol):
    """Several layers as one protocol, from the rule (first) down to the ports (last)."""

    def __init__(self, layers: Sequence[Protocol]) -> None:
        super().__init__()
        self._layers = tuple(layers)
        self._top, self._bottom = self._layers[0], self._layers[-1]
        self.waits = any(layer.waits for layer in layers)
        for layer in self._layers:
            # One list for all layers; the engine takes the reports of the stack from it.
            layer.reports = self.reports

    @property
    def alarm(self) -> int | None:
        return min((layer.alarm for layer in self._layers if layer.alarm is not None), default=None)

    def start(self, now: int) -> None:
        for layer in self._layers:
            layer.start(now)

    def resume(self, now: int) -> None:
        for layer in self._layers:
            layer.resume(now)

    def receive(self, now: int, port: Port, packet: Packet) -> Packet:
        # From the ports up to the rule. A packet without segments after one layer does not exist for the layers above.
        for layer in reversed(self._layers):
            packet = layer.receive(now, port, packet)
            if not packet:
                break
        return packet

    def suspects(self, now: int, port: Port, suspected: bool) -> None:
        for layer in self._layers:
            layer.suspects(now, port, suspected)

    def wake(self, now: int) -> None:
        for layer in self._layers:
            # The driver knows the earliest alarm only: each layer acts at its own.
            if layer.alarm is not None and layer.alarm <= now:
                layer.wake(now)

    def submit(self, now: int, port: Port, segment: Segment) -> None:
        self._top.submit(now, port, segment)

    def ready(self, now: int) -> Sequence[PortSegment]:
        # For a layer a segment is sent once the layer below has taken it, maybe long before it leaves the node. From
        # the rule down, so that a segment passes all layers in one call if each of them lets it.
        for above, below in zip(self._layers, self._layers[1:], strict=False):
            for port, segment in tuple(above.ready(now)):
                above.sent(now, port, segment)
                below.submit(now, port, segment)
        return self._bottom.ready(now)

    def sent(self, now: int, port: Port, segment: Segment) -> None:
        self._bottom.sent(now, port, segment)
