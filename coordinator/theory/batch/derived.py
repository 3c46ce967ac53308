"""Claims about one set of faults, derived from the traced schedule where theory makes no claim about delivery.

The schedule of a run without faults is followed hop by hop under the faults of the plan: a hop is sent if the hop that
brought its content has arrived, in the same life of the sender, and the sender is in service; the faults treat each packet
by the code of the engines. Such claims hold the engines against the schedule and the faults; they cannot find an error in
the schedule, so they are marked `derived`, and they are made only where there is no other claim about delivery.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.planning.plan import Plan, make_plan
from coordinator.results.claims import DELIVERY, broken_root
from coordinator.results.contributions import healthy_holders
from coordinator.scenario.option import OptionGroup
from coordinator.theory.batch.engine import BatchEngine, batch_engine_of
from coordinator.theory.batch.exactness import LEAST_BYTES, why_untraceable
from coordinator.theory.batch.flow import Flow
from coordinator.theory.batch.reliable_walk import follow_reliable, why_not_followed
from coordinator.theory.dependence.bit_rows import Bits, mark, no_trials
from coordinator.theory.dependence.schedule import BEGIN, Schedule
from coordinator.theory.dependence.size import InexactError, stated_hops
from emunode.algorithms.claims import Claim
from emunode.engine.known_paths import faults_by_steps
from emunode.faults.byzantine import Treatment
from emunode.faults.kinds import in_order
from emunode.model import ALL_RANKS, FOLDING, Rank, Segment, Step

MOST_HOPS: Final = 100_000
"""Hops of the largest schedule that is followed: about two seconds, most of them for the run without faults."""
RELIABLE: Final = "the schedule without faults, repeated until acknowledged, with losses drawn from the seed"
SOURCE: Final = "the schedule without faults, followed under these faults"


class Followed(NamedTuple):
    """The fate of each hop under one set of faults; arrays have an entry per hop."""

    sent: NDArray[np.bool_]
    arrived: NDArray[np.bool_]
    wrong: NDArray[np.bool_]
    """Whether the hop carries a wrong content: a forged one, or a fold that lacks a contribution."""
    apart: NDArray[np.bool_]
    """Whether the wrong content differs from the contents of all other hops."""
    counts: NDArray[np.int64]
    """Where contributions are folded, how many the hop carries."""


def derived_claims(plan: Plan, claims: Sequence[Claim]) -> list[Claim]:
    """Return the claims about the deliveries of a run under its faults, where `claims` leave the deliveries open.

    Empty if the hops of the schedule do not determine the deliveries either.
    """
    folds = plan.spec.collective in FOLDING
    known = any(claim.name in DELIVERY for claim in claims)
    # A result that lacks a contribution is no delivery, so its contributions are counted besides.
    # Derived claims cannot find an error in the schedule, so an independent claim is enough where there is one.
    if known and not folds:
        return []
    # By the claimed number of hops: tracing a schedule that is too long would take as long as the run.
    hops = stated_hops(plan.algorithm)
    # A kind that does not state its effects may change anything, also what a packet carries: nothing exact is claimed.
    if not plan.harmful_faults or plan.timeline.opaque or broken_root(plan) or hops is None or hops > MOST_HOPS:
        return []
    if plan.delivers_late:
        return [] if known else _over_reliable_links(plan)
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
        found = follow(plan, engine.schedule)
    except InexactError:
        return []
    shortest = plan.algorithm.smallest_segment_bytes
    if found.wrong.any() and shortest < LEAST_BYTES:
        # A wrong content may be right by chance.
        return []
    outcome = engine.outcome(_flow(engine.schedule, found), _faulty(plan), 1)
    values = {"intact_deliveries": int(outcome.intact[0]), "segments": int(found.sent.sum())}
    folds = plan.spec.collective in FOLDING
    least = _least_contributions(plan, engine, found) if folds else None
    if least is not None:
        values["least_contributions"] = least
    return [Claim(name, value, "==", SOURCE, derived=True) for name, value in values.items()]


def _over_reliable_links(plan: Plan) -> list[Claim]:
    """Return the claims about a run over reliable links: losses are drawn from the seed, so the attempts that cross are
    known.
    """
    if why_not_followed(plan) is not None:
        return []
    plain = plan_without_links(plan)
    if why_untraceable(plain) is not None:
        return []
    try:
        engine = batch_engine_of(plain)
        found = follow_reliable(plan, engine.schedule, plain.algorithm)
    except InexactError:
        return []
    rows = found.arrived.astype(np.uint64)[:, None]
    none = np.zeros(1, np.int64)
    # No fault that is followed here alters a content, and nothing reads the numbers of packets.
    outcome = engine.outcome(Flow(rows, None, None, none, none, none), _faulty(plan), 1)
    segments = int(found.transmissions.sum() + found.repeats.sum())
    values = {"intact_deliveries": int(outcome.intact[0]), "segments": segments}
    return [Claim(name, value, "==", RELIABLE, derived=True) for name, value in values.items()]


def plan_without_links(plan: Plan) -> Plan:
    """Return the plan of the same run over plain links and without faults."""
    # No faults, and so nothing that ends them.
    plain = plan.scenario.without(OptionGroup.LINKS).without(OptionGroup.FAULTS)
    return make_plan(plain.on_driver("memory"))


# --- from hop to hop -------------------------------------------------------------------------------------------------


def follow(plan: Plan, schedule: Schedule) -> Followed:
    """Follow the faults of a plan through a schedule; InexactError for faults that delay packets or repeat them."""
    return _Walk(plan, schedule).walk()


class _Walk:
    """One pass over the steps of a schedule."""

    def __init__(self, plan: Plan, schedule: Schedule) -> None:
        self._plan, self._schedule = plan, schedule
        self._folds = plan.spec.collective in FOLDING
        self._injector = faults_by_steps(plan.algorithm)
        count = len(schedule)
        # Copies, because each of the arrays is written to.
        none = np.zeros(count, np.bool_)
        self._found = Followed(none, none.copy(), none.copy(), none.copy(), np.zeros(count, np.int64))
        self._births: dict[Rank, Step] = {}
        """The step when a rank last recovered, for ranks that have recovered."""
        self._own = own_contributions(plan)

    def walk(self) -> Followed:
        faults = defaultdict(list)
        for fault in in_order(self._plan.faults):
            faults[fault.step].append(fault)
        rounds = dict(self._schedule.rounds)
        for step in sorted({*rounds, *faults}):
            dead = set(self._injector.crashed)
            self._injector.apply(faults.get(step, ()))
            # A rank that was crashed before this step, and no longer is, has recovered in it without its contents.
            for rank in dead - self._injector.crashed:
                self._births[rank] = step
            part = rounds.get(step)
            if part is not None:
                self._round(step, range(part.start, part.stop))
        return self._found

    def _round(self, step: Step, hops: Sequence[int]) -> None:
        found, schedule, injector = self._found, self._schedule, self._injector
        # Faults treat whole packets, so the hops of a step are put together by sender and port first.
        packets: dict[tuple[Rank, int], list[int]] = defaultdict(list)
        for hop in hops:
            sender = int(schedule.sender[hop])
            # A rank that lacks the content of a hop sends nothing in its place.
            if injector.silent(sender, step) or not self._is_held(hop, sender):
                continue
            found.sent[hop] = True
            self._fill(hop, sender)
            packets[sender, int(schedule.port[hop])].append(hop)
        for (sender, port), together in packets.items():
            self._send(step, sender, port, together)

    def _is_held(self, hop: int, sender: Rank) -> bool:
        """Return whether the sender has the content: its own, or content received since the sender last started."""
        carried = int(self._schedule.carried[hop])
        return carried == BEGIN or (bool(self._found.arrived[carried]) and self._is_remembered(carried, sender))

    def _is_remembered(self, hop: int, rank: Rank) -> bool:
        # A packet of the step of the recovery is read by the new life.
        return bool(self._schedule.step[hop] >= self._births.get(rank, 0))

    def _fill(self, hop: int, sender: Rank) -> None:
        """Give a hop the content of its sender."""
        found, carried = self._found, int(self._schedule.carried[hop])
        if carried != BEGIN:
            found.wrong[hop], found.apart[hop] = found.wrong[carried], found.apart[carried]
        elif self._folds:
            folded = self._schedule.folded(hop).tolist()
            there = [each for each in folded if found.arrived[each] and self._is_remembered(each, sender)]
            # A fold that lacks a contribution is wrong, even if all the others are right.
            found.wrong[hop] = len(there) < len(folded) or bool(found.wrong[there].any())
            found.counts[hop] = self._own[sender] + int(found.counts[there].sum())

    def _send(self, step: Step, sender: Rank, port: int, hops: Sequence[int]) -> None:
        """Send the segments of one packet, as the faults of the sender and of the link treat them."""
        found, schedule, injector = self._found, self._schedule, self._injector
        byzantine = injector.byzantine(step, sender)
        sent = []
        for hop in hops:
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
                found.wrong[hop], found.apart[hop] = True, treatment is Treatment.FORGE_APART
            # Zeros of the right size: it only matters whether a fault changes them.
            sent.append((hop, (*copy, bytes(int(schedule.size[hop])))))
        if not sent:
            return
        packet: tuple[Segment, ...] = tuple(segment for _, segment in sent)
        transit = injector.transit(step, sender, port, packet)
        if not transit.lost and (transit.delay or transit.copies != 1 or len(transit.segments) != len(packet)):
            raise InexactError("a fault delays packets, or repeats them")
        if transit.lost or injector.is_dead(step, sender, port):
            return
        for (hop, before), after in zip(sent, transit.segments, strict=True):
            found.arrived[hop] = True
            if after != before:
                # Bytes that a link damages agree with no other copy.
                found.wrong[hop] = found.apart[hop] = True


# --- results ---------------------------------------------------------------------------------------------------------


def _flow(schedule: Schedule, found: Followed) -> Flow:
    """Return the state of every hop as bit rows of a single trial."""
    # One trial is bit 0 of one word, so flags are rows as they are.
    rows = [flags.astype(np.uint64)[:, None] for flags in (found.arrived, found.wrong, found.apart)]
    steps = np.array([int(schedule.step[found.sent].max(initial=0))])
    packets = np.array([len(np.unique(schedule.packets[found.sent]))])
    return Flow(rows[0], rows[1], rows[2], steps, np.array([int(found.sent.sum())]), packets)


def _faulty(plan: Plan) -> Bits:
    """Return the ranks with nothing due to them, as a bit row of a single trial."""
    rows = no_trials(plan.topology.order, 1)
    ranks = np.array(sorted(plan.states), np.int64)
    mark(rows, ranks, np.zeros(len(ranks), np.int64))
    return rows


def _least_contributions(plan: Plan, engine: BatchEngine, found: Followed) -> int | None:
    """Return the fewest contributions in a result at a healthy rank that folds it; None where no such rank is healthy."""
    schedule = engine.schedule
    # A rank folds its own contribution without a hop.
    own = own_contributions(plan)
    results: dict[tuple[Rank, Rank, int], int] = defaultdict(int)
    for hop in np.flatnonzero((schedule.target != ALL_RANKS) & found.arrived).tolist():
        # Partial results for different blocks may pass through one rank, so the target is part of the place.
        place = int(schedule.target[hop]), int(schedule.receiver[hop]), int(schedule.segment[hop])
        results[place] += int(found.counts[hop])
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
