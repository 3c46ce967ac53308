"""Where predictions come from: closed forms against enumeration, spoilt schedules, and claims marked as derived."""

from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path

import networkx as nx
import pytest

from coordinator.cli.invoke import main
from coordinator.history.journal import sorted_records
from coordinator.results.claims import Judgement
from emunode.algorithms.breadth_first import BreadthFirstBroadcast, TreeBroadcast
from emunode.algorithms.eisenstein_jacobi.allgather import PhasedAllgather
from emunode.algorithms.eisenstein_jacobi.independent import IndependentScatter, one_dimension_height
from emunode.algorithms.registry import make_algorithm
from emunode.algorithms.routed_collective import RoutedCollective
from emunode.algorithms.star.alltoall import ListSchedule
from emunode.algorithms.star.bounds import sum_of_depths
from emunode.algorithms.star.edge_disjoint import DisjointTreesExchange, DisjointTreesScatter
from emunode.algorithms.tree_collective import TreeCollective
from emunode.engine.memory import MemoryEngine
from emunode.model import Collective, CollectiveSpec, Port, PortModel, Rank, Step
from emunode.play import play
from emunode.topologies.base import Topology
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.registry import parse_topology
from emunode.topologies.star import StarGraph
from emunode.trees.eisenstein_jacobi.independent import IndependentTrees
from tests.helpers.any_network_support import network_of_graph
from tests.helpers.command_line import fields
from tests.helpers.support import failures, golden_rows, run_scenario

# Closed forms.


@pytest.mark.parametrize("row", golden_rows("star", "edt"), ids=lambda row: row["n"])
def test_sum_of_depths(row: dict[str, str]) -> None:
    assert sum_of_depths(StarGraph(int(row["n"]))) == int(row["sum_of_depths_per_tree_measured"])


@pytest.mark.parametrize(
    "row", golden_rows("ej", "independent_trees"), ids=lambda row: f"{row['a']}+{row['b']}^{row['n']}"
)
def test_height_of_independent_trees(row: dict[str, str]) -> None:
    a, b, n = int(row["a"]), int(row["b"]), int(row["n"])
    most = n * one_dimension_height(a, b)
    exact = n == 1 or b == a + 1 > 2
    assert int(row["max_depth"]) == most if exact else int(row["max_depth"]) <= most
    assert not exact or int(row["min_depth"]) == most


ONE_PORT = [
    *(f"star:{n}" for n in range(3, 8)),
    *(f"hypercube:{n}" for n in range(2, 9)),
    *(f"ej:{a}+{b}" for a, b in product(range(5), range(7)) if a <= b and a * a + a * b + b * b >= 7),
    *("ej:1+2^2", "ej:1+2^3", "ej:1+2^4", "ej:2+3^2", "ej:3+4^2", "ej:0+3^2", "ej:1+3^2", "ej:2+2^2", "ej:1+4^2"),
]


LARGEST = ("star:7", "ej:1+2^4")
"""The networks of thousands of nodes; four smaller ones of each family have the same formula."""
FAMILY = {"greedy-tree": "star:", "improved": "ej:", "bfs-tree": ""}


@pytest.mark.parametrize(
    ("algorithm", "topology"),
    [
        pytest.param(name, topology, marks=pytest.mark.slow if topology in LARGEST else ())
        for name, topology in product(FAMILY, ONE_PORT)
        if topology.startswith(FAMILY[name])
    ],
)
def test_one_port_heights(algorithm: str, topology: str) -> None:
    network = parse_topology(topology)
    spec = CollectiveSpec(
        network.name, Collective.BROADCAST, algorithm, 0, port_model=PortModel.ONE_PORT, message_bytes=8
    )
    broadcast = make_algorithm(network, spec)
    assert isinstance(broadcast, TreeBroadcast)
    found = broadcast.one_port_height()
    assert found is not None
    height, relation, _ = found
    walked = max(step for _, step in broadcast._walk(0))
    assert walked == height if relation == "==" else walked <= height <= walked + 6
    if isinstance(network, EisensteinJacobi):
        assert (relation == "==") == (network.b == network.a + 1)


def steps_of(network: Topology, spec: CollectiveSpec) -> Step:
    """Play a schedule in memory; return its last step with a packet."""
    rows = sorted_records(list(play(MemoryEngine(make_algorithm(network, spec)), limit=100)))
    return max(int(row["step"]) for row in rows)


@pytest.mark.parametrize("seed", range(200))
def test_one_port_broadcast_on_a_tree_is_optimal(seed: int) -> None:
    """Held against `tree_broadcast_time` of networkx, an implementation of the same theorem."""
    tree = nx.random_labeled_tree(3 + seed % 20, seed=seed)
    for collective in (Collective.BROADCAST, Collective.REDUCE):
        spec = CollectiveSpec("graph", collective, "bfs-tree", 0, port_model=PortModel.ONE_PORT, message_bytes=8)
        assert steps_of(network_of_graph(tree), spec) == nx.tree_broadcast_time(tree, 0)


def test_the_slow_subtree_is_served_before_the_deep_one() -> None:
    """Five leaves below a child take six steps, so it comes before a path of three nodes; depth would say otherwise."""
    wide = nx.Graph([(0, 1), (1, 2), (2, 3), (0, 4), *((4, leaf) for leaf in range(5, 10))])
    deep = nx.Graph([(0, 1), (0, 2), (0, 3), (3, 4), (4, 5), (5, 6)])
    spec = CollectiveSpec("graph", Collective.BROADCAST, "bfs-tree", 0, port_model=PortModel.ONE_PORT, message_bytes=8)
    assert steps_of(network_of_graph(wide), spec) == 6
    assert steps_of(network_of_graph(deep), spec) == 4


# What is claimed of whom, and how.


def judgements(**values: object) -> list[Judgement]:
    """Of a run in memory that keeps all of its claims."""
    result = run_scenario(None, **values)
    assert not failures(result)
    return result.judgements


def derived(found: Sequence[Judgement]) -> set[str]:
    """Return names of the derived claims."""
    return {judgement.claim.name for judgement in found if judgement.claim.derived}


INDEPENDENT = (
    "star:4 broadcast greedy-tree port_model=one-port segments=3", "star:4 reduce greedy-tree port_model=one-port",
    "star:4 broadcast bfs-tree port_model=one-port", "hypercube:4 broadcast bfs-tree port_model=one-port",
    "ej:2+3^2 broadcast bfs-tree port_model=one-port", "ej:2+3 broadcast improved port_model=one-port messages=3",
    "star:4 scatter edt messages=3", "star:4 gather edt redundancy=3", "star:4 alltoall edt redundancy=3",
    "star:4 alltoall list-schedule messages=7", "ej:1+3 broadcast independent-trees segments=2",
    "ej:0+3 reduce independent-trees", "ej:2+2 broadcast independent-trees",
    "ej:2+3^2 broadcast independent-trees redundancy=3", "ej:2+3 allgather three-phase", "ej:1+2^2 allgather two-phase",
    "ej:2+3 allgather three-phase-printed", "hypercube:4 scatter sbnt-fifo", "hypercube:4 scatter sbntc-fifo",
)  # fmt: skip


@pytest.mark.parametrize("scenario", INDEPENDENT)
def test_steps_have_a_formula(scenario: str) -> None:
    found = judgements(**fields(scenario))
    assert "steps" not in derived(found)
    assert any(judgement.claim.name == "steps" and judgement.claim.relation == "==" for judgement in found)


DERIVED = {
    "star:4 scatter edt": {"steps", "segments"},
    "star:4 gather edt messages=2 redundancy=2": {"steps", "segments"},
    "star:4 alltoall edt messages=2": {"steps", "segments"},
    "star:4 alltoall edt messages=4": {"steps"},
    "star:3 alltoall list-schedule messages=61": {"steps"},
    "ej:1+2^2 broadcast independent-trees": {"steps"},
    "ej:1+3 broadcast bfs-tree port_model=one-port": {"steps"},
    "ej:1+4 allgather three-phase": {"steps"},
    "hypercube:4 allgather tcbt": {"startups", "transfer_bytes"},
}


@pytest.mark.parametrize(("scenario", "names"), DERIVED.items(), ids=DERIVED)
def test_claims_without_a_formula_are_derived_and_bounded(scenario: str, names: set[str]) -> None:
    found = judgements(**fields(scenario))
    assert names <= derived(found)
    for name in names & {"steps"}:
        bounds = [judgement for judgement in found if judgement.claim.name == name and not judgement.claim.derived]
        assert bounds, "an independent bound stands beside every derived number of steps"


def test_derived_mark_is_recorded_and_shown(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = run_scenario(tmp_path / "run", topology="star:4", collective="scatter", algorithm="edt")
    records = result.summary["claims"]
    assert isinstance(records, list)
    assert {record["derived"] for record in records} == {True, False}
    command = ["run", "--driver", "memory", "--topology", "star:4", "--collective", "scatter", "--algorithm"]
    assert main([*command, "edt", "--claims", "--out", str(tmp_path / "one")]) == 0
    output = capsys.readouterr().out
    assert "steps *" in output
    assert "*  derived" in output
    assert main([*command, "balanced-tree", "--claims", "--out", str(tmp_path / "two")]) == 0
    assert "*  derived" not in capsys.readouterr().out


# Schedules that were spoilt: what is predicted by a formula does not follow them.


def spoilt(scenario: str) -> set[str]:
    """Return names of the violated claims of a run that came to its end."""
    result = run_scenario(None, **fields(scenario))
    assert result.verdict == "violated"
    return {judgement.claim.name for judgement in result.judgements if judgement.verdict == "violated"}


def late(_algorithm: TreeCollective, _relative: Rank, _tree: int, ports: Sequence[Port]) -> Sequence[Step]:
    """One child after the other, the first a step too late."""
    return range(2, len(ports) + 2)


@pytest.mark.parametrize("scenario", INDEPENDENT[:6])
def test_late_children_violate_the_claimed_steps(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for entry in (TreeCollective, BreadthFirstBroadcast):
        monkeypatch.setattr(entry, "delays", late)
    assert "steps" in spoilt(scenario)


@pytest.mark.parametrize(
    ("entry", "delayed", "scenarios"),
    [
        (DisjointTreesScatter, lambda step: step + 7, ("star:4 scatter edt", "star:4 scatter edt messages=3")),
        (DisjointTreesExchange, lambda step: 4 * step, ("star:4 alltoall edt messages=2", "star:4 alltoall edt messages=3")),
        (ListSchedule, lambda step: step + 1, ("star:4 alltoall list-schedule messages=7",)),
        (IndependentScatter, lambda step: step + 5, ("ej:2+3 scatter independent-trees",
                                                      "ej:2+3 scatter independent-trees redundancy=2")),
    ],
)  # fmt: skip
def test_late_routes_violate_the_claimed_steps(
    entry: type[RoutedCollective],
    delayed: Callable[[Step], Step],
    scenarios: Sequence[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_time = entry.route
    monkeypatch.setattr(entry, "route", lambda *copy: [(port, delayed(step)) for port, step in on_time(*copy)])
    assert all("steps" in spoilt(scenario) for scenario in scenarios)


@pytest.mark.parametrize("collective", ["broadcast", "reduce"])
@pytest.mark.parametrize("topology", ["ej:2+3", "ej:1+3", "ej:0+3"])
def test_a_wrong_height_of_trees_violates_the_claimed_steps(
    topology: str, collective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TreeCollective, "delays", lambda *place: [2] * len(place[-1]))
    height = IndependentTrees.height
    monkeypatch.setattr(IndependentTrees, "height", lambda *tree: 2 * height(*tree))
    assert "steps" in spoilt(f"{topology} {collective} independent-trees")


def test_a_wrong_table_of_phases_does_not_change_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PhasedAllgather, "last_offset", 99)
    result = run_scenario(topology="ej:2+3", collective="allgather", algorithm="three-phase")
    equalities = [j for j in result.judgements if (j.claim.name, j.claim.relation) == ("steps", "==")]
    found = {j.claim.derived: (j.claim.predicted, j.verdict) for j in equalities}
    assert found == {True: (99, "violated"), False: (6, "holds")}
