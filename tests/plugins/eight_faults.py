"""Eight kinds of faults that no module knows, each with another property that an analysis could guess wrongly."""

from dataclasses import dataclass

from emunode.faults.effects import Alters, Delays, Effects, Interval, Loses, Stops
from emunode.faults.kinds import FOREVER, Hang, LinkFault
from emunode.faults.transit import LinkTransit
from emunode.model import Step
from emunode.registry import register


@register
@dataclass(frozen=True)
class Murk(LinkFault):
    """Every other packet is lost at random; the kind does not state it."""

    last: Step = FOREVER

    form = "murk:A~B[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        transit.lost |= transit.occurs(0.5)


@register
@dataclass(frozen=True)
class Haze(LinkFault):
    """A quarter of the packets is lost, at random; there is no value to see that by."""

    last: Step = FOREVER

    form = "haze:A~B[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        transit.lost |= transit.occurs(0.25)

    def effects(self) -> Effects:
        return self.there(Loses(0.25))


@register
@dataclass(frozen=True)
class Feint(LinkFault):
    """Packets of even steps are lost, and the kind states that all are."""

    last: Step = FOREVER

    form = "feint:A~B[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        transit.lost |= transit.step % 2 == 0

    def effects(self) -> Effects:
        return self.there(Loses())


@register
@dataclass(frozen=True)
class Squall(LinkFault):
    """Everything is lost in the first step of the fault, and nothing afterwards."""

    last: Step = FOREVER

    form = "squall:A~B[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        transit.lost |= transit.step == self.step

    def effects(self) -> Effects:
        return [(self.place, Interval(self.step, self.step + 1), Loses())]


@register
@dataclass(frozen=True)
class Nap(Hang):
    """A node sleeps."""

    form = "nap:LABEL[@STEP[-STEP]]"
    state = "napping"


@register
@dataclass(frozen=True)
class Wall(LinkFault):
    """Nothing crosses one direction of a link."""

    last: Step = FOREVER

    form = "wall:A~B[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        transit.lost = True

    def effects(self) -> Effects:
        return self.there(Stops())


@register
@dataclass(frozen=True)
class Smudge(LinkFault):
    """Every packet arrives with other bytes."""

    last: Step = FOREVER

    form = "smudge:A~B[@STEP[-STEP]]"
    evidence = ("corrupt",)
    alters_payload = True

    def act(self, transit: LinkTransit) -> None:
        transit.alter()

    def effects(self) -> Effects:
        return self.there(Alters())


@register
@dataclass(frozen=True)
class Lag(LinkFault):
    """Every packet crosses two steps later."""

    last: Step = FOREVER

    form = "lag:A~B[@STEP[-STEP]]"
    evidence = ("first", "duplicate", "relay", "lost")

    def act(self, transit: LinkTransit) -> None:
        transit.delay += 2

    def effects(self) -> Effects:
        return self.there(Delays(2))
