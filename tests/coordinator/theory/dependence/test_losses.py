"""Losses to outages from traced schedules: what has no prediction, and where the blame lies.

`tests/contract/losses.py` compares the predictions of every algorithm with runs.
"""

import gc
import weakref

from coordinator.theory.dependence.losses import losses
from coordinator.theory.dependence.outages import THROUGHOUT, Outages
from emunode.algorithms.base import Algorithm, Dependence
from emunode.faults.effects import Interval
from tests.helpers.recorded_runs import recorded
from tests.helpers.scenarios import Case

PROTOCOLS = ("fault=", "clock=", "reliable", "knowledge", "repair")
FAULT_FREE = [line for each in recorded() if not any(word in (line := each["scenario"]) for word in PROTOCOLS)]


def algorithm_of(line: str) -> Algorithm:
    return Case(line).plan.algorithm


def test_losses_of_few_algorithms_are_not_predicted() -> None:
    unstated = {line for line in FAULT_FREE if algorithm_of(line).dependence is Dependence.UNSTATED}
    names = {line.split()[2] for line in unstated}
    assert names == {"edt-dfs-ack", "improved-printed", "three-phase-restart", "three-phase-restart-own"}


def test_a_rank_that_waits_is_stuck_after_a_loss() -> None:
    """Every rank that misses a message of a stage sends nothing in later stages, so that one short loss spreads."""
    waiting = algorithm_of("ej:2+3 allgather three-phase")
    assert waiting.dependence is Dependence.WAITING
    found = losses(waiting, Outages({(0, 0): [Interval(1, 2)]}))
    assert found is not None
    order = waiting.topology.order
    assert found.delivered < order * (order - 1) - 1
    assert all(places == {(0, 0)} for places in found.causes.values())


def test_causes_are_the_first_outages_on_the_way() -> None:
    """Down a path, the outage nearest to the source takes the blame; of a fold, every outage that cost a contribution."""
    broadcast = algorithm_of("star:4 broadcast greedy-tree")
    child = broadcast.topology.neighbour(0, 0)
    found = losses(broadcast, Outages({(0, 0): [THROUGHOUT], child: [THROUGHOUT]}, frozenset({child})))
    assert found is not None
    assert set().union(*found.causes.values()) == {(0, 0)}
    fold = algorithm_of("star:4 reduce greedy-tree")
    back = fold.topology.end(0, 0)
    leaf = next(rank for rank in fold.topology.ranks() if fold.topology.distance(rank, 0) == fold.topology.diameter)
    found = losses(fold, Outages({back: [THROUGHOUT], leaf: [THROUGHOUT]}, frozenset({leaf})))
    assert found is not None
    assert found.causes[0] >= {back}
    assert found.delivered == 0


def test_a_traced_schedule_goes_with_its_algorithm() -> None:
    algorithm = algorithm_of("star:4 broadcast greedy-tree")
    assert losses(algorithm, Outages()) is not None
    found = weakref.ref(algorithm)
    del algorithm
    gc.collect()
    assert found() is None
