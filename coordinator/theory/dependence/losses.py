"""The messages that a collective loses to outages, computed from its schedule without a run.

During an outage a node neither sends nor receives, or a directed link carries nothing. A packet that should cross in
such a step is lost, and hops that depend on it are not sent, or lack a contribution. Nothing is sent again, so all
other packets keep their steps. Therefore one walk over the affected hops, in order of steps, decides which messages are
lost, and to which outage.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from coordinator.theory.dependence.outages import Outages
from coordinator.theory.dependence.size import InexactError, stated_hops
from emunode.algorithms.base import Algorithm, Dependence
from emunode.algorithms.registry import make_algorithm
from emunode.faults.effects import Place
from emunode.model import Collective, FaultKnowledge, Rank, Step

if TYPE_CHECKING:
    from coordinator.theory.dependence.schedule import Schedule

MOST_HOPS: Final = 500_000
"""Hops of the largest schedule with computed losses: some ten seconds, most of them for the run without faults."""
HOP_BYTES: Final = 1000
"""Memory per hop of a schedule with computed losses. Measured: 960 for 80,638 hops in S_8."""


@dataclass
class Losses:
    """The deliveries that healthy ranks miss under some outages, and the causes."""

    delivered: int = 0
    """Messages that healthy ranks receive completely and intact."""
    traced: bool = True
    """Whether the losses follow from the schedule that runs, so that claims about them are derived."""
    causes: dict[Rank, set[Place]] = field(default_factory=dict)
    """For each rank that misses a message, or in a gather each origin of one: the outages that blocked its copies, or
    contributions to it."""


def losses(algorithm: Algorithm, outages: Outages) -> Losses | None:
    """Return the losses of an algorithm to outages, or None if the schedule alone does not determine them.

    Exact for all outages, except over queues: there only for outages from the first step to the end.
    """
    match algorithm.dependence:
        case Dependence.UNSTATED:
            return None
        case Dependence.FIRST_ARRIVAL:
            return _of_first_arrivals(algorithm, outages)
        case Dependence.LISTED:
            return _of_listed(algorithm, outages)
        case _:
            dependents = dependents_of(algorithm)
            return None if dependents is None else _Walk(algorithm, dependents, outages).losses()


def _of_first_arrivals(algorithm: Algorithm, outages: Outages) -> Losses | None:
    """Return the losses of a broadcast whose ranks pass on the first copy that arrives."""
    # Ranks that learn of a fault during the run change their sends.
    if algorithm.spec.knowledge is not FaultKnowledge.NONE and not outages.permanent:
        return None
    source, missing = algorithm.spec.source, set()
    # A flood reaches every rank with any path to it, so a search without the blocked hops finds the ranks that are
    # reached.
    healthy = [rank for rank in algorithm.topology.data_ranks if rank != source and rank not in outages.faulty]
    found = Losses(algorithm.spec.messages * len(healthy), traced=False)
    for segment in range(algorithm.spec.messages * algorithm.segments_per_message):
        blocked: set[Place] = set()

        def crosses(step: Step, sender: Rank, port: int, receiver: Rank, blocked: set[Place] = blocked) -> bool:
            place = outages.blocks(step, sender, port, receiver)
            if place is not None:
                blocked.add(place)
            return place is None

        reached = algorithm.follow(segment, crosses)
        for rank in healthy:
            if rank not in reached:
                missing.add((rank, segment // algorithm.segments_per_message))
                # Without any one of the outages that the search met, the rank might have been reached.
                found.causes.setdefault(rank, set()).update(blocked)
    found.delivered -= len(missing)
    return found


def _of_listed(algorithm: Algorithm, outages: Outages) -> Losses:
    """Return the losses of messages of a schedule that lists the receipts each send waits for."""
    blocked: set[Place] = set()

    def crosses(step: Step, sender: Rank, port: int, receiver: Rank) -> bool:
        place = outages.blocks(step, sender, port, receiver)
        if place is not None:
            blocked.add(place)
        return place is None

    faulty = outages.faulty
    missing = [each for each in algorithm.lost_messages(crosses) if faulty.isdisjoint((each.origin, each.target))]
    due = sum(faulty.isdisjoint((each.origin, each.target)) for each in algorithm.listed)
    # A message that was never sent waited for others, so any outage that was met may be the cause.
    return Losses(due - len(missing), causes={each.target: set(blocked) for each in missing})


# --- along a schedule ----------------------------------------------------------------------------------------------------


class Dependents:
    """The hops of a schedule by the places that they use and by the hops that they need, and the messages they carry."""

    def __init__(self, algorithm: Algorithm, schedule: "Schedule") -> None:
        self.step: list[int] = schedule.step.tolist()
        self.sender: list[int] = schedule.sender.tolist()
        self.port: list[int] = schedule.port.tolist()
        self.receiver: list[int] = schedule.receiver.tolist()
        self.carried: list[int] = schedule.carried.tolist()
        self.sent_by: dict[Rank, list[int]] = {}
        self.sent_to: dict[Rank, list[int]] = {}
        self.across: dict[tuple[Rank, int], list[int]] = {}
        self.carries: dict[int, list[int]] = {}
        """By hop, the hops that pass its copy on."""
        self.folded: Mapping[int, Sequence[int]] = {}
        """By hop with a partial result, the hops whose contents went into it."""
        self.folds: dict[int, list[int]] = {}
        """By hop, the hops that its content went into."""
        for hop, (sender, port, receiver, carried) in enumerate(
            zip(self.sender, self.port, self.receiver, self.carried, strict=True)
        ):
            self.sent_by.setdefault(sender, []).append(hop)
            self.sent_to.setdefault(receiver, []).append(hop)
            self.across.setdefault((sender, port), []).append(hop)
            if carried >= 0:
                self.carries.setdefault(carried, []).append(hop)
        if len(schedule.fold_order):
            self.folded = {hop: found for hop in range(len(schedule)) if (found := schedule.folded(hop).tolist())}
            for hop, contents in self.folded.items():
                for content in contents:
                    self.folds.setdefault(content, []).append(hop)
        self._read_messages(algorithm, schedule)

    def _read_messages(self, algorithm: Algorithm, schedule: "Schedule") -> None:
        from coordinator.theory.dependence.schedule import due_messages  # noqa: PLC0415  # it imports numpy

        due = due_messages(algorithm, schedule)
        message_of = {
            int(piece): message for column in due.pieces.columns for message, piece in enumerate(column.tolist())
        }
        self.receivers: list[Rank] = due.receiver.tolist()
        """By message."""
        self.owners: list[Rank] = due.owner.tolist()
        self.piece: dict[int, int] = {}
        """By hop that brings a copy of a piece to its receiver, the piece."""
        self.copies: list[list[int]] = [[] for _ in range(len(due.copies))]
        """By piece, these hops."""
        for column in due.copies.columns:
            for piece, hop in enumerate(column.tolist()):
                self.piece[hop] = piece
                self.copies[piece].append(hop)
        self.message = [message_of[piece] for piece in range(len(self.copies))]
        """By piece, its message."""


# Without the algorithm in a value, so that an entry goes with its algorithm.
_DEPENDENTS: Final[WeakKeyDictionary[Algorithm, Dependents | None]] = WeakKeyDictionary()


def dependents_of(algorithm: Algorithm) -> Dependents | None:
    """Trace an algorithm once, and return its hops by the hops they need; None if the hops do not determine one
    another.
    """
    from coordinator.theory.dependence.schedule import trace  # noqa: PLC0415  # it imports numpy

    if algorithm not in _DEPENDENTS:
        if (stated_hops(algorithm) or 0) > MOST_HOPS:
            return None
        try:
            plain = plain_algorithm(algorithm)
            found = Dependents(plain, trace(plain, 2**31 - 1, MOST_HOPS)[0])
        except InexactError:
            found = None
        _DEPENDENTS[algorithm] = found
    return _DEPENDENTS[algorithm]


def plain_algorithm(algorithm: Algorithm) -> Algorithm:
    """Return the algorithm without the protocols of a run; they send the same packets where nothing fails."""
    spec, plain = algorithm.spec, algorithm.spec.without_protocols()
    if algorithm.original is not algorithm:
        # The trees of this algorithm are the trees that the repair has planned.
        return make_algorithm(algorithm.topology, plain)
    return algorithm if plain == spec else type(algorithm)(algorithm.topology, plain)


class _Walk:
    """One pass over the hops that outages affect."""

    def __init__(self, algorithm: Algorithm, dependents: Dependents, outages: Outages) -> None:
        self._algorithm = algorithm
        self._on = dependents
        self._outages = outages
        self._lost: dict[int, Place] = {}
        """By hop that does not arrive, the first outage on the way of its copy."""
        self._lacking: dict[int, set[Place]] = {}
        """By hop without some contribution that it should bring, the outages that cost it one."""
        self._missed: dict[Rank, list[tuple[Step, Place]]] = {}
        """By rank that waits for packets, the missed packets, with the steps of their planned arrival."""

    def losses(self) -> Losses:
        self._follow()
        on, algorithm, faulty = self._on, self._algorithm, self._outages.faulty
        silent = owners_are_silent(algorithm)
        due = [
            receiver not in faulty and not (silent and owner in faulty)
            for receiver, owner in zip(on.receivers, on.owners, strict=True)
        ]
        found, missing = Losses(), set()
        # Only hops that bring a piece to its receiver cost a delivery; the others have done their harm in the walk.
        bad = {on.piece[hop] for hop in (*self._lost, *self._lacking) if hop in on.piece}
        blamed = on.owners if algorithm.collective is Collective.GATHER else on.receivers
        for piece in sorted(bad):
            message, copies = on.message[piece], on.copies[piece]
            # One whole copy is enough.
            if due[message] and all(hop in self._lost or hop in self._lacking for hop in copies):
                missing.add(message)
                found.causes.setdefault(blamed[message], set()).update(*map(self._causes, copies))
        found.delivered = sum(due) - len(missing)
        return found

    def _causes(self, hop: int) -> set[Place]:
        lacking = self._lacking.get(hop, set())
        return {self._lost[hop], *lacking} if hop in self._lost else lacking

    def _follow(self) -> None:
        on, waits = self._on, self._algorithm.dependence is Dependence.WAITING
        # Hops are numbered by steps, and a hop needs only hops of earlier steps. So the lowest waiting number can be
        # decided: everything that it needs is decided already.
        waiting = list(set(self._blocked()))
        heapify(waiting)
        decided = -1
        while waiting:
            hop = heappop(waiting)
            # A hop waits once for every reason; equal numbers come one after the other.
            if hop == decided:
                continue
            decided = hop
            place, lacking = self._loss(hop, waits=waits), self._lacks(hop)
            after: Iterable[int] = (*on.carries.get(hop, ()), *on.folds.get(hop, ()))
            if lacking:
                self._lacking[hop] = lacking
            if place is not None:
                self._lost[hop] = place
                if waits:
                    receiver = on.receiver[hop]
                    self._missed.setdefault(receiver, []).append((on.step[hop], place))
                    # A rank that waits for a packet in vain sends nothing that comes after it.
                    after = (*after, *(each for each in on.sent_by.get(receiver, ()) if each > hop))
            if lacking or place is not None:
                for each in after:
                    heappush(waiting, each)

    def _blocked(self) -> Iterator[int]:
        """Yield the hops at places that are out of service at any time."""
        on, outages = self._on, self._outages
        for rank in outages.nodes:
            yield from on.sent_by.get(rank, ())
            yield from on.sent_to.get(rank, ())
        for link in outages.links:
            yield from on.across.get(link, ())

    def _loss(self, hop: int, *, waits: bool) -> Place | None:
        """Return the outage that keeps a hop from arriving."""
        on, step, sender = self._on, self._on.step[hop], self._on.sender[hop]
        # The first outage on the way is the cause: a copy that is lost already cannot be lost again.
        place = self._lost.get(on.carried[hop])
        if place is None and waits and sender in self._missed:
            awaited = self._algorithm.awaited_steps(step)
            place = next((each for missed, each in self._missed[sender] if missed in awaited), None)
        if place is None:
            place = self._outages.blocks(step, sender, on.port[hop], on.receiver[hop])
        return place

    def _lacks(self, hop: int) -> set[Place]:
        """Return the outages that cost the content of a hop a contribution."""
        found = set(self._lacking.get(self._on.carried[hop], ()))
        for content in self._on.folded.get(hop, ()):
            if content in self._lost or content in self._lacking:
                found |= self._causes(content)
        return found


def owners_are_silent(algorithm: Algorithm) -> bool:
    """Report whether messages of faulty ranks are due to no rank: in collectives with many sources."""
    spec = algorithm.spec
    many = (Collective.GATHER, Collective.ALLGATHER, Collective.ALLTOALL, Collective.MESSAGES)
    if spec.collective in many or spec.permutation:
        return True
    # An allreduce in blocks: the block of a faulty rank is not distributed. A whole result is folded at every rank.
    return spec.collective is Collective.ALLREDUCE and len(algorithm.block_owners) > 1
