"""Control of many hosts: processes with one node each, steps without packets, and what a host costs.

A step of all hosts goes through the tree of control, and then by an order to each host. Processor time is read from the
scheduler, in nanoseconds.
"""

import resource
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

import psutil
import trio

from benchmarks.networks import network_up, plan_of
from benchmarks.record import Note, Options, Row, Section
from coordinator.networks.control_tree import FAN_OUT, TREE_HOSTS, tree_parents
from coordinator.networks.host_network import HostNetwork
from coordinator.planning.plan import Plan

CASES = (("hypercube:8", 30), ("hypercube:10", 10))
"""Networks with a process for each node, and the number of steps."""
QUICK_CASES = (("hypercube:8", 2),)
IDLE = "idle step"
IDLE_MS = 15.0
"""The longest idle step."""
SAMPLE = 20
"""Processes whose memory is read."""
DESCRIPTORS = 20_000


def processor_seconds(pids: list[int]) -> float:
    """Return the processor time of these processes so far."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) for pid in pids) / 1e9


async def steps_of(network: HostNetwork, first: int, count: int, everyone: bool) -> tuple[float, float, float]:
    """Run steps without packets; return milliseconds of a step, and processor time of coordinator and hosts in each."""
    times, hosts, own = [], processor_seconds(network.pids), process_time()
    for step in range(first, first + count):
        began = perf_counter()
        await network.barrier.step(step, (), everyone=everyone)
        times.append(perf_counter() - began)
    return median(times) * 1000, (process_time() - own) / count, (processor_seconds(network.pids) - hosts) / count


async def measure(plan: Plan, steps: int) -> list[Row]:
    """Return the figures of one network."""
    hosts, began = plan.hosts, perf_counter()
    async with network_up(plan) as network:
        subject, step = f"{hosts} hosts", 1
        found = [Row(subject, "start", perf_counter() - began, "s")]
        while (await network.step(step, ())).busy:
            step += 1
        sample = [psutil.Process(pid).memory_full_info().uss for pid in network.pids[:: max(1, hosts // SAMPLE)]]
        found.append(Row(subject, "memory of a host process", median(sample) / 2**20, "MiB"))
        idle, *_ = await steps_of(network, step + 1, steps, False)
        found.append(Row(subject, IDLE, idle, "ms", at_most=IDLE_MS))
        tree, _, in_tree = await steps_of(network, step + 1 + steps, steps, True)
        found.append(Row(subject, "step of all hosts through the tree", tree, "ms"))
        network.barrier.leave_tree()
        direct, own, alone = await steps_of(network, step + 1 + 2 * steps, steps, True)
        found.append(Row(subject, "step of all hosts, each ordered", direct, "ms"))
        parents = tree_parents(hosts, FAN_OUT)
        passed_on = sum(parent >= 0 for parent in parents)
        found.append(Row(subject, "coordinator, for each host it orders", own / hosts * 1e6, "us of CPU time"))
        found.append(Row(subject, "host, for an order", alone / hosts * 1e6, "us of CPU time"))
        relayed = max(0.0, in_tree - alone) / passed_on * 1e6
        found.append(Row(subject, "host, for each child", relayed, "us of CPU time"))
    return found


def rows(options: Options) -> Iterator[Row | Note]:
    """Yield the figures of each network."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < DESCRIPTORS <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    for name, steps in QUICK_CASES if options.quick else CASES:
        plan = plan_of(topology=name, ranks_per_host=1)
        assert plan.hosts >= TREE_HOSTS
        yield from trio.run(measure, plan, steps)


SECTION = Section("a thousand host processes: start, memory, steps (named only)", rows, seconds=120, optional=True)
