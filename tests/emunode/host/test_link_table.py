"""The order of a host's written packets, and links that end meanwhile."""

from collections.abc import Callable, Iterator
from socket import socket
from typing import cast

import pytest

from emunode.host.link_table import LinkTable
from emunode.host.placement import Placement
from emunode.host.warmup import CONFIG
from emunode.net.framed_streams import BATCH, FramedStreams, listening_socket
from emunode.topologies.registry import parse_topology

STAR = parse_topology("star:4")
ENDS = STAR.order * STAR.degree
assert ENDS > BATCH


class Recorder:
    """In place of streams: keeps what is written."""

    def __init__(self) -> None:
        self.written: list[tuple[int, bytes]] = []

    def listen(self, listener: socket, on_accept: Callable[[int], None]) -> None:
        """Accept nothing."""

    def exchange(self, queue: list[tuple[int, bytes]]) -> None:
        self.written += queue


@pytest.fixture
def streams() -> Recorder:
    return Recorder()


@pytest.fixture
def links(streams: Recorder) -> Iterator[LinkTable]:
    """Provide all links of S_4 in one host; the descriptor of slot s is 1000 + s."""
    listener = listening_socket("127.0.0.1", backlog=1)
    table = LinkTable(
        CONFIG, STAR, Placement(STAR.order, 1), cast(FramedStreams, streams), b"", lambda *_: None, listener
    )
    for slot in range(ENDS):
        table.register(1000 + slot, slot)
    yield table
    listener.close()


def test_both_directions_of_a_link_are_written_together(links: LinkTable, streams: Recorder) -> None:
    links.queue += [(1000 + slot, b"") for slot in range(ENDS)]
    links.flush()
    slots = [fd - 1000 for fd, _ in streams.written]
    assert sorted(slots) == list(range(ENDS))
    for slot, other in zip(slots[::2], slots[1::2], strict=True):
        assert STAR.end(*links.end(slot)) == links.end(other)


def test_packets_of_one_direction_keep_their_order(links: LinkTable, streams: Recorder) -> None:
    links.queue += [(1000 + slot, bytes([number])) for number in (2, 1) for slot in range(ENDS)]
    links.flush()
    for slot in range(ENDS):
        assert [frame for fd, frame in streams.written if fd == 1000 + slot] == [b"\2", b"\1"]


def test_packets_of_a_link_that_ended_are_dropped(links: LinkTable) -> None:
    links.queue += [(1000 + slot, b"") for slot in range(ENDS)]
    queue = links.queue
    links.forget(1007)
    # The same list: the streams may be writing it.
    assert queue is links.queue
    assert len(queue) == ENDS - 1
    assert (1007, b"") not in queue
