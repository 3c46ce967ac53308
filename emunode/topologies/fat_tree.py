"""Fat tree of three levels of switches: k pods of edge and aggregation switches, and core switches above them.

The network is by Leiserson 1985, in the form of Al-Fares, Loukissas and Vahdat 2008. Only hosts own data: every other rank
is a switch. With h = k/2, ranks are in this order:

* hosts `hP/E/I`: host I of edge switch E of pod P;
* edge switches `eP/E`: ports 0 .. h-1 to their hosts, then to the aggregation switches of the pod;
* aggregation switches `aP/A`: ports 0 .. h-1 to the edge switches of the pod, then to the cores `cA/0` .. `cA/(h-1)`;
* core switches `cA/J`: port P to pod P.
"""

import re
from typing import Final, Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import register
from emunode.topologies.base import ABSENT, DirectDistances

LARGEST_K: Final = 3_300_000
"""The order k^3/4 + 5k^2/4 is still below 2^63 here."""

HOST, EDGE, AGGREGATION, CORE = range(4)


@register
class FatTree(DirectDistances):
    """k even: k^3/4 hosts of one port, k^2/2 + k^2/2 + k^2/4 switches of k ports.

    >>> network = FatTree.parse("4")
    >>> network.order, network.degree, network.diameter
    (36, 4, 6)
    >>> [network.label(rank) for _, rank in network.adjacent(network.rank("e1/0"))]
    ['h1/0/0', 'h1/0/1', 'a1/0', 'a1/1']
    """

    family = "fat-tree"
    form = "fat-tree:K"
    condition = f"K even, 2 <= K <= {LARGEST_K}"
    example = "fat-tree:4"
    describe = "fat tree of switches with K ports: K^3/4 hosts, 5K^2/4 switches in three levels; only hosts own data"
    small_examples = ("fat-tree:2", "fat-tree:4")
    large_examples = ("fat-tree:48",)
    bipartite = True

    def __init__(self, k: int) -> None:
        """Raise ScenarioError (field `topology`) unless k is even and the nodes can be addressed."""
        self.name = f"fat-tree:{k}"
        self.require(k >= 2, "fat-tree needs k >= 2")
        self.require(k % 2 == 0, "k must be even: half of a switch's ports lead down and half of them up")
        self.require(k <= LARGEST_K, f"with k above {LARGEST_K} the nodes cannot be addressed")
        self.k, self.half = k, k // 2
        self.hosts = k**3 // 4
        self._first = (0, self.hosts, self.hosts + k * self.half, self.hosts + 2 * k * self.half)
        """The first rank of every level."""
        self.order = self._first[CORE] + self.half**2
        self.degree = k
        self.connectivity = 1
        self.diameter = 6
        self.title = f"fat tree of {k}-port switches"

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def is_switch(self, rank: Rank) -> bool:
        """Return every rank but the hosts."""
        return rank >= self.hosts

    # A place is (level, major, minor): a switch E of pod P at (EDGE, P, E), a core cA/J at (CORE, A, J), a host at its
    # edge switch with the number of the host as fourth.

    def _place(self, rank: Rank) -> tuple[int, int, int, int]:
        level = next(level for level in (CORE, AGGREGATION, EDGE, HOST) if rank >= self._first[level])
        index = rank - self._first[level]
        index, host = divmod(index, self.half) if level == HOST else (index, 0)
        return level, *divmod(index, self.half), host

    def _rank(self, level: int, major: int, minor: int, host: int = 0) -> Rank:
        index = major * self.half + minor
        return self._first[level] + (index * self.half + host if level == HOST else index)

    def label(self, rank: Rank) -> str:
        level, *numbers = self._place(rank)
        return "heac"[level] + "/".join(map(str, numbers if level == HOST else numbers[:2]))

    def rank(self, label: str) -> Rank:
        match = re.fullmatch("([heac])([0-9]{1,8})/([0-9]{1,8})(?:/([0-9]{1,8}))?", label)
        rank = self._rank("heac".index(match[1]), *(int(part or 0) for part in match.groups()[1:])) if match else 0
        if rank >= self.order or self.label(rank) != label:
            raise ScenarioError(
                "label",
                label,
                f"a node of {self.name} is a host hP/E/I or a switch eP/E, aP/A or cA/J, with P below {self.k} and other "
                f"numbers below {self.half}, such as {self.label(self.hosts - 1)}",
            )
        return rank

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        return self._end(rank, port)[0]

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        return self._end(rank, port)

    def _end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        level, major, minor, host = self._place(rank)
        half = self.half
        if level == HOST:
            return (self._rank(EDGE, major, minor), host) if port == 0 else (ABSENT, 0)
        if level == CORE:
            return self._rank(AGGREGATION, port, major), half + minor
        if level == EDGE:
            if port < half:
                return self._rank(HOST, major, minor, port), 0
            return self._rank(AGGREGATION, major, port - half), minor
        if port < half:
            return self._rank(EDGE, major, port), half + minor
        return self._rank(CORE, minor, port - half), major

    def ports(self, rank: Rank) -> range:
        return range(1 if rank < self.hosts else self.k)

    @property
    def link_count(self) -> int:
        """As many links from hosts as between two levels of switches."""
        return 3 * self.hosts

    def distance(self, one: Rank, other: Rank) -> int:
        if one == other:
            return 0
        lower, upper = sorted((self._place(one), self._place(other)))
        links = 0
        if lower[0] == HOST:
            links, lower = links + 1, (EDGE, *lower[1:3], 0)
        if upper[0] == HOST:
            links, upper = links + 1, (EDGE, *upper[1:3], 0)
        return links + _between_switches(*sorted((lower[:3], upper[:3])))

    def eccentricity(self, root: Rank) -> int:
        level = self._place(root)[0]
        if level == CORE:
            return 4 if self.half > 1 else 3
        return (6, 5, 4)[level]


def _between_switches(lower: tuple[int, ...], upper: tuple[int, ...]) -> int:
    """Return the distance of two switches (level, major, minor), the first one on no higher level."""
    (low, major, minor), (high, other_major, other_minor) = lower, upper
    if lower == upper:
        return 0
    if (low, high) == (EDGE, CORE):
        return 2
    if high == CORE:  # an aggregation switch A reaches the cores cA/0, cA/1, ..
        group, nearest = (minor, 1) if low == AGGREGATION else (major, 2)
        return nearest if group == other_major else nearest + 2
    if low != high:  # an edge and an aggregation switch
        return 1 if major == other_major else 3
    close = major == other_major or (low == AGGREGATION and minor == other_minor)
    return 2 if close else 4
