"""The interface of every interconnection network: arithmetic on one rank at a time.

Rules, trees and routes are stated at root 0. `seen_from(root)` is the network renamed so that `root` is rank 0; every rank
keeps its ports, so what holds at the relative address `relative(rank, root)` holds at `rank` with the same port numbers.

* In a `CayleyTopology` a *translation* carries any rank to rank 0 and keeps every port. The network looks the same from
  every rank: `seen_from` returns the network itself, and one tree or timetable serves all roots.
* In every other network ranks differ: `seen_from` returns a view that exchanges the names 0 and `root`, and each root needs
  its own tables. Ports may be absent, and degrees may differ.

A family must define labels and links, and a Cayley graph its translations. A closed definition builds no table of the whole
network: asking for one neighbour in a network of a million nodes is instant. Distances may stay undefined. They are
then found by one breadth-first search over the whole network of at most `SEARCH_LIMIT` ranks.
"""

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from typing import ClassVar, Final, Self, TypeVar

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.registry import Registry

MAX_ORDER: Final = 2**63 - 1
"""Ranks are signed 64-bit integers."""
CACHE_ENTRIES: Final = 1 << 16
"""The size of every cache of values by rank: bounded, because ranks are not."""
SEARCH_LIMIT: Final = 1 << 20
"""The largest network, in ranks, whose distances are found by search: a few seconds and four megabytes."""


ABSENT: Final[Rank] = -1
"""The result of `neighbour` for a port that a rank does not have."""
ALL_PAIRS_LIMIT: Final = 1 << 24
"""The largest order x order where distances between all pairs are searched without being asked for: a few seconds."""


Value = TypeVar("Value")


class searched_property(cached_property[Value]):  # noqa: N801  # used as a decorator, as is its base
    """A cached property found by search, for families without a formula.

    The value is kept under another name: an attribute of the property's own name is one that the constructor set.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, f"_searched_{name}")


def knows(topology: "Topology", name: str) -> bool:
    """Return whether a property needs no search.

    That is so where the constructor has set it, or where the family has a formula.
    """
    return name in vars(topology) or not isinstance(getattr(type(topology), name), searched_property)


class Topology(ABC):
    """An interconnection network of `order` ranks.

    The ports of a rank have numbers out of 0 .. `degree` - 1. Each port is one end of a bidirectional link.

    >>> from emunode.topologies.registry import parse_topology
    >>> star = parse_topology("star:4")
    >>> star.order, star.degree, star.label(23), star.rank("2134")
    (24, 3, '4321', 1)
    >>> [star.label(neighbour) for port, neighbour in star.adjacent(23)]
    ['3421', '2341', '1324']
    """

    family: ClassVar[str]
    """The word before the colon of `name`: `star`, `hypercube`, `ej`."""
    form: ClassVar[str]
    """The general form of a name, such as `star:N`."""
    condition: ClassVar[str]
    """The allowed parameters, such as `3 <= N <= 20`."""
    example: ClassVar[str]
    """The name of one member, for help texts."""
    describe: ClassVar[str]
    """One line that defines the nodes and links of the family."""
    defined_by_name: ClassVar[bool] = True
    """Whether `name` alone gives the network back; False for networks from files."""
    small_examples: ClassVar[tuple[str, ...]]
    """Members small enough to be checked exhaustively, smallest first. Every test list of topologies starts from them."""
    large_examples: ClassVar[tuple[str, ...]] = ()
    """Members too large for a table of all ranks: tests look at a few of their ranks."""

    name: str
    """Canonical name, parsed back by `parse_topology` of the registry."""
    title: str
    """Name for people, such as `permutation star graph S_4`."""
    order: int
    degree: int
    """How many port numbers there are: the degree of every rank, unless `neighbour` says that ports are absent."""
    remarks: Sequence[str] = ()
    """Remarks for the user about how the file of the network was read."""

    @classmethod
    @abstractmethod
    def parse(cls, parameters: str) -> Self:
        """Return the network named `<family>:<parameters>`; raises ScenarioError (field `topology`)."""

    @classmethod
    def parse_number(cls, parameters: str) -> int:
        """Return the parameter of a family that has a single number.

        Raises ScenarioError (field `topology`).
        """
        if not (parameters.isascii() and parameters.isdigit() and len(parameters) < 10):
            raise ScenarioError("topology", f"{cls.family}:{parameters}", f"write {cls.form} with {cls.condition}")
        return int(parameters)

    @classmethod
    def parse_numbers(
        cls, parameters: str, separator: str, count: int | None = None, whole: str | None = None
    ) -> tuple[int, ...]:
        """Return the numbers in the text `parameters`.

        `whole` is the text that errors quote, if `parameters` is only a part of it. With `count`, there must be so many
        numbers. Raises ScenarioError (field `topology`).
        """
        words = parameters.split(separator)
        well_formed = all(word.isascii() and word.isdigit() and len(word) <= 20 for word in words)
        if not well_formed or count not in {None, len(words)}:
            text = parameters if whole is None else whole
            raise ScenarioError("topology", f"{cls.family}:{text}", f"write {cls.form} with {cls.condition}")
        return tuple(map(int, words))

    @abstractmethod
    def label(self, rank: Rank) -> str:
        """Return the label of `rank`."""

    @abstractmethod
    def rank(self, label: str) -> Rank:
        """Return the rank of `label`.

        Raises ScenarioError (field `label`) that shows the canonical form.
        """

    @abstractmethod
    def neighbour(self, rank: Rank, port: Port) -> Rank:
        """Return the rank at the other end of `port`; ABSENT if `rank` has no such port."""

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        """Return the other end of the link at `port`: the neighbour and its port.

        This method tries the neighbour's ports in turn. A family overrides it where it has a rule.
        """
        neighbour = self.neighbour(rank, port)
        return neighbour, self.neighbours(neighbour).index(rank)

    def ports(self, rank: Rank) -> Sequence[Port]:
        """Return the ports that `rank` has, ascending."""
        return tuple(port for port, neighbour in enumerate(self.neighbours(rank)) if neighbour != ABSENT)

    def reverse_ports(self, rank: Rank) -> Sequence[Port]:
        """Return for each port of `rank` the port at the other end.

        Ports that `rank` lacks have ABSENT.
        """
        reverse = [ABSENT] * self.degree
        for port, _, its_port in self.ends(rank):
            reverse[port] = its_port
        return reverse

    connectivity: int | None = None
    """The vertex connectivity, if the literature proves it for the family."""

    def is_switch(self, rank: Rank) -> bool:
        """Return whether `rank` only forwards.

        A switch has no message of its own, and no message is for it. By default no rank is a switch.
        """
        del rank
        return False

    @cached_property
    def data_ranks(self) -> Sequence[Rank]:
        """The ranks that own data: all but the switches, ascending."""
        if type(self).is_switch is Topology.is_switch:
            return self.ranks()
        return tuple(rank for rank in self.ranks() if not self.is_switch(rank))

    # The network seen from a root.

    def seen_from(self, root: Rank) -> "Topology":
        """Return the network renamed so that `root` is rank 0.

        A network that looks the same from every rank returns itself.
        """
        return self._renamed(root) if root else self

    @cached_property
    def _renamed(self) -> "Callable[[Rank], Topology]":
        """Return the view of the network from a root.

        A view may hold a table of distances. So only as many views are kept as have `SEARCH_LIMIT` entries together.
        """
        return lru_cache(max(2, SEARCH_LIMIT // self.order))(partial(RenamedTopology, self))

    def relative(self, rank: Rank, root: Rank) -> Rank:
        """Return the name of `rank` in `seen_from(root)`."""
        # 0 and the root exchange their names; every other rank keeps its own.
        return root if not rank else 0 if rank == root else rank

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """Return the inverse of `relative`: the rank whose address seen from `root` is `relative`."""
        # An exchange is its own inverse.
        return self.relative(relative, root)

    # Distances. A family overrides these by formulas if it has them.

    def weight(self, relative: Rank) -> int:
        """Return the distance of `relative` from rank 0."""
        return self._searched_weights[relative]

    def distance(self, one: Rank, other: Rank) -> int:
        """Return the number of links on a shortest path.

        A family without translations overrides it together with `weight`.
        """
        return self.seen_from(other).weight(self.relative(one, other))

    def distribution_from(self, root: Rank) -> tuple[int, ...]:
        """Return how many ranks are at each distance from `root`.

        The distances are 0, 1, .., `eccentricity(root)`.
        """
        self._require_enumerable("formula for the numbers of nodes by distance")
        view = self.seen_from(root)
        counts = Counter(map(view.weight, view.ranks()))
        return tuple(counts[distance] for distance in range(len(counts)))

    def eccentricity(self, root: Rank) -> int:
        """Return the largest distance from `root`."""
        return len(self.distribution_from(root)) - 1

    @searched_property
    def diameter(self) -> int:
        """The largest distance between two ranks.

        Without a formula this takes one search for each rank: see `known_diameter`.
        """
        return max(max(breadth_first_distances(self, root)) for root in self.ranks())

    @property
    def known_diameter(self) -> int | None:
        """The diameter, or None if finding it would take too long.

        It is known where the family has a formula, or where the network is small enough to search.
        """
        return self.diameter if knows(self, "diameter") or self._quickly_searched else None

    @property
    def _quickly_searched(self) -> bool:
        """Whether distances between all pairs of ranks can be searched in seconds."""
        return self.order**2 <= ALL_PAIRS_LIMIT

    @searched_property
    def bipartite(self) -> bool:
        """Whether the network has no cycle of odd length.

        Then no link joins two ranks at equal distance from rank 0.
        """
        weights = self._searched_weights
        return not any(weights[one] == weights[other] for one, _, other, _ in self.links())

    @property
    def has_distance_formula(self) -> bool:
        """Whether `weight` is computed from the address alone, without a search over the whole network."""
        return type(self).weight is not Topology.weight

    @cached_property
    def _searched_weights(self) -> "array[int]":
        """The distance of every rank from rank 0, by rank.

        Raises ScenarioError for a network that is too large to search.
        """
        self._require_enumerable("distance formula")
        return self.distances_from(0)

    def distances_from(self, root: Rank) -> "array[int]":
        """Return the distance of every rank from `root`, by rank, by search."""
        return breadth_first_distances(self, root)

    def farthest_from(self, root: Rank) -> Rank:
        """Return the lowest rank that owns data among those farthest from `root`."""
        return min(
            (rank for rank in self.data_ranks if rank != root),
            # Seen from the root: a network without a formula needs one search for it.
            key=lambda rank: (-self.distance(rank, root), rank),
        )

    def _require_enumerable(self, missing: str) -> None:
        """Raise ScenarioError (field `topology`) if the network is too large to search.

        `missing` names the value that has no formula.
        """
        self.require(
            self.order <= SEARCH_LIMIT,
            f"{self.family} has no {missing}, and breadth-first search is limited to {SEARCH_LIMIT} nodes",
        )

    @cached_property
    def average_distance(self) -> Fraction:
        """The exact mean distance between two different ranks.

        Without a formula this searches from every rank.
        """
        total = sum(sum(breadth_first_distances(self, root)) for root in self.ranks())
        return Fraction(total, self.order * (self.order - 1))

    @property
    def known_average_distance(self) -> Fraction | None:
        """The average distance, or None if finding it would take too long.

        It is known where the family has a formula, or where the network is small enough to search.
        """
        by_formula = type(self).average_distance is not Topology.average_distance
        return self.average_distance if by_formula or self._quickly_searched else None

    # Derived from the above.

    def neighbours(self, rank: Rank) -> tuple[Rank, ...]:
        """Return the neighbour at each port of `rank`.

        Ports that `rank` lacks have ABSENT.
        """
        return tuple([self.neighbour(rank, port) for port in range(self.degree)])  # a list is faster than a generator

    def adjacent(self, rank: Rank) -> Iterator[tuple[Port, Rank]]:
        """Yield (port, neighbour) of every port that `rank` has, by ascending port."""
        for port, neighbour in enumerate(self.neighbours(rank)):
            if neighbour != ABSENT:
                yield port, neighbour

    def ends(self, rank: Rank) -> Iterator[tuple[Port, Rank, Port]]:
        """Yield (port, neighbour, its port of the same link) of every port that `rank` has, by ascending port."""
        for port in self.ports(rank):
            yield port, *self.end(rank, port)

    def ranks(self) -> range:
        """Return all ranks."""
        return range(self.order)

    def links(self) -> Iterator[tuple[Rank, Port, Rank, Port]]:
        """Yield every link once, as (rank, port, neighbour, its port) with rank < neighbour."""
        for rank in self.ranks():
            for port, neighbour, its_port in self.ends(rank):
                if rank < neighbour:
                    yield rank, port, neighbour, its_port

    @cached_property
    def link_count(self) -> int:
        """Number of bidirectional links."""
        return sum(len(self.ports(rank)) for rank in self.ranks()) // 2

    def facts(self) -> Mapping[str, object]:
        """Return the properties of this network that `list topologies` and reports show."""
        average = self.known_average_distance
        return {
            "topology": self.name,
            "title": self.title,
            "order": self.order,
            "degree": self.degree,
            "links": self.link_count,
            "diameter": self.known_diameter,
            "distances": "formula" if self.has_distance_formula else "breadth-first search",
            "average_distance": None if average is None else float(average),
        }

    def require(self, condition: bool, reason: str) -> None:
        """Raise ScenarioError (field `topology`) with `reason` unless `condition` holds."""
        if not condition:
            raise ScenarioError("topology", self.name, reason)

    def require_order(self, limit: int = MAX_ORDER) -> None:
        """Raise ScenarioError (field `topology`) if there are more than `limit` ranks."""
        self.require(self.order <= limit, f"it has {self.order} nodes; at most {limit} can be addressed")


class DirectDistances(Topology):
    """A network without translations, but with a formula for the distance between any two ranks."""

    @abstractmethod
    def distance(self, one: Rank, other: Rank) -> int:
        """Return the number of links on a shortest path."""

    def weight(self, relative: Rank) -> int:
        return self.distance(relative, 0)


class RegularTopology(Topology):
    """A network whose ranks have all `degree` ports.

    >>> from emunode.topologies.registry import parse_topology
    >>> petersen = parse_topology("petersen:5,2")
    >>> isinstance(petersen, RegularTopology), {len(petersen.ports(rank)) for rank in petersen.ranks()}
    (True, {3})
    """

    def ports(self, rank: Rank) -> Sequence[Port]:
        return range(self.degree)

    @property
    def link_count(self) -> int:
        return self.order * self.degree // 2


class VertexTransitiveTopology(RegularTopology):
    """A network whose ranks all see the same distances.

    For each rank there is an automorphism that carries it to rank 0. The automorphism may change ports: only a
    `CayleyTopology` can serve all roots by one table.

    >>> from emunode.topologies.registry import parse_topology
    >>> cycles = parse_topology("ccc:3")
    >>> isinstance(cycles, VertexTransitiveTopology), {cycles.eccentricity(rank) for rank in cycles.ranks()}
    (True, {6})
    """

    def distance_distribution(self) -> tuple[int, ...]:
        """Return the number of ranks at distance 0, 1, .., diameter of any rank."""
        return self._counted_distribution

    @cached_property
    def _counted_distribution(self) -> tuple[int, ...]:
        return super().distribution_from(0)

    def distribution_from(self, root: Rank) -> tuple[int, ...]:
        return self.distance_distribution()

    def eccentricity(self, root: Rank) -> int:
        return self.diameter

    @searched_property
    def diameter(self) -> int:
        """The largest distance."""
        return len(self.distance_distribution()) - 1

    @property
    def _quickly_searched(self) -> bool:
        return self.order <= SEARCH_LIMIT

    @cached_property
    def average_distance(self) -> Fraction:
        """Mean distance over the other ranks, exactly."""
        total = sum(d * count for d, count in enumerate(self.distance_distribution()))
        return Fraction(total, self.order - 1)

    @property
    def known_average_distance(self) -> Fraction | None:
        by_formula = type(self).distance_distribution is not VertexTransitiveTopology.distance_distribution
        return self.average_distance if by_formula or self._quickly_searched else None


class CayleyTopology(VertexTransitiveTopology):
    """A network with a translation for every rank.

    The translation is a bijection of the ranks that carries its rank to rank 0 and keeps every port. So all ranks have
    the same ports. A port leads to the same port number at every rank (`reverse_port`).

    >>> from emunode.topologies.registry import parse_topology
    >>> cube = parse_topology("hypercube:3")
    >>> cube.label(cube.relative(cube.rank("110"), cube.rank("011")))
    '101'
    """

    @abstractmethod
    def reverse_port(self, port: Port) -> Port:
        """Return the port of the same link at its other end (the same for every rank)."""

    @abstractmethod
    def relative(self, rank: Rank, root: Rank) -> Rank:
        """Return the address of `rank` under the translation that carries `root` to rank 0."""

    @abstractmethod
    def absolute(self, relative: Rank, root: Rank) -> Rank:
        """Return the inverse of `relative`: the rank whose address seen from `root` is `relative`."""

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        return self.neighbour(rank, port), self.reverse_port(port)

    @cached_property
    def _all_ports(self) -> range:
        return range(self.degree)

    @cached_property
    def _all_reverse_ports(self) -> tuple[Port, ...]:
        return tuple(map(self.reverse_port, range(self.degree)))

    def ends(self, rank: Rank) -> Iterator[tuple[Port, Rank, Port]]:
        return zip(self._all_ports, self.neighbours(rank), self._all_reverse_ports, strict=True)

    def ports(self, rank: Rank) -> Sequence[Port]:
        return self._all_ports  # one object for all ranks

    def reverse_ports(self, rank: Rank) -> Sequence[Port]:
        return self._all_reverse_ports

    def seen_from(self, root: Rank) -> Topology:
        return self

    @property
    def has_distance_formula(self) -> bool:
        return type(self).weight is not Topology.weight

    def distance(self, one: Rank, other: Rank) -> int:
        return self.weight(self.relative(one, other))


class RenamedTopology(Topology):
    """A network without translations as one root sees it.

    0 and the root exchange their names. Ports and labels stay.
    """

    def __init__(self, network: Topology, root: Rank) -> None:
        self.family = network.family  # type: ignore[misc]  # messages name the family of the network
        self.name = f"{network.name} seen from {network.label(root)}"
        self.title = f"{network.title} seen from {network.label(root)}"
        self.order, self.degree = network.order, network.degree
        self._network = network
        self._root = root

    @classmethod
    def parse(cls, parameters: str) -> Self:
        raise NotImplementedError("a view is made by `seen_from`")

    def label(self, rank: Rank) -> str:
        return self._network.label(self._swap(rank))

    def rank(self, label: str) -> Rank:
        return self._swap(self._network.rank(label))

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        return self._swap(self._network.neighbour(self._swap(rank), port))

    def neighbours(self, rank: Rank) -> tuple[Rank, ...]:
        return tuple(map(self._swap, self._network.neighbours(self._swap(rank))))

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        neighbour, its_port = self._network.end(self._swap(rank), port)
        return self._swap(neighbour), its_port

    def ports(self, rank: Rank) -> Sequence[Port]:
        return self._network.ports(self._swap(rank))

    def is_switch(self, rank: Rank) -> bool:
        return self._network.is_switch(self._swap(rank))

    def weight(self, relative: Rank) -> int:
        network = self._network
        if network.has_distance_formula:
            return network.distance(self._swap(relative), self._root)
        return self._searched_weights[relative]

    def distances_from(self, root: Rank) -> "array[int]":
        distances = self._network.distances_from(self._swap(root))[:]
        distances[0], distances[self._root] = distances[self._root], distances[0]
        return distances

    @property
    def diameter(self) -> int:
        return self._network.diameter

    @property
    def known_diameter(self) -> int | None:
        return self._network.known_diameter

    @property
    def bipartite(self) -> bool:
        return self._network.bipartite

    @property
    def link_count(self) -> int:
        return self._network.link_count

    def _swap(self, rank: Rank) -> Rank:
        """Exchange the names of 0 and the root, in either direction.

        ABSENT stays ABSENT.
        """
        return self._network.relative(rank, self._root)


FAMILIES: Final = Registry[str, type[Topology]](
    "topology",
    Topology,
    key=lambda family: family.family,
    required=("family", "form", "condition", "example", "describe", "small_examples"),
)


def switches(topology: Topology) -> list[Rank]:
    """Return the ranks that only forward."""
    if len(topology.data_ranks) == topology.order:
        return []
    return [rank for rank in topology.ranks() if topology.is_switch(rank)]


def breadth_first_distances(topology: Topology, root: Rank) -> "array[int]":
    """Return the distance of every rank from `root`, by rank.

    Ranks that cannot be reached have -1.
    """
    distances = array("i", [-1]) * topology.order
    distances[root] = 0
    queue = [root]
    for rank in queue:
        for neighbour in topology.neighbours(rank):
            if neighbour != ABSENT and distances[neighbour] < 0:
                distances[neighbour] = distances[rank] + 1
                queue.append(neighbour)
    return distances
