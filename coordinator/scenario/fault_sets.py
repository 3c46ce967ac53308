"""Fault sets: descriptions of sets of faults that are drawn, derived from the network, or enumerated.

    [HOW:]PART[;PART..][@WHEN]

HOW is the strategy that selects places (default: `random`). A PART gives a kind and a number: `nodes=2` (crashes), `links=1`
(down, both directions), or any kind of fault by its name, with its argument after the number: `loss=3:0.2`. WHEN is the step
or interval of a fault specification (default: 1).

| HOW | places |
|---|---|
| `random` | drawn at random without repetition |
| `bernoulli` | each place with the probability given in place of the number |
| `cut` | neighbours and links of the node named by a part `victim=LABEL`, drawn among them |
| `roots` | links over which the source sends, and the ranks at their other ends, drawn among them |
| `busiest` | nodes and links that carry most segments in a fault-free run |
| `all` | every set, one after the other |

The source of a rooted collective is chosen only if a part `sources` allows it, and a place that the scenario breaks is never
chosen. Drawing is a pure function of (seed, draw): compared algorithms get the same faults, and the set of k + 1 faults
contains the set of k, so that curves over the number of faults are comparable point by point.

Parts for the same kind of place (such as crashed and byzantine nodes) share one random order of these places and take
disjoint positions of it that depend on the counts alone, so every pair of disjoint sets is equally likely. Two parts of the
same kind are refused: `nodes=1;nodes=2` is written `nodes=3`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from functools import cached_property
from itertools import islice, product
from math import comb, prod
from random import Random
from typing import Final, TypeVar

from coordinator.scenario.fault_syntax import EXAMPLES, VALUES, require_drawable
from emunode.algorithms.base import Algorithm
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.faults.kinds import KINDS, LinkFault, field_names
from emunode.model import Rank
from emunode.net.wire import ROW

SHORT: Final = {"nodes": "crash", "links": "down"}
"""The kinds of fault that `nodes` and `links` stand for."""
STRATEGIES: Final = ("random", "bernoulli", "cut", "roots", "busiest", "all")
FORM: Final = "[HOW:]PART[;PART..][@WHEN], such as random:nodes=2;links=1@1"
PART: Final = re.compile(r"(?P<what>[a-z]+)(?P<relation><?=)(?P<amount>[^:]+)(?P<argument>:.+)?")
WHEN: Final = re.compile(r"\d{1,9}(-\d{1,9})?")
MAX_FAULT_SETS = 10_000
"""Most fault sets that the ranges of one description may stand for."""
COUNTS: Final = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?")

Link = tuple[Rank, Rank]
Place = TypeVar("Place")


REPAIRS: Final = {"recover": "crash", "up": "down"}
"""Kinds that repair the fault of another kind; a random place has nothing to repair."""


def on_links(kind: str) -> bool:
    """Whether faults of this kind concern links instead of nodes."""
    return issubclass(KINDS[kind], LinkFault)


@dataclass(frozen=True)
class FaultSetTerm:
    """A number of faults of one kind."""

    kind: str
    count: int = 0
    share: float = 0.0
    """Probability per place, for the strategy `bernoulli`."""
    argument: str = ""
    """The value between place and step in a specification of this kind, with its colon."""

    @property
    def on_links(self) -> bool:
        """Whether its faults concern links instead of nodes."""
        return on_links(self.kind)


@dataclass(frozen=True)
class FaultSetSpec:
    """The description of a set of faults."""

    how: str
    parts: tuple[FaultSetTerm, ...]
    when: str = "1"
    victim: str | None = None
    sources: bool = False

    @property
    def size(self) -> int:
        """Number of faults per set; 0 for `bernoulli`, which has no fixed number."""
        return sum(part.count for part in self.parts)

    @property
    def name(self) -> str:
        """The description in canonical form, without default values."""
        names = {kind: short for short, kind in SHORT.items()}
        words = [
            f"{names.get(part.kind, part.kind)}={part.share if self.how == 'bernoulli' else part.count}{part.argument}"
            for part in self.parts
        ]
        if self.victim is not None:
            words.insert(0, f"victim={self.victim}")
        if self.sources:
            words.append("sources")
        how = "" if self.how == "random" else f"{self.how}:"
        return f"{how}{';'.join(words)}{'' if self.when == '1' else f'@{self.when}'}"


class FaultSites:
    """The places of a network that can fail under an algorithm: all nodes but the source, and all links.

    Places in the fault specifications `broken` are left out.
    """

    def __init__(self, algorithm: Algorithm, broken: Iterable[str] = ()) -> None:
        self.algorithm = algorithm
        self.topology = algorithm.topology
        rooted = len(algorithm.sources) == 1 or algorithm.target >= 0
        self.sources: frozenset[Rank] = frozenset({algorithm.spec.source} if rooted else ())
        self.broken: frozenset[Rank | Link] = frozenset(place for spec in broken for place in self.named_in(spec))

    def nodes(self, *, sources: bool = False) -> Sequence[Rank]:
        """Ranks that may be chosen, ascending."""
        spared = self.broken if sources else self.broken | self.sources
        return [rank for rank in self.topology.ranks() if rank not in spared]

    @cached_property
    def links(self) -> Sequence[Link]:
        """Links that may be chosen, the lower rank first, ascending."""
        links = sorted((rank, neighbour) for rank, _, neighbour, _ in self.topology.links())
        return [link for link in links if link not in self.broken]

    @cached_property
    def _hops(self) -> Sequence[Link]:
        """(sender, receiver) of every segment of a fault-free run."""
        network, rows, step = MemoryEngine(self.algorithm), bytearray(), 0
        while network.busy and step < 100_000:
            step += 1
            rows += network.step(step)
        return [(row[1], row[2]) for row in ROW.iter_unpack(bytes(rows))]

    def busiest_nodes(self, among: Sequence[Rank]) -> list[Rank]:
        """Nodes by the number of segments they send, most first; ties by rank."""
        loads = Counter(sender for sender, _ in self._hops)
        return sorted(among, key=lambda rank: (-loads[rank], rank))

    @cached_property
    def busiest_links(self) -> list[Link]:
        """Links by the number of segments in both directions, most first; ties by rank."""
        loads = Counter((min(hop), max(hop)) for hop in self._hops)
        return sorted(self.links, key=lambda link: (-loads[link], link))

    @cached_property
    def root_links(self) -> list[Link]:
        """Links over which sources send; every used link if all ranks are sources."""
        sources = set(self.algorithm.sources)
        return sorted({(min(hop), max(hop)) for hop in self._hops if hop[0] in sources})

    def spec(self, part: FaultSetTerm, place: Rank | Link, when: str) -> str:
        """The fault specification of one fault."""
        label = self.topology.label
        where = label(place) if isinstance(place, int) else f"{label(place[0])}~{label(place[1])}"
        return f"{part.kind}:{where}{part.argument}@{when}"

    def named_in(self, spec: str) -> set[Rank | Link]:
        """The node or link in a fault specification; empty for an invalid place, which the parser of faults reports."""
        _, *rest = spec.split(":")
        where = rest[0].partition("@")[0] if rest else ""
        try:
            one, *other = sorted(self.topology.rank(label) for label in re.split("[~>]", where))
        except ScenarioError:
            return set()
        return {(one, other[0]) if other else one}


# --- reading a description ---------------------------------------------------------------------------------------------


def is_fault_set(text: str) -> bool:
    """Whether a fault of a scenario describes a set instead of one fault."""
    return text.partition(":")[0] in STRATEGIES


def parse_fault_sets(text: str, field: str = "faults") -> list[FaultSetSpec]:
    """The fault sets of a description by ascending number of faults: one, or one per choice if it has ranges.

    A number may be a range, `nodes=0..4` or `nodes<=4`. `any<=2` is every combination of up to two nodes and links. Raises
    ScenarioError (with `field`) for an invalid description.
    """
    how, colon, rest = text.partition(":")
    if not colon or "=" in how or how not in STRATEGIES:
        if colon and "=" not in how:
            raise ScenarioError(field, text, f"unknown strategy {how!r}; expected one of: {', '.join(STRATEGIES)}")
        how, rest = "random", text
    body, at, when = rest.rpartition("@")
    body, when = (body, when) if at else (rest, "1")
    if not WHEN.fullmatch(when) or "@" in body:
        raise ScenarioError(field, text, f"write {FORM}; WHEN is given once, at the end")
    fault_set = FaultSetSpec(how, (), when)
    choices: list[list[tuple[FaultSetTerm, ...]]] = []
    for word in body.split(";"):
        if word == "sources":
            fault_set = replace(fault_set, sources=True)
        elif word.startswith("victim="):
            fault_set = replace(fault_set, victim=word.removeprefix("victim="))
        else:
            choices.append(_choices(word, how, text, field))
    if not choices:
        raise ScenarioError(field, text, f"write {FORM}; WHEN is given once, at the end")
    if (fault_set.victim is None) == (how == "cut"):
        raise ScenarioError(
            field, text, "'cut' needs a victim, and other strategies take none: cut:victim=LABEL;nodes=2"
        )
    _require_few(prod(map(len, choices)), text, field)
    fault_sets = [
        replace(fault_set, parts=tuple(part for parts in choice for part in parts)) for choice in product(*choices)
    ]
    _require_sound(fault_sets[0], text, field)
    return sorted(fault_sets, key=lambda fault_set: fault_set.size)


def _require_sound(fault_set: FaultSetSpec, text: str, field: str) -> None:
    """Refuse repeated parts, and steps that a kind cannot have."""
    seen: set[tuple[str, str]] = set()
    first, dash, last = fault_set.when.partition("-")
    if int(first) < 1 or (dash and int(last) < int(first)):
        raise ScenarioError(
            field, text, f"invalid step or interval @{fault_set.when}; steps count from 1, as in @2 or @2-5"
        )
    for part in fault_set.parts:
        if (part.kind, part.argument) in seen:
            name = next((short for short, kind in SHORT.items() if kind == part.kind), part.kind)
            raise ScenarioError(field, text, f"{name!r} is repeated; give one part with the total number")
        seen.add((part.kind, part.argument))
        if dash and "last" not in field_names(KINDS[part.kind]):
            raise ScenarioError(field, text, f"{part.kind!r} happens in one step and has no end; write @{first}")


def _require_argument(kind: str, argument: str, word: str, text: str, field: str) -> None:
    """Refuse a missing or invalid value after the number, and a value of a kind that takes none."""
    if kind in REPAIRS:
        raise ScenarioError(
            field, text, f"{kind!r} repairs what {REPAIRS[kind]!r} broke, and a set of faults only breaks things"
        )
    value = next((name for name in field_names(KINDS[kind]) if name in VALUES), None)
    if value is None:
        if argument:
            raise ScenarioError(field, text, f"{kind!r} takes no value, so {argument!r} in {word!r} has no meaning")
        return
    if not argument:
        raise ScenarioError(field, text, f"{kind!r} needs a value after the number, such as {word}:{EXAMPLES[value]}")
    try:
        VALUES[value](text, argument.removeprefix(":"))
    except ScenarioError as error:
        raise ScenarioError(field, text, f"in {word!r}: {error.allowed}") from None


def _choices(word: str, how: str, text: str, field: str) -> list[tuple[FaultSetTerm, ...]]:
    """The terms that one part may stand for."""
    match = PART.fullmatch(word)
    if match is None:
        raise ScenarioError(field, text, f"invalid part {word!r}; write {FORM}")
    what, amount, argument = match["what"], match["amount"], match["argument"] or ""
    kind = SHORT.get(what, what)
    if what != "any" and kind not in KINDS:
        allowed = [*SHORT, *(name for name in KINDS if name not in REPAIRS)]
        raise ScenarioError(field, text, f"{what!r} is not among: any, {', '.join(allowed)}")
    if what != "any":
        _require_argument(kind, argument, word, text, field)
    elif argument or how == "bernoulli":
        raise ScenarioError(field, text, "'any' is every combination of nodes and links, such as any=2 or any<=2")
    if how == "bernoulli":
        return [(FaultSetTerm(kind, share=_share(amount, text, field), argument=argument),)]
    counts = COUNTS.fullmatch(amount)
    if counts is None:
        raise ScenarioError(field, text, f"invalid number or range {amount!r}; write a number, or a range such as 0..4")
    last = int(counts[2] or counts[1])
    first = int(counts[1]) if match["relation"] == "=" else 0
    if first > last or (match["relation"] == "<=" and counts[2]):
        raise ScenarioError(field, text, f"invalid range {word!r}; write 0..4 or <=4")
    _require_few(
        ((last + 1) * (last + 2) - first * (first + 1)) // 2 if what == "any" else last - first + 1, text, field
    )
    if what == "any":
        return [
            (FaultSetTerm("crash", total - links), FaultSetTerm(_down(text, field), links))
            for total in range(first, last + 1)
            for links in range(total + 1)
        ]
    return [(FaultSetTerm(kind, count, argument=argument),) for count in range(first, last + 1)]


def _require_few(fault_sets: int, text: str, field: str) -> None:
    if fault_sets > MAX_FAULT_SETS:
        raise ScenarioError(
            field, text, f"its ranges stand for {fault_sets:,} fault sets; at most {MAX_FAULT_SETS:,} at once"
        )


def _down(text: str, field: str) -> str:
    if "down" not in KINDS:
        raise ScenarioError(field, text, f"'down' is not among: {', '.join(KINDS)}")
    return "down"


def _share(amount: str, text: str, field: str) -> float:
    try:
        share = Decimal(amount)
        if not 0 <= share <= 1:
            raise InvalidOperation
    except InvalidOperation:
        raise ScenarioError(field, text, f"invalid probability {amount!r}; expected a number from 0 to 1") from None
    require_drawable(share, field, text)
    return float(share)


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
    """Draw `number` of a fault set, as fault specifications. Places in `taken` are not chosen.

    Raises ScenarioError (with `field`) when there are more faults than places.
    """
    if fault_set.how == "all":
        return set_number(fault_set, places, number, field)
    used = set(taken)
    chosen: dict[FaultSetTerm, list[Rank | Link]] = {}
    for on_link in (False, True):
        parts = [part for part in fault_set.parts if part.on_links == on_link]
        if parts:
            free = [place for place in eligible(fault_set, parts[0], places, field) if place not in used]
            stream = f"{seed}/{number}/{'links' if on_link else 'nodes'}"
            chosen |= zip(parts, _choose(fault_set, parts, free, stream, field), strict=True)
    return tuple(places.spec(part, place, fault_set.when) for part in fault_set.parts for place in chosen[part])


def set_count(fault_set: FaultSetSpec, places: FaultSites) -> int | None:
    """Number of sets: of `all` every one, 1 for strategies without randomness, None for random ones."""
    if fault_set.how == "busiest" or (fault_set.how != "bernoulli" and not fault_set.size):
        return 1
    return _sets_of(fault_set.parts, _rooms(fault_set, places)) if fault_set.how == "all" else None


def _rooms(fault_set: FaultSetSpec, places: FaultSites) -> dict[bool, int]:
    """Number of links (True) and nodes (False) to choose from."""
    return {True: len(places.links), False: len(places.nodes(sources=fault_set.sources))}


def _sets_of(parts: Sequence[FaultSetTerm], rooms: Mapping[bool, int]) -> int:
    """Number of ways to assign places to parts, no place twice."""
    count, left = 1, dict(rooms)
    for part in parts:
        count *= comb(max(0, left[part.on_links]), part.count)
        left[part.on_links] -= part.count
    return count


def set_number(fault_set: FaultSetSpec, places: FaultSites, number: int, field: str = "faults") -> tuple[str, ...]:
    """One set of `every_set` by its index, computed directly."""
    rooms = _rooms(fault_set, places)
    if not 0 <= number < _sets_of(fault_set.parts, rooms):
        raise ScenarioError(field, fault_set.name, f"it has no set number {number}")
    used: set[object] = set()
    specs: list[str] = []
    for at, part in enumerate(fault_set.parts):
        free = [place for place in eligible(fault_set, part, places, field) if place not in used]
        rooms[part.on_links] -= part.count
        index, number = divmod(number, _sets_of(fault_set.parts[at + 1 :], rooms))
        group = [free[position] for position in _combination(len(free), part.count, index)]
        used.update(group)
        specs += [places.spec(part, place, fault_set.when) for place in group]
    return tuple(specs)


def _combination(total: int, count: int, index: int) -> Iterator[int]:
    """The combination of `count` of range(total) with this index in lexicographic order."""
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
    """The numbers of `most` sets of `all`: all of them if there are no more, else a random sample without repetition.

    The sample for a larger `most` begins with the sample for a smaller one.
    """
    count = set_count(fault_set, places) or 0
    if count <= most:
        return range(count)
    return _shuffled(range(count), most, Random(f"{seed}/sets of {fault_set.name}"))


def every_set(fault_set: FaultSetSpec, places: FaultSites, field: str = "faults") -> Iterator[tuple[str, ...]]:
    """Every set of a fault set as fault specifications, in lexicographic order of its places."""
    count = _sets_of(fault_set.parts, _rooms(fault_set, places))
    return (set_number(fault_set, places, number, field) for number in range(count))


def eligible(
    fault_set: FaultSetSpec, part: FaultSetTerm, places: FaultSites, field: str = "faults"
) -> Sequence[Rank | Link]:
    """The places that one part may use, in order of preference or of drawing."""
    allowed = places.nodes(sources=fault_set.sources)
    match fault_set.how:
        case "busiest":
            return places.busiest_links if part.on_links else places.busiest_nodes(allowed)
        case "roots":
            links = places.root_links
            if part.on_links:
                return [link for link in links if link not in places.broken]
            children = {rank for link in links for rank in link} - set(places.algorithm.sources)
            return [rank for rank in allowed if rank in children or len(places.algorithm.sources) > 1]
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


def _choose(
    fault_set: FaultSetSpec, parts: Sequence[FaultSetTerm], free: Sequence[Place], stream: str, field: str
) -> list[list[Place]]:
    """Assign free places to the parts for one kind of place."""
    if fault_set.how == "bernoulli":
        return _bernoulli(parts, free, stream)
    counts = [part.count for part in parts]
    if sum(counts) > len(free):
        kind = "links" if parts[0].on_links else "nodes"
        raise ScenarioError(field, fault_set.name, f"it needs {sum(counts)} {kind}, but only {len(free)} may fail")
    if fault_set.how == "busiest":
        ranked = iter(free)
        return [list(islice(ranked, count)) for count in counts]
    positions = _positions(counts, len(free))
    length = 1 + max((position for taken in positions for position in taken), default=-1)
    order = _shuffled(free, length, Random(stream))
    return [[order[position] for position in taken] for taken in positions]


def _bernoulli(parts: Sequence[FaultSetTerm], free: Sequence[Place], stream: str) -> list[list[Place]]:
    """Choose each place with a probability. Parts draw independently; a place goes to the first part that hits it."""
    used: set[Place] = set()
    found = []
    for at, part in enumerate(parts):
        chance = Random(f"{stream}/{at}" if at else stream)
        hit = [place for place in free if chance.random() < part.share]
        found.append([place for place in hit if place not in used])
        used.update(hit)
    return found


def _positions(counts: Sequence[int], total: int) -> list[list[int]]:
    """Disjoint positions in a random order of `total` places, for parts with these counts.

    Of m parts, part p takes the positions p, p + m, p + 2m, .., and when these run out, the last free positions. Positions
    depend on the counts alone, so all assignments of places to parts are equally likely. With one or two parts (and with
    more, as long as none runs out), a larger count keeps the positions of a smaller one.
    """
    found = [list(range(at, total, len(counts)))[:count] for at, count in enumerate(counts)]
    used = {position for taken in found for position in taken}
    rest = iter([position for position in reversed(range(total)) if position not in used])
    return [[*taken, *islice(rest, count - len(taken))] for taken, count in zip(found, counts, strict=True)]


def _shuffled(items: Sequence[Place], count: int, chance: Random) -> list[Place]:
    """The first `count` items of a random order of all; a longer draw begins with the shorter one."""
    moved: dict[int, int] = {}
    found = []
    for at in range(count):
        # Fisher-Yates shuffle of the first `count` positions. `moved` holds the exchanged positions, so that a sample of a
        # range of millions needs memory for `count` items only.
        other = chance.randrange(at, len(items))
        found.append(items[moved.get(other, other)])
        moved[other] = moved.get(at, at)
    return found


# --- in a scenario -----------------------------------------------------------------------------------------------------


def resolve(specs: Sequence[str], algorithm: Callable[[], Algorithm], seed: int) -> tuple[str, ...]:
    """The faults of a scenario with every set replaced by drawn faults, so that the run can be repeated.

    `algorithm` is called only if there are sets, some of which depend on a fault-free run. The places of explicit faults and
    of earlier sets are not chosen again. Raises ScenarioError.
    """
    if not any(map(is_fault_set, specs)):
        return tuple(specs)
    places = FaultSites(algorithm())
    taken: set[object] = set()
    for spec in specs:
        if not is_fault_set(spec):
            taken |= places.named_in(spec)
    found: list[str] = []
    for number, spec in enumerate(specs):
        if not is_fault_set(spec):
            found.append(spec)
            continue
        fault_set, *others = parse_fault_sets(spec, "fault")
        if others or fault_set.how == "all":
            raise ScenarioError("fault", spec, "a run has one set of faults; `coordinator campaign` runs many")
        drawn = draw(fault_set, places, seed, number, taken=taken, field="fault")
        for one in drawn:
            taken |= places.named_in(one)
        found += drawn
    return tuple(found)
