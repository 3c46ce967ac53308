"""Networks of points of a lattice modulo a sublattice, and their Cartesian products.

A `Quotient` is the plane Z^2 modulo the vectors (columns, 0) and (shift, rows), with some steps: its nodes are the
points (x, y) with 0 <= x < columns and 0 <= y < rows, numbered row by row, and a point above the last row continues in
row 0, `shift` columns to the left. With one row it is the ring of integers modulo `columns`. A `LatticeNetwork` is a
product of quotients:

* torus: rings; Hamming graph: rings where every difference is a step;
* circulant graph: one ring with the given jumps;
* twisted torus: one quotient of more rows;
* Gaussian and Eisenstein-Jacobi networks (module `residues`): equal quotients, whose points are complex integers.

All are Cayley graphs of commutative groups: the translation subtracts the root, factor by factor. Ranks count the first
factor fastest, and its ports come first. Names and labels list the factors from the last to the first.

References: Dally 1990 and Bose, Broeg, Kwon and Ashir 1995 (tori); Boesch and Tindell 1984 (circulant graphs); Camara,
Moreto, Vallejo, Beivide and others 2010 (twisted tori); Bhuyan and Agrawal 1984, Ahn and others 2009 (Hamming graphs as
generalized hypercubes and as HyperX).
"""

import re
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from math import gcd, prod
from operator import mul
from typing import ClassVar, Final, Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import CACHE_ENTRIES, MAX_ORDER, CayleyTopology
from emunode.topologies.polynomials import polynomial_product

NUMBER: Final = "(0|-?[1-9][0-9]{0,18})"
"""A number as labels write it."""

MOST_LISTED_PORTS: Final = 4096
"""The largest degree where every port has an entry in a list."""

Steps = Sequence[tuple[int, int]]
"""The steps (x, y) of the ports of a quotient, in order."""


class Quotient:
    """One factor: points (x, y) modulo (columns, 0) and (shift, rows). The index of a point is y columns + x."""

    def __init__(self, columns: int, rows: int = 1, shift: int = 0, steps: Steps = ()) -> None:
        self.columns, self.rows, self.shift = columns, rows, shift
        self.size = columns * rows
        self.steps: Sequence[int] = [self.index(x, y) for x, y in steps]
        """The indices that the ports add."""

    @cached_property
    def moves(self) -> Callable[[int], tuple[int, ...]]:
        """By index: the difference that every port adds to the index. As many are kept as fit `CACHE_ENTRIES` numbers."""
        return lru_cache(max(2, CACHE_ENTRIES // len(self.steps)))(self._find_moves)

    def _find_moves(self, index: int) -> tuple[int, ...]:
        return tuple([self.add(index, step) - index for step in self.steps])

    def index(self, x: int, y: int) -> int:
        """Return the index of a point of the plane."""
        wraps, row = divmod(y, self.rows)
        return row * self.columns + (x - wraps * self.shift) % self.columns

    def add(self, one: int, other: int) -> int:
        """Return the index of the sum."""
        if self.rows == 1:  # the indices are the integers modulo `columns`
            return (one + other) % self.columns
        (y, x), (dy, dx) = divmod(one, self.columns), divmod(other, self.columns)
        return self.index(x + dx, y + dy)

    def subtract(self, one: int, other: int) -> int:
        """Return the index of the difference."""
        if self.rows == 1:
            return (one - other) % self.columns
        (y, x), (dy, dx) = divmod(one, self.columns), divmod(other, self.columns)
        return self.index(x - dx, y - dy)

    def reverse_step(self, port: Port) -> Port:
        """Return the port whose step is the opposite one."""
        return self.steps.index(self.subtract(0, self.steps[port]))

    def label(self, index: int) -> str:
        """Return the part of a label that stands for an index."""
        return str(index)

    def parse(self, label: str) -> int | None:
        """Return the index of `label`, or of a label of a congruent point; None if `label` has another form."""
        match = re.fullmatch(NUMBER, label)
        return int(match[1]) % self.size if match else None


class MeasuredQuotient(Quotient):
    """A quotient whose distances from index 0 have a formula."""

    diameter: int
    bipartite: bool

    @abstractmethod
    def weight(self, index: int) -> int:
        """Return the distance of `index` from 0."""

    @abstractmethod
    def distribution(self) -> list[int]:
        """Return the number of indices at distance 0, 1, .., `diameter`."""

    def total_distance(self) -> int:
        """Return the sum of all weights."""
        return sum(distance * count for distance, count in enumerate(self.distribution()))


class Ring(MeasuredQuotient):
    """The integers modulo `size` with the steps +1 and -1; only +1 if the size is 2, where they are the same."""

    def __init__(self, size: int) -> None:
        super().__init__(size, steps=((1, 0), (-1, 0))[: 1 if size == 2 else 2])
        self.diameter = size // 2
        self.bipartite = size % 2 == 0

    def weight(self, index: int) -> int:
        return min(index, self.size - index)

    def distribution(self) -> list[int]:
        """Return two indices at every distance, except 0 and half of an even size."""
        counts = [2] * (self.diameter + 1)
        counts[0] = 1
        if self.bipartite:
            counts[-1] = 1
        return counts

    def total_distance(self) -> int:
        return self.size**2 // 4


class Clique(MeasuredQuotient):
    """The integers modulo `size` with all differences 1 .. size-1 as steps."""

    diameter = 1

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.steps = range(1, size)
        self.bipartite = size == 2

    def weight(self, index: int) -> int:
        return 1 if index else 0

    def distribution(self) -> list[int]:
        return [1, self.size - 1]


class LatticeNetwork(CayleyTopology):
    """A Cartesian product of quotients. A family sets `name` and `title` and calls `set_factors`."""

    separator = ","
    """Between the labels of factors."""
    node_form = "numbers below the sizes, separated by commas"
    """The form of a label, for messages."""

    def set_factors(self, factors: Sequence[Quotient]) -> None:
        """Set the factors, the first one fastest; raises ScenarioError (field `topology`) for too many ranks."""
        self.order = prod(factor.size for factor in factors)
        self.require_order()
        places = list(accumulate((factor.size for factor in factors), mul, initial=1))
        self._first_ports = list(accumulate((len(factor.steps) for factor in factors), initial=0))
        self.degree = self._first_ports.pop()
        self._factors = tuple(zip(places, [factor.size for factor in factors], factors, strict=False))
        """(place value in a rank, size, factor) of every factor."""
        self._reverse_port = lru_cache(CACHE_ENTRIES)(self._find_reverse_port)
        self._moves = [
            (place, factor.size, factor.moves, port)
            for place, _, factor in self._factors
            if self.degree <= MOST_LISTED_PORTS
            for port in range(len(factor.steps))
        ]
        """By port: place value, size and moves of its factor, and the number of the port there; none for a huge degree."""

    def digits(self, rank: Rank) -> tuple[int, ...]:
        """Return the index in every factor, the first factor first."""
        return tuple([rank // place % size for place, size, _ in self._factors])

    def label(self, rank: Rank) -> str:
        """Return the labels of the factors, the last factor first."""
        return self.separator.join(
            [factor.label(rank // place % size) for place, size, factor in reversed(self._factors)]
        )

    def rank(self, label: str) -> Rank:
        """Return the rank of a label in the form that `label` writes; raises ScenarioError (field `label`).

        For a point that is congruent to the canonical one but not equal to it, the message names the canonical one.
        """
        parts = label.split(self.separator)
        rank = 0
        for part, (_, size, factor) in zip(parts, reversed(self._factors), strict=False):
            index = factor.parse(part)
            if index is None or len(parts) != len(self._factors):
                sample = self.label(self.order - 1)
                raise ScenarioError("label", label, f"a node of {self.name} is {self.node_form}, such as {sample}")
            rank = rank * size + index
        if self.label(rank) != label:
            raise ScenarioError("label", label, f"that node of {self.name} is called {self.label(rank)}")
        return rank

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        if self._moves:  # Hot path, once per packet; plain form below.
            place, size, moves, step = self._moves[port]
            return rank + moves(rank // place % size)[step] * place
        number = bisect_right(self._first_ports, port) - 1
        place, size, factor = self._factors[number]
        index = rank // place % size
        return rank + (factor.add(index, factor.steps[port - self._first_ports[number]]) - index) * place

    def neighbours(self, rank: Rank) -> tuple[Rank, ...]:
        found: list[Rank] = []
        for place, size, factor in self._factors:
            found += [rank + move * place for move in factor.moves(rank // place % size)]
        return tuple(found)

    def reverse_port(self, port: Port) -> Port:
        """Return the opposite step of the same factor."""
        return self._reverse_port(port)

    def _find_reverse_port(self, port: Port) -> Port:
        number = bisect_right(self._first_ports, port) - 1
        first = self._first_ports[number]
        return first + self._factors[number][2].reverse_step(port - first)

    def relative(self, rank: Rank, root: Rank) -> Rank:
        """Return the difference, factor by factor."""
        if not root:
            return rank
        # Hot path, once per segment; plain form: sum(.. for place, size, factor in self._factors).
        relative = 0
        for place, size, factor in self._factors:
            relative += place * factor.subtract(rank // place % size, root // place % size)
        return relative

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """Return the sum, factor by factor."""
        if not root:
            return relative
        rank = 0
        for place, size, factor in self._factors:
            rank += place * factor.add(relative // place % size, root // place % size)
        return rank


class ProductNetwork(LatticeNetwork):
    """A Cartesian product of quotients with distance formulas: distances add, distributions multiply as polynomials."""

    def set_measured_factors(self, factors: Sequence[MeasuredQuotient]) -> None:
        """Set the factors, the first one fastest; raises ScenarioError (field `topology`) for too many ranks."""
        self.set_factors(factors)
        self._measured = tuple(factors)
        self.diameter = sum(factor.diameter for factor in factors)
        self.bipartite = all(factor.bipartite for factor in factors)
        self._weight = lru_cache(CACHE_ENTRIES)(self._find_weight)

    def weight(self, relative: Rank) -> int:
        """Return the sum of the weights in the factors."""
        return self._weight(relative)

    def _find_weight(self, relative: Rank) -> int:
        return sum(map(_weight_in, self._measured, self.digits(relative)))

    def distance_distribution(self) -> tuple[int, ...]:
        """Return the product of the factors' distributions."""
        return polynomial_product(factor.distribution() for factor in self._measured)

    @cached_property
    def average_distance(self) -> Fraction:
        means = [Fraction(factor.total_distance(), factor.size) for factor in self._measured]
        return sum(means, Fraction(0)) * self.order / (self.order - 1)


def _weight_in(factor: MeasuredQuotient, index: int) -> int:
    return factor.weight(index)


class SizedProduct(ProductNetwork):
    """A product of factors of one kind, given by their sizes."""

    factor: type[Ring | Clique]
    title_form: ClassVar[str]
    """`title` with the sizes in the place of {}."""
    one_size: ClassVar[bool] = False
    """Whether a name has a single size."""
    least_size: ClassVar[int] = 2
    below: ClassVar[str] = "every size must be at least 2"
    """Why no size is below `least_size`."""

    def __init__(self, *sizes: int) -> None:
        """Build the network of `sizes` as in the name, the first factor last. ScenarioError (field `topology`) for
        impossible sizes.
        """
        self.name = f"{self.family}:{'x'.join(map(str, sizes))}"
        self.title = self.title_form.format(" x ".join(map(str, sizes)))
        self.require(min(sizes) >= self.least_size, self.below)
        self.require(prod(sizes) <= MAX_ORDER, f"at most {MAX_ORDER} nodes can be addressed")
        self.set_measured_factors([self.factor(size) for size in reversed(sizes)])
        self.connectivity = self.degree

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters)) if cls.one_size else cls(*cls.parse_numbers(parameters, "x"))


@register
class Torus(SizedProduct):
    """Rings in every dimension: ports +1 and -1 of dimension 1, then of dimension 2; one port for a size of 2.

    >>> network = Torus.parse("4x3")
    >>> network.order, network.degree, network.diameter
    (12, 4, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("2,0"))]
    ['2,1', '2,2', '3,0', '1,0']
    """

    family = "torus"
    form = "torus:AxBx.."
    condition = "every size at least 2, fewer than 2^63 nodes"
    example = "torus:4x4x4"
    describe = "torus with rings of A, B, .. nodes: degree 2 a dimension, 1 for size 2; the last size is dimension 1"
    small_examples = ("torus:4x3", "torus:4x2x3", "torus:5x5")
    large_examples = ("torus:1000x1000x1000", "torus:2x3x4x5x6x7x8x9")
    factor = Ring
    title_form = "{} torus"


@register
class Hamming(SizedProduct):
    """Complete graphs in every dimension, also called generalized hypercube or HyperX; port j-1 of a dimension adds j.

    >>> network = Hamming.parse("2x3x4")
    >>> network.order, network.degree, network.diameter
    (24, 6, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1,0,0"))]
    ['1,0,1', '1,0,2', '1,0,3', '1,1,0', '1,2,0', '0,0,0']
    """

    family = "hamming"
    form = "hamming:AxBx.."
    condition = "every size at least 2, fewer than 2^63 nodes"
    example = "hamming:4x4x4"
    describe = "Hamming graph (HyperX): labels of digits below A, B, ..; a link changes one digit in any way"
    small_examples = ("hamming:3x3", "hamming:2x3x4")
    large_examples = ("hamming:10x10x10x10",)
    factor = Clique
    title_form = "{} Hamming graph"


@register
class RingNetwork(SizedProduct):
    """The cycle C_N: port 0 adds 1, port 1 subtracts 1.

    >>> network = RingNetwork.parse("16")
    >>> network.order, network.degree, network.diameter
    (16, 2, 8)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("8"))]
    ['9', '7']
    """

    family = "ring"
    form = "ring:N"
    condition = "3 <= N <= 999999999"
    example = "ring:16"
    describe = "ring C_N: N nodes, degree 2; a link joins consecutive numbers"
    small_examples = ("ring:3", "ring:7", "ring:16")
    large_examples = ("ring:1000000",)
    factor = Ring
    node_form = "a number below the order"
    title_form = "ring C_{}"
    one_size = True
    least_size = 3
    below = "a ring of fewer than 3 nodes has parallel links"


@register
class Complete(SizedProduct):
    """The complete graph K_N: port p adds p + 1.

    >>> network = Complete.parse("8")
    >>> network.order, network.degree, network.diameter
    (8, 7, 1)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("4"))]
    ['5', '6', '7', '0', '1', '2', '3']
    """

    family = "complete"
    form = "complete:N"
    condition = "3 <= N <= 999999999"
    example = "complete:8"
    describe = "complete graph K_N: N nodes, degree N-1; every two nodes are linked"
    small_examples = ("complete:3", "complete:8")
    large_examples = ("complete:100",)
    factor = Clique
    node_form = "a number below the order"
    title_form = "complete graph K_{}"
    one_size = True
    least_size = 3
    below = "a complete graph needs n >= 3: two nodes have a single link"


@register
class Circulant(LatticeNetwork):
    """The integers modulo N with the jumps s_1 < s_2 < ..: ports +s_1, -s_1, +s_2, ..; one port for s = N/2.

    >>> network = Circulant.parse("13:1,5")
    >>> network.order, network.degree, network.diameter
    (13, 4, 2)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("6"))]
    ['7', '5', '11', '1']
    """

    family = "circulant"
    form = "circulant:N:S1,S2,.."
    condition = "N >= 3, 1 <= S1 < S2 < .. <= N/2, no common divisor of N and all jumps"
    example = "circulant:16:1,5"
    describe = "circulant graph: the integers modulo N; a link adds a jump"
    small_examples = ("circulant:13:1,5", "circulant:12:2,3", "circulant:8:1,3,4")
    node_form = "a number below the order"

    def __init__(self, order: int, jumps: Sequence[int]) -> None:
        """Raise ScenarioError (field `topology`) if links would be parallel or loops, or the network not connected."""
        self.name = f"circulant:{order}:{','.join(map(str, jumps))}"
        self.require(order >= 3, "a circulant graph needs N >= 3")
        listed = ",".join(map(str, sorted(set(jumps))))
        self.require(list(jumps) == sorted(set(jumps)), f"list every jump once, ascending: circulant:{order}:{listed}")
        self.require(
            jumps[0] >= 1 and 2 * jumps[-1] <= order,
            f"jumps are 1 .. N/2 = {order // 2}: jump s is the link of N - s in the other sense, and 0 is a loop",
        )
        divisor = gcd(order, *jumps)
        self.require(divisor == 1, f"{divisor} divides N and every jump, so the network is not connected")
        steps = [(sign * jump, 0) for jump in jumps for sign in ((1, -1) if 2 * jump < order else (1,))]
        self.set_factors([Quotient(order, steps=steps)])
        self.title = f"circulant graph C_{order}({', '.join(map(str, jumps))})"
        self.bipartite = order % 2 == 0 and all(jump % 2 for jump in jumps)

    @classmethod
    def parse(cls, parameters: str) -> Self:
        number, _, jumps = parameters.partition(":")
        (order,) = cls.parse_numbers(number, ",", 1, whole=parameters)
        return cls(order, cls.parse_numbers(jumps, ",", whole=parameters))


class TwistedRows(Quotient):
    """Rows of a torus whose last row continues in row 0, `twist` columns to the right."""

    def __init__(self, columns: int, rows: int, twist: int) -> None:
        super().__init__(columns, rows, -twist, steps=((1, 0), (-1, 0), (0, 1), (0, -1)))

    def label(self, index: int) -> str:
        return "{},{}".format(*divmod(index, self.columns))

    def parse(self, label: str) -> int | None:
        match = re.fullmatch(f"{NUMBER},{NUMBER}", label)
        return self.index(int(match[2]), int(match[1])) if match else None


@register
class TwistedTorus(LatticeNetwork):
    """A torus of A columns and B rows whose columns leave the last row T columns further right.

    >>> network = TwistedTorus.parse("5x3:2")
    >>> network.order, network.degree, network.diameter
    (15, 4, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1,2"))]
    ['1,3', '1,1', '2,2', '0,2']
    """

    family = "twisted-torus"
    form = "twisted-torus:AxB:T"
    condition = "A and B at least 3, 0 <= T < A, fewer than 2^63 nodes"
    example = "twisted-torus:8x4:4"
    describe = "twisted torus: A columns, B rows; leaving the last row shifts by T columns; degree 4"
    small_examples = ("twisted-torus:5x3:2", "twisted-torus:8x4:4")
    large_examples = ("twisted-torus:200x100:100",)
    separator = "/"
    node_form = "row,column"

    def __init__(self, columns: int, rows: int, twist: int) -> None:
        """Raise ScenarioError (field `topology`) unless the sizes are at least 3 and 0 <= twist < columns."""
        self.name = f"twisted-torus:{columns}x{rows}:{twist}"
        self.require(columns >= 3 and rows >= 3, "both sizes must be at least 3: below, links are parallel")
        self.require(0 <= twist < columns, f"the twist is 0 .. {columns - 1}: it counts columns")
        self.columns, self.rows, self.twist = columns, rows, twist
        self.set_factors([TwistedRows(columns, rows, twist)])
        self.title = f"{columns} x {rows} torus twisted by {twist}"
        self.bipartite = columns % 2 == 0 and (rows + twist) % 2 == 0
        self._turns = columns // gcd(columns, twist) + 1

    @classmethod
    def parse(cls, parameters: str) -> Self:
        sizes, _, twist = parameters.partition(":")
        (shift,) = cls.parse_numbers(twist, ",", 1, whole=parameters)
        columns, rows = cls.parse_numbers(sizes, "x", 2, whole=parameters)
        return cls(columns, rows, shift)

    def weight(self, relative: Rank) -> int:
        """Return the shortest of the ways that cross the last row `turns` times, downwards or upwards."""
        y, x = divmod(relative, self.columns)
        best = min(x, self.columns - x) + y
        for turns in range(1, self._turns + 1):
            vertical = turns * self.rows
            if vertical - y >= best:  # every further way is longer
                break
            for crossed, height in ((turns, vertical + y), (-turns, vertical - y)):
                across = (x - crossed * self.twist) % self.columns
                best = min(best, min(across, self.columns - across) + height)
        return best
