"""Cuts of a network: how few links join a set of nodes to the rest.

Whatever has to cross a cut shares its links, so every cut gives a valid lower bound; a better cut gives a better one. For
up to `EXACT_NODES` nodes all cuts are tried. In larger networks the nodes are put into some orders, and each order is
cut after every node. Some families have a closed form.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

from emunode.model import Rank
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.lattices import Complete, RingNetwork, Torus
from emunode.topologies.words import FoldedHypercube

EXACT_NODES: Final = 16
"""Up to this many nodes all cuts are tried: 2^15 sets in about a tenth of a second."""
SEARCHED_ENDS: Final = 1 << 17
"""The most link ends of a network whose orders are searched: a second."""
NAMED_NODES: Final = 8
"""Most nodes that the name of a cut lists."""


class Cut(NamedTuple):
    """A set of nodes and the rest."""

    inside: int
    """Nodes of the set that own data."""
    outside: int
    """Other nodes that own data."""
    links: int
    name: str


def smallest_cuts(topology: Topology) -> list[Cut]:
    """Return for every number of data nodes on one side the cut with the fewest links that was found."""
    best: dict[int, Cut] = {}
    for cut in _cuts(topology):
        known = best.get(cut.inside)
        if known is None or cut.links < known.links:
            best[cut.inside] = cut
    return [best[inside] for inside in sorted(best)]


def _cuts(topology: Topology) -> Iterator[Cut]:
    closed = closed_form(topology)
    if closed is not None:
        yield closed
    if topology.order <= EXACT_NODES:
        yield from _all_cuts(topology)
    elif topology.order * topology.degree <= SEARCHED_ENDS:
        yield from _cuts_of_orders(topology)


class PairCut(NamedTuple):
    """A set of nodes, and the messages of given pairs that cross its border."""

    outwards: int
    inwards: int
    links: int
    name: str

    def demand(self, *, half_duplex: bool) -> int:
        """Return the messages that share the links in one direction, or half-duplex in both directions."""
        return self.outwards + self.inwards if half_duplex else max(self.outwards, self.inwards)


def busiest_cut(topology: Topology, pairs: Sequence[tuple[Rank, Rank]], *, half_duplex: bool) -> PairCut | None:
    """Return the searched cut with the most messages per link.

    Every rank may be the origin and the target of one message at most. None for networks whose cuts are not searched.
    """
    best: PairCut | None = None
    for cut in _cuts_of_pairs(topology, dict(pairs)):
        demand = cut.demand(half_duplex=half_duplex)
        # Messages per link, multiplied out: no division, and no rounding between equal cuts.
        if best is None or demand * best.links > best.demand(half_duplex=half_duplex) * cut.links:
            best = cut
    return best


def _cuts_of_pairs(topology: Topology, targets: Mapping[Rank, Rank]) -> Iterator[PairCut]:
    origins = {target: origin for origin, target in targets.items()}
    for form, changes in _walks(topology):
        inside: set[Rank] = set()
        links = outwards = inwards = 0
        for rank in changes:
            sign = -1 if rank in inside else 1
            inside.discard(rank)
            # Counted without `rank`: it adds the same number when it enters the set as it takes along when it leaves.
            links += sign * sum(-1 if peer in inside else 1 for _, peer in topology.adjacent(rank))
            target, origin = targets.get(rank), origins.get(rank)
            # The message that `rank` sends. If its target is inside, the message no longer crosses the border inwards
            # once `rank` is inside too; if its target is outside, the message crosses outwards from now on. A rank that
            # leaves reverses both.
            if target is not None:
                inwards, outwards = (inwards - sign, outwards) if target in inside else (inwards, outwards + sign)
            if origin is not None:
                inwards, outwards = (inwards, outwards - sign) if origin in inside else (inwards + sign, outwards)
            if sign > 0:
                inside.add(rank)
            if 0 < len(inside) < topology.order:
                name = form.format(len(inside)) if form else _named(topology, list(inside))
                yield PairCut(outwards, inwards, links, f"{name}, {links} links")


def _walks(topology: Topology) -> Iterator[tuple[str, Iterable[Rank]]]:
    """Yield sequences of nodes that change sides, beginning with the empty set, and the form of the names of the sets."""
    if topology.order <= EXACT_NODES:
        # A Gray code, over all sets without the last rank: the other sets are complements of these, with the same
        # border.
        yield "", ((code & -code).bit_length() - 1 for code in range(1, 1 << topology.order - 1))
    elif topology.order * topology.degree <= SEARCHED_ENDS:
        yield from _orders(topology).items()


def closed_form(topology: Topology) -> Cut | None:
    """Return the bisection of a network, if it is known for its family.

    None for other families, and for tori whose longest side is odd.
    """
    order, links = topology.order, 0
    match topology:
        case Hypercube():
            links = order // 2
        case FoldedHypercube():
            # Half the links of one dimension, and all complements: every one of them changes that bit.
            links = order
        case Complete() if order % 2 == 0:
            # Every node of one half has a link to every node of the other.
            links = (order // 2) ** 2
        case RingNetwork() if order % 2 == 0:
            links = 2
        case Torus():
            largest = max(map(int, topology.name.partition(":")[2].split("x")))
            # Two hyperplanes between the halves of the longest rings; a ring of two nodes has a single link.
            links = 0 if largest % 2 else order // largest * (1 if largest == 2 else 2)
    return Cut(order // 2, order // 2, links, f"halves of {topology.title}, {links} links") if links else None


def _all_cuts(topology: Topology) -> Iterator[Cut]:
    """Yield the best cut for every number of data nodes inside.

    All sets without the last rank are tried, and stand for their complements too.
    """
    order = topology.order
    neighbours = [sum(1 << peer for _, peer in topology.adjacent(rank)) for rank in topology.ranks()]
    data = sum(1 << rank for rank in topology.data_ranks)
    total = data.bit_count()
    links, members = 0, 0
    best: dict[int, tuple[int, int]] = {}
    for code in range(1, 1 << order - 1):
        # A Gray code: one node changes sides at a time, and only its own links have to be looked at.
        changed = (code & -code).bit_length() - 1
        inside = (neighbours[changed] & members).bit_count()
        others = neighbours[changed].bit_count() - inside
        # Links to the side that the node leaves join the border, and links to the side that it enters drop out of it.
        links += inside - others if members >> changed & 1 else others - inside
        members ^= 1 << changed
        count = (members & data).bit_count()
        if count not in best or links < best[count][0]:
            best[count] = links, members
    for count, (least, members) in best.items():
        ranks = [rank for rank in topology.ranks() if members >> rank & 1]
        if 0 < count < total:
            name = f"{_named(topology, ranks)}, {least} links"
            yield Cut(count, total - count, least, name)
            yield Cut(total - count, count, least, name)


def _cuts_of_orders(topology: Topology) -> Iterator[Cut]:
    """Yield the cuts behind every node of some orders: by rank, by distance from a node, and grown along few new links."""
    total = len(topology.data_ranks)
    for form, order in _orders(topology).items():
        place = {rank: index for index, rank in enumerate(order)}
        links = count = 0
        for index, rank in enumerate(order[:-1]):
            for _, peer in topology.adjacent(rank):
                # A link to a peer that is still outside joins the border. A link to an earlier peer joined the border
                # when that peer entered, and drops out now.
                links += 1 if place[peer] > index else -1
            count += not topology.is_switch(rank)
            if 0 < count < total:
                name = f"{form.format(index + 1)}, {links} links"
                # Bounds ask for the nodes on one side, and either side may be the one.
                yield Cut(count, total - count, links, name)
                yield Cut(total - count, count, links, name)


def _orders(topology: Topology) -> dict[str, list[Rank]]:
    """Return the orders of the nodes, by the form of the names of their beginnings."""
    # Ranks of most families count through blocks of their recursive structure, so a beginning of that order has few
    # links to the rest. The other orders follow the links alone, for networks whose ranks mean nothing, such as a
    # network from a file.
    far = max(topology.ranks(), key=topology.distances_from(0).__getitem__)
    return {
        "the first {} nodes": list(topology.ranks()),
        f"the {{}} nodes nearest to {topology.label(far)}": _by_distance(topology, far),
        f"{{}} nodes grown from {topology.label(0)}": _grown(topology, 0),
        f"{{}} nodes grown from {topology.label(far)}": _grown(topology, far),
    }


def _by_distance(topology: Topology, root: Rank) -> list[Rank]:
    distances = topology.distances_from(root)
    return sorted(topology.ranks(), key=distances.__getitem__)


def _grown(topology: Topology, root: Rank) -> list[Rank]:
    """Return all nodes from `root` on, next always the node that adds the fewest links to the border.

    A node adds its links to nodes outside, and takes off its links to nodes inside.
    """
    outside = {rank: len(topology.ports(rank)) for rank in topology.ranks()}
    # The heap is not updated when the key of a node changes: keys only decrease, so the newest entry of a node comes
    # first, and later entries are skipped.
    queue, order, taken = [(0, root)], list[Rank](), set[Rank]()
    while queue:
        _, rank = heappop(queue)
        if rank in taken:
            continue
        taken.add(rank)
        order.append(rank)
        for _, peer in topology.adjacent(rank):
            # One link of the peer changes from outside to inside: one less outside, and one more to subtract.
            outside[peer] -= 2
            if peer not in taken:
                heappush(queue, (outside[peer], peer))
    return order


def _named(topology: Topology, ranks: list[Rank]) -> str:
    """Describe the smaller side of a cut in words."""
    inside = set(ranks)
    if 2 * len(ranks) > topology.order:
        inside = set(topology.ranks()) - inside
    labels = [topology.label(rank) for rank in sorted(inside)]
    more = f" and {len(labels) - NAMED_NODES} more" if len(labels) > NAMED_NODES else ""
    return f"nodes {', '.join(labels[:NAMED_NODES])}{more}" if len(labels) > 1 else f"node {labels[0]}"
