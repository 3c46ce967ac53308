"""Claims under outages: promises by the number of faults, deliveries by the schedule, and bounds."""

from coordinator.theory.dependence.outages import THROUGHOUT, Outages
from coordinator.theory.outage_claims import claims_with_outages
from emunode.algorithms.base import Algorithm
from tests.helpers.scenarios import Case


def algorithm_of(line: str) -> Algorithm:
    return Case(line).plan.algorithm


def test_no_claims_when_the_source_is_faulty() -> None:
    algorithm = algorithm_of("star:4 scatter edt")
    claims = claims_with_outages(algorithm, Outages({1: [THROUGHOUT]}, frozenset({1})))
    assert [claim.name for claim in claims if claim.relation == "<="] == ["steps", "segments"]
    assert claims_with_outages(algorithm, Outages({0: [THROUGHOUT]}, frozenset({0}))) == []


def test_fewer_faults_than_trees_are_survived() -> None:
    algorithm = algorithm_of("star:4 broadcast edt redundancy=3")
    alone = next(rank for rank in algorithm.topology.ranks() if algorithm.topology.distance(rank, 0) == 4)
    neighbours = [peer for _, peer in algorithm.topology.adjacent(alone)]
    for broken in range(1, 4):
        gone = neighbours[:broken]
        outages = Outages({rank: [THROUGHOUT] for rank in gone}, frozenset(gone))
        claims = {(claim.name, claim.relation): claim for claim in claims_with_outages(algorithm, outages)}
        assert (("delivery_ratio", "==") in claims) == (broken < 3)
        delivered = claims["intact_deliveries", "=="]
        assert delivered.derived
        # Without its three neighbours the rank is cut off.
        assert delivered.predicted == 23 - broken - (broken == 3)


def test_queues_promise_at_least_what_lasting_outages_leave() -> None:
    algorithm = algorithm_of("hypercube:3 scatter sbt-fifo")
    lasting = Outages({3: [THROUGHOUT]}, frozenset({3}))
    short = Outages({3: [THROUGHOUT._replace(start=2)]}, frozenset({3}))
    found = {}
    for outages in (lasting, short):
        [found[outages.permanent]] = [each for each in claims_with_outages(algorithm, outages) if each.relation != "<="]
    assert (found[True].relation, found[False].relation) == ("==", ">=")
    assert found[True].predicted == found[False].predicted


def test_copies_in_queues_and_first_arrivals_are_not_derived() -> None:
    flood = algorithm_of("complete:8 broadcast flood")
    [claim] = [
        each
        for each in claims_with_outages(flood, Outages({3: [THROUGHOUT]}, frozenset({3})))
        if each.name == "intact_deliveries"
    ]
    assert (claim.predicted, claim.derived) == (6, False)
