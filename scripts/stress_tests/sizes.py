"""Try every algorithm on the largest networks that can be named: each command ends, or is refused, within time and memory.

`plan`, `run` and `sweep` must not build anything that grows with the network before its size has been checked. Runs end
after one step: what they build before it is the subject here, and later steps take the time that they take.
"""

import contextlib
import io
import resource
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from tempfile import TemporaryDirectory

import psutil

from coordinator.cli.invoke import main
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import algorithms
from emunode.model import VECTOR, Collective
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from stress_tests.common import FORK, Attempt, Budget, Row

LARGEST = {
    "star:12", "star:10", "hypercube:30", "hypercube:20", "ej:26754+26755", "ej:3+4^5", "torus:40000x50000",
    "ring:999999999", "ring:1000000", "complete:40000", "complete:4000", "pancake:12", "ccc:24", "debruijn:2,30",
}  # fmt: skip
"""About the most nodes whose ranks fit a journal row, and about as many as can still be looked at one by one."""
STEPPED = LARGEST - {"complete:4000"} | {"complete:300"}
"""The networks of runs: an allgather on complete:1000 delivers a million messages in its first step."""
MOST_BYTES, SMALL_BYTES = 2**25, 4096
BLOCK_BYTES = 64
"""Sizes of the largest vector, of other messages, and of a block of a vector: large enough to be cut as asked."""
SECONDS = 10.0
"""Processor time of a plan."""
GIGABYTES = 2.0
LEAVE_SECONDS = 120.0
"""Time until a plan that does not end is killed, on a busy machine too."""


Case = tuple[str, ...]
"""The arguments of a command."""


def cases(command: str) -> list[Case]:
    """Return the command for everything that has a name on a large network; `graph` has one case for each network."""
    if command == "graph":
        return [("graph", name, "--time-limit", "1") for name in sorted(LARGEST)]
    return [
        (
            command,
            "--topology",
            name,
            "--collective",
            str(collective),
            "--algorithm",
            algorithm,
            *setting,
            *FURTHER[command],
        )
        for name in sorted(LARGEST if command == "plan" else STEPPED)
        for collective in Collective
        for algorithm, entry in algorithms(parse_topology(name).family, collective).items()
        for setting in _settings(entry, parse_topology(name))
    ]


def _settings(entry: type[Algorithm], network: Topology) -> Iterator[Case]:
    """Yield the flags that an algorithm needs, or it would be refused for its port model or its message on any network."""
    size = min(MOST_BYTES, max(SMALL_BYTES, BLOCK_BYTES * network.order)) if entry.collective in VECTOR else SMALL_BYTES
    flags = ("--port-model", str(entry.port_models[0]), "--message-bytes", str(size))
    yield flags
    if entry.collective in (Collective.SCATTER, Collective.GATHER, Collective.ALLTOALL):
        # Some send one message over each port and accept no other number.
        yield (*flags, "--messages", str(network.degree))


FURTHER = {
    "plan": (),
    "run": ("--driver", "memory", "--step-limit", "1", "--quiet"),
    "sweep": ("--step-limit", "1"),
}
"""The further flags of each command."""


def attempt(budget: Budget, chosen: list[Case], number: int) -> Attempt:
    """Run one command in a process of its own that the kernel ends beyond its limits."""
    del budget
    case = chosen[number]
    pipe, its = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_run, args=(its, case))
    process.start()
    its.close()
    process.join(LEAVE_SECONDS)
    name = " ".join(case)
    with contextlib.suppress(psutil.NoSuchProcess):
        used = sum(psutil.Process(process.pid).cpu_times()[:2]) if process.is_alive() else SECONDS
        if used < SECONDS and not pipe.poll():
            process.kill()
            process.join()
            return Attempt([], Counter(), not_reached=(f"{name}: not reached: {used:.1f} s in {LEAVE_SECONDS:g} s",))
    process.kill()
    process.join()
    try:
        status, seconds, gigabytes, output = pipe.recv()
    except EOFError:
        return Attempt([f"{name}: no end within {SECONDS:g} s of processor time"], Counter())
    wrong = []
    # 3: a run of one step is undecided.
    if status not in (0, 2, 3, 4) or "Traceback" in output or "out of memory" in output:
        wrong.append(f"{name}: exit status {status}: {output[-200:]}")
    if seconds > SECONDS or gigabytes > GIGABYTES:
        wrong.append(f"{name}: {seconds:.1f} s and {gigabytes:.1f} GB")
    return Attempt(wrong, Counter({f"exit {status}": 1}))


def _run(pipe: object, case: Case) -> None:
    """Run a command in an empty folder, and send its exit status, processor time, memory and messages."""
    # Twice the limits: what exceeds them a little is measured, and what does not end is ended.
    resource.setrlimit(resource.RLIMIT_CPU, (int(2 * SECONDS), int(2 * SECONDS)))
    resource.setrlimit(resource.RLIMIT_DATA, (int(2 * GIGABYTES * 1e9), int(2 * GIGABYTES * 1e9)))
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = io.StringIO()
    shown = contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(output)
    with TemporaryDirectory() as folder, contextlib.chdir(folder), shown[0], shown[1]:
        status = main(list(case))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    pipe.send((status, time.process_time() - began, used * 1024 / 1e9, output.getvalue()))  # type: ignore[attr-defined]


def run_section(budget: Budget) -> Iterator[Row]:
    """Try every command, or a sample of them."""
    for command in ("plan", "run", "sweep", "graph"):
        chosen = cases(command)
        # Prime, so that every sample has other networks, collectives and algorithms.
        every = {"plan": 41, "run": 83, "sweep": 167, "graph": 7}[command]
        chosen = chosen[budget.seed % every :: every] if budget.sample else chosen
        row = Row(f"{command} on the largest networks")
        counts = row.run_all(partial(attempt, budget, chosen), range(len(chosen)), processes=2)
        row.tell(counts)
        yield row
