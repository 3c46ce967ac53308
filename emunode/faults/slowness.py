"""Faults that change times only, under the timed clock: slow nodes and links, jitter, clocks that drift.

They lose, alter and repeat nothing, and the node stays a healthy one.
"""

from dataclasses import dataclass

from emunode.faults.effects import Drifts, Effects, Slows
from emunode.faults.kinds import FOREVER, LinkFault, NodeFault
from emunode.model import Step
from emunode.registry import register

ARRIVALS = ("first", "duplicate", "relay", "corrupt")


@register
@dataclass(frozen=True)
class Slow(NodeFault):
    """Packets that `rank` begins to send while this is in force occupy their ports `factor` times as long.

    >>> from emunode.faults.kinds import stated
    >>> stated(Slow(step=2, rank=5, factor=2.0, last=7))
    [Slows(factor=2.0, spread=0.0)]
    """

    factor: float
    last: Step = FOREVER

    built_in = True
    form = "slow:LABEL:FACTOR[@TIME[-TIME]]"
    state = "slow"
    shown_as = "sender"
    affects_timing = False
    slows = True
    evidence = ARRIVALS

    def effects(self) -> Effects:
        return self.there(Slows(self.factor))


@register
@dataclass(frozen=True)
class SlowLink(LinkFault):
    """Packets that begin to cross while this is in force take `factor` times as long; also written slow:A~B:FACTOR.

    >>> from emunode.faults.kinds import stated
    >>> stated(SlowLink(step=2, sender=5, port=1, factor=2.0, last=7))
    [Slows(factor=2.0, spread=0.0)]
    """

    factor: float
    last: Step = FOREVER

    built_in = True
    form = "slow-link:A~B:FACTOR[@TIME[-TIME]]"
    affects_timing = False
    slows = True
    evidence = ARRIVALS

    def effects(self) -> Effects:
        return self.there(Slows(self.factor))


@register
@dataclass(frozen=True)
class Jitter(LinkFault):
    """A packet takes 1 + `spread` x U times as long, with U drawn from [0, 1).

    >>> from emunode.faults.kinds import stated
    >>> stated(Jitter(step=2, sender=5, port=1, spread=0.1, last=7))
    [Slows(factor=1.0, spread=0.1)]
    """

    spread: float
    last: Step = FOREVER

    built_in = True
    form = "jitter:A~B:SPREAD[@TIME[-TIME]]"
    affects_timing = False
    slows = True
    evidence = ARRIVALS

    def effects(self) -> Effects:
        return self.there(Slows(spread=self.spread))


@register
@dataclass(frozen=True)
class Drift(NodeFault):
    """The clock of `rank` runs at the rate 1 + `drift` throughout the run.

    Times that the rank chooses shift; packets take as long as ever.

    >>> from emunode.faults.kinds import stated
    >>> stated(Drift(step=2, rank=5, drift=0.01))
    [Drifts(rate=0.01)]
    """

    drift: float

    built_in = True
    form = "drift:LABEL:DRIFT"
    state = "drifting"
    shown_as = "sender"
    affects_timing = False
    slows = True
    evidence = ARRIVALS

    def effects(self) -> Effects:
        return self.there(Drifts(self.drift))
