"""The faults of a campaign point, prepared for counting: faults drawn at random, and faults of the scenario.

A fault can be counted if all that it does is to stop packets at its place, or to lose each one on a link with a probability.
Everything else gives None, and then theory makes no prediction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb, prod
from typing import Final

from coordinator.scenario.blocks import Link
from coordinator.scenario.fault_draws import FaultSites, eligible
from coordinator.scenario.fault_sets import FIXED, FaultSetSpec, FaultSetTerm
from coordinator.theory.dependence.outages import THROUGHOUT, LossRates, Outages, outages_of
from coordinator.theory.least_faults import ThreatPlace
from coordinator.theory.threats import STOPS, Number, ThreatPart, passing
from emunode.algorithms.base import Algorithm
from emunode.faults.effects import Interval, LinkEnd
from emunode.faults.kinds import Fault, NodeFault, stated_effects
from emunode.faults.timeline import FaultTimeline
from emunode.model import Rank

SURE: Final = (0, 1)
"""Probabilities that lose no packet at random."""


@dataclass(frozen=True)
class RandomFaults:
    """Random faults: their kinds, places and steps."""

    nodes: Sequence[Rank]
    """Nodes that may be drawn, without the source: it is healthy in every trial that counts."""
    links: Sequence[Link]
    window: Interval
    node_parts: Sequence[FaultSetTerm]
    link_parts: Sequence[FaultSetTerm]
    passing: Sequence[Number]
    """For each part that strikes links, the probability that a packet passes."""
    independent: bool
    """Whether each place fails with a probability of its own, instead of a fixed number of places."""

    @property
    def lossy(self) -> bool:
        """Whether single packets are lost at random."""
        return any(chance not in SURE for chance in self.passing)

    @property
    def threats(self) -> tuple[ThreatPart, ThreatPart]:
        """The places as parts of threats: nodes, links. A faulty place stops all copies that depend on it."""
        nodes, links = frozenset[ThreatPlace](self.nodes), frozenset[ThreatPlace](self.links)
        return (
            ThreatPart("", on_links=False, receives=False, weight=STOPS, window=self.window, eligible=nodes),
            ThreatPart("", on_links=True, receives=True, weight=STOPS, window=self.window, eligible=links),
        )

    @property
    def node_counts(self) -> Mapping[int, Number]:
        """Number of nodes that break -> its probability."""
        return self._counts(len(self.nodes), self.node_parts)

    @property
    def link_counts(self) -> Mapping[int, Number]:
        """Number of links that break -> its probability."""
        return self._counts(len(self.links), self.link_parts)

    def _counts(self, places: int, parts: Sequence[FaultSetTerm]) -> Mapping[int, Number]:
        if not self.independent:
            # The number is fixed, and only the places are drawn.
            return {sum(part.count for part in parts): 1}
        # A place is whole if no part strikes it; parts draw independently of each other.
        share = 1 - prod(1 - part.share for part in parts)
        if not share:
            return {0: 1}
        return {
            count: comb(places, count) * share**count * (1 - share) ** (places - count) for count in range(places + 1)
        }


def random_faults(fault_set: FaultSetSpec, places: FaultSites) -> RandomFaults | None:
    """Return the faults that a fault set draws, or None if theory cannot count them, or if they can never be drawn."""
    parts = [part for part in fault_set.parts if part.count or part.share]
    # Places of a block do not fail independently of each other, and places of a process fail in steps of their own.
    if fault_set.how == "process" or any(part.block for part in parts):
        return None
    drawn = [fault_set.fault_of(part) for part in parts]
    chances = [_passing_under(fault) for fault in drawn]
    if None in chances:
        return None
    node_parts, link_parts = ([part for part in parts if part.on_links == on_links] for on_links in (False, True))
    nodes: Sequence[Rank] = eligible(fault_set, node_parts[0], places) if node_parts else ()  # type: ignore[assignment]
    links: Sequence[Link] = eligible(fault_set, link_parts[0], places) if link_parts else ()  # type: ignore[assignment]
    # These strategies draw nothing: they strike the first places in order.
    if fault_set.how in FIXED:
        nodes = nodes[: sum(part.count for part in node_parts)]
        links = links[: sum(part.count for part in link_parts)]
        if places.sources.intersection(nodes):
            return None
        if len(link_parts) > 1:
            return None  # which link gets which part is fixed, not drawn
    # The source is healthy in every trial that counts; trials with a faulty one are undecided.
    nodes = [rank for rank in nodes if rank != places.algorithm.spec.source]
    if sum(part.count for part in node_parts) > len(nodes) or sum(part.count for part in link_parts) > len(links):
        return None
    window = drawn[0].interval if drawn else THROUGHOUT
    of_links = [chance for part, chance in zip(parts, chances, strict=True) if part.on_links and chance is not None]
    return RandomFaults(nodes, links, window, node_parts, link_parts, of_links, fault_set.how == "bernoulli")


def _passing_under(fault: Fault) -> Number | None:
    """Return the probability that a packet passes the place of a fault that may be drawn."""
    effects = stated_effects(fault)
    if effects is None:
        return None
    # A node that fails for a while is not counted: it takes part again afterwards. One without an effect is faulty too.
    if isinstance(fault, NodeFault) and not (effects and fault.interval.is_endless):
        return None
    if any((place, interval) != (fault.place, fault.interval) for place, interval, _ in effects):
        return None
    chances = [passing(effect, place) for place, _, effect in effects]
    return None if None in chances else prod(chance for chance in chances if chance is not None)


def given_faults(algorithm: Algorithm, faults: Sequence[Fault]) -> tuple[Outages, LossRates] | None:
    """Return the outages that the faults of a scenario amount to, and the links where they lose single packets.

    None if theory cannot count one of the faults, or if one is at the source.
    """
    timeline = FaultTimeline(faults)
    faulty = {fault.rank for fault in faults if isinstance(fault, NodeFault)}
    # A node whose faults have no effect is faulty all the same.
    struck = {place for place in timeline.spells if isinstance(place, int)}
    if timeline.opaque or algorithm.spec.source in faulty or faulty != struck:
        return None
    if any(passing(effect, place) is None for place, _, effect in timeline):
        return None
    losses: dict[LinkEnd, list[tuple[Interval, float]]] = {}
    outages = outages_of(timeline, faulty, algorithm.topology, algorithm.spec.seed, losses)
    return None if outages is None else (outages, losses)
