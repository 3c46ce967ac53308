"""Failure processes: every node or link fails and is repaired at random, step by step.

An element that works fails with probability a at the beginning of each step, and one that has failed is repaired with
probability b, a two-state Markov chain. The times to failure and to repair are geometric, with means 1/a and 1/b steps; the
long-run availability is b / (a + b). Each waiting time is drawn by inversion from a hash of the seed, the process, the
element and the number of the change, so another element, process or last step changes no event.

The events become ordinary faults: a node crashes and recovers with fresh state, a link is down for an interval.
"""

from collections.abc import Iterator
from hashlib import blake2b
from math import floor, log1p
from typing import Final

from emunode.model import Step

MOST_EVENTS: Final = 100_000
"""The most outages of one draw of a process."""


def outages(rate: float, repair: float, first: Step, last: Step, stream: str) -> Iterator[tuple[Step, Step | None]]:
    """The outages of one element that begin in the steps `first` to `last`: the first step of each, and of its repair.

    An outage without a repair by `last` has None.
    """
    step = first - 1
    change = 0
    while (wait := _wait(rate, f"{stream}/{change}")) is not None and step + wait <= last:
        begin = step + wait
        wait = _wait(repair, f"{stream}/{change + 1}")
        if wait is None or begin + wait > last:
            yield begin, None
            return
        step, change = begin + wait, change + 2
        yield begin, step


def _wait(rate: float, stream: str) -> int | None:
    """A geometric number of steps, at least 1; None if what has this probability per step never happens."""
    if rate <= 0:
        return None
    if rate >= 1:
        return 1
    word = int.from_bytes(blake2b(stream.encode(), digest_size=8).digest(), "little")
    uniform = (word >> 11) * 2.0**-53
    return 1 + floor(log1p(-uniform) / log1p(-rate))
