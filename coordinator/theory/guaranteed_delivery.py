"""Guaranteed delivery: the probability that no healthy node misses a message.

If only links fail and every piece has a single copy, all paths have to be whole and the probability is a product. Otherwise
every set of faults is gone through, if the sets are few enough.
"""

from collections.abc import Collection, Iterator
from fractions import Fraction
from itertools import product
from math import comb
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coordinator.dependence.bit_rows import packed_tables
from coordinator.theory.copy_paths import CopyPaths, Use, joined, set_bits
from coordinator.theory.fault_model import Number
from coordinator.theory.placements import quotient
from coordinator.theory.set_scan import SetScan, sets_at_once

MOST_WORDS: Final = 2**23
"""Largest table of all sets of nodes, or of links, in words of 64 bits."""
MOST_WORK: Final = 2**25
"""Pairs (set of nodes, set of links) that are gone through at most."""

Words = NDArray[np.uint64]


def guaranteed_delivery(paths: CopyPaths) -> Number | None:
    """Return the probability that no healthy node misses a message; None where it cannot be counted exactly."""
    # One copy per piece: every path has to be whole, so one product is exact, however many sets there are.
    single_copies = all(len(need) == 1 for need in paths.needs)
    if single_copies and not paths.draws.node_parts:
        everything: Use | None = Use(0, 0, 0)
        for _, uses in paths.uses():
            for use in uses:
                everything = joined(everything, use)
        return 0 if everything is None else paths.chance_of_links(everything)
    # With losses, sets of faults do not decide the deliveries alone.
    return None if paths.lossy else _count_sets(paths)


def _count_sets(paths: CopyPaths) -> Number | None:
    """Return the share of sets of faults under which every healthy node is served; None if there are too many sets."""
    draws = paths.draws
    # A set that leaves no healthy receiver is undecided in a campaign; with switches the number does not tell.
    if paths.drawn_switches and max(draws.node_counts) >= len(paths.receivers):
        return None
    node_counts = {count: chance for count, chance in draws.node_counts.items() if count < len(paths.receivers)}
    link_counts = draws.link_counts
    # Bits of one row in words: a block per copy, and one for the faulty nodes themselves.
    width = (len(paths.copies) + 1) * -(-paths.algorithm.topology.order // 64)
    nodes = [width * comb(len(draws.nodes), count) for count in node_counts]
    links = [width * comb(len(draws.links), count) for count in link_counts]
    rows = len(draws.nodes) + len(draws.links)
    # Refused in advance: tables grow with the binomial coefficients.
    if max(*nodes, *links, width * rows) > MOST_WORDS or sum(nodes) * sum(links) > MOST_WORK * width:
        return None
    survived = sum(
        node_counts[count] * link_counts[down] * share
        for (count, down), share in SetTable(paths).survived(node_counts, link_counts)
    )
    return quotient(survived, sum(node_counts.values()))


class SetTable:
    """Sets of faults as rows of bits (copy, rank): the copies they lose. A last block marks the faulty nodes themselves."""

    def __init__(self, paths: CopyPaths) -> None:
        order, draws = paths.algorithm.topology.order, paths.draws
        # Rounded up to whole words: the bits of one copy begin at a word, so that the copies of a need are combined
        # word by word.
        self._block = -(-order // 64)
        self._bit = {copy: at for at, copy in enumerate(paths.copies)}
        self._needs = paths.needs
        shape = len(paths.copies) + 1, 64 * self._block
        lost = np.zeros((1, *shape), dtype=np.bool_)
        at_node, at_link = (np.zeros((len(places), *shape), dtype=np.bool_) for places in (draws.nodes, draws.links))
        index = {rank: at for at, rank in enumerate(draws.nodes)}
        for rank, uses in paths.uses():
            for copy, use in enumerate(uses):
                if use is None:
                    lost[0, copy, rank] = True
                    continue
                for place in set_bits(use.nodes):
                    at_node[index[place], copy, rank] = True
                for place in set_bits(use.links):
                    at_link[place, copy, rank] = True
        for rank, at in index.items():
            at_node[at, -1, rank] = True
        self._lost, self._nodes, self._links = map(packed_tables, (lost, at_node, at_link))

    def survived(self, nodes: Collection[int], links: Collection[int]) -> Iterator[tuple[tuple[int, int], Fraction]]:
        """Yield for each number of nodes and of links the share of sets under which every healthy node is served."""
        tables = self._nodes, self._links
        for count, down in product(nodes, links):
            scan = SetScan([(len(self._nodes), count), (len(self._links), down)], sets_at_once(self._lost.shape[1]))
            survivors = sum(map(self._survivors, scan.unions(tables, self._lost)))
            # Faults of nodes and of links are drawn independently, so every pair of a set of nodes with a set of links
            # is equally likely.
            yield (count, down), Fraction(survivors, comb(len(self._nodes), count) * comb(len(self._links), down))

    def _survivors(self, sets: Words) -> int:
        blocks = sets.reshape(len(sets), -1, self._block)
        missing = np.zeros((len(sets), self._block), dtype=np.uint64)
        for need in self._needs:
            # A rank misses a piece if all its copies are lost: the and over the copies.
            missing |= np.bitwise_and.reduce(blocks[:, [self._bit[copy] for copy in need]], axis=1)
        # Faulty nodes miss nothing that is due to them.
        return int((~(missing & ~blocks[:, -1]).any(axis=1)).sum())
