"""Connected sockets and running hosts for the sections."""

import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile

import networkx
import trio

from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers import local
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.model import make_scenario
from emunode.net import wire
from emunode.topologies.base import Topology


@contextlib.contextmanager
def connected(topology: Topology) -> Iterator[list[int]]:
    """Descriptors of all link ends, by rank x degree + port, connected in this process."""
    ends: list[int] = [-1] * (topology.order * topology.degree)
    try:
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            for rank, port, other, its in topology.links():
                one = socket.create_connection(listener.getsockname())
                two, _ = listener.accept()
                for stream, slot in ((one, rank * topology.degree + port), (two, other * topology.degree + its)):
                    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    stream.setblocking(False)
                    ends[slot] = stream.detach()
        yield ends
    finally:
        for fd in ends:
            if fd >= 0:
                os.close(fd)


def plan_of(**values: object) -> Plan:
    """Return the plan of a broadcast by flooding, with other scenario keys from `values`."""
    return make_plan(make_scenario({"collective": "broadcast", "algorithm": "flood", **values}))


@contextlib.asynccontextmanager
async def network_up(plan: Plan) -> AsyncIterator[HostNetwork]:
    """Provide a running network of hosts, closed even after errors."""
    with TemporaryFile("w+") as log:
        network = HostNetwork(plan, local.launch(plan, log))
        try:
            await network.open(lambda *_: None)
            yield network
        finally:
            with trio.CancelScope(shield=True):
                await network.close()


async def run_steps(network: HostNetwork, most: int) -> int:
    """Run a network from its first step until nothing is sent, for at most `most` steps; the number of packets.

    A packet here carries one segment, so each is one row of the journal.
    """
    rows = 0
    for step in range(1, most + 1):
        result = await network.step(step, ())
        rows += sum(map(len, result.rows))
        if not result.busy:
            break
    return rows // wire.ROW.size


async def until_idle(network: HostNetwork) -> int:
    """Run a network until a step sends nothing, and return the next step."""
    step = 1
    while (await network.step(step, ())).busy:
        step += 1
    return step + 1


async def idle_milliseconds(network: HostNetwork, first: int, count: int, *, everyone: bool) -> float:
    """Return the median time of steps without packets, in which all hosts report if `everyone`."""
    times = []
    for step in range(first, first + count):
        began = time.perf_counter()
        await network.barrier.step(step, (), everyone=everyone)
        times.append(time.perf_counter() - began)
    return median(times) * 1000


def processor_seconds(pids: Sequence[int]) -> list[float]:
    """Return the processor time of each of these processes so far, as the scheduler counts it, in nanoseconds."""
    return [int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9 for pid in pids]


def networkx_loop(topology: Topology) -> float:
    """Return seconds of a flood in rounds: each newly informed node sends to all neighbours but its informers."""
    graph = networkx.Graph((one, other) for one, _, other, _ in topology.links())
    began = time.perf_counter()
    informed, fresh = {0}, {0: {0}}
    while fresh:
        heard: dict[int, set[int]] = {}
        for node, sources in fresh.items():
            for neighbour in graph[node]:
                if neighbour not in sources:
                    heard.setdefault(neighbour, set()).add(node)
        fresh = {node: sources for node, sources in heard.items() if node not in informed}
        informed.update(fresh)
    spent = time.perf_counter() - began
    assert len(informed) == topology.order
    return spent
