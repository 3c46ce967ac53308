"""Scaling over sizes: set-up, broadcast and journal for the networks of the papers, up to the papers' sizes.

Each is one `coordinator run` with the local driver. Ready: hosts started and every link authenticated. Memory is the
increase of kernel memory and the proportional set size of all processes, at their peak.
"""

from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.commands import coordinator_run
from benchmarks.record import Note, Options, Row, Section
from benchmarks.subprocesses import ProgramError
from coordinator.planning.namespace import unavailable_reason

GIB = 2**30
END_BYTES = 6.5 * 1024
"""Target for the kernel and user memory of a link end, at the papers' sizes."""
ENDS_FOR_MEMORY = 5000
"""With fewer link ends, memory measurements are noise."""


class Case(NamedTuple):
    """A network, its broadcast algorithm, and targets in seconds, GiB and bytes per link end."""

    topology: str
    algorithm: str
    ready: float | None = None
    after: float | None = None
    command: float | None = None
    gib: float | None = None
    end_bytes: float | None = None


CASES = (
    *(Case(f"star:{n}", "greedy-tree", command=12 if n == 8 else None) for n in range(5, 9)),
    *(Case(f"hypercube:{n}", "sbt", command=6 if n == 13 else None) for n in range(7, 14)),
    Case("ej:3+4", "improved"),
    Case("ej:3+4^2", "improved"),
    Case("ej:3+4^3", "improved", ready=40, after=5, gib=7, end_bytes=END_BYTES),
)
QUICK_CASES = (Case("star:4", "greedy-tree"), Case("ej:1+2", "improved"))


def rows(options: Options) -> Iterator[Row | Note]:
    """Yield one broadcast per network."""
    for case in QUICK_CASES if options.quick else CASES:
        yield from size_rows(case)


def size_rows(case: Case) -> Iterator[Row | Note]:
    """Yield time and memory of one broadcast, or why it was not measured."""
    try:
        run = coordinator_run(case.topology, case.algorithm, netns=unavailable_reason() is None)
    except ProgramError as error:
        yield Note(f"{case.topology}: not measured: {error}")
        return
    name, ready, ends = case.topology, run.number("setup_seconds"), run.link_ends
    yield Row(name, "nodes", run.number("order"), "")
    yield Row(name, "links", run.number("links_opened"), "")
    yield Row(name, "ready", ready, "s", at_most=case.ready)
    yield Row(name, "after ready: broadcast, journal, tables", run.after_ready, "s", at_most=case.after)
    yield Row(name, "the whole command", run.seconds, "s", at_most=case.command)
    yield Row(name, "links ready per second", run.number("links_opened") / ready, "links/s")
    if ends >= ENDS_FOR_MEMORY:
        yield Row(name, "kernel and user memory", run.memory.total / GIB, "GiB", at_most=case.gib)
        yield Row(
            name, "kernel and user memory a link end", run.memory.total / ends, "bytes/link end", at_most=case.end_bytes
        )


SECTION = Section("S_5 to S_8, Q_7 to Q_13, EJ in 1 to 3 dimensions: ready, broadcast, memory", rows, seconds=120)
