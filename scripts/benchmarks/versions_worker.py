"""Questions of the section `versions`, answered by this checkout or an older one: processor time of one piece of work.

The program runs in the environment of the checkout that it measures, with that checkout's own `benchmarks` package, so it
names every module as the present and as version 0.1.0 have it. Times are user and system time of all processes of a run.
"""

import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import trio


def find(*names: str) -> Any:
    """Return the first of these objects, each `module.attribute`, that this checkout has."""
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            return getattr(importlib.import_module(module), attribute)
        except (ModuleNotFoundError, AttributeError):
            continue
    raise SystemExit(f"this checkout has none of {', '.join(names)}")


connected, network_up, plan_of, run_steps = (
    find(f"benchmarks.networks.{name}") for name in ("connected", "network_up", "plan_of", "run_steps")
)
parse_topology = find("emunode.topologies.registry.parse_topology", "emunode.topology.registry.parse_topology")
MemoryEngine = find("emunode.engine.memory.MemoryEngine", "emunode.memory.MemoryNetwork")
packets = find("benchmarks.implementations.ours.packets", "benchmarks.ways.ours.packets")
networkx_loop = find(
    "benchmarks.networks.networkx_loop", "benchmarks.baselines.simulators._loop", "benchmarks.peers.simulators._loop"
)


def seconds_of(pids: Iterable[int]) -> float:
    """Return processor time of this process and others so far."""
    # psutil counts in hundredths of a second. The clock of a process has nanoseconds; its number is computed as by
    # clock_getcpuclockid(3): inverted id, then 2 for the clock of the scheduler.
    return time.process_time() + sum(time.clock_gettime((~pid << 3) | 2) for pid in pids)


def core(topology: str, rounds: int) -> float:
    """Return microseconds of the I/O core per 70-byte packet."""
    network = parse_topology(topology)
    with connected(network) as ends:
        return float(1e6 / packets(list(ends), 70, rounds, network.degree))


def stack(topology: str, steps: int) -> float:
    """Return microseconds of one host and the coordinator per packet of the busy allgather of section `stack`."""
    network = parse_topology(topology)
    plan = plan_of(
        topology=topology,
        collective="allgather",
        algorithm="edt-dfs",
        ranks_per_host=network.order,
        message_bytes=56,
        redundancy=network.degree,
    )

    async def measured() -> float:
        async with network_up(plan) as hosts:
            before = seconds_of(hosts.pids)
            count = await run_steps(hosts, steps)
            return 1e6 * (seconds_of(hosts.pids) - before) / int(count)

    return trio.run(measured)


def links(topology: str) -> float:
    """Return microseconds of hosts and coordinator per link, from the first dial to the last open link."""
    spent: list[float] = []
    owner, method = connecting()
    connect = getattr(owner, method)

    async def timed(self: Any, *arguments: Any) -> None:
        hosts = self.pids if hasattr(self, "pids") else [host.pid for host in self._channel.in_order]
        before = seconds_of(hosts)
        await connect(self, *arguments)
        spent.append(seconds_of(hosts) - before)

    setattr(owner, method, timed)

    async def opened() -> int:
        async with network_up(plan_of(topology=topology)) as network:
            return int(network.links_opened)

    count = trio.run(opened)
    return 1e6 * spent[0] / count


def connecting() -> tuple[Any, str]:
    """Return the class and method that open all links, once every host listens."""
    try:
        return importlib.import_module("coordinator.networks.link_waves").LinkWaves, "connect"
    except ModuleNotFoundError:
        return importlib.import_module("coordinator.control").HostNetwork, "_connect"


def idle(topology: str, hosts: int, steps: int) -> float:
    """Return microseconds of all hosts and the coordinator per step without any event."""
    plan = plan_of(topology=topology, ranks_per_host=-(-parse_topology(topology).order // hosts))

    async def measured() -> float:
        async with network_up(plan) as network:
            step = 1
            while (await network.step(step, ())).busy:
                step += 1
            before = seconds_of(network.pids)
            for later in range(step + 1, step + 1 + steps):
                await network.step(later, ())
            return 1e6 * (seconds_of(network.pids) - before) / steps

    return trio.run(measured)


def broadcast(topology: str, rounds: int) -> float:
    """Return microseconds of all hosts and the coordinator per broadcast of 64 bytes along the greedy tree."""
    plan = plan_of(topology=topology, algorithm="greedy-tree", message_bytes=64)

    async def measured() -> float:
        spent = []
        async with network_up(plan) as network:
            for _ in range(rounds):
                before = seconds_of(network.pids)
                await run_steps(network, 1000)
                spent.append(seconds_of(network.pids) - before)
                await network.reset(plan)
        return float(1e6 * median(spent))

    return trio.run(measured)


def flood(topology: str, rounds: int) -> float:
    """Return processor time of a flood in memory, divided by that of a loop over a networkx graph."""
    plan, ratios = plan_of(topology=topology), []
    for _ in range(rounds):
        engine, step = MemoryEngine(plan.algorithm), 0
        began = time.process_time()
        while engine.busy:
            step += 1
            engine.step(step)
        ratios.append((time.process_time() - began) / networkx_loop(plan.topology))
    return float(median(ratios))


def start(command: list[str], rounds: int) -> float:
    """Return milliseconds of a command and its hosts, with modules compiled beforehand as in an installation."""
    with TemporaryDirectory(prefix="bench-") as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        spent = []
        for _ in range(rounds + 1):
            before = seconds_of_children()
            subprocess.run(
                [sys.executable, "-P", "-m", *command],
                check=True,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            spent.append(seconds_of_children() - before)
    return 1e3 * median(spent[1:])  # the first one compiled the modules


def seconds_of_children() -> float:
    """Return processor time of the children of this process that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Answer the question on the command line: a name, and its arguments as JSON."""
    questions = {one.__name__: one for one in (core, stack, links, idle, broadcast, flood, start)}
    print(json.dumps(questions[sys.argv[1]](**json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
