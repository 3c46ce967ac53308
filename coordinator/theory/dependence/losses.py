"""The messages that a collective loses to outages, computed from its schedule without a run.

During an outage a node neither sends nor receives, or a directed link carries nothing. A packet that should cross in
such a step is lost, and hops that depend on it are not sent, or lack a contribution. Nothing is sent again, so all
other packets keep their steps: one pass over the schedule (`follow`) decides which messages are lost. The outages to blame
are found backwards from these.
"""

from dataclasses import dataclass, field
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from coordinator.theory.dependence.bit_rows import Bits
from coordinator.theory.dependence.follow import Flow, follow
from coordinator.theory.dependence.outages import Outages
from coordinator.theory.dependence.schedule import (
    BEGIN,
    DueMessages,
    Schedule,
    StepHops,
    due_messages,
    plain_algorithm,
    trace,
)
from coordinator.theory.dependence.size import LOSS_HOPS, InexactError, stated_hops
from emunode.algorithms.base import Algorithm, Dependence
from emunode.algorithms.traits import ListsMessages, PassesFirstArrivals, awaited_steps
from emunode.faults.effects import Place
from emunode.model import Collective, FaultKnowledge, Rank, Step


@dataclass
class Losses:
    """The deliveries that healthy ranks miss under some outages, and the causes."""

    delivered: int = 0
    """Messages that healthy ranks receive completely and intact."""
    traced: bool = True
    """Whether the losses follow from the schedule that runs, so that claims about them are derived."""
    causes: dict[Rank, set[Place]] = field(default_factory=dict)
    """Rank that misses a message -> outages to blame; in a gather: origin of a missed message -> outages."""


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
            return _of_schedule(algorithm, outages)


def _of_first_arrivals(algorithm: Algorithm, outages: Outages) -> Losses | None:
    """Return the losses of a broadcast whose ranks pass on the first copy that arrives."""
    # Ranks that learn of a fault during the run change their sends.
    if algorithm.spec.knowledge is not FaultKnowledge.NONE and not outages.permanent:
        return None
    assert isinstance(algorithm, PassesFirstArrivals)
    source, missing = algorithm.spec.source, set()
    healthy = [rank for rank in algorithm.topology.data_ranks if rank != source and rank not in outages.faulty]
    losses = Losses(algorithm.spec.messages * len(healthy), traced=False)
    for segment in range(algorithm.spec.messages * algorithm.segments_per_message):
        blocked: set[Place] = set()

        def crosses(step: Step, sender: Rank, port: int, receiver: Rank, blocked: set[Place] = blocked) -> bool:
            place = outages.blocks(step, sender, port, receiver)
            if place is not None:
                blocked.add(place)
            return place is None

        # A flood reaches every rank with any path to it, so a search without the blocked hops finds these ranks.
        reached = algorithm.follow(segment, crosses)
        for rank in healthy:
            if rank not in reached:
                missing.add((rank, segment // algorithm.segments_per_message))
                # Without any one of the outages that the search met, the rank might have been reached.
                losses.causes.setdefault(rank, set()).update(blocked)
    losses.delivered -= len(missing)
    return losses


def _of_listed(algorithm: Algorithm, outages: Outages) -> Losses:
    """Return the losses of messages of a schedule that lists the receipts each send waits for."""
    blocked: set[Place] = set()

    def crosses(step: Step, sender: Rank, port: int, receiver: Rank) -> bool:
        place = outages.blocks(step, sender, port, receiver)
        if place is not None:
            blocked.add(place)
        return place is None

    assert isinstance(algorithm, ListsMessages)
    faulty = outages.faulty
    missing = [each for each in algorithm.lost_messages(crosses) if faulty.isdisjoint((each.origin, each.target))]
    due = sum(faulty.isdisjoint((each.origin, each.target)) for each in algorithm.listed)
    # A message that was never sent waited for others, so any outage that was met may be the cause.
    return Losses(due - len(missing), causes={each.target: set(blocked) for each in missing})


# --- along a schedule ----------------------------------------------------------------------------------------------------


def _of_schedule(algorithm: Algorithm, outages: Outages) -> Losses | None:
    """Return the losses of an algorithm whose hops determine one another."""
    traced = _traced(algorithm)
    if traced is None:
        return None
    schedule, due = traced
    flow = follow(schedule, _OutageEffects(algorithm, schedule, outages), totals=False)
    intact = due.copies.any(flow.right)
    faulty = sorted(outages.faulty)
    is_due = ~np.isin(due.receiver, faulty)
    if owners_are_silent(algorithm):
        is_due &= ~np.isin(due.owner, faulty)
    missing = np.flatnonzero(is_due & (due.segments.all(intact)[:, 0] == 0)).tolist()
    losses = Losses(int(is_due.sum()) - len(missing))
    blame = _Blame(algorithm, schedule, outages, flow)
    blamed = due.owner if algorithm.collective is Collective.GATHER else due.receiver
    for message in missing:
        # One whole copy of each segment is enough.
        lost = [segment for segment in due.segments.members(message) if not intact[segment, 0]]
        copies = (copy for segment in lost for copy in due.copies.members(segment))
        losses.causes.setdefault(int(blamed[message]), set()).update(*map(blame.of, copies))
    return losses


# Without the algorithm in a value, so that an entry goes with its algorithm.
_TRACED: Final[WeakKeyDictionary[Algorithm, tuple[Schedule, DueMessages] | None]] = WeakKeyDictionary()


def _traced(algorithm: Algorithm) -> tuple[Schedule, DueMessages] | None:
    """Trace an algorithm once; None if its hops do not determine one another, or are too many."""
    if algorithm not in _TRACED:
        if (stated_hops(algorithm) or 0) > LOSS_HOPS:
            return None
        try:
            plain = plain_algorithm(algorithm)
            schedule = trace(plain, 2**31 - 1, LOSS_HOPS)[0]
            _TRACED[algorithm] = schedule, due_messages(plain, schedule)
        except InexactError:
            _TRACED[algorithm] = None
    return _TRACED[algorithm]


class _OutageEffects:
    """Outages as one trial: they stop the hops at their places."""

    trials = 1

    def __init__(self, algorithm: Algorithm, schedule: Schedule, outages: Outages) -> None:
        self.has_values = len(schedule.fold_order) > 0
        self._schedule = schedule
        self._algorithm = algorithm
        self._stuck: list[Rank] = []
        self._crosses = (~_stopped(schedule, outages)).astype(np.uint64)[:, None]

    def begin(self, step: Step, arrived: Bits) -> None:
        """Find the ranks that wait for a packet in vain, and send nothing that comes after it."""
        awaited = awaited_steps(self._algorithm, step)
        if awaited:
            first, last = np.searchsorted(self._schedule.step, (awaited.start, awaited.stop))
            lost = arrived[first:last, 0] == 0
            self._stuck = np.unique(self._schedule.receiver[first:last][lost]).tolist()

    def silence(self, hops: StepHops, sent: Bits) -> None:
        """Take out the hops of ranks that wait in vain."""
        if self._stuck:
            sent[np.isin(self._schedule.sender[hops.part], self._stuck)] = 0

    def cross(self, hops: StepHops, sent: Bits, wrong: Bits | None, apart: Bits | None) -> Bits:
        """Return the hops that no outage stops."""
        del wrong, apart
        crosses: Bits = sent & self._crosses[hops.part]
        return crosses


def _stopped(schedule: Schedule, outages: Outages) -> NDArray[np.bool_]:
    """Return whether each hop meets an outage at its sender, at its link or at its receiver."""
    ports = int(schedule.port.max(initial=0)) + 1
    nodes = [(rank, each) for rank, intervals in outages.nodes.items() for each in intervals]
    links = [
        (rank * ports + port, each)
        for (rank, port), intervals in outages.links.items()
        if port < ports
        for each in intervals
    ]
    stopped = np.zeros(len(schedule), np.bool_)
    for places, keys in (
        (nodes, schedule.sender),
        (nodes, schedule.receiver),
        (links, schedule.sender * ports + schedule.port),
    ):
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        for place, interval in places:
            hops = order[slice(*np.searchsorted(ordered, (place, place + 1)))]
            step = schedule.step[hops]
            stopped[hops[(interval.start <= step) & (step < interval.end)]] = True
    return stopped


class _Blame:
    """The outages behind hops that do not arrive, or that lack a contribution, found backwards."""

    def __init__(self, algorithm: Algorithm, schedule: Schedule, outages: Outages, flow: Flow) -> None:
        self._algorithm = algorithm
        self._schedule = schedule
        self._outages = outages
        self._arrived = flow.arrived[:, 0] == 1
        self._right = flow.right[:, 0] == 1
        self._lost: dict[int, Place] = {}
        """By hop that does not arrive, the first outage on the way of its copy."""
        self._lacking: dict[int, set[Place]] = {}
        """By hop, the outages that cost its content a contribution."""

    def of(self, hop: int) -> set[Place]:
        """Return the outages that keep a hop from arriving with its whole content."""
        todo, needed = [hop], set()
        while todo:
            each = todo.pop()
            if each not in self._lacking and each not in needed:
                needed.add(each)
                todo += self._needs(each)
        # Hops are numbered by steps, and a hop needs only hops of earlier steps.
        for each in sorted(needed):
            self._decide(each)
        return self._causes(hop)

    def _causes(self, hop: int) -> set[Place]:
        return self._lacking[hop] | ({self._lost[hop]} if hop in self._lost else set())

    def _decide(self, hop: int) -> None:
        carried, schedule = int(self._schedule.carried[hop]), self._schedule
        lacking = set(self._lacking[carried]) if carried in self._lacking else set()
        self._lacking[hop] = lacking.union(*map(self._causes, self._bad_contents(hop)))
        if self._arrived[hop]:
            return
        # The first outage on the way is the cause: a copy that is lost already cannot be lost again.
        place = self._lost.get(carried)
        if place is None and (awaited := self._awaited(hop)):
            place = self._lost[awaited[0]]
        if place is None:
            columns = (schedule.step, schedule.sender, schedule.port, schedule.receiver)
            place = self._outages.blocks(*(int(column[hop]) for column in columns))
        assert place is not None
        self._lost[hop] = place

    def _needs(self, hop: int) -> list[int]:
        """Return the earlier hops that decide about a hop."""
        carried = int(self._schedule.carried[hop])
        copy = [carried] if carried != BEGIN and not self._right[carried] else []
        return [*copy, *self._bad_contents(hop), *self._awaited(hop)]

    def _bad_contents(self, hop: int) -> list[int]:
        folded = self._schedule.folded(hop)
        bad: list[int] = folded[~self._right[folded]].tolist()
        return bad

    def _awaited(self, hop: int) -> list[int]:
        """Return the first lost packet that the sender waits for, if any."""
        schedule = self._schedule
        awaited = awaited_steps(self._algorithm, int(schedule.step[hop]))
        if not awaited or self._arrived[hop]:
            return []
        first, last = np.searchsorted(schedule.step, (awaited.start, awaited.stop))
        lost = ~self._arrived[first:last] & (schedule.receiver[first:last] == schedule.sender[hop])
        return [int(first) + at for at in np.flatnonzero(lost)[:1].tolist()]


def owners_are_silent(algorithm: Algorithm) -> bool:
    """Report whether messages of faulty ranks are due to no rank: in collectives with many sources."""
    spec = algorithm.spec
    many = (Collective.GATHER, Collective.ALLGATHER, Collective.ALLTOALL, Collective.MESSAGES)
    if spec.collective in many or spec.permutation:
        return True
    # An allreduce in blocks: the block of a faulty rank is not distributed. A whole result is folded at every rank.
    return spec.collective is Collective.ALLREDUCE and len(algorithm.block_owners) > 1
