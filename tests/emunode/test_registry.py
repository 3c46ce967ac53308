"""Registration of algorithms and fault kinds: a plug-in uses the decorator of the built-in ones."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from coordinator.cli.listing import list_algorithms
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.fault_syntax import forms, parse_faults
from emunode.algorithms.base import ALGORITHMS, Algorithm, check_metrics
from emunode.algorithms.claims import METRICS, Claim
from emunode.algorithms.flooding import Flood
from emunode.algorithms.hypercube.broadcast import BinomialBroadcast
from emunode.algorithms.registry import ORDER, algorithms, registered
from emunode.algorithms.transforms import backwards
from emunode.errors import RegistrationError, RuleError, ScenarioError
from emunode.faults.injector import Faults
from emunode.faults.kinds import FOREVER, KINDS, Fault, LinkFault, NodeFault, from_record, in_order, to_record
from emunode.faults.transit import LinkTransit
from emunode.model import Collective, Step
from emunode.registry import register
from emunode.topologies.hypercube import Hypercube
from tests.support import failures, run_scenario

# --- algorithms ------------------------------------------------------------------------------------------------------


class PlugIn(BinomialBroadcast):
    """A broadcast that somebody else wrote."""

    name = "plug-in"
    citation = "a test"


@pytest.fixture
def plug_in() -> Iterator[type[Algorithm]]:
    register(PlugIn)
    yield PlugIn
    ALGORITHMS.remove(PlugIn)


@pytest.mark.usefixtures("plug_in")
def test_a_registered_algorithm_runs_and_is_listed_before_those_for_any_network(
    capsys: pytest.CaptureFixture[str],
) -> None:
    result = run_scenario(topology="hypercube:3", collective="broadcast", algorithm="plug-in", driver="memory")
    assert result.verdict == "holds", failures(result)
    names = list(algorithms("hypercube", Collective.BROADCAST))
    assert names[names.index("plug-in") + 1 :] == list(algorithms("any", Collective.BROADCAST))
    list_algorithms(topology="hypercube", collective=Collective.BROADCAST)
    assert "plug-in" in capsys.readouterr().out


def test_an_algorithm_is_gone_once_removed(plug_in: type[Algorithm]) -> None:
    ALGORITHMS.remove(plug_in)
    with pytest.raises(ScenarioError, match="invalid algorithm 'plug-in': broadcast on hypercube is done by: brg"):
        run_scenario(topology="hypercube:3", collective="broadcast", algorithm="plug-in", driver="memory")
    register(plug_in)


@pytest.mark.usefixtures("plug_in")
def test_an_algorithm_of_the_same_family_collective_and_name_is_refused() -> None:
    class Other(PlugIn):
        pass

    with pytest.raises(RegistrationError, match=r"Other is called 'hypercube broadcast plug-in', .* by .*\.PlugIn"):
        register(Other)
    derived = register(backwards(PlugIn))  # the same name, but a reduce
    assert algorithms("hypercube", Collective.REDUCE)["plug-in"] is derived
    ALGORITHMS.remove(derived)


def test_an_algorithm_of_a_family_precedes_one_of_the_same_name_for_any_network() -> None:
    class OwnFlood(Flood):
        family = "star"

    register(OwnFlood)
    try:
        assert algorithms("star", Collective.BROADCAST)["flood"] is OwnFlood
        assert algorithms("ej", Collective.BROADCAST)["flood"] is Flood
    finally:
        ALGORITHMS.remove(OwnFlood)


def test_every_algorithm_of_the_package_has_a_place_in_the_lists() -> None:
    assert {entry.name for _, entry in registered()} == set(ORDER)
    assert len(ORDER) == len(set(ORDER))


def test_an_algorithm_without_a_family_or_a_rule_is_refused() -> None:
    class Incomplete(Algorithm):
        name, citation, collective = "incomplete", "a test", Collective.BROADCAST

    with pytest.raises(RegistrationError, match=r"Incomplete does not define family, claims, rule"):
        register(Incomplete)


def test_an_algorithm_for_an_unknown_family_is_refused() -> None:
    class Elsewhere(PlugIn):
        name, family = "elsewhere", "hypercubes"

    with pytest.raises(
        RegistrationError, match=r"unknown family 'hypercubes'; known are: star, hypercube, ej, .*, any"
    ):
        register(Elsewhere)
    assert ("hypercubes", "broadcast", "elsewhere") not in ALGORITHMS


class MisspeltClaim(PlugIn):
    """A claim about a metric that does not exist."""

    name = "misspelt"

    def claims(self) -> list[Claim]:
        return [*super().claims(), Claim("segmentz", 4, "==", "a paper")]


class MisspeltStructure(PlugIn):
    name = "misspelt"

    def structure_claims(self) -> list[Claim]:
        return [Claim("segmentz", 4, "==", "a paper")]


class MisspeltBound(Flood):
    """A misspelt claim over faults, on one family of several."""

    name, family = "misspelt", "any"

    def claims_with_faults(self, *faults: Any) -> list[Claim]:
        name = "segmentz" if self.topology.family == "ej" else "segments"
        return [*super().claims_with_faults(*faults), Claim(name, 4, "==", "a paper")]


@pytest.mark.parametrize("entry", [MisspeltClaim, MisspeltStructure, MisspeltBound])
def test_a_claim_about_an_unknown_metric_is_refused_at_registration(entry: type[Algorithm]) -> None:
    with pytest.raises(RegistrationError) as error:
        register(entry)
    assert str(error.value).startswith(f"algorithm {__name__}.{entry.__name__} (misspelt): ")
    assert "unknown metric 'segmentz': did you mean 'segments'" in str(error.value)
    assert entry not in ALGORITHMS.values()


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("entry", ALGORITHMS.values(), ids=map("-".join, ALGORITHMS))
def test_algorithms_of_the_package_claim_known_metrics(entry: type[Algorithm], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are not checked at registration, which would slow down every command."""
    named: set[str] = set()
    post_init = Claim.__post_init__

    def note(claim: Claim) -> None:
        named.add(claim.name)
        post_init(claim)

    monkeypatch.setattr(Claim, "__post_init__", note)
    check_metrics(entry)
    assert named
    assert named <= METRICS


# --- fault kinds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DropEvery(LinkFault):
    """Every `period`-th packet that leaves from `step` to `last` is lost."""

    period: int
    last: Step = FOREVER

    form = "drop-every:A~B:PERIOD[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        if transit.number() % self.period == 0:
            transit.lost = True


@pytest.fixture
def drop_every() -> Iterator[type[Fault]]:
    register(DropEvery)
    yield DropEvery
    KINDS.remove(DropEvery)


@pytest.mark.usefixtures("drop_every")
def test_a_registered_kind_is_parsed_listed_sent_and_drawn() -> None:
    cube = Hypercube(3)
    (fault,) = parse_faults(["drop-every:000>001:2@1-4"], cube)
    assert fault == DropEvery(step=1, sender=0, port=0, period=2, last=4)
    assert from_record(to_record(fault), cube) == fault
    assert to_record(fault)[0] == "drop-every"
    crash, *_ = parse_faults(["crash:011@1"], cube)
    assert in_order([fault, crash]) == (crash, fault)
    assert forms()[-1]["written"] == DropEvery.form
    for spec in ("drop-every:000>001:0", "drop-every:000>001"):
        with pytest.raises(ScenarioError, match="its period must be a whole number of at least 1"):
            parse_faults([spec], cube)


@pytest.mark.usefixtures("drop_every")
def test_a_registered_kind_acts_in_a_run() -> None:
    result = run_scenario(
        topology="hypercube:3",
        collective="broadcast",
        algorithm="sbt",
        driver="memory",
        segments=4,
        fault=["drop-every:000>001:2"],
    )
    assert result.summary["lost"] == 2


def test_an_unregistered_kind_is_unknown() -> None:
    with pytest.raises(
        ScenarioError, match=r"KIND one of: crash, hang, .*drop, byzantine, .*selective, slow, .*drift$"
    ):
        parse_faults(["drop-every:000>001:2"], Hypercube(3))


@dataclass(frozen=True, slots=True)
class Unplaced(Fault):
    form = "unplaced@STEP"
    evidence = ()


@dataclass(frozen=True, slots=True)
class Stateless(NodeFault):
    form = "stateless:LABEL@STEP"
    evidence = ()


class Undeclared(LinkFault):
    form = "undeclared:A~B@STEP"
    evidence = ()


@dataclass(frozen=True, slots=True)
class Crash(NodeFault):
    form = "crash:LABEL@STEP"
    state = "crashed"
    evidence = ()


def test_a_kind_whose_code_fails_is_named_with_the_packet() -> None:
    faults = Faults(Hypercube(3), 1)
    faults.apply([DropEvery(step=1, sender=5, port=2, period=0)])
    with pytest.raises(RuleError, match=r"^fault drop-every at rank 5, port 2, step 4: ZeroDivisionError: "):
        faults.transit(4, 5, 2, ())


@dataclass(frozen=True, slots=True)
class Idle(NodeFault):
    form = "idle:LABEL@STEP"
    state = "idle"
    evidence = ()


@dataclass(frozen=True, slots=True)
class Inert(LinkFault):
    form = "inert:A~B@STEP"
    evidence = ()


@dataclass(frozen=True, slots=True)
class Muddy(DropEvery):
    form = "muddy:A~B:PERIOD@STEP"
    slows = True


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Idle, "Idle has no effect: derive it from ByzantineFault"),
        (Inert, "Inert has no effect: define act"),
        (Muddy, "Muddy has no effect: define act"),
        (Unplaced, "Unplaced is neither a NodeFault nor a LinkFault"),
        (Stateless, "Stateless does not define state"),
        (Undeclared, "Undeclared is not decorated as a frozen dataclass"),
        (LinkFault, "LinkFault does not define form, evidence"),
        (Crash, r"Crash is called 'crash', a name already taken by emunode\.faults\.kinds\.Crash"),
    ],
)
def test_an_unsuitable_kind_is_refused(kind: type[Fault], message: str) -> None:
    before = dict(KINDS)
    with pytest.raises(RegistrationError, match=message):
        register(kind)
    assert dict(KINDS) == before


@pytest.mark.usefixtures("drop_every")
def test_a_set_of_faults_of_a_registered_kind_is_drawn() -> None:
    (fault_set,) = parse_fault_sets("random:drop-every=2:3@1")
    assert [(part.kind, part.count, part.argument) for part in fault_set.parts] == [("drop-every", 2, ":3")]
    with pytest.raises(ScenarioError, match="'drop-every' needs a value after the number, such as drop-every=2:2"):
        parse_fault_sets("random:drop-every=2@1")
