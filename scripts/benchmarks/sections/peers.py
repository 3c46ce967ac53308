"""Other software on the same work, as far as it is installed."""

from collections.abc import Iterator

from benchmarks.baselines import mininet, mpi, simulators
from benchmarks.record import Note, Options, Row, Section


def rows(options: Options) -> Iterator[Row | Note]:
    """Open MPI, Mininet, PyDistSim and a loop."""
    for peer in (mpi, mininet, simulators):
        yield from peer.rows(options)


SECTION = Section("Open MPI, Mininet, PyDistSim and a networkx loop on the same work", rows, seconds=150)
