"""Links: rate of a run's new links (authenticated by both sides), beside a bare loop of connect and accept."""

from collections.abc import Iterator
from functools import partial

import trio

from benchmarks.interleaved import interleave
from benchmarks.networks import network_up, plan_of
from benchmarks.record import Options, Row, Section
from benchmarks.subprocesses import measure
from coordinator.planning.machine import descriptor_limit
from coordinator.planning.plan import Plan

OURS = "links of a run"
WANTED = 0.6


async def link_rate(plan: Plan) -> float:
    """Return links per second of a run, from the first dial to the last open link."""
    async with network_up(plan) as network:
        return network.links_opened / network.connect_seconds


def rows(options: Options) -> Iterator[Row]:
    """Yield set-up of a star graph beside the bare loop."""
    name, most = ("star:4", 300) if options.quick else ("star:7", 8000)
    count = min(most, descriptor_limit() // 2 - 100)
    comparison = interleave(
        partial(measure, "bare", "links", count=count),
        {OURS: partial(trio.run, link_rate, plan_of(topology=name))},
        options.turns,
    )
    yield from comparison.rows(name, "links/s", OURS, at_least=None if options.quick else WANTED)


SECTION = Section("rate at which links come up", rows, seconds=40)
