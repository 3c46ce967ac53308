"""Schedules: the paths of copies against the trees that they come from, and what a fold depends on."""

from coordinator.dependence.schedule import BEGIN, pieces_of, trace
from emunode.algorithms.folding import FoldingSchedule
from emunode.algorithms.tree_collective import TreeCollective
from tests.coordinator.evaluation.support import plan


def test_paths_are_those_of_the_trees() -> None:
    given = plan("star:4", "broadcast", "edt", redundancy=3, source="2134")
    algorithm = given.algorithm
    assert isinstance(algorithm, TreeCollective)
    schedule, _ = trace(algorithm, 100)
    pieces = list(pieces_of(given.algorithm, schedule))
    assert len(pieces) == 23
    for piece in pieces:
        relative = given.topology.relative(piece.receiver, given.spec.source)
        ports = {tuple(schedule.port[path].tolist()) for path in piece.copies}
        assert ports == {tuple(algorithm.trees.route(relative, tree)) for tree in range(3)}
        for path in piece.copies:
            assert schedule.carried[path[0]] == BEGIN
            assert schedule.sender[path].tolist() == [given.spec.source, *schedule.receiver[path[:-1]].tolist()]
            steps = schedule.step[path].tolist()
            assert steps == sorted(set(steps))
            assert schedule.path(path[-1]) == path


def test_a_fold_needs_the_partial_results_of_its_feeders() -> None:
    given = plan("star:4", "reduce", "greedy-tree")
    algorithm = given.algorithm
    assert isinstance(algorithm, FoldingSchedule)
    schedule, _ = trace(algorithm, 100)
    for hop in range(len(schedule)):
        rank = int(schedule.sender[hop])
        feeders = algorithm.feeders(rank, given.spec.source, int(schedule.segment[hop]))
        assert sorted(schedule.sender[schedule.folded(hop)].tolist()) == sorted(feeders)
    # The result needs every hop.
    assert sorted(
        {hop for piece in pieces_of(given.algorithm, schedule) for copy in piece.copies for hop in copy}
    ) == list(range(len(schedule)))


def test_packets_hold_the_segments_that_cross_a_link_together() -> None:
    given = plan("star:4", "allgather", "rotated-trees")
    schedule, _ = trace(given.algorithm, 1000)
    packets = len(set(zip(schedule.step.tolist(), schedule.sender.tolist(), schedule.port.tolist(), strict=True)))
    assert int(schedule.packets[-1]) + 1 == packets
