"""Plan every algorithm on the largest networks that can be named: each plan ends, or is refused, within time and memory.

A plan must not build anything that grows with the network before its size has been checked.
"""

import contextlib
import io
import resource
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial

from coordinator.cli.app import main
from emunode.algorithms.registry import algorithms
from emunode.model import Collective
from emunode.topologies.registry import parse_topology
from stress_tests.common import FORK, Attempt, Budget, Row

LARGEST = {
    "star:12", "star:10", "hypercube:30", "hypercube:20", "ej:26754+26755", "ej:3+4^5", "torus:40000x50000",
    "ring:999999999", "ring:1000000", "complete:40000", "complete:4000", "pancake:12", "ccc:24", "debruijn:2,30",
}  # fmt: skip
"""About the most nodes whose ranks fit a journal row, and about as many as can still be looked at one by one."""
SECONDS = 10.0
"""Processor time of a plan."""
GIGABYTES = 2.0
LEAVE_SECONDS = 120.0
"""Time until a plan that does not end is killed, on a busy machine too."""


def cases() -> list[tuple[str, Collective, str]]:
    """(network, collective, algorithm) of everything that has a name there."""
    return [
        (name, collective, algorithm)
        for name in sorted(LARGEST)
        for collective in Collective
        for algorithm in algorithms(parse_topology(name).family, collective)
    ]


def plan(budget: Budget, chosen: list[tuple[str, Collective, str]], number: int) -> Attempt:
    """Plan one case in a process of its own, which the kernel ends beyond its limits."""
    del budget
    topology, collective, algorithm = chosen[number]
    pipe, its = FORK.Pipe(duplex=False)
    process = FORK.Process(target=_plan, args=(its, topology, collective, algorithm))
    process.start()
    its.close()
    process.join(LEAVE_SECONDS)
    process.kill()
    process.join()
    name = f"plan --topology {topology} --collective {collective} --algorithm {algorithm}"
    try:
        status, seconds, gigabytes, output = pipe.recv()
    except EOFError:
        return Attempt([f"{name}: no end within {SECONDS:g} s of processor time"], Counter())
    wrong = []
    if status not in (0, 2, 4) or "Traceback" in output or "out of memory" in output:
        wrong.append(f"{name}: exit status {status}: {output[-200:]}")
    if seconds > SECONDS or gigabytes > GIGABYTES:
        wrong.append(f"{name}: {seconds:.1f} s and {gigabytes:.1f} GB")
    return Attempt(wrong, Counter({f"exit {status}": 1}))


def _plan(pipe: object, topology: str, collective: Collective, algorithm: str) -> None:
    """Run `coordinator plan` and send its exit status, processor time, memory and messages."""
    # Twice the limits: what exceeds them a little is measured, and what does not end is ended.
    resource.setrlimit(resource.RLIMIT_CPU, (int(2 * SECONDS), int(2 * SECONDS)))
    resource.setrlimit(resource.RLIMIT_DATA, (int(2 * GIGABYTES * 1e9), int(2 * GIGABYTES * 1e9)))
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    output = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(output):
        status = main(["plan", "--topology", topology, "--collective", str(collective), "--algorithm", algorithm])
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    pipe.send((status, time.process_time() - began, used * 1024 / 1e9, output.getvalue()))  # type: ignore[attr-defined]


def run_section(budget: Budget) -> Iterator[Row]:
    """Plan every algorithm on every large network, or a sample of them."""
    chosen = cases()
    chosen = chosen[budget.seed % 40 :: 40] if budget.sample else chosen
    row = Row("plans of the largest networks")
    counts = row.run_all(partial(plan, budget, chosen), range(len(chosen)), processes=2)
    row.note = ", ".join(f"{name}: {counts[name]}" for name in sorted(counts))
    yield row
