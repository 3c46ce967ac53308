"""Whole stack: an allgather that keeps every link busy in both directions, one segment per packet, as the bare loop does.

Packets per CPU second of one real host process (rules, payload checks, journal, counting), beside the bare loop with packets
of the same size. The other implementations have no whole stack; section core measures them on bare sockets.
"""

from collections.abc import Iterator
from functools import partial
from statistics import median
from time import process_time

import trio

from benchmarks.interleaved import interleave
from benchmarks.networks import connected, network_up, plan_of, processor_seconds, run_steps
from benchmarks.record import Note, Options, Row, Section
from benchmarks.subprocesses import measure
from coordinator.planning.plan import Plan
from emunode.engine.memory import MemoryEngine
from emunode.net import wire
from emunode.topologies.registry import parse_topology

CASES = (("star:6", 56), ("star:6", 16384), ("star:5", 56))
"""Network and bytes of a segment."""
QUICK_CASES = (("star:4", 56),)
ALGORITHM = "edt-dfs"
OURS = "whole stack"
WANTED = 0.5


def busy_plan(name: str, segment_bytes: int, hosts: int) -> Plan:
    """Return an allgather on all links of a star graph, over `hosts` hosts."""
    topology = parse_topology(name)
    return plan_of(
        topology=name,
        collective="allgather",
        algorithm=ALGORITHM,
        ranks_per_host=-(-topology.order // hosts),
        message_bytes=segment_bytes,
        redundancy=topology.degree,
    )


async def whole_stack(plan: Plan, steps: int) -> float:
    """Return packets per CPU second of the host processes over the first `steps` steps of a run, set-up not counted."""
    async with network_up(plan) as network:
        before = sum(processor_seconds(network.pids))
        packets = await run_steps(network, steps)
        spent = sum(processor_seconds(network.pids)) - before
    return packets / spent


def memory_engine(plan: Plan, steps: int) -> float:
    """Return packets per CPU second of the same steps in memory: rules, nodes and journal without I/O."""
    network = MemoryEngine(plan.algorithm)
    began, rows = process_time(), 0
    for step in range(1, steps + 1):
        rows += len(network.step(step))
    return rows // wire.ROW.size / (process_time() - began)


def rows(options: Options) -> Iterator[Row | Note]:
    """Yield the whole stack on one network and one host beside the bare loop with packets of the same size."""
    for name, segment_bytes in QUICK_CASES if options.quick else CASES:
        yield from _case(name, segment_bytes, options)


def _case(name: str, segment_bytes: int, options: Options) -> Iterator[Row]:
    topology = parse_topology(name)
    plan = busy_plan(name, segment_bytes, 1)
    size = len(wire.encode_packet(1, ((0, -1, 0, 0, bytes(segment_bytes)),)))
    steps = max(6, (12_000 if options.quick else 120_000) // (topology.order * topology.degree))
    with connected(topology) as ends:
        baseline = partial(measure, "bare", "packets", fds=ends, ends=ends, size=size, rounds=steps)
        comparison = interleave(baseline, {OURS: partial(trio.run, whole_stack, plan, steps)}, options.turns)
    subject = f"{name}, {size}-byte packets"
    yield from comparison.rows(subject, "packets/CPU s", OURS, at_least=None if options.quick else WANTED)
    in_memory = median(memory_engine(plan, steps) for _ in range(options.turns))
    yield Row(
        subject, "  of it rules, nodes, journal", 100 * comparison.scores[OURS].value / in_memory, "% of CPU time"
    )


SECTION = Section("packets per CPU second of a whole host", rows, seconds=60)
