"""Paths of copies from rules that are played; `tests/contract/losses.py` compares the paths of every algorithm."""

import pytest

from coordinator.planning.plan import Plan
from emunode.algorithms.base import Dependence
from emunode.engine.known_paths import KnownPaths
from tests.contract.cases import case_named
from tests.helpers.paths_by_structure import paths_by_structure


def plan_with_copies(name: str, redundancy: int, messages: int) -> Plan:
    """Return the plan of a case of the contract with copies."""
    plan = case_named(name).accepted_plan(redundancy=redundancy, messages=messages)
    assert plan is not None
    return plan


def test_a_traversal_that_awaits_answers_is_played_to_its_end() -> None:
    """Acknowledgements are no copies, and later messages start after those of earlier ones."""
    algorithm = plan_with_copies("star:4-allgather-edt-dfs-ack", redundancy=2, messages=3).algorithm
    assert algorithm.dependence is Dependence.UNSTATED
    for segment in range(3):
        played = KnownPaths(algorithm).paths(5, segment)
        assert played is not None
        assert sorted(played) == sorted(paths_by_structure(algorithm, 5, segment))


def test_many_segments_are_played_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("emunode.engine.known_paths.MOST_PATHS", 150)
    algorithm = plan_with_copies("star:4-broadcast-edt", redundancy=2, messages=5).algorithm
    for segment in (0, 3, 0, 4):
        played = KnownPaths(algorithm).paths(0, segment)
        assert played is not None
        assert sorted(played) == sorted(paths_by_structure(algorithm, 0, segment))
