"""The fate of every hop over reliable links under one set of faults, by an independent model of stop-and-wait and
windows.

The schedule without faults gives the sends of each rank and the hops that they depend on. A rank offers a hop to its
link as soon as the hop that brought its content has been passed on; the link keeps `window` segments unacknowledged,
repeats a segment when its time-out has come, and gives it up after `attempts` transmissions. Losses are drawn from the
seed for each packet, as the faults of the plan treat it. Only links over all ports in lock-step are followed, and
faults that delay nothing: crashes, links that are down, lost and repeated packets.

This model shares no code with `emunode.annexes.reliable.layer`: it decides by itself when segments cross, and so it can
judge the engines.
"""

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.annexes.reliable.feature import ReliableFeature, links_of
from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.option import OptionGroup
from coordinator.theory.batch.derived import faulty_ranks
from coordinator.theory.batch.engine import batch_engine_of
from coordinator.theory.batch.exactness import why_untraceable
from coordinator.theory.dependence.follow import Flow
from coordinator.theory.dependence.schedule import BEGIN, Schedule
from coordinator.theory.dependence.size import InexactError
from emunode.algorithms.any_network.table_collective import TableRule
from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.routed_collective import DeliverRule, GatherRule
from emunode.algorithms.scheduled_collective import FollowRule
from emunode.algorithms.tree_collective import ForwardRule
from emunode.engine.known_paths import faults_by_steps
from emunode.engine.node import make_segment
from emunode.faults.effects import Choice, Duplicates, Effect, Ends, Loses, Stops
from emunode.faults.kinds import FOREVER, Fault, in_order, stated_effects
from emunode.model import CONTROL_TREE, FOLDING, FaultKnowledge, Port, PortModel, Rank, ReliableLinks, Segment, Step

RELIABLE: Final = "the schedule without faults, repeated until acknowledged, with losses drawn from the seed"
LONGEST_WAIT: Final = 64
"""With back-off, the longest time-out as a multiple of the first."""
BY_STEPS: Final = (DeliverRule, GatherRule, FollowRule, TableRule)
"""Rules that forward a copy in its scheduled step, or at once if it is late.

A `ForwardRule` waits for its delay instead.
"""
WalkedPacket = tuple[bool, int]
"""(is an acknowledgement, hop)."""


class Repeated(NamedTuple):
    """The fate of each hop."""

    arrived: NDArray[np.bool_]
    transmissions: NDArray[np.int64]
    """How many times the hop is sent."""
    repeats: NDArray[np.int64]
    """How many further copies of it the links made."""


@dataclass
class _Link:
    """One direction of a link at its sender."""

    queue: deque[int] = field(default_factory=deque)
    window: dict[int, Step | None] = field(default_factory=dict)
    """Unacknowledged hops, each with its time-out; None while it waits to be sent."""
    waiting: list[int] = field(default_factory=list)
    """Hops of the window that wait to be sent, in order."""


def repeated_claims(plan: Plan) -> list[Claim]:
    """Return the claims about a run over reliable links.

    Losses are drawn from the seed, so it is known which attempts cross.
    """
    if why_not_followed(plan) is not None:
        return []
    plain = plan_without_links(plan)
    if why_untraceable(plain) is not None:
        return []
    try:
        engine = batch_engine_of(plain)
        fates = _Walk(plan, links_of(plan), engine.schedule, plain.algorithm).walk()
    except InexactError:
        return []
    rows = fates.arrived.astype(np.uint64)[:, None]
    none = np.zeros(1, np.int64)
    # No fault that is followed here alters a content, and nothing reads the numbers of packets.
    outcome = engine.outcome(Flow(rows, None, None, none, none, none), faulty_ranks(plan), 1)
    segments = int(fates.transmissions.sum() + fates.repeats.sum())
    values = {"intact_deliveries": int(outcome.intact[0]), "segments": segments}
    return [Claim(name, value, "==", RELIABLE, derived=True) for name, value in values.items()]


def plan_without_links(plan: Plan) -> Plan:
    """Return the plan of the same run over plain links and without faults."""
    # No faults, and so nothing that ends them.
    plain = plan.scenario.without(OptionGroup.LINKS).without(OptionGroup.FAULTS)
    return make_plan(plain.on_driver("memory"))


def why_not_followed(plan: Plan) -> str | None:
    """Give the reason why this model does not follow a plan over reliable links, or None."""
    spec = plan.spec
    others = any(feature.unpredictable for feature in plan.features if not isinstance(feature, ReliableFeature))
    reasons = {
        "its links are not reliable": not any(isinstance(feature, ReliableFeature) for feature in plan.features),
        "only lock-step over all ports is followed": plan.goes_by_events or spec.port_model is not PortModel.ALL_PORT,
        "nodes that learn of faults may send something else": others or spec.knowledge is not FaultKnowledge.NONE,
        "what a rank folds depends on the step of its send": spec.collective in FOLDING,
        "how many segments share a packet depends on the links": plan.algorithm.link_capacity not in (1, None),
        "its rule does not go by the arrival of a copy alone": _rule_of(plan) not in (ForwardRule, *BY_STEPS),
        "a fault delays, alters or withholds packets": not all(map(_is_followed, plan.faults)),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _rule_of(plan: Plan) -> type[Rule]:
    return type(plan.algorithm.rule(LocalView(plan.topology, plan.spec.source)))


def _is_followed(fault: Fault) -> bool:
    effects = stated_effects(fault)
    return effects is not None and all(
        _is_simple(effect, at_rank=isinstance(place, int), lasts=interval.end >= FOREVER)
        for place, interval, effect in effects
    )


def _is_simple(effect: Effect, *, at_rank: bool, lasts: bool) -> bool:
    if at_rank:
        return isinstance(effect, Stops) and lasts
    if isinstance(effect, Loses):
        return effect.choice is Choice.PACKET
    return isinstance(effect, Stops | Duplicates | Ends)


class _Walk:
    """Follows the faults of a plan through a schedule over reliable links, step by step."""

    def __init__(self, plan: Plan, links: ReliableLinks, schedule: Schedule, algorithm: Algorithm) -> None:
        self._plan, self._settings, self._schedule = plan, links, schedule
        self._injector = faults_by_steps(algorithm)
        self._by_delays = _rule_of(plan) is ForwardRule
        count = len(schedule)
        self._fates = Repeated(np.zeros(count, np.bool_), np.zeros(count, np.int64), np.zeros(count, np.int64))
        self._behind: dict[int, list[int]] = defaultdict(list)
        """By hop: the hops that pass its content on."""
        self._offers: dict[tuple[Step, Rank], list[int]] = defaultdict(list)
        """By step and rank: hops that the rank offers to its links, in order."""
        for hop, carried in enumerate(schedule.carried.tolist()):
            if carried == BEGIN:
                self._offers[int(schedule.step[hop]), int(schedule.sender[hop])].append(hop)
            else:
                # A hop is offered when the hop that it passes on has arrived; only hops of sources are offered by the
                # timetable.
                self._behind[carried].append(hop)
        # With one segment in a packet the journal has the order of the sends; only within a packet it is lost.
        if self._plan.algorithm.link_capacity is None:
            self._order_own(algorithm)
        self._links: dict[Rank, dict[Port, _Link]] = defaultdict(dict)
        self._answers: dict[Rank, list[tuple[Port, int]]] = defaultdict(list)
        self._inbox: dict[Rank, list[tuple[Port, list[WalkedPacket]]]] = {}

    def _order_own(self, algorithm: Algorithm) -> None:
        """Bring the sends of each source into the order of its rule: a window takes the first of a packet first."""
        places: dict[tuple[int, ...], int] = {}
        for rank in algorithm.sources:
            for step, port, item in algorithm.rule(LocalView(algorithm.topology, rank)).start():
                places[step, rank, port, *make_segment(item)[:4]] = len(places)
        columns = [getattr(self._schedule, name) for name in ("step", "sender", "port", "origin", "target", "tree")]
        # The journal does not keep the order of the segments within a packet, so the rule is asked for it.
        keys = np.stack([*columns, self._schedule.segment], axis=1)
        for hops in self._offers.values():
            hops.sort(key=lambda hop: places[tuple(keys[hop].tolist())])

    def walk(self) -> Repeated:
        """Return what each hop becomes; InexactError if a run does not end in time."""
        faults = defaultdict(list)
        for fault in in_order(self._plan.faults):
            faults[fault.step].append(fault)
        step = 0
        while self._inbox or self._offers or self._is_busy():
            step += 1
            # With long time-outs a run may go on for many steps without a crossing.
            if step > self._plan.scenario.step_limit:
                raise InexactError("it does not end within the step limit")
            self._injector.apply(faults.get(step, ()))
            arrived, self._inbox = self._inbox, {}
            ranks = {*arrived, *self._links, *self._answers, *(rank for at, rank in self._offers if at <= step)}
            for rank in sorted(ranks):
                if self._injector.silent(rank, step):
                    self._stop(rank)
                else:
                    self._act(step, rank, arrived.get(rank, []))
        return self._fates

    def _is_busy(self) -> bool:
        links = (link for links in self._links.values() for link in links.values())
        return any(self._answers.values()) or any(link.window or link.queue for link in links)

    def _stop(self, rank: Rank) -> None:
        """Forget a rank that stops and does not come back."""
        self._links.pop(rank, None)
        self._answers.pop(rank, None)
        # Only crashes to the end are followed, so the rank sends nothing more.
        for key in [key for key in self._offers if key[1] == rank]:
            del self._offers[key]

    def _act(self, step: Step, rank: Rank, inbox: list[tuple[Port, list[WalkedPacket]]]) -> None:
        # Ports in ascending order, as a node reads them: the order of new copies is the order of their offers to links.
        new = [hop for port, items in sorted(inbox, key=lambda each: each[0]) for hop in self._read(rank, port, items)]
        for hop in new:
            for behind in self._behind[hop]:
                due = int(self._schedule.step[behind])
                if self._by_delays:
                    # The rule counts its delay from the arrival, and the copy crossed in step - 1: it is late by as
                    # many steps.
                    due += step - 1 - int(self._schedule.step[hop])
                self._offers[max(step, due), rank].append(behind)
        # Before the new offers, so that repeated segments leave in front of new ones.
        self._time_out(step, rank)
        for hop in self._offers.pop((step, rank), ()):
            port = int(self._schedule.port[hop])
            link = self._links[rank].setdefault(port, _Link())
            link.queue.append(hop)
            self._fill(link)
        self._send(step, rank)

    def _read(self, rank: Rank, port: Port, items: Iterable[WalkedPacket]) -> list[int]:
        """Acknowledge the copies that arrive; return the hops that are new."""
        new = []
        for is_answer, hop in items:
            if is_answer:
                link = self._links[rank].get(port)
                if link is not None and hop in link.window:
                    # The acknowledgement came after the time-out, while the segment waits to be sent again: it need not
                    # be.
                    if link.window.pop(hop) is None:
                        link.waiting.remove(hop)
                    self._fill(link)
                continue
            # A repeated copy is acknowledged again, because the first acknowledgement may have been lost.
            if (port, hop) not in self._answers[rank]:
                self._answers[rank].append((port, hop))
            if not self._fates.arrived[hop]:
                self._fates.arrived[hop] = True
                new.append(hop)
        return new

    def _time_out(self, step: Step, rank: Rank) -> None:
        for link in self._links[rank].values():
            for hop in [hop for hop, due in link.window.items() if due is not None and due <= step]:
                # The number of transmissions is the number of the attempt.
                if self._fates.transmissions[hop] < self._settings.attempts:
                    link.window[hop] = None
                    link.waiting.append(hop)
                else:
                    # Given up after the last attempt; the place in the window is free for the next segment.
                    del link.window[hop]
                    self._fill(link)

    def _fill(self, link: _Link) -> None:
        # Segments enter the window in the order of their offers.
        while link.queue and len(link.window) < self._settings.window:
            hop = link.queue.popleft()
            link.window[hop] = None
            link.waiting.append(hop)

    def _send(self, step: Step, rank: Rank) -> None:
        packets: dict[Port, list[WalkedPacket]] = defaultdict(list)
        # Acknowledgements leave in the step after the segment, whatever else the port carries.
        for port, hop in self._answers.pop(rank, ()):
            packets[port].append((True, hop))
        for port, link in self._links[rank].items():
            # A packet holds any number of segments, or one: other capacities are refused beforehand.
            most = len(link.waiting) if self._plan.algorithm.link_capacity is None else 1
            leaving, link.waiting = link.waiting[:most], link.waiting[most:]
            for hop in leaving:
                self._fates.transmissions[hop] += 1
                link.window[hop] = step + self._wait(int(self._fates.transmissions[hop]))
                packets[port].append((False, hop))
        for port, items in sorted(packets.items()):
            self._cross(step, rank, port, items)

    def _wait(self, attempt: int) -> Step:
        after = self._settings.retransmit_after
        # Each attempt waits twice as long as the one before, up to a limit.
        return after * min(2 ** (attempt - 1), LONGEST_WAIT) if self._settings.back_off else after

    def _cross(self, step: Step, rank: Rank, port: Port, items: list[WalkedPacket]) -> None:
        transit = self._injector.transit(step, rank, port, tuple(self._segment(*item) for item in items))
        if transit.lost:
            return
        for is_answer, hop in items:
            self._fates.repeats[hop] += 0 if is_answer else transit.copies - 1
        # A link that is down still draws its random numbers, like the links of the engines.
        if self._injector.is_dead(step, rank, port):
            return
        receiver, its_port = self._plan.topology.end(rank, port)
        # Read in the next step: a packet crosses in one step and is read at the beginning of the next one.
        self._inbox.setdefault(receiver, []).extend([(its_port, items)] * transit.copies)

    def _segment(self, is_answer: bool, hop: int) -> Segment:
        schedule = self._schedule
        # Faults see packets with the right trees and sizes, because they may treat segments by either.
        tree = CONTROL_TREE if is_answer else int(schedule.tree[hop])
        size = 8 if is_answer else int(schedule.size[hop])
        return int(schedule.origin[hop]), int(schedule.target[hop]), tree, int(schedule.segment[hop]), bytes(size)
