"""Whole sub-networks share a host: sub-stars, subcubes, copies of the lower dimensions of an Eisenstein-Jacobi network.

Families number their ranks such that sub-networks are blocks of consecutive ranks. The block sizes of sub-networks are
found from the links alone, so the rule serves every network: all blocks of that size have the same links inside, by the
offset of a rank in its block, and each block is connected.

With one sub-network S_{n-1} on each of n hosts, n!/2 links of S_n cross hosts, one of each node. With a subcube Q_{n-h} on
each of 2^h hosts, h 2^(n-1) links of Q_n cross. With a copy of EJ^(n-1) on each of N hosts, 3 N^n links of EJ^(n) cross.
"""

from collections.abc import Sequence
from typing import Final

from coordinator.planning.placements.base import FIELD, RankPlacement, require_links
from emunode.errors import ScenarioError
from emunode.model import Rank
from emunode.registry import register
from emunode.topologies.base import Topology

LONGEST: Final = 10
"""Digits of the largest order that a scenario names."""


@register
class SubNetworks(RankPlacement):
    """Sub-networks that are never cut, as many for each host as for every other or one more."""

    name = "sub-network"
    form = "sub-network[:ORDER]"
    meaning = (
        "sub-networks (sub-star, subcube, Eisenstein-Jacobi block) share a host: the largest of which there is one for "
        "each host, or those of ORDER nodes"
    )

    def __init__(self, parameter: str) -> None:
        self._parameter = parameter
        if parameter and not (parameter.isascii() and parameter.isdigit() and len(parameter) <= LONGEST):
            raise ScenarioError(FIELD, f"{self.name}:{parameter}"[:80], f"write {self.form}, ORDER a whole number")

    def host_of_each(self, topology: Topology, hosts: int) -> Sequence[int] | None:
        size = self._size(topology, hosts)
        count = topology.order // size
        return [rank // size * hosts // count for rank in topology.ranks()]

    def _size(self, topology: Topology, hosts: int) -> int:
        """Return the number of nodes of a sub-network."""
        text = f"{self.name}:{self._parameter}" if self._parameter else self.name
        require_links(text, topology)
        neighbours = [topology.neighbours(rank) for rank in topology.ranks()]
        sizes = [size for size in range(1, topology.order // hosts + 1) if not topology.order % size]
        if self._parameter:
            size = int(self._parameter)
            if size not in sizes or not are_sub_networks(neighbours, size):
                found = [each for each in sizes if are_sub_networks(neighbours, each)]
                raise ScenarioError(
                    FIELD,
                    text,
                    f"for {hosts} hosts {topology.name} has sub-networks of {', '.join(map(str, found))} nodes",
                )
            return size
        found_size = next(size for size in reversed(sizes) if are_sub_networks(neighbours, size))
        if found_size == 1 and topology.order >= 2 * hosts:
            raise ScenarioError(
                FIELD,
                text,
                f"{topology.name} has no sub-networks of several nodes of which there are {hosts} or more; use blocks or "
                "least-crossing",
            )
        return found_size


def are_sub_networks(neighbours: Sequence[Sequence[int]], size: int) -> bool:
    """Return whether the blocks of `size` consecutive ranks are connected and have the same links inside."""

    def inside(rank: Rank) -> list[int]:
        first = rank - rank % size
        return sorted(other - first for other in neighbours[rank] if first <= other < first + size)

    links = [inside(rank) for rank in range(size)]
    reached, queue = {0}, [0]
    for offset in queue:
        new = [other for other in links[offset] if other not in reached]
        reached.update(new)
        queue += new
    # First, because one block decides this: a network may have a hundred sizes.
    if len(reached) != size:
        return False
    return all(inside(rank) == links[rank % size] for rank in range(size, len(neighbours)))
