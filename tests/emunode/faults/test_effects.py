"""The effects that kinds of fault state, against the engines' code for packets, on random faults."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from random import Random
from typing import Any

import pytest

from emunode.faults.byzantine import ByzantineFault, Treatment
from emunode.faults.effects import (
    ALWAYS,
    Alters,
    Choice,
    Delays,
    Drifts,
    Duplicates,
    Effect,
    Effects,
    Interval,
    Loses,
    Slows,
    Stops,
)
from emunode.faults.in_time import FaultsInTime, TimedFault
from emunode.faults.injector import Faults
from emunode.faults.kinds import (
    FOREVER,
    KINDS,
    Crash,
    Down,
    Fault,
    Hang,
    Heal,
    LinkFault,
    Loss,
    Moment,
    NodeFault,
    Recover,
    field_names,
    in_order,
    is_random,
    kind_of,
    stated_effects,
    states_effects,
)
from emunode.faults.timeline import FaultTimeline
from emunode.faults.transit import FaultRandom, LinkTransit
from emunode.registry import register
from emunode.topologies.hypercube import Hypercube

CUBE = Hypercube(2)
LAST = 9
"""The last step that is compared; a packet for each step, rank and port."""
DRAWS = 400
RATES = (0.0, 0.25, 1.0)
SEGMENT = (0, -1, 0, 0, b"payload!")


def drawn(kind: type[Fault], draw: Random) -> Fault:
    """Return a fault of a kind at a random place and time."""
    rank = draw.randrange(CUBE.order)
    step = draw.randint(1, LAST) if "@" in kind.form else 1
    values: dict[str, Any] = {
        "step": step,
        "last": draw.choice((FOREVER, draw.randint(step, LAST))),
        "rank": rank,
        "sender": rank,
        "port": draw.choice(CUBE.ports(rank)),
        "rate": draw.choice(RATES),
        "factor": draw.choice((1.0, 2.5)),
        "spread": draw.choice((0.0, 0.5)),
        "drift": draw.choice((0.0, 0.01)),
        "steps": draw.randint(1, 3),
        "packet": draw.randint(1, 3),
    }
    return kind(**{name: values[name] for name in field_names(kind)})


def fault_sets(seed: int, sets: int, *, slow: bool) -> Iterator[list[Fault]]:
    """Yield random sets of up to eight faults; a rank recovers only after a crash, and hangs only while it lives."""
    draw = Random(seed)
    stated = [kind for kind in KINDS.values() if states_effects(kind)]
    kinds = [kind for kind in stated if (slow or not kind.slows) and kind not in (Recover, Crash)]
    for _ in range(sets):
        faults = [drawn(draw.choice(kinds), draw) for _ in range(draw.randint(1, 7))]
        for rank in draw.sample(range(CUBE.order), draw.randint(0, 2)):
            step = draw.randint(1, LAST - 2)
            faults = [
                each for each in faults if not (isinstance(each, Hang) and each.rank == rank and each.step >= step)
            ]
            faults.append(Crash(step, rank))
            if draw.random() < 0.5:
                faults.append(Recover(draw.randint(step + 1, LAST), rank))
        yield faults


def engine(faults: Sequence[Fault], seed: int) -> Iterator[tuple[int, Faults]]:
    """Yield the lock-step engine's faults at each step."""
    state = Faults(CUBE, seed)
    for step in range(1, LAST + 1):
        state.apply(fault for fault in in_order(faults) if fault.step == step)
        yield step, state


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_states_its_effects_or_may_do_anything(kind: type[Fault]) -> None:
    fault = drawn(kind, Random(kind.form))
    effects = stated_effects(fault)
    if effects is None:
        assert is_random(fault)
        assert fault.breaks
        assert FaultTimeline([fault]).opaque == (kind_of(fault),)
    else:
        assert all(getattr(effect, "probability", 1.0) > 0 for _, _, effect in effects)
        assert FaultTimeline([fault]).opaque == ()


@pytest.mark.parametrize("seed", range(4))
def test_ranks_and_links_stop_when_the_timeline_says_so(seed: int) -> None:
    stopped = 0
    for faults in fault_sets(seed, 100, slow=False):
        timeline = FaultTimeline(faults)
        for step, state in engine(faults, seed):
            for rank in range(CUBE.order):
                assert state.silent(rank, step) is timeline.stopped(rank, step), (faults, step, rank)
                stopped += state.silent(rank, step)
                for port in CUBE.ports(rank):
                    assert state.is_down(step, rank, port) is timeline.stopped((rank, port), step), (faults, step)
    assert stopped


@pytest.mark.parametrize("seed", range(4))
def test_packets_of_a_link_are_treated_as_the_timeline_says(seed: int) -> None:
    """Certain and impossible effects exactly; what is drawn may go either way. `drop` counts the packets itself."""
    met: set[type[Effect]] = set()
    for faults in fault_sets(seed + 10, 100, slow=False):
        timeline = FaultTimeline(faults)
        counted: dict[tuple[int, int, Fault], int] = {}
        for step, state in engine(faults, seed):
            for rank in range(CUBE.order):
                for port in CUBE.ports(rank):
                    transit = state.transit(step, rank, port, (SEGMENT,))
                    spells = [s for s in timeline.spells.get((rank, port), ()) if step in s.interval]
                    chances = {"lost": [0.0], "altered": [0.0], "copies": [0.0]}
                    for _, effect, fault in spells:
                        met.add(type(effect))
                        if isinstance(effect, Loses) and effect.packet is not None:
                            number = counted[rank, port, fault] = counted.get((rank, port, fault), 0) + 1
                            same = sum(each is fault or each == fault for each in faults)
                            chances["lost"].append(float((number + same - 1) // same == effect.packet))
                        elif isinstance(effect, Loses):
                            chances["lost"].append(effect.probability)
                        elif isinstance(effect, Alters):
                            chances["altered"].append(effect.probability)
                        elif isinstance(effect, Duplicates):
                            chances["copies"].append(effect.probability)
                    found = {"lost": transit.lost, "altered": transit.altered, "copies": transit.copies > 1}
                    for name, value in found.items():
                        if max(chances[name]) in (0.0, 1.0):
                            assert value is bool(max(chances[name])), (name, faults, step, rank, port)
                    delays = [effect.steps for _, effect, _ in spells if isinstance(effect, Delays)]
                    assert transit.delay == sum(delays)
    assert {Stops, Loses, Alters, Duplicates, Delays} <= met


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if "rate" in field_names(kind)])
def test_a_stated_probability_is_the_share_of_draws(name: str) -> None:
    """Over many seeds, within five standard deviations; on links the first number that a fault draws decides."""
    fault = drawn(KINDS[name], Random(5))
    changes: dict[str, Any] = {"step": 1, "last": FOREVER, "rate": 0.25}
    fault = replace(fault, **changes)
    probability = min(getattr(effect, "probability", 1.0) for _, _, effect in fault.effects())
    affected = 0
    for seed in range(DRAWS):
        state = Faults(CUBE, seed)
        state.apply([fault])
        if isinstance(fault, LinkFault):
            transit = state.transit(1, fault.sender, fault.port, (SEGMENT,))
            hit = transit.lost or transit.altered or transit.copies > 1
            first = FaultRandom(seed, 1, fault.sender, fault.port)
            first.start(f"{name} 0")
            assert hit is (first.draw() < probability)
            affected += hit
        else:
            assert isinstance(fault, ByzantineFault)
            copy = ((fault.rank + 1) % CUBE.order, -1, 0, 0)
            affected += state.treatment([fault], 1, fault.rank, 0, copy) is Treatment.WITHHOLD
    expected = probability * DRAWS
    assert abs(affected - expected) < 5 * (expected * (1 - probability)) ** 0.5


@pytest.mark.parametrize("seed", range(4))
def test_byzantine_ranks_treat_copies_as_the_timeline_says(seed: int) -> None:
    kinds = [kind for kind in KINDS.values() if issubclass(kind, ByzantineFault)]
    draw = Random(seed)
    for _ in range(100):
        faults: list[Fault] = [drawn(draw.choice(kinds), draw) for _ in range(2)]
        timeline = FaultTimeline(faults)
        for step, state in engine(faults, seed):
            for rank in range(CUBE.order):
                effects = timeline.at(rank, step)
                stated = allowed_treatments(effects)
                for port in CUBE.ports(rank):
                    copy = ((rank + 1) % CUBE.order, -1, 0, 0)
                    got = state.treatment(state.byzantine(step, rank), step, rank, port, copy)
                    assert got in stated, (faults, step, rank, port)


def allowed_treatments(effects: Sequence[Effect]) -> set[Treatment]:
    """Return the treatments of a copy that effects at its rank allow."""
    losses = [effect.probability for effect in effects if isinstance(effect, Loses)]
    alterations = [effect for effect in effects if isinstance(effect, Alters)]
    if 1.0 in losses:
        return {Treatment.WITHHOLD}
    certain = [effect for effect in alterations if effect.choice is not Choice.VOTE]
    found = {Treatment.FORGE if effect.alike else Treatment.FORGE_APART for effect in alterations}
    if any(not effect.alike for effect in certain):
        found = {Treatment.FORGE_APART}
    if not certain:
        found.add(Treatment.PASS_ON)
    return found | ({Treatment.WITHHOLD} if losses else set())


def timed(faults: Sequence[Fault], unit: int) -> list[TimedFault]:
    """Return the faults at times: step s begins at (s - 1) units."""
    end = {fault: 2**62 if fault.end == FOREVER else fault.end * unit for fault in faults}
    return [TimedFault((fault.step - 1) * unit, end[fault], fault) for fault in in_order(faults)]


@pytest.mark.parametrize("seed", range(4))
def test_timed_ranks_links_and_durations_follow_the_timeline(seed: int) -> None:
    unit, slowed = 1000, 0
    for faults in fault_sets(seed + 20, 100, slow=True):
        at_times = timed(faults, unit)
        timeline, state = FaultTimeline(at_times), FaultsInTime(CUBE, seed, at_times)
        for time in range(0, LAST * unit, unit // 2):
            for rank in range(CUBE.order):
                assert state.silent(rank, time) is timeline.stopped(rank, time), (faults, time, rank)
                drifts = [effect.rate for effect in timeline.at(rank, time) if isinstance(effect, Drifts)]
                assert state.shown(rank, 10**6) == pytest.approx(10**6 * prod(1 + rate for rate in drifts), abs=1)
                for port in CUBE.ports(rank):
                    alive = not timeline.stopped(CUBE.neighbour(rank, port), time)
                    dead = timeline.stopped((rank, port), time) or not alive
                    assert state.is_dead(rank, port, time) is dead
                    slow = [
                        e for place in (rank, (rank, port)) for e in timeline.at(place, time) if isinstance(e, Slows)
                    ]
                    least = most = 1.0
                    for effect in slow:
                        least, most = least * effect.factor, most * (effect.factor + effect.spread)
                    taken = state.occupancy(1, rank, port, time, unit)
                    assert least * unit <= taken <= most * unit + 1
                    slowed += taken > unit
    assert slowed


# --- the timeline -------------------------------------------------------------------------------------------------------


def test_a_crash_ends_a_hang_and_a_recovery_ends_the_crash() -> None:
    timeline = FaultTimeline([Hang(2, 1), Crash(4, 1), Recover(6, 1)])
    assert timeline.of(Stops) == {1: [(Interval(2, 4), Stops()), (Interval(4, 6), Stops(forgets=True))]}


def test_a_rank_that_returns_at_once_has_lost_its_state() -> None:
    timeline = FaultTimeline([Crash(3, 1), Recover(3, 1)])
    assert timeline.recoveries == [(3, 1)]
    assert not any(timeline.stopped(1, step) for step in range(1, 6))


def test_healing_ends_every_earlier_fault_of_a_direction() -> None:
    timeline = FaultTimeline([Loss(1, 0, 1, rate=0.5), Heal(4, 0, 1), Loss(5, 0, 1, rate=1.0)])
    assert timeline.at((0, 1), 3) == [Loses(0.5)]
    assert timeline.at((0, 1), 4) == []
    assert timeline.at((0, 1), 5) == [Loses(1.0)]


@pytest.mark.parametrize(
    ("faults", "stops", "lasting"),
    [
        ([], {}, True),
        ([Crash(2, 1)], {1: [(2, ALWAYS)]}, True),
        ([Hang(2, 1, last=3), Crash(4, 1)], {1: [(2, ALWAYS)]}, True),
        ([Hang(2, 1, last=8), Crash(4, 1)], {1: [(2, ALWAYS)]}, True),
        ([Hang(2, 1, last=2), Crash(4, 1)], {1: [(2, 3), (4, ALWAYS)]}, False),
        ([Crash(2, 1), Recover(5, 1)], {1: [(2, 5)]}, False),
        ([Down(1, 0, 1, last=4), Down(3, 0, 1, last=6)], {(0, 1): [(1, 7)]}, False),
        ([Crash(2, 1), Loss(1, 0, 1, rate=0.0)], {1: [(2, ALWAYS)]}, True),
        ([Crash(2, 1), Loss(1, 0, 1, rate=0.5)], {1: [(2, ALWAYS)]}, False),
    ],
)
def test_stops_that_adjoin_are_one(faults: list[Fault], stops: object, lasting: bool) -> None:
    timeline = FaultTimeline(faults)
    assert timeline.stops == stops
    assert timeline.is_lasting is lasting


def test_a_fault_without_effect_leaves_no_trace() -> None:
    assert not FaultTimeline([Loss(1, 0, 1, rate=0.0)])
    assert not FaultTimeline([Down(2, 0, 1), Heal(2, 0, 1)])


@pytest.mark.parametrize("last", [Moment(7), FOREVER])
def test_a_fault_that_is_given_by_times_ends_at_its_last_one(last: int) -> None:
    assert Hang(Moment(3), 1, last=last).interval == (3, 7 if last == 7 else ALWAYS)
    assert Hang(3, 1, last=6).interval == (3, 7)


@dataclass(frozen=True, slots=True)
class Decay(Loss):
    """A kind whose packets are lost with a probability, and two steps later always."""

    form = "decay:A~B:RATE"

    def effects(self) -> Effects:
        first, end = self.interval
        return [
            (self.place, Interval(first + 2, end), Loses()),
            (self.place, Interval(first, first + 2), Loses(self.rate)),
        ]


@dataclass(frozen=True, slots=True)
class Whim(LinkFault):
    """A kind from elsewhere that does not state its effects."""

    form = "whim:A~B"
    evidence = ("lost",)

    def act(self, transit: LinkTransit) -> None:
        transit.lost = True


@dataclass(frozen=True, slots=True)
class Storm(Loss):
    """A kind that inherits its effects but loses other packets than its base."""

    form = "storm:A~B:RATE"

    def apply(self, transit: LinkTransit) -> None:
        transit.lost = transit.number() > 2


@dataclass(frozen=True, slots=True)
class Freeze(Hang):
    """A kind that adds nothing to a hang: what a hang states is right."""

    form = "freeze:LABEL"


@pytest.fixture
def plug_ins() -> Iterator[None]:
    kinds = (Decay, Whim, Storm, Freeze)
    for kind in kinds:
        register(kind)
    yield
    for kind in kinds:
        KINDS.remove(kind)


@pytest.mark.usefixtures("plug_ins")
def test_an_effect_is_in_force_in_the_steps_of_its_fault() -> None:
    timeline = FaultTimeline([Decay(3, 0, 1, rate=0.5), Heal(9, 0, 1)])
    assert timeline.of(Loses) == {(0, 1): [(Interval(3, 5), Loses(0.5)), (Interval(5, 9), Loses())]}


@pytest.mark.usefixtures("plug_ins")
@pytest.mark.parametrize(
    ("fault", "name"), [(Whim(1, 0, 0), "whim"), (Storm(1, 0, 0, rate=1.0), "storm"), (Freeze(1, 0), None)]
)
def test_a_kind_that_does_not_state_its_effects_is_named(fault: Fault, name: str | None) -> None:
    assert FaultTimeline([fault])
    timeline = FaultTimeline([fault, Crash(1, 3)])
    assert timeline.opaque == ((name,) if name else ())
    assert isinstance(fault, NodeFault) is timeline.stopped(0, 1)
