"""Schedules: what a fold depends on, and the segments that share packets."""

from coordinator.theory.dependence.schedule import BEGIN, due_messages, trace
from emunode.algorithms.folding import FoldingSchedule
from tests.helpers.scenarios import Case


def test_a_fold_needs_the_partial_results_of_its_feeders() -> None:
    given = Case("star:4 reduce greedy-tree").plan
    algorithm = given.algorithm
    assert isinstance(algorithm, FoldingSchedule)
    schedule, _ = trace(algorithm, 100)
    for hop in range(len(schedule)):
        rank = int(schedule.sender[hop])
        feeders = algorithm.feeders(rank, given.spec.source, int(schedule.segment[hop]))
        assert sorted(schedule.sender[schedule.folded(hop)].tolist()) == sorted(feeders)
    # The result needs every hop.
    due = due_messages(algorithm, schedule)
    needed = {int(hop) for column in due.copies.columns for hop in column}
    waiting = sorted(needed)
    for hop in waiting:
        before = {int(schedule.carried[hop]), *schedule.folded(hop).tolist()} - {BEGIN} - needed
        waiting += before
        needed |= before
    assert sorted(needed) == list(range(len(schedule)))


def test_packets_hold_the_segments_that_cross_a_link_together() -> None:
    given = Case("star:4 allgather rotated-trees").plan
    schedule, _ = trace(given.algorithm, 1000)
    packets = len(set(zip(schedule.step.tolist(), schedule.sender.tolist(), schedule.port.tolist(), strict=True)))
    assert int(schedule.packets[-1]) + 1 == packets
