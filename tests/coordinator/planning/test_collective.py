"""The collective of a scenario: its source, targets and sizes as records for hosts hold them."""

import pytest

from emunode.model import ALL_RANKS
from emunode.topologies.registry import parse_topology
from tests.helpers.scenarios import Case


def test_labels_become_ranks() -> None:
    case = Case("star:4 unicast minimal source=2134 target=4321")
    topology, spec = case.plan.topology, case.plan.spec
    assert (topology.label(spec.source), topology.label(spec.target)) == ("2134", "4321")
    assert Case("star:4 broadcast edt").plan.spec.target == ALL_RANKS


@pytest.mark.parametrize("topology", ["star:4", "hypercube:4", "mesh:3x4", "ej:2+3", "petersen:5,2", "fat-tree:4"])
@pytest.mark.parametrize("place", range(3))
def test_a_unicast_without_a_target_goes_to_a_farthest_node(topology: str, place: int) -> None:
    network = parse_topology(topology)
    source, ranks = network.data_ranks[place], set(network.data_ranks)
    spec = Case(f"{topology} unicast minimal", source=network.label(source)).plan.spec
    distances = {source: 0}
    queue = [source]
    for rank in queue:
        for _, peer in network.adjacent(rank):
            if peer not in distances:
                distances[peer] = distances[rank] + 1
                queue.append(peer)
    farthest = max(distances[rank] for rank in ranks)
    assert spec.target == min(rank for rank in ranks if distances[rank] == farthest)


@pytest.mark.parametrize(
    ("collective", "algorithm", "size"), [("allreduce", "bfs-tree", 24 * 64), ("scatter", "edt", 64)]
)
def test_the_default_size_is_of_a_vector_or_a_message(collective: str, algorithm: str, size: int) -> None:
    assert Case(f"star:4 {collective} {algorithm}").plan.spec.contributed_bytes == size


def test_segments_auto_are_those_of_the_algorithm() -> None:
    case = Case("hypercube:4 broadcast sbt segments=auto message_bytes=60000")
    spec, entry = case.plan.spec, type(case.plan.algorithm)
    assert spec.segments == entry.auto_segments(case.plan.topology, spec, case.scenario.startup, case.scenario.per_byte)
    assert spec.segments > 1
