"""What every interconnection network answers, by arithmetic on one rank at a time.

All networks here are Cayley graphs: a *translation* carries any rank to rank 0 and keeps every port. A rule is therefore
stated once, at root 0, on the relative address `relative(rank, root)`, and its ports are used unchanged at `rank`.

No method may build a table of the whole network: asking for one neighbour in a network of a million nodes is instant.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from fractions import Fraction

from emunode.errors import ScenarioError
from emunode.model import Port, Rank

MAX_ORDER = 2**63 - 1
"""Ranks are signed 64-bit integers."""


class Topology(ABC):
    """An interconnection network: `order` ranks, each with `degree` ports, each port one bidirectional link."""

    family: str
    """The word before the colon of `name`: `star`, `hypercube`, `ej`."""
    name: str
    """Canonical name, parsed back by `parse_topology` of the registry."""
    title: str
    """Name for people, such as `permutation star graph S_4`."""
    order: int
    degree: int
    diameter: int
    bipartite: bool

    @abstractmethod
    def label(self, rank: Rank) -> str:
        """The label of `rank`."""

    @abstractmethod
    def rank(self, label: str) -> Rank:
        """The rank of `label`; raises ScenarioError (field `label`) naming the canonical form when it is none."""

    @abstractmethod
    def neighbour(self, rank: Rank, port: Port) -> Rank:
        """The rank at the other end of `port`."""

    @abstractmethod
    def reverse_port(self, port: Port) -> Port:
        """The port of the same link at its other end (the same for every rank)."""

    @abstractmethod
    def relative(self, rank: Rank, root: Rank) -> Rank:
        """Address of `rank` under the translation that carries `root` to rank 0."""

    @abstractmethod
    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """Inverse of `relative`: the rank whose address seen from `root` is `relative`."""

    @abstractmethod
    def weight(self, relative: Rank) -> int:
        """Distance of `relative` from rank 0, in closed form."""

    @abstractmethod
    def distance_distribution(self) -> tuple[int, ...]:
        """Number of ranks at distance 0, 1, .., diameter of any rank, by formula."""

    def distance(self, one: Rank, other: Rank) -> int:
        """Number of links on a shortest path, in closed form."""
        return self.weight(self.relative(one, other))

    def neighbours(self, rank: Rank) -> tuple[Rank, ...]:
        """The other end of every port, by port."""
        return tuple(self.neighbour(rank, port) for port in range(self.degree))

    def ranks(self) -> range:
        """All ranks."""
        return range(self.order)

    def links(self) -> Iterator[tuple[Rank, Port, Rank, Port]]:
        """Every link once, as (rank, port, neighbour, its port) with rank < neighbour."""
        for rank in self.ranks():
            for port, neighbour in enumerate(self.neighbours(rank)):
                if rank < neighbour:
                    yield rank, port, neighbour, self.reverse_port(port)

    @property
    def link_count(self) -> int:
        """Number of bidirectional links."""
        return self.order * self.degree // 2

    @property
    def average_distance(self) -> Fraction:
        """Mean distance over the other ranks, exactly."""
        total = sum(d * count for d, count in enumerate(self.distance_distribution()))
        return Fraction(total, self.order - 1)

    def facts(self) -> Mapping[str, object]:
        """What `list topologies` and a report show of this network."""
        return {
            "topology": self.name,
            "title": self.title,
            "order": self.order,
            "degree": self.degree,
            "links": self.link_count,
            "diameter": self.diameter,
            "average_distance": float(self.average_distance),
        }

    def require_order(self, limit: int = MAX_ORDER) -> None:
        """Refuse a network with more ranks than can be addressed."""
        if self.order > limit:
            raise ScenarioError("topology", self.name, f"it has {self.order} nodes; at most {limit} can be addressed")
