"""Simulators without sockets: a flood in PyDistSim, and in a simple loop over a networkx graph.

Neither keeps a journal, and the loop has no messages; our engines check and record every hop.
"""

import time
from collections.abc import Iterator
from statistics import median

import trio

from benchmarks.networks import network_up, plan_of, run_steps
from benchmarks.record import Note, Options, Row
from benchmarks.subprocesses import HOW_TO_INSTALL, ProgramError, ask, python_with
from coordinator.planning.plan import Plan
from emunode.engine.memory import MemoryEngine
from emunode.play import play
from emunode.topologies.base import Topology

LOOP = "loop over a networkx graph"
PYDISTSIM = "PyDistSim"


def rows(options: Options) -> Iterator[Row | Note]:
    """Yield milliseconds of a flood, in memory and over sockets."""
    turns = 1 if options.quick else options.turns
    plan = plan_of(topology="star:4" if options.quick else "star:6")
    topology = plan.topology
    subject = f"{topology.name}, {topology.order} nodes"
    theirs = {LOOP: median(_loop(topology) for _ in range(turns))}
    try:
        theirs |= _pydistsim(topology, turns)
    except ProgramError as error:
        yield Note(f"{PYDISTSIM}: not measured: {error}")
    in_memory = median(_in_memory(plan) for _ in range(turns))
    over_sockets = median(trio.run(_over_sockets, plan) for _ in range(turns))
    for name, seconds in theirs.items():
        yield Row(subject, f"flood, {name}", 1000 * seconds, "ms")
        yield Row(subject, "flood, memory engine", 1000 * in_memory, "ms", seconds / in_memory, name)
        yield Row(subject, "flood, over TCP", 1000 * over_sockets, "ms", seconds / over_sockets, name)


def _loop(topology: Topology) -> float:
    """Return seconds of a flood in rounds: each newly informed node sends to all neighbours but its informers."""
    import networkx  # a tenth of the time of a start

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


def _pydistsim(topology: Topology, turns: int) -> dict[str, float]:
    """Return seconds of a flood by title; raises ProgramError if PyDistSim is not installed."""
    python = python_with("pydistsim")
    if python is None:
        raise ProgramError(f"it is not installed: {HOW_TO_INSTALL.format('pydistsim')}")
    links = [(one, other) for one, _, other, _ in topology.links()]
    times = [
        ask("benchmarks.baselines.flood_in_pydistsim", "flood", python=python, order=topology.order, links=links)
        for _ in range(turns)
    ]
    return {PYDISTSIM: median(float(str(seconds)) for seconds in times)}


def _in_memory(plan: Plan) -> float:
    network = MemoryEngine(plan.algorithm)
    began = time.perf_counter()
    for _ in play(network):
        pass
    return time.perf_counter() - began


async def _over_sockets(plan: Plan) -> float:
    async with network_up(plan) as network:
        began = time.perf_counter()
        await run_steps(network, 1000)
        return time.perf_counter() - began
