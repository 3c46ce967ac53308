"""Claims about runs in which nodes detect faults by silence."""

from collections.abc import Iterator
from dataclasses import replace

from coordinator.dependence.outages import Outages
from coordinator.theory import outage_claims
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Claim
from emunode.faults.effects import Alters, Delays, Duplicates, Effect, Loses, Place, Stops
from emunode.faults.timeline import FaultTimeline
from emunode.model import Detection
from emunode.topologies.base import Topology

SOURCE = "detection by silence"


def detection_claims(detection: Detection, timeline: FaultTimeline) -> Iterator[Claim]:
    """Claims about the detectors: perfect where every live neighbour is heard in time, and then as fast as K."""
    if timeline.opaque:
        return
    effects = {type(effect) for place, _, effect in timeline if _concerns_signs(place, effect)}
    delays = [sum(effect.steps for _, effect in spells) for spells in timeline.of(Delays).values()]
    returning = any(not interval.is_endless for intervals in timeline.stops.values() for interval in intervals)
    # Signs of life come at most 1 + delay steps apart, unless something returns and the first sign is still under way.
    in_time = not delays or (1 + max(delays) <= detection.after and not returning)
    if effects <= {Stops, Delays} and in_time:
        yield Claim("false_suspicions", 0, "==", f"{SOURCE}: perfect, K >= 1 + delay")
    # A sign under way puts the detection off, as does a rank that hangs, or has just recovered.
    if effects <= {Stops, Loses} and timeline.ranks_only_crash and not detection.doubling:
        yield Claim("slowest_detection_steps", detection.after, "<=", f"{SOURCE}: K steps")


def _concerns_signs(place: Place, effect: Effect) -> bool:
    """Whether an effect can keep signs of life away. Faults do not count signs, and ranks withhold none."""
    if isinstance(effect, Loses):
        return effect.packet is None and not isinstance(place, int)
    return not isinstance(effect, Alters | Duplicates)


def claims_with_outages(topology: Topology, algorithm: Algorithm, outages: Outages) -> list[Claim]:
    """Claims about the deliveries: nodes withhold what would be lost, and more if a link works in one direction or again."""
    places = dict(outages.places)
    for link, intervals in outages.links.items():
        places.setdefault(topology.end(*link), intervals)
    both = Outages(places, outages.faulty)
    lasting = all(any(each.is_endless for each in intervals) for intervals in places.values())
    if lasting and len(places) == len(outages.places):
        return outage_claims.claims_with_outages(algorithm, outages)
    return [
        replace(claim, relation=">=") if (claim.name, claim.relation) == ("intact_deliveries", "==") else claim
        for claim in outage_claims.claims_with_outages(algorithm, both.always())
    ]
