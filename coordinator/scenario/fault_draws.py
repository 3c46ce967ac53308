"""Drawing the places of a fault set: at random, derived from the network, or every set one after the other.

A place that the scenario breaks is never chosen. The source of a rooted collective is chosen only if a part `sources`
allows it. Drawing is a pure function of (seed, draw), so compared algorithms get the same faults. The set of k + 1
faults contains the set of k, so curves over the number of faults can be compared point by point.

Parts for the same kind of place, such as crashed and byzantine nodes, share one random order of these places. They take
disjoint positions of it that depend on the counts alone, so every pair of disjoint sets is equally likely. Blocks are
drawn as places of their own kind. Where blocks overlap, a place fails once.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import islice
from math import comb
from random import Random
from typing import TypeVar

from coordinator.scenario.blocks import BLOCK_KINDS, Block, Link
from coordinator.scenario.fault_processes import MOST_EVENTS, Outage, Window, outages
from coordinator.scenario.fault_sets import BY_SHARE, FIXED, FaultSetSpec, FaultSetTerm, is_fault_set, parse_fault_sets
from coordinator.scenario.fault_syntax import write_time
from emunode.algorithms.base import Algorithm
from emunode.engine.memory import MemoryEngine
from emunode.errors import RunError, ScenarioError
from emunode.faults.kinds import Moment
from emunode.model import Rank
from emunode.net.wire import ROW
from emunode.play import play

Site = Rank | Link | Block
"""A place that is drawn."""
Place = TypeVar("Place")


@dataclass(frozen=True)
class WorstSet:
    """The most harmful set of its size that a search has found."""

    places: Mapping[str, Sequence[Site]]
    """By site (`FaultSetTerm.site`), the places that fail."""
    harm: int
    """Healthy nodes that miss a message."""
    method: str
    """How it was found, and whether that is exact, in words."""


SetSearch = Callable[[FaultSetSpec, "FaultSites"], WorstSet]


def require_harm(where: str, expected: int, measured: int) -> None:
    """Raise RunError if a run contradicts the search for its faults.

    The two contradict if different numbers of healthy nodes miss a message.
    """
    if measured != expected:
        raise RunError(
            f"the search for the worst set and a run disagree: {where}: {expected} healthy nodes miss a message by the "
            f"search and {measured} in the run; this is an error of the emulator, or of a kind of fault whose effects() "
            "are wrong"
        )


class FaultSites:
    """The places of a network that can fail under an algorithm.

    These are all nodes but the source, and all links. Places in the fault specifications `broken` are left out. `search`
    finds the set of the strategy `worst`. Under the timed clock, `run_time` returns the nanoseconds of the run without
    faults.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        broken: Iterable[str] = (),
        search: SetSearch | None = None,
        run_time: Callable[[], int] | None = None,
    ) -> None:
        self.algorithm = algorithm
        self.run_time = None if run_time is None else cache(run_time)
        self.topology = algorithm.topology
        rooted = len(algorithm.sources) == 1 or algorithm.spec.common_target >= 0
        self.sources: frozenset[Rank] = frozenset({algorithm.spec.source} if rooted else ())
        self.broken: frozenset[Rank | Link] = frozenset(place for spec in broken for place in self.named_in(spec))
        self._blocks: dict[str, list[Block]] = {}
        self._search = search
        self._worst: dict[FaultSetSpec, WorstSet] = {}

    def nodes(self, *, sources: bool = False) -> Sequence[Rank]:
        """Return the ranks that may be chosen, ascending."""
        spared = self.broken if sources else self.broken | self.sources
        return [rank for rank in self.topology.ranks() if rank not in spared]

    @cached_property
    def links(self) -> Sequence[Link]:
        """Links that may be chosen, the lower rank first, ascending."""
        links = sorted((rank, neighbour) for rank, _, neighbour, _ in self.topology.links())
        return [link for link in links if link not in self.broken]

    def blocks(self, fault_set: FaultSetSpec, block: str, field: str = "faults") -> Sequence[Block]:
        """Return the blocks of one kind that may be chosen.

        Blocks that belong to a source or have a place in `broken` are left out. Raises ScenarioError (with `field`) if
        the network has no such blocks.
        """
        if block not in self._blocks:
            name, _, argument = block.partition(":")
            try:
                self._blocks[block] = list(BLOCK_KINDS[name].blocks(self.topology, argument))
            except ValueError as error:
                raise ScenarioError(field, fault_set.name, str(error)) from None
        spared = frozenset() if fault_set.sources else self.sources
        return [
            each
            for each in self._blocks[block]
            if spared.isdisjoint(each.owners) and self.broken.isdisjoint(each.places)
        ]

    def worst(self, fault_set: FaultSetSpec, field: str = "faults") -> WorstSet:
        """Return the most harmful set that fits a description.

        Raises ScenarioError (with `field`) where none can be searched.
        """
        if fault_set not in self._worst:
            if self._search is None:
                raise ScenarioError(field, fault_set.name, "the worst set is searched for runs and campaigns only")
            self._worst[fault_set] = self._search(fault_set, self)
        return self._worst[fault_set]

    @cached_property
    def _hops(self) -> Sequence[Link]:
        """(sender, receiver) of every segment of a fault-free run."""
        rows = play(MemoryEngine(self.algorithm), limit=100_000)
        return [(row[1], row[2]) for row in ROW.iter_unpack(b"".join(rows))]

    def busiest_nodes(self, among: Sequence[Rank]) -> list[Rank]:
        """Return nodes by the number of segments they send, most first.

        Equal nodes are ordered by rank.
        """
        loads = Counter(sender for sender, _ in self._hops)
        return sorted(among, key=lambda rank: (-loads[rank], rank))

    @cached_property
    def busiest_links(self) -> list[Link]:
        """Links by the number of segments in both directions, most first.

        Equal links are ordered by rank.
        """
        loads = Counter((min(hop), max(hop)) for hop in self._hops)
        return sorted(self.links, key=lambda link: (-loads[link], link))

    @cached_property
    def root_links(self) -> list[Link]:
        """Links that sources send over.

        If all ranks are sources, these are all links that are used.
        """
        sources = set(self.algorithm.sources)
        return sorted({(min(hop), max(hop)) for hop in self._hops if hop[0] in sources})

    def spec(self, part: FaultSetTerm, place: Rank | Link, when: str) -> str:
        """Return the fault specification of one fault."""
        label = self.topology.label
        where = label(place) if isinstance(place, int) else f"{label(place[0])}~{label(place[1])}"
        return f"{part.kind}:{where}{part.argument}@{when}"

    def specs(self, part: FaultSetTerm, place: Site, when: str) -> list[str]:
        """Return the fault specifications of one place, or of all places of a block."""
        return [self.spec(part, member, when) for member in _members(place)]

    def named_in(self, spec: str) -> set[Rank | Link]:
        """Return the node or link that a fault specification names.

        Empty for an invalid place, which the parser of faults reports.
        """
        _, *rest = spec.split(":")
        where = rest[0].partition("@")[0] if rest else ""
        try:
            one, *other = sorted(self.topology.rank(label) for label in re.split("[~>]", where))
        except ScenarioError:
            return set()
        return {(one, other[0]) if other else one}


# --- choosing ----------------------------------------------------------------------------------------------------------


def draw(
    fault_set: FaultSetSpec,
    places: FaultSites,
    seed: int,
    number: int,
    *,
    taken: Iterable[object] = (),
    field: str = "faults",
) -> tuple[str, ...]:
    """Return draw `number` of a fault set, as fault specifications.

    Places in `taken` are not chosen. Raises ScenarioError (with `field`) when there are more faults than places.
    """
    if fault_set.how == "all":
        return set_number(fault_set, places, number, field)
    if fault_set.how == "process":
        events = process_outages(fault_set, places, f"{seed}/{number}", taken, field)
        return tuple(spec for each in events for spec in specs_of(fault_set, places, *each))
    used = set(taken)
    chosen: dict[FaultSetTerm, list[Site]] = {}
    for site in dict.fromkeys(part.site for part in fault_set.parts):
        parts = [part for part in fault_set.parts if part.site == site]
        free = [place for place in eligible(fault_set, parts[0], places, field) if used.isdisjoint(_members(place))]
        chosen |= zip(parts, _choose(fault_set, parts, free, f"{seed}/{number}/{site}", field), strict=True)
    specs = (
        spec for part in fault_set.parts for place in chosen[part] for spec in places.specs(part, place, fault_set.when)
    )
    return tuple(dict.fromkeys(specs))


def process_outages(
    fault_set: FaultSetSpec, places: FaultSites, stream: str, taken: Iterable[object] = (), field: str = "faults"
) -> Iterator[tuple[FaultSetTerm, Rank | Link, Outage]]:
    """Yield the outages of a process, by part and place.

    Raises ScenarioError if there are more than MOST_EVENTS.
    """
    used, label, events = set(taken), places.topology.label, 0
    window = process_window(fault_set, places, field)
    for part in fault_set.parts:
        for place in eligible(fault_set, part, places, field):
            if place in used or isinstance(place, Block):
                continue
            where = label(place) if isinstance(place, int) else "~".join(map(label, place))
            for outage in outages(
                part.failure, fault_set.repair_law, window, f"{stream}/process of {part.site}/{where}"
            ):
                events += 1
                if events > MOST_EVENTS:
                    raise ScenarioError(field, fault_set.name, f"it has more than {MOST_EVENTS:,} outages")
                yield part, place, outage


def process_window(fault_set: FaultSetSpec, places: FaultSites, field: str = "faults") -> Window:
    """Return when the outages of a process may begin.

    A fault set without an end lasts until the end of the run without faults.
    """
    window = fault_set.window
    end = None if window.is_endless else window.end
    if not fault_set.in_time:
        final = places.algorithm.final_step if end is None else end - 1
        if final is None:
            reason = f"{places.algorithm.name} has no known last step; give one, as in @1-20"
            raise ScenarioError(field, fault_set.name, reason)
        return Window(window.start, final + 1)
    if places.run_time is None:
        reason = "it is given by times, and lock-step counts steps: use --clock timed, or steps, such as mttf:100"
        raise ScenarioError(field, fault_set.name, reason)
    begin = window.start if isinstance(window.start, Moment) else 0
    # A process that would begin after the end of the run has no event.
    return Window(begin, max(begin, end or places.run_time()), timed=True)


def specs_of(
    fault_set: FaultSetSpec, places: FaultSites, part: FaultSetTerm, place: Rank | Link, outage: Outage
) -> Iterator[str]:
    """Yield one outage as fault specifications."""
    written = write_time if fault_set.in_time else str
    begin, repaired = outage
    if not part.on_links:
        yield places.spec(part, place, written(begin))
        if repaired is not None:
            yield f"recover:{places.topology.label(place)}@{written(repaired)}"  # type: ignore[arg-type]
        return
    # The last step of an interval is part of it, but an interval of times does not include its end.
    last = None if repaired is None else repaired if fault_set.in_time else repaired - 1
    yield places.spec(part, place, written(begin) if last is None else f"{written(begin)}-{written(last)}")


def _members(site: Site) -> Sequence[Rank | Link]:
    return site.places if isinstance(site, Block) else (site,)


def set_count(fault_set: FaultSetSpec, places: FaultSites) -> int | None:
    """Return the number of sets of a fault set.

    These are all sets for `all`, and 1 for strategies without randomness. None for random strategies.
    """
    if fault_set.how in FIXED or (fault_set.how not in BY_SHARE and not fault_set.size):
        return 1
    return sets_of(fault_set.parts, _rooms(fault_set, places)) if fault_set.how == "all" else None


def _rooms(fault_set: FaultSetSpec, places: FaultSites) -> dict[str, int]:
    """Return the number of nodes, links or blocks to choose from, by site."""
    return {part.site: len(eligible(fault_set, part, places)) for part in fault_set.parts}


def sets_of(parts: Sequence[FaultSetTerm], rooms: Mapping[str, int]) -> int:
    """Return the number of ways to assign places to parts.

    No place is assigned twice. `rooms` has the number of places by site.
    """
    count, left = 1, dict(rooms)
    for part in parts:
        count *= comb(max(0, left[part.site]), part.count)
        left[part.site] -= part.count
    return count


def set_number(fault_set: FaultSetSpec, places: FaultSites, number: int, field: str = "faults") -> tuple[str, ...]:
    """Return one set of `every_set` by its index, computed directly."""
    rooms = _rooms(fault_set, places)
    if not 0 <= number < sets_of(fault_set.parts, rooms):
        raise ScenarioError(field, fault_set.name, f"it has no set number {number}")
    used: set[object] = set()
    specs: list[str] = []
    for at, part in enumerate(fault_set.parts):
        free = [place for place in eligible(fault_set, part, places, field) if place not in used]
        rooms[part.site] -= part.count
        index, number = divmod(number, sets_of(fault_set.parts[at + 1 :], rooms))
        group = [free[position] for position in _combination(len(free), part.count, index)]
        used.update(group)
        specs += [spec for place in group for spec in places.specs(part, place, fault_set.when)]
    return tuple(dict.fromkeys(specs))


def _combination(total: int, count: int, index: int) -> Iterator[int]:
    """Yield the combination of `count` of range(total) with this index in lexicographic order."""
    position = 0
    while count:
        # The number of combinations whose lowest member is this position.
        beginning_here = comb(total - position - 1, count - 1)
        if index < beginning_here:
            yield position
            count -= 1
        else:
            index -= beginning_here
        position += 1


def sample_numbers(fault_set: FaultSetSpec, places: FaultSites, seed: int, most: int) -> Sequence[int]:
    """Return the numbers of at most `most` sets of `all`.

    If there are more sets, the numbers are a random sample without repetition. The sample for a larger `most` begins
    with the sample for a smaller one.
    """
    count = set_count(fault_set, places) or 0
    if count <= most:
        return range(count)
    return _shuffled(count, most, Random(f"{seed}/sets of {fault_set.name}"))


def every_set(fault_set: FaultSetSpec, places: FaultSites, field: str = "faults") -> Iterator[tuple[str, ...]]:
    """Yield every set of a fault set as fault specifications.

    The sets come in lexicographic order of their places.
    """
    count = sets_of(fault_set.parts, _rooms(fault_set, places))
    return (set_number(fault_set, places, number, field) for number in range(count))


def eligible(fault_set: FaultSetSpec, part: FaultSetTerm, places: FaultSites, field: str = "faults") -> Sequence[Site]:
    """Return the places that one part may use, in order of preference or of drawing."""
    if fault_set.how == "worst" or part.block:
        worst = fault_set.how == "worst"
        return (
            places.worst(fault_set, field).places[part.site] if worst else places.blocks(fault_set, part.block, field)
        )
    allowed = places.nodes(sources=fault_set.sources)
    match fault_set.how:
        case "busiest":
            return places.busiest_links if part.on_links else places.busiest_nodes(allowed)
        case "roots":
            return _at_roots(part, places, allowed)
        case "cut":
            try:
                victim = places.topology.rank(fault_set.victim or "")
            except ScenarioError as error:
                raise ScenarioError(
                    field, fault_set.name, f"unknown victim {fault_set.victim!r}: {error.allowed}"
                ) from None
            if part.on_links:
                return [link for link in places.links if victim in link]
            around = {neighbour for _, neighbour in places.topology.adjacent(victim)}
            return [rank for rank in allowed if rank in around]
    return places.links if part.on_links else allowed


def _at_roots(part: FaultSetTerm, places: FaultSites, allowed: Sequence[Rank]) -> Sequence[Rank | Link]:
    links = places.root_links
    if part.on_links:
        return [link for link in links if link not in places.broken]
    children = {rank for link in links for rank in link} - set(places.algorithm.sources)
    return [rank for rank in allowed if rank in children or len(places.algorithm.sources) > 1]


def _choose(
    fault_set: FaultSetSpec, parts: Sequence[FaultSetTerm], free: Sequence[Place], stream: str, field: str
) -> list[list[Place]]:
    """Assign free places to the parts for one kind of place."""
    if fault_set.how == "bernoulli":
        return _bernoulli(parts, free, stream)
    counts = [part.count for part in parts]
    if sum(counts) > len(free):
        raise too_few(fault_set, parts[0], sum(counts), len(free), field)
    if fault_set.how in FIXED:
        ranked = iter(free)
        return [list(islice(ranked, count)) for count in counts]
    positions = positions_of(counts, len(free))
    length = 1 + max((position for taken in positions for position in taken), default=-1)
    order = _shuffled(len(free), length, Random(stream))
    return [[free[order[position]] for position in taken] for taken in positions]


def too_few(fault_set: FaultSetSpec, part: FaultSetTerm, needed: int, available: int, field: str) -> ScenarioError:
    """Return the error of a fault set with more faults than places."""
    noun = f"blocks {part.block}" if part.block else part.site
    return ScenarioError(field, fault_set.name, f"it needs {needed} {noun}, but only {available} may fail")


def _bernoulli(parts: Sequence[FaultSetTerm], free: Sequence[Place], stream: str) -> list[list[Place]]:
    """Choose each place with a probability.

    Parts draw independently. A place goes to the first part that hits it.
    """
    used: set[Place] = set()
    chosen = []
    for at, part in enumerate(parts):
        chance = Random(f"{stream}/{at}" if at else stream)
        hit = [place for place in free if chance.random() < part.share]
        chosen.append([place for place in hit if place not in used])
        used.update(hit)
    return chosen


def positions_of(counts: Sequence[int], total: int) -> list[list[int]]:
    """Return disjoint positions in an order of `total` places, for parts with these counts.

    Of m parts, part p takes the positions p, p + m, p + 2m, ... When these run out, it takes the last free positions.
    Positions depend on the counts alone, so all assignments of places to parts are equally likely. With one or two
    parts, a larger count keeps the positions of a smaller one. With more parts that holds as long as none runs out.
    """
    positions = [list(range(at, total, len(counts)))[:count] for at, count in enumerate(counts)]
    used = {position for taken in positions for position in taken}
    rest = iter([position for position in reversed(range(total)) if position not in used])
    return [[*taken, *islice(rest, count - len(taken))] for taken, count in zip(positions, counts, strict=True)]


def _shuffled(total: int, count: int, chance: Random) -> list[int]:
    """Return the first `count` numbers of a random order of range(total).

    A longer draw begins with the shorter one.
    """
    moved: dict[int, int] = {}
    drawn = []
    for at in range(count):
        # Fisher-Yates shuffle of the first `count` positions. `moved` holds the exchanged positions, so that a sample of
        # a number of sets that no sequence has needs memory for `count` items only.
        other = chance.randrange(at, total)
        drawn.append(moved.get(other, other))
        moved[other] = moved.get(at, at)
    return drawn


# --- in a scenario -----------------------------------------------------------------------------------------------------


def resolve(
    specs: Sequence[str],
    algorithm: Callable[[], Algorithm],
    seed: int,
    search: Callable[[FaultSetSpec, FaultSites, Sequence[str]], WorstSet] | None = None,
    run_time: Callable[[Algorithm], int] | None = None,
) -> tuple[tuple[str, ...], tuple[str, ...], int | None]:
    """Return the faults of a scenario with every set replaced by drawn faults.

    So the run can be repeated. Also returned are remarks, and the number of nodes that miss a message if the last set is
    the worst one. `algorithm` is called only if there are sets: some sets depend on a run without faults. The places of
    explicit faults and of earlier sets are not chosen again. `search` finds the set of the strategy `worst`, in addition
    to the faults in its last argument. Each such set has a remark that says how it was found. Raises ScenarioError.
    """
    if not any(map(is_fault_set, specs)):
        return tuple(specs), (), None
    built = algorithm()
    places = FaultSites(built, run_time=None if run_time is None else lambda: run_time(built))
    taken: set[object] = set()
    for spec in specs:
        if not is_fault_set(spec):
            taken |= places.named_in(spec)
    resolved: list[str] = []
    remarks: list[str] = []
    harm = None
    for number, spec in enumerate(specs):
        if not is_fault_set(spec):
            resolved.append(spec)
            continue
        fault_set, *others = parse_fault_sets(spec, "fault")
        if others or fault_set.how == "all":
            raise ScenarioError("fault", spec, "a run has one set of faults; `coordinator campaign` runs many")
        sites, harm = places, None
        if fault_set.how == "worst" and search is not None:
            given = (*resolved, *(each for each in specs[number + 1 :] if not is_fault_set(each)))
            sites = FaultSites(places.algorithm, given, lambda each, left, given=given: search(each, left, given))  # type: ignore[misc]
            worst = sites.worst(fault_set, "fault")
            remarks.append(worst.method)
            harm = worst.harm
        drawn = draw(fault_set, sites, seed, number, taken=taken, field="fault")
        for one in drawn:
            taken |= places.named_in(one)
        resolved += drawn
    return tuple(resolved), tuple(remarks), harm


def eligible_for_search(fault_set: FaultSetSpec, part: FaultSetTerm, places: FaultSites) -> Sequence[Site]:
    """Return the places that the worst set is chosen from."""
    return eligible(replace(fault_set, how="random"), part, places)
