"""Byzantine nodes: what a rank does with each copy that it should pass on.

A kind is one `treatment`: pass the copy on, forge it, or withhold it. The injector carries treatments out. Theory and
the audit ask the same question, so a new strategy is one class here or in a plug-in.

A value with more than half of the votes cast is elected. Let m of the x trees have a byzantine node on their path to a
receiver. A common forgery elects a wrong value if and only if 2 m > x, and no value if 2 m = x. Forgeries that all
differ never get two votes. Withheld copies cast no vote, so the receiver is right as long as m < x. Hence f <= floor((x
- 1)/2) byzantine nodes on node-disjoint paths do no harm, whatever they do (Fragopoulou and Akl 1996).
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import ClassVar, NamedTuple, Protocol

from emunode.errors import EmulatorError
from emunode.faults.effects import Alters, Choice, Effects, Loses
from emunode.faults.kinds import FOREVER, Fault, NodeFault, kind_of
from emunode.faults.transit import FaultRandom, failure
from emunode.model import Port, Rank, Step
from emunode.registry import register

CACHE_ENTRIES = 1 << 14
"""Number of origins and segments whose winning sends are kept."""
CopyId = tuple[Rank, Rank, int, int]
"""A copy: (origin, target, tree, segment)."""
SendPlace = tuple[Rank, Port]
"""A rank, and the port that it sends a copy on by."""


class CopyPath(NamedTuple):
    """The way of one copy to one receiver."""

    copy: CopyId
    receiver: Rank
    sends: Sequence[SendPlace]
    """The sends that carry it from its origin to the receiver, in order."""


class Treatment(IntEnum):
    """A rank's treatment of a copy.

    Of several faults of one rank, the largest value decides.
    """

    PASS_ON = 0
    FORGE = 1
    """The copy gets the payload that all byzantine ranks agree on for its segment."""
    FORGE_APART = 2
    """The copy gets a payload that differs by rank, port and tree."""
    WITHHOLD = 3
    """The copy is not sent; the sender records it as lost."""


class CommonPaths(Protocol):
    """The paths that byzantine ranks know."""

    def paths(self, origin: Rank, segment: int) -> Sequence[CopyPath] | None:
        """Return the paths of all copies of a segment to all its receivers.

        None if no copies are voted on.
        """


class CommonKnowledge(CommonPaths, Protocol):
    """The part of an algorithm that byzantine ranks know."""

    @property
    def content(self) -> Callable[[Rank, Rank, int], bytes | None]:
        """The right payload of (origin, target, segment), or None if it cannot be known yet."""


class Collusion:
    """The votes that colluding ranks win together, by one common forgery."""

    def __init__(self, known: CommonPaths | None, colluders: Collection[Rank]) -> None:
        self._known = known
        self._colluders = frozenset(colluders)
        self._winning = lru_cache(CACHE_ENTRIES)(self._winning_sends)

    def wins_behind(self, send: SendPlace, copy: CopyId) -> bool:
        """Return whether a receiver behind `send` elects the common forgery, if all colluders forge all its copies."""
        if self._known is None:
            return True
        origin, target, _, segment = copy
        winning = self._winning(origin, segment)
        # Without a vote, every forgery is accepted.
        return target not in self._colluders if winning is None else (send, copy) in winning

    def _winning_sends(self, origin: Rank, segment: int) -> Collection[tuple[SendPlace, CopyId]] | None:
        """Return the sends of colluders on whose copies a receiver is outvoted.

        None without a vote.
        """
        paths = self._known.paths(origin, segment) if self._known else None
        if paths is None:
            return None
        colluders, by_receiver = self._colluders, defaultdict[Rank, list[CopyPath]](list)
        for path in paths:
            if path.receiver not in colluders:
                by_receiver[path.receiver].append(path)
        return {
            (send, path.copy)
            for copies in by_receiver.values()
            # The first send is by the origin: it does not forge its own messages.
            if 2 * sum(any(rank in colluders for rank, _ in path.sends[1:]) for path in copies) > len(copies)
            for path in copies
            for send in path.sends
            if send[0] in colluders
        }


@dataclass(frozen=True)
class Sending:
    """A copy that a rank is about to send by a port, for a fault to decide on."""

    seed: int
    step: Step
    rank: Rank
    port: Port
    copy: CopyId
    collusion: Callable[[type["ByzantineFault"]], Collusion]
    """The ranks that have a fault of the given kind in force in this step, as one party."""


@dataclass(frozen=True)
class ByzantineFault(NodeFault):
    """From `step` to `last`, `rank` alters or withholds copies.

    >>> fault = Equivocate(step=2, rank=5)
    >>> isinstance(fault, ByzantineFault), fault.alters_payload, fault.state
    (True, True, 'byzantine')
    """

    built_in = True
    state = "byzantine"
    mark = "diamond"
    shown_as = "sender"
    affects_timing = False
    alters_payload = True
    evidence: ClassVar[tuple[str, ...]] = ("corrupt",)

    def treatment(self, sending: Sending) -> Treatment:
        """Return the treatment of a copy.

        It must depend on the arguments alone.
        """
        raise NotImplementedError


def treatment_by(fault: ByzantineFault, sending: Sending) -> Treatment:
    """Return the treatment of a copy by one fault.

    Raises FaultError if the code of the fault fails, which may be that of a plug-in.
    """
    try:
        return fault.treatment(sending)
    except (EmulatorError, MemoryError):
        raise
    except Exception as error:
        raise failure(kind_of(fault), sending.step, sending.rank, sending.port, error) from error


class LastingTreatments:
    """The treatment of copies by faults that last for the whole run.

    It depends only on the faults and on known paths.
    """

    def __init__(self, faults: Mapping[Rank, Iterable[Fault]], known: CommonPaths, seed: int) -> None:
        """Take all faults by rank.

        Faults that treat no copies are left out.
        """
        self._faults = {
            rank: [fault for fault in given if isinstance(fault, ByzantineFault)] for rank, given in faults.items()
        }
        self._known = known
        self._seed = seed
        self._collusions: dict[type[ByzantineFault], Collusion] = {}

    def of(self, rank: Rank, port: Port, copy: CopyId) -> Treatment:
        """Return the treatment of a copy of a message that a rank should send by a port, in any step."""
        sending = Sending(self._seed, 1, rank, port, copy, self._collusion)
        treatments = (treatment_by(fault, sending) for fault in self._faults.get(rank, ()))
        treatment = max(treatments, default=Treatment.PASS_ON)
        # A source cannot forge its own segments.
        return treatment if treatment is Treatment.WITHHOLD or copy[0] != rank else Treatment.PASS_ON

    def _collusion(self, kind: type[ByzantineFault]) -> Collusion:
        """Return the ranks with a fault of this kind, as one party.

        The party remembers the votes that it has counted.
        """
        if kind not in self._collusions:
            ranks = [rank for rank, faults in self._faults.items() if any(isinstance(each, kind) for each in faults)]
            self._collusions[kind] = Collusion(self._known, ranks)
        return self._collusions[kind]


@register
@dataclass(frozen=True)
class Byzantine(ByzantineFault):
    """From `step` to `last`, `rank` alters forwarded segments; all byzantine nodes forge the same bytes for a segment.

    >>> from emunode.faults.kinds import stated
    >>> stated(Byzantine(step=2, rank=5, last=7))
    [Alters(probability=1.0, choice=<Choice.COPY: 'copy'>, alike=True)]
    """

    last: Step = FOREVER

    form = "byzantine:LABEL[@STEP[-STEP]]"

    def treatment(self, sending: Sending) -> Treatment:
        return Treatment.FORGE

    def effects(self) -> Effects:
        return self.there(Alters(choice=Choice.COPY, alike=True))


@register
@dataclass(frozen=True)
class Equivocate(ByzantineFault):
    """From `step` to `last`, `rank` forges other bytes for each neighbour and tree, so no two forgeries agree.

    >>> from emunode.faults.kinds import stated
    >>> stated(Equivocate(step=2, rank=5, last=7))
    [Alters(probability=1.0, choice=<Choice.COPY: 'copy'>, alike=False)]
    """

    last: Step = FOREVER

    form = "equivocate:LABEL[@STEP[-STEP]]"

    def treatment(self, sending: Sending) -> Treatment:
        return Treatment.FORGE_APART

    def effects(self) -> Effects:
        return self.there(Alters(choice=Choice.COPY))


@register
@dataclass(frozen=True)
class Collude(ByzantineFault):
    """From `step` to `last`, `rank` forges as byzantine nodes do, but only where the colluding nodes win a vote behind it.

    All nodes with this fault in force know each other and the trees, and count the broken paths to each receiver.

    >>> from emunode.faults.kinds import stated
    >>> stated(Collude(step=2, rank=5, last=7))
    [Alters(probability=1.0, choice=<Choice.VOTE: 'vote'>, alike=True)]
    """

    last: Step = FOREVER

    form = "collude:LABEL[@STEP[-STEP]]"

    def treatment(self, sending: Sending) -> Treatment:
        wins = sending.collusion(Collude).wins_behind((sending.rank, sending.port), sending.copy)
        return Treatment.FORGE if wins else Treatment.PASS_ON

    def effects(self) -> Effects:
        return self.there(Alters(choice=Choice.VOTE, alike=True))


@dataclass(frozen=True)
class SilentFault(ByzantineFault):
    """From `step` to `last`, `rank` withholds copies and alters none."""

    # What others receive late or never, they may send late: as with links that lose packets.
    affects_timing = True
    alters_payload = False
    withholds = True
    evidence: ClassVar[tuple[str, ...]] = ("lost",)

    def silent_at(self, seed: int, port: Port) -> bool | None:
        raise NotImplementedError

    def treatment(self, sending: Sending) -> Treatment:
        return Treatment.WITHHOLD if self.silent_at(sending.seed, sending.port) else Treatment.PASS_ON


@register
@dataclass(frozen=True)
class Silent(SilentFault):
    """From `step` to `last`, `rank` receives but sends nothing.

    >>> from emunode.faults.kinds import stated
    >>> stated(Silent(step=2, rank=5, last=7))
    [Loses(probability=1.0, choice=<Choice.PORT: 'port'>, packet=None)]
    """

    last: Step = FOREVER

    form = "silent:LABEL[@STEP[-STEP]]"

    def silent_at(self, seed: int, port: Port) -> bool | None:
        return True

    def effects(self) -> Effects:
        return self.there(Loses(choice=Choice.PORT))


@dataclass(frozen=True)
class SelectiveFault(SilentFault):
    """A fault that affects each choice with a probability of `rate`.

    Choices do not depend on the step.
    """

    rate: float

    def chosen(self, seed: int, port: Port, choice: object) -> bool:
        """Return the choice of this rank, the same in every step."""
        # Steps count from 1: no packet on a link has this key.
        random = FaultRandom(seed, 0, self.rank, port)
        random.start(f"{type(self).__name__} {choice}")
        return random.draw() < self.rate


@register
@dataclass(frozen=True)
class SilentPorts(SelectiveFault):
    """From `step` to `last`, `rank` sends nothing by ports that are chosen with a probability of `rate` each.

    >>> from emunode.faults.kinds import stated
    >>> stated(SilentPorts(step=2, rank=5, rate=0.25, last=7))
    [Loses(probability=0.25, choice=<Choice.PORT: 'port'>, packet=None)]
    """

    last: Step = FOREVER

    form = "silent-ports:LABEL:RATE[@STEP[-STEP]]"

    def silent_at(self, seed: int, port: Port) -> bool | None:
        return self.chosen(seed, port, "")

    def effects(self) -> Effects:
        return self.there(Loses(self.rate, Choice.PORT))


@register
@dataclass(frozen=True)
class SilentSegments(SelectiveFault):
    """From `step` to `last`, `rank` sends no copy of segments that are chosen with a probability of `rate` each.

    >>> from emunode.faults.kinds import stated
    >>> stated(SilentSegments(step=2, rank=5, rate=0.25, last=7))
    [Loses(probability=0.25, choice=<Choice.SEGMENT: 'segment'>, packet=None)]
    """

    last: Step = FOREVER

    form = "silent-segments:LABEL:RATE[@STEP[-STEP]]"

    def silent_at(self, seed: int, port: Port) -> bool | None:
        return None

    def treatment(self, sending: Sending) -> Treatment:
        origin, target, _, segment = sending.copy
        # Port 0 for all ports: no neighbour gets the segment.
        withheld = self.chosen(sending.seed, 0, (origin, target, segment))
        return Treatment.WITHHOLD if withheld else Treatment.PASS_ON

    def effects(self) -> Effects:
        return self.there(Loses(self.rate, Choice.SEGMENT))


@register
@dataclass(frozen=True)
class Selective(SelectiveFault):
    """From `step` to `last`, `rank` withholds each copy with a probability of `rate`, for each port, and forges the others.

    Forged copies have the bytes that byzantine nodes agree on.

    >>> from emunode.faults.kinds import stated
    >>> stated(Selective(step=2, rank=5, rate=0.25, last=7))
    [Alters(probability=1.0, choice=<Choice.COPY: 'copy'>, alike=True), Loses(probability=0.25,
     choice=<Choice.COPY: 'copy'>, packet=None)]
    """

    last: Step = FOREVER

    form = "selective:LABEL:RATE[@STEP[-STEP]]"
    alters_payload = True
    evidence = ("corrupt", "lost")

    def silent_at(self, seed: int, port: Port) -> bool | None:
        return None

    def treatment(self, sending: Sending) -> Treatment:
        return Treatment.WITHHOLD if self.chosen(sending.seed, sending.port, sending.copy) else Treatment.FORGE

    def effects(self) -> Effects:
        return self.there(Alters(choice=Choice.COPY, alike=True), Loses(self.rate, Choice.COPY))
