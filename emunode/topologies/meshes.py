"""Meshes: tori without the links that close the rings; a mesh of one dimension is a path.

Ports are numbered as in a torus whose sizes are all at least 3: +1 and -1 of dimension 1, then of dimension 2. A port that
would lead over the border is absent.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import prod
from operator import mul
from typing import Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import ABSENT, MAX_ORDER, DirectDistances
from emunode.topologies.polynomials import polynomial_product


@register
class Mesh(DirectDistances):
    """Labels and ranks are the same as in the torus of the same sizes; distance is the sum of the differences.

    >>> network = Mesh.parse("3x4")
    >>> network.order, network.degree, network.diameter
    (12, 4, 5)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1,2"))]
    ['1,3', '1,1', '2,2', '0,2']
    """

    family = "mesh"
    form = "mesh:AxBx.."
    condition = "every size at least 2, fewer than 2^63 nodes"
    example = "mesh:4x4"
    describe = "mesh of A x B x .. nodes: a torus without wrap-around, or a path; degree 1 or 2 a dimension"
    small_examples = ("mesh:5", "mesh:3x4", "mesh:2x3x3")
    large_examples = ("mesh:1000x1000x1000",)
    bipartite = True

    def __init__(self, sizes: Sequence[int]) -> None:
        """Build the network of `sizes` as in the name, dimension 1 last. ScenarioError (field `topology`) for
        impossible sizes.
        """
        self.name = f"mesh:{'x'.join(map(str, sizes))}"
        self.require(min(sizes) >= 2, "every size must be at least 2")
        self.order = prod(sizes)
        self.require(self.order <= MAX_ORDER, f"at most {MAX_ORDER} nodes can be addressed")
        self.sizes = tuple(reversed(sizes))
        """Dimension 1 first."""
        self.title = f"{' x '.join(map(str, sizes))} mesh"
        self.degree = 2 * len(sizes)
        self.connectivity = len(sizes)
        self.diameter = sum(sizes) - len(sizes)
        self._places = tuple(accumulate(self.sizes[:-1], mul, initial=1))

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_numbers(parameters, "x"))

    def digits(self, rank: Rank) -> tuple[int, ...]:
        """Return the coordinates, dimension 1 first."""
        return tuple([rank // place % size for place, size in zip(self._places, self.sizes, strict=True)])

    def label(self, rank: Rank) -> str:
        """Return the coordinates, dimension 1 last."""
        return ",".join(map(str, reversed(self.digits(rank))))

    def rank(self, label: str) -> Rank:
        words = label.split(",")
        rank = 0
        for word, size in zip(words, reversed(self.sizes), strict=False):
            in_range = word.isascii() and word.isdigit() and len(word) < 20 and int(word) < size
            rank = rank * size + int(word) if in_range else self.order
        if rank >= self.order or self.label(rank) != label:
            sample = self.label(self.order - 1)
            raise ScenarioError(
                "label",
                label,
                f"a node of {self.name} is numbers below the sizes, separated by commas, such as {sample}",
            )
        return rank

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        dimension, down = divmod(port, 2)
        place, size = self._places[dimension], self.sizes[dimension]
        digit = rank // place % size
        if down:
            return rank - place if digit else ABSENT
        return rank + place if digit < size - 1 else ABSENT

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        return self.neighbour(rank, port), port ^ 1

    def distance(self, one: Rank, other: Rank) -> int:
        return sum(map(_difference, self.digits(one), self.digits(other)))

    def distribution_from(self, root: Rank) -> tuple[int, ...]:
        """Return the product of the paths' distributions as polynomials."""
        return polynomial_product(map(_distribution_on_path, self.digits(root), self.sizes))

    def eccentricity(self, root: Rank) -> int:
        return sum(max(digit, size - 1 - digit) for digit, size in zip(self.digits(root), self.sizes, strict=True))

    @cached_property
    def average_distance(self) -> Fraction:
        """On a path of k nodes all distances add up to k (k^2 - 1)/3."""
        mean = sum((Fraction(size**2 - 1, 3 * size) for size in self.sizes), Fraction(0))
        return mean * self.order / (self.order - 1)

    @property
    def link_count(self) -> int:
        return sum((size - 1) * self.order // size for size in self.sizes)


def _difference(one: int, other: int) -> int:
    return abs(one - other)


def _distribution_on_path(position: int, size: int) -> list[int]:
    """Return the number of nodes at every distance from `position` on a path."""
    near, far = sorted((position, size - 1 - position))
    return [1] + [2] * near + [1] * (far - near)
