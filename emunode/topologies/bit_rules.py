"""Variants of the hypercube with twisted links: port d flips bit d, and further bits by a rule that looks at the rank.

Every rule is an involution, so a link has the same port at both ends. No translation keeps the ports. Distances are
searched. None of these networks is bipartite from three dimensions on.

Three different networks are called twisted cube; the one here is that of Hilbers, Koopman and van de Snepscheut 1987,
not those of Abraham and Padmanabhan 1991 and of Esfahanian, Ni and Sagan 1991. The others are by Efe 1991 (crossed
cube), Yang, Evans and Megson 2005 (locally twisted cube; its rule reads the last bit of the address) and Cull and Larson
1995 (Moebius cubes).
"""

from abc import abstractmethod
from typing import Final, Self

from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import RegularTopology
from emunode.topologies.words import LARGEST_N, WordTopology

EVEN_BITS: Final = sum(1 << bit for bit in range(0, LARGEST_N, 2))


class BitRuleNetwork(WordTopology, RegularTopology):
    """2^n words of n bits, degree n: port d of u leads to u xor flipped(u, d)."""

    def __init__(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) if n < 2 or 2^n ranks cannot be addressed."""
        self.name = f"{self.family}:{n}"
        self.set_bits(n)
        self.title = f"{self.family.replace('-', ' ').replace('moebius', 'Moebius')} of {n} dimensions"
        self.degree = n
        self.connectivity = n
        self.bipartite = n == 2

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    @abstractmethod
    def flipped(self, rank: Rank, port: Port) -> int:
        """Return the bits that `port` flips at `rank`."""

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        return rank ^ self.flipped(rank, port)

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        return rank ^ self.flipped(rank, port), port


@register
class CrossedCube(BitRuleNetwork):
    """CQ_n: port d flips bit d, and bit 2i+1 for every set bit 2i with i < floor(d/2).

    >>> network = CrossedCube.parse("4")
    >>> network.order, network.degree, network.diameter
    (16, 4, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1000"))]
    ['1001', '1010', '1100', '0000']
    """

    family = "crossed-cube"
    form = "crossed-cube:N"
    condition = f"2 <= N <= {LARGEST_N}"
    example = "crossed-cube:5"
    describe = "crossed cube CQ_N: 2^N nodes, degree N; a link flips one bit and crosses the pairs of bits below it"
    small_examples = ("crossed-cube:2", "crossed-cube:4", "crossed-cube:5")

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.diameter = (n + 2) // 2

    def flipped(self, rank: Rank, port: Port) -> int:
        whole_pairs_below = (1 << (port & ~1)) - 1
        return 1 << port | (rank & EVEN_BITS & whole_pairs_below) << 1


@register
class LocallyTwistedCube(BitRuleNetwork):
    """LTQ_n: port d flips bit d, and for d >= 2 bit d-1 too if bit 0 is set.

    >>> network = LocallyTwistedCube.parse("5")
    >>> network.order, network.degree, network.diameter
    (32, 5, 4)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("10000"))]
    ['10001', '10010', '10100', '11000', '00000']
    """

    family = "locally-twisted-cube"
    form = "locally-twisted-cube:N"
    condition = f"2 <= N <= {LARGEST_N}"
    example = "locally-twisted-cube:5"
    describe = (
        "locally twisted cube LTQ_N: 2^N nodes, degree N; a link flips one bit, at odd nodes also the bit below it"
    )
    small_examples = ("locally-twisted-cube:2", "locally-twisted-cube:3", "locally-twisted-cube:5")

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.diameter = (n + 4) // 2 if n >= 5 else (n + 2) // 2

    def flipped(self, rank: Rank, port: Port) -> int:
        return 3 << port - 1 if port >= 2 and rank & 1 else 1 << port


@register
class MoebiusCube(BitRuleNetwork):
    """MQ_n: port d flips bit d, or bits d .. 0 if bit d+1 is set; "bit n" is the type, 0 or 1.

    >>> network = MoebiusCube.parse("5,0")
    >>> network.order, network.degree, network.diameter
    (32, 5, 4)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("10000"))]
    ['10001', '10010', '10100', '11111', '00000']
    """

    family = "moebius-cube"
    form = "moebius-cube:N,TYPE"
    condition = f"2 <= N <= {LARGEST_N}, TYPE 0 or 1"
    example = "moebius-cube:5,1"
    describe = "Moebius cube of type 0 or 1: 2^N nodes, degree N; a link flips one bit, or also all bits below it"
    small_examples = ("moebius-cube:3,0", "moebius-cube:3,1", "moebius-cube:5,0")

    def __init__(self, n: int, kind: int) -> None:
        """Raise ScenarioError (field `topology`) if n < 2, n is too large, or the type is not 0 or 1."""
        super().__init__(n)
        self.name = f"moebius-cube:{n},{kind}"
        self.require(kind in {0, 1}, "the type of a Moebius cube is 0 or 1")
        self.title += f", type {kind}"
        self.diameter = (n + 2) // 2 if kind or n < 4 else (n + 3) // 2
        self._above = kind << n

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(*cls.parse_numbers(parameters, ",", 2))

    def flipped(self, rank: Rank, port: Port) -> int:
        return (2 << port) - 1 if (rank | self._above) >> port + 1 & 1 else 1 << port


@register
class TwistedCube(BitRuleNetwork):
    """TQ_n, n odd: port d flips bit d; for odd d bit d+1 too if bits d-1 .. 0 have even parity.

    >>> network = TwistedCube.parse("5")
    >>> network.order, network.degree, network.diameter
    (32, 5, 3)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("10000"))]
    ['10001', '10110', '10100', '01000', '00000']
    """

    family = "twisted-cube"
    form = "twisted-cube:N"
    condition = f"N odd, 3 <= N <= {LARGEST_N - 1}"
    example = "twisted-cube:5"
    describe = (
        "twisted cube TQ_N, N odd: 2^N nodes, degree N; a link flips one bit, or two by the parity of the bits below"
    )
    small_examples = ("twisted-cube:3", "twisted-cube:5")

    def __init__(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) if n is even, below 3, or too large."""
        super().__init__(n)
        self.require(
            n % 2 == 1,
            "n must be odd: the rule pairs the bits above bit 0 (the twisted n-cube of Esfahanian, Ni and Sagan, defined "
            "for every n, is another network)",
        )
        self.diameter = (n + 1) // 2

    def flipped(self, rank: Rank, port: Port) -> int:
        if port % 2 == 0:
            return 1 << port
        below = rank & (1 << port) - 1
        return 1 << port if below.bit_count() % 2 else 3 << port
