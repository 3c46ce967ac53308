"""The expected delivery ratio, by inclusion and exclusion over the copies of each message.

A node is served if every piece of a message has a copy whose path is whole. The probability of that is a signed sum of
probabilities that all copies of a set have whole paths, and each of these follows from counting. With k of n nodes and m of
L links broken at random before the first step, paths with a inner nodes and b links are whole, and the node itself is
healthy, with probability

    C(n - 1 - a, k) / C(n, k)  x  C(L - b, m) / C(L, m)

Nothing is due to switches. Where they may fail too, faults of nodes with data and of switches are counted apart.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from math import comb
from typing import Final

from coordinator.theory.copy_paths import CopyPaths, Use, joined
from coordinator.theory.fault_model import Number
from coordinator.theory.placements import quotient

MOST_TERMS: Final = 2_000_000
"""Pairs (node, set of copies) that are gone through at most."""


def delivery_ratio(paths: CopyPaths) -> Number | None:
    """Return the mean ratio of served to due messages, over the draws in which messages are due; None if it takes too
    many terms.
    """
    terms = _terms(paths)
    if terms is None:
        return None
    by_use = _terms_by_use(paths, terms)
    places, messages = len(paths.draws.nodes), paths.algorithm.spec.messages
    switches = paths.drawn_switches.bit_count()
    total: Number = 0
    weight: Number = 0
    for count, probability in paths.draws.node_counts.items():
        for others in range(min(count, switches) + 1):
            # A faulty node is due nothing, so the number of receivers shrinks with the faults drawn.
            struck = count - others
            receivers = len(paths.receivers) - struck
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


def _terms(paths: CopyPaths) -> dict[int, int] | None:
    """Return the coefficients of the signed sum: copies that arrive together, as bits -> factor; None if there are too
    many.
    """
    bit = {copy: 1 << at for at, copy in enumerate(paths.copies)}
    # Terms are gone through once per node.
    most = MOST_TERMS // paths.algorithm.topology.order
    total: Counter[int] = Counter()
    for needs, messages in paths.message_needs.items():
        # Messages with equal needs arrive with equal probability, so their number is a common factor.
        terms = Counter({0: messages})
        # All pieces of a message are needed: the sums of its needs are multiplied.
        for need in needs:
            choices = _signed_unions([bit[copy] for copy in need])
            if len(terms) * len(choices) > most:
                return None
            terms = _multiplied(terms, choices)
        total.update(terms)
    # Terms of different messages may cancel out; a term of 0 would still be evaluated for every receiver.
    found = {union: factor for union, factor in total.items() if factor}
    return found if len(found) <= most else None


def _terms_by_use(paths: CopyPaths, terms: Mapping[int, int]) -> Mapping[tuple[int, int, Number], int]:
    """Sum factors over all receivers, by (nodes with data and switches that have to be healthy, chance of the links)."""
    summed: Counter[tuple[int, int, Number]] = Counter()
    switches = paths.drawn_switches
    chances: dict[tuple[int, int], Number] = {}
    for rank, uses in paths.uses():
        # The receiver itself has to be healthy too, if it is among the nodes that may be drawn.
        own = 1 << rank if rank in paths.drawn_nodes else 0
        unions: dict[int, Use | None] = {0: Use(own, 0, 0)}
        for term, factor in terms.items():
            use = _united(term, uses, unions)
            if use is None:
                continue
            key = use.links, use.packets
            if key not in chances:
                chances[key] = paths.chance_of_links(use)
            # Equal uses have equal probabilities, so their factors are added up before any is multiplied.
            passed = (use.nodes & switches).bit_count()
            summed[use.nodes.bit_count() - passed, passed, chances[key]] += factor
    return summed


def _signed_unions(bits: Sequence[int]) -> Counter[int]:
    """Return the signed sum of inclusion and exclusion for "at least one of some events", over sets of events that
    happen together.
    """
    # Starting from -1 makes the empty set the constant, which is removed: 1 - product of (1 - event).
    unions = Counter({0: -1})
    for bit in bits:
        # Each set with the new event has the opposite sign of the set without it. No union has this bit yet, so the new
        # keys are different from the old keys and from each other.
        unions.update({union | bit: -factor for union, factor in list(unions.items())})
    del unions[0]
    return unions


def _multiplied(terms: Mapping[int, int], choices: Mapping[int, int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for (one, factor), (other, sign) in product(terms.items(), choices.items()):
        # Both sets of copies have to arrive. A copy in both sets is needed once, which is why unions are taken and
        # probabilities are not multiplied.
        found[one | other] += factor * sign
    return found


def _united(term: int, uses: Sequence[Use | None], known: dict[int, Use | None]) -> Use | None:
    """Return the places that the copies of a term depend on together; None if one of them is lost in any case."""
    if term not in known:
        # A term without its lowest bit is already known: one union per term.
        rest = term & (term - 1)
        known[term] = joined(_united(rest, uses, known), uses[(term ^ rest).bit_length() - 1])
    return known[term]
