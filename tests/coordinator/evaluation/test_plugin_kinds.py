"""Kinds of faults that no module knows, evaluated by the effects that they state, and held against messages."""

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

import pytest

from coordinator.evaluation.exactness import why_inexact
from emunode.errors import ScenarioError
from emunode.faults.byzantine import ByzantineFault, Sending, Treatment
from emunode.faults.effects import Alters, Choice, Effects, Interval, Loses
from emunode.faults.kinds import FOREVER, KINDS, LinkFault
from emunode.faults.transit import LinkTransit
from emunode.model import Step
from emunode.registry import register
from tests.coordinator.campaigns.test_exact_trials import done, figures, grid_of
from tests.coordinator.evaluation.support import RATES, compare, plan

NAMES = ("fog", "fog", "renegade", "loss", "crash", "byzantine", "silent")


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
class Mist(Fog):
    """A kind that loses other packets than the kind from which it inherits effects."""

    form = "mist:A~B:RATE[@STEP[-STEP]]"

    def act(self, transit: LinkTransit) -> None:
        transit.lost |= transit.number() == 2


@pytest.fixture(autouse=True)
def plug_ins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Register the kinds during a test."""
    kinds = (Fog, Renegade, Mist)
    for kind in kinds:
        register(kind)
    monkeypatch.setitem(RATES, "fog", (0.3, 0.7))
    yield
    for kind in kinds:
        KINDS.remove(kind)


@pytest.mark.parametrize(
    ("network", "collective", "algorithm", "redundancy"),
    [
        ("star:4", "broadcast", "edt", 3),
        ("hypercube:3", "broadcast", "nesbt", 3),
        ("star:4", "reduce", "greedy-tree", 1),
        ("ring:6", "allreduce", "ring", 1),
    ],
)
def test_random_faults_have_the_same_results_as_with_messages(
    network: str, collective: str, algorithm: str, redundancy: int
) -> None:
    given = plan(network, collective, algorithm, redundancy=redundancy)
    compare(given, Random(f"{network}/{collective}"), 25, NAMES)


@pytest.mark.parametrize("faults", ["fog=3:0.4@2-5", "fog=2:0.4;renegade=1@2", "renegade=2@2"])
def test_campaigns_have_the_same_figures_as_with_messages(faults: str) -> None:
    exact, session = done(grid_of(faults, trials=105, engine="exact"))
    plain, _ = done(grid_of(faults, trials=105, engine="messages"))
    assert session.exact_trials == 105
    assert figures(exact) == figures(plain)


def test_a_kind_without_effects_runs_with_messages() -> None:
    given = plan("star:4", "broadcast", "edt", fault=["mist:1234~2134:0.5", "delay:1234~2134:1"])
    reason = "delay, mist is followed by messages only; effects() is not defined by mist"
    assert why_inexact(given) == reason
    assert not grid_of("mist=1:0.5", trials=105).exact(0, 0)
    with pytest.raises(ScenarioError, match=r"mist is followed by messages only; effects\(\) is not defined by mist"):
        grid_of("mist=1:0.5", trials=105, engine="exact").check()
