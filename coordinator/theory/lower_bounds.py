"""Lower bounds for every network and collective, whatever the algorithm: distances, degrees, cuts and sums of distances.

All bounds have one form. Something must cross a bottleneck: `demand` units for every segment of a message. At most
`lanes` packets cross per step, and none before step `delay` + 1. With p segments, and at most c of them in a packet, a
run takes at least

    delay + ceil(p demand / (c lanes))

steps. Where packets are not bounded, it takes at least delay + 1 steps. If a message has B bytes, the heaviest packets
of all steps together have at least ceil(B demand / lanes) bytes.

Nothing is assumed about routes, trees or schedules. Only coding is excluded: one segment carries one segment. Where each
message is sent in x copies, every copy passes every bottleneck by a way of its own. So p counts the segments of all
copies.

The bounds on steps and transmissions bind algorithms that cut messages into as many segments and fill packets in the
same way. `Claim.bound` is what is left of them for any cut and any packets: there p counts messages, and c is unbounded.
It binds all algorithms.

Backwards in time, a reduce is a broadcast, a gather is a scatter, and a reduce-scatter is an allgather. They have the
same steps and transmissions.

Between two sets of nodes at most one packet crosses each link per step and direction. Over half-duplex links it is one
packet for both directions together. With one port, a node sends at most one packet and receives at most one in a step.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from coordinator.theory.cuts import Cut, busiest_cut, smallest_cuts
from emunode.algorithms.claims import ONE_SEGMENT, Claim
from emunode.model import Collective, Duplex, EvenParts, PortModel, Rank
from emunode.topologies.base import SEARCH_LIMIT, Topology, VertexTransitiveTopology

GENERAL: Final = "lower bound of every algorithm"
"""How the sources of these claims begin."""
ENUMERATED_ENDS: Final = 1 << 17
"""The most link ends of a network whose links between the levels of a root are counted: a few tenths of a second."""
SEARCHED_ROOTS: Final = 1 << 21
"""The largest order x link ends where the levels of every root are counted: a second."""
FROM_ROOT: Final = (Collective.BROADCAST, Collective.SCATTER, Collective.GATHER, Collective.REDUCE)
WHOLE: Final = (Collective.BROADCAST, Collective.REDUCE, Collective.ALLREDUCE)
"""Collectives with a message to all nodes, or from all nodes, at any distance."""


class RequiredTraffic(NamedTuple):
    """The data that a run has to move."""

    collective: Collective
    source: Rank
    segments: int
    """Different segments from an origin to a target, or to all ranks. All copies are counted."""
    size: int
    """Their bytes."""
    port_model: PortModel = PortModel.ALL_PORT
    duplex: Duplex = Duplex.FULL
    capacity: int | None = None
    """Most segments in a packet; None: any number."""
    blocks: int = 1
    """How many results an allreduce has, each of `segments` segments."""
    pairs: tuple[tuple[Rank, Rank], ...] = ()
    """In a unicast: every origin with its target."""
    cut: int = 1
    """The number of segments of each message."""
    copies: int = 1
    """The copies of each message."""
    element_bytes: int = 1
    """Bytes that are never cut apart."""

    @property
    def uncut(self) -> "RequiredTraffic":
        """The same data in one segment for each message, in packets of any size."""
        blocks = self.blocks
        return self._replace(
            segments=self.segments // self.cut, size=self.size * blocks, capacity=None, blocks=1, cut=1
        )

    @property
    def cuts(self) -> list[str]:
        """How messages are cut, in words.

        Empty if they are not cut at all.
        """
        whole = self.blocks == 1
        words = [] if whole else [f"{self.blocks} blocks of a vector"]
        return words + ([f"{self.cut} segments of a {'message' if whole else 'block'}"] if self.cut > 1 else [])

    @property
    def packets(self) -> list[str]:
        """How packets are filled, in words.

        Empty if they hold any number of segments.
        """
        match self.capacity:
            case None:
                return []
            case 1:
                return [ONE_SEGMENT]
        return [f"packets of at most {self.capacity} segments"]

    def every_algorithm(self, conditions: Sequence[str]) -> str:
        """Return in words the algorithms that a bound binds.

        They have the ports and the copies of this traffic.
        """
        half = ["half duplex"] if self.duplex is Duplex.HALF else []
        ports = [] if self.port_model is PortModel.ALL_PORT else [str(self.port_model)]
        model = f" ({', '.join(ports + half)})" if ports or half else ""
        conditions = [*conditions, *([f"{self.copies} copies of a message"] if self.copies > 1 else [])]
        return f"{GENERAL}{model}{' for ' if conditions else ''}{' and '.join(conditions)}"


class Bottleneck(NamedTuple):
    """A bottleneck that `demand` units per segment have to pass; `reason` describes it."""

    delay: int
    demand: int
    lanes: int
    reason: str

    def steps(self, traffic: RequiredTraffic) -> int:
        """Return the fewest steps."""
        if traffic.capacity is None:
            return self.delay + 1
        # Rounded up: a step that is not full is a whole step.
        return self.delay + -(-traffic.segments * self.demand // (traffic.capacity * self.lanes))

    def transfer(self, traffic: RequiredTraffic) -> int:
        """Return the fewest bytes of the heaviest packets of all steps.

        A step with x elements on its fullest link counts as x steps with packets of one element. `delay` delays these
        too.
        """
        unit = traffic.element_bytes
        return self.delay * unit + EvenParts(traffic.size // unit * self.demand, self.lanes, unit).longest


class DistanceLevel(NamedTuple):
    """The nodes at one distance from a root."""

    nodes: int
    """The nodes that own data."""
    links: int
    """Links to the level before; an upper bound where the network is too large to count them."""
    least_degree: int
    """The fewest links of one of its data nodes."""


class Distances:
    """The distances of a network, as far as a second is enough to know them."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.nodes = len(topology.data_ranks)
        self.symmetric = isinstance(topology, VertexTransitiveTopology)
        self._counted = topology.order * topology.degree <= ENUMERATED_ENDS

    @cached_property
    def roots(self) -> Sequence[Rank]:
        """Data ranks whose levels stand for the levels of all.

        Empty where there are too many to look at.
        """
        if self.symmetric:
            return (0,)
        ends = 2 * self.topology.link_count
        return self.topology.data_ranks if self.topology.order * ends <= SEARCHED_ROOTS else ()

    @cached_property
    def diameter(self) -> int:
        """The largest distance between data nodes, or a lower bound."""
        return max((len(self.levels(root)) for root in self.roots), default=1) - 1

    @cached_property
    def total(self) -> int:
        """The sum of distances over all ordered pairs of data nodes, or a lower bound."""
        if not self.roots:
            # Neighbours are at distance 1, all others at 2 or more.
            ends = 2 * self.topology.link_count
            return max(self.nodes * (self.nodes - 1), 2 * self.nodes * (self.nodes - 1) - ends)
        sums = sum(self.sum_from(root) for root in self.roots)
        # In a vertex-transitive network every node has the sum of the one root; otherwise the roots are all nodes.
        return sums * self.nodes // len(self.roots)

    def sum_from(self, root: Rank) -> int:
        """Return the sum of the distances of all data nodes from `root`."""
        return sum(distance * level.nodes for distance, level in enumerate(self.levels(root)))

    @cached_property
    def cuts(self) -> list[Cut]:
        """The smallest cuts that are known."""
        return smallest_cuts(self.topology)

    def between(self, one: Rank, other: Rank) -> int:
        """Return the distance of two nodes, or a lower bound."""
        if self.topology.has_distance_formula or self._counted:
            return self.topology.distance(one, other)
        # Without a formula, and in a network too large to search, different nodes are at distance 1 at least.
        return int(one != other)

    def levels(self, root: Rank) -> tuple[DistanceLevel, ...]:
        """Return the levels of a root up to the farthest data node."""
        # Every root of a vertex-transitive network has the levels of rank 0.
        return self._levels(0 if self.symmetric else root)

    @cached_property
    def _levels(self) -> Callable[[Rank], tuple[DistanceLevel, ...]]:
        return lru_cache(1 << 12)(self._count if self._counted else self._estimate)

    def _count(self, root: Rank) -> tuple[DistanceLevel, ...]:
        topology = self.topology
        distances = topology.distances_from(root)
        nodes, links = Counter[int](), Counter[int]()
        degrees: dict[int, int] = {}
        for rank in topology.ranks():
            distance = distances[rank]
            before = degree = 0
            for _, peer in topology.adjacent(rank):
                degree += 1
                # Whatever reaches this level, or passes it, crosses one of these links.
                before += distances[peer] < distance
            links[distance] += before
            if not topology.is_switch(rank):
                nodes[distance] += 1
                degrees[distance] = min(degree, degrees.get(distance, degree))
        return tuple(DistanceLevel(nodes[at], links[at], degrees.get(at, 0)) for at in range(max(nodes) + 1))

    def _estimate(self, root: Rank) -> tuple[DistanceLevel, ...]:
        """Estimate the levels of a network too large to look at all links.

        Each level gets as many links to the level before as the two could have.
        """
        topology, degree = self.topology, self.topology.degree
        if self.nodes < topology.order or not (self.symmetric or topology.order <= SEARCH_LIMIT):
            return (DistanceLevel(1, 0, degree), DistanceLevel(self.nodes - 1, degree, degree))
        counts = topology.distribution_from(root)
        # No level has more links to the next than all ports of the smaller one. Too many links make a bound weaker,
        # never wrong.
        joined = (min(pair) * degree for pair in pairwise(counts))
        return (DistanceLevel(1, 0, degree), *map(DistanceLevel, counts[1:], joined, [degree] * (len(counts) - 1)))


@lru_cache(8)
def distances_of(topology: Topology) -> Distances:
    """Return the distances of a network, kept for the latest networks."""
    return Distances(topology)


@lru_cache(8)
def lower_bounds(topology: Topology, traffic: RequiredTraffic) -> tuple[Claim, ...]:
    """Return the best known lower bounds for a run, as claims.

    The claims are about steps, transmissions, start-ups and bytes. There are none where nothing is known of the
    collective or the network. Results are kept for the latest networks only, because each network keeps tables.
    """
    known = distances_of(topology)
    if known.nodes < 2 or not (units := transmissions(known, traffic)):
        return ()
    bottlenecks, uncut = list(_bottlenecks(known, traffic)), traffic.uncut
    # Every bottleneck gives a valid bound, so the largest is the best. Different bottlenecks may be the worst for
    # steps, start-ups and bytes.
    slowest = max(bottlenecks, key=lambda each: each.steps(traffic))
    latest = max(bottlenecks, key=lambda each: each.delay)
    heaviest = max(bottlenecks, key=lambda each: each.transfer(traffic))
    least, moved = uncut.segments * transmissions(known, uncut), _moved(traffic.collective)
    claims = [
        _claim(
            traffic, "steps", slowest.steps(traffic), slowest.reason, latest.delay + 1, traffic.packets + traffic.cuts
        ),
        _claim(traffic, "segments", traffic.segments * units, moved, least, traffic.cuts),
        _claim(traffic, "startups", latest.delay + 1, latest.reason),
        _claim(traffic, "transfer_bytes", heaviest.transfer(traffic), heaviest.reason),
    ]
    return tuple(claims)


def least_seconds(bounds: Iterable[Claim], startup: float, per_byte: float) -> Iterator[Claim]:
    """Yield the bound on virtual time.

    It follows from the bounds on start-ups and bytes, if both are known.
    """
    by_name = {claim.name: claim for claim in bounds}
    if {"startups", "transfer_bytes"} <= by_name.keys():
        startups, transferred = by_name["startups"], by_name["transfer_bytes"]
        seconds = startup * _number(startups) + per_byte * _number(transferred)
        source = f"{transferred.source}; start-ups: {startups.proof}"
        yield replace(transferred, name="virtual_seconds", predicted=seconds, source=source)


def _claim(
    traffic: RequiredTraffic,
    metric: str,
    value: int,
    reason: str,
    unconditional: int | None = None,
    conditions: Sequence[str] = (),
) -> Claim:
    """Return a bound as a claim.

    The claim also has what is left of the bound without the conditions on segments and packets.
    """
    bare = unconditional is None or unconditional == value
    source = f"{traffic.every_algorithm(() if bare else conditions)}: {reason}"
    if bare:
        return Claim(metric, value, ">=", source, proof=reason)
    condition = " and ".join(conditions)
    return Claim(metric, value, ">=", source, proof=reason, condition=condition, unconditional=unconditional)


def strongest(claims: Iterable[Claim], general: Iterable[Claim]) -> list[Claim]:
    """Return the claims of an algorithm with the general bounds, without weaker ones.

    Of the proven bounds of the algorithm on a metric, the largest stays if it is at least the general one; of equal ones
    the first stays. A lower end of a range stays if it exceeds both. A general bound stays unless the algorithm states
    an equal one.
    """
    claims, bounds = list(claims), {bound.name: bound for bound in general}
    best: dict[str, Claim] = {}
    for claim in claims:
        if claim.relation == ">=" and claim.proof and _number(claim) >= _number(bounds.get(claim.name)):
            best[claim.name] = max(best.get(claim.name, claim), claim, key=_number)
    equal = {name for name, claim in best.items() if name in bounds and _number(claim) == _number(bounds[name])}
    kept = []
    for claim in claims:
        of_any = best.get(claim.name, bounds.get(claim.name))
        if claim is of_any and claim.name in equal:
            # The general proof may bind more algorithms.
            general_one = bounds.pop(claim.name)
            kept.append(replace(claim, condition=general_one.condition, unconditional=general_one.unconditional))
        elif (
            claim.relation != ">=" or of_any in (None, claim) or (not claim.proof and _number(claim) > _number(of_any))
        ):
            kept.append(claim)
    return [*kept, *bounds.values()]


def _number(claim: Claim | None) -> float:
    predicted = 0.0 if claim is None else claim.predicted
    assert not isinstance(predicted, tuple)
    return predicted


def transmissions(known: Distances, traffic: RequiredTraffic) -> int:
    """Return the fewest transmissions of the segments with one number.

    All origins and targets are taken together. 0 if nothing is known.
    """
    nodes = known.nodes
    match traffic.collective:
        case Collective.BROADCAST | Collective.REDUCE:
            # Every other node receives the segment, each over a transmission of its own.
            return nodes - 1
        case Collective.SCATTER | Collective.GATHER:
            # A segment for one node crosses at least as many links as the node is away, and shares no transmission with
            # segments for others.
            return known.sum_from(traffic.source)
        case Collective.ALLGATHER | Collective.REDUCE_SCATTER:
            # Each node receives the segment of every other one.
            return nodes * (nodes - 1)
        case Collective.ALLREDUCE:
            # The first complete result needs a transmission of every other node; then those need one each.
            return 2 * traffic.blocks * (nodes - 1)
        case Collective.ALLTOALL:
            return known.total
        case Collective.UNICAST | Collective.MESSAGES:
            # Of the messages of a file only the file knows the pairs.
            return sum(known.between(*pair) for pair in traffic.pairs)


def _moved(collective: Collective) -> str:
    match collective:
        case Collective.BROADCAST:
            return "every other node receives every segment"
        case Collective.REDUCE:
            return "every other node sends every segment"
        case Collective.ALLGATHER:
            return "every node receives every segment of all others"
        case Collective.REDUCE_SCATTER:
            return "every node sends every segment for all others"
        case Collective.ALLREDUCE:
            return "every other node sends every segment once, and receives it once"
    return "every segment travels at least its distance"


def inverse_rate(topology: Topology) -> Fraction:
    """Return the largest |X| / e(X) of the known cuts.

    That is the fewest block times of an allgather, or the best known lower bound of it.
    """
    known = distances_of(topology)
    if known.symmetric:
        # In a vertex-transitive network a single node is the tightest cut (Mader 1971).
        return Fraction(known.nodes - 1, topology.degree)
    cuts = [Fraction(cut.inside, cut.links) for cut in known.cuts]
    # Everything but its own block has to reach a node over its links, so each node is a cut as well.
    nodes = [Fraction(known.nodes - 1, known.levels(root)[0].least_degree) for root in known.roots]
    return max([*cuts, *nodes])


# --- bottlenecks -----------------------------------------------------------------------------------------------------


def _bottlenecks(known: Distances, traffic: RequiredTraffic) -> Iterator[Bottleneck]:
    one_port = traffic.port_model is not PortModel.ALL_PORT
    units = transmissions(known, traffic)
    # The network as a whole is a bottleneck too: all transmissions have to fit into the packets of the steps.
    lanes = _packets_per_step(known.topology, traffic)
    yield Bottleneck(0, units, lanes, f"{units} transmissions, at most {lanes} packets per step")
    if traffic.collective is Collective.UNICAST:
        yield from _of_pairs(known, traffic, one_port=one_port)
        return
    if one_port:
        # The smallest r with 2^r >= N, in whole numbers.
        rounds = (known.nodes - 1).bit_length()
        reason = f"nodes that know of one origin at most double in a step: ceil(log2 {known.nodes})"
        yield Bottleneck(rounds - 1, 1, 1, reason)
    roots = (traffic.source,) if traffic.collective in FROM_ROOT else known.roots
    for root in roots:
        yield from _of_root(known, traffic, root, one_port=one_port)
    # In a vertex-transitive network no cut has fewer links than a single node (Mader 1971): only alltoall can gain by
    # larger cuts, since more crosses them.
    if not one_port and (traffic.collective is Collective.ALLTOALL or not known.symmetric):
        yield from _of_cuts(known, traffic)


def _of_root(known: Distances, traffic: RequiredTraffic, root: Rank, *, one_port: bool) -> Iterator[Bottleneck]:
    """Yield the bottlenecks around a root.

    What goes to or comes from the nodes at distance 1, 2, .. and more must reach the root, or leave it.
    """
    label, levels = known.topology.label(root), known.levels(root)
    beyond = known.nodes
    whole = traffic.collective in WHOLE
    for distance, level in enumerate(levels):
        if distance:
            where = f"{beyond} {'node' if beyond == 1 else 'nodes'} at distance {distance}"
            where += "" if distance == len(levels) - 1 else " or more"
            # One copy of a message is enough for all nodes behind a level; data of their own crosses once for each
            # node.
            demand = traffic.blocks if whole else beyond
            if one_port:
                yield Bottleneck(distance - 1, demand, 1, f"{where} from {label}, which has one port")
            else:
                yield Bottleneck(distance - 1, demand, level.links, f"{where} from {label} behind {level.links} links")
        beyond -= level.nodes
        # Every node of the level has to take all segments in, or give them out, over its own links, so the node with
        # the fewest links is the slowest.
        if whole and level.least_degree and not one_port and distance:
            degree = level.least_degree
            yield Bottleneck(distance - 1, 1, degree, f"a node at distance {distance} from {label} with {degree} links")


def _of_pairs(known: Distances, traffic: RequiredTraffic, *, one_port: bool) -> Iterator[Bottleneck]:
    """Yield the bottlenecks of a unicast.

    One bottleneck is the farthest pair: its message leaves by the links of its origin, and passes the links between each
    two distances from its target. The other is the busiest cut, which all messages share.
    """
    topology = known.topology
    origin, target = max(traffic.pairs, key=lambda pair: known.between(*pair))
    distance = known.between(origin, target)
    reason = f"{topology.label(target)} is at distance {distance} from {topology.label(origin)}"
    # Each level around the target, up to the distance of the origin, separates the two.
    behind = [level.links for level in known.levels(target)[1 : distance + 1]]
    lanes = 1 if one_port else min([len(topology.ports(origin)), *behind])
    yield Bottleneck(distance - 1, 1, lanes, f"{reason}, over {lanes} {'link' if lanes == 1 else 'links'}")
    half_duplex = traffic.duplex is Duplex.HALF
    cut = busiest_cut(topology, traffic.pairs, half_duplex=half_duplex) if len(traffic.pairs) > 1 else None
    if cut is not None and (demand := cut.demand(half_duplex=half_duplex)):
        yield Bottleneck(0, demand, cut.links, f"{demand} messages over the cut {cut.name}")


def _of_cuts(known: Distances, traffic: RequiredTraffic) -> Iterator[Bottleneck]:
    # Over half-duplex links the traffic in both directions adds up; otherwise the cut that has the sides exchanged
    # gives the bound of the other direction.
    both = 2 if traffic.duplex is Duplex.HALF else 1
    for cut in known.cuts:
        match traffic.collective:
            case Collective.ALLTOALL:
                demand = both * cut.inside * cut.outside
            case Collective.ALLGATHER | Collective.REDUCE_SCATTER:
                demand = known.nodes if both == 2 else cut.inside
            case Collective.ALLREDUCE:
                demand = both * traffic.blocks
            case Collective.BROADCAST | Collective.REDUCE:
                demand = 1
            case _:
                continue
        yield Bottleneck(0, demand, cut.links, f"the cut {cut.name}")


def _packets_per_step(topology: Topology, traffic: RequiredTraffic) -> int:
    """Return the most packets in one step."""
    half = traffic.duplex is Duplex.HALF
    match traffic.port_model:
        case PortModel.ALL_PORT:
            # Every link carries one packet in each of the directions that it can use at once.
            return topology.link_count * (1 if half else 2)
        case PortModel.SEND_OR_RECEIVE:
            # A packet occupies two nodes, its sender and its receiver.
            return topology.order // 2
        case PortModel.EXCHANGE if half:
            return topology.order // 2
    return topology.order
