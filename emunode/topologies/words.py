"""Networks on n-bit words, and the balanced hypercube, whose nodes are words over 0..3.

A `WordNetwork` is a Cayley graph of Z_2^n: port p adds the word w_p, that is, flips the bits that are set in it. The
translation is the exclusive or with the root, and a link has the same port at both ends. The network is connected if
the words span all n bits, and simple if they are distinct and not 0. Their order numbers the ports. The hypercube is
the network of the words 1, 2, 4, ..; it has a module of its own.

References: El-Amawy and Latifi 1991 (folded hypercube); Choudum and Sunitha 2002 (augmented cube); Wu and Huang 1997
(balanced hypercube).
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from math import comb
from typing import Final, Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import CACHE_ENTRIES, MAX_ORDER, CayleyTopology, Topology

LARGEST_N: Final = MAX_ORDER.bit_length() - 1
"""2^62 is the last power of two that can be addressed."""
LARGEST_DIGITS: Final = LARGEST_N // 2
"""4^31 is the last power of four that can be addressed."""


class WordTopology(Topology):
    """A network whose nodes are the n-bit words: rank = value, label = n binary digits, bit n-1 first."""

    n: int

    def set_bits(self, n: int, least: int = 2) -> None:
        """Set `n` and `order`; raises ScenarioError (field `topology`) if n < `least`, or 2^n ranks cannot be addressed."""
        self.require(n >= least, f"{self.family} needs n >= {least}")
        self.require(n <= LARGEST_N, f"2^n nodes must not exceed {MAX_ORDER}, so n is at most {LARGEST_N}")
        self.n = n
        self.order = 1 << n

    def label(self, rank: Rank) -> str:
        """Return n binary digits, bit n-1 first."""
        return format(rank, f"0{self.n}b")

    def rank(self, label: str) -> Rank:
        """Return the rank of n binary digits; raises ScenarioError (field `label`)."""
        if len(label) != self.n or not set(label) <= {"0", "1"}:
            sample = self.label(1)
            raise ScenarioError(
                "label",
                label,
                f"a node of {self.name} is {self.n} binary digits, bit {self.n - 1} first, such as {sample}",
            )
        return int(label, 2)


class WordNetwork(WordTopology, CayleyTopology):
    """The Cayley graph of Z_2^n for `words`: port p leads from u to u xor words[p]."""

    words: tuple[int, ...]

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        return rank ^ self.words[port]

    def neighbours(self, rank: Rank) -> tuple[Rank, ...]:
        return tuple([rank ^ word for word in self.words])

    def reverse_port(self, port: Port) -> Port:
        """Return the same port at both ends."""
        return port

    def relative(self, rank: Rank, root: Rank) -> Rank:
        """Return the exclusive or with the root."""
        return rank ^ root

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """Return the exclusive or with the root, its own inverse."""
        return relative ^ root


@register
class XorNetwork(WordNetwork):
    """The network of given words. Distances are searched.

    >>> network = XorNetwork.parse("4:1,2,4,8,15,3")
    >>> network.order, network.degree, network.diameter
    (16, 6, 2)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1000"))]
    ['1001', '1010', '1100', '0000', '0111', '1011']
    """

    family = "xor"
    form = "xor:N:W1,W2,.."
    condition = f"1 <= N <= {LARGEST_N}, distinct words 1 .. 2^N-1 that span all N bits"
    example = "xor:4:1,2,4,8,15"
    describe = "Cayley graph of N-bit words: 2^N nodes; port p flips the bits that are set in its word"
    small_examples = ("xor:3:1,2,4", "xor:4:1,2,4,8,15,3")

    def __init__(self, n: int, words: Sequence[int]) -> None:
        """Raise ScenarioError (field `topology`) if the words do not make a connected network without parallel links."""
        self.name = f"xor:{n}:{','.join(map(str, words))}"
        self.set_bits(n, least=1)
        self.require(all(0 < word < self.order for word in words), f"a word is a number from 1 to 2^{n} - 1")
        self.require(len(set(words)) == len(words), "a word that occurs twice makes parallel links")
        rank = _rank_over_two(words)
        self.require(rank == n, f"the words span {rank} of {n} dimensions, so the network is not connected")
        self.title = f"network of {n}-bit words {', '.join(map(str, words))}"
        self.words = tuple(words)
        self.degree = len(words)

    @classmethod
    def parse(cls, parameters: str) -> Self:
        length, _, words = parameters.partition(":")
        (n,) = cls.parse_numbers(length, ",", 1, whole=parameters)
        return cls(n, cls.parse_numbers(words, ",", whole=parameters))


def _rank_over_two(words: Sequence[int]) -> int:
    """Return the dimension of the space that `words` span over the field of two elements."""
    reduced: list[int] = []
    for word in words:
        for known in reduced:
            word = min(word, word ^ known)  # noqa: PLW2901  # Gaussian elimination
        if word:
            reduced.append(word)
    return len(reduced)


@register
class FoldedHypercube(WordNetwork):
    """FQ_n: the hypercube with a link between every word and its complement.

    >>> network = FoldedHypercube.parse("4")
    >>> network.order, network.degree, network.diameter
    (16, 5, 2)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1000"))]
    ['1001', '1010', '1100', '0000', '0111']
    """

    family = "folded-hypercube"
    form = "folded-hypercube:N"
    condition = f"2 <= N <= {LARGEST_N}"
    example = "folded-hypercube:5"
    describe = "folded hypercube FQ_N: 2^N nodes, degree N+1; a link flips one bit, or all bits (port N)"
    small_examples = ("folded-hypercube:2", "folded-hypercube:4", "folded-hypercube:5")
    large_examples = ("folded-hypercube:40",)

    def __init__(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) if n is too large, or below 2, where the complement is one flipped
        bit.
        """
        self.name = f"folded-hypercube:{n}"
        self.set_bits(n)
        self.title = f"folded hypercube FQ_{n}"
        self.words = (*(1 << bit for bit in range(n)), self.order - 1)
        self.degree = n + 1
        self.connectivity = n + 1
        self.diameter = (n + 1) // 2
        self.bipartite = n % 2 == 1

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def weight(self, relative: Rank) -> int:
        """Return |x|, or n + 1 - |x| through the complement."""
        ones = relative.bit_count()
        return min(ones, self.n + 1 - ones)

    def distance_distribution(self) -> tuple[int, ...]:
        """Return the distribution of C(n, w) + C(n, n+1-w) ranks at distance w; one of them where both are the same."""
        n = self.n
        counts = [0] * (self.diameter + 1)
        for ones in range(n + 1):
            counts[min(ones, n + 1 - ones)] += comb(n, ones)
        return tuple(counts)


@register
class AugmentedCube(WordNetwork):
    """AQ_n: ports 0 .. n-1 flip one bit, port n-2+i flips the low i bits, i = 2..n.

    >>> network = AugmentedCube.parse("5")
    >>> network.order, network.degree, network.diameter
    (32, 9, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("10000"))]
    ['10001', '10010', '10100', '11000', '00000', '10011', '10111', '11111', '01111']
    """

    family = "augmented-cube"
    form = "augmented-cube:N"
    condition = f"2 <= N <= {LARGEST_N}"
    example = "augmented-cube:4"
    describe = "augmented cube AQ_N: 2^N nodes, degree 2N-1; a link flips one bit, or the 2..N lowest bits"
    small_examples = ("augmented-cube:2", "augmented-cube:3", "augmented-cube:5")
    large_examples = ("augmented-cube:40",)

    def __init__(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) if n < 2 or n is too large."""
        self.name = f"augmented-cube:{n}"
        self.set_bits(n)
        self.title = f"augmented cube AQ_{n}"
        self.words = (*(1 << bit for bit in range(n)), *((1 << low) - 1 for low in range(2, n + 1)))
        self.degree = 2 * n - 1
        self.connectivity = 4 if n == 3 else self.degree
        self.diameter = (n + 1) // 2
        self.bipartite = False

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def weight(self, relative: Rank) -> int:
        """Return the fewest words that add up to `relative`, by one pass over its bits."""
        costs = _NOTHING_FLIPPED
        for bit in range(self.n - 1, 0, -1):
            costs = _after_bit(costs, relative >> bit & 1)
        return _at_last_bit(costs, relative & 1)

    def distance_distribution(self) -> tuple[int, ...]:
        """Return the pass of `weight` over all words at once: words with equal costs so far are counted together."""
        words = Counter({_NOTHING_FLIPPED: 1})
        for _ in range(self.n - 1):
            longer: Counter[tuple[int, int]] = Counter()
            for costs, count in words.items():
                longer[_after_bit(costs, 0)] += count
                longer[_after_bit(costs, 1)] += count
            words = longer
        counts = [0] * (self.diameter + 1)
        for costs, count in words.items():
            counts[_at_last_bit(costs, 0)] += count
            counts[_at_last_bit(costs, 1)] += count
        return tuple(counts)


# The fewest words so far of an even and of an odd number of low runs, while the bits are read from the top. At every bit
# but the last a run may begin (one word); then a single flip corrects the bit if it is not what the runs make of it.
_NOTHING_FLIPPED: Final = (0, MAX_ORDER)


def _after_bit(costs: tuple[int, int], bit: int) -> tuple[int, int]:
    even, odd = costs
    return min(even, odd + 1) + bit, min(odd, even + 1) + 1 - bit


def _at_last_bit(costs: tuple[int, int], bit: int) -> int:
    even, odd = costs
    return min(even + bit, odd + 1 - bit)


@register
class BalancedHypercube(CayleyTopology):
    """BH_n: digits a_{n-1} .. a_0 of 0..3, a link changes a_0 by one, and maybe another digit by (-1)^{a_0}.

    Port 2i adds 1 to a_0 and port 2i+1 subtracts 1, and for i >= 1 both add (-1)^{a_0} to a_i. Distances are searched.

    >>> network = BalancedHypercube.parse("2")
    >>> network.order, network.degree, network.diameter
    (16, 4, 4)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("20"))]
    ['21', '23', '31', '33']
    """

    family = "balanced-hypercube"
    form = "balanced-hypercube:N"
    condition = f"1 <= N <= {LARGEST_DIGITS}"
    example = "balanced-hypercube:3"
    describe = "balanced hypercube BH_N: 4^N nodes, degree 2N; a link changes digit 0 by one, and maybe another digit"
    small_examples = ("balanced-hypercube:1", "balanced-hypercube:2", "balanced-hypercube:3")

    bipartite = True

    def __init__(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) unless n >= 1 and 4^n ranks can be addressed."""
        self.name = f"balanced-hypercube:{n}"
        self.require(n >= 1, "balanced-hypercube needs n >= 1")
        self.require(n <= LARGEST_DIGITS, f"4^n nodes must not exceed {MAX_ORDER}, so n is at most {LARGEST_DIGITS}")
        self.n = n
        self.title = f"balanced hypercube BH_{n}"
        self.order = 4**n
        self.degree = 2 * n
        self.connectivity = self.degree
        self.diameter = 2 * n if n % 2 == 0 or n == 1 else 2 * n - 1
        self._digits = lru_cache(CACHE_ENTRIES)(self._find_digits)

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def _find_digits(self, rank: Rank) -> tuple[int, ...]:
        """Return a_0 .. a_{n-1}."""
        return tuple(rank >> 2 * place & 3 for place in range(self.n))

    def label(self, rank: Rank) -> str:
        """Return the digits, a_0 last."""
        return "".join(map(str, reversed(self._digits(rank))))

    def rank(self, label: str) -> Rank:
        if len(label) != self.n or not set(label) <= set("0123"):
            sample = self.label(1)
            raise ScenarioError(
                "label", label, f"a node of {self.name} is {self.n} digits of 0..3, a_0 last, such as {sample}"
            )
        return int(label, 4)

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        place, down = divmod(port, 2)
        inner = rank & 3
        neighbour = rank - inner + (inner - 1 if down else inner + 1) % 4
        if place:
            digit = rank >> 2 * place & 3
            neighbour += ((digit + (-1 if inner % 2 else 1)) % 4 - digit) << 2 * place
        return neighbour

    def reverse_port(self, port: Port) -> Port:
        """Return the other sense of a_0; the parity of a_0 is different at the other end, so a_i returns."""
        return port ^ 1

    def relative(self, rank: Rank, root: Rank) -> Rank:
        """Return a_0 - r_0, and (-1)^{r_0} (a_i - r_i) for the other digits."""
        sign = -1 if root & 1 else 1
        relative = (rank - root) & 3
        for place, (digit, of_root) in enumerate(zip(self._digits(rank), self._digits(root), strict=True)):
            if place:
                relative |= (sign * (digit - of_root)) % 4 << 2 * place
        return relative

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """Return b_0 + r_0, and (-1)^{r_0} b_i + r_i for the other digits."""
        sign = -1 if root & 1 else 1
        rank = (relative + root) & 3
        for place, (digit, of_root) in enumerate(zip(self._digits(relative), self._digits(root), strict=True)):
            if place:
                rank |= (sign * digit + of_root) % 4 << 2 * place
        return rank
