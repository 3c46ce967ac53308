"""The copies that each node can receive in a broadcast with a known schedule, and the places that each copy depends on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from math import prod
from typing import NamedTuple

from coordinator.dependence.message_paths import MessagePaths, PathHop, Piece
from coordinator.theory.fault_model import Number, RandomFaults, is_timed, loses_at_random, passing, silent_ranks
from coordinator.theory.placements import placements, quotient, share_whole
from emunode.algorithms.base import Algorithm
from emunode.faults.effects import Stops
from emunode.faults.timeline import FaultTimeline
from emunode.model import ALL_RANKS, Port, Rank, Step

CopyName = tuple[int, int]
"""Tree and segment of a copy; the first segment where several copies arrive or are lost together."""
Alternatives = frozenset[CopyName]
"""Copies at least one of which has to arrive."""


class Use(NamedTuple):
    """The places that copies depend on, as bit sets."""

    nodes: int
    """Inner nodes, by rank, that the random faults would silence before they forward the copy."""
    links: int
    """Links, by index, that the copy crosses while the random faults last."""
    packets: int
    """Packets, by number, that carry the copy over links; empty if no link loses packets."""


def joined(one: Use | None, other: Use | None) -> Use | None:
    """Return the places that two copies depend on together; None if one of them is lost in any case."""
    if one is None or other is None:
        return None
    # Sets as bits: a union is one operation on whole numbers, and equal unions are equal keys.
    return Use(one.nodes | other.nodes, one.links | other.links, one.packets | other.packets)


class CopyPaths:
    """The paths of all copies of one broadcast under given and random faults."""

    def __init__(self, algorithm: Algorithm, paths: MessagePaths, given: FaultTimeline, draws: RandomFaults) -> None:
        self.algorithm = algorithm
        self.paths = paths
        self.given = given
        self.draws = draws
        self._given_losses = loses_at_random(given)
        # Without losses no packet has to be numbered, and the sets stay small.
        self.lossy = self._given_losses or draws.lossy
        self.drawn_nodes = frozenset(draws.nodes)
        self.drawn_switches = sum(1 << rank for rank in draws.nodes if algorithm.topology.is_switch(rank))
        """The switches among them, as bits."""
        self._link_index = {link: at for at, link in enumerate(draws.links)}
        self._packets: dict[PathHop, int] = {}
        # Thousands of sets of copies cross equally many links.
        self._chance_by_crossings = cache(self._count_crossings)
        alike = self._copies_alike(timed=is_timed(given) or draws.timed)
        self.message_needs = self._needs_of_messages(alike)
        self.needs = frozenset(chain.from_iterable(self.message_needs))
        """The needs of all messages."""
        self.copies = sorted(set(alike.values()))
        """Copies that can be lost independently of each other."""
        source, silent = algorithm.spec.source, silent_ranks(given)
        self.receivers = [rank for rank in algorithm.topology.data_ranks if rank != source and rank not in silent]
        """Nodes to which messages are due; those among them that a random fault strikes are not taken out."""

    def _copies_alike(self, *, timed: bool) -> dict[CopyName, CopyName]:
        """Return for every copy the first copy that crosses the same links, in the same steps if these matter."""
        places: dict[CopyName, frozenset[tuple[Rank, Port, Step]]] = {}
        for segment in range(self.algorithm.spec.messages * self.algorithm.segments_per_message):
            for tree, hops in self.paths.hops_by_copy(self._piece(segment)).items():
                places[tree, segment] = frozenset((hop.sender, hop.port, hop.step if timed else 0) for hop in hops)
        # Copies that cross the same places are lost together under every draw. One copy stands for all of them, so that
        # sums over sets of copies have fewer terms. Sorted: the representative is the same in every process.
        first: dict[frozenset[tuple[Rank, Port, Step]], CopyName] = {}
        return {copy: first.setdefault(places[copy], copy) for copy in sorted(places)}

    def _piece(self, segment: int) -> Piece:
        return self.algorithm.spec.source, ALL_RANKS, segment

    def _needs_of_messages(self, alike: Mapping[CopyName, CopyName]) -> Counter[frozenset[Alternatives]]:
        """Return the needs of each message, one per piece, with the number of messages that have the same needs."""
        carriers: dict[int, set[CopyName]] = {}
        for (_, segment), copy in alike.items():
            carriers.setdefault(segment, set()).add(copy)
        pieces = self.algorithm.segments_per_message
        return Counter(
            # A segment without any carrier keeps an empty need, which no copy can meet: its message is never complete.
            frozenset(frozenset(carriers.get(segment, ())) for segment in range(first, first + pieces))
            for first in range(0, self.algorithm.spec.messages * pieces, pieces)
        )

    def uses(self) -> Iterator[tuple[Rank, list[Use | None]]]:
        """Yield for every receiver the places each copy depends on; None for a copy that the given faults lose."""
        segments = sorted({segment for _, segment in self.copies})
        for rank in self.receivers:
            copies = {segment: self.paths.copies(self._piece(segment), rank) for segment in segments}
            uses: list[Use | None] = []
            # A broken copy is None, not an empty use: an empty use would always arrive.
            for tree, segment in self.copies:
                # Without a path, the copy does not reach this rank at all.
                path = copies[segment].get(tree, ())
                lost = not path or not all(map(self._passing_given, path))
                uses.append(None if lost else self._use_of(path))
            yield rank, uses

    def _passing_given(self, hop: PathHop) -> Number:
        """Return the probability that the given faults let a packet pass."""
        if not self.given:
            return 1
        step, sender, port, receiver = hop
        chance: Number = 1
        for place in (sender, (sender, port)):
            for effect in self.given.at(place, step):
                # `given_faults` refuses effects for which `passing` is None; 0 is for type checkers.
                chance *= passing(effect, place) or 0
        # A silent rank reads, a stopped one does not.
        stopped = any(isinstance(effect, Stops) for effect in self.given.at(receiver, step))
        return 0 if stopped else chance

    def _use_of(self, path: Iterable[PathHop]) -> Use:
        nodes = links = packets = 0
        for hop in path:
            step, sender, _, receiver = hop
            in_force = step in self.draws.window
            # The node must fail before it forwards, so nodes whose step is over by then do not matter.
            if in_force and sender in self.drawn_nodes:
                nodes |= 1 << sender
            # Links are undirected here: random link faults strike both directions.
            at = self._link_index.get((min(sender, receiver), max(sender, receiver)))
            if in_force and at is not None:
                links |= 1 << at
            if self.lossy:
                # Numbered on first sight: packets shared by two copies are lost or passed together.
                packets |= 1 << self._packets.setdefault(hop, len(self._packets))
        return Use(nodes, links, packets)

    # --- chances of links --------------------------------------------------------------------------------------------

    def chance_of_links(self, use: Use) -> Number:
        """Return the probability that no link breaks the paths of some copies."""
        if not use.packets:
            # All used links must be whole; without losses only their number matters.
            return self._chance_by_crossings(((1, use.links.bit_count()),))
        chance, packets = self._chance_of_packets(use.packets)
        # Links that lose packets weigh as many packets as the copies send over them.
        crossed = Counter(packets.get(at, 1) if self.draws.lossy else 1 for at in set_bits(use.links))
        return chance * self._chance_by_crossings(tuple(sorted(crossed.items())))

    def _count_crossings(self, crossed: tuple[tuple[int, int], ...]) -> Number:
        """Return this probability from pairs (packets that cross a link, number of such links)."""
        draws = self.draws
        if not draws.link_parts:
            return 1
        # Faults on links that no copy uses do no harm, but these links take part in the draw: without them a fixed
        # number of faults would always strike used ones.
        unused = 0, len(draws.links) - sum(size for _, size in crossed)
        # Weight of a part on a link: 0 if it is down and used, 1 if unused, rate^packets if it loses packets.
        groups = [
            (size, [int(not packets) if not rate else rate**packets for rate in draws.passing])
            for packets, size in (*crossed, unused)
        ]
        if draws.independent:
            # Bernoulli: links fail independently, so the probabilities multiply.
            return prod(share_whole(draws.link_parts, weights) ** size for size, weights in groups)
        counts = tuple(part.count for part in draws.link_parts)
        # A fixed number of faults: the weighted number of placements over the number of all placements.
        return quotient(placements(groups, counts), placements([(len(draws.links), [1] * len(counts))], counts))

    def _chance_of_packets(self, packets: int) -> tuple[Number, Mapping[int, int]]:
        """Return the probability that given losses spare some packets, and the number of these packets on each random
        link.
        """
        chance: Number = 1
        on_link: Counter[int] = Counter()
        # Dictionaries keep the order of insertion, so the number of a packet is its position in this list.
        known = list(self._packets)
        for at in set_bits(packets):
            step, sender, _, receiver = known[at]
            if self._given_losses:
                chance *= self._passing_given(known[at])
            link = self._link_index.get((min(sender, receiver), max(sender, receiver)))
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
