"""Sets of faults by description: drawn, derived from the network, or all there are. Text to fault specifications.

    [HOW:]PART[;PART..][@WHEN]

HOW says which places break (`random` if it is left out), a PART what and how many of it: `nodes=2` (crashes), `links=1`
(down, both ways), or any kind of fault by its name, with its argument behind the number: `loss=3:0.2`. WHEN is what a
fault specification has behind its `@`; left out, step 1.

| HOW | places |
|---|---|
| `random` | drawn without repetition |
| `bernoulli` | each with the probability given in place of the number |
| `cut` | neighbours and links of the node named by a part `victim=LABEL`, drawn among them |
| `roots` | where the messages leave their source: the ranks and links of its own sends, drawn among them |
| `busiest` | the nodes and links that carry most segments when nothing breaks |
| `all` | every set there is, one after the other |

The source of a rooted collective is never chosen unless a part `sources` allows it. Drawing is a pure function of (seed,
draw), and nothing else: algorithms that are compared meet the same faults, and the set of k + 1 faults contains the set of
k, so that curves over the number of faults are comparable point by point.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, islice, product
from math import comb, prod
from random import Random
from typing import Final, TypeVar

from emunode.collective.base import Algorithm
from emunode.errors import ScenarioError
from emunode.fault import KINDS
from emunode.memory import MemoryNetwork
from emunode.model import Rank
from emunode.wire import ROW

SHORT: Final = {"nodes": "crash", "links": "down"}
"""What a plain number of nodes or links means."""
HOWS: Final = ("random", "bernoulli", "cut", "roots", "busiest", "all")
FORM: Final = "[HOW:]PART[;PART..][@WHEN], such as random:nodes=2;links=1@1"
PART: Final = re.compile(r"(?P<what>[a-z]+)(?P<relation><?=)(?P<amount>[^:]+)(?P<argument>:.+)?")
WHEN: Final = re.compile(r"\d{1,9}(-\d{1,9})?")
MOST_RECIPES = 10_000
"""Recipes that the ranges of one description may stand for."""
COUNTS: Final = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?")

Link = tuple[Rank, Rank]
Place = TypeVar("Place")


def on_links(kind: str) -> bool:
    """Whether faults of this kind strike links, and not nodes."""
    return "~" in KINDS[kind].form or ">" in KINDS[kind].form


@dataclass(frozen=True)
class Part:
    """So many faults of one kind."""

    kind: str
    count: int = 0
    share: float = 0.0
    """Probability of each place, where the set is drawn so."""
    argument: str = ""
    """What a specification of this kind has between place and step, with its colon."""

    @property
    def on_links(self) -> bool:
        """Whether it strikes links, and not nodes."""
        return on_links(self.kind)


@dataclass(frozen=True)
class Recipe:
    """How sets of faults are made."""

    how: str
    parts: tuple[Part, ...]
    when: str = "1"
    victim: str | None = None
    sources: bool = False

    @property
    def size(self) -> int:
        """Number of faults in each set; for `bernoulli`, of which it has no number, 0."""
        return sum(part.count for part in self.parts)

    @property
    def name(self) -> str:
        """The recipe as it is written, in one canonical way: nothing said that is so anyway."""
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


class Places:
    """Where a network can break under an algorithm: nodes and links, those of the source apart."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.topology = algorithm.topology
        rooted = len(algorithm.sources) == 1 or algorithm.target >= 0
        self.sources: frozenset[Rank] = frozenset({algorithm.job.source} if rooted else ())

    def nodes(self, *, sources: bool = False) -> Sequence[Rank]:
        """Ranks that may be chosen, ascending."""
        return [rank for rank in self.topology.ranks() if sources or rank not in self.sources]

    @cached_property
    def links(self) -> Sequence[Link]:
        """Every link once, the lower rank first, ascending."""
        return sorted((rank, neighbour) for rank, _, neighbour, _ in self.topology.links())

    @cached_property
    def _hops(self) -> Sequence[Link]:
        """(sender, receiver) of every segment of a run in which nothing breaks."""
        network, rows, step = MemoryNetwork(self.algorithm), bytearray(), 0
        while network.busy and step < 100_000:
            step += 1
            rows += network.step(step)
        return [(row[1], row[2]) for row in ROW.iter_unpack(bytes(rows))]

    def busiest_nodes(self, among: Sequence[Rank]) -> list[Rank]:
        """By the segments they send, most first; of equals the lower rank."""
        loads = Counter(sender for sender, _ in self._hops)
        return sorted(among, key=lambda rank: (-loads[rank], rank))

    @cached_property
    def busiest_links(self) -> list[Link]:
        """By the segments they carry both ways, most first; of equals the lower ranks."""
        loads = Counter((min(hop), max(hop)) for hop in self._hops)
        return sorted(self.links, key=lambda link: (-loads[link], link))

    @cached_property
    def root_links(self) -> list[Link]:
        """Links over which sources send; where all are sources, every link in use."""
        sources = set(self.algorithm.sources)
        return sorted({(min(hop), max(hop)) for hop in self._hops if hop[0] in sources})

    def spec(self, part: Part, place: Rank | Link, when: str) -> str:
        """The fault specification of one fault."""
        label = self.topology.label
        where = label(place) if isinstance(place, int) else f"{label(place[0])}~{label(place[1])}"
        return f"{part.kind}:{where}{part.argument}@{when}"


# --- reading a description ---------------------------------------------------------------------------------------------


def is_recipe(text: str) -> bool:
    """Whether a fault of a scenario describes a set, and not one fault."""
    return text.partition(":")[0] in HOWS


def parse_recipes(text: str, field: str = "faults") -> list[Recipe]:
    """The recipes of a description, by ascending number of faults: one, or where it has ranges one for each choice.

    A number may be a range, `nodes=0..4` or `nodes<=4`. `any<=2` is nodes and links in every mixture of up to two. Raises
    ScenarioError (with `field`) for what is no description.
    """
    how, colon, rest = text.partition(":")
    if not colon or "=" in how or how not in HOWS:
        if colon and "=" not in how:
            raise ScenarioError(field, text, f"{how!r} is no way to choose; there are: {', '.join(HOWS)}")
        how, rest = "random", text
    body, at, when = rest.rpartition("@")
    body, when = (body, when) if at else (rest, "1")
    recipe = Recipe(how, (), when)
    choices: list[list[tuple[Part, ...]]] = []
    for word in body.split(";"):
        if word == "sources":
            recipe = replace(recipe, sources=True)
        elif word.startswith("victim="):
            recipe = replace(recipe, victim=word.removeprefix("victim="))
        else:
            choices.append(_choices(word, how, text, field))
    if not choices or not WHEN.fullmatch(when) or "@" in body:
        raise ScenarioError(field, text, f"write {FORM}; WHEN is said once, at the end")
    if (recipe.victim is None) == (how == "cut"):
        raise ScenarioError(field, text, "a cut has a victim, and nothing else has: cut:victim=LABEL;nodes=2")
    _require_few(prod(map(len, choices)), text, field)
    recipes = [replace(recipe, parts=tuple(part for parts in choice for part in parts)) for choice in product(*choices)]
    return sorted(recipes, key=lambda recipe: recipe.size)


def _choices(word: str, how: str, text: str, field: str) -> list[tuple[Part, ...]]:
    """What one part may stand for."""
    match = PART.fullmatch(word)
    if match is None:
        raise ScenarioError(field, text, f"{word!r} is no part; write {FORM}")
    what, amount, argument = match["what"], match["amount"], match["argument"] or ""
    kind = SHORT.get(what, what)
    if what != "any" and kind not in KINDS:
        raise ScenarioError(field, text, f"{what!r} is not among: any, {', '.join([*SHORT, *KINDS])}")
    if how == "bernoulli":
        return [(Part(kind, share=_share(amount, text, field), argument=argument),)]
    counts = COUNTS.fullmatch(amount)
    if counts is None:
        raise ScenarioError(field, text, f"{amount!r} is no number, and no range such as 0..4")
    last = int(counts[2] or counts[1])
    first = int(counts[1]) if match["relation"] == "=" else 0
    if first > last or (match["relation"] == "<=" and counts[2]):
        raise ScenarioError(field, text, f"{word!r} is no range; write 0..4 or <=4")
    _require_few(
        ((last + 1) * (last + 2) - first * (first + 1)) // 2 if what == "any" else last - first + 1, text, field
    )
    if what == "any":
        return [
            (Part("crash", total - links), Part(_down(text, field), links))
            for total in range(first, last + 1)
            for links in range(total + 1)
        ]
    return [(Part(kind, count, argument=argument),) for count in range(first, last + 1)]


def _require_few(recipes: int, text: str, field: str) -> None:
    if recipes > MOST_RECIPES:
        raise ScenarioError(field, text, f"its ranges stand for {recipes:,} recipes; at most {MOST_RECIPES:,} at once")


def _down(text: str, field: str) -> str:
    if "down" not in KINDS:
        raise ScenarioError(field, text, f"'down' is not among: {', '.join(KINDS)}")
    return "down"


def _share(amount: str, text: str, field: str) -> float:
    try:
        share = float(amount)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ScenarioError(field, text, f"{amount!r} is no probability from 0 to 1")
    return share


# --- choosing ----------------------------------------------------------------------------------------------------------


def draw(
    recipe: Recipe, places: Places, seed: int, number: int, *, taken: Iterable[object] = (), field: str = "faults"
) -> tuple[str, ...]:
    """Draw `number` of a recipe, as fault specifications; places in `taken` are left alone.

    Raises ScenarioError (with `field`) when there are more faults than places.
    """
    if recipe.how == "all":
        found = next(islice(every_set(recipe, places, field=field), number, None), None)
        if found is None:
            raise ScenarioError(field, recipe.name, f"it has no set number {number}")
        return found
    struck = set(taken)
    specs = []
    for part in recipe.parts:
        free = [place for place in _eligible(recipe, part, places, field) if place not in struck]
        chosen = _choose(recipe, part, free, Random(f"{seed}/{number}/{'links' if part.on_links else 'nodes'}"), field)
        struck.update(chosen)
        specs += [places.spec(part, place, recipe.when) for place in chosen]
    return tuple(specs)


def set_count(recipe: Recipe, places: Places) -> int | None:
    """How many sets a recipe has: those of `all`, 1 for what is not drawn at random, None for what is."""
    if recipe.how == "busiest" or (recipe.how != "bernoulli" and not recipe.size):
        return 1
    if recipe.how != "all":
        return None
    count, used = 1, {True: 0, False: 0}
    for part in recipe.parts:
        there = len(places.links if part.on_links else places.nodes(sources=recipe.sources))
        count *= comb(max(0, there - used[part.on_links]), part.count)
        used[part.on_links] += part.count
    return count


def every_set(recipe: Recipe, places: Places, field: str = "faults") -> Iterator[tuple[str, ...]]:
    """Every set of a recipe as fault specifications, in lexicographic order of its places."""
    for chosen in _every(recipe.parts, recipe, places, frozenset(), field):
        yield tuple(
            places.spec(part, place, recipe.when)
            for part, group in zip(recipe.parts, chosen, strict=True)
            for place in group
        )


def _every(
    parts: Sequence[Part], recipe: Recipe, places: Places, struck: frozenset[object], field: str
) -> Iterator[tuple[tuple[Rank | Link, ...], ...]]:
    if not parts:
        yield ()
        return
    free = [place for place in _eligible(recipe, parts[0], places, field) if place not in struck]
    for group in combinations(free, parts[0].count):
        for rest in _every(parts[1:], recipe, places, struck | frozenset(group), field):
            yield (group, *rest)


def _eligible(recipe: Recipe, part: Part, places: Places, field: str) -> Sequence[Rank | Link]:
    """The places that one part may strike, in the order in which they are preferred or drawn from."""
    allowed = places.nodes(sources=recipe.sources)
    match recipe.how:
        case "busiest":
            return places.busiest_links if part.on_links else places.busiest_nodes(allowed)
        case "roots":
            links = places.root_links
            if part.on_links:
                return links
            children = {rank for link in links for rank in link} - set(places.algorithm.sources)
            return [rank for rank in allowed if rank in children or len(places.algorithm.sources) > 1]
        case "cut":
            try:
                victim = places.topology.rank(recipe.victim or "")
            except ScenarioError as error:
                raise ScenarioError(
                    field, recipe.name, f"there is no victim {recipe.victim!r}: {error.allowed}"
                ) from None
            if part.on_links:
                return [link for link in places.links if victim in link]
            around = set(places.topology.neighbours(victim))
            return [rank for rank in allowed if rank in around]
    return places.links if part.on_links else allowed


def _choose(recipe: Recipe, part: Part, free: Sequence[Place], chance: Random, field: str) -> list[Place]:
    if recipe.how == "bernoulli":
        return [place for place in free if chance.random() < part.share]
    if part.count > len(free):
        kind = "links" if part.on_links else "nodes"
        raise ScenarioError(field, recipe.name, f"it wants {part.count} {kind}, and {len(free)} may fail")
    if recipe.how == "busiest":
        return list(free[: part.count])
    return _shuffled(free, part.count, chance)


def _shuffled(items: Sequence[Place], count: int, chance: Random) -> list[Place]:
    """The first `count` of a random order of all items: a longer draw begins with the shorter one."""
    moved: dict[int, int] = {}
    found = []
    for at in range(count):
        other = chance.randrange(at, len(items))
        found.append(items[moved.get(other, other)])
        moved[other] = moved.get(at, at)
    return found


# --- in a scenario -----------------------------------------------------------------------------------------------------


def resolve(specs: Sequence[str], algorithm: Callable[[], Algorithm], seed: int) -> tuple[str, ...]:
    """The faults of a scenario with every set replaced by the faults it stands for, so that the run can be repeated.

    `algorithm` is asked for where there are sets, to look at a run in which nothing breaks. The places of explicit faults,
    and those of sets that come before, are not chosen again. Raises ScenarioError.
    """
    if not any(map(is_recipe, specs)):
        return tuple(specs)
    places = Places(algorithm())
    taken: set[object] = set()
    for spec in specs:
        if not is_recipe(spec):
            taken |= _places_of(spec, places)
    found: list[str] = []
    for number, spec in enumerate(specs):
        if not is_recipe(spec):
            found.append(spec)
            continue
        recipe, *others = parse_recipes(spec, "fault")
        if others or recipe.how == "all":
            raise ScenarioError("fault", spec, "one run has one set of faults; `coordinator campaign` runs many")
        drawn = draw(recipe, places, seed, number, taken=taken, field="fault")
        for one in drawn:
            taken |= _places_of(one, places)
        found += drawn
    return tuple(found)


def _places_of(spec: str, places: Places) -> set[object]:
    """The node or link that a specification names; nothing where it names none (its parser says so)."""
    where = spec.partition(":")[2].rpartition("@")[0]
    topology = places.topology
    for text in (where, where.rpartition(":")[0]):
        try:
            ends = tuple(sorted(topology.rank(label) for label in re.split("[~>]", text)))
        except ScenarioError:
            continue
        return {ends[0] if len(ends) == 1 else ends}
    return set()
