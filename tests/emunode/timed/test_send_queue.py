"""The queue of a port under the timed clock, against a plain list of steps and a rule in words."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.model import Segment, Step
from emunode.timed.send_queue import Send, SendQueue


def segment(number: int) -> Segment:
    return (0, -1, 0, number, b"")


def queue_of(sends: list[tuple[Step, bool]], capacity: int | None, used: set[Step] | None = None) -> SendQueue:
    """Fill a queue of port 0; the numbers of sends are their places."""
    queue = SendQueue(capacity, set() if used is None else used)
    for number, (step, passed_on) in enumerate(sends):
        queue.push(Send(step, passed_on, number, 0, segment(number)))
    return queue


def packets_of(queue: SendQueue) -> list[tuple[Step, list[int]]]:
    """Empty a queue, and return the step and the numbers of each packet."""
    packets = []
    while queue:
        step, port, packet = queue.pop()
        assert port == 0
        packets.append((step, [number for *_, number, _ in packet]))
    return packets


@pytest.mark.parametrize(
    ("sends", "capacity", "packets"),
    [
        ([(1, False), (1, False), (2, False)], None, [(1, [0, 1]), (2, [2])]),
        ([(1, False), (1, False), (2, False)], 1, [(1, [0]), (2, [2]), (3, [1])]),
        ([(1, True), (1, False)], None, [(1, [1, 0])]),
        ([(1, True), (1, True), (2, True)], 1, [(1, [0]), (2, [1]), (3, [2])]),
        ([(4, False), (2, False)], 2, [(2, [1]), (4, [0])]),
    ],
)
def test_overflow_follows_own_sends_of_the_next_step(
    sends: list[tuple[Step, bool]], capacity: int | None, packets: list[tuple[Step, list[int]]]
) -> None:
    assert packets_of(queue_of(sends, capacity)) == packets


def test_no_two_packets_share_a_step() -> None:
    used: set[Step] = {1, 2, 4}
    assert packets_of(queue_of([(1, False), (1, False), (1, False)], 1, used)) == [(3, [0]), (5, [1]), (6, [2])]
    assert used == {1, 2, 3, 4, 5, 6}


def test_segments_of_other_ports_wait_for_a_packet_of_their_own() -> None:
    queue = SendQueue(None, set())
    for number, port in enumerate((2, 0, 2)):
        queue.push(Send(1, False, number, port, segment(number)))
    assert queue.pop() == (1, 2, (segment(0), segment(2)))
    assert queue.pop() == (2, 0, (segment(1),))
    assert not queue


def test_a_segment_is_made_when_its_packet_leaves() -> None:
    made = count()
    queue = SendQueue(1, set())
    for number in range(2):
        queue.push(Send(1, False, number, 0, lambda: segment(next(made))))
    assert queue.pop()[2] == (segment(0),)
    assert next(made) == 1, "the other segment does not exist yet"


@given(st.lists(st.tuples(st.integers(1, 6), st.booleans()), max_size=12), st.sampled_from([None, 1, 2, 3]))
def test_every_send_leaves_once_and_never_early(sends: list[tuple[Step, bool]], capacity: int | None) -> None:
    packets = packets_of(queue_of(sends, capacity))
    assert sorted(number for _, numbers in packets for number in numbers) == list(range(len(sends)))
    assert all(sends[number][0] <= step for step, numbers in packets for number in numbers)
    assert all(0 < len(numbers) <= (capacity or len(sends)) for _, numbers in packets)
    steps = [step for step, _ in packets]
    assert steps == sorted({*steps})
