"""Agreement on failures: its settings, what it costs without failures, and the bound on the time that news take."""

import pytest

from coordinator.annexes.agreement.settings import SEARCHED, longest_disjoint_path, news_steps
from coordinator.results.claims import Verdict
from emunode.model import Step
from emunode.topologies.registry import parse_topology
from tests.helpers.feature_support import AGREE, CUBE, SHRINK
from tests.helpers.scenarios import Case

# --- runs -------------------------------------------------------------------------------------------------------------


def test_nodes_that_only_agree_go_on_with_the_collective() -> None:
    values = CUBE | {"messages": 12, "fault": ["crash:001@3"]}
    plain, agreed = Case(values, fault_knowledge="detect:1").summary, Case(values | AGREE).summary
    for name in ("steps", "packets", "intact_deliveries", "withheld_packets", "lost"):
        assert plain[name] == agreed[name], name
    assert agreed["decisions"] == 1
    assert "final_delivery_ratio" not in agreed
    assert agreed["verdict"] == "holds"


@pytest.mark.parametrize("algorithm", ["sbt", "nesbt", "flood", "bfs-tree"])
def test_it_costs_nothing_if_nothing_fails(algorithm: str) -> None:
    plain = Case(CUBE, algorithm=algorithm, messages=3).run
    for more in (AGREE, SHRINK):
        result = Case(CUBE | more, algorithm=algorithm, messages=3).run
        assert result.summary["journal_hash"] == plain.summary["journal_hash"]
        assert result.summary["agreement_packets"] == 0
        assert result.verdict is Verdict.HOLDS


def test_a_run_over_links_that_lose_packets_to_the_end_ends() -> None:
    result = Case(CUBE | AGREE, fault=["loss:*:0.5"], step_limit=200).run
    assert "limit" not in str(result.summary["undecided_because"])


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("network", "steps"),
    [
        ("complete:5", 1),
        ("ring:5", 3),
        ("hypercube:3", 4),
        ("hypercube:10", 11),
        ("star:4", 6),
        ("ej:2+3", 4),
    ],
)
def test_news_take_as_long_as_the_fault_diameter(network: str, steps: Step) -> None:
    assert news_steps(parse_topology(network)) == steps


@pytest.mark.slow
def test_bounds_that_were_searched_once() -> None:
    for network, steps in SEARCHED.items():
        assert longest_disjoint_path(parse_topology(network)) == steps
