"""What trees predict under random faults, exactly: the delivery ratio and the guaranteed delivery of a broadcast.

A node is served if every piece of a message has a copy whose tree path is whole when the copy takes it. Inclusion and
exclusion over the copies of each message turns that into probabilities that all paths of some copies are whole, and each of
these follows from counting. With k of n nodes and m of L links broken at random before the first step, paths with a inner
nodes and b links are whole, and the node itself is healthy, with probability

    C(n - 1 - a, k) / C(n, k)  x  C(L - b, m) / C(L, m)

The same counting covers given faults (a path through them is broken), faults that begin later or end (a place counts
if the copy uses it in such a step), places drawn from a part of the network, places that fail with a probability each, and
links that lose packets at a rate (each packet of a path passes a lossy link with probability 1 - rate).

Guaranteed delivery is the probability that nobody healthy misses anything. It is 1 where the ratio is, a product where there
is one copy of everything and only links fail, and else counted over all sets of faults if they are few enough. Nothing is
said where none of this is exact: under other kinds of faults, and for algorithms that build trees around known faults.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property
from itertools import chain, product
from itertools import count as count_from
from math import comb, factorial, perm, prod
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.scenario.fault_sets import FaultSetSpec, FaultSetTerm, FaultSites, eligible
from emunode.algorithms.base import Algorithm, LocalView
from emunode.algorithms.tree_collective import ForwardRule, TreeCollective
from emunode.faults.kinds import (
    FOREVER,
    KINDS,
    Crash,
    Down,
    Fault,
    Hang,
    LinkFault,
    Loss,
    NodeFault,
    RatedFault,
)
from emunode.model import Collective, FaultKnowledge, Rank, Step

MOST_TERMS: Final = 2_000_000
"""(node, set of copies) pairs that are gone through."""
MOST_WORDS: Final = 2**23
"""Size of the table of all sets of nodes, or of links, in words of 64 bits, for guaranteed delivery."""
MOST_WORK: Final = 2**25
"""Words that are gone through for guaranteed delivery."""
NODE_KINDS: Final = frozenset({"crash", "hang"})
LINK_KINDS: Final = frozenset({"down", "loss"})

Number = int | float | Fraction
Link = tuple[Rank, Rank]
Hop = tuple[Rank, Rank, Step]
"""Sender, receiver, step."""
Fate = tuple[int, int]
"""Tree and number of a copy; number 0 where all copies of a tree share their fate."""
Need = frozenset[Fate]
"""Copies one of which has to arrive."""
Window = tuple[Step, Step]
ALWAYS: Final[Window] = (1, FOREVER)
Words = NDArray[np.uint64]


@dataclass(frozen=True)
class Expected:
    """What theory says of one point; None where it says nothing exact."""

    ratio: float | None = None
    """Mean share of the messages due to healthy nodes that arrive."""
    guaranteed: float | None = None
    """Share of the draws in which all of them arrive."""


class Use(NamedTuple):
    """What the way of one copy to one node depends on, as bits."""

    nodes: int
    """Inner nodes that the random faults would silence in time, by rank."""
    links: int
    """Links that it crosses while the random faults last, by index."""
    packets: int
    """Packets it is part of on links while they lose packets, by number; empty if nothing loses any."""


def expected_delivery_ratio(
    algorithm: Algorithm, faults: Sequence[Fault], knowledge: FaultKnowledge, recipe: FaultSetSpec, places: FaultSites
) -> Expected:
    """What trees predict for draws of a recipe, on top of given faults."""
    adapts = type(algorithm).claims_with_known_faults is not Algorithm.claims_with_known_faults
    if (
        not isinstance(algorithm, TreeCollective)
        or algorithm.collective is not Collective.BROADCAST
        or (knowledge is FaultKnowledge.ALL and adapts)
    ):
        return Expected()
    draws = _draws_of(recipe, places)
    given = _given(algorithm, faults)
    if draws is None or given is None:
        return Expected()
    by_rule = type(algorithm.rule(LocalView(algorithm.topology, 0))) is ForwardRule
    if (draws.timed or given.timed) and not by_rule:
        return Expected()  # its timetable is not known in advance
    model = Model(algorithm, given, draws)
    return Expected() if model.terms is None else model.expected()


# --- what is drawn and what is given ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Draws:
    """A recipe for counting: what breaks, where, in which steps."""

    nodes: Sequence[Rank]
    """The nodes among which are drawn, the source apart: it is healthy in every trial that counts."""
    links: Sequence[Link]
    window: Window
    node_parts: Sequence[FaultSetTerm]
    link_parts: Sequence[FaultSetTerm]
    independent: bool
    """Whether each place fails with a probability, and not a fixed number of places."""

    @property
    def passing(self) -> list[float]:
        """For each part of the links the probability that a packet passes."""
        return [0.0 if part.kind == "down" else 1 - float(part.argument[1:]) for part in self.link_parts]

    @property
    def lossy(self) -> bool:
        """Whether chance decides about single packets."""
        return any(part.kind == "loss" for part in self.link_parts)

    @property
    def timed(self) -> bool:
        """Whether it matters when a copy is where."""
        return self.window != ALWAYS or self.lossy

    @property
    def node_counts(self) -> Mapping[int, Number]:
        """How many nodes break -> with what probability."""
        return self._counts(len(self.nodes), self.node_parts)

    @property
    def link_counts(self) -> Mapping[int, Number]:
        """How many links are struck -> with what probability."""
        return self._counts(len(self.links), self.link_parts)

    def _counts(self, places: int, parts: Sequence[FaultSetTerm]) -> Mapping[int, Number]:
        if not self.independent:
            return {sum(part.count for part in parts): 1}
        share = 1 - prod(1 - part.share for part in parts)
        if not share:
            return {0: 1}
        return {
            count: comb(places, count) * share**count * (1 - share) ** (places - count) for count in range(places + 1)
        }


def _draws_of(recipe: FaultSetSpec, places: FaultSites) -> Draws | None:
    """A recipe for counting; None where it is about something else, or can never be drawn."""
    first, dash, last = recipe.when.partition("-")
    parts = [part for part in recipe.parts if part.count or part.share]
    if any(part.kind not in NODE_KINDS | LINK_KINDS or (part.kind == "hang" and dash) for part in parts):
        return None
    node_parts, link_parts = ([part for part in parts if part.on_links == on_links] for on_links in (False, True))
    nodes: Sequence[Rank] = eligible(recipe, node_parts[0], places) if node_parts else ()  # type: ignore[assignment]
    links: Sequence[Link] = eligible(recipe, link_parts[0], places) if link_parts else ()  # type: ignore[assignment]
    if recipe.how == "busiest":
        nodes = nodes[: sum(part.count for part in node_parts)]
        links = links[: sum(part.count for part in link_parts)]
        if places.sources.intersection(nodes):
            return None
        if len(link_parts) > 1:
            return None  # which link gets which part is fixed, and not drawn
    nodes = [rank for rank in nodes if rank != places.algorithm.spec.source]
    if sum(part.count for part in node_parts) > len(nodes) or sum(part.count for part in link_parts) > len(links):
        return None
    window = (int(first), int(last) if dash else FOREVER)
    return Draws(nodes, links, window if parts else ALWAYS, node_parts, link_parts, recipe.how == "bernoulli")


@dataclass(frozen=True)
class Given:
    """The faults that are there in every trial."""

    silent: dict[Rank, Step]
    """Nodes that neither read nor send, from which step on."""
    down: dict[Link, list[Window]]
    """(sender, receiver) -> when nothing crosses."""
    losses: dict[Link, list[tuple[Window, float]]]
    """(sender, receiver) -> when packets are lost, and the rate."""

    @property
    def timed(self) -> bool:
        """Whether it matters when a copy is where."""
        windows = chain(self.down.values(), [[(step, FOREVER) for step in self.silent.values()]])
        return bool(self.losses) or any(window != ALWAYS for each in windows for window in each)

    def breaks(self, way: Iterable[Hop]) -> bool:
        """Whether a copy gets lost on its way."""
        return any(
            self.silent.get(sender, FOREVER) <= step or self._is_down(sender, to, step) for sender, to, step in way
        )

    def _is_down(self, sender: Rank, receiver: Rank, step: Step) -> bool:
        return any(_within(step, window) for window in self.down.get((sender, receiver), ()))

    def passing(self, sender: Rank, receiver: Rank, step: Step) -> float:
        """The probability that a packet is not lost by chance."""
        losses = self.losses.get((sender, receiver), ())
        return prod(1 - rate for window, rate in losses if _within(step, window))


def _within(step: Step, window: Window) -> bool:
    return window[0] <= step <= window[1]


def _given(algorithm: Algorithm, faults: Sequence[Fault]) -> Given | None:
    """Given faults for counting; None where they are of other kinds, or concern the source."""
    given = Given({}, {}, {})
    neighbour = algorithm.topology.neighbour
    for fault in faults:
        match fault:
            case Crash(rank=rank) | Hang(rank=rank) if fault.end == FOREVER and rank != algorithm.spec.source:
                given.silent[rank] = min(fault.step, given.silent.get(rank, FOREVER))
            case Down(step=step, sender=sender, port=port, last=last):
                given.down.setdefault((sender, neighbour(sender, port)), []).append((step, last))
            case Loss(step=step, sender=sender, port=port, last=last, rate=rate):
                given.losses.setdefault((sender, neighbour(sender, port)), []).append(((step, last), rate))
            case RatedFault(rate=0):
                pass
            case _:
                return None
    return given


# --- counting ----------------------------------------------------------------------------------------------------------


class Model:
    """One algorithm under given and random faults."""

    def __init__(self, algorithm: TreeCollective, given: Given, draws: Draws) -> None:
        self.algorithm = algorithm
        self.given = given
        self.draws = draws
        self._timed = given.timed or draws.timed
        self._lossy = bool(given.losses) or draws.lossy
        self._link_index = {link: at for at, link in enumerate(draws.links)}
        self._packets: dict[Hop, int] = {}
        self._drawn_nodes = frozenset(draws.nodes)
        self._chance_by_crossings = cache(self._count_crossings)
        self._needs = self._needs_of_messages()
        self.fates = sorted({fate for needs in self._needs for need in needs for fate in need})
        """(tree, number) of copies that can have different fates."""
        self.terms = self._terms()
        source = algorithm.spec.source
        self.owed = [rank for rank in algorithm.topology.ranks() if rank != source and rank not in given.silent]
        """Nodes that are owed something, those that are drawn apart."""

    def _needs_of_messages(self) -> Counter[frozenset[Need]]:
        """What messages need: of each piece one copy; and how many messages need the same."""
        algorithm = self.algorithm
        carriers: dict[int, set[Fate]] = {}
        for tree in range(algorithm.trees.count):
            for number, segment in algorithm.copies_on_tree(tree):
                carriers.setdefault(segment, set()).add((tree, number if self._timed else 0))
        pieces = algorithm.segments_per_message
        return Counter(
            frozenset(frozenset(carriers[segment]) for segment in range(first, first + pieces))
            for first in range(0, algorithm.spec.messages * pieces, pieces)
        )

    def _terms(self) -> dict[int, int] | None:
        """Set of fates, as bits -> its coefficient in the number of messages served; None if there are too many."""
        bit = {fate: 1 << at for at, fate in enumerate(self.fates)}
        total: Counter[int] = Counter()
        for needs, messages in self._needs.items():
            terms = Counter({0: messages})
            for need in needs:
                choices = _signed_unions([bit[fate] for fate in need])
                if len(terms) * len(choices) * self.algorithm.topology.order > MOST_TERMS:
                    return None
                terms = _multiplied(terms, choices)
            total.update(terms)
        found = {union: factor for union, factor in total.items() if factor}
        return found if len(found) * self.algorithm.topology.order <= MOST_TERMS else None

    # --- ways --------------------------------------------------------------------------------------------------------

    def _ways(self, tree: int) -> Iterator[tuple[Rank, tuple[Hop, ...]]]:
        """Every rank but the source, and how number 0 of a tree gets there."""
        algorithm, topology, source = self.algorithm, self.algorithm.topology, self.algorithm.spec.source
        reached: list[tuple[Rank, Step, tuple[Hop, ...]]] = [(0, 0, ())]
        while reached:
            relative, step, way = reached.pop()
            here = topology.absolute(relative, source)
            if way:
                yield here, way
            for port, delay in algorithm.child_delays(relative, tree):
                child = topology.neighbour(relative, port)
                hop = here, topology.absolute(child, source), step + delay
                reached.append((child, step + delay, (*way, hop)))

    @cached_property
    def _ways_of(self) -> Mapping[int, Mapping[Rank, Sequence[Hop]]]:
        return {tree: dict(self._ways(tree)) for tree in {tree for tree, _ in self.fates}}

    def uses(self) -> Iterator[tuple[Rank, list[Use | None]]]:
        """For every rank that is owed something, and every fate: what it depends on; None if it is lost anyway."""
        period = self.algorithm.period
        for rank in self.owed:
            found: list[Use | None] = []
            for tree, number in self.fates:
                way = [(sender, to, step + number * period) for sender, to, step in self._ways_of[tree][rank]]
                found.append(None if self.given.breaks(way) else self._use(way))
            yield rank, found

    def _use(self, way: Iterable[Hop]) -> Use:
        nodes = links = packets = 0
        first, last = self.draws.window
        for sender, receiver, step in way:
            if step >= first and sender in self._drawn_nodes:
                nodes |= 1 << sender
            at = self._link_index.get((min(sender, receiver), max(sender, receiver)))
            if at is not None and first <= step <= last:
                links |= 1 << at
            if self._lossy:
                packets |= 1 << self._packets.setdefault((sender, receiver, step), len(self._packets))
        return Use(nodes, links, packets)

    # --- the ratio ---------------------------------------------------------------------------------------------------

    def expected(self) -> Expected:
        """Both figures."""
        ratio = self._ratio()
        if ratio is None:
            return Expected()
        guaranteed = ratio if ratio == 1 and isinstance(ratio, Fraction) else self._guaranteed()
        return Expected(min(1.0, float(ratio)), None if guaranteed is None else min(1.0, float(guaranteed)))

    def _ratio(self) -> Number | None:
        """The mean of served to owed, over the draws in which something is owed."""
        assert self.terms is not None
        tallied: Counter[tuple[int, Number]] = Counter()
        chances: dict[tuple[int, int], Number] = {}
        for rank, ways in self.uses():
            own = 1 << rank if rank in self._drawn_nodes else 0
            unions: dict[int, Use | None] = {0: Use(own, 0, 0)}
            for term, factor in self.terms.items():
                use = _united(term, ways, unions)
                if use is None:
                    continue
                key = use.links, use.packets
                if key not in chances:
                    chances[key] = self._chance_of_links(use)
                tallied[use.nodes.bit_count(), chances[key]] += factor
        places, messages = len(self.draws.nodes), self.algorithm.spec.messages
        total: Number = 0
        weight: Number = 0
        for count, probability in self.draws.node_counts.items():
            owed = len(self.owed) - count
            if not owed or not probability:
                continue
            served = sum(comb(places - used, count) * chance * factor for (used, chance), factor in tallied.items())
            total += probability * _over(served, comb(places, count) * owed * messages)
            weight += probability
        return _over(total, weight) if weight else None

    def _chance_of_links(self, use: Use) -> Number:
        """The probability that no link breaks the ways of some copies."""
        if not use.packets:
            return self._chance_by_crossings(((1, use.links.bit_count()),))
        chance, packets = self._chance_of_packets(use.packets)
        crossed = Counter(packets.get(at, 1) if self.draws.lossy else 1 for at in _bits(use.links))
        return chance * self._chance_by_crossings(tuple(sorted(crossed.items())))

    def _count_crossings(self, crossed: tuple[tuple[int, int], ...]) -> Number:
        """The same, given by how many packets cross a link -> how many such links there are."""
        draws = self.draws
        spared = 0, len(draws.links) - sum(size for _, size in crossed)
        groups = [
            (size, [int(not many) if not rate else rate**many for rate in draws.passing])
            for many, size in (*crossed, spared)
        ]
        if not draws.link_parts:
            return 1
        if draws.independent:
            return prod(_share_whole(draws.link_parts, weights) ** size for size, weights in groups)
        counts = tuple(part.count for part in draws.link_parts)
        return _over(_placings(groups, counts), _placings([(len(draws.links), [1] * len(counts))], counts))

    def _chance_of_packets(self, packets: int) -> tuple[Number, Mapping[int, int]]:
        """The probability that given losses spare some packets, and how many of these cross each link that is drawn."""
        if not packets:
            return 1, {}
        chance: Number = 1
        on_link: Counter[int] = Counter()
        first, last = self.draws.window
        known = list(self._packets)
        for at in _bits(packets):
            sender, receiver, step = known[at]
            if self.given.losses:
                chance *= self.given.passing(sender, receiver, step)
            link = self._link_index.get((min(sender, receiver), max(sender, receiver)))
            if link is not None and first <= step <= last:
                on_link[link] += 1
        return chance, on_link

    # --- guaranteed delivery -----------------------------------------------------------------------------------------

    def _guaranteed(self) -> Number | None:
        single = all(len(need) == 1 for need in self.needs)
        if single and not self.draws.node_parts:
            everything: Use | None = Use(0, 0, 0)
            for _, ways in self.uses():
                for use in ways:
                    everything = _joined(everything, use)
            return 0 if everything is None else self._chance_of_links(everything)
        return None if self._lossy else self._counted()

    @cached_property
    def needs(self) -> frozenset[Need]:
        """What has to arrive, over all messages."""
        return frozenset(chain.from_iterable(self._needs))

    def _counted(self) -> Number | None:
        """The share of sets of faults that everybody healthy survives, by going through all of them."""
        draws = self.draws
        node_counts = {count: chance for count, chance in draws.node_counts.items() if count < len(self.owed)}
        link_counts = draws.link_counts
        width = (len(self.fates) + 1) * -(-self.algorithm.topology.order // 64)
        nodes = [width * comb(len(draws.nodes), count) for count in node_counts]
        links = [width * comb(len(draws.links), count) for count in link_counts]
        rows = len(draws.nodes) + len(draws.links)
        if max(*nodes, *links, width * rows) > MOST_WORDS or sum(nodes) * sum(links) > MOST_WORK * width:
            return None
        table = SetTable(self)
        survived = sum(
            node_counts[count] * link_counts[down] * share
            for (count, down), share in table.survived(node_counts, link_counts)
        )
        return _over(survived, sum(node_counts.values()))


class SetTable:
    """Sets of faults as rows of bits (fate, rank): which copies they break. One more block marks who is drawn itself."""

    def __init__(self, model: Model) -> None:
        order, draws = model.algorithm.topology.order, model.draws
        self._block = -(-order // 64)
        self._bit = {fate: at for at, fate in enumerate(model.fates)}
        self._needs = model.needs
        shape = len(model.fates) + 1, 64 * self._block
        lost = np.zeros((1, *shape), dtype=np.bool_)
        at_node, at_link = (np.zeros((len(places), *shape), dtype=np.bool_) for places in (draws.nodes, draws.links))
        index = {rank: at for at, rank in enumerate(draws.nodes)}
        for rank, ways in model.uses():
            for fate, use in enumerate(ways):
                if use is None:
                    lost[0, fate, rank] = True
                    continue
                for place in _bits(use.nodes):
                    at_node[index[place], fate, rank] = True
                for place in _bits(use.links):
                    at_link[place, fate, rank] = True
        for rank, at in index.items():
            at_node[at, -1, rank] = True
        self._lost, self._nodes, self._links = map(_packed, (lost, at_node, at_link))

    def survived(self, nodes: Collection[int], links: Collection[int]) -> Iterator[tuple[tuple[int, int], Fraction]]:
        """For each number of nodes and of links: the share of sets that leave no healthy node without something."""
        for count, by_node in _unions(self._nodes, nodes):
            for down, by_link in _unions(self._links, links):
                few, many = sorted((by_node, by_link | self._lost), key=len)
                survivors = sum(self._survivors(many | row) for row in few)
                yield (count, down), Fraction(survivors, len(few) * len(many))

    def _survivors(self, sets: Words) -> int:
        blocks = sets.reshape(len(sets), -1, self._block)
        missing = np.zeros((len(sets), self._block), dtype=np.uint64)
        for need in self._needs:
            missing |= np.bitwise_and.reduce(blocks[:, [self._bit[fate] for fate in need]], axis=1)
        return int((~(missing & ~blocks[:, -1]).any(axis=1)).sum())


def _packed(bits: NDArray[np.bool_]) -> Words:
    """Tables of bits as rows of words."""
    words = np.packbits(bits, axis=-1).view(np.uint64)
    return words.reshape(len(bits), words.shape[1] * words.shape[2])


def _unions(rows: Words, counts: Collection[int]) -> Iterator[tuple[int, Words]]:
    """For each of some counts, ascending, the unions of every set of so many rows."""
    united = np.zeros((1, rows.shape[1]), dtype=np.uint64)
    last = np.array([-1])
    for count in count_from(0):
        if count in counts:
            yield count, united
        if count == max(counts):
            return
        more = len(rows) - 1 - last  # each set is extended by every row behind its last one
        ends = np.cumsum(more)
        added = np.arange(ends[-1] if len(ends) else 0) - np.repeat(ends - more, more) + np.repeat(last + 1, more)
        united, last = np.repeat(united, more, axis=0) | rows[added], added


def _bits(mask: int) -> Iterator[int]:
    """The positions of the bits that are set."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def _signed_unions(bits: Sequence[int]) -> Counter[int]:
    """At least one of some events, as a signed sum over sets of them that happen together."""
    unions = Counter({0: -1})
    for bit in bits:
        unions.update({union | bit: -factor for union, factor in list(unions.items())})
    del unions[0]
    return unions


def _multiplied(terms: Mapping[int, int], choices: Mapping[int, int]) -> Counter[int]:
    found: Counter[int] = Counter()
    for (one, factor), (other, sign) in product(terms.items(), choices.items()):
        found[one | other] += factor * sign
    return found


def _joined(one: Use | None, other: Use | None) -> Use | None:
    if one is None or other is None:
        return None
    return Use(one.nodes | other.nodes, one.links | other.links, one.packets | other.packets)


def _united(term: int, ways: Sequence[Use | None], known: dict[int, Use | None]) -> Use | None:
    """What the copies of a term depend on together; None if one of them is lost anyway."""
    if term not in known:
        rest = term & (term - 1)
        known[term] = _joined(_united(rest, ways, known), ways[(term ^ rest).bit_length() - 1])
    return known[term]


def _over(numerator: Number, denominator: Number) -> Number:
    """A quotient, exact where both are."""
    if isinstance(numerator, float) or isinstance(denominator, float):
        return numerator / denominator
    return Fraction(numerator, denominator)


def _share_whole(parts: Sequence[FaultSetTerm], weights: Sequence[Number]) -> Number:
    """The probability that a link leaves its packets whole: each part strikes it if none before did."""
    whole, left = 0.0, 1.0
    for part, weight in zip(parts, weights, strict=True):
        whole += left * part.share * weight
        left *= 1 - part.share
    return whole + left


def _placings(groups: Sequence[tuple[int, Sequence[Number]]], counts: tuple[int, ...]) -> Number:
    """The sum of weights over all ways to place parts with these counts at different places.

    A group is a number of places, and the weight that each part has at any of them.
    """
    found: dict[tuple[int, ...], Number] = {tuple(0 for _ in counts): 1}
    for size, weights in groups:
        more: dict[tuple[int, ...], Number] = {}
        for placed, value in found.items():
            for here in product(*(range(count - done + 1) for count, done in zip(counts, placed, strict=True))):
                if sum(here) > size:
                    continue
                ways = perm(size, sum(here)) // prod(map(factorial, here))
                factor = prod(weight**many for weight, many in zip(weights, here, strict=True))
                if factor:
                    key = tuple(done + many for done, many in zip(placed, here, strict=True))
                    more[key] = more.get(key, 0) + value * ways * factor
        found = more
    return found.get(counts, 0)


# --- promises ----------------------------------------------------------------------------------------------------------


def promises(algorithm: Algorithm, faults: Sequence[Fault], recipe: FaultSetSpec) -> bool:
    """Whether the algorithm claims that every set of a recipe, on top of given faults, leaves everybody healthy served.

    By numbers of faults, as for a single run; no place is both given and drawn.
    """
    if recipe.how == "bernoulli":
        return False
    alters_payload: dict[object, bool] = {}
    for fault in faults:
        if not fault.breaks:
            continue
        place: object = fault.rank if isinstance(fault, NodeFault) else None
        if isinstance(fault, LinkFault):
            place = frozenset((fault.sender, algorithm.topology.neighbour(fault.sender, fault.port)))
        alters_payload[place] = alters_payload.get(place, False) or fault.alters_payload
    altering = sum(alters_payload.values()) + sum(
        part.count for part in recipe.parts if KINDS[part.kind].alters_payload
    )
    broken = len(alters_payload) + recipe.size - altering
    faulty = {fault.rank for fault in faults if isinstance(fault, NodeFault)}
    if not broken and not altering:
        return True
    claims = algorithm.claims_with_faults(broken, altering, faulty)
    return any((claim.name, claim.relation, claim.predicted) == ("delivery_ratio", "==", 1.0) for claim in claims)
