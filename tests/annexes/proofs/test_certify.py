"""Certificates: verdicts, smallest counterexamples, and the losses of single trees."""

import sys
from itertools import chain, combinations
from random import Random

import pytest

from coordinator.annexes.proofs.certificate import Certificate
from coordinator.annexes.proofs.certify import Certifier, RandomSample, exhaustive_fault_sets
from coordinator.campaigns.runner import CampaignRunner
from coordinator.campaigns.trial_runner import Trial, TrialResult
from coordinator.planning.plan import make_plan
from coordinator.results.claims import Verdict
from coordinator.scenario.model import Scenario
from emunode.errors import ScenarioError
from tests.helpers.scenarios import Case
from tests.helpers.support import run_scenario


def certified(scenario: Scenario, *faults: str, sample: int | None = None) -> Certificate:
    """Return the certificate of a scenario."""
    return Certifier(scenario, 1, sys.stderr, lambda *_: None).certify(exhaustive_fault_sets(faults), sample)


@pytest.mark.parametrize(
    ("line", "faults", "sets", "orbits"),
    [
        ("star:4 broadcast edt x=3", "nodes<=2", 277, 95),
        ("hypercube:3 broadcast nesbt x=3", "links<=2", 79, 27),
        ("star:4 broadcast edt x=3", "any<=1", 60, 22),
        ("star:3 broadcast edt x=2", "nodes=1", 5, 3),
        ("hypercube:4 broadcast nesbt x=4", "nodes<=3", 576, 154),
        ("ej:2+3 broadcast independent-trees x=6", "nodes<=3", 988, 169),
    ],
)
def test_fewer_faults_than_trees_are_certified(line: str, faults: str, sets: int, orbits: int) -> None:
    certificate = certified(Case(line).scenario, faults)
    assert certificate.verdict is Verdict.HOLDS
    assert certificate.counterexample is None
    assert sum(level.covered for level in certificate.counts) == sum(level.sets for level in certificate.counts) == sets
    assert sum(level.orbits for level in certificate.counts) == certificate.trials == orbits
    assert all(level.lost == 0 for level in certificate.counts)


@pytest.mark.parametrize(
    ("line", "faults", "redundancy"),
    [
        ("star:4 broadcast edt x=3", "nodes<=3", 3),
        ("star:4 broadcast edt x=2", "links<=2", 2),
        ("star:3 broadcast edt x=2", "any<=2", 2),
        ("hypercube:3 broadcast nesbt x=3", "nodes<=3", 3),
        ("ej:1+2 broadcast independent-trees x=4", "nodes<=4", 4),
    ],
)
def test_as_many_faults_as_trees_have_a_counterexample(line: str, faults: str, redundancy: int) -> None:
    certificate = certified(Case(line).scenario, faults)
    found = certificate.counterexample
    assert certificate.verdict is Verdict.VIOLATED
    assert found is not None
    assert len(found.faults) == len(found.scenario.fault) == redundancy
    assert found.unserved
    assert not found.violated, "what theory says under these very faults holds"
    values = found.scenario.model_dump(mode="json", exclude_none=True)
    for kept in combinations(found.scenario.fault, redundancy - 1):  # it is a smallest one
        assert run_scenario(**values | {"fault": list(kept)}).summary["delivery_ratio"] == 1
    again = run_scenario(**values)
    assert again.summary["intact_deliveries"] < again.summary["expected_deliveries"]


def test_orbits_agree_with_full_enumeration() -> None:
    """Losses of the single tree of EJ_{2+3rho} over all 153 pairs of nodes, and over orbits of the six units."""
    scenario = Case("ej:2+3 broadcast improved").scenario
    lost: dict[tuple[str, ...], int] = {}

    def take(place: int, trial: Trial, result: TrialResult) -> None:
        assert place == len(lost)
        lost[trial.faults] = len(result.unserved)

    topology = make_plan(scenario).topology
    labels = [topology.label(rank) for rank in topology.ranks() if topology.label(rank) != "0,0"]
    trials = [Trial(0, tuple(f"crash:{label}@1" for label in pair), 0) for pair in combinations(labels, 2)]
    rounds = iter([trials])
    CampaignRunner([scenario], 1, sys.stderr, lambda *_: None).carry_out(lambda: next(rounds, []), take, len(trials))
    assert len(lost) == 153
    certificate = certified(scenario, "nodes=2")
    assert certificate.verdict is Verdict.VIOLATED
    (level,) = certificate.counts
    assert level.orbits == 27, "the first round ran them all before it looked"
    assert level.lost == sum(lost.values())


@pytest.mark.parametrize(
    ("algorithm", "redundancy", "fault", "verdict"),
    [
        ("greedy-tree", 1, "crash:2134@1", Verdict.VIOLATED),
        ("edt", 2, "crash:2134@1", Verdict.HOLDS),
        ("edt", 2, "crash:1234@1", Verdict.UNDECIDED),
    ],
)
def test_a_scenario_without_fault_sets_runs_with_its_own_faults(
    algorithm: str, redundancy: int, fault: str, verdict: Verdict
) -> None:
    assert certified(Case(f"star:4 broadcast {algorithm} x={redundancy}", fault).scenario).verdict is verdict


def test_sets_in_addition_to_a_known_fault() -> None:
    """With one known crash, three trees tolerate any one further fault, but not any two."""
    broken = Case("star:4 broadcast edt x=3", "crash:2134@1").scenario
    certificate = certified(broken, "nodes<=1")
    assert (certificate.verdict, certificate.symmetries) == (Verdict.HOLDS, 1)
    assert [level.sets for level in certificate.counts] == [level.covered for level in certificate.counts] == [1, 22]
    certificate = certified(broken, "nodes<=2")
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.counts[-1].sets == 231
    assert certificate.counterexample is not None
    assert not any("2134" in spec for spec in certificate.counterexample.faults)


def test_a_counterexample_names_the_known_fault_that_was_drawn() -> None:
    broken = Case("star:4 broadcast edt x=2", "random:nodes=1", seed=3).scenario
    (known,) = make_plan(broken).scenario.fault
    certificate = certified(broken, "nodes=1")
    assert certificate.verdict is Verdict.VIOLATED
    assert certificate.counterexample is not None
    smallest = certificate.counterexample.scenario.fault
    assert known in smallest
    assert len(smallest) == 2
    assert not any(spec.startswith("random") for spec in smallest)


@pytest.mark.parametrize(
    ("faults", "sample", "complaint"),
    [
        ("random:nodes=2", None, "every set"),
        ("bernoulli:nodes=0.5", None, "every set"),
        ("nodes=1;sources", None, "every set"),
        ("nodes<2", None, "invalid part"),
        ("nodes=24", None, "23 may fail"),
        ("links=12", None, "at most 20,000,000"),
        ("nodes=1", 3, "a driver other than memory"),
    ],
)
def test_what_cannot_be_certified_is_refused(faults: str, sample: int | None, complaint: str) -> None:
    with pytest.raises(ScenarioError, match=complaint):
        certified(Case("star:4 broadcast edt x=3").scenario, faults, sample=sample)


def test_over_tcp_tight_sets_have_the_same_history() -> None:
    """S_3 with both trees: repeats the tight ones of the nine sets of at most one fault, and one more."""
    scenario = Case("star:3 broadcast edt x=2", driver="local", ranks_per_host=3).scenario
    certificate = certified(scenario, "any<=1", sample=1)
    assert certificate.verdict is Verdict.HOLDS
    assert all(level.again >= level.tight for level in certificate.counts)
    assert sum(level.tight for level in certificate.counts) >= 4
    assert sum(level.again for level in certificate.counts) > sum(level.tight for level in certificate.counts)


@pytest.mark.parametrize("size", [0, 1, 3, 50])
def test_a_sample_has_the_least_keys_whatever_comes_first(size: int) -> None:
    rounds = [list(range(first, first + 10)) for first in range(0, 40, 10)]
    draw = Random(7)
    key_of = dict(zip(chain.from_iterable(rounds), [draw.random() for _ in range(40)], strict=True))
    whole, single = RandomSample[int](Random(7), size), RandomSample[int](Random(7), size)
    for items in rounds:
        whole.offer(whole.keys(len(items)), items)
        keys = single.keys(len(items))
        for at in reversed(range(len(items))):
            single.offer([keys[at]], [items[at]])
    assert whole.items() == single.items() == sorted(key_of, key=key_of.__getitem__)[:size]
