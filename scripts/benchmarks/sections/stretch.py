"""The largest networks: Q_17 over real sockets, and an Eisenstein-Jacobi network of four dimensions in memory."""

from collections.abc import Iterator

from benchmarks.commands import coordinator_run
from benchmarks.record import Note, Options, Row, Section
from benchmarks.sections.sizes import END_BYTES, GIB, Case, size_rows
from benchmarks.subprocesses import ProgramError

SOCKETS = Case("hypercube:17", "sbt", command=150, gib=17, end_bytes=END_BYTES)
IN_MEMORY = Case("ej:3+4^4", "improved", command=120, gib=8)
QUICK = Case("hypercube:5", "sbt"), Case("ej:3+4", "improved")


def rows(options: Options) -> Iterator[Row | Note]:
    """Yield one run with sockets, and one without."""
    sockets, in_memory = QUICK if options.quick else (SOCKETS, IN_MEMORY)
    yield from size_rows(sockets)
    name = in_memory.topology
    try:
        run = coordinator_run(name, in_memory.algorithm, driver="memory")
    except ProgramError as error:
        yield Note(f"{name} in memory: not measured: {error}")
        return
    yield Row(f"{name} in memory", "nodes", run.number("order"), "")
    yield Row(f"{name} in memory", "the whole command", run.seconds, "s", at_most=in_memory.command)
    yield Row(f"{name} in memory", "user memory", run.memory.user / GIB, "GiB", at_most=in_memory.gib)


SECTION = Section("Q_17 with sockets, EJ in 4 dimensions in memory (named only)", rows, seconds=300, optional=True)
