"""Timetables of algorithms under the timed clock."""

from coordinator.history.timetable import Timetable, make_timetable
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import make_algorithm
from emunode.engine.memory import MemoryEngine
from emunode.model import Collective, CollectiveSpec, PortModel
from emunode.timed.cost_model import LinearCostModel
from emunode.topologies.registry import parse_topology

MS = 1_000_000


# --- the timetable ---------------------------------------------------------------------------------------------------


CASES = [
    ("star:4", Collective.ALLGATHER, "hamiltonian-cycle", PortModel.ONE_PORT, {}),
    ("star:4", Collective.ALLGATHER, "rotated-trees", PortModel.ALL_PORT, {"segments": 2}),
    ("star:4", Collective.BROADCAST, "greedy-tree", PortModel.ALL_PORT, {"segments": 3}),
    ("star:4", Collective.REDUCE, "greedy-tree", PortModel.ALL_PORT, {"segments": 3}),
    ("hypercube:4", Collective.BROADCAST, "nesbt", PortModel.EXCHANGE, {"segments": 9}),
    ("hypercube:4", Collective.BROADCAST, "nesbt", PortModel.SEND_OR_RECEIVE, {"segments": 9}),
    ("hypercube:4", Collective.BROADCAST, "sbt", PortModel.ONE_PORT, {"segments": 5}),
    ("hypercube:4", Collective.SCATTER, "sbt", PortModel.ONE_PORT, {}),
    ("hypercube:4", Collective.GATHER, "sbnt", PortModel.ALL_PORT, {}),
    ("hypercube:3", Collective.ALLTOALL, "sbt", PortModel.ALL_PORT, {"message_bytes": 5}),
    ("ej:3+4", Collective.ALLGATHER, "three-phase", PortModel.ALL_PORT, {}),
    ("ej:3+4", Collective.BROADCAST, "flood", PortModel.ALL_PORT, {"segments": 2}),
]
IDS = [f"{name}-{collective}-{algorithm}-{ports}" for name, collective, algorithm, ports, _ in CASES]


def algorithm_of(case: tuple[str, Collective, str, PortModel, dict[str, int]]) -> Algorithm:
    name, collective, algorithm, ports, more = case
    topology = parse_topology(name)
    return make_algorithm(topology, CollectiveSpec(name, collective, algorithm, 0, ports, **more))  # type: ignore[arg-type]


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
