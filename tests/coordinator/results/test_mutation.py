"""The judges are judged over every algorithm: one row or one child that is wrong, and it does not hold.

Of every algorithm some rows, some mutations: `scripts/stress oracle_mutation` goes through more.
"""

from itertools import islice

import numpy as np
import pytest

from coordinator.results.claims import Verdict
from emunode.algorithms.base import Algorithm
from emunode.algorithms.tree_collective import TreeCollective
from emunode.errors import ContractError, EmulatorError
from emunode.testing import check_trees
from emunode.topologies.registry import parse_topology
from emunode.trees.base import Trees, levels
from tests.mutation_support import (
    CASES,
    IMPOSSIBLE,
    MUTATIONS,
    SMALL,
    Records,
    case_name,
    grafted,
    history,
    history_of,
    moved,
    replayed,
    small_plan,
    verdict_on,
)

Case = tuple[str, type[Algorithm]]
EVERY = pytest.mark.parametrize("case", CASES, ids=case_name)


def some_place(case: Case, salt: int) -> int:
    """A row of a history, a different one for every case and salt."""
    return (CASES.index(case) * 7919 + salt * 104_729) % len(history(case))


@pytest.mark.exhaustive(one_in=6)
@EVERY
def test_replay_matches_the_history(case: Case) -> None:
    plan, records = small_plan(case), history(case)
    assert replayed(plan, records) == 0


@pytest.mark.exhaustive(one_in=6)
@EVERY
def test_replay_detects_every_changed_row(case: Case) -> None:
    """Two mutations of every algorithm, so that each meets a dozen of them."""
    plan, records, number = small_plan(case), history(case), CASES.index(case)
    for salt in range(2):
        name = list(MUTATIONS)[(number + salt * 8) % len(MUTATIONS)]
        changed = MUTATIONS[name](plan, records, some_place(case, salt))
        assert changed is None or replayed(plan, changed) > 0, name


@pytest.mark.exhaustive(one_in=8)
@EVERY
def test_impossible_histories_do_not_hold(case: Case) -> None:
    plan, records, number = small_plan(case), history(case), CASES.index(case)
    for salt in range(2):
        name = list(IMPOSSIBLE)[(number + salt * 5) % len(IMPOSSIBLE)]
        changed = IMPOSSIBLE[name](plan, records, some_place(case, salt))
        assert changed is None or verdict_on(plan, changed) != Verdict.HOLDS, name


def test_an_acknowledgement_has_its_own_target_and_size() -> None:
    case = next(case for case in CASES if case[1].ack_bytes)
    plan, records = small_plan(case), history(case)
    place = len(records) - 1
    assert records["target"][place] == records["sender"][place]
    for name, mutation in IMPOSSIBLE.items():
        changed = mutation(plan, records, place)
        assert changed is None or verdict_on(plan, changed) != Verdict.HOLDS, name


# --- trees with one wrong child --------------------------------------------------------------------------------------


def trees_of(case: Case) -> Trees | None:
    """The trees of a tree-based algorithm."""
    trees = getattr(small_plan(case).algorithm, "trees", None)
    return trees if isinstance(trees, Trees) else None


PLANTED = pytest.mark.parametrize("case", [case for case in CASES if trees_of(case)], ids=case_name)


@pytest.mark.exhaustive(one_in=6)
@PLANTED
def test_tree_with_a_wrong_child_is_detected(case: Case) -> None:
    trees = trees_of(case)
    assert trees is not None
    order = trees.topology.order
    for rank in {0, 1, order // 2, order - 1}:
        wrong = list(grafted(trees, rank, trees.count - 1))
        wrong += moved(trees, rank, trees.count - 1) if rank else ()
        assert wrong
        for one in wrong[:: 1 + len(wrong) // 6]:
            with pytest.raises(ContractError):
                check_trees(one)


FORWARDING = [case for case in CASES if issubclass(case[1], TreeCollective)]


def reaches(trees: Trees) -> int:
    """Number of ranks that a tree reaches; 0 if it reaches one twice."""
    try:
        return len(levels(trees, 0))
    except ContractError:
        return 0


def history_on(case: Case, trees: Trees) -> Records | None:
    """The history of a case on other trees; None if the algorithm refuses to run on them."""
    family, entry = case
    plan = small_plan(case)
    algorithm = entry.__new__(entry)
    algorithm.make_trees = lambda _topology: trees  # type: ignore[attr-defined]
    try:
        entry.__init__(algorithm, parse_topology(SMALL[family]), plan.spec)
        return history_of(plan, algorithm)
    except (EmulatorError, ValueError, KeyError, IndexError, AttributeError):
        return None


@pytest.mark.parametrize("case", FORWARDING, ids=case_name)
def test_collective_over_a_tree_with_a_wrong_child_does_not_hold(case: Case) -> None:
    """Claims are about the correct tree. An algorithm that refuses to run on a wrong tree counts as detected.

    A wrong tree on which the history is the same, hop for hop, is no mistake of the run: a reduce goes by parents, so
    another list of children often changes nothing. It must not be so for all wrong trees.
    """
    plan, right = small_plan(case), trees_of(case)
    assert right is not None
    rank = 1 + CASES.index(case) % (right.topology.order - 1)
    parent = right.topology.neighbour(rank, right.parent(rank, 0))
    found = [(wrong, reaches(wrong)) for wrong in (*grafted(right, parent, 0), *moved(right, rank, 0))]
    less = [wrong for wrong, reached in found if 0 < reached < right.topology.order]
    elsewhere = [wrong for wrong, reached in found if reached == right.topology.order]
    detected = 0
    for wrong_trees in (less, elsewhere):
        histories = (history_on(case, wrong) for wrong in wrong_trees)
        different = (one for one in histories if one is None or not np.array_equal(one, history(case)))
        for records in islice(different, 1):
            detected += 1
            assert records is None or replayed(plan, records) > 0
            assert records is None or wrong_trees is elsewhere or verdict_on(plan, records) != Verdict.HOLDS
    assert detected, "no wrong tree makes a difference"
