"""The copies that each node can receive over the trees of an algorithm, and the places each copy depends on."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import chain
from math import prod
from typing import NamedTuple

from coordinator.theory.fault_model import GivenFaults, Hop, Number, RandomFaults
from coordinator.theory.placements import placements, quotient, share_whole
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Rank, Step

Copy = tuple[int, int]
"""Tree and number of a copy; number 0 where all copies on a tree arrive or are lost together."""
Need = frozenset[Copy]
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
    """The places that two copies depend on together; None if one of them is lost in any case."""
    if one is None or other is None:
        return None
    return Use(one.nodes | other.nodes, one.links | other.links, one.packets | other.packets)


class CopyPaths:
    """The paths of all copies of one broadcast under given and random faults."""

    def __init__(self, algorithm: TreeCollective, given: GivenFaults, draws: RandomFaults) -> None:
        self.algorithm = algorithm
        self.given = given
        self.draws = draws
        # Without losses no packet has to be numbered, and the sets stay small.
        self.lossy = bool(given.losses) or draws.lossy
        self.drawn_nodes = frozenset(draws.nodes)
        self._link_index = {link: at for at, link in enumerate(draws.links)}
        self._packets: dict[Hop, int] = {}
        self._chance_by_crossings = cache(self._count_crossings)
        self.message_needs = self._needs_of_messages(timed=given.timed or draws.timed)
        self.needs = frozenset(chain.from_iterable(self.message_needs))
        """The needs of all messages."""
        self.copies = sorted({copy for need in self.needs for copy in need})
        """Copies that can be lost independently of each other."""
        source = algorithm.spec.source
        self.receivers = [rank for rank in algorithm.topology.data_ranks if rank != source and rank not in given.silent]
        """Nodes to which messages are due; those among them that a random fault strikes are not taken out."""

    def _needs_of_messages(self, *, timed: bool) -> Counter[frozenset[Need]]:
        """The needs of each message, one per piece, and the number of messages with the same needs."""
        algorithm = self.algorithm
        carriers: dict[int, set[Copy]] = {}
        for tree in range(algorithm.trees.count):
            for number, segment in algorithm.copies_on_tree(tree):
                # If nothing depends on the step, all copies of a tree share one fate and are counted as one.
                carriers.setdefault(segment, set()).add((tree, number if timed else 0))
        pieces = algorithm.segments_per_message
        return Counter(
            frozenset(frozenset(carriers[segment]) for segment in range(first, first + pieces))
            for first in range(0, algorithm.spec.messages * pieces, pieces)
        )

    def _paths(self, tree: int) -> Iterator[tuple[Rank, tuple[Hop, ...]]]:
        """Every rank but the source, with the path of copy 0 of a tree to it."""
        algorithm, topology, source = self.algorithm, self.algorithm.topology, self.algorithm.spec.source
        reached: list[tuple[Rank, Step, tuple[Hop, ...]]] = [(0, 0, ())]
        while reached:
            relative, step, path = reached.pop()
            here = topology.absolute(relative, source)
            if path:
                yield here, path
            for port, delay in algorithm.child_delays(relative, tree):
                # The step of copy 0; copy number q crosses `period` x q steps later.
                child = algorithm.rooted.neighbour(relative, port)
                hop = here, topology.absolute(child, source), step + delay
                reached.append((child, step + delay, (*path, hop)))

    @cached_property
    def _paths_of(self) -> Mapping[int, Mapping[Rank, Sequence[Hop]]]:
        return {tree: dict(self._paths(tree)) for tree in {tree for tree, _ in self.copies}}

    def uses(self) -> Iterator[tuple[Rank, list[Use | None]]]:
        """For every receiver, the places each copy depends on; None for a copy that the given faults lose."""
        period = self.algorithm.period
        for rank in self.receivers:
            uses: list[Use | None] = []
            # A broken copy is None, not an empty use: an empty use would always arrive.
            for tree, number in self.copies:
                path = [(sender, to, step + number * period) for sender, to, step in self._paths_of[tree][rank]]
                uses.append(None if self.given.breaks(path) else self._use_of(path))
            yield rank, uses

    def _use_of(self, path: Iterable[Hop]) -> Use:
        nodes = links = packets = 0
        first, last = self.draws.window
        for sender, receiver, step in path:
            # The node must fail before it forwards, so nodes whose step is over by then do not matter.
            if step >= first and sender in self.drawn_nodes:
                nodes |= 1 << sender
            # Links are undirected here: random link faults strike both directions.
            at = self._link_index.get((min(sender, receiver), max(sender, receiver)))
            if at is not None and first <= step <= last:
                links |= 1 << at
            if self.lossy:
                # Numbered on first sight: packets shared by two copies are lost or passed together.
                packets |= 1 << self._packets.setdefault((sender, receiver, step), len(self._packets))
        return Use(nodes, links, packets)

    # --- chances of links --------------------------------------------------------------------------------------------

    def chance_of_links(self, use: Use) -> Number:
        """The probability that no link breaks the paths of some copies."""
        if not use.packets:
            # All used links must be whole; without losses only their number matters.
            return self._chance_by_crossings(((1, use.links.bit_count()),))
        chance, packets = self._chance_of_packets(use.packets)
        # Links that lose packets weigh as many packets as the copies send over them.
        crossed = Counter(packets.get(at, 1) if self.draws.lossy else 1 for at in set_bits(use.links))
        return chance * self._chance_by_crossings(tuple(sorted(crossed.items())))

    def _count_crossings(self, crossed: tuple[tuple[int, int], ...]) -> Number:
        """The same, from pairs (packets that cross a link, number of such links)."""
        draws = self.draws
        if not draws.link_parts:
            return 1
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
        """The probability that given losses spare some packets, and how many of these cross each random link."""
        chance: Number = 1
        on_link: Counter[int] = Counter()
        first, last = self.draws.window
        known = list(self._packets)
        for at in set_bits(packets):
            sender, receiver, step = known[at]
            if self.given.losses:
                chance *= self.given.passing(sender, receiver, step)
            link = self._link_index.get((min(sender, receiver), max(sender, receiver)))
            if link is not None and first <= step <= last:
                on_link[link] += 1
        return chance, on_link


def set_bits(mask: int) -> Iterator[int]:
    """The positions of the bits that are set, ascending."""
    while mask:
        # Isolates the lowest bit that is set.
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest
