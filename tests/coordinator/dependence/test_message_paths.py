"""Paths of copies, from traced schedules and from rules that are played, against trees and routes."""

from random import Random

import pytest

from coordinator.dependence.message_paths import paths_of
from coordinator.planning.plan import Plan
from emunode.algorithms.base import Algorithm, Dependence
from emunode.engine.known_paths import KnownPaths
from emunode.faults.byzantine import Collusion
from emunode.model import Rank
from tests.emunode.algorithms.test_losses import accepted_plan
from tests.mutation_support import CASES, SMALL, case_name
from tests.paths_by_structure import paths_by_structure


def plans_with_copies(case: tuple[str, type[Algorithm]]) -> list[Plan]:
    """Return two and more copies of two messages, by each port model; empty for an algorithm without copies."""
    family, entry = case
    found = [
        accepted_plan(SMALL[family], entry, {"redundancy": redundancy, "port_model": model, "messages": 2})
        for redundancy in (2, 3)
        for model in entry.port_models
    ]
    return [plan for plan in found if plan is not None]


def some_segments(algorithm: Algorithm, chance: Random) -> list[tuple[Rank, int]]:
    """Return up to three origins with a segment each."""
    origins = [rank for rank in algorithm.sources if rank != algorithm.target]
    origins = chance.sample(origins, min(3, len(origins)))
    return [(origin, chance.randrange(2 * algorithm.segments_per_message)) for origin in origins]


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_paths_are_those_of_trees_and_routes(case: tuple[str, type[Algorithm]]) -> None:
    for plan in plans_with_copies(case):
        if plan.algorithm.dependence is Dependence.UNSTATED:
            continue  # traced schedules do not decide it
        traced, known = paths_of(plan.algorithm), KnownPaths(plan.algorithm)
        traced.require_all()
        for origin, segment in some_segments(plan.algorithm, Random(case_name(case))):
            expected = sorted(paths_by_structure(plan.algorithm, origin, segment))
            assert expected
            played = known.paths(origin, segment)
            assert played is not None
            assert sorted(played) == expected
            for (_, target, tree, _), receiver, sends in expected:
                path = traced.copies((origin, target, segment), receiver)[tree]
                assert [(hop.sender, hop.port) for hop in path] == sends
                assert path[-1].receiver == receiver


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("case", CASES, ids=case_name)
def test_colluding_nodes_forge_over_a_majority_of_paths(case: tuple[str, type[Algorithm]]) -> None:
    chance = Random(case_name(case))
    for plan in plans_with_copies(case):
        colluders = set(chance.sample(plan.topology.ranks(), chance.randint(1, 4)))
        collusion = Collusion(KnownPaths(plan.algorithm), colluders)
        for origin, segment in some_segments(plan.algorithm, chance):
            paths = list(paths_by_structure(plan.algorithm, origin, segment))
            outvoted = set()
            for receiver in {path.receiver for path in paths} - colluders:
                copies = [path.sends[1:] for path in paths if path.receiver == receiver]
                broken = sum(any(rank in colluders for rank, _ in sends) for sends in copies)
                if 2 * broken > len(copies):
                    outvoted.add(receiver)
            for path in paths:
                for send in path.sends:
                    behind = {each.receiver for each in paths if each.copy == path.copy and send in each.sends}
                    wins = not behind.isdisjoint(outvoted)
                    assert send[0] not in colluders or collusion.wins_behind(send, path.copy) == wins


def plan_with_copies(text: str, redundancy: int, messages: int) -> Plan:
    """Return the plan of `family-collective-algorithm` with copies."""
    ((family, entry),) = [case for case in CASES if case_name(case) == text]
    plan = accepted_plan(SMALL[family], entry, {"redundancy": redundancy, "messages": messages})
    assert plan is not None
    return plan


def test_a_traversal_that_awaits_answers_is_played_to_its_end() -> None:
    """Acknowledgements are no copies, and later messages start after those of earlier ones."""
    algorithm = plan_with_copies("star-allgather-edt-dfs-ack", redundancy=2, messages=3).algorithm
    assert algorithm.dependence is Dependence.UNSTATED
    for segment in range(3):
        played = KnownPaths(algorithm).paths(5, segment)
        assert played is not None
        assert sorted(played) == sorted(paths_by_structure(algorithm, 5, segment))


def test_many_segments_are_played_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emunode.engine.known_paths.MOST_PATHS", 150)
    algorithm = plan_with_copies("star-broadcast-edt", redundancy=2, messages=5).algorithm
    for segment in (0, 3, 0, 4):
        played = KnownPaths(algorithm).paths(0, segment)
        assert played is not None
        assert sorted(played) == sorted(paths_by_structure(algorithm, 0, segment))
