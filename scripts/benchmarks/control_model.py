"""A model of one step of control: the coordinator orders a step of all hosts and waits for the sum of their reports.

Times are in microseconds. A processor does one thing at a time, whatever becomes possible first. A host that gets an
order passes it on to its children, one after the other, and then does its own work. It sends its report once its
children have reported. The model knows nothing of the programs whose costs it is given.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

COORDINATOR = -1


class UnitCosts(NamedTuple):
    """Costs of one step of control, in microseconds."""

    send: float
    """Send an order or a report."""
    take: float
    """Read a report of a child and add it up."""
    work: float
    """Carry out an order without packets."""
    latency: float
    """From the end of sending to the arrival on another machine."""


def step_time(parents: Sequence[int], costs: UnitCosts, processor: Callable[[int], int] = lambda host: host) -> float:
    """Return the time of one step with reports of all hosts, for hosts with these parents.

    `processor` returns the processor of a host; COORDINATOR stands for the coordinator.
    """
    below: dict[int, list[int]] = {}
    for host, parent in enumerate(parents):
        below.setdefault(parent, []).append(host)
    # The order itself counts as one of the things that a host waits for.
    waiting = Counter(parents)
    waiting.update(range(-1, len(parents)))
    free: dict[int, float] = {}
    events: list[tuple[float, int, int, bool]] = []
    heappush(events, (0.0, 0, COORDINATOR, True))
    number, ended = 1, 0.0
    while events:
        ready, _, host, is_order = heappop(events)
        core = processor(host)
        now = max(ready, free.get(core, 0.0))
        if is_order:
            for child in below.get(host, ()):
                now += costs.send
                heappush(events, (now + costs.latency, number, child, True))
                number += 1
            now += 0.0 if host == COORDINATOR else costs.work
        else:
            now += costs.take
        waiting[host] -= 1
        if not waiting[host]:
            if host == COORDINATOR:
                ended = now
            else:
                now += costs.send
                heappush(events, (now + costs.latency, number, parents[host], False))
                number += 1
        free[core] = now
    return ended
