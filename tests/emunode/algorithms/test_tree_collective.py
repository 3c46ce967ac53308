"""Trees and their timetable: the ranks that a tree reaches, and broadcasts that are pipes."""

import pytest

from emunode.algorithms.base import Pipe
from emunode.algorithms.tree_collective import TreeCollective, tree_count
from tests.helpers.scenarios import Case


def trees_of(line: str) -> TreeCollective:
    """Return the algorithm of a scenario, which runs trees."""
    algorithm = Case(line).plan.algorithm
    assert isinstance(algorithm, TreeCollective)
    return algorithm


@pytest.mark.parametrize("line", ["ring:6 broadcast bfs-tree", "star:4 broadcast greedy-tree", "star:4 reduce edt"])
def test_trees_reach_every_rank_but_their_root(line: str) -> None:
    algorithm = trees_of(line)
    assert algorithm.receivers == frozenset(range(1, algorithm.topology.order))


def test_a_tree_that_forwards_one_segment_a_step_is_a_pipe() -> None:
    """Four segments follow each other in the tree of S_4, whose lowest leaf is at the distance of the diameter, 4."""
    algorithm = trees_of("star:4 broadcast greedy-tree segments=4")
    assert algorithm.forwards
    assert algorithm.pipe == Pipe(segments=4, links=4, period=1)


@pytest.mark.parametrize(
    "line",
    [
        "star:4 broadcast edt",
        "star:4 broadcast greedy-tree port_model=one-port",
        "star:4 reduce edt",
    ],
    ids=["several trees", "one port", "backwards"],
)
def test_other_timetables_are_no_pipes(line: str) -> None:
    assert trees_of(line).pipe is None


@pytest.mark.parametrize(
    ("line", "trees"), [("star:4 broadcast greedy-tree", 1), ("star:5 broadcast edt", 4), ("star:4 broadcast flood", 0)]
)
def test_trees_of_an_algorithm_are_counted(line: str, trees: int) -> None:
    assert tree_count(Case(line).plan.algorithm) == trees
