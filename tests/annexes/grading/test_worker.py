"""Messages between the judge and the process of a submission."""

import socket
from collections.abc import Iterator

import pytest

from coordinator.annexes.grading.worker import LENGTH, receive, send


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        yield one, other


def test_messages_arrive_whole_and_in_order(ends: tuple[socket.socket, socket.socket]) -> None:
    one, other = ends
    messages: list[object] = [{"do": "load", "with": {"name": "é"}}, [], "x" * 70_000]
    for message in messages:
        send(one, message)
        assert receive(other) == message
    one.close()
    assert receive(other) is None


def test_a_value_that_json_cannot_hold_is_reported(
    ends: tuple[socket.socket, socket.socket],
) -> None:
    send(ends[0], {"sends": {1, 2}})
    answer = receive(ends[1])
    assert [*answer] == ["failed"]
    assert answer["failed"].startswith("an answer cannot be sent: TypeError: ")


def test_a_message_that_is_cut_is_none(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[0].sendall(LENGTH.pack(9) + b'{"do":')
    ends[0].close()
    assert receive(ends[1]) is None
