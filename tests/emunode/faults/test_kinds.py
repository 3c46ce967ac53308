"""Registration of fault kinds: a kind of a plug-in is parsed, listed, sent, drawn and injected as the built-in ones."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.fault_syntax import forms, parse_faults
from emunode.errors import RegistrationError, RuleError, ScenarioError
from emunode.faults.injector import Faults
from emunode.faults.kinds import FOREVER, KINDS, Fault, LinkFault, NodeFault, from_record, in_order, to_record
from emunode.faults.transit import LinkTransit
from emunode.model import Step
from emunode.registry import register
from emunode.topologies.hypercube import Hypercube
from tests.helpers.command_line import ROOT
from tests.helpers.support import run_scenario


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
    assert not any("`" in str(row["meaning"]) for row in forms())
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
    with pytest.raises(ScenarioError, match=f"KIND one of: {', '.join(KINDS)}; defined by a plug-in"):
        parse_faults(["drop-every:000>001:2"], Hypercube(3))


@pytest.mark.parametrize("package", ["emunode", "coordinator"])
def test_effects_are_asked_for_in_one_place(package: str) -> None:
    """A kind need not state any, so nothing but `stated_effects` may ask."""
    asking = [path.name for path in (ROOT / package).rglob("*.py") if ".effects()" in path.read_text()]
    assert asking == (["kinds.py"] if package == "emunode" else [])


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


@dataclass(frozen=True, slots=True)
class Worded(DropEvery):
    text: int  # type: ignore[assignment]

    form = "worded:A~B:TEXT@STEP"


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (Worded, "Worded has a field text, the name for the text that states a fault: rename it"),
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
