"""Control of many hosts: processes with one node each, steps without packets, and what a host costs.

A step of all hosts goes through the tree of control, and then by an order to each host. Processor time is read from the
scheduler, in nanoseconds. What a child costs its parent is the difference between hosts with and without children in the
same steps: other work on the machine slows both alike.
"""

import resource
from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import mean, median
from time import perf_counter, process_time

import psutil
import trio

from benchmarks.networks import idle_milliseconds, network_up, plan_of, processor_seconds, until_idle
from benchmarks.record import Options, Row, Section
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


async def steps_of(network: HostNetwork, first: int, count: int, everyone: bool) -> tuple[float, float, list[float]]:
    """Run steps without packets; return milliseconds of a step, and processor time of coordinator and hosts in each."""
    before, own = processor_seconds(network.pids), process_time()
    spent = await idle_milliseconds(network, first, count, everyone=everyone)
    own = process_time() - own
    after = processor_seconds(network.pids)
    return spent, own / count, [(now - then) / count for then, now in zip(before, after, strict=True)]


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
        subject = f"{hosts} hosts"
        found = [Row(subject, "start", perf_counter() - began, "s")]
        first = await until_idle(network)
        sample = [psutil.Process(pid).memory_full_info().uss for pid in network.pids[:: max(1, hosts // SAMPLE)]]
        found.append(Row(subject, "memory of a host process", median(sample) / 2**20, "MiB"))
        idle, *_ = await steps_of(network, first, steps, False)
        found.append(Row(subject, IDLE, idle, "ms", at_most=IDLE_MS))
        tree, _, in_tree = await steps_of(network, first + steps, steps, True)
        found.append(Row(subject, "step of all hosts through the tree", tree, "ms"))
        network.barrier.leave_tree()
        direct, own, alone = await steps_of(network, first + 2 * steps, steps, True)
        found.append(Row(subject, "step of all hosts, each ordered", direct, "ms"))
        found.append(Row(subject, "coordinator, for each host it orders", own / hosts * 1e6, "us of CPU time"))
        found.append(Row(subject, "host, for an order", mean(alone) * 1e6, "us of CPU time"))
        child = cost_of_child(in_tree, tree_parents(hosts, FAN_OUT)) * 1e6
        found.append(Row(subject, "host, for each child", child, "us of CPU time"))
    return found


def rows(options: Options) -> Iterator[Row]:
    """Yield the figures of each network."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < DESCRIPTORS <= hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    for name, steps in QUICK_CASES if options.quick else CASES:
        plan = plan_of(topology=name, ranks_per_host=1)
        assert plan.hosts >= TREE_HOSTS
        yield from trio.run(measure, plan, steps)


SECTION = Section("a thousand host processes: start, memory, steps (named only)", rows, seconds=120, optional=True)
