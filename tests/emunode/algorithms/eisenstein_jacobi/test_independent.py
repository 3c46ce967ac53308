"""Collectives over the independent trees of Eisenstein-Jacobi networks: costs, redundancy, faults."""

from collections import Counter

import pytest

from coordinator.execution.sinks import FinishedRun
from emunode.algorithms.eisenstein_jacobi.independent import IndependentScatter
from emunode.algorithms.registry import make_algorithm
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.registry import parse_topology
from tests.support import run_scenario


def independent(topology: str, collective: str, **values: object) -> FinishedRun:
    spec = {"topology": topology, "collective": collective, "algorithm": "independent-trees", "message_bytes": 96}
    return run_scenario(None, **{**spec, **values})


def routing(topology: str, **values: object) -> IndependentScatter:
    spec = CollectiveSpec(topology, Collective.SCATTER, "independent-trees", 0)
    made = make_algorithm(parse_topology(topology), spec._replace(**values))  # type: ignore[arg-type]
    assert isinstance(made, IndependentScatter)
    return made


def test_copies_take_different_trees_and_load_them_alike() -> None:
    for redundancy in (2, 3, 5):
        made = routing("ej:2+3", redundancy=redundancy, segments=2)
        loads = Counter[int]()
        for target in range(1, made.topology.order):
            copies = list(made.copies_of(target))
            for segment in range(made.segments_per_message):
                mine = [(route_index, number) for route_index, number, carried in copies if carried == segment]
                assert len({route_index for route_index, _ in mine}) == redundancy
                assert all(made.number(target, route_index, segment) == number for route_index, number in mine)
            loads.update(route_index for route_index, _, _ in copies)
        assert len(loads) == 6
        assert max(loads.values()) - min(loads.values()) <= 1


# Faults.


def test_one_crash_costs_deliveries_only_with_a_single_tree() -> None:
    """Mean healthy nodes lost to one crash in EJ_{2+3rho}: 0.667 with the improved broadcast, 0 with two trees."""
    network = EisensteinJacobi(2, 3)
    lost = Counter[str]()
    for rank in range(1, network.order):
        crash = (f"crash:{network.label(rank)}@1",)
        one = run_scenario(topology="ej:2+3", collective="broadcast", algorithm="improved", fault=crash)
        two = independent("ej:2+3", "broadcast", redundancy=2, fault=crash)
        for name, result in (("improved", one), ("independent-trees", two)):
            lost[name] += 17 - int(str(result.summary["intact_deliveries"]))
    assert lost["improved"] / 18 == pytest.approx(0.667, abs=5e-4)
    assert lost["independent-trees"] == 0
