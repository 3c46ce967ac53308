"""Fault specifications: text to the frozen records that engines apply.

`KIND:WHERE[:VALUE][@WHEN]`. WHERE is a label, or for a link `A~B` (both directions), `A>B` (from A to B) or `*` (all
links). Labels do not contain `:`, `@`, `~`, `>` or `*`. WHEN is a step or an interval of steps (counted from 1, both
ends included); or, under the timed clock, a time such as 3.5ms or an interval such as 5ms-9ms (without its end). The
fields of the record of a kind determine its values: the names in `REALS` stand for real numbers, all others for whole
numbers. Its `form` determines whether WHEN is optional; without it, the fault begins in step 1, at time 0.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Final

from emunode.errors import PLUGIN_HINT, ScenarioError, did_you_mean
from emunode.faults.effects import Ends, Stops
from emunode.faults.kinds import (
    FOREVER,
    KINDS,
    REALS,
    Fault,
    LinkFault,
    Moment,
    NodeFault,
    field_names,
    in_order,
    stated,
    value_names,
)
from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology

NUMBER = re.compile("[1-9][0-9]{0,8}")
LEAST_RATE: Final = Decimal(2) ** -53
"""Random numbers in [0, 1) have 53 bits, so a smaller rate would occur more often than it states."""
RATE = re.compile("[0-9]*[.]?[0-9]+(e-?[0-9]{1,3})?")
REAL = re.compile("-?[0-9]*[.]?[0-9]+(e-?[0-9]{1,3})?")
LINK = re.compile("([^~>]*)([~>])([^~>]*)")
EVERY_LINK = "*"
ON_LINKS = {"slow": "slow-link"}
"""Kinds of node faults that are also written for links, with the kind that this means there."""
TIME = re.compile("([0-9]{1,12}(?:[.][0-9]{1,12})?)(ns|us|ms|s)")
NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
MOST_TIME: Final = 10**18
"""The latest time of a fault, in nanoseconds: 1e9 s, as for other durations."""
When = tuple[Step, Step | None]
"""The beginning of a fault and, if one is given, its end: steps, or times as `Moment`."""


def parse_fault(spec: str, topology: Topology) -> tuple[Fault, ...]:
    """Return the records of one specification, one per direction of a link; ScenarioError describes the mistake."""
    kind, colon, rest = spec.partition(":")
    if "=" in kind:
        raise ScenarioError("fault", spec, f"a fault is written KIND:WHERE@STEP, a set of random faults random:{spec}")
    if not colon or kind not in KINDS:
        meant = did_you_mean(kind.lower(), KINDS, colon + rest)
        known = f"it is KIND:WHERE@STEP with KIND one of: {', '.join(KINDS)}"
        raise ScenarioError("fault", spec, f"{meant}{known}; {PLUGIN_HINT}")
    where, at, when = rest.rpartition("@") if "@" in rest else (rest, "", "")
    if kind in ON_LINKS and re.search("[~>*]", where):
        kind = ON_LINKS[kind]
    record = KINDS[kind]
    values: dict[str, object] = dict(_when(spec, record, when if at else None, topology))
    for name in value_names(record):
        where, _, text = where.partition(":")
        values[name] = read_value(name, spec, text)
    if issubclass(record, NodeFault):
        return (record(rank=_rank(spec, where, topology), text=spec, **values),)  # type: ignore[arg-type]
    return tuple(
        record(sender=sender, port=port, text=spec, **values)  # type: ignore[call-arg,arg-type]
        for sender, port in _link(spec, record, where, topology)
    )


def parse_faults(specs: Iterable[str], topology: Topology, *, timed: bool = False) -> tuple[Fault, ...]:
    """Return all faults of a scenario in the order of their effects; ScenarioError if two contradict each other.

    Faults that have times, or change nothing but times, need the timed clock.
    """
    parsed = [fault for spec in specs for fault in parse_fault(spec, topology)]
    for fault in parsed:
        if not timed and (fault.slows or isinstance(fault.step, Moment)):
            needs = "it changes nothing but times" if fault.slows else "it is given by a time"
            raise ScenarioError("fault", fault.text, f"{needs}, and lock-step counts steps: use --clock timed")
    faults = in_order(parsed)
    _require_one_unit(faults)
    _require_node_states(faults)
    _require_link_states(faults)
    return faults


def forms() -> list[dict[str, object]]:
    """Return every kind of fault with its name, syntax and meaning."""
    return [{"kind": kind, "written": record.form, "meaning": meaning_of(record)} for kind, record in KINDS.items()]


def meaning_of(record: type[Fault]) -> str:
    """Return the first line of the docstring of a kind, with the names of its syntax in place of the names of its
    fields.

    The syntax `loss:A~B:RATE[@STEP[-STEP]]` calls the fields `rate` and `step` RATE and STEP.
    """
    moment = "TIME" if "@TIME" in record.form else "STEP"
    written = re.split(r"\[?@", record.form)[0].split(":")[2:]
    names = {"rank": "LABEL", "step": moment, "last": f"the last {moment}"}
    names |= dict(zip(value_names(record), written, strict=False))
    text = (record.__doc__ or "").strip().splitlines()[0]
    return re.sub("`([a-z_]+)`", lambda name: names.get(name[1], name[0]), text)


def read_when(text: str) -> When | None:
    """Return the beginning and the end in a text such as 3, 3-7, 3.5ms or 5ms-9ms; None for anything else."""
    first, dash, last = text.partition("-")
    begin, end = _moment(first), _moment(last) if dash else None
    same_unit = not dash or (end is not None and isinstance(begin, Moment) == isinstance(end, Moment))
    return (begin, end) if begin is not None and same_unit else None


def require_dash(field: str, spec: str, when: str) -> None:
    """Refuse an interval that is written like a range of numbers, 1..4."""
    if read_when(written := when.replace("..", "-")) and written != when:
        raise ScenarioError(field, spec, f"an interval is written with a dash: @{written}")


def _moment(text: str) -> Step | None:
    """Return a step, or a time in nanoseconds."""
    if NUMBER.fullmatch(text):
        return int(text)
    time = read_time(text)
    return None if time is None else Moment(time)


def read_time(text: str) -> int | None:
    """Return the nanoseconds of a text such as 3.5ms, at most MOST_TIME; None for anything else."""
    match = TIME.fullmatch(text)
    if match is None:
        return None
    time = round(Decimal(match[1]) * NANOSECONDS[match[2]])
    return time if time <= MOST_TIME else None


def write_time(nanoseconds: int) -> str:
    """Write a number of nanoseconds as a text that `read_time` reads."""
    unit = next(unit for unit, size in NANOSECONDS.items() if nanoseconds >= size or size == 1)
    return f"{(Decimal(nanoseconds) / NANOSECONDS[unit]).normalize():f}{unit}"


def _when(spec: str, record: type[Fault], when: str | None, topology: Topology) -> Mapping[str, Step]:
    """Return the beginning of a fault, and the end if one is given."""
    kind, here = spec.partition(":")[0], topology.label(0)
    # A set of faults states the first step also for kinds that have none.
    if when is None or when == "1":
        if "@STEP" not in record.form or when or "[@" in record.form:
            return {"step": 1}
    elif "@" not in record.form:
        raise ScenarioError("fault", spec, f"it is in force all the time and has no step: {record.form}")
    found = read_when(when or "")
    require_dash("fault", spec, when or "")
    first, dash, _ = (when or "").partition("-")
    if found is None and dash and read_when(first):
        meant = "it lasts from one step to another, both included, or from one time to another"
        raise ScenarioError("fault", spec, f"{meant}, such as @{first}-{first if first.isdigit() else '1s'}")
    if found is None:
        where = here if issubclass(record, NodeFault) else f"{here}~{topology.label(topology.neighbour(0, 0))}"
        example = "".join([kind, ":", where, *(f":{example_value(name)}" for name in value_names(record))])
        raise ScenarioError(
            "fault",
            spec,
            f"it needs a step as @STEP, counted from 1, such as {example}@2, or a time such as {example}@1.5ms",
        )
    begin, end = found
    if end is None:
        # From the very beginning on: the same in steps.
        return {"step": 1 if isinstance(begin, Moment) and not begin else begin}
    if "last" not in field_names(record):
        remedy = f"; recover:{here}@{when.partition('-')[2]} ends a crash" if record is KINDS["crash"] and when else ""
        raise ScenarioError("fault", spec, f"it happens in one step and has no end: {record.form}{remedy}")
    if isinstance(begin, Moment):
        if end <= begin:
            raise ScenarioError("fault", spec, "it has to end after it begins")
    elif end < begin:
        raise ScenarioError("fault", spec, f"it ends in step {end}, before it begins in step {begin}")
    return {"step": begin, "last": end}


def _rate(spec: str, text: str) -> float:
    if not RATE.fullmatch(text) or float(text) > 1:
        raise ScenarioError("fault", spec, f"its rate must be a number from 0 (never) to 1 (always), got {text!r}")
    require_drawable(Decimal(text), "fault", spec)
    return float(text)


def require_drawable(rate: Decimal, field: str, value: str) -> None:
    """Refuse a positive rate below the resolution of the random numbers that it is compared with."""
    if 0 < rate < LEAST_RATE:
        raise ScenarioError(field, value, f"{rate} is too small to be drawn: a rate is 0, or at least 2^-53 (1.11e-16)")


def _real(name: str, spec: str, text: str) -> float:
    lowest, highest = REALS[name]
    if not REAL.fullmatch(text) or not lowest <= float(text) <= highest:
        raise ScenarioError("fault", spec, f"its {name} must be a number from {lowest:g} to {highest:g}, got {text!r}")
    return float(text)


def _count(what: str, spec: str, text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise ScenarioError("fault", spec, f"its {what} must be a whole number of at least 1, got {text!r}")
    return int(text)


MEANINGS = {"steps": "number of steps", "packet": "number of the packet"}
"""The names of the whole numbers of built-in kinds in messages; others go by the name of their field."""
EXAMPLES = {"rate": "0.2", "packet": "3", "factor": "3", "spread": "0.1", "drift": "0.01"}


def read_value(name: str, spec: str, text: str) -> float | int:
    """Return the value of the field `name` from its text; ScenarioError if it is invalid."""
    if name == "rate":
        return _rate(spec, text)
    return _real(name, spec, text) if name in REALS else _count(MEANINGS.get(name, name), spec, text)


def example_value(name: str) -> str:
    """Return a valid text for the field `name`."""
    return EXAMPLES.get(name, "2")


def _rank(spec: str, label: str, topology: Topology) -> Rank:
    try:
        return topology.rank(label)
    except ScenarioError as error:
        raise ScenarioError("fault", spec, f"there is no node {label!r}: {error.allowed}") from None


def _link(spec: str, record: type[Fault], where: str, topology: Topology) -> Iterable[tuple[Rank, Port]]:
    """Yield (sender, port) of each direction that a link specification means."""
    if where == EVERY_LINK:
        return [(rank, port) for rank in topology.ranks() for port in topology.ports(rank)]
    match = LINK.fullmatch(where)
    if not match:
        raise ScenarioError(
            "fault", spec, f"it names a link as A~B, both ways, or A>B, one way, or * for every link: {record.form}"
        )
    one, other = _rank(spec, match[1], topology), _rank(spec, match[3], topology)
    neighbours = topology.neighbours(one)
    if other not in neighbours:
        labels = ", ".join(topology.label(neighbour) for _, neighbour in topology.adjacent(one))
        raise ScenarioError(
            "fault", spec, f"no link joins {match[1]} and {match[3]}; neighbours of {match[1]}: {labels}"
        )
    port = neighbours.index(other)
    forward = [(one, port)]
    return forward if match[2] == ">" else [*forward, topology.end(one, port)]


def _require_one_unit(faults: Iterable[Fault]) -> None:
    """Refuse faults by steps beside faults by times; a fault that lasts throughout the run is neither."""
    timed = [fault for fault in faults if isinstance(fault.step, Moment)]
    stepped = [
        fault for fault in faults if not isinstance(fault.step, Moment) and (fault.step > 1 or fault.end < FOREVER)
    ]
    if timed and stepped:
        other = timed[0].text
        raise ScenarioError(
            "fault", stepped[0].text, f"it is given by steps and {other!r} by times; use one of them for all"
        )


def _require_node_states(faults: Iterable[Fault]) -> None:
    """Refuse a crash or hang of a crashed node, and a recovery of a node that has not crashed."""
    crashed: dict[Rank, Step] = {}
    for fault in faults:
        if not isinstance(fault, NodeFault):
            continue
        stops = [effect for effect in stated(fault) if isinstance(effect, Stops)]
        if stops and fault.rank in crashed:
            raise ScenarioError("fault", fault.text, "this node has crashed already")
        if any(effect.forgets for effect in stops):
            crashed[fault.rank] = fault.step
        if fault.revives:
            if crashed.get(fault.rank, fault.step) >= fault.step:
                raise ScenarioError("fault", fault.text, "this node has not crashed before that step")
            del crashed[fault.rank]


def _require_link_states(faults: Iterable[Fault]) -> None:
    """Refuse a repair that ends nothing: an `up` of a link that is not down, and a `heal` of a link without any fault."""
    begun: dict[tuple[Rank, Port], list[LinkFault]] = {}
    repairs: dict[str, Ends] = {}
    useful: set[str] = set()
    for fault in faults:
        if not isinstance(fault, LinkFault):
            continue
        there = begun.setdefault(fault.place, [])
        ends = next((effect for effect in stated(fault) if isinstance(effect, Ends)), None)
        if ends is None:
            there.append(fault)
            continue
        repairs[fault.text] = ends
        ended = [other for other in there if ends.effects is None or not set(ends.effects).isdisjoint(stated(other))]
        there[:] = [other for other in there if other not in ended]
        if any(other.step < fault.step and (fault.step <= other.end or other.end == FOREVER) for other in ended):
            useful.add(fault.text)
    for spec, ends in repairs.items():
        if spec not in useful:
            state = "has no fault" if ends.effects is None else "is not down"
            raise ScenarioError("fault", spec, f"this link {state} in that step")
