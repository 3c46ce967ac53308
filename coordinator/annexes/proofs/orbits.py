"""Sets of faults up to the symmetries of a network under an algorithm: one of each orbit, with the size of the orbit."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coordinator.scenario.blocks import Link
from coordinator.scenario.fault_draws import FaultSites, set_count
from coordinator.scenario.fault_sets import FaultSetSpec, FaultSetTerm
from coordinator.theory.set_scan import SetScan, without_repetition
from coordinator.theory.symmetry import Ranks, Symmetry
from emunode.algorithms.base import Algorithm
from emunode.errors import ScenarioError
from emunode.model import Rank

MOST_SETS = 20_000_000
"""Most sets that are enumerated for their orbits."""
ROWS_AT_ONCE = 200_000

Codes = NDArray[np.int64]


@dataclass(frozen=True)
class Orbit:
    """Sets of faults that the symmetries map onto each other: one representative, and their number."""

    faults: tuple[str, ...]
    multiplicity: int


def count_sets(fault_set: FaultSetSpec, places: FaultSites) -> int:
    """Return the number of sets of a fault set; ScenarioError if one part has more faults than places."""
    for part in fault_set.parts:
        available = len(places.links if part.on_links else places.nodes())
        if part.count > available:
            noun = "links" if part.on_links else "nodes"
            raise ScenarioError(
                "faults", fault_set.name, f"it needs {part.count} {noun}, but only {available} may fail"
            )
    return set_count(fault_set, places) or 0


class Orbits:
    """All sets of faults of a description up to symmetry.

    No set contains a source, nor a place of the fault specifications `broken`: the symmetries have to keep these places.
    """

    def __init__(self, algorithm: Algorithm, symmetries: Sequence[Symmetry], broken: Iterable[str] = ()) -> None:
        self.places = FaultSites(algorithm, broken)
        self.symmetries = symmetries

    def count(self, fault_set: FaultSetSpec) -> int:
        """Return the number of sets; ScenarioError if there are too many, or more faults than places."""
        total = count_sets(fault_set, self.places)
        if total > MOST_SETS:
            raise ScenarioError(
                "faults",
                fault_set.name,
                f"that is {total:,} sets and at most {MOST_SETS:,} can be gone through; take fewer",
            )
        return total

    def of(self, fault_set: FaultSetSpec) -> Iterator[Orbit]:
        """Yield the first set of each orbit in lexicographic order, with the size of the orbit."""
        for rows, sizes in self.rows_of(fault_set):
            for row, size in zip(rows.tolist(), sizes.tolist(), strict=True):
                yield Orbit(self.specs(row, fault_set), size)

    def rows_of(self, fault_set: FaultSetSpec) -> Iterator[tuple[Codes, Codes]]:
        """Yield the sets of `of` in blocks, with the sizes of their orbits.

        A set is a row with the indices of its places, one part after the other.
        """
        self.count(fault_set)
        parts = [part for part in fault_set.parts if part.count]
        scan = SetScan([(len(self.places_of(part)), part.count) for part in parts], ROWS_AT_ONCE)
        sites = [part.site for part in parts for _ in range(part.count)]
        for rows in scan.indices():
            yield self._representatives(rows[without_repetition(rows, sites)], parts)

    def _representatives(self, rows: Codes, parts: Sequence[FaultSetTerm]) -> tuple[Codes, Codes]:
        """Return the sets that are the least of their orbits, and the orbit sizes.

        A set is a row of indices of places.
        """
        images = np.stack([self._code(rows, parts, at) for at in range(len(self.symmetries))], axis=1)
        # A set represents its orbit if no image has a smaller number.
        least = images[:, 0] == images.min(axis=1)
        images = np.sort(images[least], axis=1)
        # The orbit's size is the number of different images. They are sorted, so each of these but the first differs from
        # the image before it.
        return rows[least], 1 + (np.diff(images, axis=1) != 0).sum(axis=1)

    def _code(self, rows: Codes, parts: Sequence[FaultSetTerm], at: int) -> Codes:
        """Return a number per set for its image under a symmetry; the numbers are ordered like the sets."""
        code, column = np.zeros(len(rows), dtype=np.int64), 0
        for part in parts:
            table = (self._link_images if part.on_links else self._node_images)[at]
            # As sets: the order of the places within a part does not matter.
            image = np.sort(table[rows[:, column : column + part.count]], axis=1)
            column += part.count
            for digit in image.T:
                # Mixed radix: equal numbers for equal sets, ascending in lexicographic order.
                code = code * len(table) + digit
        return code

    def specs(self, row: Sequence[int], fault_set: FaultSetSpec) -> tuple[str, ...]:
        """Return the fault specifications of a row of indices of places."""
        specs: list[str] = []
        column = 0
        for part in fault_set.parts:
            places = self.places_of(part)
            specs += [self.places.spec(part, places[at], fault_set.when) for at in row[column : column + part.count]]
            column += part.count
        return tuple(specs)

    def places_of(self, part: FaultSetTerm) -> Sequence[Rank] | Sequence[Link]:
        """Return the places of one part, in the order of their indices."""
        return self.places.links if part.on_links else self._nodes

    @cached_property
    def _nodes(self) -> Sequence[Rank]:
        return self.places.nodes()

    @cached_property
    def _node_images(self) -> Sequence[Ranks]:
        return self._images([(rank,) for rank in self._nodes])

    @cached_property
    def _link_images(self) -> Sequence[Ranks]:
        return self._images(self.places.links)

    def _images(self, places: Sequence[tuple[Rank, ...]]) -> Sequence[Ranks]:
        """Return for each symmetry the index of the image of each place."""
        index = {place: at for at, place in enumerate(places)}
        return [
            np.array([index[tuple(sorted(symmetry.ranks[list(place)].tolist()))] for place in places], dtype=np.int64)
            for symmetry in self.symmetries
        ]
