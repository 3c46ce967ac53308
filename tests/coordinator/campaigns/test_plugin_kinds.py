"""Kinds of faults that no module knows: certificates, worst sets, predictions, cut-off lists and the watch page."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from coordinator.campaigns.certificate import Certificate
from coordinator.campaigns.certify import (
    CertificateEngine,
    Certifier,
    MessageEngine,
    exhaustive_fault_sets,
)
from coordinator.campaigns.cut_certifier import CutEngine, NotProvableError
from coordinator.campaigns.exact_certifier import BitRowEngine
from coordinator.live.theory import Predictor
from coordinator.planning.plan import make_plan
from coordinator.results.claims import Verdict
from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.model import make_scenario
from coordinator.theory.reliability import Expected, expected_delivery_ratio
from emunode.errors import ScenarioError
from emunode.faults.effects import Effects, Stops
from emunode.faults.kinds import FOREVER, KINDS, Hang, LinkFault
from emunode.faults.transit import LinkTransit
from emunode.model import FaultKnowledge, Step
from emunode.registry import register
from tests.command_line import fields
from tests.support import run_scenario
from tests.watch_support import Script, plan_of, run_quietly

TREES = "star:3 broadcast edt redundancy=2 driver=memory"
ONE_TREE = "star:4 broadcast greedy-tree driver=memory"


@dataclass(frozen=True, slots=True)
class Nap(Hang):
    """From `step` to `last`, `rank` sleeps."""

    form = "nap:LABEL[@STEP[-STEP]]"
    state = "napping"


@dataclass(frozen=True, slots=True)
class Wall(LinkFault):
    """From `step` to `last` nothing crosses."""

    last: Step = FOREVER

    form = "wall:A~B[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        transit.lost = True

    def effects(self) -> Effects:
        return self.there(Stops())


@dataclass(frozen=True, slots=True)
class Rumour(Wall):
    """As `Wall`, without saying so."""

    form = "rumour:A~B[@STEP[-STEP]]"

    def act(self, transit: LinkTransit) -> None:
        transit.lost = True


KNOWN = {"nap": "hang", "wall": "down"}


@pytest.fixture(autouse=True)
def plug_ins() -> Iterator[None]:
    """Register the kinds during a test."""
    kinds = (Nap, Wall, Rumour)
    for kind in kinds:
        register(kind)
    yield
    for kind in kinds:
        KINDS.remove(kind)


def certificate_of(engine: type[CertificateEngine], faults: str) -> Certificate:
    scenario = make_scenario(fields(TREES))
    with open("/dev/null", "w") as log:  # noqa: PTH123
        return Certifier(scenario, 1, log, lambda *_: None, engine).certify(exhaustive_fault_sets([faults]))


@pytest.mark.parametrize("faults", ["nap<=1", "wall<=1", "wall=2", "nap=1;wall=1"])
def test_three_engines_certify_them_alike(faults: str) -> None:
    known = faults
    for kind, like in KNOWN.items():
        known = known.replace(kind, like)
    made = [certificate_of(engine, faults) for engine in (MessageEngine, BitRowEngine, CutEngine)]
    expected = certificate_of(MessageEngine, known)
    assert {each.verdict for each in made} == {expected.verdict} <= {Verdict.HOLDS, Verdict.VIOLATED}
    for each in made:
        assert [level.survived for level in each.counts] == [level.survived for level in expected.counts]


@pytest.mark.parametrize(("faults", "known"), [("worst:wall=2", "worst:links=2"), ("worst:nap=1", "worst:hang=1")])
def test_the_worst_set_is_that_of_the_known_kind(faults: str, known: str) -> None:
    worst, expected = (make_plan(make_scenario(fields(ONE_TREE, fault=[each]))) for each in (faults, known))
    assert [fault.place for fault in worst.faults] == [fault.place for fault in expected.faults]
    assert worst.outages == expected.outages


@pytest.mark.parametrize(
    ("faults", "known"), [("wall=2", "links=2"), ("nap=1", "hang=1"), ("wall=1@2-3", "links=1@2-3")]
)
def test_delivery_ratios_are_those_of_the_known_kind(faults: str, known: str) -> None:
    algorithm = make_plan(make_scenario(fields(ONE_TREE))).algorithm
    found = []
    for each in (faults, known, "rumour=1"):
        (fault_set,) = parse_fault_sets(each)
        sites = FaultSites(algorithm, ())
        found.append(expected_delivery_ratio(algorithm, (), FaultKnowledge.NONE, fault_set, sites))
    assert found[0] == found[1] != Expected()
    assert found[2] == Expected()


def test_cut_off_nodes_name_them() -> None:
    found = run_scenario(None, **fields(ONE_TREE, fault=["wall:1234~2134", "nap:3214@1"])).summary
    known = run_scenario(None, **fields(ONE_TREE, fault=["down:1234~2134@1", "hang:3214@1"])).summary
    assert found["journal_hash"] == known["journal_hash"]
    rows, expected = found["cut_off"], known["cut_off"]
    assert isinstance(rows, list)
    assert isinstance(expected, list)
    names = {"down:1234~2134@1": "wall:1234~2134", "hang:3214@1": "nap:3214@1", None: None}
    assert rows == [{**row, "because": names[row["because"]]} for row in expected]
    assert {row["because"] for row in rows} >= {"wall:1234~2134", "nap:3214@1"}


def test_a_watched_run_predicts_what_a_click_on_one_costs() -> None:
    """The page offers them, and their claims are those of the kinds that do the same."""
    click: dict[str, object] = {"do": "fault", "kind": "wall", "rank": 0, "port": 0}
    script = Script(plan_of(), lambda now: [click] if now == 1 else [])
    run_quietly(script.plan, script)
    plan = script.session.plan
    assert [fault.__class__ for fault in plan.faults] == [Wall, Wall]
    known = make_plan(
        plan.scenario.model_copy(update={"fault": [each.replace("wall", "down") for each in plan.scenario.fault]})
    )
    found, expected = (Predictor().predict(each) for each in (plan, known))
    assert found.note == expected.note is None
    assert found.claims == expected.claims != []


def test_a_kind_without_effects_is_refused_by_name() -> None:
    with pytest.raises(NotProvableError, match=r"rumour does not define effects\(\)"):
        certificate_of(CutEngine, "rumour<=1")
    with pytest.raises(ScenarioError, match=r"rumour does not define effects\(\)"):
        make_plan(make_scenario(fields(ONE_TREE, fault=["worst:rumour=1"])))
    with pytest.raises(ScenarioError, match=r"effects\(\) is not defined by rumour"):
        make_plan(make_scenario(fields(ONE_TREE, fault=["rumour:1234~2134", "worst:nodes=1"])))
