"""Votes under byzantine nodes: theory against the published table, and the message engine against both."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from math import comb
from random import Random
from typing import Final

import pytest

from coordinator.planning.plan import Plan
from coordinator.theory.dependence.message_paths import paths_of
from coordinator.theory.votes import Ballot, ballots, vote_claims
from emunode.algorithms.base import Dependence, renew
from emunode.algorithms.claims import Claim
from emunode.engine.memory import MemoryEngine
from emunode.faults.byzantine import (
    Byzantine,
    ByzantineFault,
    Collude,
    Equivocate,
    Selective,
    Silent,
    SilentPorts,
    SilentSegments,
)
from emunode.faults.kinds import Crash, Down, Fault, Hang, NodeFault
from emunode.faults.timeline import FaultTimeline
from emunode.model import ALL_RANKS, FOLDING, HopOutcome, Rank
from emunode.net.wire import ROW
from emunode.play import play
from tests.contract.cases import ONCE
from tests.helpers.scenarios import Case
from tests.helpers.support import examples, failures, golden_rows
from tests.helpers.votes_by_engine import ballots_by_engine

Results = Counter[str | None]
STRATEGIES: Final[Mapping[str, Callable[[int, int], Ballot]]] = {
    "common": lambda broken, copies: Ballot(copies - broken, broken),
    "equivocation": lambda broken, copies: Ballot(copies - broken, 0, broken),
    "silence": lambda broken, copies: Ballot(copies - broken, 0),
}
"""The votes of a receiver with a byzantine node on `broken` of `copies` paths, by the nodes' common strategy."""


def sets_of(plan: Plan, size: int) -> Iterator[tuple[Rank, ...]]:
    """Return all sets of `size` nodes without the source."""
    return combinations(range(1, plan.topology.order), size)


def broken_copies(plan: Plan, byzantine: Collection[Rank]) -> Iterator[tuple[int, int]]:
    """Yield (m, x) of every healthy receiver: m of its x paths have a byzantine node."""
    paths = paths_of(plan.algorithm)
    for message, segments in paths.segments.items():
        if message.receiver not in byzantine:
            copies = paths.copies(segments[0], message.receiver).values()
            yield sum(any(hop.sender in byzantine for hop in path) for path in copies), len(copies)


def ballots_under(plan: Plan, faults: Sequence[NodeFault]) -> list[Ballot]:
    """Return the votes of all healthy receivers."""
    faulty = [fault.rank for fault in faults]
    return [ballot for *_, ballot in ballots(paths_of(plan.algorithm), FaultTimeline(faults), faulty, plan.spec.seed)]


def claims_under(plan: Plan, faults: Sequence[NodeFault], broken: int, altering: int) -> list[Claim]:
    """Return the claims about votes."""
    return vote_claims(plan.algorithm, FaultTimeline(faults), {fault.rank for fault in faults}, broken, altering)


TABLE = {
    (row["scenario"], int(row["byzantine"])): {
        name: int(row[name]) for name in row if name not in ("scenario", "by_messages")
    }
    for row in golden_rows("reliability", "byzantine_votes")
}
"""By scenario and number f of byzantine nodes, over all sets of f nodes and all healthy receivers: the receivers with so
many broken paths; those that elect the right value, a wrong one and none under a common forgery; those with a copy under
silence; the sets under which somebody elects a wrong value, and the most such receivers."""
RESULTS = ("right", "wrong", "none")


def case_of(row: dict[str, str]) -> str:
    """Return the test id of a row."""
    return f"{row['scenario']}-{row['byzantine']}"


@pytest.mark.parametrize("case", TABLE, ids=lambda case: f"{case[0]}-{case[1]}")
def test_theory_gives_the_published_table(case: tuple[str, int]) -> None:
    plan, size = Case(case[0]).plan, case[1]
    row = TABLE[case]
    by_broken, common = tuple(row[f"broken_{m}"] for m in range(4)), tuple(row[name] for name in RESULTS)
    found: Counter[int] = Counter()
    wrong_receivers = []
    for byzantine in sets_of(plan, size):
        broken = list(broken_copies(plan, byzantine))
        found.update(m for m, _ in broken)
        wrong_receivers.append(sum(STRATEGIES["common"](m, x).elected == "wrong" for m, x in broken))
    copies = plan.spec.redundancy
    results: dict[str, Results] = {
        strategy: Counter({STRATEGIES[strategy](m, copies).elected: 0 for m in found}) for strategy in STRATEGIES
    }
    for strategy in STRATEGIES:
        for m, count in found.items():
            results[strategy][STRATEGIES[strategy](m, copies).elected] += count
    assert tuple(found[m] for m in range(4)) == by_broken
    assert sum(by_broken) == comb(plan.topology.order - 1, size) * (plan.topology.order - 1 - size)
    assert tuple(results["common"][value] for value in RESULTS) == common
    assert (results["silence"]["right"], results["silence"]["wrong"]) == (row["right_in_silence"], 0)
    # Forgeries that differ prevent an election where a common one turns it.
    assert (results["equivocation"]["right"], results["equivocation"]["none"]) == (common[0], common[1] + common[2])
    assert (sum(map(bool, wrong_receivers)), max(wrong_receivers)) == (row["wrong_sets"], row["most_wrong"])


# --- the message engine ------------------------------------------------------------------------------------------------


def elected_in(plan: Plan, faults: Sequence[Fault]) -> Results:
    """Return the results at all healthy receivers of one segment, counted by hand from the rows of the message engine."""
    renew(plan.algorithm, plan.spec)
    engine = MemoryEngine(plan.algorithm)
    rows = b"".join(play(engine, faults))
    forged = {copy[:2] + copy[4:5]: copy[6] for copy in engine.altered_copies}
    faulty = {fault.rank for fault in faults if isinstance(fault, ByzantineFault | Crash)}
    votes: dict[Rank, dict[int, int | str]] = defaultdict(dict)
    for when, _, receiver, origin, target, _, _, tree, _, outcome in ROW.iter_unpack(rows):
        if target == ALL_RANKS and receiver not in faulty and receiver != origin and outcome != HopOutcome.LOST:
            votes[receiver][tree] = forged[when, receiver, tree] if outcome == HopOutcome.CORRUPT else "right"
    results: Results = Counter()
    for rank in set(plan.topology.ranks()) - faulty - {plan.spec.source}:
        count = Counter(votes[rank].values())
        value, most = count.most_common(1)[0] if count else ("none", 0)
        won = 2 * most > count.total()
        results[("right" if value == "right" else "wrong") if won else "none" if count else None] += 1
    return results


@pytest.mark.parametrize("row", golden_rows("reliability", "byzantine_votes", by_messages="yes"), ids=case_of)
def test_engine_gives_the_published_table(row: dict[str, str]) -> None:
    plan, size = Case(row["scenario"]).plan, int(row["byzantine"])
    expected = TABLE[row["scenario"], size]
    results = [elected_in(plan, [Byzantine(1, rank) for rank in ranks]) for ranks in sets_of(plan, size)]
    right, wrong, none = (expected[name] for name in RESULTS)
    assert sum(results, Counter()) == Counter({"right": right, "wrong": wrong, "none": none})
    assert sum(bool(each["wrong"]) for each in results) == expected["wrong_sets"]
    assert max(each["wrong"] for each in results) == expected["most_wrong"]
    if comb(plan.topology.order - 1, size) > 60:
        return
    apart = sum((elected_in(plan, [Equivocate(1, rank) for rank in ranks]) for ranks in sets_of(plan, size)), Counter())
    assert apart == Counter({"right": right, "none": wrong + none})
    silent = sum((elected_in(plan, [Silent(1, rank) for rank in ranks]) for ranks in sets_of(plan, size)), Counter())
    assert (silent["right"], silent["wrong"], silent["none"]) == (expected["right_in_silence"], 0, 0)


def test_one_byzantine_node_against_six_copies_changes_no_result() -> None:
    plan = Case("ej:2+3 broadcast independent-trees x=6").plan
    assert {result for ranks in sets_of(plan, 1) for result in elected_in(plan, [Byzantine(1, *ranks)])} == {"right"}


@pytest.mark.parametrize(
    "text",
    ["hypercube:3 broadcast nesbt x=3", "hypercube:3 broadcast nesbt x=2", "ej:1+2 broadcast independent-trees x=4"],
)
def test_colluding_nodes_win_the_same_votes_with_fewer_forgeries(text: str) -> None:
    plan = Case(text).plan
    fewer = 0
    for ranks in [*sets_of(plan, 1), *sets_of(plan, 2), *sets_of(plan, 3)]:
        common, colluding = (elected_in(plan, [kind(1, rank) for rank in ranks]) for kind in (Byzantine, Collude))
        assert colluding["wrong"] == common["wrong"]
        assert colluding["right"] >= common["right"]
        alike = Counter(ballot.elected for ballot in ballots_under(plan, [Collude(1, rank) for rank in ranks]))
        assert alike == colluding
        fewer += forgeries(plan, Collude, ranks) < forgeries(plan, Byzantine, ranks)
    assert fewer


def forgeries(plan: Plan, kind: type[ByzantineFault], ranks: Collection[Rank]) -> int:
    """Return votes for a forged value at all receivers, by the paths of the copies."""
    return sum(ballot.wrong for ballot in ballots_under(plan, [kind(1, rank) for rank in ranks]))


# --- the code of the engine for single packets ---------------------------------------------------------------------------

VOTING = [case for case in ONCE if case.entry.collective not in FOLDING]
"""Every algorithm whose copies may be voted on."""


def drawn_faults(plan: Plan, chance: Random) -> list[Fault]:
    """Return one to four faults at random nodes that last for the whole run, of every strategy, and a broken link."""
    ranks = chance.sample(range(1, plan.topology.order), min(4, plan.topology.order - 1))
    kinds: list[Callable[[Rank], Fault]] = [
        partial(kind, 1) for kind in (Byzantine, Equivocate, Collude, Collude, Silent, Crash, Hang)
    ]
    kinds += [
        partial(kind, 1, rate=chance.choice((0.0, 0.5, 1.0))) for kind in (SilentPorts, SilentSegments, Selective)
    ]
    faults = [chance.choice(kinds)(rank) for rank in ranks[: chance.randint(1, 4)]]
    # A second fault of a node: the largest treatment decides.
    faults += [chance.choice(kinds)(ranks[0])]
    rank, port = chance.choice([(rank, port) for rank in plan.topology.ranks() for port in plan.topology.ports(rank)])
    return [*faults, *([Down(1, rank, port)] if chance.random() < 0.3 else [])]


def test_the_engine_treats_copies_alike_in_every_algorithm_that_votes() -> None:
    voted = set()
    for case in VOTING:
        for redundancy in (2, 3):
            plan = case.accepted_plan(redundancy=redundancy, messages=redundancy - 1)
            if plan is None or plan.algorithm.dependence not in (Dependence.FIXED, Dependence.QUEUED):
                continue
            chance = Random(f"{case.name} {redundancy}")
            for _ in range(examples(3)):
                faults = drawn_faults(plan, chance)
                timeline, faulty = (
                    FaultTimeline(faults),
                    {fault.rank for fault in faults if isinstance(fault, NodeFault)},
                )
                paths, seed = paths_of(plan.algorithm), plan.spec.seed
                expected = list(ballots_by_engine(plan.algorithm, paths, timeline, faulty))
                assert list(ballots(paths, timeline, faulty, seed)) == expected, (case.name, faults)
                voted.add(case.entry)
    assert len(voted) >= 12


# --- claims ------------------------------------------------------------------------------------------------------------

RUNS = {
    "equivocation": "star:4 broadcast edt 3 equivocate:2134 equivocate:3214",
    "collusion": "star:4 broadcast edt 3 collude:2134 collude:4312",
    "collusion that cannot win": "hypercube:4 broadcast nesbt 4 collude:0001 collude:0010",
    "one strategy each": "ej:2+3 broadcast independent-trees 6 byzantine:1,0 equivocate:0,1 collude:-1,0 silent:0,-1",
    "selective": "hypercube:4 broadcast nesbt 4 selective:0001:0.5 selective:0110:0.3 silent-segments:1000:0.5",
    "crash and forgery": "star:4 broadcast edt 3 byzantine:2134 crash:3214@1",
    "allgather": "hypercube:3 allgather nesbt 3 byzantine:001 equivocate:010 collude:100",
    "scatter": "star:4 scatter edt 3 collude:2134 collude:3214 selective:4231:0.5",
    "gather": "star:4 gather edt 3 collude:2134 collude:3214 equivocate:4231",
    "alltoall": "hypercube:3 alltoall nesbt 3 byzantine:001 collude:010 collude:100",
    "unicast": "star:4 unicast disjoint-paths 3 byzantine:2134 byzantine:3214",
    "any network": "torus:4x3 broadcast arborescences 4 byzantine:0,1 collude:1,0 collude:3,0",
}


@pytest.mark.parametrize("name", RUNS)
def test_exact_results_of_votes_are_claimed_and_hold(name: str) -> None:
    topology, collective, algorithm, redundancy, *faults = RUNS[name].split()
    result = Case(f"{topology} {collective} {algorithm} x={redundancy} messages=2", *faults).run
    claimed = {judgement.claim.name for judgement in result.judgements}
    assert {"elected_right", "elected_wrong", "elected_none", "intact_deliveries"} <= claimed
    undecided = result.summary["undecided_because"] is not None
    assert not failures(result) or undecided, failures(result)
    assert "violated" not in {str(judgement.verdict) for judgement in result.judgements}


def test_only_bounds_are_claimed_where_faults_come_and_go() -> None:
    plan = Case("star:4 broadcast edt x=3").plan
    (claim,) = claims_under(plan, [Byzantine(2, 5)], 0, 1)
    assert (claim.name, claim.predicted, claim.relation) == ("elected_wrong", 0, "==")
    assert not claims_under(plan, [Byzantine(2, 5), Byzantine(1, 6)], 0, 2)
    # Forgeries that all differ never get two votes, however many nodes forge.
    every_node = [Equivocate(2, rank) for rank in range(1, 24)]
    assert [claim.name for claim in claims_under(plan, every_node, 0, 23)] == ["elected_wrong"]
    # A vote that is the only one wins: with two copies lost, one forgery is enough.
    assert not claims_under(plan, [Equivocate(2, 5), Crash(1, 6), Crash(1, 7)], 2, 1)


@pytest.mark.parametrize(
    ("ballot", "elected"),
    [
        (Ballot(2, 1), "right"), (Ballot(1, 2), "wrong"), (Ballot(2, 2), "none"), (Ballot(0, 0), None),
        (Ballot(1, 0, 2), "none"), (Ballot(0, 0, 1), "wrong"), (Ballot(0, 0, 2), "none"), (Ballot(2, 1, 1), "none"),
    ],
)  # fmt: skip
def test_more_than_half_of_the_votes_cast_elect_a_value(ballot: Ballot, elected: str | None) -> None:
    assert ballot.elected == elected


def test_silence_is_exact_like_a_crash() -> None:
    case = Case("star:4 broadcast edt x=2 messages=2")
    for silent, crash in (("silent:2134", "crash:2134@1"), ("silent:2134@3", "crash:2134@3")):
        others = ["silent-ports:3214:0.5", "down:1234>4231@1"]
        found = [case.but(fault, *others).summary for fault in (silent, crash)]
        assert all(summary["verdict"] == "holds" for summary in found)
        assert found[0]["intact_deliveries"] == found[1]["intact_deliveries"]
        assert found[0]["cut_off_count"] == found[1]["cut_off_count"]
