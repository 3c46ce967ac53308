"""Kinds of faults that no module knows: claims, audit, tables and report read their effects, or do without them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from coordinator.execution.sinks import RunResult
from coordinator.planning.plan import make_plan
from coordinator.results.claims import Verdict
from coordinator.scenario.model import make_scenario
from emunode.faults.effects import Delays, Duplicates, Effects
from emunode.faults.kinds import FOREVER, KINDS, Hang, LinkFault
from emunode.faults.transit import LinkTransit
from emunode.model import Step
from emunode.registry import register
from tests.command_line import fields
from tests.support import run_scenario

CUBE = "hypercube:3 broadcast sbt messages=3"
TREE = "star:4 broadcast greedy-tree"
DETECT = f"{CUBE} fault_knowledge=detect:2"
RELIABLE = f"{CUBE} reliable=true"
REPAIR = f"{TREE} repair=next-port"
TIMED = f"{CUBE} clock=timed startup=1ms"
TIMED_DETECT = f"{TIMED} fault_knowledge=detect:2 keep_alive=9ms"


@dataclass(frozen=True, slots=True)
class Nap(Hang):
    """From `step` to `last`, `rank` sleeps."""

    form = "nap:LABEL@STEP[-STEP]"
    state = "napping"


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
    """Packets of odd steps arrive twice, one step late, and every third packet is lost. It does not say so."""

    form = "whim:A~B[@STEP[-STEP]]"

    def act(self, transit: LinkTransit) -> None:
        if transit.step % 2:
            transit.copies *= 2
            transit.delay += 1
        transit.lost |= transit.number() % 3 == 0


@pytest.fixture(autouse=True)
def plug_ins() -> Iterator[None]:
    kinds = (Nap, Stutter, Whim)
    for kind in kinds:
        register(kind)
    yield
    for kind in kinds:
        KINDS.remove(kind)


def ran(scenario: str, *faults: str, out: Path | None = None) -> RunResult:
    return run_scenario(out, **fields(scenario, fault=list(faults)))


def claimed(result: RunResult) -> set[tuple[str, str]]:
    """The claims of a result, without their values."""
    return {(each.claim.name, each.claim.relation) for each in result.judgements}


@pytest.mark.parametrize("scenario", [CUBE, DETECT, RELIABLE, TIMED, TIMED_DETECT])
@pytest.mark.parametrize("when", ["@2", "@2-4"])
def test_a_node_that_naps_is_judged_as_one_that_hangs(scenario: str, when: str) -> None:
    nap, hang = ran(scenario, f"nap:011{when}"), ran(scenario, f"hang:011{when}")
    assert nap.summary["journal_hash"] == hang.summary["journal_hash"]
    assert [(each.claim, each.verdict) for each in nap.judgements] == [
        (each.claim, each.verdict) for each in hang.judgements
    ]


@pytest.mark.parametrize("scenario", [CUBE, DETECT, RELIABLE, TIMED])
def test_a_stuttering_link_is_judged_as_delay_and_duplication(scenario: str) -> None:
    stutter = ran(scenario, "stutter:000~001")
    both = ran(scenario, "duplicate:000~001:1", "delay:000~001:1")
    assert stutter.summary["journal_hash"] == both.summary["journal_hash"]
    assert claimed(stutter) == claimed(both)
    assert stutter.summary["illegal_hops"] == 0
    assert stutter.verdict == both.verdict


def test_tables_and_the_report_show_them(tmp_path: Path) -> None:
    ran(CUBE, "nap:011@2", "stutter:000~001", out=tmp_path / "run")
    nodes = pl.read_parquet(tmp_path / "run" / "nodes.parquet")
    assert nodes.filter(pl.col("state") == "napping")["label"].to_list() == ["011"]
    faults = json.loads((tmp_path / "run" / "faults.json").read_text())
    assert {each["kind"] for each in faults} == {"nap", "stutter"}
    assert all(each["seen"] for each in faults if each["kind"] == "nap")
    page = (tmp_path / "run" / "report.html").read_text()
    assert 'class="cross"' in page
    assert "</svg>napping</span>" in page


@pytest.mark.parametrize("scenario", [CUBE, DETECT, RELIABLE, REPAIR, TIMED, TIMED_DETECT])
def test_a_kind_without_effects_runs_without_exact_claims(scenario: str) -> None:
    link = "1234~2134" if scenario == REPAIR else "000~001"
    result = ran(scenario, f"whim:{link}")
    assert result.summary["illegal_hops"] == 0
    assert result.verdict is not Verdict.VIOLATED
    names = {name for name, relation in claimed(result) if relation == "=="}
    assert names <= {"illegal_hops", "early_hops"}
    assert make_plan(make_scenario(fields(scenario, fault=[f"whim:{link}"]))).timeline.opaque == ("whim",)
