"""The faults of a campaign point, prepared for counting: faults drawn at random, and faults of the scenario.

A fault can be counted if all that it does is to stop packets at its place, or to lose each one on a link with a probability.
Everything else gives None, and then theory makes no prediction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb, prod
from typing import Final

from coordinator.dependence.outages import THROUGHOUT
from coordinator.scenario.fault_draws import FaultSites, eligible
from coordinator.scenario.fault_sets import FIXED, FaultSetSpec, FaultSetTerm
from emunode.algorithms.base import Algorithm
from emunode.faults.effects import Choice, Effect, Interval, Loses, Place, Stops
from emunode.faults.kinds import Fault, NodeFault, states_effects
from emunode.faults.timeline import FaultTimeline, merged
from emunode.model import Rank

Number = int | float | Fraction
Link = tuple[Rank, Rank]
SURE: Final = (0, 1)
"""Probabilities under which no packet is lost at random."""


def passing(effect: Effect, place: Place) -> Number | None:
    """Return the probability that a packet passes a place under an effect, or None if the effect cannot be counted."""
    on_link = not isinstance(place, int)
    match effect:
        case Stops():
            return 0
        case Loses(probability=probability, choice=Choice.PACKET, packet=None) if on_link:
            # The whole numbers 0 and 1 keep a sum of fractions exact; one float would turn the whole sum into a float.
            return 1 - probability if probability < 1 else 0
        # A node that sends on no port is as good as stopped for the copies that it should forward, although it still
        # reads.
        case Loses(probability=probability, choice=Choice.PORT, packet=None) if not on_link and probability >= 1:
            return 0
    return None


@dataclass(frozen=True)
class RandomFaults:
    """Random faults: which kinds, on which places, in which steps."""

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
    def timed(self) -> bool:
        """Whether the step matters in which a copy uses a place."""
        return self.window != THROUGHOUT or self.lossy

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
    # The places are fixed by the fault-free run.
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
    if not states_effects(type(fault)):
        return None
    effects = list(fault.effects())
    # A node that fails for a while is not counted: it takes part again afterwards. One without an effect is faulty too.
    if isinstance(fault, NodeFault) and not (effects and fault.interval.is_endless):
        return None
    if any((place, interval) != (fault.place, fault.interval) for place, interval, _ in effects):
        return None
    chances = [passing(effect, place) for place, _, effect in effects]
    return None if None in chances else prod(chance for chance in chances if chance is not None)


def given_faults(algorithm: Algorithm, faults: Sequence[Fault]) -> FaultTimeline | None:
    """Return the timeline of the faults of a scenario, or None if theory cannot count one of them, or if one is at the
    source.
    """
    timeline = FaultTimeline(faults)
    faulty = {fault.rank for fault in faults if isinstance(fault, NodeFault)}
    # A node whose faults have no effect is faulty all the same.
    if timeline.opaque or algorithm.spec.source in faulty or faulty != set(silent_ranks(timeline)):
        return None
    for place, interval, effect in timeline:
        # A node that returns without its state does not pass on earlier receipts.
        forgets = isinstance(effect, Stops) and effect.forgets and not interval.is_endless
        if forgets or passing(effect, place) is None:
            return None
    return timeline


def silent_ranks(given: FaultTimeline) -> list[Rank]:
    """Return the ranks that stop packets at any time."""
    return [place for place in given.spells if isinstance(place, int)]


def loses_at_random(given: FaultTimeline) -> bool:
    """Report whether links lose single packets at random."""
    return any(passing(effect, place) not in SURE for place, _, effect in given)


def is_timed(given: FaultTimeline) -> bool:
    """Report whether the step matters in which a copy uses a place."""
    # A fault that lasts from step 1 to the end strikes every copy of a tree alike.
    intervals = (merged(spell.interval for spell in spells) for spells in given.spells.values())
    return loses_at_random(given) or any(there != [THROUGHOUT] for there in intervals)
