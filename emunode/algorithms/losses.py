"""The messages that a fixed schedule loses to outages of nodes and links, computed from trees and routes without a run.

During an *outage* a node neither sends nor receives, or a directed link carries nothing. A packet that should cross a link
in such a step is lost, and everything that would have followed it downstream is never sent. Nothing is sent again and no
node waits, so all other packets keep their steps. A copy therefore arrives if and only if none of its hops is blocked, and
the schedule alone determines which messages are lost, and to which outage.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Final, NamedTuple, Protocol

from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology

Interval = tuple[Step, Step]
"""First and last step, both included."""
Place = tuple[Rank, Port | None]
"""A place that is out of service: a rank, or the link direction (rank, port) on which it sends."""
# Larger than any step limit, and an int so that it compares with steps.
FOREVER: Step = 2**31 - 1


@dataclass(frozen=True)
class Outages:
    """Nodes and links that are out of service, with the steps."""

    nodes: Mapping[Rank, Sequence[Interval]] = field(default_factory=dict)
    links: Mapping[tuple[Rank, Port], Sequence[Interval]] = field(default_factory=dict)
    faulty: frozenset[Rank] = frozenset()
    """Ranks that have a fault of their own at any time; no deliveries to them are expected."""
    names: Mapping[Place, Place] = field(default_factory=dict)
    """The original names of renamed places."""

    @classmethod
    def of_crashes(cls, crashed: Mapping[Rank, Step]) -> "Outages":
        """Ranks that crash at the beginning of the given steps."""
        return cls({rank: [(step, FOREVER)] for rank, step in crashed.items()}, {}, frozenset(crashed))

    @property
    def permanent(self) -> bool:
        """True if every outage lasts from the first step to the end."""
        every = [*self.nodes.values(), *self.links.values()]
        # From the first step to the end in one interval; adjoining intervals are not merged.
        return all(any(first <= 1 and last >= FOREVER for first, last in intervals) for intervals in every)

    def always(self) -> "Outages":
        """The same places, out of service in every step."""
        whole = [(1, FOREVER)]
        return Outages(dict.fromkeys(self.nodes, whole), dict.fromkeys(self.links, whole), self.faulty)

    def later(self, steps: Step) -> "Outages":
        """The same outages as a schedule sees them that begins `steps` later."""

        def moved(intervals: Sequence[Interval]) -> list[Interval]:
            return [(first - steps, last if last >= FOREVER else last - steps) for first, last in intervals]

        return Outages(
            {rank: moved(intervals) for rank, intervals in self.nodes.items()},
            {link: moved(intervals) for link, intervals in self.links.items()},
            self.faulty,
            self.names,
        )

    def renamed(
        self, rank: Callable[[Rank], Rank], link: Callable[[Rank, Port], tuple[Rank, Port] | None] | None = None
    ) -> "Outages":
        """The same outages under other names of ranks and links; a link that is renamed to None is left out."""
        rename = link or (lambda sender, port: (rank(sender), port))
        nodes = {each: rank(each) for each in self.nodes}
        links = {each: named for each in self.links if (named := rename(*each)) is not None}
        return Outages(
            {named: self.nodes[each] for each, named in nodes.items()},
            # Losses are blamed on the places of the scenario, so the renamed ones keep their original names.
            {named: self.links[each] for each, named in links.items()},
            frozenset(map(rank, self.faulty)),
            {(named, None): (each, None) for each, named in nodes.items()}
            | {named: each for each, named in links.items()},
        )

    def blocks(self, step: Step, sender: Rank, port: Port, receiver: Rank) -> Place | None:
        """The place that stops a packet in `step`, or None if it crosses."""
        # The sender first: a packet that is never sent is not blamed on the link or the receiver.
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
    """Deliveries that healthy ranks miss, and the causes."""

    delivered: int = 0
    """Messages that healthy ranks receive completely and intact."""
    causes: dict[Rank, set[Place]] = field(default_factory=dict)
    """For each rank that misses a message: what blocked the copies. In a gather, for each origin of a missing message."""

    def blame(self, rank: Rank, places: Iterable[Place]) -> None:
        """Record that a rank misses a message because of these outages."""
        self.causes.setdefault(rank, set()).update(places)


Gone = Mapping[Rank, Collection[int]]
"""By source, the messages that are lost before they are sent."""
NOTHING_GONE: Final[Gone] = {}


def unreached(
    topology: Topology,
    outages: Outages,
    origin: Rank,
    onward: Callable[[Rank], Iterable[tuple[Step, Port]]],
) -> Iterator[tuple[Rank, Place]]:
    """The ranks that a segment of `origin` does not reach, each with the first outage on its way.

    `onward` says in which steps and over which ports a rank sends the segment on.
    """
    waiting: list[tuple[Rank, Place | None]] = [(origin, None)]
    while waiting:
        rank, above = waiting.pop()
        for step, port in onward(rank):
            receiver = topology.neighbour(rank, port)
            # Behind an outage nothing crosses, so later ones on the way are not to blame.
            place = above or outages.blocks(step, rank, port, receiver)
            if place is not None:
                yield receiver, place
            waiting.append((receiver, place))


# --- along trees ---------------------------------------------------------------------------------------------------------


class Arc(NamedTuple):
    """An arc of a tree whose packets may be blocked."""

    offset: Step
    """The step in which number 0 crosses it; arcs on a path have ascending offsets."""
    tree: int
    child: Rank
    blocked: Mapping[Place, int]
    """By outage, the copies that it blocks: bit i stands for copy number i."""


class Spread(Protocol):
    """The messages of one source on trees. Ranks are relative to the source, which is rank 0."""

    def seen_from(self, source: Rank, outages: Outages) -> Outages:
        """Outages under the names that ranks and links have relative to a source."""

    def seen_rank(self, relative: Rank, source: Rank) -> Rank:
        """The rank whose address relative to `source` is `relative`."""

    def touched_arcs(self, seen: Outages) -> Iterable[Arc]:
        """The arcs of all trees that outages may block."""

    def tree_children(self, relative: Rank, tree: int) -> Iterable[Rank]:
        """The relative ranks of the children of a rank in one tree."""

    def lost_messages(self, missing: tuple[tuple[int, int], ...]) -> tuple[Collection[int], Mapping[int, int]]:
        """The messages that a rank loses with these copies, given as (tree, bits), and the copies responsible."""

    def receivers(self) -> Collection[Rank]:
        """The ranks that the trees reach and that own data, without the root."""


def along_trees(
    spread: Spread, outages: Outages, sources: Iterable[Rank], messages: int, gone: Gone = NOTHING_GONE
) -> Losses:
    """The losses among the messages of all healthy `sources`; messages that are `gone` before count as lost everywhere."""
    losses, receivers = Losses(), spread.receivers()
    for source in sources:
        if source in outages.faulty:
            continue
        seen = spread.seen_from(source, outages)
        # Faulty ranks are expected to receive nothing, so they are left out on both sides.
        before = gone.get(source, frozenset())
        healthy = len(receivers) - sum(rank in receivers for rank in seen.faulty)
        losses.delivered += (messages - len(before)) * healthy
        for rank, trees in _missing_below(spread, spread.touched_arcs(seen)).items():
            if rank in seen.faulty or rank not in receivers:
                continue
            # The bits of all outages together: which copies are missing, whatever the cause.
            key = tuple(sorted((tree, reduce(or_, blocked.values())) for tree, blocked in trees.items() if blocked))
            lost, guilty = spread.lost_messages(key)
            if lost:
                # Only the places that blocked a copy that counts are named as causes.
                losses.delivered -= sum(message not in before for message in lost)
                losses.blame(spread.seen_rank(rank, source), _guilty(seen, trees, guilty))
    return losses


def _guilty(seen: Outages, trees: Mapping[int, Mapping[Place, int]], guilty: Mapping[int, int]) -> Iterator[Place]:
    for tree, blocked in trees.items():
        for place, numbers in blocked.items():
            # `numbers & guilty`: this outage blocked a copy without which the message is lost.
            if numbers & guilty.get(tree, 0):
                yield seen.names[place]


def _missing_below(spread: Spread, arcs: Iterable[Arc]) -> dict[Rank, dict[int, dict[Place, int]]]:
    """By rank and tree: the copies that do not arrive, as bits, by the first outage on their path."""
    missing: dict[Rank, dict[int, dict[Place, int]]] = {}
    # By offset: an outage higher up in a tree is the first on the path, and takes the blame.
    for arc in sorted(arcs, key=lambda arc: (arc.offset, arc.tree, arc.child)):
        if not any(arc.blocked.values()):
            continue
        below = [arc.child]
        for rank in below:
            there = missing.setdefault(rank, {}).setdefault(arc.tree, {})
            # Copies that an arc above has already blocked never reach this arc.
            known = reduce(or_, there.values(), 0)
            for place, numbers in arc.blocked.items():
                if numbers & ~known:
                    there[place] = there.get(place, 0) | numbers & ~known
            # Everything below a blocked arc misses the same copies.
            below += spread.tree_children(rank, arc.tree)
    return missing


def losses_of_striping(
    copies: int, trees: int, redundancy: int, segments_per_message: int, missing: Mapping[int, int]
) -> tuple[set[int], dict[int, int]]:
    """`Spread.lost_messages` if copy c carries segment c div x and is number c div `trees` on tree c mod `trees`."""
    # divmod gives (number, tree); reversed it is (tree, number) of each of the x copies.
    places = (
        [divmod(copy, trees)[::-1] for copy in range(first, first + redundancy)]
        for first in range(0, copies, redundancy)
    )
    return losses_of_copies(places, segments_per_message, missing)


def losses_of_copies(
    places: Iterable[Sequence[tuple[int, int]]], segments_per_message: int, missing: Mapping[int, int]
) -> tuple[set[int], dict[int, int]]:
    """`Spread.lost_messages` if `places` has (tree, number) of every copy of each segment."""
    guilty: dict[int, int] = {}
    lost: set[int] = set()
    for segment, copies in enumerate(places):
        # A segment is lost if all its x copies are; a message if one of its segments is.
        if all(missing.get(tree, 0) >> number & 1 for tree, number in copies):
            lost.add(segment // segments_per_message)
            for tree, number in copies:
                guilty[tree] = guilty.get(tree, 0) | 1 << number
    return lost, guilty


# --- along routes --------------------------------------------------------------------------------------------------------


class Hop(NamedTuple):
    """A link that a copy crosses, with the step."""

    step: Step
    sender: Rank
    port: Port
    receiver: Rank


class Journey(NamedTuple):
    """The path of one copy of a segment. Ranks are relative to its source (in a gather, its target), which is rank 0."""

    end: Rank
    """The rank at the other end."""
    segment: int
    hops: Sequence[Hop]


class Journeys:
    """All journeys of one source, indexed by the ranks and links that they use; translations give those of other sources."""

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
            # The last receiver sends nothing, but an outage there blocks the journey too.
            self._at_rank.setdefault(journey.hops[-1].receiver, []).append(number)

    def ends(self) -> set[Rank]:
        """The ranks at which journeys end."""
        return {end for end, _ in self._copies}

    def missing(self, outages: Outages) -> Iterator[tuple[Rank, int, set[Place]]]:
        """Yield (end, segment, causes) for every segment of which no copy arrives."""
        # Only journeys that use a faulty place can be lost; all others are skipped.
        touched = {number for rank in outages.nodes for number in self._at_rank.get(rank, ())}
        touched.update(number for link in outages.links for number in self._at_link.get(link, ()))
        lost: dict[tuple[Rank, int], list[Place]] = {}
        for number in sorted(touched):
            journey = self._journeys[number]
            blocks = (outages.blocks(*hop) for hop in journey.hops)
            # The first blocked hop; later hops are never made.
            place = next((each for each in blocks if each is not None), None)
            if place is not None:
                lost.setdefault((journey.end, journey.segment), []).append(place)
        for (end, segment), places in lost.items():
            # All copies of the segment are lost.
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
    """The losses among the messages of all healthy `sources`, or in a gather on the way to the one healthy target."""
    losses, ends = Losses(), journeys.ends()
    for source in sources:
        if source in outages.faulty:
            continue
        # The default argument binds this source; a closure over the loop variable would see the last one.
        seen = outages.renamed(lambda rank, source=source: relative(rank, source))  # type: ignore[misc]
        losses.delivered += messages * sum(end not in seen.faulty for end in ends)
        gone: set[tuple[Rank, int]] = set()
        # One lost segment loses the message; `gone` counts it once.
        for end, segment, causes in journeys.missing(seen):
            if end not in seen.faulty:
                gone.add((end, segment // segments_per_message))
                losses.blame(absolute(end, source), (seen.names[cause] for cause in causes))
        losses.delivered -= len(gone)
    return losses


# --- around a circuit ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Circuit:
    """A `Spread` around a Hamiltonian circuit, onward (tree 0) and back (tree 1). Relative ranks are distances onward."""

    order: int
    position: Callable[[Rank], int]
    """Returns the place of a rank on the circuit."""
    rank_at: Callable[[int], Rank]
    direction_of: Callable[[Rank, Port], int | None]
    """Returns 0 for the port of a rank that leads onward, 1 for the port that leads back, None for others."""
    reach: tuple[int, int]
    """Hops that messages travel onward and back."""
    step: Callable[[int, int], Step]
    """Returns the step of a hop, given the copy number and the hop number counted from 1."""
    copies: int
    segments_per_message: int

    def seen_from(self, source: Rank, outages: Outages) -> Outages:
        """Outages at their distances from a source."""

        def link(sender: Rank, port: Port) -> tuple[Rank, Port] | None:
            # Links that are not on the circuit carry nothing and may break unnoticed.
            direction = self.direction_of(sender, port)
            return None if direction is None else (self._distance(sender, source), direction)

        return outages.renamed(lambda rank: self._distance(rank, source), link)

    def _distance(self, rank: Rank, source: Rank) -> int:
        return (self.position(rank) - self.position(source)) % self.order

    def seen_rank(self, relative: Rank, source: Rank) -> Rank:
        """The rank at a distance from a source."""
        return self.rank_at((self.position(source) + relative) % self.order)

    def touched_arcs(self, seen: Outages) -> Iterator[Arc]:
        """The hops that outages may block."""
        for direction, reach in enumerate(self.reach):
            # An outage at a node blocks the hop into it and the hop out of it.
            near = {hop for rank in seen.nodes for here in [self._hops(rank, direction)] for hop in (here, here + 1)}
            near |= {self._hops(rank, direction) + 1 for rank, port in seen.links if port == direction}
            for hop in sorted(near):
                if 1 <= hop <= reach:
                    yield self._arc(seen, direction, hop)

    def _hops(self, relative: Rank, direction: int) -> int:
        # Backwards the hop count grows as the distance onward falls.
        return (self.order - relative) % self.order if direction else relative

    def _at(self, hops: int, direction: int) -> Rank:
        return -hops % self.order if direction else hops

    def _arc(self, seen: Outages, direction: int, hop: int) -> Arc:
        sender, receiver = self._at(hop - 1, direction), self._at(hop, direction)
        blocked: dict[Place, int] = {}
        for number in range(self.copies):
            # Each copy crosses the hop in its own step, so a short outage blocks some copies only.
            place = seen.blocks(self.step(number, hop), sender, direction, receiver)
            if place is not None:
                blocked[place] = blocked.get(place, 0) | 1 << number
        return Arc(hop, direction, receiver, blocked)

    def tree_children(self, relative: Rank, tree: int) -> list[Rank]:
        """The next rank in that direction."""
        hops = self._hops(relative, tree) + 1
        return [self._at(hops, tree)] if hops <= self.reach[tree] else []

    def lost_messages(self, missing: tuple[tuple[int, int], ...]) -> tuple[Collection[int], Mapping[int, int]]:
        """Every rank is reached in one direction only, so every copy counts."""
        numbers = reduce(or_, (bits for _, bits in missing), 0)
        lost = {number // self.segments_per_message for number in range(self.copies) if numbers >> number & 1}
        return lost, dict(missing)

    def receivers(self) -> range:
        """All ranks but the source."""
        return range(1, self.order)
