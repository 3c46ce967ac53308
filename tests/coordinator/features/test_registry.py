"""A protocol in one file: a feature that the packages do not know takes part in plans, claims, measurements and audits."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from coordinator.cli.result import show_result
from coordinator.execution.sinks import FinishedRun
from coordinator.features.base import BrokenAssumption, Evidence, Feature, Findings, ResolvedRun
from coordinator.features.registry import FEATURES, active_features
from coordinator.scenario.model import Scenario
from coordinator.theory.batch.exactness import why_untraceable
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Assumption, Claim, UnknownMetricError
from emunode.errors import RegistrationError, ScenarioError
from emunode.faults.timeline import FaultTimeline
from emunode.model import CollectiveSpec, PortModel
from emunode.registry import register
from emunode.topologies.base import Topology
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.command_line import ROOT
from tests.helpers.scenarios import Case
from tests.helpers.support import run_scenario

BASE = {"topology": "hypercube:3", "collective": "broadcast", "algorithm": "sbt", "driver": "memory"}


def dropped_in(result: FinishedRun) -> list[dict[str, Any]]:
    """Return the claims that do not hold in a run, as they are stored."""
    found: Any = result.summary["dropped_claims"]
    return list(found)


class ShortSteps(Feature):
    """An example: nodes with short steps. A node may send over two ports only, and only in two steps."""

    name = "short-steps"
    metrics = frozenset({"widest_fan_out"})
    unpredictable = "nodes may not send"

    def is_active(self, spec: CollectiveSpec) -> bool:
        return spec.seed == 7

    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        if scenario.seed == 7 and scenario.messages > 2:
            raise ScenarioError("messages", scenario.messages, "short steps leave room for two")
        return spec

    def require(self, scenario: Scenario, algorithm: Algorithm) -> None:
        if self.is_active(algorithm.spec) and algorithm.spec.port_model is PortModel.ONE_PORT:
            raise ScenarioError("port_model", "one-port", "short steps need all ports")

    def claims(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[Claim]:
        yield Claim("widest_fan_out", 2, "<=", "an example: two ports", assumes=frozenset())

    def claims_without_faults(self, run: ResolvedRun, claims: Sequence[Claim]) -> Iterator[Claim]:
        yield Claim("duplicates", 0, "==", "an example")

    def claims_with_faults(self, run: ResolvedRun) -> Iterator[Claim]:
        yield Claim("intact_deliveries", 1, ">=", "an example: somebody is served")

    def broken(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[BrokenAssumption]:
        yield BrokenAssumption(Assumption.STEPS_KEPT, "steps are short", bounds_hold=True)

    def measure(self, run: ResolvedRun, evidence: Evidence) -> Findings:
        ports = evidence.journal.group_by("step", "sender").agg(pl.col("port").n_unique()).collect()["port"]
        return Findings({"widest_fan_out": max(ports)}, {"short_steps": len(ports)})

    def lines(self, run: ResolvedRun, summary: Mapping[str, Any]) -> Iterator[str]:
        yield f"at most [{summary['widest_fan_out']}] ports of {run.topology.degree}"

    def violations(self, run: ResolvedRun, evidence: Evidence) -> Iterable[pl.LazyFrame]:
        return [evidence.journal.filter(pl.col("step") > 2).select("step")]


@pytest.fixture
def short_steps() -> Iterator[Feature]:
    feature = ShortSteps()
    assert register(feature) is feature
    yield feature
    FEATURES.remove(feature)


def test_an_unknown_feature_takes_part_in_a_run(short_steps: Feature) -> None:
    assert active_features(Case(BASE | {"seed": 7}).plan.spec) == (short_steps,)
    result = run_scenario(None, **BASE, seed=7)
    # The source of sbt sends over all 3 ports in step 1; 7 nodes forward in steps 2 and 3: by hand, 1 + 2 + 1 senders.
    assert (result.summary["widest_fan_out"], result.summary["short_steps"]) == (3, 4)
    verdicts = {(each.claim.name, each.claim.relation): str(each.verdict) for each in result.judgements}
    assert verdicts["widest_fan_out", "<="] == "violated"
    assert verdicts["duplicates", "=="] == "holds"
    # One of the 7 segments crosses in step 3, which the feature rules out.
    assert (result.summary["illegal_hops"], verdicts["illegal_hops", "=="]) == (1, "violated")


@pytest.mark.usefixtures("short_steps")
def test_the_command_prints_its_lines(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    result = run_scenario(tmp_path / "run", **BASE, seed=7)
    show_result(result.conclusion.plan, result)
    assert "at most [3] ports of 3" in capsys.readouterr().out.splitlines()


@pytest.mark.usefixtures("short_steps")
def test_its_broken_assumption_drops_dependent_claims() -> None:
    plain, short = (run_scenario(None, **BASE, seed=seed) for seed in (6, 7))
    before, after = ({(each.claim.name, each.claim.relation) for each in run.judgements} for run in (plain, short))
    dropped = {(each["name"], each["relation"]): each for each in dropped_in(short)}
    assert "dropped_claims" not in plain.summary
    assert before - after == set(dropped) >= {("steps", "=="), ("max_link_segments_per_step", "==")}
    assert {(each["assumes"], each["because"]) for each in dropped.values()} == {
        ("packets keep the steps of the schedule", "steps are short")
    }
    # Lower bounds hold all the same, and so does what does not depend on steps.
    assert {("steps", ">="), ("segments", "=="), ("intact_deliveries", "==")} <= after


@pytest.mark.usefixtures("short_steps")
def test_it_speaks_for_deliveries_under_faults() -> None:
    result = run_scenario(None, **BASE, seed=7, fault=("crash:001@1",))
    assert [each.claim.source for each in result.judgements if each.claim.name == "intact_deliveries"] == [
        "an example: somebody is served"
    ]
    assert {each["assumes"] for each in dropped_in(result)} == {"no fault loses, alters or delays packets"}


@pytest.mark.usefixtures("short_steps")
def test_its_refusals_are_those_of_the_plan() -> None:
    for field, value in (("messages", 3), ("port_model", "one-port")):
        _ = Case(BASE | {"seed": 6, field: value}).plan
        with pytest.raises(ScenarioError, match="short steps") as error:
            _ = Case(BASE | {"seed": 7, field: value}).plan
        assert error.value.field == field


@pytest.mark.usefixtures("short_steps")
def test_it_keeps_a_run_from_the_batch_engine() -> None:
    reasons = [why_untraceable(Case(BASE | {"seed": seed}).plan) for seed in (6, 7)]
    assert reasons == [None, "nodes may not send"]


def test_a_metric_of_no_feature_cannot_be_claimed() -> None:
    with pytest.raises(UnknownMetricError, match="widest_fan_in"):
        Claim("widest_fan_in", 2, "<=", "an example")


@pytest.mark.usefixtures("short_steps")
def test_names_are_words_and_unique() -> None:
    class Other(ShortSteps):
        """Another feature of the same name."""

    class Spaced(ShortSteps):
        """A feature whose name is no word."""

        name = "short steps"

    class Former(ShortSteps):
        """A feature with a hook of an earlier version."""

        name = "former"
        first_tree = 5

    with pytest.raises(RegistrationError, match="already taken"):
        register(Other())
    with pytest.raises(RegistrationError, match="not a word"):
        register(Spaced())
    with pytest.raises(RegistrationError, match="feature 'former' defines first_tree: see"):
        register(Former())


READS = {
    # Real numbers are payloads, not messages of their own: their arithmetic, their files and their memory.
    "coordinator/execution/sinks.py": 1,
    "coordinator/execution/verify.py": 3,
    "coordinator/planning/resources.py": 2,
    "coordinator/results/audit.py": 1,
    # The rules and engines of the nodes, which know no features.
    "emunode/algorithms/base.py": 2,
    "emunode/algorithms/folding.py": 1,
    "emunode/algorithms/registry.py": 1,
    "emunode/engine/protocol_node.py": 1,
    "emunode/engine/rank_set.py": 2,
    "emunode/timed/memory_engine.py": 5,
    "emunode/timed/through_protocol.py": 1,
}
"""Reads of settings of protocols by module of the core, but features and `emunode/protocols`. They may only become fewer."""


@needs_every_annex
def test_features_alone_read_the_settings_of_protocols() -> None:
    settings = {*FEATURES} & {*CollectiveSpec._fields} | {"asks"}
    assert {"reliable", "detection", "repair", "agreement"} < settings
    named = re.compile(rf"\.\s*({'|'.join(sorted(settings))})\b")
    reads = Counter[str]()
    for package in ("coordinator", "emunode"):
        for path in sorted((ROOT / package).rglob("*.py")):
            module = path.relative_to(ROOT).as_posix()
            if module.startswith(
                ("coordinator/features/", "coordinator/annexes/", "emunode/annexes/", "emunode/protocols/")
            ):
                continue
            text = path.read_text(encoding="utf-8")
            if not named.search(text):
                continue  # parsing takes longest
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Attribute) and node.attr in settings:
                    owner = ast.unparse(node.value).rpartition(".")[2]
                    reads[module] += owner.strip("_") in ("spec", "scenario")
    found = {module: count for module, count in reads.items() if count}
    assert found == READS, "ask a hook of Feature; where there are fewer reads, state the smaller number"
