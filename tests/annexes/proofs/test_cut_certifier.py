"""Certificates by smallest cuts: tolerances and numbers of survived sets against known values and against runs."""

import sys
from dataclasses import replace
from math import comb
from typing import Any

import pytest

from coordinator.annexes.proofs.api import certify_scenario
from coordinator.annexes.proofs.certificate import Certificate
from coordinator.annexes.proofs.certify import Certifier, exhaustive_fault_sets
from coordinator.annexes.proofs.cut_certifier import CutEngine, NotProvableError
from coordinator.campaigns.trial_runner import TrialResult
from coordinator.results.claims import Verdict
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.theory import survivors
from coordinator.theory.survivors import bounds
from emunode.errors import RunError, ScenarioError
from tests.helpers.command_line import fields
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows, run_scenario


def by_cuts(scenario: Scenario, *faults: str) -> Certificate:
    """Return the certificate by smallest cuts."""
    return Certifier(scenario, 1, sys.stderr, lambda *_: None, CutEngine).certify(exhaustive_fault_sets(faults))


def by_runs(scenario: Scenario, *faults: str) -> Certificate:
    """Return the certificate by running every set."""
    return Certifier(scenario, 1, sys.stderr, lambda *_: None).certify(exhaustive_fault_sets(faults))


def tolerance(scenario: Scenario, faults: str) -> int | None:
    """Return the tolerance against faults of these kinds."""
    (found,) = by_cuts(scenario, faults).tolerances
    return found.tolerated


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("line", "trees"), [
    *(("star:4 broadcast edt", trees) for trees in (1, 2, 3)), ("star:5 broadcast edt", 4), ("star:6 broadcast edt", 5),
    *(("hypercube:4 broadcast nesbt", trees) for trees in (1, 2, 3, 4)), ("hypercube:3 broadcast nesbt", 3),
    ("hypercube:7 broadcast nesbt", 7), *(("ej:2+3 broadcast independent-trees", trees) for trees in range(1, 7)),
    ("star:4 broadcast greedy-tree", 1), ("hypercube:4 broadcast sbt", 1), ("ej:2+3 broadcast improved", 1),
])  # fmt: skip
def test_disjoint_trees_tolerate_one_fault_less_than_there_are(line: str, trees: int) -> None:
    tolerances = by_cuts(Case(f"{line} x={trees}").scenario, "nodes=0", "links=0", "any=0").tolerances
    assert [each.tolerated for each in tolerances] == [trees - 1] * 3


@pytest.mark.parametrize(("kind", "expected"), [("nodes", None), ("links", 5), ("any", 5), ("byzantine", 2)])
def test_neighbours_of_the_source_depend_on_no_node(kind: str, expected: int | None) -> None:
    """In EJ_{1+2rho} = K_7 every node has a path without inner nodes; three byzantine nodes of six copies make a tie."""
    assert tolerance(Case("ej:1+2 broadcast independent-trees x=6").scenario, f"{kind}=0") == expected


@pytest.mark.parametrize(
    "row", golden_rows("reliability", "survived_sets"), ids=lambda row: " ".join([*row.values()][:4])
)
def test_numbers_of_survived_sets(row: dict[str, str]) -> None:
    """The values are counted by another program, set by set."""
    survived, lost = (list(map(int, row[column].split())) for column in ("survived", "lost"))
    faults, scenario = row["faults"], Case("{topology} broadcast {algorithm} x={redundancy}".format(**row)).scenario
    certificate = by_cuts(scenario, faults)
    assert [level.survived for level in certificate.counts] == survived
    assert all(level.covered == level.sets for level in certificate.counts)
    assert [level.lost for level in certificate.counts][: len(lost)] == lost
    (each,) = certificate.tolerances
    for fault_set, level in zip(exhaustive_fault_sets([faults]), certificate.counts, strict=True):
        found = bounds(each, fault_set, level.sets)
        assert found.least <= level.survived <= found.most
        assert found.lost == level.lost, "inclusion and exclusion counts the nodes that are cut off"


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(("line", "faults"), [
    ("star:4 broadcast edt x=3", "nodes=2"), ("star:4 broadcast edt x=3", "byzantine=1"),
    ("star:4 broadcast edt x=3 fault=byzantine:2134", "nodes=1"),
    ("star:4 broadcast edt x=3 fault=crash:2134@1 fault=down:1234~3214@2-3", "links=1"),
    ("star:4 broadcast edt x=1", "nodes=1@3"), ("star:4 broadcast edt x=2 messages=2", "links=1@2-3"),
    ("star:4 broadcast edt x=1 messages=2", "hang=1@2-3"), ("hypercube:3 broadcast nesbt x=3", "nodes=1;byzantine=1"),
    ("hypercube:3 broadcast nesbt x=2", "nodes=1;links=1@2"), ("ej:1+2 broadcast independent-trees x=3", "byzantine=2"),
    ("hypercube:3 broadcast nesbt x=3 message_bytes=64", "equivocate=1;silent=1"),
    ("star:3 scatter balanced-tree", "nodes=1"), ("star:3 gather balanced-tree", "nodes=5"),
    ("star:3 alltoall edt", "links=1"), ("star:3 allgather rotated-trees", "nodes=1"),
    ("hypercube:3 unicast disjoint-paths x=3", "nodes=3"), ("petersen:5,2 broadcast independent-trees x=2", "nodes=1"),
])  # fmt: skip
def test_cuts_and_runs_agree_on_every_set(line: str, faults: str) -> None:
    """Runs go through all sets when none fails; else their failing sets are counted one by one."""
    scenario = Case(line).scenario
    certificate = by_cuts(scenario, faults)
    (level,) = certificate.counts
    runs = by_runs(scenario, faults)
    (run_level,) = runs.counts
    decided = level.survived - level.undecided  # a set that leaves no receiver is undecided in a run
    assert run_level.survived <= decided <= run_level.survived + run_level.sets - run_level.covered
    assert level.sets == run_level.sets == level.covered
    if run_level.covered == run_level.sets:
        assert (decided, level.lost) == (run_level.survived, run_level.lost)
    assert certificate.verdict is runs.verdict


def test_a_counterexample_is_a_smallest_cut_and_was_run() -> None:
    certificate = by_cuts(Case("star:4 broadcast edt x=3", message_bytes=1000).scenario, "nodes=5")
    found = certificate.counterexample
    assert certificate.verdict is Verdict.VIOLATED
    assert found is not None
    assert len(found.faults) == 5, "as many as were asked for"
    assert len(found.scenario.fault) == 3, "those that are needed"
    again = run_scenario(**found.scenario.model_dump(mode="json", exclude_none=True))
    assert again.summary["delivery_ratio"] < 1


def test_known_faults_leave_the_symmetries_that_keep_them() -> None:
    """Three rotations keep the source of S_4; a crash that no rotation but the identity fixes leaves one."""
    kept = by_cuts(Case("star:4 broadcast edt x=3", "crash:2134@1", "crash:3214@1", "crash:4231@1").scenario, "nodes=0")
    assert kept.symmetries == 3
    assert kept.tolerances[0].tolerated == -1, "no healthy neighbour of the source is left"
    broken = by_cuts(Case("star:4 broadcast edt x=3", "crash:2134@1").scenario, "nodes<=2")
    assert broken.symmetries == 1
    assert broken.tolerances[0].tolerated == 1
    assert [level.sets for level in broken.counts] == [1, 22, 231]


def test_too_many_sets_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = Case("star:4 broadcast edt x=3").scenario
    exact = by_cuts(scenario, "nodes=4").counts[0]
    monkeypatch.setattr(survivors, "MOST_TABLE_WORDS", 0)
    bounded = by_cuts(scenario, "nodes=4").counts[0]
    assert bounded.covered < bounded.sets == exact.sets == comb(23, 4)
    assert bounded.survived < exact.survived < bounded.survived + bounded.sets - bounded.covered
    assert (bounded.lost, bounded.lost_counted) == (exact.lost, True)


@pytest.mark.parametrize(
    ("line", "faults", "reason"),
    [
        ("broadcast flood", "nodes<=1", "choose at run time"),
        ("broadcast edt", "loss=1:0.5", "does not follow from paths"),
        ("broadcast edt fault=loss:1234~2134:0.5", "nodes=1", "of the scenario does not follow"),
        ("broadcast edt fault=crash:1234@1", "nodes=1", "source is faulty"),
        ("reduce edt", "nodes=1", "folds"),
        ("broadcast bfs-tree fault_knowledge=all", "nodes=1", "know of faults"),
    ],
)
def test_what_paths_do_not_decide(line: str, faults: str, reason: str) -> None:
    with pytest.raises(NotProvableError, match=reason):
        by_cuts(Case(f"star:4 {line}").scenario, faults)


@pytest.mark.parametrize(
    ("faults", "values", "field"),
    [("loss=1:0.5", {}, "faults"), ("nodes=1", {"fault": ["loss:1234~2134:0.5"]}, "fault"),
     ("silent-ports=1:0.5", {}, "faults")],
)  # fmt: skip
def test_random_faults_have_no_certificate(faults: str, values: dict[str, Any], field: str) -> None:
    """Two trees lose a message where both copies are lost; one run of each set need not show that."""
    with pytest.raises(ScenarioError, match="one run of each set proves nothing") as caught:
        certify_scenario(Case("star:4 broadcast edt x=2", **values).scenario, [faults], None, 1, lambda *_: None)
    assert caught.value.field == field


def test_faults_that_always_act_have_a_certificate() -> None:
    scenario = Case("star:4 broadcast edt x=2", "loss:1234~2134:1").scenario
    assert certify_scenario(scenario, ["loss=0:1"], None, 1, lambda *_: None).verdict == "holds"
    assert certify_scenario(scenario, ["loss=1:1"], None, 1, lambda *_: None).verdict == "violated"


def test_a_search_that_is_too_long_leaves_it_to_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.theory.tolerance.MOST_CASES", -(10**6))
    scenario = make_scenario(fields("hypercube:3 broadcast nesbt redundancy=2 driver=memory"))
    found = certify_scenario(scenario, ["nodes<=1"], None, 1, lambda *_: None)
    assert (found.method, found.verdict) == ("runs", "holds")
    assert "too many cases" in str(found.without_cuts)
    with pytest.raises(ScenarioError, match="too many cases"):
        certify_scenario(scenario, ["nodes<=1"], None, 1, lambda *_: None, "cuts")


@pytest.mark.parametrize(
    ("faults", "intact", "message"),
    [
        ("nodes=1", 0, "leaves a healthy node without a message"),
        ("nodes=2", 5, "leaves no healthy node without a message"),
    ],
)
def test_runs_that_contradict_the_paths_are_an_error(
    monkeypatch: pytest.MonkeyPatch, faults: str, intact: int, message: str
) -> None:
    run = Certifier.run

    def altered(*arguments: Any) -> list[tuple[tuple[str, ...], TrialResult]]:
        results = run(*arguments)
        return [(each, replace(result, intact=intact, expected=5)) for each, result in results]

    monkeypatch.setattr(Certifier, "run", altered)
    with pytest.raises(RunError, match=message):
        by_cuts(Case("star:3 broadcast edt x=2").scenario, faults)
