"""Fault sets: descriptions of sets of faults that are drawn, derived from the network, or enumerated.

    [HOW:]PART[;PART..][@WHEN]

HOW is the strategy that selects places (`STRATEGIES`, by default `random`). A PART gives a kind and a number. `nodes=2`
are crashes, and `links=1` is a link down in both directions. Any kind of fault may stand there by its name, with its
argument after the number: `loss=3:0.2`. WHEN is the step or interval of a fault specification, by default 1.

A PART may also name a kind of block (`blocks`), whose places fail together: `substar=1`, `subcube=1:2`. The number
counts blocks. The nodes of a block crash, or its links go down. Blocks are drawn by `random`, `bernoulli` and `all`, and
blocks of one description may overlap.

Two parts of the same kind are refused: `nodes=1;nodes=2` is written `nodes=3`. `fault_draws` chooses the places.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from itertools import product
from math import prod
from typing import Final

from coordinator.scenario.blocks import BLOCK_KINDS
from coordinator.scenario.fault_processes import Geometric, Lifetime, Mean
from coordinator.scenario.fault_syntax import (
    TIME,
    When,
    example_value,
    read_value,
    read_when,
    require_dash,
    require_drawable,
)
from emunode.errors import PLUGIN_HINT, ScenarioError, did_you_mean
from emunode.faults.effects import ALWAYS, Interval
from emunode.faults.kinds import FOREVER, KINDS, Fault, LinkFault, Moment, field_names, value_names, why_random
from emunode.model import Step

SHORT: Final = {"nodes": "crash", "links": "down"}
"""The kinds of fault that `nodes` and `links` stand for."""
STRATEGIES: Final = {
    "random": ("random:nodes=2;links=1@1", "Places are drawn at random without repetition."),
    "bernoulli": ("bernoulli:links=0.05", "Each place fails with a probability."),
    "cut": ("cut:victim=LABEL;nodes=2", "Neighbours and links of one node, drawn among them."),
    "roots": (
        "roots:links=2",
        "Links that the source sends over, or the nodes at their other ends, drawn among them.",
    ),
    "busiest": ("busiest:nodes=3", "The places that carry most segments in a run without faults."),
    "worst": ("worst:nodes=3", "The set of this size that makes most healthy nodes miss a message."),
    "process": (
        "process:nodes=mttf:2s;repair=mttr:200ms",
        "Places fail and are repaired at random; by steps: process:nodes=0.01;repair=0.2.",
    ),
    "all": ("all:nodes=1", "Every set, one after the other, in a campaign or certificate."),
}
"""How the places of a set are chosen: an example, and the meaning."""
FORM: Final = "[HOW:]PART[;PART..][@WHEN], such as random:nodes=2;links=1@1"
ONE: Final = rf"(?:\d{{1,9}}|{TIME.pattern})"
WHEN: Final = re.compile(f"{ONE}(-{ONE})?")
PART: Final = re.compile(r"(?P<what>[a-z-]+)(?P<relation><?=)(?P<amount>[^:]+)(?P<argument>:.+)?")
MAX_FAULT_SETS = 10_000
"""Most fault sets that the ranges of one description may stand for."""
COUNTS: Final = re.compile(r"(\d{1,6})(?:\.\.(\d{1,6}))?")
FIXED: Final = ("busiest", "worst")
"""Strategies without random numbers: they have one set."""
BY_SHARE: Final = ("bernoulli", "process")
"""Strategies with a probability in place of a number."""
OF_BLOCKS: Final = ("random", "bernoulli", "worst", "all")
"""Strategies that draw blocks."""
REPAIRS: Final = ("recover", "up", "heal")
"""Kinds that end other faults; a random place has nothing to repair."""


def counts_in_words(counts: Mapping[str, int]) -> str:
    """Return numbers of faults by kind in words, such as `1 node and 2 links`; the kinds in alphabetic order."""
    singular = {kind: short.removesuffix("s") for short, kind in SHORT.items()}
    words = []
    for kind, count in sorted(counts.items()):
        if count:
            name = singular.get(kind, kind)
            words.append(f"{count} {name}{'s' if count > 1 and kind in singular else ''}")
    return " and ".join(words) or "no fault"


def on_links(kind: str) -> bool:
    """Return whether faults of this kind concern links instead of nodes."""
    return issubclass(KINDS[kind], LinkFault)


@dataclass(frozen=True)
class FaultSetTerm:
    """A number of faults of one kind, or of blocks that fail together."""

    kind: str
    """The kind of each fault; for nodes and links in blocks `crash` and `down`."""
    count: int = 0
    share: float = 0.0
    """Probability per place, for the strategy `bernoulli`; per place and step for `process`."""
    argument: str = ""
    """The value between place and step in a specification of this kind, with its colon."""
    block: str = ""
    """The kind of block, with its value after a colon; empty for single nodes and links."""
    lifetime: Lifetime | None = None
    """The time to failure, for a `process` in time."""

    @property
    def site(self) -> str:
        """The kind of place that is drawn: `nodes`, `links` or the block.

        Terms of one site take different places.
        """
        return self.block or ("links" if self.on_links else "nodes")

    @property
    def rate(self) -> float:
        """The probability per place, or per place and step.

        Of a `process` in time, these are the failures of a place per second.
        """
        return self.share if self.lifetime is None else 1e9 / self.lifetime.mean

    @property
    def failure(self) -> Lifetime | Geometric:
        """The waiting time for a failure, for the strategy `process`."""
        return self.lifetime or Geometric(self.share)

    @property
    def on_links(self) -> bool:
        """Whether its faults concern links instead of nodes."""
        return on_links(self.kind)

    @property
    def is_random(self) -> bool:
        """Whether its faults draw random numbers during a run, such as the losses of a link."""
        return self.why_random is not None

    @property
    def why_random(self) -> str | None:
        """The reason why another seed may give another history under its faults, if any."""
        return why_random(self.fault()) if self.count or self.share else None

    def fault(self, first: Step = 1, last: Step = FOREVER) -> Fault:
        """Make the fault at rank 0 or its port 0.

        It is an example of the same fault at any place.
        """
        record = KINDS[self.kind]
        values: dict[str, object] = {"step": first, "last": last, "rank": 0, "sender": 0, "port": 0}
        for name in value_names(record):
            values[name] = read_value(name, self.argument, self.argument.removeprefix(":"))
        return record(**{name: values[name] for name in field_names(record)})  # type: ignore[arg-type]


@dataclass(frozen=True)
class FaultSetSpec:
    """The description of a set of faults."""

    how: str
    parts: tuple[FaultSetTerm, ...]
    when: str = "1"
    victim: str | None = None
    sources: bool = False
    repair: float = 0.0
    """Probability per step that a failed place is repaired, for the strategy `process`."""
    repair_time: Lifetime | None = None
    """The time to repair, for a `process` in time; None: never repaired."""

    @property
    def size(self) -> int:
        """Number of faults (or blocks) per set.

        0 for `bernoulli`, whose sets have no fixed number.
        """
        return sum(part.count for part in self.parts)

    @property
    def window(self) -> Interval:
        """The steps, or nanoseconds, when its faults are in force.

        Faults of a process begin in this window.
        """
        first, last = read_when(self.when) or (1, None)
        if last is None:
            return Interval(first, ALWAYS)
        return Interval(first, last if isinstance(last, Moment) else last + 1)

    def fault_of(self, part: FaultSetTerm) -> Fault:
        """Make the fault of a part at rank 0 or its port 0, in the steps of this set."""
        first, last = read_when(self.when) or (1, None)
        return part.fault(first, FOREVER if last is None else last)

    @property
    def in_blocks(self) -> bool:
        """Whether nodes or links fail in blocks."""
        return any(part.block for part in self.parts)

    @property
    def repair_law(self) -> Lifetime | Geometric:
        """The waiting time of a `process` for a repair."""
        return self.repair_time or Geometric(self.repair)

    @property
    def in_time(self) -> bool:
        """Whether it is a process in time.

        Such a process needs the timed clock.
        """
        return any(part.lifetime is not None for part in self.parts)

    @property
    def name(self) -> str:
        """The description in canonical form, without default values."""
        words = [_word(part, part.share if self.how in BY_SHARE else part.count) for part in self.parts]
        if self.victim is not None:
            words.insert(0, f"victim={self.victim}")
        if self.repair:
            words.append(f"repair={self.repair}")
        if self.repair_time is not None:
            words.append(f"repair=mttr:{self.repair_time.name}")
        if self.sources:
            words.append("sources")
        how = "" if self.how == "random" else f"{self.how}:"
        return f"{how}{';'.join(words)}{'' if self.when == '1' else f'@{self.when}'}"


def _word(part: FaultSetTerm, amount: float) -> str:
    """Return one part of a description."""
    kind, colon, value = part.block.partition(":")
    names = {kind: short for short, kind in SHORT.items()}
    shown = amount if part.lifetime is None else f"mttf:{part.lifetime.name}"
    return f"{kind or names.get(part.kind, part.kind)}={shown}{colon}{value}{part.argument}"


# --- reading a description ---------------------------------------------------------------------------------------------


def is_fault_set(text: str) -> bool:
    """Return whether a fault of a scenario describes a set instead of one fault."""
    return text.partition(":")[0] in STRATEGIES


def parse_fault_sets(text: str, field: str = "faults") -> list[FaultSetSpec]:
    """Return the fault sets of a description, by ascending number of faults.

    There is one set, or one per choice if the description has ranges. A number may be a range, `nodes=0..4` or
    `nodes<=4`. `any<=2` is every combination of up to two nodes and links. Raises ScenarioError (with `field`) for an
    invalid description.
    """
    how, colon, rest = text.partition(":")
    if not colon or "=" in how or how not in STRATEGIES:
        if colon and "=" not in how:
            raise ScenarioError(field, text, f"unknown strategy {how!r}; expected one of: {', '.join(STRATEGIES)}")
        how, rest = "random", text
    body, at, when = rest.rpartition("@")
    body, when = (body, when) if at else (rest, "1")
    if how == "process":
        # Without an end a process goes on as long as the run; from time 0 on is from the beginning.
        when = when.removesuffix("-")
        when = "1" if re.fullmatch("0+(ns|us|ms|s)", when) else when
    require_dash(field, text, when)
    if not WHEN.fullmatch(when) or "@" in body:
        raise ScenarioError(field, text, f"write {FORM}; WHEN is given once, at the end")
    fault_set = FaultSetSpec(how, (), when)
    repair = _repair(body, text, field) if how == "process" else None
    choices: list[list[tuple[FaultSetTerm, ...]]] = []
    for word in body.split(";"):
        if word == "sources":
            fault_set = replace(fault_set, sources=True)
        elif word.startswith("repair=") and how == "process":
            if repair is not None:
                fault_set = replace(fault_set, repair=repair.rate, repair_time=repair.lifetime)
        elif word.startswith("victim="):
            fault_set = replace(fault_set, victim=word.removeprefix("victim="))
        else:
            choices.append(_choices(word, how, text, field, repair))
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
    seen: set[tuple[str, str, str]] = set()
    when = read_when(fault_set.when)
    if when is None or (when[1] is not None and when[1] < when[0]):
        raise ScenarioError(
            field, text, f"invalid step or interval @{fault_set.when}; steps count from 1, as in @2 or @2-5"
        )
    if fault_set.how == "worst" and fault_set.sources:
        raise ScenarioError(field, text, "without its source nothing is sent, so 'worst' always spares it")
    if fault_set.in_blocks and (fault_set.how not in OF_BLOCKS or not all(part.block for part in fault_set.parts)):
        reason = f"blocks are drawn by {', '.join(OF_BLOCKS)}, and not together with single nodes and links"
        raise ScenarioError(field, text, reason)
    for part in fault_set.parts:
        key = part.kind, part.argument, part.block
        if key in seen:
            name = _word(part, 0).partition("=")[0]
            raise ScenarioError(field, text, f"{name!r} is repeated; give one part with the total number")
        seen.add(key)
        if fault_set.how == "process":
            _require_process(fault_set, part, when, text, field)
        elif when[1] is not None and "last" not in field_names(KINDS[part.kind]):
            first = fault_set.when.partition("-")[0]
            raise ScenarioError(field, text, f"{part.kind!r} happens in one step and has no end; write @{first}")


def _require_process(fault_set: FaultSetSpec, part: FaultSetTerm, when: When, text: str, field: str) -> None:
    """Refuse other kinds of faults, and steps beside times."""
    forms = "such as process:nodes=0.01;repair=0.2, or process:nodes=mttf:2s;repair=mttr:200ms"
    if part.kind not in ("crash", "down"):
        raise ScenarioError(field, text, f"a process has nodes or links, {forms}")
    in_time = {other.lifetime is not None for other in fault_set.parts}
    if fault_set.when != "1":
        in_time.add(isinstance(when[0], Moment))
    if fault_set.repair or fault_set.repair_time:
        in_time.add(fault_set.repair_time is not None)
    if len(in_time) > 1:
        raise ScenarioError(field, text, f"a process has either steps or times, {forms}")


def _require_argument(kind: str, argument: str, word: str, text: str, field: str) -> None:
    """Refuse a missing or invalid value after the number.

    A value of a kind that takes none is refused too.
    """
    if kind in REPAIRS:
        raise ScenarioError(field, text, f"{kind!r} repairs what has failed, and a set of faults only breaks things")
    value = next(iter(value_names(KINDS[kind])), None)
    if value is None:
        if argument:
            raise ScenarioError(field, text, f"{kind!r} takes no value, so {argument!r} in {word!r} has no meaning")
        return
    if not argument:
        raise ScenarioError(
            field, text, f"{kind!r} needs a value after the number, such as {word}:{example_value(value)}"
        )
    try:
        read_value(value, text, argument.removeprefix(":"))
    except ScenarioError as error:
        raise ScenarioError(field, text, f"in {word!r}: {error.allowed}") from None


def _choices(word: str, how: str, text: str, field: str, repair: Mean | None = None) -> list[tuple[FaultSetTerm, ...]]:
    """Return the terms that one part may stand for.

    `repair` is the repair of a process.
    """
    match = PART.fullmatch(word)
    if match is None:
        raise ScenarioError(field, text, f"invalid part {word!r}; write {FORM}")
    what, amount, argument = match["what"], match["amount"], match["argument"] or ""
    kind, block = SHORT.get(what, what), ""
    if what in BLOCK_KINDS:
        kind, block, argument = _block(what, argument.removeprefix(":"), text, field)
    elif what != "any" and kind not in KINDS:
        allowed = [*SHORT, *(name for name in KINDS if name not in REPAIRS), *BLOCK_KINDS]
        meant = did_you_mean(what, allowed, word.removeprefix(what))
        raise ScenarioError(field, text, f"{meant}{what!r} is not among: any, {', '.join(allowed)}; {PLUGIN_HINT}")
    elif what != "any":
        # The value of a process is a mean, such as `mttf:2s`, and not the value of a kind of fault.
        if how != "process":
            _require_argument(kind, argument, word, text, field)
    elif argument or how in BY_SHARE:
        raise ScenarioError(field, text, "'any' is every combination of nodes and links, such as any=2 or any<=2")
    if how == "process":
        term = FaultSetTerm(kind, block=block)
        return [(_failing(term, f"{amount}{argument}", repair, text, field),)]
    if how in BY_SHARE:
        return [(FaultSetTerm(kind, share=_share(amount, text, field), argument=argument, block=block),)]
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
    return [(FaultSetTerm(kind, count, argument=argument, block=block),) for count in range(first, last + 1)]


def _failing(term: FaultSetTerm, amount: str, repair: Mean | None, text: str, field: str) -> FaultSetTerm:
    """Return the term of a process whose elements fail at a rate per step, or after a mean time or number of steps."""
    if ":" not in amount:
        return replace(term, share=_share(amount, text, field))
    try:
        failure = Mean.read(amount, ("mttf", "mtbf")).without(repair)
    except ValueError as error:
        raise ScenarioError(field, text, str(error)) from None
    return replace(term, share=failure.rate, lifetime=failure.lifetime)


def _repair(body: str, text: str, field: str) -> Mean | None:
    """Return the mean time or number of steps to a repair.

    None if nothing is repaired.
    """
    words = [word.removeprefix("repair=") for word in body.split(";") if word.startswith("repair=")]
    if len(words) > 1:
        raise ScenarioError(field, text, "'repair' is repeated; it holds for all parts")
    if words and ":" not in words[0]:
        rate = _share(words[0], text, field)
        return Mean(1 / Fraction(str(rate)), timed=False) if rate else None
    try:
        return Mean.read(words[0], ("mttr",)) if words else None
    except ValueError as error:
        raise ScenarioError(field, text, str(error)) from None


def _block(name: str, argument: str, text: str, field: str) -> tuple[str, str, str]:
    """Return the kind of fault, the block and the argument of a part that names a kind of block."""
    kind = BLOCK_KINDS[name]
    try:
        value = kind.read(argument)
    except ValueError as error:
        raise ScenarioError(field, text, str(error)) from None
    return "down" if kind.on_links else "crash", f"{name}:{value}" if value else name, ""


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
