"""Certificates by exact evaluation: the same levels, verdicts and counterexamples as by messages; where it is refused."""

import sys
from dataclasses import replace

import pytest

import coordinator
from coordinator.annexes.proofs import orbits
from coordinator.annexes.proofs.batch_certifier import BitRowEngine
from coordinator.annexes.proofs.certificate import Certificate
from coordinator.annexes.proofs.certify import Certifier, MessageEngine, exhaustive_fault_sets
from coordinator.campaigns.trial_runner import TrialResult
from coordinator.results.claims import Verdict
from coordinator.scenario.model import Scenario, make_scenario
from coordinator.theory.dependence.size import InexactError
from emunode.errors import RunError, ScenarioError
from tests.helpers.command_line import Call, fields


def both(scenario: Scenario, *faults: str) -> tuple[Certificate, Certificate]:
    """Return the certificates by messages and by exact evaluation."""
    engines = MessageEngine, BitRowEngine
    made = (Certifier(scenario, 1, sys.stderr, lambda *_: None, engine) for engine in engines)
    one, other = (each.certify(exhaustive_fault_sets(faults)) for each in made)
    return one, other


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(("scenario", "faults", "verdict"), [
    ("star:4 broadcast edt redundancy=3", "nodes<=1", Verdict.HOLDS),
    ("star:3 broadcast edt redundancy=2", "any<=2", Verdict.VIOLATED),
    ("star:4 broadcast edt redundancy=3 fault=crash:2134@1", "links<=1", Verdict.HOLDS),
    ("star:4 broadcast edt redundancy=3 fault=crash:2134@1", "links=2@3-4", Verdict.VIOLATED),
    ("star:4 broadcast greedy-tree", "nodes<=1", Verdict.VIOLATED),
    ("star:4 broadcast edt redundancy=3", "byzantine<=1", Verdict.HOLDS),
    ("star:4 broadcast edt redundancy=3", "equivocate=2", Verdict.VIOLATED),
    ("hypercube:3 broadcast nesbt redundancy=3", "nodes=1;links=1@2", Verdict.HOLDS),
    ("hypercube:3 broadcast nesbt redundancy=3 seed=3", "loss<=2:0.7", Verdict.HOLDS),
    ("hypercube:3 broadcast sbt", "loss=2:0.7", Verdict.VIOLATED),
    ("ej:1+2 broadcast independent-trees redundancy=4", "nodes=4", Verdict.VIOLATED),
    ("hypercube:3 reduce sbt", "links<=1", Verdict.VIOLATED),
    ("star:3 allgather edt-dfs redundancy=2", "any<=1", Verdict.HOLDS),
])  # fmt: skip
def test_both_engines_make_the_same_certificate(scenario: str, faults: str, verdict: Verdict) -> None:
    messages, exact = both(make_scenario(fields(f"{scenario} driver=memory")), faults)
    assert messages.verdict is exact.verdict is verdict
    assert [level.record() for level in messages.counts] == [level.record() for level in exact.counts]
    assert messages.counterexample == exact.counterexample
    assert messages.symmetries == exact.symmetries
    assert messages.trials == exact.trials == sum(level.orbits for level in exact.counts)
    assert exact.repeated > 0
    for one, other in zip(messages.counts, exact.counts, strict=True):
        assert one.histories == other.histories


def test_blocks_of_sets_do_not_change_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = make_scenario(fields("star:4 broadcast edt redundancy=3 driver=memory"))
    monkeypatch.setattr(orbits, "ROWS_AT_ONCE", 7)
    messages, exact = both(scenario, "nodes<=2")
    assert [level.record() for level in messages.counts] == [level.record() for level in exact.counts]


def test_sets_that_both_engines_see_differently_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Certifier.run

    def altered(
        self: Certifier, certificate: Certificate, sets: list[tuple[str, ...]], workers: int
    ) -> list[tuple[tuple[str, ...], TrialResult]]:
        *others, (faults, last) = run(self, certificate, sets, workers)
        return [*others, (faults, replace(last, steps=last.steps + 1))]

    monkeypatch.setattr(Certifier, "run", altered)
    scenario = make_scenario(fields("star:3 broadcast edt redundancy=2 driver=memory"))
    with pytest.raises(RunError, match="the engines disagree about"):
        Certifier(scenario, 1, sys.stderr, lambda *_: None, BitRowEngine).certify(exhaustive_fault_sets(["nodes<=1"]))


@pytest.mark.parametrize(("scenario", "faults", "reason"), [
    ("star:3 broadcast flood", "nodes<=1", "decides during the run"),
    ("star:3 broadcast edt redundancy=2", "delay=1:2", "delay is followed by messages only"),
    ("star:3 broadcast edt redundancy=2", "", "a single run"),
])  # fmt: skip
def test_where_it_is_not_exact(scenario: str, faults: str, reason: str) -> None:
    plain = make_scenario(fields(f"{scenario} driver=memory"))
    certifier = Certifier(plain, 1, sys.stderr, lambda *_: None, BitRowEngine)
    with pytest.raises(InexactError, match=reason):
        certifier.certify(exhaustive_fault_sets([faults] if faults else []))


def test_auto_and_refusals(call: Call) -> None:
    net, small = coordinator.network("star:4"), coordinator.network("star:3")
    many = coordinator.certify(net, "broadcast", "edt", redundancy=3, faults="links=2", method="runs", driver="memory")
    few = coordinator.certify(small, "broadcast", "edt", redundancy=2, faults="nodes=1", method="runs", driver="memory")
    assert (many.summary["engine"], few.summary["engine"]) == ("exact", "messages")
    other = coordinator.certify(small, "broadcast", "flood", faults="nodes=1", driver="memory")
    assert other.summary["engine"] == "messages"
    for engine, message in (("exact", "use auto or messages"), ("fast", "one of: auto, exact, messages")):
        with pytest.raises(ScenarioError, match=message):
            coordinator.certify(small, "broadcast", "flood", faults="nodes=1", engine=engine, driver="memory")  # type: ignore[arg-type]
    line = "certify --topology star:3 --algorithm edt --redundancy 2 --method runs --engine exact"
    ended = call(f"{line} --faults 'nodes<=1' --out c.json")
    assert ended.status == 0
    assert "each evaluated exactly" in ended.out
    assert call("verify c.json").status == 0
    refused = call(f"{line} --faults 'delay=1:2'")
    assert refused.status == 2
    assert "invalid engine 'exact'" in refused.err
