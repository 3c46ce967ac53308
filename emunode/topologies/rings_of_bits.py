"""Cube-connected cycles and the wrapped butterfly: a bit word and a position in it.

A node (w, i) is an n-bit word w and a position i = 0..n-1; a link moves to a position beside i, flips a bit there, or
both. The translation to the root (v, j) adds v and rotates by j: (w, i) becomes (w xor v rotated right by j, i - j mod n).

Weights. A shortest path visits, on the ring of positions, every bit that it has to flip. It goes all the way round, or
leaves one gap uncrossed; the weight is the least over all gaps.

References: Preparata and Vuillemin 1981, Fris, Havel and Liebl 1997 (cube-connected cycles); Annexstein, Baumslag and
Rosenberg 1990, Chen and Lau 1993 (wrapped butterfly as a Cayley graph). The unwrapped butterfly, with n + 1 levels, is
another network.
"""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import MAX_ORDER, CayleyTopology

LARGEST_N: Final = 57
"""57 2^57 is the last order below 2^63."""


class RingOfBits(CayleyTopology):
    """Nodes (w, i) with n bits, n >= 3: rank w n + i, label such as `0110/2`."""

    def __init__(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) if n < 3 or n 2^n ranks cannot be addressed."""
        self.name = f"{self.family}:{n}"
        self.require(
            n >= 3, f"{self.family} needs n >= 3: on a ring of 1 or 2 positions both ways lead to the same one"
        )
        self.require(n <= LARGEST_N, f"n 2^n nodes must not exceed {MAX_ORDER}, so n is at most {LARGEST_N}")
        self.n = n
        self.order = n << n
        self.bipartite = n % 2 == 0

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def label(self, rank: Rank) -> str:
        word, position = divmod(rank, self.n)
        return f"{word:0{self.n}b}/{position}"

    def rank(self, label: str) -> Rank:
        match = re.fullmatch(rf"([01]{{{self.n}}})/(0|[1-9][0-9]?)", label)
        if match is None or int(match[2]) >= self.n:
            raise ScenarioError(
                "label",
                label,
                f"a node of {self.name} is {self.n} binary digits and a position below {self.n}, such as {self.label(1)}",
            )
        return int(match[1], 2) * self.n + int(match[2])

    def relative(self, rank: Rank, root: Rank) -> Rank:
        n = self.n
        (word, position), (of_root, by) = divmod(rank, n), divmod(root, n)
        word ^= of_root
        return ((word >> by | word << n - by) & (1 << n) - 1) * n + (position - by) % n

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        n = self.n
        (word, position), (of_root, by) = divmod(relative, n), divmod(root, n)
        word = (word << by | word >> n - by) & (1 << n) - 1
        return (word ^ of_root) * n + (position + by) % n

    def full_turn(self, position: int) -> int:
        """Return the fewest steps from position 0 to `position` that visit every position and cross every link of the
        ring.
        """
        return min(self.n + position, 2 * self.n - position) if position else self.n


@register
class CubeConnectedCycles(RingOfBits):
    """CCC_n: port 0 leads to the next position, port 1 to the previous one, port 2 flips the bit at the position.

    >>> network = CubeConnectedCycles.parse("3")
    >>> network.order, network.degree, network.diameter
    (24, 3, 6)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("100/0"))]
    ['100/1', '100/2', '101/0']
    """

    family = "ccc"
    form = "ccc:N"
    condition = f"3 <= N <= {LARGEST_N}"
    example = "ccc:4"
    describe = "cube-connected cycles CCC_N: N 2^N nodes, degree 3; every node of a hypercube is a ring of its N ports"
    small_examples = ("ccc:3", "ccc:4")
    large_examples = ("ccc:20",)
    degree = connectivity = 3

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.title = f"cube-connected cycles CCC_{n}"
        self.diameter = 2 * n + n // 2 - 2 if n > 3 else 6

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        word, position = divmod(rank, self.n)
        if port == 2:
            return (word ^ 1 << position) * self.n + position
        return word * self.n + (position - 1 if port else position + 1) % self.n

    def reverse_port(self, port: Port) -> Port:
        return (1, 0, 2)[port]

    def weight(self, relative: Rank) -> int:
        """Return a flip for every 1-bit, and the shortest walk on the ring from 0 to the position that visits them."""
        word, position = divmod(relative, self.n)
        return word.bit_count() + min(self.full_turn(position), *self._walks(word, position))

    def _walks(self, word: int, position: int) -> Iterator[int]:
        """Yield the shortest walk for every gap between neighbouring positions to visit; the gap stays uncrossed."""
        n = self.n
        stops = [place for place in range(n) if word >> place & 1 or place in {0, position}]
        for last, first in pairwise([*stops, stops[0] + n]):  # the gap begins after `last` and ends before `first`
            start, end, span = -first % n, (position - first) % n, (last - first) % n
            up_first = start - 0 + span + (span - end)
            down_first = (span - start) + span + end
            yield min(up_first, down_first)


@register
class Butterfly(RingOfBits):
    """Wrapped butterfly: port 0 leads to the next position, port 1 also flips the bit that it leaves.

    Ports 2 and 3 lead back: to the previous position, port 3 flips the bit that it reaches.

    >>> network = Butterfly.parse("3")
    >>> network.order, network.degree, network.diameter
    (24, 4, 4)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("100/0"))]
    ['100/1', '101/1', '100/2', '000/2']
    """

    family = "butterfly"
    form = "butterfly:N"
    condition = f"3 <= N <= {LARGEST_N}"
    example = "butterfly:4"
    describe = "wrapped butterfly: N 2^N nodes, degree 4; a link moves to an adjacent level, and flips its bit or not"
    small_examples = ("butterfly:3", "butterfly:4")
    large_examples = ("butterfly:20",)
    degree = connectivity = 4

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.title = f"wrapped butterfly of {n} levels"
        self.diameter = 3 * n // 2

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        word, position = divmod(rank, self.n)
        reached = (position - 1 if port >= 2 else position + 1) % self.n
        if port % 2:
            word ^= 1 << (reached if port == 3 else position)
        return word * self.n + reached

    def reverse_port(self, port: Port) -> Port:
        return port ^ 2

    def weight(self, relative: Rank) -> int:
        """Return the shortest walk on the ring from 0 to the position that crosses the links whose bits are flipped."""
        word, position = divmod(relative, self.n)
        return min(self.full_turn(position), *self._walks(word, position), 2 * self.n)

    def _walks(self, word: int, position: int) -> Iterator[int]:
        """Yield the shortest walk for every link of the ring that may stay uncrossed: those whose bit is not flipped."""
        n = self.n
        flipped = [place for place in range(n) if word >> place & 1]
        for gap in range(n):
            if word >> gap & 1:
                continue
            crossed = [(place - gap - 1) % n for place in flipped]
            start, end = (-gap - 1) % n, (position - gap - 1) % n
            low = min(start, end, *crossed)
            high = max(start, end, *[place + 1 for place in crossed])
            span = high - low
            yield min((start - low) + span + (high - end), (high - start) + span + (end - low))
