"""The binary n-cube Q_n: nodes are the n-bit integers, port d (dimension d) flips bit d.

Conventions of Johnsson and Ho (YALEU/DCS/TR-500, 1986, section 2): bit 0 is the least significant, the address seen
from a source is the exclusive or with it, and that translation keeps dimensions.
"""

from math import comb
from typing import Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import MAX_ORDER, CayleyTopology

LARGEST_N = MAX_ORDER.bit_length() - 1


@register
class Hypercube(CayleyTopology):
    """Q_n with n >= 2: 2^n ranks, degree and diameter n. The methods do not validate ranks and ports.

    >>> network = Hypercube.parse("4")
    >>> network.order, network.degree, network.diameter
    (16, 4, 4)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("1000"))]
    ['1001', '1010', '1100', '0000']
    """

    family = "hypercube"
    form = "hypercube:N"
    condition = f"2 <= N <= {LARGEST_N}"
    example = "hypercube:7"
    describe = "hypercube Q_N: 2^N nodes, degree N; a link flips one bit"
    small_examples = tuple(f"hypercube:{n}" for n in range(2, 8))
    large_examples = ("hypercube:40", "hypercube:62")

    def __init__(self, n: int) -> None:
        """Raise ScenarioError (field `topology`) if n < 2 or 2^n ranks cannot be addressed."""
        self.name = f"hypercube:{n}"
        if n < 2:
            raise ScenarioError(
                "topology", self.name, "Q_n needs n >= 2: a single link has no second tree and no second path"
            )
        if n > LARGEST_N:
            raise ScenarioError(
                "topology", self.name, f"2^n nodes must not exceed {MAX_ORDER}, so n is at most {LARGEST_N}"
            )
        self.n = n
        self.title = f"hypercube Q_{n}"
        self.order = 1 << n
        self.degree = n
        self.connectivity = self.degree
        self.diameter = n
        self.bipartite = True

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def label(self, rank: Rank) -> str:
        """Return n binary digits, bit n-1 first."""
        return format(rank, f"0{self.n}b")

    def rank(self, label: str) -> Rank:
        """Return the rank of n binary digits; raises ScenarioError (field `label`)."""
        if len(label) != self.n or not set(label) <= {"0", "1"}:
            sample = format(1, f"0{self.n}b")
            raise ScenarioError(
                "label",
                label,
                f"a node of {self.name} is {self.n} binary digits, bit {self.n - 1} first, such as {sample}",
            )
        return int(label, 2)

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        """Return the rank with bit `port` flipped."""
        return rank ^ (1 << port)

    def reverse_port(self, port: Port) -> Port:
        """Return the same dimension at both ends."""
        return port

    def relative(self, rank: Rank, root: Rank) -> Rank:
        """Return the exclusive or with the root."""
        return rank ^ root

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """Return the exclusive or with the root, its own inverse."""
        return relative ^ root

    def weight(self, relative: Rank) -> int:
        """Return the number of 1-bits (Hamming weight)."""
        return relative.bit_count()

    def distance_distribution(self) -> tuple[int, ...]:
        """Return the distribution of C(n, w) ranks at distance w."""
        return tuple(comb(self.n, weight) for weight in range(self.n + 1))
