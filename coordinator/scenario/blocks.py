"""Blocks: places of a network that fail together, such as a sub-star or a rack. To add a kind, list it in `BLOCK_KINDS`."""

import re
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from math import comb
from typing import ClassVar, Final, NamedTuple

from emunode.model import Rank
from emunode.topologies.base import CayleyTopology, Topology
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph
from emunode.topologies.table import TableTopology

Link = tuple[Rank, Rank]
"""A link, the lower rank first."""
MOST_MEMBERS: Final = 2**20
"""The most places in all blocks of one kind together."""


class Block(NamedTuple):
    """Places that fail together."""

    places: tuple[Rank | Link, ...]
    """Nodes, or links."""
    owners: tuple[Rank, ...]
    """Nodes that the block belongs to. A block that belongs to a source is spared with it."""


class BlockKind(ABC):
    """A kind of block: the sets of nodes (or of links) of a network that fail together."""

    name: ClassVar[str]
    """The word in descriptions of fault sets, such as `substar`."""
    form: ClassVar[str]
    """An example, such as `ball=1:2`."""
    on_links: ClassVar[bool] = False
    """Whether its places are links (they go down) instead of nodes (they crash)."""

    def read(self, argument: str) -> str:
        """Return the canonical form of the text after the number; ValueError states what is allowed. Here no text is
        allowed.
        """
        if argument:
            raise ValueError(f"{self.name!r} takes no value: {self.form}")
        return ""

    @abstractmethod
    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        """Return every block of a network, in a fixed order. Raises ValueError if the network has none of this kind.

        `argument` is the result of `read`.
        """


class NumberedBlockKind(BlockKind):
    """A kind of block with a number, such as a dimension or a radius."""

    default: ClassVar[str] = ""
    """The number where none is given; empty if it has to be given."""

    def read(self, argument: str) -> str:
        text = argument or self.default
        if not (text.isascii() and text.isdigit() and len(text) < 5):
            raise ValueError(f"{self.name!r} needs a whole number after its own, as in {self.form}")
        return str(int(text))


class SubStar(BlockKind):
    """The nodes of S_n with one symbol fixed at one position: a star graph S_{n-1}. There are n (n - 1)."""

    name = "substar"
    form = "substar=1"

    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        if not isinstance(topology, StarGraph):
            raise ValueError(f"sub-stars are blocks of star graphs, and the network is {topology.name}")
        if topology.order * (topology.n - 1) > MOST_MEMBERS:
            raise ValueError(f"the sub-stars of {topology.name} have more than {MOST_MEMBERS:,} nodes together")
        members: dict[tuple[int, int], list[Rank]] = defaultdict(list)
        for rank in topology.ranks():
            for position, symbol in enumerate(topology.permutation(rank)[1:]):
                members[position, symbol].append(rank)
        for key in sorted(members):
            yield Block(tuple(members[key]), tuple(members[key]))


class SubCube(NumberedBlockKind):
    """The 2^k nodes of Q_n with n - k bits fixed: a hypercube Q_k. There are C(n, k) 2^(n-k)."""

    name = "subcube"
    form = "subcube=1:2"

    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        if not isinstance(topology, Hypercube):
            raise ValueError(f"subcubes are blocks of hypercubes, and the network is {topology.name}")
        n, k = topology.n, int(argument)
        if k > n:
            raise ValueError(f"{topology.name} has no subcube of dimension {k}; at most {n}")
        if topology.order * comb(n, k) > MOST_MEMBERS:
            raise ValueError(f"its subcubes of dimension {k} have more than {MOST_MEMBERS:,} nodes together")
        for free in combinations(range(n), k):
            inside = [sum(1 << bit for at, bit in enumerate(free) if number >> at & 1) for number in range(1 << k)]
            mask = inside[-1]
            for corner in topology.ranks():
                if not corner & mask:
                    places = tuple(corner | bits for bits in inside)
                    yield Block(places, places)


class Ball(NumberedBlockKind):
    """The nodes at most r links away from a centre. Every node is a centre; balls of different centres may be equal."""

    name = "ball"
    form = "ball=1:1"
    default = "1"

    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        radius, members = int(argument), 0
        peers = [[peer for _, peer in topology.adjacent(rank)] for rank in topology.ranks()]
        for centre in topology.ranks():
            within = border = {centre}
            for _ in range(radius):
                border = {peer for rank in border for peer in peers[rank]} - within
                if not border:
                    break
                within = within | border
            members += len(within)
            if members > MOST_MEMBERS:
                raise ValueError(f"the balls of radius {radius} have more than {MOST_MEMBERS:,} nodes together")
            places = tuple(sorted(within))
            yield Block(places, places)


class LinksOf(BlockKind):
    """All links of a node; the node itself stays healthy and is cut off."""

    name = "links-of"
    form = "links-of=1"
    on_links = True

    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        for rank in topology.ranks():
            links = (tuple(sorted((rank, peer))) for _, peer in topology.adjacent(rank))
            yield Block(tuple((one, other) for one, other in sorted(links)), (rank,))


class Dimension(BlockKind):
    """All links of one dimension: of one port and, where the other end has another port, of that one too.

    A hypercube Q_n has n, a star graph S_n has n - 1, an Eisenstein-Jacobi network has 3 for each of its dimensions. Every
    node has links in every dimension, so that no source is spared.
    """

    name = "dimension"
    form = "dimension=1"
    on_links = True

    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        if not isinstance(topology, CayleyTopology):
            raise ValueError(f"{topology.name} has no dimensions: its ports differ from node to node")
        for port in range(topology.degree):
            if topology.reverse_port(port) >= port:
                ends = ((rank, topology.neighbour(rank, port)) for rank in topology.ranks())
                yield Block(tuple(sorted({(min(pair), max(pair)) for pair in ends})), ())


class Rack(BlockKind):
    """The nodes of a network file with the same value of an attribute, such as a rack or a power supply.

    A node without the attribute is in no block.
    """

    name = "rack"
    form = "rack=1:power"

    def read(self, argument: str) -> str:
        attribute = argument or "rack"
        if not re.fullmatch("[A-Za-z_][A-Za-z0-9_.-]{0,63}", attribute):
            raise ValueError(f"{argument!r} is not the name of an attribute, as in {self.form}")
        return attribute

    def blocks(self, topology: Topology, argument: str) -> Iterator[Block]:
        attributes = topology.node_attributes if isinstance(topology, TableTopology) else {}
        members: dict[str, list[Rank]] = defaultdict(list)
        for rank in topology.ranks():
            if argument in attributes.get(rank, ()):
                members[str(attributes[rank][argument])].append(rank)
        if not members:
            raise ValueError(f"no node of {topology.name} has an attribute {argument!r}; it comes from a network file")
        for value in sorted(members):
            yield Block(tuple(members[value]), tuple(members[value]))


BLOCK_KINDS: Final[dict[str, BlockKind]] = {
    kind.name: kind for kind in (SubStar(), SubCube(), Ball(), LinksOf(), Dimension(), Rack())
}
