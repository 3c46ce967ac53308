"""The components that faults leave of a tree, and how links between them join these to one tree again.

A component that is entered at a rank w hangs below w: the arcs on the way from w to its former root turn round. A tree that
keeps all links of c components needs c - 1 further links, and no fewer do.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from emunode.model import Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import Trees
from emunode.trees.partial import PartialTree

End = tuple[Rank, Port]
"""A directed link, by the rank that sends on it and its port."""
Adjacent = Mapping[Rank, Sequence[Rank]]
"""The neighbours of ranks."""


class TreeEntry(NamedTuple):
    """A way into a component: the least depth of the whole component below it, and the link from `above` to `entered`."""

    depth: int
    above: Rank
    entered: Rank


class BrokenLinks:
    """The links of a network that do not work in both directions, as seen from a root."""

    def __init__(self, topology: Topology, broken: Collection[End]) -> None:
        self.topology = topology
        self.ends = frozenset({*broken, *(topology.end(*end) for end in broken)})
        """Both ends of every broken link."""
        touched = {rank for rank, _ in self.ends}
        self.dead = frozenset(
            rank for rank in touched if all((rank, port) in self.ends for port in topology.ports(rank))
        )
        """Ranks without a working link."""

    @property
    def only_nodes(self) -> bool:
        """Whether every broken link belongs to a rank without a working one."""
        return all(rank in self.dead or self.topology.neighbour(rank, port) in self.dead for rank, port in self.ends)

    def working(self, rank: Rank) -> Iterator[tuple[Port, Rank]]:
        """Return the ports of a rank that work, with the neighbours behind them."""
        return ((port, peer) for port, peer in self.topology.adjacent(rank) if (rank, port) not in self.ends)

    def connected(self, rank: Rank) -> dict[Rank, Rank]:
        """Return the ranks that working links connect to a rank, in breadth-first order, with the rank before each."""
        before = {rank: rank}
        queue = [rank]
        for here in queue:
            for _, peer in self.working(here):
                if peer not in before:
                    before[peer] = here
                    queue.append(peer)
        return before


class Component:
    """A part of a tree: its ranks, its links, and the distance of each rank from the one farthest from it."""

    def __init__(self, links: Adjacent, first: Rank) -> None:
        self.links = links
        self._below: dict[Rank, dict[Rank, int]] = {}
        self.ranks = frozenset(self.depths(first))
        # In a tree one of the two ends of a longest path is farthest from any rank.
        one = self._farthest(first)
        ends = [self.depths(end) for end in (one, self._farthest(one))]
        self.eccentricity = {rank: max(depths[rank] for depths in ends) for rank in self.ranks}

    def depths(self, root: Rank) -> dict[Rank, int]:
        """Return the depth of every rank below `root`."""
        if root not in self._below:
            found = {root: 0}
            queue = [root]
            for rank in queue:
                for peer in self.links.get(rank, ()):
                    if peer not in found:
                        found[peer] = found[rank] + 1
                        queue.append(peer)
            self._below[root] = found
        return self._below[root]

    def _farthest(self, rank: Rank) -> Rank:
        return list(self.depths(rank))[-1]


class Forest:
    """The components of a tree without its broken links that are connected to the root, the root's own first."""

    def __init__(self, trees: Trees, broken: BrokenLinks) -> None:
        self.topology = trees.topology
        connected = broken.connected(0)
        links: dict[Rank, list[Rank]] = {rank: [] for rank in connected}
        for rank in connected:
            if rank and (rank, port := trees.parent(rank, 0)) not in broken.ends:
                parent = self.topology.neighbour(rank, port)
                links[rank].append(parent)
                links[parent].append(rank)
        self.components: list[Component] = []
        self.number: dict[Rank, int] = {}
        """The component of each rank."""
        for rank in connected:
            if rank not in self.number:
                component = Component(links, rank)
                self.number |= dict.fromkeys(component.ranks, len(self.components))
                self.components.append(component)
        self.borders: list[list[tuple[Rank, Rank]]] = [[] for _ in self.components]
        """By component, its links to others: its own rank, and the other one."""
        for rank, number in self.number.items() if len(self.components) > 1 else ():
            self.borders[number] += [(rank, peer) for _, peer in broken.working(rank) if self.number[peer] != number]


class Joining:
    """The components of a forest that are joined to one tree so far, from the root's own on."""

    def __init__(self, forest: Forest, entries: Sequence[tuple[int, TreeEntry]] = ()) -> None:
        self.forest = forest
        self.entries = tuple(entries)
        """The components that were joined, by number, and where each was entered."""
        self._depths: dict[int, tuple[int, dict[Rank, int]]] = {0: (0, forest.components[0].depths(0))}
        """By component, the depth of its entry, and the depth of each rank below the entry."""
        for number, entry in self.entries:
            self._depths[number] = (self._depth(entry.above) + 1, forest.components[number].depths(entry.entered))
        self.depth = max([forest.components[0].eccentricity[0], *(entry.depth for _, entry in self.entries)])

    @property
    def left(self) -> list[int]:
        """The numbers of the components that are not joined yet."""
        return [number for number in range(len(self.forest.components)) if number not in self._depths]

    def ways_into(self, number: int) -> list[TreeEntry]:
        """Return the links from the joined part into a component, by the depth that they lead to."""
        eccentricity = self.forest.components[number].eccentricity
        return sorted(
            TreeEntry(self._depth(above) + 1 + eccentricity[rank], above, rank)
            for rank, above in self.forest.borders[number]
            if self.forest.number[above] in self._depths
        )

    def ways_from(self, number: int) -> list[tuple[TreeEntry, int]]:
        """Return the links from a joined component to components that are not, with the number of each."""
        components, place = self.forest.components, self.forest.number
        return [
            (TreeEntry(self._depth(rank) + 1 + components[place[peer]].eccentricity[peer], rank, peer), place[peer])
            for rank, peer in self.forest.borders[number]
            if place[peer] not in self._depths
        ]

    def join(self, number: int, entry: TreeEntry) -> "Joining":
        """Return the same with one more component."""
        return Joining(self.forest, (*self.entries, (number, entry)))

    def tree(self) -> PartialTree:
        """Return the tree that the joined components form."""
        topology, components = self.forest.topology, self.forest.components
        above = _parents(components[0], 0)
        for number, entry in self.entries:
            above |= _parents(components[number], entry.entered)
            above[entry.entered] = entry.above
        return PartialTree(topology, {rank: port_to(topology, rank, parent) for rank, parent in above.items()})

    def _depth(self, rank: Rank) -> int:
        """Return the depth of a rank that is joined."""
        base, below = self._depths[self.forest.number[rank]]
        return base + below[rank]


def _parents(component: Component, root: Rank) -> dict[Rank, Rank]:
    """Return the parent of every rank of a component that hangs below `root`."""
    parents: dict[Rank, Rank] = {}
    queue = [root]
    for rank in queue:
        for peer in component.links.get(rank, ()):
            if peer != parents.get(rank):
                parents[peer] = rank
                queue.append(peer)
    return parents


def port_to(topology: Topology, rank: Rank, peer: Rank) -> Port:
    """Return the lowest port of a rank that leads to a neighbour."""
    return next(port for port, neighbour in topology.adjacent(rank) if neighbour == peer)
