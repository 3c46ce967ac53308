"""Kinds of faults that no module knows: every analysis reads their effects, and refuses or leaves out a kind without any."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

import polars as pl
import pytest

from coordinator.live.theory import Predictor
from coordinator.planning.plan import make_plan
from coordinator.results.claims import Verdict
from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.theory.batch.exactness import why_inexact
from coordinator.theory.reliability import Expected, expected_delivery_ratio
from emunode.errors import ScenarioError
from emunode.faults.byzantine import ByzantineFault, Sending, Treatment
from emunode.faults.effects import Alters, Choice, Delays, Duplicates, Effects, Interval, Loses, Stops
from emunode.faults.kinds import FOREVER, KINDS, Hang, LinkFault
from emunode.faults.transit import LinkTransit
from emunode.model import FaultKnowledge, Step
from emunode.registry import register
from tests.coordinator.campaigns.test_batch_trials import done, figures, grid_of
from tests.helpers.batch_support import RATES, compare
from tests.helpers.scenarios import Case
from tests.helpers.support import run_and_draw
from tests.helpers.watch_support import Script, run_quietly, star_plan

TREES = Case("star:3 broadcast edt x=2")
ONE_TREE = Case("star:4 broadcast greedy-tree")
REPAIR = ONE_TREE.but(repair="next-port")
CUBE = Case("hypercube:3 broadcast sbt messages=3")
DETECT = CUBE.but(fault_knowledge="detect:2")
RELIABLE = CUBE.but(reliable=True)
TIMED = CUBE.but(clock="timed", startup="1ms")
TIMED_DETECT = TIMED.but(fault_knowledge="detect:2", keep_alive="9ms")


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
class Fog(LinkFault):
    """Packets are lost with a probability of `rate`, and from the second step on all of them."""

    rate: float
    last: Step = FOREVER

    form = "fog:A~B:RATE[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        transit.lost |= transit.occurs(self.rate if transit.step == self.step else 1.0)

    def effects(self) -> Effects:
        first, end = self.interval
        return [
            (self.place, Interval(first, first + 1), Loses(self.rate)),
            (self.place, Interval(first + 1, end), Loses()),
        ]


@dataclass(frozen=True, slots=True)
class Renegade(ByzantineFault):
    """From `step` on `rank` forges other bytes for each neighbour, and two steps later it withholds everything."""

    form = "renegade:LABEL@STEP"
    affects_timing = True
    withholds = True
    evidence = ("corrupt", "lost")

    def treatment(self, sending: Sending) -> Treatment:
        return Treatment.FORGE_APART if sending.step < self.step + 2 else Treatment.WITHHOLD

    def effects(self) -> Effects:
        first, end = self.interval
        return [
            (self.rank, Interval(first, first + 2), Alters(choice=Choice.COPY)),
            (self.rank, Interval(first + 2, end), Loses(choice=Choice.COPY)),
        ]


@dataclass(frozen=True, slots=True)
class Stutter(LinkFault):
    """Packets arrive twice, one step late."""

    last: Step = FOREVER

    form = "stutter:A~B[@STEP[-STEP]]"
    evidence = ("first", "duplicate", "relay", "lost")

    def act(self, transit: LinkTransit) -> None:
        transit.copies *= 2
        transit.delay += 1

    def effects(self) -> Effects:
        return self.there(Duplicates(), Delays(1))


@dataclass(frozen=True, slots=True)
class Whim(Stutter):
    """Packets of odd steps arrive twice, one step late, and every third packet is lost: inherited effects are wrong."""

    form = "whim:A~B[@STEP[-STEP]]"

    def act(self, transit: LinkTransit) -> None:
        if transit.step % 2:
            transit.copies *= 2
            transit.delay += 1
        transit.lost |= transit.number() % 3 == 0


@pytest.fixture(autouse=True)
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the kinds during a test."""
    kinds = (Nap, Wall, Fog, Renegade, Stutter, Whim)
    for kind in kinds:
        register(kind)
    monkeypatch.setitem(RATES, "fog", (0.3, 0.7))
    yield
    for kind in kinds:
        KINDS.remove(kind)


# --- claims, audit, tables and report --------------------------------------------------------------------------------


def claimed(case: Case) -> set[tuple[str, str]]:
    """Return the claims about a run, without their values."""
    return {(each.claim.name, each.claim.relation) for each in case.run.judgements}


@pytest.mark.parametrize("case", [CUBE, DETECT, RELIABLE, TIMED, TIMED_DETECT], ids=str)
@pytest.mark.parametrize("when", ["@2", "@2-4"])
def test_a_node_that_naps_is_judged_as_one_that_hangs(case: Case, when: str) -> None:
    nap, hang = case.but(f"nap:011{when}"), case.but(f"hang:011{when}")
    assert nap.summary["journal_hash"] == hang.summary["journal_hash"]
    assert [(each.claim, each.verdict) for each in nap.run.judgements] == [
        (each.claim, each.verdict) for each in hang.run.judgements
    ]


@pytest.mark.parametrize("case", [CUBE, DETECT, RELIABLE, TIMED], ids=str)
def test_a_stuttering_link_is_judged_as_delay_and_duplication(case: Case) -> None:
    stutter = case.but("stutter:000~001")
    both = case.but("duplicate:000~001:1", "delay:000~001:1")
    assert stutter.summary["journal_hash"] == both.summary["journal_hash"]
    assert claimed(stutter) == claimed(both)
    assert stutter.summary["illegal_hops"] == 0
    assert stutter.run.verdict == both.run.verdict


def test_tables_and_the_report_show_them(tmp_path: Path) -> None:
    result = run_and_draw(tmp_path / "run", **CUBE.but("nap:011@2", "stutter:000~001").values)
    nodes = pl.read_parquet(result.path / "nodes.parquet")
    assert nodes.filter(pl.col("state") == "napping")["label"].to_list() == ["011"]
    faults = json.loads((result.path / "faults.json").read_text())
    assert {each["kind"] for each in faults} == {"nap", "stutter"}
    assert all(each["seen"] for each in faults if each["kind"] == "nap")
    page = (result.path / "report.html").read_text()
    assert 'class="cross"' in page
    assert "</svg>napping</span>" in page


@pytest.mark.parametrize("case", [CUBE, DETECT, RELIABLE, REPAIR, TIMED, TIMED_DETECT], ids=str)
def test_a_kind_without_effects_runs_without_exact_claims(case: Case) -> None:
    broken = case.but(f"whim:{'1234~2134' if case is REPAIR else '000~001'}")
    assert broken.summary["illegal_hops"] == 0
    assert broken.run.verdict is not Verdict.VIOLATED
    names = {name for name, relation in claimed(broken) if relation == "=="}
    assert names <= {"illegal_hops", "early_hops"}
    assert broken.plan.judged.timeline.opaque == ("whim",)


def test_cut_off_nodes_name_them() -> None:
    found = ONE_TREE.but("wall:1234~2134", "nap:3214@1").summary
    known = ONE_TREE.but("down:1234~2134@1", "hang:3214@1").summary
    assert found["journal_hash"] == known["journal_hash"]
    rows, expected = found["cut_off"], known["cut_off"]
    names = {"down:1234~2134@1": "wall:1234~2134", "hang:3214@1": "nap:3214@1", None: None}
    assert rows == [{**row, "because": names[row["because"]]} for row in expected]
    assert {row["because"] for row in rows} >= {"wall:1234~2134", "nap:3214@1"}


# --- worst sets and predictions ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "known"), [("wall=2", "links=2"), ("nap=1", "hang=1"), ("wall=1@2-3", "links=1@2-3")]
)
def test_delivery_ratios_are_those_of_the_known_kind(faults: str, known: str) -> None:
    algorithm = ONE_TREE.plan.algorithm
    found = []
    for each in (faults, known, "whim=1"):
        (fault_set,) = parse_fault_sets(each)
        sites = FaultSites(algorithm, ())
        found.append(expected_delivery_ratio(algorithm, (), FaultKnowledge.NONE, fault_set, sites))
    assert found[0] == found[1] != Expected()
    assert found[2] == Expected()


def test_a_watched_run_predicts_what_a_click_on_one_costs() -> None:
    """The page offers them, and their claims are those of the kinds that do the same."""
    click: dict[str, object] = {"do": "fault", "kind": "wall", "rank": 0, "port": 0}
    script = Script(star_plan(), lambda now: [click] if now == 1 else [])
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
    with pytest.raises(ScenarioError, match=r"effects\(\) is not defined by whim"):
        _ = ONE_TREE.but("whim:1234~2134", "worst:nodes=1").plan


# --- the engine beside messages -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "line",
    [
        "star:4 broadcast edt x=3",
        "hypercube:3 broadcast nesbt x=3",
        "star:4 reduce greedy-tree",
        "ring:6 allreduce ring",
    ],
)
def test_random_faults_have_the_same_results_as_with_messages(line: str) -> None:
    kinds = ("fog", "fog", "renegade", "loss", "crash", "byzantine", "silent")
    compare(Case(line).plan, Random(line), 25, kinds)


@pytest.mark.parametrize("faults", ["fog=3:0.4@2-5", "fog=2:0.4;renegade=1@2", "renegade=2@2"])
def test_campaigns_have_the_same_figures_as_with_messages(faults: str) -> None:
    exact, session = done(grid_of(faults, trials=40, engine="exact"))
    plain, _ = done(grid_of(faults, trials=40, engine="messages"))
    assert session.exact_trials == 40
    assert figures(exact) == figures(plain)


def test_a_kind_without_effects_runs_with_messages() -> None:
    plan = Case("star:4 broadcast edt", "whim:1234~2134", "delay:1234~2134:1").plan
    assert why_inexact(plan) == "delay, whim is followed by messages only; effects() is not defined by whim"
    assert not grid_of("whim=1", trials=105).exact(0, 0)
    with pytest.raises(ScenarioError, match=r"whim is followed by messages only; effects\(\) is not defined by whim"):
        grid_of("whim=1", trials=105, engine="exact").check()
