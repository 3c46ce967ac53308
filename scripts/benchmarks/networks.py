"""Connected sockets and running hosts for the sections."""

import contextlib
import os
import socket
from collections.abc import AsyncIterator, Iterator
from tempfile import TemporaryFile

import psutil
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


def cpu_seconds(pids: list[int]) -> float:
    """Return the user and system time of these processes so far."""
    return float(sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids))
