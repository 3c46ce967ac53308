"""Scaling over hosts: the same network over 1, 2 and 4 host processes, on all cores.

Throughput is that of the whole run loop in wall time, including coordinator and journal rows.
"""

from collections.abc import Iterator
from statistics import median
from time import perf_counter

import trio

from benchmarks.networks import network_up, run_steps
from benchmarks.record import Note, Options, Row, Section
from benchmarks.sections.stack import busy_plan
from coordinator.planning.plan import Plan

NETWORKS = ("star:5", "star:6")
QUICK_NETWORKS = ("star:4",)
ALONE = "1 host"


async def rates(plan: Plan, steps: int) -> tuple[float, float]:
    """Return links per second of the set-up, packets per second of the first steps."""
    async with network_up(plan) as network:
        began = perf_counter()
        packets = await run_steps(network, steps)
        return network.links_opened / network.connect_seconds, packets / (perf_counter() - began)


def rows(options: Options) -> Iterator[Row | Note]:
    """Yield each network over 1, 2 and 4 hosts, interleaved."""
    for name in QUICK_NETWORKS if options.quick else NETWORKS:
        plans = {hosts: busy_plan(name, 56, hosts) for hosts in (1, 2, 4)}
        topology = plans[1].topology
        steps = max(6, (12_000 if options.quick else 240_000) // (topology.order * topology.degree))
        turns = [{hosts: trio.run(rates, plan, steps) for hosts, plan in plans.items()} for _ in range(options.turns)]
        for at, (figure, unit) in enumerate((("links up", "links/s"), ("packets of an allgather", "packets/s"))):
            for hosts in plans:
                value = median(turn[hosts][at] for turn in turns)
                share = median(turn[hosts][at] / turn[1][at] for turn in turns)
                more = {"share": share, "beside": ALONE} if hosts > 1 else {}
                yield Row(f"{name}, {hosts} host{'s' * (hosts > 1)}", figure, value, unit, **more)  # type: ignore[arg-type]


SECTION = Section("links and packets per second over 1, 2 and 4 hosts", rows, seconds=60)
