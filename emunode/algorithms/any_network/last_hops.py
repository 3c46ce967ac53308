"""The last links of shortest paths, and how evenly a node can share out the arrivals over them.

In a breadth-first broadcast every node u receives in phase t the blocks of all origins at distance t from it. Each block
comes over one of the *last hops* of its origin: the links of u that begin a shortest path to the origin. A block can be
cut into parts that come over different links. The least possible *load* of phase t at u is the number of blocks that the
busiest link of u carries.

Origins with the same last hops are interchangeable, so all functions here work on classes. A class is a set of ports,
written as a bit mask (bit p for port p), and its origins. A node of degree d sees at most 2^d - 1 classes, however large
the network is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import ceil, lcm

from emunode.model import Port, Rank
from emunode.topologies.base import (
    ABSENT,
    ALL_PAIRS_LIMIT,
    SEARCH_LIMIT,
    CayleyTopology,
    Topology,
    VertexTransitiveTopology,
)

LastHops = Mapping[int, Sequence[Rank]]
"""The origins of one phase by the mask of their last hops; origins ascend."""
SUBSET_LIMIT = 12
"""The highest degree up to which all sets of ports are looked at. Above it, minimum cuts find the tightest set."""


def require_searchable(topology: Topology, name: str) -> None:
    """Raise ScenarioError if the search would take more than some seconds.

    It starts from every receiver whose distances differ.
    """
    if isinstance(topology, CayleyTopology):
        topology.require(
            topology.order <= SEARCH_LIMIT, f"{name} searches it, which is limited to {SEARCH_LIMIT} nodes"
        )
        return
    most = int(ALL_PAIRS_LIMIT**0.5)
    topology.require(topology.order <= most, f"{name} searches it from every node, which is limited to {most} nodes")


def last_hops(topology: Topology, receiver: Rank) -> list[LastHops]:
    """Return the ranks that own data by their distance 1, 2, .. from `receiver`, and by the mask of their last hops."""
    distances, masks = [-1] * topology.order, [0] * topology.order
    distances[receiver] = 0
    level: list[Rank] = []
    for port, neighbour in topology.adjacent(receiver):
        distances[neighbour], masks[neighbour] = 1, 1 << port
        level.append(neighbour)
    by_phase: list[LastHops] = []
    while level:
        classes: dict[int, list[Rank]] = {}
        for rank in sorted(level):
            if not topology.is_switch(rank):
                classes.setdefault(masks[rank], []).append(rank)
        by_phase.append(dict(sorted(classes.items())))
        level = _next_level(topology, level, distances, masks)
    return by_phase


def _next_level(topology: Topology, level: Sequence[Rank], distances: list[int], masks: list[int]) -> list[Rank]:
    """Return the ranks one link farther than `level`.

    A shortest path through a rank has the last hop of the rank's own.
    """
    farther = []
    distance = distances[level[0]] + 1
    for rank in level:
        for neighbour in topology.neighbours(rank):
            if neighbour == ABSENT:
                continue
            if distances[neighbour] < 0:
                distances[neighbour] = distance
                farther.append(neighbour)
            if distances[neighbour] == distance:
                masks[neighbour] |= masks[rank]
    return farther


# --- the least load, by Hall's condition -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Phases:
    """The cost of breadth-first broadcast on a network, per phase.

    It is the maximum over all receivers, in blocks of one origin.
    """

    loads: tuple[Fraction, ...]
    """The load of the busiest link in phase 1, 2, .., with every block cut into the best parts."""
    remaining: tuple[Fraction, ...]
    """By distance t, the blocks from that distance or more per link of the receiver.

    They cross its links after step t - 1.
    """

    @property
    def transfer(self) -> Fraction:
        """T_B: the time of all phases, in blocks over one link.

        One packet holds all that a link carries in a phase.
        """
        return sum(self.loads, Fraction(0))

    def steps(self, chunks: int) -> int:
        """Return the steps of all phases for blocks of `chunks` chunks and one chunk per link and step."""
        # By the integrality of flows a phase takes the load rounded up, not more.
        return sum(ceil(chunks * load) for load in self.loads)

    def least_steps(self, chunks: int) -> int:
        """Return the steps that any allgather needs for blocks of `chunks` chunks and one chunk per link and step."""
        return max(distance + ceil(chunks * blocks) for distance, blocks in enumerate(self.remaining))

    @property
    def whole_chunks(self) -> int:
        """The least number of chunks per block that makes every load a whole number of chunks."""
        return lcm(*(load.denominator for load in self.loads))


@lru_cache(maxsize=4)
def phases(topology: Topology) -> Phases:
    """Return the loads of breadth-first broadcast.

    Where all nodes are alike, these are the loads of one node.
    """
    loads: list[Fraction] = []
    remaining: list[Fraction] = []
    for receiver in [0] if isinstance(topology, VertexTransitiveTopology) else topology.ranks():
        counts = [{mask: len(ranks) for mask, ranks in classes.items()} for classes in last_hops(topology, receiver)]
        degree, left = len(topology.ports(receiver)), sum(sum(each.values()) for each in counts)
        for phase, each in enumerate(counts):
            if phase == len(loads):
                loads.append(Fraction(0))
                remaining.append(Fraction(0))
            loads[phase] = max(loads[phase], least_load(frozenset(each.items())))
            remaining[phase] = max(remaining[phase], Fraction(left, degree))
            left -= sum(each.values())
    return Phases(tuple(loads), tuple(remaining))


@lru_cache(maxsize=1 << 16)
def least_load(classes: frozenset[tuple[int, int]]) -> Fraction:
    """Return the least load of the busiest port, for blocks as (mask, count).

    Each block can be split over the ports of its mask. By Hall's condition the load is the maximum over sets W of ports
    of the number of blocks that can only come over W, per port of W.
    """
    if not classes:
        return Fraction(0)
    if even := _evenly(classes):
        return even
    ports = [
        port for port in range(max(mask for mask, _ in classes).bit_length()) if any(m >> port & 1 for m, _ in classes)
    ]
    return _over_all_sets(classes, ports) if len(ports) <= SUBSET_LIMIT else _by_cuts(classes, ports)


def _evenly(classes: frozenset[tuple[int, int]]) -> Fraction | None:
    """Return the load if every block is split evenly over its ports.

    None unless that loads all ports alike. Then the load is optimal.
    """
    shares: dict[Port, Fraction] = {}
    for mask, count in classes:
        share = Fraction(count, mask.bit_count())
        for port in ports_of(mask):
            shares[port] = shares.get(port, Fraction(0)) + share
    loads = set(shares.values())
    return loads.pop() if len(loads) == 1 else None


def _over_all_sets(classes: frozenset[tuple[int, int]], ports: Sequence[Port]) -> Fraction:
    """Count the blocks within every set of ports by summing over subsets, one port after the other."""
    place = {port: index for index, port in enumerate(ports)}
    within = [0] * (1 << len(ports))
    for mask, count in classes:
        within[sum(1 << place[port] for port in ports_of(mask))] += count
    for index in range(len(ports)):
        bit = 1 << index
        for subset in range(len(within)):
            if subset & bit:
                within[subset] += within[subset ^ bit]
    return max(Fraction(count, subset.bit_count()) for subset, count in enumerate(within) if subset)


def _by_cuts(classes: frozenset[tuple[int, int]], ports: Sequence[Port]) -> Fraction:
    """Return the busiest load by Dinkelbach's iteration.

    A minimum cut names ports that are loaded more than assumed, until there are none.
    """
    import networkx as nx  # noqa: PLC0415  # slow to import, and needed for large irregular networks only

    load = Fraction(sum(count for _, count in classes), len(ports))
    while True:
        network = nx.DiGraph()
        for mask, count in classes:
            # Capacities are multiplied by the denominator, so that they are whole numbers.
            network.add_edge("source", (mask,), capacity=count * load.denominator)
            for port in ports_of(mask):
                network.add_edge((mask,), port)
        for port in ports:
            network.add_edge(port, "sink", capacity=load.numerator)
        _, (near, _) = nx.minimum_cut(network, "source", "sink")
        tight = [port for port in ports if port in near]
        if not tight:
            return load
        confined = sum(count for mask, count in classes if (mask,) in near)
        if Fraction(confined, len(tight)) <= load:
            return load
        load = Fraction(confined, len(tight))


# --- whole chunks ----------------------------------------------------------------------------------------------------


def share_out(classes: LastHops, chunks: int) -> dict[Port, list[tuple[Rank, int]]]:
    """Return the (origin, chunk) that arrive over each port.

    The busiest port is as little loaded as possible.
    """
    amounts = {mask: dict.fromkeys(ports_of(mask), 0) for mask in classes}
    loads = {port: 0 for mask in classes for port in ports_of(mask)}
    for mask, ranks in classes.items():
        ports = ports_of(mask)
        each, rest = divmod(len(ranks) * chunks, len(ports))
        for place, port in enumerate(sorted(ports, key=lambda port: (loads[port], port))):
            amounts[mask][port] = each + (place < rest)
        for port in ports:
            loads[port] += amounts[mask][port]
    while loads and _relieve(amounts, loads):
        pass
    dealt: dict[Port, list[tuple[Rank, int]]] = {port: [] for port in sorted(loads)}
    for mask, ranks in classes.items():
        items = iter([(rank, chunk) for rank in ranks for chunk in range(chunks)])
        for port, amount in amounts[mask].items():
            dealt[port] += [next(items) for _ in range(amount)]
    return dealt


def _relieve(amounts: Mapping[int, dict[Port, int]], loads: dict[Port, int]) -> bool:
    """Move chunks away from a busiest port, over others if need be.

    Returns False if its load is the least possible.
    """
    busiest = max(loads, key=lambda port: (loads[port], -port))
    # Breadth-first over ports: chunks of class `mask` can move from `port` to any other port of the class.
    came: dict[Port, tuple[Port, int]] = {busiest: (busiest, 0)}
    queue = [busiest]
    for port in queue:
        if loads[port] <= loads[busiest] - 2:
            _move(amounts, loads, came, port)
            return True
        for mask, amount in amounts.items():
            if amount.get(port):
                for other in amount:
                    if other not in came:
                        came[other] = (port, mask)
                        queue.append(other)
    # All ports that can take over chunks are as full, within one: Hall's condition is met with equality.
    return False


def _move(
    amounts: Mapping[int, dict[Port, int]], loads: dict[Port, int], came: Mapping[Port, tuple[Port, int]], end: Port
) -> None:
    """Move as many chunks as possible along the path to `end` without making `end` the fuller port."""
    path = []
    here = end
    while came[here][0] != here:
        before, mask = came[here]
        path.append((before, here, mask))
        here = before
    count = min((loads[here] - loads[end]) // 2, *(amounts[mask][before] for before, _, mask in path))
    for before, after, mask in path:
        amounts[mask][before] -= count
        amounts[mask][after] += count
    loads[here] -= count
    loads[end] += count


@lru_cache(maxsize=1 << 16)
def ports_of(mask: int) -> tuple[Port, ...]:
    """Return the ports in a mask, ascending."""
    return tuple(port for port in range(mask.bit_length()) if mask >> port & 1)
