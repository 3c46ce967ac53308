"""Claims about one set of faults, derived from the traced schedule where theory makes no claim about delivery.

The schedule of a run without faults is followed hop by hop under the faults of the plan: a hop is sent if the hop that
brought its content has arrived, in the same life of the sender, and the sender is in service; the faults treat each packet
by the code of the engines. Such claims hold the engines against the schedule and the faults; they cannot find an error in
the schedule, so they are marked `derived`, and they are made only where there is no other claim about delivery.
"""

from collections import defaultdict, deque
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coordinator.annexes import annex_function, has_function
from coordinator.planning.plan import Plan
from coordinator.results.claims import DELIVERY
from coordinator.results.contributions import healthy_holders
from coordinator.theory.batch.engine import batch_engine_of
from coordinator.theory.batch.exactness import LEAST_BYTES, why_untraceable
from coordinator.theory.dependence.bit_rows import Bits, Indices, mark, no_trials
from coordinator.theory.dependence.follow import Flow, follow
from coordinator.theory.dependence.schedule import BEGIN, Schedule, StepHops
from coordinator.theory.dependence.size import InexactError, stated_hops
from emunode.algorithms.base import shortest_segment_bytes
from emunode.algorithms.claims import Claim
from emunode.engine.known_paths import faults_by_steps
from emunode.faults.byzantine import Treatment
from emunode.faults.kinds import in_order
from emunode.model import ALL_RANKS, FOLDING, Rank, Segment, Step

MOST_HOPS: Final = 100_000
"""Hops of the largest schedule that is followed: about two seconds, most of them for the run without faults."""
REPEATED: Final = "claims of repeated packets"
SOURCE: Final = "the schedule without faults, followed under these faults"


def derived_claims(plan: Plan, claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims about the deliveries of a run under its faults, where `claims` leave the deliveries open
    (`results.claims.leaves_deliveries_open`).

    Empty if the hops of the schedule do not determine the deliveries either.
    """
    known = any(claim.name in DELIVERY for claim in claims)
    # By the claimed number of hops: tracing a schedule that is too long would take as long as the run.
    hops = stated_hops(plan.algorithm)
    if hops is None or hops > MOST_HOPS:
        return []
    if plan.delivers_late:
        if known or not has_function(REPEATED):
            return []
        repeated: list[Claim] = annex_function(REPEATED)(plan)
        return repeated
    exact = {claim.name for claim in claims if claim.relation == "=="}
    if known:
        # Another claim is about deliveries already; only the contributions are open.
        exact.add("intact_deliveries")
    return [claim for claim in _over_plain_links(plan) if claim.name not in exact]


def _over_plain_links(plan: Plan) -> list[Claim]:
    # The reasons are known without a trace; the trace itself may still find the schedule inexact.
    if why_untraceable(plan) is not None:
        return []
    try:
        engine = batch_engine_of(plan)
        effects = PlanEffects(plan, engine.schedule)
        flow = follow(engine.schedule, effects)
    except InexactError:
        return []
    if flow.wrong is not None and flow.wrong.any() and shortest_segment_bytes(plan.algorithm) < LEAST_BYTES:
        # A wrong content may be right by chance.
        return []
    outcome = engine.outcome(flow, faulty_ranks(plan), 1)
    values = {"intact_deliveries": int(outcome.intact[0]), "segments": int(flow.segments[0])}
    folds = plan.spec.collective in FOLDING
    least = _least_contributions(plan, engine.schedule, flow, effects.contributions) if folds else None
    if least is not None:
        values["least_contributions"] = least
    return [Claim(name, value, "==", SOURCE, derived=True) for name, value in values.items()]


# --- from hop to hop -------------------------------------------------------------------------------------------------


class PlanEffects:
    """The faults of a plan as one trial: they treat every packet by the code of the engines.

    InexactError for faults that delay packets or repeat them.
    """

    trials = 1
    has_values = True

    def __init__(self, plan: Plan, schedule: Schedule) -> None:
        self._schedule = schedule
        self._folds = plan.spec.collective in FOLDING
        self._injector = faults_by_steps(plan.algorithm)
        self._coming = deque(in_order(plan.faults))
        self._own = own_contributions(plan)
        self._arrived = no_trials(0, 1)
        self.contributions = np.zeros(len(schedule), np.int64)
        """Where contributions are folded, how many each hop carries."""

    def begin(self, step: Step, arrived: Bits) -> None:
        """Put the faults up to a step into force, one step after the other; a rank that recovers has forgotten all."""
        self._arrived = arrived
        while self._coming and self._coming[0].step <= step:
            dead, at = set(self._injector.crashed), self._coming[0].step
            self._injector.apply([self._coming.popleft() for fault in tuple(self._coming) if fault.step == at])
            for rank in dead - self._injector.crashed:
                # A packet of the step of the recovery is read by the new life; it has not arrived yet.
                arrived[:-1][self._schedule.receiver == rank] = 0

    def silence(self, hops: StepHops, sent: Bits) -> None:
        """Take out the hops of ranks that are not in service."""
        senders = self._schedule.sender[hops.part]
        for rank in np.unique(senders).tolist():
            if self._injector.silent(rank, hops.step):
                sent[senders == rank] = 0

    def cross(self, hops: StepHops, sent: Bits, wrong: Bits | None, apart: Bits | None) -> Bits:
        """Send the packets of a step, as the faults of the senders and of the links treat them."""
        assert wrong is not None
        assert apart is not None
        # What is not sent is not wrong.
        wrong &= sent
        apart &= sent
        arrived = np.zeros_like(sent)
        packets: dict[tuple[Rank, int], list[int]] = defaultdict(list)
        for at in np.flatnonzero(sent[:, 0]).tolist():
            hop = hops.part.start + at
            if self._folds and hops.carried[at] == BEGIN:
                self._count(hop)
            packets[int(self._schedule.sender[hop]), int(self._schedule.port[hop])].append(at)
        for (sender, port), together in packets.items():
            self._send(hops, sender, port, together, (arrived, wrong, apart))
        return arrived

    def _count(self, hop: int) -> None:
        """Count the contributions that a fold has when it is sent."""
        folded = self._schedule.folded(hop)
        arrived = folded[self._arrived[folded, 0] == 1]
        self.contributions[hop] = self._own[self._schedule.sender[hop]] + self.contributions[arrived].sum()

    def _send(
        self, hops: StepHops, sender: Rank, port: int, positions: Sequence[int], rows: tuple[Bits, Bits, Bits]
    ) -> None:
        """Send the segments of one packet."""
        schedule, injector, step = self._schedule, self._injector, hops.step
        arrived, wrong, apart = rows
        byzantine = injector.byzantine(step, sender)
        sent = []
        for at in positions:
            hop = hops.part.start + at
            copy = (
                int(schedule.origin[hop]),
                int(schedule.target[hop]),
                int(schedule.tree[hop]),
                int(schedule.segment[hop]),
            )
            # By the code of the engines, so that colluding nodes forge the same copies here and there.
            treatment = injector.treatment(byzantine, step, sender, port, copy) if byzantine else Treatment.PASS_ON
            if treatment is Treatment.WITHHOLD:
                continue
            if treatment is not Treatment.PASS_ON:
                wrong[at], apart[at] = 1, treatment is Treatment.FORGE_APART
            # Zeros of the right size: it only matters whether a fault changes them.
            sent.append((at, (*copy, bytes(int(schedule.size[hop])))))
        if not sent:
            return
        packet: tuple[Segment, ...] = tuple(segment for _, segment in sent)
        transit = injector.transit(step, sender, port, packet)
        if not transit.lost and (transit.delay or transit.copies != 1 or len(transit.segments) != len(packet)):
            raise InexactError("a fault delays packets, or repeats them")
        if transit.lost or injector.is_dead(step, sender, port):
            return
        for (at, before), after in zip(sent, transit.segments, strict=True):
            arrived[at] = 1
            if after != before:
                # Bytes that a link damages agree with no other copy.
                wrong[at] = apart[at] = 1


# --- results ---------------------------------------------------------------------------------------------------------


def faulty_ranks(plan: Plan) -> Bits:
    """Return the ranks with nothing due to them, as a bit row of a single trial."""
    rows = no_trials(plan.topology.order, 1)
    ranks = np.array(sorted(plan.judged.states), np.int64)
    mark(rows, ranks, np.zeros(len(ranks), np.int64))
    return rows


def _least_contributions(plan: Plan, schedule: Schedule, flow: Flow, contributions: Indices) -> int | None:
    """Return the fewest contributions in a result at a healthy rank that folds it; None where no such rank is healthy."""
    # A rank folds its own contribution without a hop.
    own = own_contributions(plan)
    results: dict[tuple[Rank, Rank, int], int] = defaultdict(int)
    for hop in np.flatnonzero((schedule.target != ALL_RANKS) & (flow.arrived[:, 0] == 1)).tolist():
        # Partial results for different blocks may pass through one rank, so the target is part of the place.
        place = int(schedule.target[hop]), int(schedule.receiver[hop]), int(schedule.segment[hop])
        results[place] += int(contributions[hop])
    segments = range(plan.spec.messages * plan.algorithm.segments_per_message)
    # In one block every rank that folds the result is the target of its own partial results.
    whole = len(plan.algorithm.block_owners) == 1
    return min(
        (
            int(own[holder]) + results[holder if whole else owner, holder, segment]
            for owner in plan.algorithm.block_owners
            for holder in healthy_holders(plan, owner)
            for segment in segments
        ),
        default=None,
    )


def own_contributions(plan: Plan) -> NDArray[np.int64]:
    """Return for each rank the number of contributions of its own: 1, or 0 for a switch."""
    return np.array([not plan.topology.is_switch(rank) for rank in plan.topology.ranks()], np.int64)
