"""The interface of every interconnection network: arithmetic on one rank at a time.

All networks here are Cayley graphs: a *translation* carries any rank to rank 0 and keeps every port. A rule is therefore
stated once, at root 0, on the relative address `relative(rank, root)`, and its ports are used unchanged at `rank`.

A family must define labels, links and translations, and none of these may build a table of the whole network: asking
for one neighbour in a network of a million nodes is instant. Distances may stay undefined. They are then found by one
breadth-first search over the whole network, which limits its size to `SEARCH_LIMIT` ranks.
"""

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import ClassVar, Final, Self

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import Registry

MAX_ORDER: Final = 2**63 - 1
"""Ranks are signed 64-bit integers."""
CACHE_ENTRIES: Final = 1 << 16
"""The size of every cache of values by rank: bounded, because ranks are not."""
SEARCH_LIMIT: Final = 1 << 20
"""The largest network, in ranks, whose distances are found by search: a few seconds and four megabytes."""


class Topology(ABC):
    """An interconnection network: `order` ranks, each with `degree` ports, each port one bidirectional link."""

    family: ClassVar[str]
    """The word before the colon of `name`: `star`, `hypercube`, `ej`."""
    form: ClassVar[str]
    """The general form of a name, such as `star:N`."""
    condition: ClassVar[str]
    """Which parameters are allowed, such as `3 <= N <= 20`."""
    example: ClassVar[str]
    """The name of one member, for help texts."""
    describe: ClassVar[str]
    """One line that defines the nodes and links of the family."""
    small_examples: ClassVar[tuple[str, ...]]
    """Members small enough to be checked exhaustively, smallest first. Every test list of topologies starts from them."""
    large_examples: ClassVar[tuple[str, ...]] = ()
    """Members too large for a table of all ranks, of which tests look at a few ranks."""

    name: str
    """Canonical name, parsed back by `parse_topology` of the registry."""
    title: str
    """Name for people, such as `permutation star graph S_4`."""
    order: int
    degree: int

    @classmethod
    @abstractmethod
    def parse(cls, parameters: str) -> Self:
        """The network named `<family>:<parameters>`; raises ScenarioError (field `topology`)."""

    @classmethod
    def parse_number(cls, parameters: str) -> int:
        """The parameter of a family that has a single number; raises ScenarioError (field `topology`)."""
        if not (parameters.isascii() and parameters.isdigit() and len(parameters) < 10):
            raise ScenarioError("topology", f"{cls.family}:{parameters}", f"write {cls.form} with {cls.condition}")
        return int(parameters)

    @abstractmethod
    def label(self, rank: Rank) -> str:
        """The label of `rank`."""

    @abstractmethod
    def rank(self, label: str) -> Rank:
        """The rank of `label`; raises ScenarioError (field `label`) that shows the canonical form."""

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

    # Distances. A family overrides `weight`, `diameter`, `bipartite` and `distance_distribution` by formulas if it has them.

    def weight(self, relative: Rank) -> int:
        """Distance of `relative` from rank 0."""
        return self._searched_weights[relative]

    @cached_property
    def diameter(self) -> int:
        """The largest distance."""
        return max(self._searched_weights)

    @cached_property
    def bipartite(self) -> bool:
        """Whether there are no cycles of odd length: whether no link joins two ranks at equal distance from rank 0."""
        weights = self._searched_weights
        return not any(weights[one] == weights[other] for one, _, other, _ in self.links())

    def distance_distribution(self) -> tuple[int, ...]:
        """Number of ranks at distance 0, 1, .., diameter of any rank."""
        counts = Counter(self._searched_weights)
        return tuple(counts[distance] for distance in range(self.diameter + 1))

    @property
    def has_distance_formula(self) -> bool:
        """Whether `weight` is computed from the address alone, without a search over the whole network."""
        return type(self).weight is not Topology.weight

    @cached_property
    def _searched_weights(self) -> "array[int]":
        """Distance of every rank from rank 0, by rank; raises ScenarioError for a network too large to search."""
        if self.order > SEARCH_LIMIT:
            raise ScenarioError(
                "topology",
                self.name,
                f"{self.family} has no distance formula, and breadth-first search is limited to {SEARCH_LIMIT} nodes",
            )
        return breadth_first_distances(self, 0)

    def distance(self, one: Rank, other: Rank) -> int:
        """Number of links on a shortest path."""
        return self.weight(self.relative(one, other))

    @property
    def average_distance(self) -> Fraction:
        """Mean distance over the other ranks, exactly."""
        total = sum(d * count for d, count in enumerate(self.distance_distribution()))
        return Fraction(total, self.order - 1)

    # Derived from the above.

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

    def facts(self) -> Mapping[str, object]:
        """The properties of this network that `list topologies` and reports show."""
        return {
            "topology": self.name,
            "title": self.title,
            "order": self.order,
            "degree": self.degree,
            "links": self.link_count,
            "diameter": self.diameter,
            "distances": "formula" if self.has_distance_formula else "breadth-first search",
            "average_distance": float(self.average_distance),
        }

    def require_order(self, limit: int = MAX_ORDER) -> None:
        """Raise ScenarioError (field `topology`) if there are more than `limit` ranks."""
        if self.order > limit:
            raise ScenarioError("topology", self.name, f"it has {self.order} nodes; at most {limit} can be addressed")


FAMILIES: Final = Registry[str, Topology](
    "topology",
    Topology,  # type: ignore[type-abstract]
    key=lambda family: family.family,
    required=("family", "form", "condition", "example", "describe", "small_examples"),
)


def breadth_first_distances(topology: Topology, root: Rank) -> "array[int]":
    """Distance of every rank from `root`, by rank, found link by link; -1 for ranks that cannot be reached."""
    distances = array("i", [-1]) * topology.order
    distances[root] = 0
    queue = [root]
    for rank in queue:
        for neighbour in topology.neighbours(rank):
            if distances[neighbour] < 0:
                distances[neighbour] = distances[rank] + 1
                queue.append(neighbour)
    return distances
