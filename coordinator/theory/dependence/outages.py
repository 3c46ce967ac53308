"""Ranks and directions of links that are out of service: the faults whose losses follow from a schedule."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from emunode.faults.effects import ALWAYS, Choice, Drifts, Interval, LinkEnd, Loses, Place, Slows, Stops
from emunode.faults.timeline import FaultTimeline, merged
from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology

THROUGHOUT: Final = Interval(1, ALWAYS)


@dataclass(frozen=True)
class Outages:
    """Places that are out of service, with the steps."""

    places: Mapping[Place, Sequence[Interval]] = field(default_factory=dict)
    faulty: frozenset[Rank] = frozenset()
    """Ranks that have a fault of their own at any time; no deliveries to them are expected."""

    @cached_property
    def nodes(self) -> Mapping[Rank, Sequence[Interval]]:
        """The ranks among the places."""
        return {place: intervals for place, intervals in self.places.items() if isinstance(place, int)}

    @cached_property
    def links(self) -> Mapping[LinkEnd, Sequence[Interval]]:
        """The directions of links among the places."""
        return {place: intervals for place, intervals in self.places.items() if not isinstance(place, int)}

    @property
    def permanent(self) -> bool:
        """Whether every outage lasts from the first step to the end."""
        return all(any(each.start <= 1 and each.is_endless for each in intervals) for intervals in self.places.values())

    def always(self) -> "Outages":
        """Return the same places, out of service in every step."""
        return Outages({place: [THROUGHOUT] for place in self.places}, self.faulty)

    def blocks(self, step: Step, sender: Rank, port: Port, receiver: Rank) -> Place | None:
        """Return the place that stops a packet in `step`, or None if it crosses."""
        # The sender first: a packet that is never sent is not blamed on the link or the receiver.
        place: Place
        for place in (sender, (sender, port), receiver):
            for interval in self.places.get(place, ()):
                if interval.start <= step < interval.end:
                    return place
        return None


LossRates = Mapping[LinkEnd, Sequence[tuple[Interval, float]]]
"""Directions of links that lose single packets at random: the times and the probability."""


def outages_of(
    timeline: FaultTimeline,
    faulty: Collection[Rank],
    topology: Topology,
    seed: int,
    losses: dict[LinkEnd, list[tuple[Interval, float]]] | None = None,
) -> Outages | None:
    """Return the outages that the faults of `timeline` amount to, or None if a fault has another effect.

    The silence of a node is an outage of all links over which the node should send. A crash that ends is not an outage,
    since the node has lost its state. Faults that lose, alter, repeat or delay single packets, or that state no
    effects, are no outages either; but links that lose each packet with a probability are noted in `losses`, if given.
    """
    if timeline.opaque:
        return None
    outages: dict[Place, list[Interval]] = {}
    for place, spells in timeline.spells.items():
        for spell in spells:
            match spell.effect:
                # Late packets are not lost: in lock-step such faults change nothing.
                case Slows() | Drifts():
                    pass
                # A rank that resumes with its state passes on the segments that it had; a rank that has forgotten them
                # does not.
                case Stops(forgets=forgets) if spell.interval.is_endless or not forgets:
                    outages.setdefault(place, []).append(spell.interval)
                case Loses(probability=rate, choice=Choice.PACKET, packet=None) if (
                    losses is not None and not isinstance(place, int)
                ):
                    if rate < 1:
                        losses.setdefault(place, []).append((spell.interval, rate))
                    else:
                        outages.setdefault(place, []).append(spell.interval)
                case Loses(choice=Choice.PORT) if isinstance(place, int):
                    for port in topology.ports(place):
                        # The silent ports of a node may be drawn from the seed; None if the choice depends on the
                        # packet.
                        silent = spell.fault.silent_at(seed, port)
                        if silent is None:
                            return None
                        if silent:
                            outages.setdefault((place, port), []).append(spell.interval)
                case _:
                    return None
    # A rank that crashes while it hangs is out of service in one interval.
    return Outages({place: merged(intervals) for place, intervals in outages.items()}, frozenset(faulty))
