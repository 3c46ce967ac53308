"""Control of many hosts: processes with one node each, steps without packets, and what a host costs.

A step of all hosts goes through the tree of control, and then by an order to each host. Processor time is read from the
scheduler, in nanoseconds. What a child costs its parent is the difference between hosts with and without children in the
same steps: other work on the machine slows both alike.
"""

import resource
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean, median
from time import perf_counter, process_time

import psutil
import trio

from benchmarks.networks import network_up, plan_of
from benchmarks.record import Note, Options, Row, Section
from coordinator.networks.control_tree import COORDINATOR, FAN_OUT, TREE_HOSTS, tree_parents
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


def processor_seconds(pids: Sequence[int]) -> list[float]:
    """Return the processor time of each of these processes so far."""
    return [int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9 for pid in pids]


async def steps_of(network: HostNetwork, first: int, count: int, everyone: bool) -> tuple[float, float, list[float]]:
    """Run steps without packets; return milliseconds of a step, and processor time of coordinator and hosts in each."""
    times, before, own = [], processor_seconds(network.pids), process_time()
    for step in range(first, first + count):
        began = perf_counter()
        await network.barrier.step(step, (), everyone=everyone)
        times.append(perf_counter() - began)
    own = process_time() - own
    after = processor_seconds(network.pids)
    return median(times) * 1000, own / count, [(now - then) / count for then, now in zip(before, after, strict=True)]


def cost_of_child(seconds: Sequence[float], parents: Sequence[int]) -> float:
    """Return what a child costs the host that orders it, from the processor time of each host in a step of the tree."""
    children = Counter(parent for parent in parents if parent != COORDINATOR)
    leaves = [spent for host, spent in enumerate(seconds) if host not in children]
    inner = [spent for host, spent in enumerate(seconds) if host in children]
    return (mean(inner) - mean(leaves)) * len(inner) / children.total()


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
        found.append(Row(subject, "coordinator, for each host it orders", own / hosts * 1e6, "us of CPU time"))
        found.append(Row(subject, "host, for an order", mean(alone) * 1e6, "us of CPU time"))
        child = cost_of_child(in_tree, tree_parents(hosts, FAN_OUT)) * 1e6
        found.append(Row(subject, "host, for each child", child, "us of CPU time"))
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
