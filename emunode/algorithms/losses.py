"""What a fixed schedule loses to nodes and links that are out of service: worked out from trees and routes, without a run.

An *outage* says in which steps a node neither sends nor receives, or a directed link carries nothing. A packet that should
cross a link in such a step is lost, and everything that would have followed it downstream is never sent. Because nothing
is resent and nobody waits, all other packets keep their steps. So a copy arrives exactly if none of its hops is blocked,
and the schedule alone determines which messages are lost, and to which outage.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import NamedTuple, Protocol

from emunode.model import Port, Rank, Step

Interval = tuple[Step, Step]
"""First and last step, both included."""
Place = tuple[Rank, Port | None]
"""What is out of service: a rank, or the direction of a link by which a rank sends on a port."""
FOREVER: Step = 2**31 - 1


@dataclass(frozen=True)
class Outages:
    """What is out of service, and when."""

    nodes: Mapping[Rank, Sequence[Interval]] = field(default_factory=dict)
    links: Mapping[tuple[Rank, Port], Sequence[Interval]] = field(default_factory=dict)
    faulty: frozenset[Rank] = frozenset()
    """Ranks that have a fault of their own at any time: nothing is due to them."""
    names: Mapping[Place, Place] = field(default_factory=dict)
    """Where places were renamed: their names before."""

    @classmethod
    def of_crashes(cls, crashed: Mapping[Rank, Step]) -> "Outages":
        """Ranks that crash at the beginning of the given steps."""
        return cls({rank: [(step, FOREVER)] for rank, step in crashed.items()}, {}, frozenset(crashed))

    @property
    def permanent(self) -> bool:
        """Whether everything that is out of service is so in every step."""
        every = [*self.nodes.values(), *self.links.values()]
        return all(any(first <= 1 and last >= FOREVER for first, last in intervals) for intervals in every)

    def always(self) -> "Outages":
        """The same places, out of service in every step."""
        whole = [(1, FOREVER)]
        return Outages(dict.fromkeys(self.nodes, whole), dict.fromkeys(self.links, whole), self.faulty)

    def renamed(
        self, rank: Callable[[Rank], Rank], link: Callable[[Rank, Port], tuple[Rank, Port] | None] | None = None
    ) -> "Outages":
        """The same outages under other names of ranks and links; a link that is renamed to None is left out."""
        rename = link or (lambda sender, port: (rank(sender), port))
        nodes = {each: rank(each) for each in self.nodes}
        links = {each: named for each in self.links if (named := rename(*each)) is not None}
        return Outages(
            {named: self.nodes[each] for each, named in nodes.items()},
            {named: self.links[each] for each, named in links.items()},
            frozenset(map(rank, self.faulty)),
            {(named, None): (each, None) for each, named in nodes.items()}
            | {named: each for each, named in links.items()},
        )

    def blocks(self, step: Step, sender: Rank, port: Port, receiver: Rank) -> Place | None:
        """What keeps a packet from crossing in `step`, or None if nothing does."""
        if _covers(self.nodes.get(sender, ()), step):
            return sender, None
        if _covers(self.links.get((sender, port), ()), step):
            return sender, port
        if _covers(self.nodes.get(receiver, ()), step):
            return receiver, None
        return None


def _covers(intervals: Sequence[Interval], step: Step) -> bool:
    return any(first <= step <= last for first, last in intervals)


@dataclass
class Losses:
    """What healthy ranks miss, and because of what."""

    delivered: int = 0
    """Messages that healthy ranks get whole and intact."""
    causes: dict[Rank, set[Place]] = field(default_factory=dict)
    """By rank that misses something due to it: what blocked the copies. In a gather, by origin of what is missing."""

    def blame(self, rank: Rank, places: Iterable[Place]) -> None:
        """Note that a rank misses something because of these outages."""
        self.causes.setdefault(rank, set()).update(places)


# --- along trees ---------------------------------------------------------------------------------------------------------


class Arc(NamedTuple):
    """An arc of a tree whose packets may be blocked."""

    offset: Step
    """The step in which number 0 crosses it; arcs on a path have ascending offsets."""
    tree: int
    child: Rank
    blocked: Mapping[Place, int]
    """Numbers of the copies that each outage blocks, as bits."""


class Spread(Protocol):
    """How the messages of one source spread over trees. Ranks are as the source sees them: it is rank 0 itself."""

    def seen_from(self, source: Rank, outages: Outages) -> Outages:
        """Outages as a source sees them."""

    def seen_rank(self, relative: Rank, source: Rank) -> Rank:
        """The rank that a source sees as `relative`."""

    def touched_arcs(self, seen: Outages) -> Iterable[Arc]:
        """The arcs of all trees that outages touch."""

    def tree_children(self, relative: Rank, tree: int) -> Iterable[Rank]:
        """The children of a rank."""

    def lost_messages(self, missing: tuple[tuple[int, int], ...]) -> tuple[int, Mapping[int, int]]:
        """Messages lost to a rank that misses these copies, given as (tree, numbers as bits); and the copies to blame."""

    def spanned(self) -> Collection[Rank]:
        """The ranks that the trees reach, without the root."""


def along_trees(spread: Spread, outages: Outages, sources: Iterable[Rank], messages: int) -> Losses:
    """What is lost of the messages of all healthy `sources`."""
    losses, spanned = Losses(), spread.spanned()
    for source in sources:
        if source in outages.faulty:
            continue
        seen = spread.seen_from(source, outages)
        losses.delivered += messages * (len(spanned) - sum(rank in spanned for rank in seen.faulty))
        for rank, trees in _missing_below(spread, spread.touched_arcs(seen)).items():
            if rank in seen.faulty:
                continue
            key = tuple(sorted((tree, reduce(or_, blocked.values())) for tree, blocked in trees.items() if blocked))
            count, guilty = spread.lost_messages(key)
            if count:
                losses.delivered -= count
                losses.blame(spread.seen_rank(rank, source), _guilty(seen, trees, guilty))
    return losses


def _guilty(seen: Outages, trees: Mapping[int, Mapping[Place, int]], guilty: Mapping[int, int]) -> Iterator[Place]:
    for tree, blocked in trees.items():
        for place, numbers in blocked.items():
            if numbers & guilty.get(tree, 0):
                yield seen.names[place]


def _missing_below(spread: Spread, arcs: Iterable[Arc]) -> dict[Rank, dict[int, dict[Place, int]]]:
    """By rank and tree: the numbers of the copies that do not arrive, as bits, by the first outage on their way."""
    missing: dict[Rank, dict[int, dict[Place, int]]] = {}
    for arc in sorted(arcs, key=lambda arc: (arc.offset, arc.tree, arc.child)):
        if not any(arc.blocked.values()):
            continue
        below = [arc.child]
        for rank in below:
            there = missing.setdefault(rank, {}).setdefault(arc.tree, {})
            known = reduce(or_, there.values(), 0)
            for place, numbers in arc.blocked.items():
                if numbers & ~known:
                    there[place] = there.get(place, 0) | numbers & ~known
            below += spread.tree_children(rank, arc.tree)
    return missing


def lost_if_split(
    copies: int, trees: int, redundancy: int, segments_per_message: int, missing: Mapping[int, int]
) -> tuple[int, dict[int, int]]:
    """`Spread.lost_messages` where copy c carries segment c div x, and is number c div `trees` on tree c mod `trees`."""
    guilty: dict[int, int] = {}
    lost: set[int] = set()
    for segment in range(copies // redundancy):
        places = [divmod(copy, trees)[::-1] for copy in range(segment * redundancy, (segment + 1) * redundancy)]
        if all(missing.get(tree, 0) >> number & 1 for tree, number in places):
            lost.add(segment // segments_per_message)
            for tree, number in places:
                guilty[tree] = guilty.get(tree, 0) | 1 << number
    return len(lost), guilty


# --- along routes --------------------------------------------------------------------------------------------------------


class Hop(NamedTuple):
    """One link that a copy crosses."""

    step: Step
    sender: Rank
    port: Port
    receiver: Rank


class Journey(NamedTuple):
    """One copy of a segment, seen from its source (in a gather from its target), which is rank 0."""

    end: Rank
    """The rank at the other end."""
    segment: int
    hops: Sequence[Hop]


class Journeys:
    """All journeys of one source, by the ranks and links they use; the same for every source under translation."""

    def __init__(self, journeys: Iterable[Journey]) -> None:
        self._journeys: list[Journey] = []
        self._copies: dict[tuple[Rank, int], int] = {}
        self._at_rank: dict[Rank, list[int]] = {}
        self._at_link: dict[tuple[Rank, Port], list[int]] = {}
        for number, journey in enumerate(journeys):
            self._journeys.append(journey)
            key = journey.end, journey.segment
            self._copies[key] = self._copies.get(key, 0) + 1
            for hop in journey.hops:
                self._at_rank.setdefault(hop.sender, []).append(number)
                self._at_link.setdefault((hop.sender, hop.port), []).append(number)
            self._at_rank.setdefault(journey.hops[-1].receiver, []).append(number)

    def ends(self) -> set[Rank]:
        """The ranks that journeys lead to."""
        return {end for end, _ in self._copies}

    def missing(self, outages: Outages) -> Iterator[tuple[Rank, int, set[Place]]]:
        """(end, segment, causes) of every segment of which no copy gets through."""
        touched = {number for rank in outages.nodes for number in self._at_rank.get(rank, ())}
        touched.update(number for link in outages.links for number in self._at_link.get(link, ()))
        lost: dict[tuple[Rank, int], list[Place]] = {}
        for number in sorted(touched):
            journey = self._journeys[number]
            blocks = (outages.blocks(*hop) for hop in journey.hops)
            place = next((each for each in blocks if each is not None), None)
            if place is not None:
                lost.setdefault((journey.end, journey.segment), []).append(place)
        for (end, segment), places in lost.items():
            if len(places) == self._copies[end, segment]:
                yield end, segment, set(places)


def along_journeys(
    journeys: Journeys,
    outages: Outages,
    sources: Iterable[Rank],
    *,
    relative: Callable[[Rank, Rank], Rank],
    absolute: Callable[[Rank, Rank], Rank],
    messages: int,
    segments_per_message: int,
) -> Losses:
    """What is lost of the messages of all healthy `sources`, or in a gather on the way to the one healthy target."""
    losses, ends = Losses(), journeys.ends()
    for source in sources:
        if source in outages.faulty:
            continue
        seen = outages.renamed(lambda rank, source=source: relative(rank, source))  # type: ignore[misc]
        losses.delivered += messages * sum(end not in seen.faulty for end in ends)
        gone: set[tuple[Rank, int]] = set()
        for end, segment, causes in journeys.missing(seen):
            if end not in seen.faulty:
                gone.add((end, segment // segments_per_message))
                losses.blame(absolute(end, source), (seen.names[cause] for cause in causes))
        losses.delivered -= len(gone)
    return losses


# --- around a circuit ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Circuit:
    """A `Spread` around a Hamiltonian circuit, onward (tree 0) and back (tree 1); a rank is seen as its distance onward."""

    order: int
    position: Callable[[Rank], int]
    """The place of a rank on the circuit."""
    rank_at: Callable[[int], Rank]
    way_of: Callable[[Rank, Port], int | None]
    """0 for the port that leads a rank onward, 1 for the one that leads back, None for others."""
    reach: tuple[int, int]
    """How many hops messages go onward and back."""
    step: Callable[[int, int], Step]
    """The step in which copy number .. makes hop number .., the latter counted from 1."""
    copies: int
    segments_per_message: int

    def seen_from(self, source: Rank, outages: Outages) -> Outages:
        """Outages by their distance from a source."""

        def link(sender: Rank, port: Port) -> tuple[Rank, Port] | None:
            route_index = self.way_of(sender, port)
            return None if route_index is None else (self._distance(sender, source), route_index)

        return outages.renamed(lambda rank: self._distance(rank, source), link)

    def _distance(self, rank: Rank, source: Rank) -> int:
        return (self.position(rank) - self.position(source)) % self.order

    def seen_rank(self, relative: Rank, source: Rank) -> Rank:
        """The rank at a distance from a source."""
        return self.rank_at((self.position(source) + relative) % self.order)

    def touched_arcs(self, seen: Outages) -> Iterator[Arc]:
        """The hops that outages touch."""
        for route_index, reach in enumerate(self.reach):
            near = {hop for rank in seen.nodes for here in [self._hops(rank, route_index)] for hop in (here, here + 1)}
            near |= {self._hops(rank, route_index) + 1 for rank, port in seen.links if port == route_index}
            for hop in sorted(near):
                if 1 <= hop <= reach:
                    yield self._arc(seen, route_index, hop)

    def _hops(self, relative: Rank, route_index: int) -> int:
        return (self.order - relative) % self.order if route_index else relative

    def _at(self, hops: int, route_index: int) -> Rank:
        return -hops % self.order if route_index else hops

    def _arc(self, seen: Outages, route_index: int, hop: int) -> Arc:
        sender, receiver = self._at(hop - 1, route_index), self._at(hop, route_index)
        blocked: dict[Place, int] = {}
        for number in range(self.copies):
            place = seen.blocks(self.step(number, hop), sender, route_index, receiver)
            if place is not None:
                blocked[place] = blocked.get(place, 0) | 1 << number
        return Arc(hop, route_index, receiver, blocked)

    def tree_children(self, relative: Rank, tree: int) -> list[Rank]:
        """The next rank in that direction."""
        hops = self._hops(relative, tree) + 1
        return [self._at(hops, tree)] if hops <= self.reach[tree] else []

    def lost_messages(self, missing: tuple[tuple[int, int], ...]) -> tuple[int, Mapping[int, int]]:
        """Every rank is reached one way only, so every copy counts."""
        numbers = reduce(or_, (bits for _, bits in missing), 0)
        lost = {number // self.segments_per_message for number in range(self.copies) if numbers >> number & 1}
        return len(lost), dict(missing)

    def spanned(self) -> range:
        """All ranks but the source."""
        return range(1, self.order)
