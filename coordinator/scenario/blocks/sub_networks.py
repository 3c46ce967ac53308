"""Blocks that are networks of the same family: sub-stars and subcubes."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from math import comb

from coordinator.scenario.blocks.base import MOST_MEMBERS, Block, BlockKind, NumberedBlockKind
from emunode.model import Rank
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph


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
