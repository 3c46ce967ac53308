"""Memory of a link end: kernel memory of a connected socket, and user memory of its process.

Kernel memory is the growth of slabs, kernel stacks, page tables and socket buffers; user memory the proportional set size of
the processes: all of it for our hosts, only the growth for the bare loop.
"""

from collections.abc import Iterator

import trio

from benchmarks.memory import Memory, Peak, kernel_bytes, settled_kernel_bytes
from benchmarks.networks import connected, network_up, plan_of, run_steps
from benchmarks.record import BARE, Options, Row, Section
from benchmarks.subprocesses import measure
from coordinator.planning.plan import Plan
from emunode.topologies.registry import parse_topology


async def peak_of_run(plan: Plan) -> Memory:
    """Return the peak kernel and user memory of the hosts during set-up and one broadcast."""
    pids: list[int] = []
    with Peak(lambda: pids, 0.2) as peak:
        async with network_up(plan) as network:
            pids += network.pids
            peak.look()
            await run_steps(network, 1000)
            peak.look()
    return peak.most


def rows(options: Options) -> Iterator[Row]:
    """Yield the bare loop and our hosts on a network, and our hosts on a larger one, where a process weighs less."""
    name = "hypercube:6" if options.quick else "hypercube:10"
    topology = parse_topology(name)
    before = settled_kernel_bytes()
    with connected(topology) as ends:
        kernel = (kernel_bytes() - before) / len(ends)
        yield Row(name, f"{BARE}, kernel", kernel, "bytes/link end")
        yield Row(name, f"{BARE}, user", measure("bare", "memory", fds=ends, ends=ends), "bytes/link end")
    yield from _our_rows(name)
    if not options.quick:
        yield from _our_rows("star:7")


def _our_rows(name: str) -> Iterator[Row]:
    plan = plan_of(topology=name)
    peak, ends = trio.run(peak_of_run, plan), 2 * plan.topology.link_count
    yield Row(name, "hosts at their peak, kernel", peak.kernel / ends, "bytes/link end")
    yield Row(name, "hosts at their peak, user", peak.user / ends, "bytes/link end")
    yield Row(name, "hosts at their peak", peak.total / ends, "bytes/link end")


SECTION = Section("kernel and user memory of a link end", rows, seconds=15)
