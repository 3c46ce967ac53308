"""Agreement under the timed clock: every pair of crashes at random times, with a judge of its own."""

from itertools import combinations
from random import Random
from typing import Any

import pytest

from coordinator.history.prediction import completed
from coordinator.networks.base import prediction_of
from coordinator.planning.plan import Plan
from emunode.model import AGAIN_TREE, CONTROL_TREE, HopOutcome
from emunode.net.wire import ROW
from emunode.protocols.base import ControlKind
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import fields
from tests.helpers.scenarios import Case
from tests.helpers.support import failures, run_scenario

Row = tuple[int, ...]
TIMED: dict[str, Any] = {
    "clock": "timed", "startup": "1ms", "per_byte": "0s", "fault_knowledge": "detect:2", "keep_alive": "12ms",
}  # fmt: skip
NETWORKS = {
    "hypercube:3": "hypercube:3 broadcast sbt",
    "torus:3x3": "torus:3x3 broadcast bfs-tree",
    "star:4": "star:4 broadcast greedy-tree",
}


def history(plan: Plan) -> list[Row]:
    """Return the rows of a run, as `wire.ROW` has them."""
    timetable = completed(prediction_of(plan))
    assert timetable.inputs is not None
    assert timetable.complete
    engine, rows, step = timetable.inputs.engine(plan.algorithm), bytearray(), 0
    while engine.busy or not step:
        step += 1
        rows += engine.step(step)
    return sorted(ROW.iter_unpack(rows))


def decisions(rows: list[Row]) -> dict[int, frozenset[tuple[int, int]]]:
    """By node, the links of its last decision, each by its ends."""
    last: dict[int, tuple[int, set[tuple[int, int]]]] = {}
    for step, sender, _, origin, target, _, _, tree, _, outcome in rows:
        if outcome == HopOutcome.REPORT and tree == CONTROL_TREE + ControlKind.SUSPICION:
            before, links = last.get(sender, (0, set()))
            last[sender] = (step, (links if step == before else set()) | {(min(origin, target), max(origin, target))})
    return {rank: frozenset(links) for rank, (_, links) in last.items()}


def crashes_of(network: str) -> list[tuple[str, tuple[tuple[int, int], ...]]]:
    """Return every pair of crashes of a network, at random times in microseconds, the source spared.

    One of them comes while the broadcast runs; the other one before, during or after the agreement on it.
    """
    random = Random(network)
    order = parse_topology(network).order
    found: list[tuple[str, tuple[tuple[int, int], ...]]] = []
    for pair in combinations(range(1, order), 2):
        one, other = random.sample(pair, 2)
        found.append((network, ((one, random.randrange(2_000)), (other, random.randrange(45_000)))))
    return found


PAIRS = [case for network in NETWORKS for case in crashes_of(network)]


@pytest.mark.exhaustive(one_in=24)
@pytest.mark.parametrize(("network", "crashes"), PAIRS)
def test_after_two_crashes_survivors_agree_and_are_served(network: str, crashes: tuple[tuple[int, int], ...]) -> None:
    topology = parse_topology(network)
    faults = [f"crash:{topology.label(rank)}@{time}us" for rank, time in crashes]
    rows = history(Case(NETWORKS[network], **TIMED, fault=faults, on_failure="shrink").plan)
    gone = {rank for rank, _ in crashes}
    decided = decisions(rows)
    survivors = [rank for rank in topology.ranks() if rank not in gone]
    (links,) = {decided.get(rank) for rank in survivors}
    assert links is not None
    given_up = {(min(one, other), max(one, other)) for one in gone for _, other in topology.adjacent(one)}
    between = {link for link in given_up if gone.issuperset(link)}
    assert given_up - between <= links <= given_up
    # The last repetition serves every survivor.
    again = [row for row in rows if AGAIN_TREE <= row[7] < CONTROL_TREE and row[-1] == HopOutcome.FIRST]
    last = max(row[7] for row in again)
    assert {row[2] for row in again if row[7] == last} == set(survivors) - {0}


@pytest.mark.exhaustive(one_in=144)
@pytest.mark.parametrize(("network", "crashes"), PAIRS)
@pytest.mark.parametrize("mode", ["agree", "shrink"])
def test_claims_hold_after_every_pair_of_crashes(network: str, crashes: tuple[tuple[int, int], ...], mode: str) -> None:
    label = parse_topology(network).label
    faults = [f"crash:{label(rank)}@{time}us" for rank, time in crashes]
    result = run_scenario(None, **fields(NETWORKS[network]), **TIMED, fault=faults, on_failure=mode)
    assert failures(result) == []
    verdicts = {each.claim.name: str(each.verdict) for each in result.judgements}
    for name in ("agreement_errors", "revised_decisions", "slowest_agreement_seconds", "illegal_hops"):
        assert verdicts[name] == "holds"
    if mode == "shrink":
        assert str(result.verdict) == verdicts["final_delivery_ratio"] == "holds"


def test_a_decision_comes_after_the_rounds_of_the_longest_way() -> None:
    """D_f = 4 in Q_3, and two faulty nodes may hide news for a round each. A round is a packet, a sign and the news."""
    agreement = Case("hypercube:3 broadcast sbt", **TIMED, on_failure="agree").plan.spec.agreement
    assert agreement is not None
    assert (agreement.steps, agreement.round) == (6, 3_000_000)
    given = Case("hypercube:3 broadcast sbt", **TIMED, on_failure="agree", agreement_steps=9).plan.spec.agreement
    assert given is not None
    assert given.steps == 9


def test_nothing_is_told_without_a_failure() -> None:
    rows = history(Case("hypercube:3 broadcast sbt", **TIMED, on_failure="shrink").plan)
    assert {row[7] for row in rows} == {0, CONTROL_TREE + ControlKind.KEEP_ALIVE}


@pytest.mark.parametrize("collective", ["gather", "scatter", "allgather", "alltoall"])
def test_collectives_run_again_on_what_is_left(collective: str) -> None:
    name = {"gather": "bfs-tree", "scatter": "bfs-tree", "allgather": "bfb", "alltoall": "list-schedule"}[collective]
    line = fields(f"hypercube:3 {collective} {name}")
    result = run_scenario(
        None, **line, **{**TIMED, "keep_alive": "40ms"}, fault=["crash:011@1.5ms"], on_failure="shrink"
    )
    assert failures(result) == []
    assert result.summary["final_delivery_ratio"] == 1
    assert result.summary["agreement_errors"] == 0


def test_a_live_neighbour_that_is_given_up_learns_it() -> None:
    """A node that hangs for long, and runs again: it receives all news, decides the same, and is excluded."""
    result = run_scenario(
        None, **fields("hypercube:3 broadcast sbt"), **TIMED, fault=["hang:011@2ms-40ms"], on_failure="shrink"
    )
    assert result.summary["agreement_errors"] == 0
    assert result.summary["excluded_nodes"] == 1
    assert result.summary["final_delivery_ratio"] == 1
