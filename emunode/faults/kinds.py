"""The kinds of faults, as frozen records.

A fault takes effect at the beginning of a step, when no packet is in flight, and lasts to the end of its last step.
Under the timed clock it may have times instead (`Moment`), and packets may be in flight at these times (see `in_time`).
`NodeFault` affects a rank, `LinkFault` one direction of a link.

To add a kind, define its record and decorate it with `register`, here or in a module of its own that is imported before
scenarios are read. A `LinkFault` that acts on packets defines `act`. Faults change payloads only, never headers: the origin
of a segment and its tree belong to the emulator.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import ClassVar, Final, Literal

from emunode.errors import FrameError, RegistrationError
from emunode.faults.effects import (
    ALWAYS,
    Alters,
    Delays,
    Drifts,
    Duplicates,
    Effect,
    Effects,
    Ends,
    Interval,
    LinkEnd,
    Loses,
    Place,
    Slows,
    Stops,
)
from emunode.faults.transit import LinkTransit
from emunode.model import Port, Rank, Step
from emunode.registry import Registry, register
from emunode.topologies.base import Topology

FOREVER: Step = 2**31 - 1
"""The last step of a fault that does not end."""
PLACE_AND_TIME: Final = frozenset({"step", "last", "rank", "sender", "port"})
REALS: Final = {"rate": (0.0, 1.0), "factor": (1.0, 1e6), "spread": (0.0, 1e3), "drift": (-0.9, 10.0)}
"""The fields of faults that are real numbers, with their ranges; all other values are whole numbers."""


class Moment(int):
    """A time in nanoseconds since the run began.

    It stands in place of the step of a fault. As `last` it is the time of the end.
    """


@dataclass(frozen=True)
class Fault:
    """A fault that takes effect at the beginning of `step`.

    >>> fault = Hang(step=2, rank=5, last=4)
    >>> fault.interval, fault.place, fault.breaks
    (Interval(start=2, end=5), 5, True)
    >>> stated(fault)
    [Stops(forgets=False)]
    """

    step: Step
    text: str = field(default="", kw_only=True, compare=False)
    """The text of the scenario that states this fault.

    One text may state many faults, such as one for each direction of a link.
    """

    form: ClassVar[str]
    """Its syntax in a scenario; it begins with the name of the kind."""
    affects_timing: ClassVar[bool] = True
    """Whether other nodes can receive packets early or late.

    A node then delays a send that the port model forbids at that time.
    """
    alters_payload: ClassVar[bool] = False
    """Whether it changes payloads."""
    slows: ClassVar[bool] = False
    """Whether it changes nothing but times.

    Such a fault needs the timed clock, and its node counts as healthy.
    """
    revives: ClassVar[bool] = False
    """Whether a crashed rank returns by it, with fresh state."""
    evidence: ClassVar[tuple[str, ...]]
    """Outcomes of hops that show its effect."""
    built_in: ClassVar[bool] = False
    """Whether the engines carry it out by its class; other kinds act on packets (`LinkFault.act`)."""

    @property
    def end(self) -> Step:
        """The last step of its effect."""
        return getattr(self, "last", FOREVER)

    @property
    def interval(self) -> Interval:
        """The steps of its effect; the times, if it is given by times."""
        if self.end == FOREVER:
            return Interval(self.step, ALWAYS)
        return Interval(self.step, self.end if isinstance(self.end, Moment) else self.end + 1)

    @property
    def breaks(self) -> bool:
        """Whether it can cost or alter a delivery.

        A repair, a slow node and a fault with a rate of 0 cannot. A kind that does not state its effects may.
        """
        effects = stated_effects(self)
        return effects is None or any(_can_harm(effect) for _, _, effect in effects)

    @property
    def place(self) -> Place:
        """The rank, or the direction of a link, that the fault affects."""
        raise NotImplementedError

    def effects(self) -> Effects:
        """State what the fault does, where and when.

        Everything but the engines knows the fault in this form. A kind that does not define this method is carried out,
        but refused where an exact answer is needed. Two faults that differ only in their place have the same effects,
        each at its own place.
        """
        raise NotImplementedError(f"{kind_of(self)} does not define effects()")

    def silent_at(self, seed: int, port: Port) -> bool | None:
        """Report whether nothing leaves `port` while the fault is in force.

        None if that differs from copy to copy.
        """
        del seed, port
        return None

    def there(self, *effects: Effect) -> Effects:
        """State effects at the place of the fault while it is in force."""
        return [(self.place, self.interval, effect) for effect in effects]


@dataclass(frozen=True)
class NodeFault(Fault):
    """A fault of one rank.

    >>> fault = Crash(step=2, rank=5)
    >>> isinstance(fault, NodeFault), fault.place, fault.state
    (True, 5, 'crashed')
    """

    rank: Rank

    state: ClassVar[str]
    """The state of the rank in nodes.parquet."""
    mark: ClassVar[Literal["", "cross", "diamond"]] = ""
    """The mark of the rank in pictures."""
    shown_as: ClassVar[Literal["sender", "receiver"]] = "receiver"
    """The end of a hop that shows `evidence`.

    A rank is seen by what it sends, or by what does not reach it.
    """
    withholds: ClassVar[bool] = False
    """Whether it may withhold copies."""

    @property
    def place(self) -> Rank:
        return self.rank


@dataclass(frozen=True)
class LinkFault(Fault):
    """A fault of one direction of a link.

    It affects the packets that `sender` sends by `port`.

    >>> fault = Down(step=2, sender=5, port=1)
    >>> isinstance(fault, LinkFault), fault.place, fault.counts_packets
    (True, (5, 1), False)
    """

    sender: Rank
    port: Port

    @property
    def place(self) -> LinkEnd:
        return self.sender, self.port

    @property
    def counts_packets(self) -> bool:
        """Whether the fault may count the packets that it meets.

        A kind that does not state its effects may.
        """
        effects = stated_effects(self)
        return effects is None or any(isinstance(each, Loses) and each.packet is not None for _, _, each in effects)

    def act(self, transit: LinkTransit) -> None:
        """Apply the fault to a packet.

        By default nothing happens: some faults are of the connection itself.
        """


def _name(record: type[Fault]) -> str:
    return record.form.partition(":")[0]


def _check(record: type[Fault]) -> None:
    """Refuse a kind of fault that cannot work.

    It must be of nodes or of links, be a frozen dataclass of its own, and have an effect. A kind of nodes must have a
    state.
    """
    name = f"fault kind {record.__module__}.{record.__qualname__}"
    if not issubclass(record, NodeFault | LinkFault):
        raise RegistrationError(f"{name} is neither a NodeFault nor a LinkFault")
    if issubclass(record, NodeFault) and not hasattr(record, "state"):
        raise RegistrationError(f"{name} does not define state")
    if "__dataclass_fields__" not in vars(record):
        raise RegistrationError(f"{name} is not decorated as a frozen dataclass")
    if "text" in record.__annotations__:
        raise RegistrationError(f"{name} has a field text, the name for the text that states a fault: rename it")
    if record.built_in:
        return
    if issubclass(record, NodeFault):
        raise RegistrationError(f"{name} has no effect: derive it from ByzantineFault, or from a kind such as Hang")
    if record.slows or record.act is LinkFault.act:
        raise RegistrationError(f"{name} has no effect: define act, or derive it from a kind such as Down or SlowLink")


KINDS: Final = Registry[str, type[Fault]]("fault kind", Fault, key=_name, required=("form", "evidence"), check=_check)
"""Every kind of fault, by its name in scenarios, journals and on the wire; faults of a step act in this order."""


@register
@dataclass(frozen=True)
class Crash(NodeFault):
    """From the beginning of `step`, `rank` is gone: its connections are reset and its state is lost.

    >>> stated(Crash(step=2, rank=5))
    [Stops(forgets=True)]
    """

    built_in = True
    form = "crash:LABEL@STEP"
    state = "crashed"
    mark = "cross"
    affects_timing = False
    evidence = ("lost",)

    def effects(self) -> Effects:
        return self.there(Stops(forgets=True))


@register
@dataclass(frozen=True)
class Hang(NodeFault):
    """From `step` to `last`, `rank` neither reads nor sends; it keeps its state and continues afterwards.

    >>> stated(Hang(step=2, rank=5, last=7))
    [Stops(forgets=False)]
    """

    last: Step = FOREVER

    built_in = True
    form = "hang:LABEL@STEP[-STEP]"
    state = "hung"
    mark = "cross"
    evidence = ("lost",)

    def effects(self) -> Effects:
        return self.there(Stops())


@register
@dataclass(frozen=True)
class Recover(NodeFault):
    """At the beginning of `step`, a crashed `rank` returns with fresh state and all links up.

    >>> stated(Recover(step=2, rank=5))
    [Ends(effects=(Stops(forgets=True),))]
    """

    built_in = True
    form = "recover:LABEL@STEP"
    state = "recovered"
    revives = True
    evidence = ("first", "duplicate", "relay", "corrupt")

    def effects(self) -> Effects:
        return self.there(Ends((Stops(forgets=True),)))


@register
@dataclass(frozen=True)
class Down(LinkFault):
    """From `step` to `last`, nothing crosses; the connection of a link that is down in both directions is closed.

    >>> stated(Down(step=2, sender=5, port=1, last=7))
    [Stops(forgets=False)]
    """

    last: Step = FOREVER

    built_in = True
    form = "down:A~B@STEP[-STEP]"
    evidence = ("lost",)

    def effects(self) -> Effects:
        return self.there(Stops())


@register
@dataclass(frozen=True)
class Up(LinkFault):
    """At the beginning of `step`, a direction that was down is up again.

    >>> stated(Up(step=2, sender=5, port=1))
    [Ends(effects=(Stops(forgets=False),))]
    """

    built_in = True
    form = "up:A~B@STEP"
    evidence = ("first", "duplicate", "relay", "corrupt")

    def effects(self) -> Effects:
        return self.there(Ends((Stops(),)))


@register
@dataclass(frozen=True)
class Heal(Up):
    """At the beginning of `step`, every fault of a direction that began before ends; delayed packets still come late.

    >>> stated(Heal(step=2, sender=5, port=1))
    [Ends(effects=None)]
    """

    form = "heal:A~B@STEP"

    def effects(self) -> Effects:
        return self.there(Ends())


@dataclass(frozen=True)
class RatedFault(LinkFault):
    """A fault that affects each packet with a probability of `rate`.

    >>> fault = Loss(step=1, sender=5, port=1, rate=0.25)
    >>> isinstance(fault, RatedFault), is_random(fault), is_random(Loss(step=1, sender=5, port=1, rate=1.0))
    (True, True, False)
    """

    rate: float
    last: Step = FOREVER

    def act(self, transit: LinkTransit) -> None:
        if transit.occurs(self.rate):
            self.apply(transit)

    def apply(self, transit: LinkTransit) -> None:
        """Change the fate of a packet that was chosen."""
        raise NotImplementedError


@register
@dataclass(frozen=True)
class Loss(RatedFault):
    """A packet is lost with a probability of `rate`.

    >>> stated(Loss(step=2, sender=5, port=1, rate=0.25, last=7))
    [Loses(probability=0.25, choice=<Choice.PACKET: 'packet'>, packet=None)]
    """

    form = "loss:A~B:RATE[@STEP[-STEP]]"
    evidence = ("lost",)

    def apply(self, transit: LinkTransit) -> None:
        transit.lost = True

    def effects(self) -> Effects:
        return self.there(Loses(self.rate))


@register
@dataclass(frozen=True)
class Corrupt(RatedFault):
    """A packet arrives with other bytes than were sent, with a probability of `rate`.

    >>> stated(Corrupt(step=2, sender=5, port=1, rate=0.25, last=7))
    [Alters(probability=0.25, choice=<Choice.PACKET: 'packet'>, alike=False)]
    """

    form = "corrupt:A~B:RATE[@STEP[-STEP]]"
    affects_timing = False
    alters_payload = True
    evidence = ("corrupt",)

    def apply(self, transit: LinkTransit) -> None:
        transit.alter()

    def effects(self) -> Effects:
        return self.there(Alters(self.rate))


@register
@dataclass(frozen=True)
class Duplicate(RatedFault):
    """A packet arrives twice in its step, with a probability of `rate`.

    >>> stated(Duplicate(step=2, sender=5, port=1, rate=0.25, last=7))
    [Duplicates(probability=0.25)]
    """

    form = "duplicate:A~B:RATE[@STEP[-STEP]]"
    evidence = ("duplicate", "relay", "corrupt")

    def apply(self, transit: LinkTransit) -> None:
        transit.copies *= 2

    def effects(self) -> Effects:
        return self.there(Duplicates(self.rate))


@register
@dataclass(frozen=True)
class Delay(LinkFault):
    """A packet crosses `steps` steps later; under the timed clock by that many times startup + bytes x per_byte.

    >>> stated(Delay(step=2, sender=5, port=1, steps=3, last=7))
    [Delays(steps=3)]
    """

    steps: int
    last: Step = FOREVER

    form = "delay:A~B:STEPS[@STEP[-STEP]]"
    evidence = ("first", "duplicate", "relay", "corrupt")

    def act(self, transit: LinkTransit) -> None:
        transit.delay += self.steps

    def effects(self) -> Effects:
        return self.there(Delays(self.steps))


@register
@dataclass(frozen=True)
class Drop(LinkFault):
    """Packet number `packet`, counted from `step` on, is lost.

    >>> stated(Drop(step=2, sender=5, port=1, packet=2, last=7))
    [Loses(probability=1.0, choice=<Choice.PACKET: 'packet'>, packet=2)]
    """

    packet: int
    last: Step = FOREVER

    form = "drop:A~B:NUMBER[@STEP[-STEP]]"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        if transit.number() == self.packet:
            transit.lost = True

    def effects(self) -> Effects:
        return self.there(Loses(packet=self.packet))


CARRIED_OUT_BY: Final = ("act", "apply", "treatment", "silent_at")
"""The methods that let a kind act on packets."""


def states_effects(kind: type[Fault]) -> bool:
    """Report whether a kind states its effects.

    A kind that changes what its base class does has to state them anew.
    """
    stated = next(number for number, base in enumerate(kind.__mro__) if "effects" in vars(base))
    acts = (number for number, base in enumerate(kind.__mro__) if not set(CARRIED_OUT_BY).isdisjoint(vars(base)))
    return kind.__mro__[stated] is not Fault and stated <= next(acts, stated)


def stated_effects(fault: Fault) -> list[tuple[Place, Interval, Effect]] | None:
    """Return what a fault states that it does; None if its kind states nothing.

    Effects of probability 0 are left out. Only this function calls `Fault.effects`: whether a fault is random, exact,
    permanent or harmful follows from its answer.
    """
    if not states_effects(type(fault)):
        return None
    return [each for each in fault.effects() if getattr(each[2], "probability", 1.0) > 0]


def stated(fault: Fault) -> list[Effect]:
    """Return the effects that a fault states, whenever they begin.

    Empty if its kind does not state them.
    """
    return [effect for _, _, effect in stated_effects(fault) or ()]


def is_outage(fault: Fault) -> bool:
    """Report whether a fault only stops its link while it is in force.

    The engines carry out every such kind in the same way. So detectors, repairs and the knowledge of faults treat all of
    them alike.
    """
    return isinstance(fault, LinkFault) and stated_effects(fault) == [(fault.place, fault.interval, Stops())]


def ends_others(fault: Fault) -> bool:
    """Report whether a fault states that it ends the effects of earlier ones."""
    return any(isinstance(effect, Ends) for effect in stated(fault))


def why_random(fault: Fault) -> str | None:
    """Return why another seed may give another history, or None.

    It may if an effect has a probability between 0 and 1, or a spread. A kind that does not state its effects may be
    random.
    """
    if not states_effects(type(fault)):
        return f"{kind_of(fault)} does not define effects(), so it may draw random numbers during a run"
    drawn = any(getattr(each, "probability", 1.0) < 1 or getattr(each, "spread", 0.0) > 0 for each in stated(fault))
    return f"{kind_of(fault)} draws random numbers during a run" if drawn else None


def is_random(fault: Fault) -> bool:
    """Report whether another seed can give another history."""
    return why_random(fault) is not None


def _can_harm(effect: Effect) -> bool:
    """Report whether an effect can cost or alter a delivery.

    A rank that returns after a crash can: it has lost what it had received.
    """
    if isinstance(effect, Ends):
        return Stops(forgets=True) in (effect.effects or ())
    return not isinstance(effect, Slows | Drifts)


def kind_of(fault: Fault) -> str:
    """Return the name of a fault's kind."""
    return _name(type(fault))


def to_record(fault: Fault) -> tuple[object, ...]:
    """Return a fault as plain values: its kind, then its fields."""
    return (kind_of(fault), *_values(fault))


def from_record(record: object, topology: Topology) -> Fault:
    """Return the inverse of `to_record`.

    Raises FrameError unless it is a fault of a rank or link of `topology`.
    """
    if not isinstance(record, list | tuple) or not record or not isinstance(record[0], str) or record[0] not in KINDS:
        raise FrameError(f"malformed fault {record!r:.200}")
    kind = KINDS[record[0]]
    names = field_names(kind)
    if len(record) != 1 + len(names):
        raise FrameError(f"malformed fault {record!r:.200}: {record[0]} has {len(names)} fields")
    values = dict(zip(names, record[1:], strict=True))
    most = {"rank": topology.order - 1, "sender": topology.order - 1, "port": topology.degree - 1}
    for name, value in values.items():
        lowest, highest = REALS.get(name, (0, most.get(name, FOREVER)))
        if type(value) is not (float if name in REALS else int) or not lowest <= value <= highest:
            raise FrameError(f"malformed fault {record!r:.200}: {name} is {value!r:.80}")
    if "port" in values and values["port"] not in topology.ports(values["sender"]):
        raise FrameError(f"malformed fault {record!r:.200}: rank {values['sender']} has no port {values['port']}")
    return kind(**values)


def in_order(faults: Iterable[Fault]) -> tuple[Fault, ...]:
    """Return the faults in the order of their effects."""
    faults = tuple(faults)
    if len(faults) < 2:
        return faults
    place = {record: number for number, record in enumerate(KINDS.values())}
    return tuple(sorted(faults, key=lambda fault: (fault.step, place[type(fault)], _values(fault))))


def _values(fault: Fault) -> tuple[object, ...]:
    """Return the fields of a fault.

    Not by `astuple`, which copies every value: a trial sorts its faults several times.
    """
    return tuple([getattr(fault, name) for name in field_names(type(fault))])


_FIELDS: Final[dict[type[Fault], tuple[str, ...]]] = {}


def field_names(kind: type[Fault]) -> tuple[str, ...]:
    """Return the fields of a kind of fault, in order, without its text."""
    if kind not in _FIELDS:
        _FIELDS[kind] = tuple(each.name for each in fields(kind) if each.name != "text")
    return _FIELDS[kind]


def value_names(kind: type[Fault]) -> tuple[str, ...]:
    """Return the fields of a kind of fault that state neither its place nor its time."""
    return tuple(name for name in field_names(kind) if name not in PLACE_AND_TIME)
