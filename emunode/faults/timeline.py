"""The faults of a run on one time axis: the effects in force at each place, and when.

Plans, theory, campaigns and reports ask about a set of faults in this form alone. The engines treat single packets by
code of their own (`injector`, `in_time`), the audit replays faults by itself, and certificates are checked without it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

from emunode.faults.effects import Effect, Ends, Interval, Place, Stops
from emunode.faults.in_time import TimedFault
from emunode.faults.kinds import Fault, in_order, kind_of, stated_effects
from emunode.model import Rank

Kind = TypeVar("Kind", bound=Effect)


class Spell(NamedTuple):
    """An effect at a place, from its beginning to its end, and the fault that causes it."""

    interval: Interval
    effect: Effect
    fault: Fault


class FaultTimeline:
    """Effects by place and time, built once from all faults of a run.

    `faults` are records with steps, or `TimedFault` with nanoseconds, in any order. A fault without effect, such as a loss
    with a rate of 0, leaves no trace. Kinds that do not state their effects are listed in `opaque`, by name: exact answers
    are then impossible, and refused by these names.
    """

    def __init__(self, faults: Iterable[Fault | TimedFault]) -> None:
        self.spells: dict[Place, list[Spell]] = {}
        """By place, all spells that last, and crashes that end at once, in the order of their beginnings."""
        self.opaque_places: set[Place] = set()
        """The places of faults that do not state their effects, and may have any."""
        opaque: dict[str, None] = {}
        for times, fault in _in_order(faults):
            effects = stated_effects(fault)
            if effects is None:
                opaque[kind_of(fault)] = None
                self.opaque_places.add(fault.place)
                continue
            for place, steps, effect in effects:
                self._begin(place, times or steps, effect, fault)
        self.spells = {
            # Stable: an effect may begin later than its fault.
            place: sorted(kept, key=lambda spell: spell.interval.start)
            for place, spells in self.spells.items()
            if (kept := [spell for spell in spells if _lasts(spell)])
        }
        self.opaque = tuple(opaque)

    def _begin(self, place: Place, interval: Interval, effect: Effect, fault: Fault) -> None:
        if isinstance(effect, Ends):
            self._end(place, interval.start, effect.effects)
            return
        if isinstance(effect, Stops) and effect.forgets:
            # A rank that crashes during a hang does not hang when it returns.
            self._end(place, interval.start, (Stops(),))
        self.spells.setdefault(place, []).append(Spell(interval, effect, fault))

    def _end(self, place: Place, time: int, effects: Sequence[Effect] | None) -> None:
        self.spells[place] = [
            spell._replace(interval=spell.interval._replace(end=min(spell.interval.end, time)))
            if effects is None or spell.effect in effects
            else spell
            for spell in self.spells.get(place, [])
        ]

    def __bool__(self) -> bool:
        """Return whether any fault has effects, or does not state them."""
        return bool(self.spells or self.opaque)

    def __iter__(self) -> Iterator[tuple[Place, Interval, Effect]]:
        """Yield all effects in the form of `Fault.effects`, cut short by the effects that end them."""
        for place, spells in self.spells.items():
            for interval, effect, _ in spells:
                yield place, interval, effect

    @cached_property
    def effects(self) -> set[type[Effect]]:
        """The types of all effects, at any place and time."""
        return {type(effect) for _, _, effect in self}

    @cached_property
    def stops(self) -> Mapping[Place, Sequence[Interval]]:
        """The intervals when ranks and links are stopped, by place, ascending; adjoining intervals are merged."""
        return {place: merged(interval for interval, _ in spells) for place, spells in self.of(Stops).items()}

    @cached_property
    def recoveries(self) -> Sequence[tuple[int, Rank]]:
        """The times when ranks return with fresh state, ascending, each with the rank."""
        stops = ((place, *spell) for place, spells in self.of(Stops).items() for spell in spells)
        return sorted(
            (interval.end, place)
            for place, interval, effect in stops
            if isinstance(place, int) and effect.forgets and not interval.is_endless
        )

    @property
    def ranks_only_crash(self) -> bool:
        """Whether no rank hangs, and none recovers from a crash."""
        return all(
            effect.forgets and interval.is_endless
            for place, spells in self.of(Stops).items()
            if isinstance(place, int)
            for interval, effect in spells
        )

    @property
    def is_lasting(self) -> bool:
        """Whether faults do nothing but put ranks and links out of service, each to the end."""
        intervals = [interval for stopped in self.stops.values() for interval in stopped]
        return not self.opaque and self.effects <= {Stops} and all(each.is_endless for each in intervals)

    def of(self, kind: type[Kind]) -> Mapping[Place, Sequence[tuple[Interval, Kind]]]:
        """Return the intervals of all effects of one type, by place."""
        by_place: dict[Place, list[tuple[Interval, Kind]]] = {}
        for place, spells in self.spells.items():
            for interval, effect, _ in spells:
                if isinstance(effect, kind):
                    by_place.setdefault(place, []).append((interval, effect))
        return by_place

    def at(self, place: Place, time: int) -> list[Effect]:
        """Return the effects in force at `place` and `time`, in the order of their beginnings."""
        return [spell.effect for spell in self.spells.get(place, ()) if time in spell.interval]

    def stopped(self, place: Place, start: int, end: int | None = None) -> bool:
        """Report whether the rank or link is stopped at some time in [start, end); at `start` where no end is given."""
        end = start + 1 if end is None else end
        # Asked for every hop of every copy, and most places have no spell: a generator would take twice the time.
        for spell in self.spells.get(place, ()):
            if isinstance(spell.effect, Stops) and spell.interval.overlaps(start, end):
                return True
        return False


def _in_order(faults: Iterable[Fault | TimedFault]) -> list[tuple[Interval | None, Fault]]:
    """Return the faults in the order of their effects, with their times; None: they state steps."""
    faults = list(faults)
    timed = [each for each in faults if isinstance(each, TimedFault)]
    steps = in_order(each for each in faults if not isinstance(each, TimedFault))
    return [
        *((None, fault) for fault in steps),
        # Stable: faults of one time keep the order of their effects.
        *((Interval(each.start, each.end), each.fault) for each in sorted(timed, key=lambda each: each.start)),
    ]


def merged(intervals: Iterable[Interval]) -> list[Interval]:
    """Return the fewest intervals that cover the same times, ascending."""
    apart: list[Interval] = []
    for interval in sorted(intervals):
        if apart and interval.start <= apart[-1].end:
            apart[-1] = Interval(apart[-1].start, max(apart[-1].end, interval.end))
        else:
            apart.append(interval)
    return apart


def _lasts(spell: Spell) -> bool:
    start, end = spell.interval
    # A rank that crashes and returns at the same time has lost its state.
    return start < end or (start == end and isinstance(spell.effect, Stops) and spell.effect.forgets)
