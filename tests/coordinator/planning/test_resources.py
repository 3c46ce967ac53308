"""Estimates of hops and memory, against runs and bounds."""

import subprocess
import sys

import pytest

from coordinator.planning.feasibility import describe_needs
from coordinator.planning.resources import BYTES_PER_DELIVERY, hops, least_average_distance, memory_bytes
from coordinator.theory.dependence.losses import losses
from coordinator.theory.dependence.outages import THROUGHOUT, Outages
from coordinator.theory.dependence.size import HOP_BYTES, LOSS_HOPS
from emunode.topologies.base import breadth_first_distances
from emunode.topologies.registry import parse_topology, small_examples
from tests.helpers.scenarios import Case


@pytest.mark.parametrize(
    "line",
    [
        "ej:2+3 allgather three-phase-restart-own",
        "ej:2+3 allgather three-phase-restart",
        "ej:3+4 allgather three-phase-restart-own",
        "ej:1+2^2 allgather three-phase-restart",
    ],
)
def test_hops_of_the_restarting_controls_are_those_of_their_runs(line: str) -> None:
    case = Case(line)
    assert hops(case.plan) == len(case.journal)


@pytest.mark.parametrize(
    "line",
    [
        "star:4 broadcast flood messages=3 segments=2",
        "complete:9 broadcast flood",
        "petersen:5,2 broadcast flood",
        "star:4 broadcast edt redundancy=3",
        "star:5 alltoall near-balanced-tree",
        "hypercube:4 scatter sbt",
        "ring:12 gather bfs-tree",
        "star:4 allreduce bfs-tree",
    ],
)
def test_hops_are_never_more_than_a_run_makes(line: str) -> None:
    case = Case(line)
    made = len(case.journal)
    assert 0.7 * made <= hops(case.plan) <= made or "flood" in line
    assert hops(case.plan) <= made


@pytest.mark.parametrize("name", [name for name in small_examples() if parse_topology(name).order <= 64])
def test_the_least_average_distance_is_a_bound(name: str) -> None:
    topology = parse_topology(name)
    total = sum(sum(breadth_first_distances(topology, root)) for root in topology.ranks())
    assert least_average_distance(topology) <= total / (topology.order * (topology.order - 1)) + 1e-9


def test_the_bound_on_distances_is_met_by_dense_networks() -> None:
    assert least_average_distance(parse_topology("complete:9")) == 1
    assert least_average_distance(parse_topology("petersen:5,2")) == (3 * 1 + 6 * 2) / 9
    assert least_average_distance(parse_topology("ring:9")) == (1 + 1 + 2 + 2 + 3 + 3 + 4 + 4) / 8


def test_memory_counts_every_hop() -> None:
    plan = Case("ej:2+3^2 allgather three-phase-restart-own").plan
    # 361 nodes; a third of 19 reached in each dimension; each further phase starts 4^2 times as many.
    assert hops(plan) == 361 * (7 * 7 - 1) * (1 + 16 + 256) == describe_needs(plan)["hops"]
    assert memory_bytes(plan) > 129_960 * BYTES_PER_DELIVERY + 4_000_000 * 100


# --- limits ----------------------------------------------------------------------------------------------------------


def test_the_schedule_that_tells_losses_is_counted() -> None:
    fault = ["crash:2134567@1"]
    free, faulty = (Case("star:7 broadcast edt", redundancy=2, fault=each).plan for each in ([], fault))
    assert memory_bytes(faulty) - memory_bytes(free) == 2 * 5039 * HOP_BYTES
    many = Case("star:7 broadcast edt", redundancy=2, messages=100, fault=fault).plan
    assert hops(many) > LOSS_HOPS
    assert losses(many.algorithm, Outages({1: [THROUGHOUT]})) is None, "nothing is traced"


def test_planning_imports_neither_numpy_nor_polars() -> None:
    code = "import sys, coordinator.planning.plan; print([name for name in ('numpy', 'polars') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
