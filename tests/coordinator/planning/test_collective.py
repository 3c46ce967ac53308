"""The collective of a scenario: its source, targets and sizes as records for hosts hold them."""

import pytest

from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS
from tests.helpers.scenarios import Case


def test_labels_become_ranks() -> None:
    case = Case("star:4 unicast minimal source=2134 target=4321")
    topology, spec = case.plan.topology, case.plan.spec
    assert (topology.label(spec.source), topology.label(spec.target)) == ("2134", "4321")
    assert Case("star:4 broadcast edt").plan.spec.target == ALL_RANKS


@pytest.mark.parametrize("topology", ["star:4", "hypercube:4", "mesh:3x4", "ej:2+3"])
def test_a_unicast_without_a_target_goes_to_a_farthest_node(topology: str) -> None:
    case = Case(f"{topology} unicast minimal")
    network, spec = case.plan.topology, case.plan.spec
    distances = {spec.source: 0}
    queue = [spec.source]
    for rank in queue:
        for _, peer in network.adjacent(rank):
            if peer not in distances:
                distances[peer] = distances[rank] + 1
                queue.append(peer)
    assert distances[spec.target] == max(distances.values())
    assert spec.target == min(rank for rank, far in distances.items() if far == distances[spec.target])


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


@pytest.mark.parametrize(
    ("line", "field", "reason"),
    [
        ("star:3 allgather rotated-trees source=213", "source", "every node is a source"),
        ("star:3 broadcast flood source=219", "source", "'219'"),
        ("fat-tree:4 broadcast bfs-tree source=c0/0", "source", "it is a switch"),
        ("star:3 broadcast flood target=213", "target", "only a unicast has one, not broadcast"),
        ("star:3 unicast minimal source=213 target=213", "target", "it is the source"),
        ("star:3 unicast minimal target=213 permutation=reversal", "target", "a permutation names all targets"),
    ],
)
def test_ends_that_do_not_fit_are_refused(line: str, field: str, reason: str) -> None:
    with pytest.raises(ScenarioError, match=reason) as error:
        _ = Case(line).plan
    assert error.value.field == field
