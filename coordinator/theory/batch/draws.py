"""The draws of campaigns: fault sets by number, thousands at once.

Draws are made in blocks of BLOCK numbers by a counter-based generator (Philox 4x64, Salmon et al. 2011), keyed by the
seed and the kind of place, with the block and the position within the draw as its counter. So any draw can be made
again by its number alone; compared algorithms get the same faults; and a draw of k + 1 places of a kind contains the
draw of k. Terms for the same kind of place take disjoint positions of one random order, as in
`coordinator.scenario.fault_draws`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from math import comb
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coordinator.scenario.blocks import Link
from coordinator.scenario.fault_draws import (
    FaultSites,
    Site,
    draw,
    eligible,
    positions_of,
    set_count,
    set_number,
    sets_of,
    too_few,
)
from coordinator.scenario.fault_sets import FIXED, FaultSetSpec, FaultSetTerm
from coordinator.theory.dependence.bit_rows import Indices
from emunode.errors import ScenarioError

BLOCK: Final = 4096
"""Numbers that are drawn together."""
MOST_PLACES: Final = 2**22
"""Places times draws that are shuffled at once: some megabytes."""


@dataclass(frozen=True)
class DrawnPlaces:
    """The places that one term strikes in some draws: pairs of a place and a draw."""

    term: FaultSetTerm
    places: Indices
    """Ranks, or positions in `FaultSites.links`."""
    draws: Indices
    """Positions in the requested numbers."""


class Draws:
    """The sets of a description on the places of a network, by number.

    Raises ScenarioError (field `faults`) when there are more faults than places.
    """

    def __init__(self, fault_set: FaultSetSpec, sites: FaultSites, seed: int) -> None:
        self.fault_set = fault_set
        self._sites = sites
        self._seed = seed
        self._known: tuple[int, list[DrawnPlaces]] | None = None

    def struck(self, numbers: Indices) -> list[DrawnPlaces]:
        """Return the places that each term strikes, for draws with these numbers."""
        return [self._expanded(each) for each in self._struck(numbers)]

    def _struck(self, numbers: Indices) -> list[DrawnPlaces]:
        """Return the numbers of the struck blocks, or places, of each term, for draws with these numbers."""
        if self.fault_set.how == "all":
            return list(self._of_every_set(numbers))
        by_term: dict[FaultSetTerm, list[tuple[Indices, Indices]]] = {term: [] for term in self.fault_set.parts}
        blocks = numbers // BLOCK
        for block in np.unique(blocks).tolist():
            # The position of each number of the block among the requested numbers; -1 for a number that is not
            # requested.
            position = np.full(BLOCK, -1)
            requested = np.flatnonzero(blocks == block)
            position[numbers[requested] % BLOCK] = requested
            for each in self._block(block):
                at = position[each.draws]
                by_term[each.term].append((each.places[at >= 0], at[at >= 0]))
        return [
            DrawnPlaces(term, *(np.concatenate([pair[side] for pair in pairs]) for side in (0, 1)))
            for term, pairs in by_term.items()
            if pairs
        ]

    def _expanded(self, drawn: DrawnPlaces) -> DrawnPlaces:
        """Return the nodes or links of blocks, once each, where several blocks of a draw share them."""
        if not drawn.term.block:
            return drawn
        # The members of all blocks are one array; a block is a range of it.
        starts, members = self._members[drawn.term.block]
        sizes = starts[drawn.places + 1] - starts[drawn.places]
        draws = np.repeat(drawn.draws, sizes)
        # The positions in `members`: from the start of each block on.
        within = np.arange(len(draws)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        places = members[np.repeat(starts[drawn.places], sizes) + within]
        total = int(members.max(initial=0)) + 1
        # A pair of draw and place as one number, so that places shared by several blocks of a draw are found by
        # sorting.
        once = np.unique(draws * total + places)
        return DrawnPlaces(drawn.term, once % total, once // total)

    @cached_property
    def _members(self) -> dict[str, tuple[Indices, Indices]]:
        """By kind of block: where each block begins among the places of all, and these places."""
        members: dict[str, tuple[Indices, Indices]] = {}
        for term in self.fault_set.parts:
            if term.block:
                blocks = self._sites.blocks(self.fault_set, term.block)
                places = [self._index[at] if isinstance(at, tuple) else at for each in blocks for at in each.places]
                starts = np.cumsum([0, *(len(each.places) for each in blocks)])
                members[term.block] = starts, np.array(places, np.int64)
        return members

    @cached_property
    def _index(self) -> dict[Link, int]:
        return {link: at for at, link in enumerate(self._sites.links)}

    def specs(self, number: int) -> tuple[str, ...]:
        """Return one draw as fault specifications."""
        if self.fault_set.how == "all":
            return set_number(self.fault_set, self._sites, number)
        if self.fault_set.how == "process":
            return draw(self.fault_set, self._sites, self._seed, number)
        struck = ((each.term, place) for each in self.struck(np.array([number])) for place in each.places.tolist())
        sites, when = self._sites, self.fault_set.when
        # Links are numbered among all links, nodes by their ranks.
        texts = (sites.spec(term, sites.links[at] if term.on_links else at, when) for term, at in struck)
        # Blocks of different kinds may overlap.
        return tuple(dict.fromkeys(texts))

    def _block(self, block: int) -> list[DrawnPlaces]:
        if self._known is None or self._known[0] != block:
            # Consecutive requests are mostly for numbers of one block.
            self._known = block, list(self._drawn(block))
        return self._known[1]

    def _drawn(self, block: int) -> Iterator[DrawnPlaces]:
        """Yield all draws of a block."""
        for site, free in self._free.items():
            terms = [term for term in self.fault_set.parts if term.site == site]
            yield from self._drawn_places(block, terms, free)

    @cached_property
    def _free(self) -> dict[str, Indices]:
        """The places to draw from by site, in the order of `eligible`; blocks by their numbers."""
        free: dict[str, Indices] = {}
        for term in self.fault_set.parts:
            index: dict[Site, int] = dict(self._index)
            if term.block:
                index = {block: at for at, block in enumerate(self._sites.blocks(self.fault_set, term.block))}
            places = eligible(self.fault_set, term, self._sites)
            numbers = [at if isinstance(at, int) else index[at] for at in places]
            free[term.site] = np.array(numbers, np.int64)
        return free

    def _drawn_places(self, block: int, terms: Sequence[FaultSetTerm], free: Indices) -> Iterator[DrawnPlaces]:
        stream = terms[0].site
        if self.fault_set.how == "bernoulli":
            yield from self._independent(block, terms, free, stream)
            return
        counts = [term.count for term in terms]
        # Checked for the terms of one kind of place together, because they take places from each other.
        if sum(counts) > len(free):
            raise too_few(self.fault_set, terms[0], sum(counts), len(free), "faults")
        if self.fault_set.how in FIXED:
            # Not random: the first places in order.
            order: Indices = np.broadcast_to(np.arange(sum(counts)), (BLOCK, sum(counts)))
            starts = np.cumsum([0, *counts])
            positions = [list(range(start, start + count)) for start, count in zip(starts, counts, strict=False)]
        else:
            positions = positions_of(counts, len(free))
            length = 1 + max((position for taken in positions for position in taken), default=-1)
            order = self._shuffled(block, length, len(free), stream)
        for term, taken in zip(terms, positions, strict=True):
            places = free[order[:, taken].ravel()] if taken else np.empty(0, np.int64)
            yield DrawnPlaces(term, places, np.repeat(np.arange(BLOCK), len(taken)))

    def _shuffled(self, block: int, length: int, total: int, stream: str) -> Indices:
        """Return for each draw the first `length` positions of a random order of `total`."""
        # The position with which each position of the order is exchanged (Fisher-Yates). Only the first `length`
        # exchanges are made: later ones do not change these positions.
        others = [at + (self._uniform(stream, block, at) * (total - at)).astype(np.int64) for at in range(length)]
        shuffled = np.empty((BLOCK, length), np.int64)
        # Some draws at a time, because the table of a block would not fit into memory for a large network.
        size = max(1, MOST_PLACES // max(total, 1))
        for start in range(0, BLOCK, size):
            part = slice(start, min(start + size, BLOCK))
            # The table has an entry for every place and draw, so it gets the narrowest type.
            order = np.tile(np.arange(total, dtype=np.uint16 if total < 2**16 else np.uint32), (part.stop - start, 1))
            rows = np.arange(len(order))
            for at in range(length):
                other = others[at][part]
                taken = order[rows, other]
                order[rows, other] = order[:, at]
                order[:, at] = taken
            shuffled[part] = order[:, :length]
        return shuffled

    def _independent(
        self, block: int, terms: Sequence[FaultSetTerm], free: Indices, stream: str
    ) -> Iterator[DrawnPlaces]:
        """Yield each place with a probability of its own; a place that several terms hit goes to the first of them."""
        hits: list[tuple[list[Indices], list[Indices]]] = [([], []) for _ in terms]
        for at, place in enumerate(free.tolist()):
            left = np.ones(BLOCK, np.bool_)
            for number, (term, (places, draws)) in enumerate(zip(terms, hits, strict=True)):
                # Every place and term has random numbers of its own, so that the draws for one place do not depend on
                # the others.
                hit = np.flatnonzero((self._uniform(stream, block, at, number) < term.share) & left)
                # The first term that hits a place in a draw keeps the place.
                left[hit] = False
                places.append(np.full(len(hit), place))
                draws.append(hit)
        for term, (places, draws) in zip(terms, hits, strict=True):
            nothing = [np.empty(0, np.int64)]
            yield DrawnPlaces(term, np.concatenate(places or nothing), np.concatenate(draws or nothing))

    def _uniform(self, stream: str, block: int, position: int, term: int = 0) -> NDArray[np.float64]:
        """Return a number in [0, 1) for each draw of a block, with 53 random bits."""
        key = np.frombuffer(blake2b(f"{self._seed}/{stream}".encode(), digest_size=16).digest(), "<u8")
        # The generator counts in the first word of its counter; the other words are free for the position, the block
        # and the term.
        philox = np.random.Philox(key=key, counter=np.array([0, position, block, term], np.uint64))
        # 53 bits: as many as a float holds exactly, so that all numbers are equally far apart.
        return (philox.random_raw(BLOCK) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def _of_every_set(self, numbers: Indices) -> Iterator[DrawnPlaces]:
        """Yield the sets of `all` with these numbers: as `set_number`, for many at once."""
        left = numbers.astype(np.int64)
        if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < (self._sets or 0):
            raise ScenarioError("faults", self.fault_set.name, f"it has no set number {int(numbers.max())}")
        used = {site: np.empty((len(numbers), 0), np.int64) for site in self._free}
        rooms = {site: len(places) for site, places in self._free.items()}
        terms = self.fault_set.parts
        for at, term in enumerate(terms):
            total = rooms[term.site]
            rooms[term.site] -= term.count
            later = sets_of(terms[at + 1 :], rooms)
            # The number of a set has mixed radix: the choice of this term is the leading digit, and the rest numbers
            # the choices of the later terms.
            index, left = left // later, left % later
            ranks = combinations_of(total, term.count, index)
            # Positions count only places that no earlier term of this kind has taken.
            # In ascending order: a place that moves past one taken place may then have to move past the next.
            for column in np.sort(used[term.site], axis=1).T:
                ranks += ranks >= column[:, None]
            used[term.site] = np.concatenate([used[term.site], ranks], axis=1)
            yield DrawnPlaces(
                term, self._free[term.site][ranks].ravel(), np.repeat(np.arange(len(numbers)), term.count)
            )

    @cached_property
    def _sets(self) -> int | None:
        return set_count(self.fault_set, self._sites)


def combinations_of(total: int, count: int, index: Indices) -> Indices:
    """Return the combinations of `count` of range(total) with these indices in lexicographic order; a row each."""
    rows = np.empty((len(index), count), np.int64)
    left, least = index.copy(), np.zeros(len(index), np.int64)
    for at in range(count):
        # Member after member, from the lowest: the number of combinations before each possible member decides.
        more = count - at - 1
        # before[p]: combinations of the remaining members whose lowest one is below p.
        before = np.cumsum([0, *(comb(total - 1 - place, more) for place in range(total))])
        place = np.searchsorted(before, left + before[least], side="right") - 1
        left -= before[place] - before[least]
        rows[:, at] = place
        least = place + 1
    return rows
