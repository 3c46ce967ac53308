"""The scenarios of tests: the language of `Case`, and the parts that follow from it."""

from pathlib import Path

import pytest

from emunode.errors import ScenarioError
from tests.helpers.scenarios import Case


def test_a_line_names_the_fields_of_a_scenario() -> None:
    scenario = Case("star:4 broadcast edt x=3 seed=7", "crash:4231@2", messages=2).scenario
    assert (scenario.topology, str(scenario.collective), scenario.algorithm) == ("star:4", "broadcast", "edt")
    assert (scenario.redundancy, scenario.seed, scenario.messages) == (3, 7, 2)
    assert (scenario.driver, scenario.fault) == ("memory", ("crash:4231@2",))


@pytest.mark.parametrize(
    "given", ["star:3 broadcast flood driver=local", {**Case("star:3 broadcast flood").values, "driver": "local"}]
)
def test_a_line_and_its_fields_are_the_same_case(given: str | dict[str, object]) -> None:
    assert Case(given).scenario == Case("star:3 broadcast flood", driver="local").scenario


@pytest.mark.parametrize("first", [["crash:213@1"], ("crash:213@1",)])
def test_faults_are_added(first: object) -> None:
    case = Case("star:3 broadcast flood", fault=first)
    assert case.but("crash:321@2").scenario.fault == ("crash:213@1", "crash:321@2")
    assert case.scenario.fault == ("crash:213@1",)


def test_a_case_may_replace_a_field_of_its_line() -> None:
    assert Case("star:4 broadcast edt x=3", redundancy=2).scenario.redundancy == 2
    assert Case("star:4 broadcast edt x=3").but(x=2).scenario.redundancy == 2


def test_a_case_has_a_plan_a_run_a_journal_and_a_conclusion(tmp_path: Path) -> None:
    case = Case("star:4 broadcast edt x=3", "crash:4231@2")
    assert case.plan is case.plan
    assert case.run is case.run
    assert case.summary["steps"] == case.journal["step"].max()
    assert case.conclusion is case.run.conclusion
    assert case.predictions[("steps", "<=")] >= case.summary["steps"]
    assert case.stored(tmp_path / "run").summary["journal_hash"] == case.summary["journal_hash"]


def test_an_invalid_field_is_refused_with_the_scenario() -> None:
    case = Case("star:4 broadcast edt x=9")
    with pytest.raises(ScenarioError, match="redundancy"):
        _ = case.plan
    with pytest.raises(ScenarioError, match="there is no such key"):
        _ = Case("star:4 broadcast edt copies=3").scenario
