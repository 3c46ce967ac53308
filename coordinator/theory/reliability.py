"""Exact predictions for a broadcast under random faults: delivery ratio and guaranteed delivery.

The prediction takes three steps, one module each:

1. `fault_model` prepares the faults, random and given, for counting;
2. `copy_paths` reads from the schedule which copies each node can receive, and the places each copy depends on;
3. `delivery_ratio` and `guaranteed_delivery` count the draws in which these places are healthy.

Given faults break the paths through them. Faults that begin later or end count where the copy uses the place in such a
step. Links that lose packets at a rate pass each packet with probability 1 - rate. Theory predicts nothing where this
is not exact: under faults with other effects, for algorithms whose schedule does not determine the cost of faults, and
for algorithms that build trees around known faults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from coordinator.dependence.message_paths import MessagePaths, paths_of
from coordinator.dependence.size import MOST_HOPS, InexactError, stated_hops
from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_sets import BY_SHARE, FaultSetSpec
from coordinator.theory.copy_paths import CopyPaths
from coordinator.theory.delivery_ratio import delivery_ratio
from coordinator.theory.fault_model import given_faults, is_timed, random_faults
from coordinator.theory.guaranteed_delivery import guaranteed_delivery
from emunode.algorithms.base import Algorithm, Dependence
from emunode.faults.kinds import KINDS, Fault, LinkFault, NodeFault
from emunode.model import Collective, FaultKnowledge


@dataclass(frozen=True)
class Expected:
    """The prediction for one point; None where there is no exact one."""

    ratio: float | None = None
    """Mean share of the messages due to healthy nodes that arrive."""
    guaranteed: float | None = None
    """Share of draws in which all of them arrive."""


def expected_delivery_ratio(
    algorithm: Algorithm,
    faults: Sequence[Fault],
    knowledge: FaultKnowledge,
    fault_set: FaultSetSpec,
    places: FaultSites,
) -> Expected:
    """Predict the figures of the draws of a fault set, in addition to given faults."""
    # An algorithm that knows the faults may build other trees than the traced ones.
    adapts = type(algorithm).claims_with_known_faults is not Algorithm.claims_with_known_faults
    if (
        algorithm.collective is not Collective.BROADCAST
        or algorithm.dependence not in (Dependence.FIXED, Dependence.QUEUED)
        or (knowledge is FaultKnowledge.ALL and adapts)
    ):
        return Expected()
    draws = random_faults(fault_set, places)
    given = given_faults(algorithm, faults)
    if draws is None or given is None:
        return Expected()
    if algorithm.dependence is Dependence.QUEUED and (draws.timed or is_timed(given)):
        return Expected()  # in queues, steps depend on the faults
    found = _paths_of(algorithm)
    if found is None:
        return Expected()
    paths = CopyPaths(algorithm, found, given, draws)
    ratio = delivery_ratio(paths)
    if ratio is None:
        return Expected()
    # A mean of exactly 1 leaves no draw with a loss, so the draws need not be counted. A float may be 1 by rounding.
    always = ratio == 1 and isinstance(ratio, Fraction)
    guaranteed = ratio if always else guaranteed_delivery(paths)
    # Rates are floating-point numbers, so that a sum may exceed 1 by a rounding error.
    return Expected(min(1.0, float(ratio)), None if guaranteed is None else min(1.0, float(guaranteed)))


def _paths_of(algorithm: Algorithm) -> MessagePaths | None:
    """Return the paths of a broadcast; None if they are too many, or if its copies do not have one path to each rank."""
    # The number first: to find out by a trace takes a minute.
    if (stated_hops(algorithm) or 0) > MOST_HOPS:
        return None
    try:
        return paths_of(algorithm, MOST_HOPS)
    except InexactError:
        return None


def promises(algorithm: Algorithm, faults: Sequence[Fault], fault_set: FaultSetSpec) -> bool:
    """Return whether the algorithm claims full delivery under every set of a fault set description, in addition to
    given faults.

    Claims go by the number of faults, as for a single run. No place is both given and drawn.
    """
    if fault_set.how in BY_SHARE or fault_set.in_blocks:
        return False
    alters_payload: dict[object, bool] = {}
    for fault in faults:
        # A fault with a rate of 0 changes nothing, and is no fault in the claims of algorithms.
        if not fault.breaks:
            continue
        place: object = fault.rank if isinstance(fault, NodeFault) else None
        if isinstance(fault, LinkFault):
            # Both directions of a link count as one broken link in the claims of algorithms.
            place = frozenset((fault.sender, algorithm.topology.neighbour(fault.sender, fault.port)))
        alters_payload[place] = alters_payload.get(place, False) or fault.alters_payload
    altering = sum(alters_payload.values()) + sum(
        part.count for part in fault_set.parts if KINDS[part.kind].alters_payload
    )
    # Every place counts once: as altering if any of its faults alters.
    broken = len(alters_payload) + fault_set.size - altering
    faulty = {fault.rank for fault in faults if isinstance(fault, NodeFault)}
    if not broken and not altering:
        return True
    claims = algorithm.claims_with_faults(broken, altering, faulty)
    return any((claim.name, claim.relation, claim.predicted) == ("delivery_ratio", "==", 1.0) for claim in claims)
