"""The judges of every algorithm: a history with one wrong row, or a tree with one wrong child, does not hold.

Each algorithm meets some rows and some mutations: `scripts/stress oracle_mutation` goes through more.
"""

from itertools import islice
from random import Random

import numpy as np
import pytest

from coordinator.history.journal import sorted_records, table
from coordinator.results.claims import Verdict
from coordinator.results.conclude import History, conclude
from emunode.algorithms.tree_collective import TreeCollective
from emunode.errors import ContractError, EmulatorError, ScenarioError
from emunode.testing import check_trees
from emunode.topologies.base import FAMILIES
from emunode.topologies.registry import parse_topology
from emunode.trees.base import Trees, levels
from tests.contract.cases import CASES, AlgorithmCase
from tests.contract.walk import check
from tests.helpers.mutation_support import (
    IMPOSSIBLE,
    MUTATIONS,
    Records,
    grafted,
    history_of,
    is_within_claims,
    moved,
    replayed,
    verdict_on,
)
from tests.helpers.support import played


def some_place(case: AlgorithmCase, salt: int) -> int:
    """Return a row of a history, a different one for every case and salt."""
    return (CASES.index(case) * 7919 + salt * 104_729) % len(case.history)


@check(one_in=6)
def replay_matches_the_history(case: AlgorithmCase) -> None:
    """The replay finds no difference in a correct history."""
    assert replayed(case.plan, case.history) == 0


@check(one_in=6)
def replay_detects_a_changed_row(case: AlgorithmCase) -> None:
    """Two mutations of every algorithm, so that each mutation meets a dozen of them."""
    number = CASES.index(case)
    for salt in range(2):
        name = list(MUTATIONS)[(number + salt * 8) % len(MUTATIONS)]
        changed = MUTATIONS[name](case.plan, case.history, some_place(case, salt))
        assert changed is None or replayed(case.plan, changed) > 0, name


@check(one_in=8)
def impossible_histories_do_not_hold(case: AlgorithmCase) -> None:
    """Claims and audit reject a history that cannot be, without a replay."""
    number = CASES.index(case)
    for salt in range(2):
        name = list(IMPOSSIBLE)[(number + salt * 5) % len(IMPOSSIBLE)]
        changed = (
            None
            if is_within_claims(case.plan, name)
            else IMPOSSIBLE[name](case.plan, case.history, some_place(case, salt))
        )
        assert changed is None or verdict_on(case.plan, changed) != Verdict.HOLDS, name


@check(one_in=1, cases=[case for case in CASES if case.entry.traits.ack_bytes])
def an_acknowledgement_has_its_own_target_and_size(case: AlgorithmCase) -> None:
    """Claims and audit reject a wrong row of an acknowledgement."""
    place = len(case.history) - 1
    assert case.history["target"][place] == case.history["sender"][place]
    for name, mutation in IMPOSSIBLE.items():
        changed = mutation(case.plan, case.history, place)
        assert changed is None or verdict_on(case.plan, changed) != Verdict.HOLDS, name


@check(
    one_in=60,
    cases=[
        AlgorithmCase("ej:1+2" if family == "ej" else FAMILIES[family].small_examples[0], case.entry)
        for case in CASES
        for family in (case.network.partition(":")[0],)
    ],
)
def duplicated_packets_make_no_hop_illegal(case: AlgorithmCase) -> None:
    """A correct run over links that duplicate packets is never `violated`."""
    for more in ({}, {"redundancy": 2}, {"messages": 2, "segments": 2}):
        try:
            plan = case.scenario.but(**more).plan
        except ScenarioError:  # the algorithm does not do that
            continue
        chance, topology = Random(f"{case.name}/{more}"), plan.topology
        for _ in range(3):
            rank = chance.choice(topology.ranks())
            peer = chance.choice([peer for _, peer in topology.adjacent(rank)])
            link = f"{topology.label(rank)}{chance.choice('~>')}{topology.label(peer)}"
            fault = f"duplicate:{link}:{chance.choice(['1', '0.5'])}"
            broken = plan.with_faults([fault])
            rows, altered = played(broken)
            records = sorted_records([rows])
            history = History(table(records).lazy(), len(records), None, altered)
            conclusion = conclude(broken, history, replay=True)
            assert conclusion.metrics["illegal_hops"] == 0, broken.scenario.fault
            assert conclusion.ruling.verdict != "violated", conclusion.ruling.judgements


# --- trees with one wrong child --------------------------------------------------------------------------------------


@check(one_in=6, cases=[case for case in CASES if case.has_trees])
def a_wrong_child_is_detected(case: AlgorithmCase) -> None:
    """The conformance suite of trees rejects every removal, addition, exchange or move of one child."""
    trees = case.trees
    assert trees is not None
    order = trees.topology.order
    for rank in {0, 1, order // 2, order - 1}:
        wrong = list(grafted(trees, rank, trees.count - 1))
        wrong += moved(trees, rank, trees.count - 1) if rank else ()
        assert wrong
        for one in wrong[:: 1 + len(wrong) // 6]:
            with pytest.raises(ContractError):
                check_trees(one)


def reaches(trees: Trees) -> int:
    """Return the number of ranks that a tree reaches; 0 if it reaches one twice."""
    try:
        return len(levels(trees, 0))
    except ContractError:
        return 0


def history_on(case: AlgorithmCase, trees: Trees) -> Records | None:
    """Return the history of a case on other trees; None if the algorithm refuses to run on them."""
    algorithm = case.entry.__new__(case.entry)
    algorithm.make_trees = lambda _topology: trees  # type: ignore[attr-defined]
    try:
        case.entry.__init__(algorithm, parse_topology(case.network), case.plan.spec)
        return history_of(case.plan, algorithm)
    except (EmulatorError, ValueError, KeyError, IndexError, AttributeError):
        return None


@check(one_in=2, cases=[case for case in CASES if issubclass(case.entry, TreeCollective)])
def a_collective_over_a_wrong_tree_does_not_hold(case: AlgorithmCase) -> None:
    """Claims are about the correct tree. An algorithm that refuses to run on a wrong tree counts as detected.

    A wrong tree with the same history, hop for hop, is no mistake of the run: a reduce goes by parents, so another list
    of children often changes nothing. It must not be so for all wrong trees.
    """
    right = case.trees
    assert right is not None
    rank = 1 + CASES.index(case) % (right.topology.order - 1)
    parent = right.topology.neighbour(rank, right.parent(rank, 0))
    found = [(wrong, reaches(wrong)) for wrong in (*grafted(right, parent, 0), *moved(right, rank, 0))]
    less = [wrong for wrong, reached in found if 0 < reached < right.topology.order]
    elsewhere = [wrong for wrong, reached in found if reached == right.topology.order]
    detected = 0
    for wrong_trees in (less, elsewhere):
        histories = (history_on(case, wrong) for wrong in wrong_trees)
        different = (one for one in histories if one is None or not np.array_equal(one, case.history))
        for records in islice(different, 1):
            detected += 1
            assert records is None or replayed(case.plan, records) > 0
            assert records is None or wrong_trees is elsewhere or verdict_on(case.plan, records) != Verdict.HOLDS
    assert detected, "no wrong tree makes a difference"
