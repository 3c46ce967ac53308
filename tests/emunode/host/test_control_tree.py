"""The place of a host in the tree of control: hellos of children, sums of reports, and what is refused."""

from types import SimpleNamespace
from typing import Any

import pytest

from emunode.errors import FrameError
from emunode.host import control_tree
from emunode.host.control_tree import ControlTree, SubtreeReport
from emunode.host.orders import JoinTree
from emunode.net import wire
from emunode.net.wire import ROW

SECRET, NONCE, RUN, CONTROL = b"secret", bytes(range(32)), 7, 3
LAST = 5


class Streams:
    """Streams that note what is sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, wire.Control]] = []

    def send(self, fd: int, frame: bytes) -> None:
        """Note a frame."""
        self.sent.append((fd, wire.decode_control(frame)))

    def send_all(self, frames: list[tuple[int, bytes]]) -> None:
        """Note frames."""
        for fd, frame in frames:
            self.send(fd, frame)

    def mark_authenticated(self, fd: int) -> None:
        """Believe the peer."""


def tree(told: list[Any] | None = None) -> tuple[ControlTree, Streams]:
    """Return the place of host 1 of 6, at the top."""
    streams, found = Streams(), [] if told is None else told
    links = SimpleNamespace(nonce=NONCE, control=CONTROL)
    config = SimpleNamespace(run=RUN, host=1, hosts=LAST + 1)
    return ControlTree(config, SECRET, streams, links, lambda *message: found.append(message)), streams  # type: ignore[arg-type]


def with_children(*children: int) -> tuple[ControlTree, Streams]:
    found, streams = tree()
    for child in children:
        found.admit(10 + child, wire.tree_hello(SECRET, RUN, NONCE, child))
    return found, streams


def test_children_may_dial_before_the_order_comes() -> None:
    told: list[Any] = []
    found, _ = tree(told)
    found.admit(12, wire.tree_hello(SECRET, RUN, NONCE, 2))
    assert not told
    found.join(JoinTree(None, 2))
    assert not told
    found.admit(13, wire.tree_hello(SECRET, RUN, NONCE, 3))
    assert told == [("tree_joined", 2)]
    with pytest.raises(FrameError, match="second order"):
        found.join(JoinTree(None, 2))


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (wire.tree_hello(b"other", RUN, NONCE, 3), "does not know the run's secret"),
        (wire.tree_hello(SECRET, RUN, bytes(32), 3), "does not know the run's secret"),
        (wire.tree_hello(SECRET, RUN + 1, NONCE, 3), "another run"),
        (wire.tree_hello(SECRET, RUN, NONCE, 0), "host 0 cannot be a child of host 1"),
        (wire.tree_hello(SECRET, RUN, NONCE, 1), "host 1 cannot be"),
        (wire.tree_hello(SECRET, RUN, NONCE, LAST + 1), "host 6 cannot be"),
        (wire.tree_hello(SECRET, RUN, NONCE, 2), "host 2 cannot be"),
    ],
    ids=["secret", "nonce", "run", "circle", "itself", "beyond", "twice"],
)
def test_a_wrong_hello_is_refused(hello: bytes, reason: str) -> None:
    found, _ = with_children(2)
    assert wire.is_tree_hello(hello)
    with pytest.raises(FrameError, match=reason):
        found.admit(20, hello)


def test_reports_of_a_subtree_become_one() -> None:
    found, streams = with_children(2, 3)
    order = wire.encode_control("tree_step", 4, [])
    found.pass_on(4, order)
    assert streams.sent == [(12, ("tree_step", 4, ())), (13, ("tree_step", 4, ()))]
    streams.sent.clear()
    row = bytes(ROW.size)
    found.on_frame(12, wire.encode_control("subtree", 4, 3, {0: 2}, 1, {4: 9}, row))
    found.tell("report", 4, {0: 1, 5: 1}, {2: 2}, 7, row)
    found.on_frame(13, wire.encode_control("altered_copies", [[1, 2, 3, 4, 5, 6, 7]]))
    found.on_frame(13, wire.encode_control("subtree_received", 4, 4))
    assert [message[0] for _, message in streams.sent] == ["altered_copies"]
    found.on_frame(13, wire.encode_control("subtree", 4, 1, {}, 0, {}, b""))
    sent = {0: 3, 5: 1}
    assert streams.sent[1:] == [(CONTROL, ("subtree", 4, 5, sent, 7, {4: 9, 1: 7}, row + row))]
    # Later arrivals of the host and of its children are one message.
    found.tell("received", 4, {2: 5})
    found.on_frame(12, wire.encode_control("subtree_received", 4, 1))
    found.on_frame(12, wire.encode_control("subtree_received", 3, 9))
    found.report_late_arrivals()
    found.report_late_arrivals()
    assert streams.sent[2:] == [(CONTROL, ("subtree_received", 4, 4))]


def test_many_rows_go_ahead_of_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_tree, "FLUSH_BYTES", 2 * ROW.size)
    found, streams = with_children(2)
    found.pass_on(1, wire.encode_control("tree_step", 1, []))
    found.on_frame(12, wire.encode_control("subtree", 1, 1, {}, 0, {}, bytes(3 * ROW.size)))
    assert streams.sent[-1] == (CONTROL, ("rows", bytes(3 * ROW.size)))


@pytest.mark.parametrize(
    "message",
    [
        ("subtree", 2, 1, {}, 0, {}, b""),
        ("subtree", 1, 0, {}, 0, {}, b""),
        ("subtree", 1, 1, {9: 1}, 0, {}, b""),
        ("subtree", 1, 1, {}, 0, {}, b"x"),
        ("results_sent",),
    ],
    ids=["step", "no host", "host", "rows", "name"],
)
def test_malformed_messages_of_a_child_are_refused(message: tuple[object, ...]) -> None:
    found, _ = with_children(2)
    found.pass_on(1, wire.encode_control("tree_step", 1, []))
    with pytest.raises(FrameError):
        found.on_frame(12, wire.encode_control(*message))


def test_a_report_with_malformed_fields_is_refused() -> None:
    with pytest.raises(FrameError):
        SubtreeReport.from_fields([1, 1], 6)
