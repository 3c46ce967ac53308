"""Timetables of algorithms under the timed clock."""

from coordinator.history.timetable import Timetable, make_timetable
from emunode.algorithms.base import Algorithm
from emunode.engine.memory import MemoryEngine
from emunode.timed.cost_model import LinearCostModel
from tests.helpers.scenarios import Case

MS = 1_000_000


# --- the timetable ---------------------------------------------------------------------------------------------------


CASES = (
    "star:4 allgather hamiltonian-cycle port_model=one-port", "star:4 allgather rotated-trees segments=2",
    "star:4 broadcast greedy-tree segments=3", "star:4 reduce greedy-tree segments=3",
    "hypercube:4 broadcast nesbt port_model=exchange segments=9",
    "hypercube:4 broadcast nesbt port_model=send-or-receive segments=9",
    "hypercube:4 broadcast sbt port_model=one-port segments=5", "hypercube:4 scatter sbt port_model=one-port",
    "hypercube:4 gather sbnt", "hypercube:3 alltoall sbt message_bytes=5", "ej:3+4 allgather three-phase",
    "ej:3+4 broadcast flood segments=2",
)  # fmt: skip


def algorithm_of(line: str) -> Algorithm:
    """Return the algorithm of a scenario in one line."""
    return Case(line).plan.algorithm


def history(algorithm: Algorithm, limit: int = 10**6) -> tuple[list[bytearray], bool]:
    """Rows of lock-step, and whether that was all."""
    network, rows = MemoryEngine(algorithm), []
    for step in range(1, limit + 2):
        rows.append(network.step(step))
        if not network.busy:
            return rows, True
    return rows, False


def timetable_of(algorithm: Algorithm, costs: LinearCostModel, limit: int = 10**6) -> tuple[Timetable, list[bytearray]]:
    rows, complete = history(algorithm, limit)
    model, degree = algorithm.spec.port_model, algorithm.topology.degree
    return make_timetable(rows, model, degree, costs, complete), rows
