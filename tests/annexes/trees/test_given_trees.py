"""Collectives over the trees of a file: the same history as the built-in algorithm that has those trees."""

from collections.abc import Callable
from pathlib import Path

import pytest

from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.trees.any_network.edge_disjoint import edge_disjoint_trees
from emunode.trees.any_network.parents import ParentTrees, adjacency_of
from emunode.trees.base import Trees
from emunode.trees.breadth_first import BreadthFirstTree
from emunode.trees.star.balanced import BalancedTree
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees
from emunode.trees.star.greedy import CongestionTwoTrees, GreedyTree
from emunode.trees.star.necklace import NecklaceTree
from tests.annexes.trees.support import MINE, case_of, csv_of
from tests.helpers.cluster_support import MPIRUNS, needs_mpirun
from tests.helpers.command_line import Start, free_port
from tests.helpers.scenarios import Case
from tests.helpers.support import run_scenario


def holds(case: Case) -> str:
    assert case.summary["verdict"] == "holds", case.conclusion
    return str(case.summary["journal_hash"])


def edge_disjoint(topology: Topology) -> Trees:
    return ParentTrees(topology, edge_disjoint_trees(adjacency_of(topology)).trees)


SAME = [
    (GreedyTree, "star:4", "broadcast", "greedy-tree", ""),
    (GreedyTree, "star:4", "broadcast", "greedy-tree", "source=4321 segments=3 port_model=one-port"),
    (GreedyTree, "star:4", "reduce", "greedy-tree", "source=2134 segments=2"),
    (GreedyTree, "star:4", "reduce", "greedy-tree", "port_model=one-port"),
    (EdgeDisjointTrees, "star:4", "broadcast", "edt", "x=3 messages=2"),
    (EdgeDisjointTrees, "star:4", "broadcast", "edt", "x=2 source=3124 fault=crash:4231@2"),
    (CongestionTwoTrees, "star:4", "broadcast", "congestion2-trees", "segments=4"),
    (BalancedTree, "star:4", "scatter", "balanced-tree", "messages=2"),
    (BalancedTree, "star:4", "gather", "balanced-tree", "source=2143"),
    (NecklaceTree, "star:4", "allgather", "mbst-levels", ""),
    (BreadthFirstTree, "mesh:3x4", "broadcast", "bfs-tree", "segments=3"),
    (BreadthFirstTree, "mesh:3x4", "scatter", "bfs-tree", "messages=2"),
    (BreadthFirstTree, "fat-tree:2", "gather", "bfs-tree", ""),
    (BreadthFirstTree, "ej:3+4", "scatter", "bfs-tree", "source=2,0 segments=3"),
    (edge_disjoint, "torus:3x4", "broadcast", "edge-disjoint-trees", "x=2 fault=down:0,1~0,2@1"),
]


@pytest.mark.parametrize(("trees", "network", "collective", "algorithm", "more"), SAME)
def test_given_trees_have_the_built_in_history(
    trees: Callable[[Topology], Trees], network: str, collective: str, algorithm: str, more: str, tmp_path: Path
) -> None:
    topology = parse_topology(network)
    given = case_of(csv_of(tmp_path / "trees.csv", topology, trees(topology)), f"{network} {collective} {more}")
    assert holds(given) == holds(Case(f"{network} {collective} {algorithm} {more}"))


@pytest.mark.parametrize("more", ["", "segments=2", "x=2", "x=3 messages=3", "x=2 messages=2 segments=3"])
@pytest.mark.parametrize("collective", ["broadcast", "reduce", "scatter", "gather", "allgather"])
@pytest.mark.parametrize("trees", [EdgeDisjointTrees, CongestionTwoTrees])
def test_claims_of_several_trees_hold(
    trees: Callable[[Topology], Trees], collective: str, more: str, tmp_path: Path
) -> None:
    topology = parse_topology("star:4")
    case = case_of(csv_of(tmp_path / "t.csv", topology, trees(topology)), f"star:4 {collective} {more}")
    if collective == "reduce" and "x=" in more:
        with pytest.raises(ScenarioError, match="trees carries each message on one tree"):
            _ = case.plan
        return
    holds(case)


def test_deeper_trees_without_copies_take_no_steps(tmp_path: Path) -> None:
    ring = parse_topology("ring:5")
    star = ParentTrees(ring, [[-1, 0, 1, 4, 0], [-1, 2, 3, 4, 0]])
    case = case_of(csv_of(tmp_path / "t.csv", ring, star), "ring:5 broadcast", segments=1)
    holds(case)
    assert case.summary["steps"] == 4
    more = case_of(csv_of(tmp_path / "t.csv", ring, star), "ring:5 broadcast x=2 messages=2")
    holds(more)
    assert more.summary["steps"] == 5


def test_independent_trees_survive_nodes(tmp_path: Path) -> None:
    star = parse_topology("star:4")
    path = csv_of(tmp_path / "t.csv", star, EdgeDisjointTrees(star))
    algorithm = case_of(path, "star:4 broadcast x=3").plan.algorithm
    assert (algorithm.tolerated_faults, algorithm.traits.survives_nodes, algorithm.traits.trees_per_link) == (
        2,
        True,
        1,
    )
    cube = parse_topology("hypercube:4")
    path = csv_of(tmp_path / "t.csv", cube, edge_disjoint(cube))
    algorithm = case_of(path, "hypercube:4 broadcast x=2").plan.algorithm
    assert (algorithm.tolerated_faults, algorithm.traits.survives_nodes) == (1, False)
    path = csv_of(tmp_path / "t.csv", star, CongestionTwoTrees(star))
    assert case_of(path, "star:4 broadcast x=3").plan.algorithm.tolerated_faults == 0


@pytest.mark.parametrize(
    ("network", "line", "field", "reason"),
    [
        ("star:4", "broadcast port_model=one-port", "port_model", "all-port"),
        ("star:4", "broadcast duplex=half", "duplex", "full-duplex"),
        ("star:4", "allgather port_model=one-port", "port_model", "all-port"),
        ("star:4", "broadcast x=4", "redundancy", "1..3 trees"),
        ("mesh:3x4", "broadcast source=0,1", "source", "have the root 0,0, and mesh:3x4 has no translations"),
        ("mesh:3x4", "allgather", "topology", "needs a network with translations"),
        ("star:4", "alltoall", "collective", "given trees perform: broadcast, reduce, scatter, gather, allgather"),
    ],
)
def test_jobs_without_a_timetable_are_refused(network: str, line: str, field: str, reason: str, tmp_path: Path) -> None:
    topology = parse_topology(network)
    trees = EdgeDisjointTrees(topology) if network == "star:4" else BreadthFirstTree(topology)
    with pytest.raises(ScenarioError) as refused:
        _ = case_of(csv_of(tmp_path / "t.csv", topology, trees), f"{network} {line}").plan
    assert refused.value.field == field
    assert reason in str(refused.value)


# --- drivers ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def mine(empty_folder: Path) -> Case:
    (empty_folder / "mine.py").write_text(MINE)
    return case_of(Path("mine.py"), "star:3 broadcast source=213")


def test_hosts_play_given_trees(mine: Case) -> None:
    sockets = run_scenario(None, **mine.values | {"driver": "local", "ranks_per_host": 2})
    assert sockets.summary["journal_hash"] == holds(mine)


def test_joined_hosts_execute_no_file_of_trees(mine: Case, start: Start) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    host = start("emunode --token-file token --processes 2 --coordinator", endpoint)
    flags = "--topology star:3 --collective broadcast --source 213 --trees mine.py --hosts 2 --json"
    served = start(f"coordinator serve {flags}", "--token-file", "token", "--listen", endpoint).end()
    assert served.status == 0, served.err
    assert served.data["journal_hash"] == holds(mine)
    assert host.process.wait(60) == 0


@needs_mpirun
def test_given_trees_run_under_mpirun(mine: Case) -> None:
    run = mine.but(driver="mpi", launcher=MPIRUNS[0], ranks_per_host=2).stored(Path("out"))
    assert run.summary["journal_hash"] == holds(mine)
