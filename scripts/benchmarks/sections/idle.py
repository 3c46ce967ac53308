"""Idle step: time of a step without any event, over several hosts.

Bare: a process sends an order to as many other processes and waits for all reports; the step of all hosts does the
same. An idle step has no host with work, so no order is sent.
"""

from collections.abc import Iterator
from functools import partial

import trio

from benchmarks.interleaved import interleave
from benchmarks.networks import idle_milliseconds, network_up, plan_of, until_idle
from benchmarks.record import Options, Row, Section
from benchmarks.subprocesses import measure
from coordinator.planning.plan import Plan

OURS = "step of all hosts"
IDLE = "idle step"
CASES = ((2, 0.3), (4, 0.5), (48, 8.0))
"""Number of hosts, and the target in milliseconds."""
QUICK_CASES = ((2, None),)


async def idle_step(plan: Plan, steps: int, everyone: bool = False) -> float:
    """Return milliseconds of an idle step; all hosts report if `everyone`."""
    async with network_up(plan) as network:
        return await idle_milliseconds(network, await until_idle(network), steps, everyone=everyone)


def rows(options: Options) -> Iterator[Row]:
    """Yield idle steps of S_6 beside bare round trips."""
    name, steps = ("star:4", 50) if options.quick else ("star:6", 400)
    order = plan_of(topology=name).topology.order
    for hosts, wanted in QUICK_CASES if options.quick else CASES:
        plan = plan_of(topology=name, ranks_per_host=-(-order // hosts))
        comparison = interleave(
            partial(measure, "bare", "idle", hosts=hosts, rounds=steps),
            {
                OURS: partial(trio.run, idle_step, plan, steps, True),
                IDLE: partial(trio.run, idle_step, plan, steps),
            },
            max(1, options.turns // 2),
            times=True,
        )
        yield from comparison.rows(f"{hosts} hosts", "ms", OURS, at_most=wanted)


SECTION = Section("time of a step in which nothing happens, over 2, 4 and 48 hosts", rows, seconds=20)
