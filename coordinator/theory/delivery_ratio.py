"""The expected delivery ratio of a broadcast, by inclusion and exclusion over the copies of each message.

A node is served if every segment of a message has a copy whose path is whole. The probability of that is a signed sum of
probabilities that all copies of a set have whole paths, and each of these follows from counting. With k of n nodes and m of
L links broken at random before the first step, paths with a inner nodes and b links are whole, and the node itself is
healthy, with probability

    C(n - 1 - a, k) / C(n, k)  x  C(L - b, m) / C(L, m)

Nothing is due to switches. Where they may fail too, faults of nodes with data and of switches are counted apart.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product
from math import comb, prod
from typing import Final, NamedTuple

from coordinator.theory.dependence.message_paths import MessageSegment, PathHop
from coordinator.theory.dependence.outages import LossRates
from coordinator.theory.fault_positions import placements, quotient, share_whole
from coordinator.theory.least_faults import ThreatPlace
from coordinator.theory.random_faults import RandomFaults
from coordinator.theory.threats import Number, ThreatenedMessages
from emunode.algorithms.base import Algorithm
from emunode.model import ALL_RANKS, Rank

MOST_TERMS: Final = 2_000_000
"""Pairs (node, set of copies) that are gone through at most."""

Alternatives = tuple[frozenset[int], ...]
"""For each segment the numbers of its copies; one of the copies has to arrive."""

Term = tuple[int, int, int, int]
"""Copies that arrive together, these without one copy, that copy, and the factor of the term; sets of copies as bits."""


class Use(NamedTuple):
    """The places that copies depend on, as bit sets."""

    nodes: int
    """Inner nodes, by rank, that the random faults would silence before they forward the copy."""
    links: int
    """Links, by index, that the copy crosses while the random faults last."""
    packets: int
    """Packets, by number, that carry the copy over links; empty if no link loses packets."""


class BroadcastCopies:
    """The copies of a broadcast under random faults, by the places that they depend on."""

    def __init__(
        self, algorithm: Algorithm, messages: ThreatenedMessages, losses: LossRates, draws: RandomFaults
    ) -> None:
        self.algorithm = algorithm
        self.messages = messages
        self.draws = draws
        self.drawn_nodes = frozenset(draws.nodes)
        self.drawn_switches = sum(1 << rank for rank in draws.nodes if algorithm.topology.is_switch(rank))
        """The switches among them, as bits."""
        self._losses = losses
        # Without losses no packet has to be numbered, and the sets stay small.
        self.lossy = bool(losses) or draws.lossy
        self._number: Mapping[ThreatPlace, int] = {
            **{rank: rank for rank in draws.nodes},
            **{link: at for at, link in enumerate(draws.links)},
        }
        """By place, its bit in a set of nodes or of links."""
        self._packets: dict[PathHop, int] = {}
        # Thousands of sets of copies cross equally many links.
        self._chance_by_crossings = cache(self._count_crossings)

        spec, length = algorithm.spec, algorithm.segments_per_message
        segments = tuple((spec.source, ALL_RANKS, segment) for segment in range(spec.messages * length))
        # Of segments that are always struck alike the first stands for all; with losses, every packet counts on its own.
        first = messages.paths.first_alike(segments, timed=messages.threats.timed or self.lossy)
        self.segments = sorted(set(first.values()))
        number = {segment: at for at, segment in enumerate(self.segments)}
        self.segments_of_messages = Counter(
            frozenset(number[first[segment]] for segment in segments[at : at + length])
            for at in range(0, len(segments), length)
        )
        """The number of messages by the segments that they need."""

    def uses(self) -> Iterator[tuple[Rank, Sequence[Use], Alternatives]]:
        """Yield for every receiver the places that each copy depends on, and the copies of each segment.

        Copies that the given faults lose are left out.
        """
        for message in self.messages.due:
            # Copies that depend on the same places arrive or are lost together, and are one.
            number: dict[Use, int] = {}
            copies = tuple(
                frozenset([number.setdefault(use, len(number)) for use in self._uses_of(segment, message.receiver)])
                for segment in self.segments
            )
            yield message.receiver, list(number), copies

    def _uses_of(self, segment: MessageSegment, receiver: Rank) -> Iterator[Use]:
        for path in self.messages.paths.copies(segment, receiver).values():
            copy = self.messages.threats.copy(path)
            if copy.damage:
                continue
            nodes, links = copy.places
            packets = 0
            if self.lossy:
                for hop in path:
                    # Numbered on first sight: packets shared by two copies are lost or passed together.
                    packets |= 1 << self._packets.setdefault(hop, len(self._packets))
            yield Use(self._bits(nodes), self._bits(links), packets)

    def _bits(self, places: Iterable[ThreatPlace]) -> int:
        # Sets as bits: a union is one operation on whole numbers, and equal unions are equal keys. The places differ, so
        # that the sum has all their bits.
        return sum(map((1).__lshift__, map(self._number.__getitem__, places)))

    # --- chances of links --------------------------------------------------------------------------------------------

    def chance_of_links(self, links: int, packets: int) -> Number:
        """Return the probability that no link breaks the paths of some copies; the paths use these links and packets."""
        if not packets:
            # All used links must be whole; without losses only their number matters.
            return self._chance_by_crossings(((1, links.bit_count()),))
        chance, on_link = self._chance_of_packets(packets)
        # Links that lose packets weigh as many packets as the copies send over them.
        crossed = Counter(on_link.get(at, 1) if self.draws.lossy else 1 for at in set_bits(links))
        return chance * self._chance_by_crossings(tuple(sorted(crossed.items())))

    def _count_crossings(self, crossed: tuple[tuple[int, int], ...]) -> Number:
        """Return this probability from pairs (packets that cross a link, number of such links)."""
        draws = self.draws
        if not draws.link_parts:
            return 1
        # Faults on links that no copy uses do no harm, but these links take part in the draw: without them a fixed
        # number of faults would always strike used ones.
        unused = 0, len(draws.links) - sum(size for _, size in crossed)
        # Weight of a part on a link: the probability that all packets over it pass. If none passes, that is 0 on a used
        # link and 1 on an unused one.
        groups = [
            (size, [chance**packets if chance else int(not packets) for chance in draws.passing])
            for packets, size in (*crossed, unused)
        ]
        if draws.independent:
            # Bernoulli: links fail independently, so the probabilities multiply.
            return prod(share_whole(draws.link_parts, weights) ** size for size, weights in groups)
        counts = tuple(part.count for part in draws.link_parts)
        # A fixed number of faults: the weighted number of placements over the number of all placements.
        return quotient(placements(groups, counts), placements([(len(draws.links), [1] * len(counts))], counts))

    def _chance_of_packets(self, packets: int) -> tuple[Number, Mapping[int, int]]:
        """Return the probability that given losses spare some packets.

        Also returned is how many of these packets each random link carries.
        """
        chance: Number = 1
        on_link: Counter[int] = Counter()
        # Dictionaries keep the order of insertion, so the number of a packet is its position in this list.
        known = list(self._packets)
        for at in set_bits(packets):
            step, sender, port, receiver = known[at]
            for interval, rate in self._losses.get((sender, port), ()):
                if step in interval:
                    chance *= 1 - rate
            link = self._number.get((min(sender, receiver), max(sender, receiver)))
            if link is not None and step in self.draws.window:
                on_link[link] += 1
        return chance, on_link


def set_bits(mask: int) -> Iterator[int]:
    """Yield the positions of the bits that are set, ascending."""
    while mask:
        # Isolates the lowest bit that is set.
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


# --- figures -----------------------------------------------------------------------------------------------------------


def whole_paths(copies: BroadcastCopies) -> Number | None:
    """Return the probability that every receiver gets all its copies, or None if it may miss one of several copies."""
    all_links = all_packets = 0
    for _, uses, alternatives in copies.uses():
        if not all(alternatives):
            return 0
        if any(len(each) > 1 for each in alternatives):
            return None
        for _, links, packets in uses:
            all_links |= links
            all_packets |= packets
    return copies.chance_of_links(all_links, all_packets)


def delivery_ratio(copies: BroadcastCopies) -> Number | None:
    """Return the mean ratio of served to due messages, or None.

    The mean is over the draws with messages due. None if it takes too many terms.
    """
    by_use = _terms_by_use(copies)
    if by_use is None:
        return None
    places, messages = len(copies.draws.nodes), copies.algorithm.spec.messages
    switches = copies.drawn_switches.bit_count()
    total: Number = 0
    weight: Number = 0
    for count, probability in copies.draws.node_counts.items():
        for others in range(min(count, switches) + 1):
            # A faulty node is due nothing, so the number of receivers shrinks with the faults drawn.
            struck = count - others
            receivers = len(copies.messages.due) - struck
            sets = comb(places - switches, struck) * comb(switches, others)
            # Draws that leave no receiver have no ratio, and are left out as in the campaign.
            if receivers <= 0 or not sets or not probability:
                continue
            # The formula of the module's docstring: C(n - 1 - a, k) over C(n, k), with a healthy inner nodes required.
            served = sum(
                comb(places - switches - used, struck) * comb(switches - passed, others) * chance * factor
                for (used, passed, chance), factor in by_use.items()
            )
            total += probability * quotient(served, comb(places, count) * receivers * messages)
            weight += probability * quotient(sets, comb(places, count))
    # Draws without receivers are in neither sum, so the quotient is the mean under the condition that something is due.
    return quotient(total, weight) if weight else None


def _terms_by_use(copies: BroadcastCopies) -> Mapping[tuple[int, int, Number], int] | None:
    """Sum factors over all receivers, by (nodes with data and switches that have to be healthy, chance of the links).

    None if there are too many terms.
    """
    # Probabilities are named by their positions in `places`: to hash a fraction takes longer than all the rest.
    summed: Counter[tuple[int, int, int]] = Counter()
    switches = copies.drawn_switches
    chances: dict[tuple[int, int], int] = {}
    places: dict[Number, int] = {}
    # Terms are gone through once per node.
    most = MOST_TERMS // copies.algorithm.topology.order
    # Many receivers have copies with equal numbers.
    terms_of = cache(partial(_terms, copies.segments_of_messages, most))
    for rank, uses, alternatives in copies.uses():
        terms = terms_of(alternatives)
        if terms is None:
            return None
        # The receiver itself has to be healthy too, if it is among the nodes that may be drawn.
        unions = {0: (1 << rank if rank in copies.drawn_nodes else 0, 0, 0)}
        for term, rest, copy, factor in terms:
            nodes, links, packets = unions[rest]
            more_nodes, more_links, more_packets = uses[copy]
            nodes, links, packets = unions[term] = nodes | more_nodes, links | more_links, packets | more_packets
            if factor:
                key = (links, packets) if packets else (links.bit_count(), 0)
                if key not in chances:
                    chances[key] = places.setdefault(copies.chance_of_links(links, packets), len(places))
                # Equal uses have equal probabilities, so their factors are added up before any is multiplied.
                passed = (nodes & switches).bit_count()
                summed[nodes.bit_count() - passed, passed, chances[key]] += factor
    numbers = list(places)
    return {(used, passed, numbers[place]): factor for (used, passed, place), factor in summed.items()}


def _terms(messages: Mapping[frozenset[int], int], most: int, alternatives: Alternatives) -> Sequence[Term] | None:
    """Return the terms of the signed sum, and all terms that their unions begin with; None if there are more than `most`.

    Each follows the term that it extends by one copy.
    """
    total: Counter[int] = Counter()
    for segments, number in messages.items():
        # Messages with equal needs arrive with equal probability, so their number is a common factor.
        terms = Counter({0: number})
        # All segments of a message are needed: the sums of its needs are multiplied.
        for copies in {alternatives[segment] for segment in segments}:
            choices = _signed_unions([1 << copy for copy in copies])
            if len(terms) * len(choices) > most:
                return None
            terms = _multiplied(terms, choices)
        total.update(terms)
    # Terms of different messages may cancel out; a term of 0 would still be evaluated for every receiver.
    factors = {union: factor for union, factor in total.items() if factor}
    if len(factors) > most:
        return None
    unions: set[int] = set()
    for term in factors:
        # Each union is made of a smaller one and one more copy.
        union = term
        while union and union not in unions:
            unions.add(union)
            union &= union - 1
    # Without the lowest bit a number is smaller, so that each union comes after the union that it is made of.
    return [
        (union, union & (union - 1), (union & -union).bit_length() - 1, factors.get(union, 0))
        for union in sorted(unions)
    ]


def _signed_unions(bits: Sequence[int]) -> Counter[int]:
    """Return the signed sum of inclusion and exclusion for "at least one event".

    Its terms are sets of events that happen together.
    """
    # Starting from -1 makes the empty set the constant, to be removed: 1 - product of (1 - event).
    unions = Counter({0: -1})
    for bit in bits:
        # Each set with the new event has the opposite sign of the set without it. No union has this bit yet, so the new
        # keys are different from the old keys and from each other.
        unions.update({union | bit: -factor for union, factor in list(unions.items())})
    del unions[0]
    return unions


def _multiplied(terms: Mapping[int, int], choices: Mapping[int, int]) -> Counter[int]:
    products: Counter[int] = Counter()
    for (one, factor), (other, sign) in product(terms.items(), choices.items()):
        # Both sets of copies have to arrive. A copy in both sets is needed once, so unions are taken and probabilities
        # are not multiplied.
        products[one | other] += factor * sign
    return products
