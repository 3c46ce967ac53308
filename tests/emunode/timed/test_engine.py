"""The timer descriptor of a host: readable from an absolute time of CLOCK_MONOTONIC on, and never without one."""

import os
import select
import time
from collections.abc import Iterator

import pytest

from emunode.timed.engine import Timer


@pytest.fixture
def timer() -> Iterator[Timer]:
    made = Timer()
    yield made
    os.close(made.fd)


def expirations(timer: Timer) -> int:
    """Return how often the timer has expired since the last call; 0 if it has not."""
    try:
        return int.from_bytes(os.read(timer.fd, 8), "little")
    except BlockingIOError:
        return 0


def test_a_timer_waits_for_its_time(timer: Timer) -> None:
    due = time.monotonic_ns() + 20_000_000
    timer.set(due)
    assert select.select([timer.fd], [], [], 60)[0] == [timer.fd]
    assert time.monotonic_ns() >= due
    assert [expirations(timer), expirations(timer)] == [1, 0], "one expiry, without an interval"


def test_a_time_that_has_passed_expires_at_once(timer: Timer) -> None:
    timer.set(time.monotonic_ns() - 3_000_000_000)
    assert expirations(timer) == 1


def test_a_later_time_takes_the_place_of_an_earlier_one(timer: Timer) -> None:
    now = time.monotonic_ns()
    timer.set(now - 1)
    timer.set(now + 3_600_000_000_000)
    assert expirations(timer) == 0


def test_a_timer_without_a_time_never_expires(timer: Timer) -> None:
    timer.set(time.monotonic_ns() - 1)
    timer.set(0)
    assert expirations(timer) == 0
