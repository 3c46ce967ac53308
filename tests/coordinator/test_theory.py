"""The expected delivery ratio: by enumeration of every set of faults, and as the papers' figures have it."""

from itertools import combinations

import pytest

from coordinator.plan import Plan, make_plan
from coordinator.scenario import make_scenario
from coordinator.theory import expectation


def plan_of(topology: str, algorithm: str, **values: object) -> Plan:
    """A broadcast in memory."""
    scenario = {"topology": topology, "collective": "broadcast", "algorithm": algorithm, "driver": "memory"}
    return make_plan(make_scenario({**scenario, **values}))


@pytest.mark.parametrize(
    ("topology", "algorithm", "values"),
    [
        ("star:3", "edt", {"redundancy": 2}),
        ("star:3", "edt", {"messages": 3}),
        ("hypercube:3", "nesbt", {"redundancy": 2}),
        ("hypercube:3", "nesbt", {"segments": 2}),
        ("hypercube:3", "sbt", {}),
        ("ej:1+2", "independent-trees", {"redundancy": 4}),
        ("star:4", "congestion2-trees", {}),
    ],
)
def test_it_is_the_mean_over_all_sets_of_nodes(topology: str, algorithm: str, values: dict[str, object]) -> None:
    """Against `claims_under`, which walks the trees under each set by itself."""
    plan = plan_of(topology, algorithm, **values)
    ratio = expectation(plan.algorithm)
    assert ratio is not None
    order = plan.topology.order
    for count in range(4 if order < 20 else 3):
        sets = list(combinations(range(1, order), count))
        served = 0
        for chosen in sets:
            claims = plan.algorithm.claims_under(dict.fromkeys(chosen, 1))
            (predicted,) = (claim.predicted for claim in claims if claim.name == "intact_deliveries")
            assert isinstance(predicted, int)
            served += predicted
        mean = served / (len(sets) * plan.job.messages * (order - 1 - count))
        assert ratio(count, 0) == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize(("nodes", "links", "lost"), [(1, 0, 0.667), (5, 0, 2.549), (0, 1, 0.526), (0, 3, 1.556)])
def test_nodes_lost_with_the_single_tree_of_an_eisenstein_jacobi_network(nodes: int, links: int, lost: float) -> None:
    """EJ_{2+3rho}: by exhaustive enumeration elsewhere."""
    ratio = expectation(plan_of("ej:2+3", "improved").algorithm)
    assert ratio is not None
    assert (18 - nodes) * (1 - ratio(nodes, links)) == pytest.approx(lost, abs=0.0005)


@pytest.mark.parametrize(("topology", "algorithm", "x"), [("star:4", "edt", 3), ("ej:2+3", "independent-trees", 6)])
def test_less_faults_than_trees_cost_nothing(topology: str, algorithm: str, x: int) -> None:
    ratio = expectation(plan_of(topology, algorithm, redundancy=x).algorithm)
    assert ratio is not None
    for faults in range(x):
        for links in range(faults + 1):
            assert ratio(faults - links, links) == pytest.approx(1, rel=1e-12)
    assert ratio(x, 0) < 1 > ratio(0, x)


def test_everything_broken_leaves_nothing() -> None:
    ratio = expectation(plan_of("star:3", "edt").algorithm)
    assert ratio is not None
    assert ratio(5, 0) == 0 == ratio(0, 7)
    assert ratio(0, 6) == 0


def test_there_is_none_where_there_are_no_trees_to_tell_from() -> None:
    assert expectation(plan_of("star:4", "flood").algorithm) is None
    assert expectation(plan_of("star:4", "rotated-trees", collective="allgather").algorithm) is None
    assert expectation(plan_of("ej:1+2^3", "independent-trees", redundancy=18).algorithm) is None
