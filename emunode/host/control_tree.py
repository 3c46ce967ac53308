"""The place of a host in the tree that takes orders for steps to many hosts, and their reports back.

A host passes an order on to its children before it carries it out, and reports once its whole subtree has reported. All
other messages take the control connection that every host has to the coordinator. So the coordinator notices the end of
every host, also of a host in the middle of the tree, and an order that does not take the tree is answered without it.
"""

import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from emunode.errors import FrameError
from emunode.host.link_table import LinkTable
from emunode.host.orders import JoinTree
from emunode.model import Step
from emunode.net import wire
from emunode.net.framed_streams import FramedStreams
from emunode.net.protocol import HostConfig
from emunode.net.validation import counts, integer, items, rows

NO_PARENT = -1
FLUSH_BYTES = 4 * 2**20
"""Bytes of journal rows that are collected before they are sent ahead of the report."""


class SubtreeReport(NamedTuple):
    """The sum of the reports of hosts: packets sent by receiving host, packets received, steps due by host, journal rows."""

    step: Step
    hosts: int
    sent: Mapping[int, int]
    received: int
    due: Mapping[int, Step]
    rows: bytes

    @classmethod
    def from_fields(cls, fields: Sequence[object], hosts: int) -> "SubtreeReport":
        """Return the report with these fields in a run of `hosts` hosts; FrameError if they are malformed."""
        step, reported, sent, received, due, packed = items(fields, 6)
        return cls(
            integer(step),
            integer(reported, 1, hosts),
            counts(sent, hosts),
            integer(received),
            counts(due, hosts),
            rows(packed),
        )


class ControlTree:
    """The parent and the children of one host, and what its subtree has reported on the open step.

    `tell` sends a message to the coordinator.
    """

    def __init__(
        self, config: HostConfig, secret: bytes, streams: FramedStreams, links: LinkTable, tell: Callable[..., None]
    ) -> None:
        self._config = config
        self._secret = secret
        self._streams = streams
        self._links = links
        self._tell_coordinator = tell
        self._parent = NO_PARENT
        self._children: dict[int, int] = {}
        """The hosts below this one, by descriptor."""
        self._expected = -1
        """How many children are to join; negative before the order to build the tree."""
        self._step: Step = 0
        self._waiting = 0
        """Reports on the open step that are still to come, the report of this host included."""
        self._reported = 0
        """Hosts whose reports have come."""
        self._sent: Counter[int] = Counter()
        self._received = 0
        """Packets received in the open step that no message has counted yet."""
        self._counted = 0
        """Packets that this host itself has received in the open step, as last reported."""
        self._due: dict[int, Step] = {}
        self._rows = bytearray()

    def close(self) -> None:
        """Close the streams to parent and children."""
        for fd in (self._parent, *self._children):
            if fd >= 0:
                os.close(fd)

    # --- building ----------------------------------------------------------------------------------------------------

    def join(self, order: JoinTree) -> None:
        """Dial the parent, if it is not the coordinator, and expect children."""
        if self._expected >= 0:
            raise FrameError("a second order to join the tree")
        self._expected = order.children
        if order.parent is not None:
            self._parent = self._links.dial_listener(order.parent)
            nonce = order.parent[2]
            hello = wire.tree_hello(self._secret, self._config.run, nonce, self._config.host)
            self._streams.add(self._parent, authenticated=True)
            self._streams.send(self._parent, hello)
        self._report_children()

    def admit(self, fd: int, frame: bytes) -> None:
        """Accept the hello of a child; FrameError unless it is authentic and the first of that host."""
        child = wire.read_tree_hello(frame, self._secret, self._config.run, self._links.nonce)
        # Children have higher numbers than their parent, so no hello closes a circle.
        if not self._config.host < child < self._config.hosts or child in self._children.values():
            raise FrameError(f"host {child} cannot be a child of host {self._config.host}")
        self._streams.mark_authenticated(fd)
        self._children[fd] = child
        self._report_children()

    def _report_children(self) -> None:
        # A child may dial before the order comes that announces it.
        if self._expected == len(self._children):
            self._tell_coordinator("tree_joined", len(self._children))

    def owns(self, fd: int) -> bool:
        """Return whether a stream leads to the parent or to a child."""
        return fd in self._children or fd == self._parent != NO_PARENT

    def forget(self, fd: int) -> bool:
        """Note that a stream has ended; return whether it belonged to the tree. The coordinator notices the host's end."""
        if fd == self._parent:
            self._parent = NO_PARENT
            return True
        return self._children.pop(fd, None) is not None

    def is_parent(self, fd: int) -> bool:
        """Return whether orders come from a stream."""
        return fd == self._parent

    # --- a step ------------------------------------------------------------------------------------------------------

    def pass_on(self, step: Step, frame: bytes) -> None:
        """Begin a step, and send its order to the children."""
        self._step = step
        self._waiting = 1 + len(self._children)
        self._reported = self._received = self._counted = 0
        self._sent.clear()
        self._due.clear()
        self._rows.clear()
        self._streams.send_all([(fd, frame) for fd in self._children])

    def on_frame(self, fd: int, frame: bytes) -> None:
        """Take a message of a child."""
        name, *fields = wire.decode_control(frame)
        match name:
            case "subtree":
                self._add(SubtreeReport.from_fields(fields, self._config.hosts))
            case "subtree_received":
                step, received = items(fields, 2)
                if integer(step) == self._step:
                    self._received += integer(received)
            case "rows" | "altered_copies":
                self._send_up(frame)
            case _:
                raise FrameError(f"unexpected message {name!r:.80} of host {self._children[fd]}")

    def tell(self, name: str, *fields: object) -> None:
        """Take a message of this host's own engine about the open step."""
        match name, *fields:
            case "report", int(step), dict(sent), received, int(due), bytes(packed):
                found = {self._config.host: due} if due else {}
                self._counted = sum(received.values())  # type: ignore[attr-defined]
                self._add(SubtreeReport(step, 1, sent, self._counted, found, packed))
            case "received", int(step), received:
                total = sum(received.values())  # type: ignore[attr-defined]
                if step == self._step:
                    self._received += total - self._counted
                    self._counted = total
            case _:
                self._send_up(wire.encode_control(name, *fields))

    def _add(self, report: SubtreeReport) -> None:
        if report.step != self._step or not self._waiting:
            raise FrameError(f"a report on step {report.step} in step {self._step}")
        self._waiting -= 1
        self._reported += report.hosts
        self._sent.update(report.sent)
        self._received += report.received
        self._due.update(report.due)
        self._rows += report.rows
        # Ahead of the report, so that the rows of many hosts need no frame beyond the limit.
        if len(self._rows) > FLUSH_BYTES:
            self._send_up(wire.encode_control("rows", bytes(self._rows)))
            self._rows.clear()
        if not self._waiting:
            received, self._received = self._received, 0
            found = (self._step, self._reported, self._sent, received, self._due, bytes(self._rows))
            self._send_up(wire.encode_control("subtree", *found))

    def report_late_arrivals(self) -> None:
        """Report arrivals in the subtree since its report, if there are any."""
        # Once per poll: the arrivals of many hosts become one message.
        if self._received and not self._waiting:
            received, self._received = self._received, 0
            self._send_up(wire.encode_control("subtree_received", self._step, received))

    def _send_up(self, frame: bytes) -> None:
        self._streams.send(self._parent if self._parent != NO_PARENT else self._links.control, frame)
