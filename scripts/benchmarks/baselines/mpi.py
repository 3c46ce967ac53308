"""Open MPI: the same collectives with the same bytes on the same number of ranks, and the time to start them.

Each rank of MPI is a process; our ranks share a few hosts or have one process each. The time of a collective runs from
the start of the last source until the last rank has everything; the median of many rounds counts. In our time every hop is
checked and reported to the coordinator over TCP, so the target refers to MPI over TCP. MPI in shared memory is shown too.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

import trio

from benchmarks.commands import coordinator_run
from benchmarks.networks import network_up, plan_of, run_steps
from benchmarks.record import Note, Options, Row
from benchmarks.subprocesses import ProgramError, run_program
from coordinator.planning.plan import Plan

SOURCE = Path(__file__).with_name("collectives.c")
INSTALL = "apt-get install openmpi-bin libopenmpi-dev"
MPI = "Open MPI"
MEMORY, TCP = f"{MPI}, shared memory", f"{MPI}, TCP"
TRANSPORTS = {MEMORY: (), TCP: ("--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo")}
"""Flags per transport; shared memory is the default."""
ALGORITHMS = {"broadcast": "greedy-tree", "allgather": "rotated-trees", "alltoall": "near-balanced-tree"}
BYTES = 64
START_WANTED, BROADCAST_WANTED = 30, 2


class Launch(NamedTuple):
    """One execution of mpirun."""

    ready: float
    """Seconds until the last rank returned from MPI_Init."""
    seconds: float
    """The whole command."""
    times: dict[str, list[float]]
    """Collective -> seconds of each round."""


class Ours(NamedTuple):
    """One network of this project."""

    ready: float
    times: list[float]
    """Seconds of each round of its collective."""


def rows(options: Options) -> Iterator[Row | Note]:
    """Start, broadcast, allgather, alltoall."""
    if not (shutil.which("mpirun") and shutil.which("mpicc")):
        yield Note(f"{MPI}: not measured, because mpirun or mpicc is not installed: {INSTALL}")
        return
    topology, rounds, turns = ("star:3", 3, 1) if options.quick else ("star:5", 20, min(3, options.turns))
    try:
        with TemporaryDirectory(prefix="bench-") as folder:
            program = Path(folder) / "collectives"
            run_program(["mpicc", "-O2", "-o", program, SOURCE], seconds=120)
            yield from _start(topology, program, turns, options)
            yield from _collectives(topology, program, rounds, turns, options)
    except ProgramError as error:
        yield Note(f"{MPI}: not measured: {error}")


def _start(topology: str, program: Path, turns: int, options: Options) -> Iterator[Row]:
    ranks = plan_of(topology=topology).topology.order
    launches, hosted, alone = [], [], []
    for _ in range(turns):
        launches.append(_mpirun(program, ranks, 0))
        hosted.append(trio.run(_operate, _plan(topology, "broadcast"), 1).ready)
        alone.append(trio.run(_operate, _plan(topology, "broadcast", ranks_per_host=1), 1).ready)
    theirs = median(launch.ready for launch in launches)
    subject = f"{topology}, {ranks} ranks"
    wanted = None if options.quick else START_WANTED
    yield Row(subject, f"start, {MPI}", theirs, "s")
    yield Row(subject, "start, hosted", median(hosted), "s", theirs / median(hosted), MPI, wanted)
    yield Row(subject, "start, one process per rank", median(alone), "s", theirs / median(alone), MPI)
    commands = [coordinator_run(topology, ALGORITHMS["broadcast"]).seconds for _ in range(turns)]
    theirs = median(launch.seconds for launch in launches)
    yield Row(subject, f"whole command, nothing done, {MPI}", theirs, "s")
    yield Row(subject, "whole command, one broadcast", median(commands), "s", theirs / median(commands), MPI)


def _collectives(topology: str, program: Path, rounds: int, turns: int, options: Options) -> Iterator[Row]:
    ranks = plan_of(topology=topology).topology.order
    subject = f"{topology}, {ranks} ranks, {BYTES} bytes"
    launches = {said: _mpirun(program, ranks, rounds, *flags) for said, flags in TRANSPORTS.items()}
    for collective in ALGORITHMS:
        theirs = {said: launch.times[collective] for said, launch in launches.items()}
        ours = [trio.run(_operate, _plan(topology, collective), rounds).times for _ in range(turns)]
        typical = median(map(median, ours))
        for said, times in theirs.items():
            yield Row(subject, f"{collective}, {said}", 1000 * median(times), "ms")
            yield Row(subject, "  its first", 1000 * times[0], "ms")
        for said, times in theirs.items():
            wanted = BROADCAST_WANTED if (collective, said) == ("broadcast", TCP) and not options.quick else None
            yield Row(subject, f"{collective}, hosted", 1000 * typical, "ms", median(times) / typical, said, wanted)
        yield Row(subject, "  its first", 1000 * median(times[0] for times in ours), "ms")


def packing_rows(options: Options) -> Iterator[Row | Note]:
    """Yield a total exchange with one segment per packet, and with full packets, beside MPI's total exchange."""
    if not (shutil.which("mpirun") and shutil.which("mpicc")):
        yield Note(f"{MPI}: not measured, because mpirun or mpicc is not installed: {INSTALL}")
        return
    topologies, rounds, turns = (
        (("star:3",), 3, 1) if options.quick else (("star:4", "star:5"), 10, min(3, options.turns))
    )
    try:
        with TemporaryDirectory(prefix="bench-") as folder:
            program = Path(folder) / "collectives"
            run_program(["mpicc", "-O2", "-o", program, SOURCE], seconds=120)
            for topology in topologies:
                yield from _packing(topology, program, rounds, turns)
    except ProgramError as error:
        yield Note(f"{MPI}: not measured: {error}")


def _packing(topology: str, program: Path, rounds: int, turns: int) -> Iterator[Row]:
    ranks = plan_of(topology=topology).topology.order
    subject = f"{topology}, {ranks} ranks, {BYTES} bytes"
    packings = {"one segment per packet": {}, "full packets": {"algorithm": "bfs-tree", "link_capacity": "unlimited"}}
    theirs: dict[str, list[float]] = {said: [] for said in TRANSPORTS}
    ours: dict[str, list[float]] = {said: [] for said in packings}
    for _ in range(turns):  # in turn, so that other work on the machine meets all alike
        for said, flags in TRANSPORTS.items():
            theirs[said].append(median(_mpirun(program, ranks, rounds, *flags).times["alltoall"]))
        for said, values in packings.items():
            plan = _plan(topology, "alltoall", **values)
            ours[said].append(median(trio.run(_operate, plan, rounds).times))
    for transport, times in theirs.items():
        yield Row(subject, f"alltoall, {transport}", 1000 * median(times), "ms")
    for said, times in ours.items():
        for transport in TRANSPORTS:
            share = median(their / our for their, our in zip(theirs[transport], times, strict=True))
            yield Row(subject, f"alltoall, {said}", 1000 * median(times), "ms", share, transport)
    share = median(one / full for one, full in zip(*ours.values(), strict=True))
    yield Row(
        subject, "alltoall, full packets", 1000 * median(ours["full packets"]), "ms", share, "one segment per packet"
    )


def _plan(topology: str, collective: str, **more: object) -> Plan:
    algorithm = more.pop("algorithm", ALGORITHMS[collective])
    return plan_of(topology=topology, collective=collective, algorithm=algorithm, message_bytes=BYTES, **more)


async def _operate(plan: Plan, rounds: int) -> Ours:
    """Open a network and run its collective `rounds` times."""
    began = time.perf_counter()
    async with network_up(plan) as network:
        ready = time.perf_counter() - began
        times = []
        for _ in range(rounds):
            began = time.perf_counter()
            await run_steps(network, 10_000)
            times.append(time.perf_counter() - began)
            await network.reset(plan)
        return Ours(ready, times)


def _mpirun(program: Path, ranks: int, rounds: int, *flags: str) -> Launch:
    """Launch that many ranks, `rounds` times each collective."""
    allow = ("--allow-run-as-root",) if os.geteuid() == 0 else ()
    folder = ("--mca", "orte_tmpdir_base", str(program.parent))
    began, clock = time.time(), time.perf_counter()
    answer = run_program(
        ["mpirun", *allow, "--oversubscribe", *folder, *flags, "-n", str(ranks), program, str(BYTES), str(rounds)],
        seconds=300,
    )
    spent = time.perf_counter() - clock
    said = json.loads(answer.splitlines()[-1])
    return Launch(said.pop("ready") - began, spent, said)
