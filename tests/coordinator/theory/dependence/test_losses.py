"""Losses to outages from traced schedules, against the trees, routes and tables that algorithms are made of."""

import gc
import weakref
from collections.abc import Iterator
from random import Random

import pytest

from coordinator.theory.dependence.losses import losses
from coordinator.theory.dependence.outages import THROUGHOUT, Outages
from emunode.algorithms.base import Algorithm, Dependence
from emunode.faults.effects import ALWAYS, Interval, Place
from tests.helpers.losses_by_structure import delivered
from tests.helpers.recorded_runs import recorded
from tests.helpers.scenarios import Case

PROTOCOLS = ("fault=", "clock=", "reliable", "knowledge", "repair")
FAULT_FREE = [line for each in recorded() if not any(word in (line := each["scenario"]) for word in PROTOCOLS)]


def algorithm_of(line: str) -> Algorithm:
    return Case(line).plan.algorithm


def some_outages(algorithm: Algorithm, chance: Random) -> Iterator[Outages]:
    """Yield up to three ranks and three links, one way or both, for a while or throughout; sources without a stand-in
    live.
    """
    topology, last = algorithm.topology, algorithm.final_step or 20
    queued = algorithm.dependence is Dependence.QUEUED

    def interval() -> Interval:
        if queued or chance.random() < 0.3:
            return THROUGHOUT
        start = chance.randint(1, last + 1)
        return Interval(start, chance.choice([ALWAYS, chance.randint(start + 1, last + 3)]))

    for _ in range(4):
        ranks = chance.sample(topology.ranks(), chance.randint(0, 3))
        places: dict[Place, list[Interval]] = {rank: [interval()] for rank in ranks}
        for sender in chance.sample(topology.ranks(), chance.randint(0, 3)):
            port = chance.choice(list(topology.ports(sender)))
            places[sender, port] = [interval()]
            if chance.random() < 0.5:
                places[topology.end(sender, port)] = places[sender, port]
        if algorithm.spec.sources_live(ranks):
            yield Outages(places, frozenset(ranks))


@pytest.mark.exhaustive(one_in=10)
@pytest.mark.parametrize("line", FAULT_FREE)
def test_losses_are_those_of_the_structure(line: str) -> None:
    algorithm = algorithm_of(line)
    if algorithm.dependence is Dependence.UNSTATED or algorithm.name == "recursive-doubling":
        return
    for outages in some_outages(algorithm, Random(line)):
        found = losses(algorithm, outages)
        assert found is not None
        assert found.delivered == delivered(algorithm, outages), outages


def test_algorithms_without_a_structure_lose_what_runs_lose() -> None:
    """All others are compared with runs in `tests/contract/losses.py`."""
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
