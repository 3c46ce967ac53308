"""The faults of a run under the timed clock, as functions of virtual time.

All times are whole nanoseconds since the run began. A packet begins to leave at `start` and has crossed at `end`. It is
received if and only if its sender, its link in this direction and its receiver are up during the whole of [start, end).

At one instant receipts come first, then faults, then sends. So a node that crashes at T has received what ends at T, and
sends nothing that starts at T.

Chance depends on (seed, step, rank, port, fault), as in lock-step, where (step, rank, port) names the packet. So no draw
depends on a clock, and where the steps coincide the same packets are lost.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import zip_longest
from math import ceil, floor, prod
from operator import attrgetter
from typing import Any, NamedTuple

from emunode.errors import FrameError
from emunode.faults.byzantine import ByzantineFault, CommonKnowledge
from emunode.faults.effects import ALWAYS, Interval
from emunode.faults.injector import Faults
from emunode.faults.kinds import (
    FOREVER,
    Crash,
    Fault,
    Hang,
    Heal,
    LinkFault,
    Recover,
    Up,
    field_names,
    from_record,
    is_outage,
    kind_of,
    to_record,
)
from emunode.faults.slowness import Drift, Jitter, Slow, SlowLink
from emunode.faults.transit import FaultRandom, LinkTransit
from emunode.model import Packet, Port, Rank, Step
from emunode.topologies.base import Topology


class TimedFault(NamedTuple):
    """A fault with its times.

    It is in force from `start` on, and before `end`. The steps in its record have no meaning.
    """

    start: int
    end: int
    fault: Fault

    def record(self) -> tuple[object, ...]:
        """Return the fault as plain values, without its steps.

        Nanoseconds are too many for a step.
        """
        forever: dict[str, Any] = {"last": FOREVER} if "last" in field_names(type(self.fault)) else {}
        return (self.start, self.end, to_record(replace(self.fault, step=1, **forever)))

    @classmethod
    def from_record(cls, record: object, topology: Topology) -> "TimedFault":
        """Return the inverse of `record`; FrameError for anything else."""
        if not isinstance(record, list | tuple) or len(record) != 3:
            raise FrameError(f"malformed fault {record!r:.200}")
        start, end, fault = record
        if not (type(start) is int and type(end) is int and 0 <= start <= end <= ALWAYS):
            raise FrameError(f"malformed fault {record!r:.200}: invalid times")
        return cls(start, end, from_record(fault, topology))


class FaultsInTime:
    """All faults of a run, known from its beginning to its end.

    `origin_is_author`, `knows` and `known` are as in `injector.Faults`.
    """

    def __init__(
        self,
        topology: Topology,
        seed: int,
        faults: Iterable[TimedFault],
        *,
        origin_is_author: bool = True,
        knows: bool = False,
        known: CommonKnowledge | None = None,
    ) -> None:
        self._topology = topology
        self._seed = seed
        self.knows = knows
        self.timing_affected = False
        """Whether packets may be read in later steps than without faults."""
        self.payload_altered = False
        self._births: dict[Rank, list[int]] = {}
        self._crashes: dict[Rank, list[int]] = {}
        self._silent: dict[Rank, list[Interval]] = {}
        self._down: dict[tuple[Rank, Port], list[Interval]] = {}
        self._treatments = _Treatments(topology, seed, origin_is_author=origin_is_author, known=known)
        self._links: dict[tuple[Rank, Port], list[tuple[str, TimedFault]]] = {}
        self._slow: dict[Rank, list[TimedFault]] = {}
        self._slow_links: dict[tuple[Rank, Port], list[tuple[str, TimedFault]]] = {}
        self._rates: dict[Rank, Fraction] = {}
        self._counts: dict[tuple[Rank, Port], dict[str, int]] = {}
        # Stable: faults of one time keep the order of their effects.
        for timed in sorted(faults, key=attrgetter("start")):
            if timed.fault.breaks:
                self.timing_affected |= timed.fault.affects_timing
                self.payload_altered |= timed.fault.alters_payload
            self._add(timed)

    def _add(self, timed: TimedFault) -> None:
        start, end, fault = timed
        match fault:
            case Crash(rank=rank):
                # A crash ends a hang: the node does not go on where it was.
                _cut(self._silent.get(rank, []), start)
                self._silent.setdefault(rank, []).append(Interval(start, ALWAYS))
                self._crashes.setdefault(rank, []).append(start)
            case Recover(rank=rank):
                _cut(self._silent.get(rank, []), start)
                self._births.setdefault(rank, [0]).append(start)
            case Hang(rank=rank):
                self._silent.setdefault(rank, []).append(Interval(start, end))
            case ByzantineFault() if fault.breaks:
                self._treatments.add(timed)
            case LinkFault(sender=sender, port=port) if is_outage(fault):
                self._down.setdefault((sender, port), []).append(Interval(start, end))
            case Up():
                self._repair(start, fault)
            case Slow(rank=rank):
                self._slow.setdefault(rank, []).append(timed)
            case Drift(rank=rank, drift=drift):
                self._rates[rank] = self._rates.get(rank, Fraction(1)) * (1 + exact(drift))
            case SlowLink(sender=sender, port=port) | Jitter(sender=sender, port=port):
                self._number(self._slow_links.setdefault((sender, port), []), timed)
            case LinkFault(sender=sender, port=port):
                self._number(self._links.setdefault((sender, port), []), timed)

    def _repair(self, start: int, fault: Up) -> None:
        """End an outage of a direction of a link at `start`.

        `Heal` also ends everything else that has befallen it.
        """
        link = fault.sender, fault.port
        _cut(self._down.get(link, []), start)
        if isinstance(fault, Heal):
            for on_link in (self._links.get(link, []), self._slow_links.get(link, [])):
                # They stay in the list: the names of later faults count them.
                on_link[:] = [(name, each._replace(end=min(each.end, start))) for name, each in on_link]

    @staticmethod
    def _number(on_link: list[tuple[str, TimedFault]], timed: TimedFault) -> None:
        """Add a fault under the name that keys its random numbers, as `Faults.apply` does."""
        number = sum(type(timed.fault) is type(other.fault) for _, other in on_link)
        on_link.append((f"{kind_of(timed.fault)} {number}", timed))

    # --- nodes and links -------------------------------------------------------------------------------------------

    def incarnations(self, rank: Rank) -> list[Interval]:
        """Return the incarnations of a node, each from its creation to its crash.

        A recovery creates the node anew.
        """
        # Crashes and recoveries alternate, so the last one may have no end.
        ends = zip_longest(self._births.get(rank, [0]), self._crashes.get(rank, ()), fillvalue=ALWAYS)
        return [Interval(start, end) for start, end in ends]

    def hangs(self, rank: Rank) -> list[Interval]:
        """Return the intervals when a node hangs, ascending."""
        crashes = self._crashes.get(rank, ())
        return [interval for interval in self._silent.get(rank, ()) if interval[0] not in crashes]

    def silent(self, rank: Rank, time: int) -> bool:
        """Return whether a node neither reads nor sends at `time`."""
        return _overlaps(self._silent.get(rank, ()), time, time + 1)

    def is_byzantine(self, rank: Rank, time: int) -> bool:
        """Return whether `rank` alters or withholds its sends at `time`."""
        self._treatments.now = time
        return bool(self._treatments.byzantine(0, rank))

    def treated(self, step: Step, rank: Rank, port: Port, segments: Packet, start: int) -> tuple[Packet, Packet]:
        """Return the segments of a packet that starts at `start`, as the node treats them.

        These are the sent segments, as altered, and the withheld segments.
        """
        if not self.is_byzantine(rank, start):
            return segments, ()
        return self._treatments.treated(self._treatments.byzantine(step, rank), step, rank, port, segments)

    def clock(self, rank: Rank, shown: int) -> int:
        """Return the time when the clock of `rank` shows `shown`."""
        rate = self._rates.get(rank)
        return shown if rate is None else ceil(shown / rate)

    def shown(self, rank: Rank, time: int) -> int:
        """Return the reading of the clock of `rank` at `time`.

        `clock(rank, x)` is the first time when it reads x.
        """
        rate = self._rates.get(rank)
        return time if rate is None else floor(time * rate)

    def crosses(self, rank: Rank, port: Port, start: int, end: int) -> bool:
        """Return whether both ends and the link are up from `start` to `end`.

        Faults of single packets are left out here.
        """
        # A packet of no duration still needs its ends at its time.
        end = max(end, start + 1)
        return not (
            _overlaps(self._silent.get(rank, ()), start, end)
            or _overlaps(self._down.get((rank, port), ()), start, end)
            or _overlaps(self._silent.get(self._topology.neighbour(rank, port), ()), start, end)
        )

    def is_dead(self, rank: Rank, port: Port, time: int) -> bool:
        """Return whether nothing that `rank` sends by `port` at `time` can arrive."""
        down = _overlaps(self._down.get((rank, port), ()), time, time + 1)
        return down or self.silent(self._topology.neighbour(rank, port), time)

    def is_dead_end(self, rank: Rank, port: Port, time: int) -> bool:
        """Return whether nothing came from `rank` by `port` just before `time`.

        Then the rank was silent, or its link down.
        """
        before = (time - 1, time)
        return _overlaps(self._silent.get(rank, ()), *before) or _overlaps(self._down.get((rank, port), ()), *before)

    def dead_since(self, rank: Rank, port: Port, time: int) -> int:
        """Return the beginning of the silence of `rank` at `port`.

        Returns `time` if something came just before it.
        """
        since = time
        while True:
            spans = (*self._silent.get(rank, ()), *self._down.get((rank, port), ()))
            earlier = min((start for start, end in spans if start < since <= end), default=since)
            if earlier == since:
                return since
            since = earlier

    def live_ports(self, rank: Rank, time: int) -> tuple[Port, ...]:
        """Return the ports that a rank uses if it knows the state of its own links and neighbours."""
        return tuple(port for port in self._topology.ports(rank) if not self.is_dead(rank, port, time))

    # --- packets ---------------------------------------------------------------------------------------------------

    def occupancy(self, step: Step, rank: Rank, port: Port, start: int, duration: int) -> int:
        """Return how long a packet that starts at `start` occupies its port.

        `duration` is its time without faults.
        """
        nodes, links = self._slow.get(rank), self._slow_links.get((rank, port))
        if not nodes and not links:
            return duration
        factor = Fraction(1)
        for each in nodes or ():
            if each.start <= start < each.end:
                factor *= exact(each.fault.factor)  # type: ignore[attr-defined]
        random = FaultRandom(self._seed, step, rank, port)
        for name, each in links or ():
            if not each.start <= start < each.end:
                continue
            random.start(name)
            if isinstance(each.fault, Jitter):
                factor *= 1 + exact(each.fault.spread) * Fraction(random.draw())
            else:
                factor *= exact(each.fault.factor)  # type: ignore[attr-defined]
        # Rounded up, once: a packet is never faster than the product of its factors says.
        return ceil(duration * factor)

    def slowness(self, rank: Rank, time: int) -> Fraction:
        """Return the factor by which `rank` is slow at `time`.

        Everything that it does takes so many times as long.
        """
        factors = (
            exact(each.fault.factor)  # type: ignore[attr-defined]
            for each in self._slow.get(rank, ())
            if each.start <= time < each.end
        )
        return prod(factors, start=Fraction(1))

    def largest_factor(self) -> float:
        """Return the largest factor by which a packet may occupy its port longer than without faults.

        The factors of a node and of its link multiply.
        """
        nodes = {rank: _product(faults) for rank, faults in self._slow.items()}
        links = {
            (rank, port): _product(timed for _, timed in faults) * nodes.get(rank, 1)
            for (rank, port), faults in self._slow_links.items()
        }
        return float(max([*nodes.values(), *links.values()], default=1))

    def transit(self, step: Step, rank: Rank, port: Port, segments: Packet, start: int) -> LinkTransit:
        """Return a packet that starts at `start`, as the faults of its link change it."""
        on_link = self._links.get((rank, port), ())
        random = FaultRandom(self._seed, step, rank, port)
        transit = LinkTransit(segments, random, self._counts.setdefault((rank, port), {}) if on_link else {})
        for name, each in on_link:
            if each.start <= start < each.end:
                transit.carry_out(name, each.fault.act)  # type: ignore[attr-defined]
        return transit


def _product(slow: Iterable[TimedFault]) -> Fraction:
    """Return the largest product of the factors of these faults.

    They need not be in force at the same time.
    """
    factors = (
        1 + exact(fault.spread) if isinstance(fault, Jitter) else exact(fault.factor)  # type: ignore[attr-defined]
        for _, _, fault in slow
    )
    return prod(factors, start=Fraction(1))


class _Treatments(Faults):
    """The byzantine nodes at one time, in place of one step."""

    def __init__(self, topology: Topology, seed: int, *, origin_is_author: bool, known: CommonKnowledge | None) -> None:
        super().__init__(topology, seed, origin_is_author=origin_is_author, known=known)
        self.now = 0
        self._times: dict[Rank, list[TimedFault]] = {}

    def add(self, timed: TimedFault) -> None:
        """Note a byzantine fault."""
        self.apply([timed.fault])
        self._times.setdefault(timed.fault.rank, []).append(timed)  # type: ignore[attr-defined]

    def byzantine(self, step: Step, rank: Rank) -> list[ByzantineFault]:
        del step
        return [fault for start, end, fault in self._times.get(rank, ()) if start <= self.now < end]  # type: ignore[misc]


@cache
def exact(value: float) -> Fraction:
    """Return the number as it is written in decimals.

    So 1 ms x 1.1 is 1.1 ms and not a nanosecond more.
    """
    return Fraction(repr(value))


def _cut(intervals: list[Interval], time: int) -> None:
    """End intervals that last beyond `time` at `time`."""
    intervals[:] = [Interval(start, min(end, time)) for start, end in intervals if start < time]


def _overlaps(intervals: Sequence[Interval], start: int, end: int) -> bool:
    """Return whether [start, end) has a time in common with one of the intervals."""
    return any(since < end and start < until for since, until in intervals)
