"""Exact predictions for a broadcast under random faults: delivery ratio and guaranteed delivery.

The random and the given faults are threats (`random_faults`), and the paths of the copies say what each threat costs
(`threats`). The delivery ratio is counted by inclusion and exclusion over the copies (`delivery_ratio`). Guaranteed delivery
is a product over all paths, where only links fail and every segment has a single copy; elsewhere all sets of faults are gone
through (`survivors`), if they are few enough.

Given faults break the paths through them. Faults that begin later or end count where the copy uses the place in such a
step. Links that lose packets at a rate pass each packet with probability 1 - rate. Theory predicts nothing where this
is not exact: under faults with other effects, for algorithms whose schedule does not determine the cost of faults, and
for algorithms that build trees around known faults.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import comb
from typing import Final

from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_sets import BY_SHARE, FaultSetSpec
from coordinator.theory.delivery_ratio import BroadcastCopies, delivery_ratio, whole_paths
from coordinator.theory.dependence.message_paths import MessagePaths, paths_of
from coordinator.theory.dependence.size import TRACE_HOPS, InexactError, stated_hops
from coordinator.theory.fault_positions import quotient
from coordinator.theory.random_faults import given_faults, random_faults
from coordinator.theory.survivors import SetCounter
from coordinator.theory.threats import Number, ThreatenedMessages, Threats
from emunode.algorithms.base import Algorithm, Dependence
from emunode.faults.kinds import KINDS, Fault, LinkFault, NodeFault
from emunode.model import Collective, FaultKnowledge

MOST_WORDS: Final = 2**24
"""Most words of 64 bits in a table of rows, and in the rows of all sets of nodes or of links."""
MOST_WORK: Final = 2**26
"""Most words that are united over all pairs of a set of nodes with a set of links."""


@dataclass(frozen=True)
class Expected:
    """The prediction for one point; None where there is no exact one."""

    ratio: float | None = None
    """Mean share of the messages due to healthy nodes that arrive."""
    guaranteed: float | None = None
    """Share of draws where all messages arrive."""


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
    outages, losses = given
    threats = Threats(outages, {}, draws.threats)
    if algorithm.dependence is Dependence.QUEUED and (threats.timed or losses or draws.lossy):
        return Expected()  # in queues, steps depend on the faults
    paths = _paths_of(algorithm)
    if paths is None:
        return Expected()
    copies = BroadcastCopies(algorithm, ThreatenedMessages(paths, threats), losses, draws)
    ratio = delivery_ratio(copies)
    if ratio is None:
        return Expected()
    # A mean of exactly 1 leaves no draw with a loss, so the draws need not be counted. A float may be 1 by rounding.
    always = ratio == 1 and isinstance(ratio, Fraction)
    guaranteed = ratio if always else _guaranteed_delivery(copies)
    # Rates are floating-point numbers, so that a sum may exceed 1 by a rounding error.
    return Expected(min(1.0, float(ratio)), None if guaranteed is None else min(1.0, float(guaranteed)))


def _guaranteed_delivery(copies: BroadcastCopies) -> Number | None:
    """Return the probability that no healthy node misses a message; None where it cannot be counted exactly."""
    # If only links fail and every segment has one copy, all paths have to be whole: one product, however many sets there
    # are. If nodes fail too, the paths to a faulty node need not be whole.
    whole = None if copies.draws.node_parts else whole_paths(copies)
    # Where faulty links let packets pass, sets of faults do not decide the deliveries alone.
    passing = copies.lossy or any(copies.draws.passing)
    return whole if whole is not None or passing else _count_sets(copies)


def _count_sets(copies: BroadcastCopies) -> Number | None:
    """Return the share of sets of faults that leave every healthy node served; None if there are too many sets."""
    draws, receivers = copies.draws, len(copies.messages.receivers)
    # A set that leaves no healthy receiver is undecided in a campaign. Where switches may fail too, the number of faulty
    # nodes does not say whether a receiver is left.
    if copies.drawn_switches and max(draws.node_counts) >= receivers:
        return None
    node_counts = {count: chance for count, chance in draws.node_counts.items() if count < receivers}
    nodes = {count: comb(len(draws.nodes), count) for count in node_counts}
    links = {count: comb(len(draws.links), count) for count in draws.link_counts}
    # Refused in advance: tables grow with the places, and the time with the binomial coefficients.
    largest, pairs = max(*nodes.values(), *links.values()), sum(nodes.values()) * sum(links.values())
    if pairs > MOST_WORK:
        return None
    counter = SetCounter(copies.messages)
    if max(counter.width * largest, counter.table_words) > MOST_WORDS or counter.width * pairs > MOST_WORK:
        return None
    survived = sum(
        # Faults of nodes and of links are drawn independently, so every pair of a set of nodes with a set of links is
        # equally likely.
        chance * draws.link_counts[down] * Fraction(counter.count((count, down)).least, nodes[count] * links[down])
        for count, chance in node_counts.items()
        for down in links
    )
    return quotient(survived, sum(node_counts.values()))


def _paths_of(algorithm: Algorithm) -> MessagePaths | None:
    """Return the paths of a broadcast.

    None if there are too many, or if a copy does not have one path to each rank.
    """
    # Refused by the stated number of hops: a trace takes a minute to find the same.
    if (stated_hops(algorithm) or 0) > TRACE_HOPS:
        return None
    try:
        return paths_of(algorithm, TRACE_HOPS)
    except InexactError:
        return None


def promises(algorithm: Algorithm, faults: Sequence[Fault], fault_set: FaultSetSpec) -> bool:
    """Return whether the algorithm claims full delivery under all sets of faults.

    `fault_set` describes the sets; each adds to the given faults. Claims go by the number of faults, as for a single
    run. No place is both given and drawn.
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
