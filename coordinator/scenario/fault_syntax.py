"""Fault specifications: text to the frozen records that engines apply.

`KIND:WHERE[:VALUE][@STEP[-STEP]]`. WHERE is a label, or for a link `A~B` (both directions) or `A>B` (from A to B). Labels
hold none of `:`, `@`, `~`, `>`. Steps count from 1 and an interval includes both of its ends. What a kind takes is read off
its record: its fields, and in `form` whether it may leave the step out (then it is from step 1 on).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Final

from emunode.errors import ScenarioError
from emunode.faults.kinds import (
    KINDS,
    Crash,
    Down,
    Fault,
    Hang,
    NodeFault,
    Recover,
    Up,
    field_names,
    in_order,
)
from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology

NUMBER = re.compile("[1-9][0-9]{0,8}")
LEAST_RATE: Final = Decimal(2) ** -53
"""Random numbers in [0, 1) have 53 bits: whatever has a smaller rate than this would happen more often than it says."""
RATE = re.compile("[0-9]*[.]?[0-9]+(e-?[0-9]{1,3})?")
LINK = re.compile("([^~>]*)([~>])([^~>]*)")


def parse_fault(spec: str, topology: Topology) -> tuple[Fault, ...]:
    """The records of one specification, one for each direction of a link; ScenarioError names what of it will not do."""
    kind, colon, rest = spec.partition(":")
    if "=" in kind:
        raise ScenarioError("fault", spec, f"one fault is KIND:WHERE@STEP, and a set of them random:{spec}")
    if not colon or kind not in KINDS:
        raise ScenarioError("fault", spec, f"it is KIND:WHERE@STEP with KIND one of: {', '.join(KINDS)}")
    record = KINDS[kind]
    where, at, when = rest.rpartition("@") if "@" in rest else (rest, "", "")
    values: dict[str, object] = dict(_when(spec, record, when if at else None, topology))
    for name, read in VALUES.items():
        if name in field_names(record):
            where, _, text = where.partition(":")
            values[name] = read(spec, text)
    if issubclass(record, NodeFault):
        return (record(rank=_rank(spec, where, topology), **values),)  # type: ignore[arg-type]
    return tuple(
        record(sender=sender, port=port, **values)  # type: ignore[call-arg,arg-type]
        for sender, port in _link(spec, record, where, topology)
    )


def parse_faults(specs: Iterable[str], topology: Topology) -> tuple[Fault, ...]:
    """All faults of a scenario in the order in which they take effect; ScenarioError where one contradicts another."""
    told = [(fault, spec) for spec in specs for fault in parse_fault(spec, topology)]
    spec_of = {id(fault): spec for fault, spec in told}
    faults = in_order(fault for fault, _ in told)
    _require_lives(faults, spec_of)
    _require_links(faults, spec_of)
    return faults


def forms() -> list[dict[str, object]]:
    """Every kind of fault: its name, how it is written, what it means."""
    return [
        {"kind": kind, "written": record.form, "meaning": (record.__doc__ or "").strip().splitlines()[0]}
        for kind, record in KINDS.items()
    ]


def _when(spec: str, record: type[Fault], when: str | None, topology: Topology) -> Mapping[str, Step]:
    """The first step, and the last where one is given."""
    kind, here = spec.partition(":")[0], topology.label(0)
    if when is None and "[@" in record.form:
        return {"step": 1}
    first, dash, last = (when or "").partition("-")
    if not NUMBER.fullmatch(first):
        where = here if issubclass(record, NodeFault) else f"{here}~{topology.label(topology.neighbour(0, 0))}"
        example = "".join(
            [kind, ":", where, *(f":{text}" for name, text in EXAMPLES.items() if name in field_names(record))]
        )
        raise ScenarioError("fault", spec, f"it says when as @STEP, counted from 1, such as {example}@2")
    if not dash:
        return {"step": int(first)}
    if "last" not in field_names(record):
        remedy = f"; recover:{here}@{last} ends a crash" if record is Crash else ""
        raise ScenarioError("fault", spec, f"it happens in one step and has no end: {record.form}{remedy}")
    if not NUMBER.fullmatch(last):
        raise ScenarioError(
            "fault", spec, f"it lasts from one step to another, both included, such as @{first}-{first}"
        )
    if int(last) < int(first):
        raise ScenarioError("fault", spec, f"it ends in step {last}, before it begins in step {first}")
    return {"step": int(first), "last": int(last)}


def _rate(spec: str, text: str) -> float:
    if not RATE.fullmatch(text) or float(text) > 1:
        raise ScenarioError("fault", spec, f"its rate is a number from 0 (never) to 1 (always), and not {text!r}")
    require_drawable(Decimal(text), "fault", spec)
    return float(text)


def require_drawable(rate: Decimal, field: str, value: str) -> None:
    """Refuse a rate that is not 0 and smaller than the grid of the random numbers that it is compared with."""
    if 0 < rate < LEAST_RATE:
        raise ScenarioError(field, value, f"{rate} is too small to be drawn: a rate is 0, or at least 2^-53 (1.12e-16)")


def _count(what: str) -> Callable[[str, str], int]:
    def read(spec: str, text: str) -> int:
        if not NUMBER.fullmatch(text):
            raise ScenarioError("fault", spec, f"its {what} is a whole number of at least 1, and not {text!r}")
        return int(text)

    return read


VALUES: Mapping[str, Callable[[str, str], object]] = {
    "rate": _rate,
    "steps": _count("number of steps"),
    "packet": _count("number of the packet"),
}
"""How the fields of records that are no place and no step are read."""
EXAMPLES = {"rate": "0.2", "steps": "2", "packet": "3"}


def _rank(spec: str, label: str, topology: Topology) -> Rank:
    try:
        return topology.rank(label)
    except ScenarioError as error:
        raise ScenarioError("fault", spec, f"there is no node {label!r}: {error.allowed}") from None


def _link(spec: str, record: type[Fault], where: str, topology: Topology) -> Iterable[tuple[Rank, Port]]:
    """(sender, port) of each direction that is meant."""
    match = LINK.fullmatch(where)
    if not match:
        raise ScenarioError("fault", spec, f"it names a link as A~B, both ways, or A>B, one way: {record.form}")
    one, other = _rank(spec, match[1], topology), _rank(spec, match[3], topology)
    neighbours = topology.neighbours(one)
    if other not in neighbours:
        labels = ", ".join(map(topology.label, neighbours))
        raise ScenarioError(
            "fault", spec, f"no link joins {match[1]} and {match[3]}; neighbours of {match[1]}: {labels}"
        )
    port = neighbours.index(other)
    there = [(one, port)]
    return there if match[2] == ">" else [*there, (other, topology.reverse_port(port))]


def _require_lives(faults: Iterable[Fault], spec_of: Mapping[int, str]) -> None:
    """Who crashes or hangs is alive, and who recovers has crashed before."""
    crashed: dict[Rank, Step] = {}
    for fault in faults:
        match fault:
            case Crash(rank=rank) | Hang(rank=rank) if rank in crashed:
                raise ScenarioError("fault", spec_of[id(fault)], "this node crashes already")
            case Crash(step=step, rank=rank):
                crashed[rank] = step
            case Recover(step=step, rank=rank) if crashed.get(rank, step) >= step:
                raise ScenarioError("fault", spec_of[id(fault)], "this node does not crash before that")
            case Recover(rank=rank):
                del crashed[rank]


def _require_links(faults: Iterable[Fault], spec_of: Mapping[int, str]) -> None:
    """What comes up was down; `up` ends every interval of `down` that has begun."""
    down: dict[tuple[Rank, Port], list[tuple[Step, Step]]] = {}
    idle: dict[str, bool] = {}
    for fault in faults:
        match fault:
            case Down(step=step, sender=sender, port=port, last=last):
                down.setdefault((sender, port), []).append((step, last))
            case Up(step=step, sender=sender, port=port):
                intervals = down.pop((sender, port), [])
                spec = spec_of[id(fault)]
                idle[spec] = idle.get(spec, True) and not any(since < step <= last for since, last in intervals)
    for spec, useless in idle.items():
        if useless:
            raise ScenarioError("fault", spec, "this link is not down then")
