"""Fault specifications: text to the frozen records that engines apply.

`KIND:WHERE[:VALUE][@STEP[-STEP]]`. WHERE is a label, or for a link `A~B` (both directions) or `A>B` (from A to B). Labels do
not contain `:`, `@`, `~` or `>`. Steps count from 1, and an interval includes both ends. The fields of the record of a kind
determine its values: `rate` is a number from 0 to 1, any other a whole number. Its `form` determines whether the step is
optional; without a step, the fault begins in step 1.
"""

import re
from collections.abc import Iterable, Mapping
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
    value_names,
)
from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology

NUMBER = re.compile("[1-9][0-9]{0,8}")
LEAST_RATE: Final = Decimal(2) ** -53
"""Random numbers in [0, 1) have 53 bits, so a smaller rate would occur more often than it states."""
RATE = re.compile("[0-9]*[.]?[0-9]+(e-?[0-9]{1,3})?")
LINK = re.compile("([^~>]*)([~>])([^~>]*)")


def parse_fault(spec: str, topology: Topology) -> tuple[Fault, ...]:
    """The records of one specification, one per direction of a link; ScenarioError describes what is invalid."""
    kind, colon, rest = spec.partition(":")
    if "=" in kind:
        raise ScenarioError("fault", spec, f"a fault is written KIND:WHERE@STEP, a set of random faults random:{spec}")
    if not colon or kind not in KINDS:
        raise ScenarioError("fault", spec, f"it is KIND:WHERE@STEP with KIND one of: {', '.join(KINDS)}")
    record = KINDS[kind]
    where, at, when = rest.rpartition("@") if "@" in rest else (rest, "", "")
    values: dict[str, object] = dict(_when(spec, record, when if at else None, topology))
    for name in value_names(record):
        where, _, text = where.partition(":")
        values[name] = read_value(name, spec, text)
    if issubclass(record, NodeFault):
        return (record(rank=_rank(spec, where, topology), **values),)  # type: ignore[arg-type]
    return tuple(
        record(sender=sender, port=port, **values)  # type: ignore[call-arg,arg-type]
        for sender, port in _link(spec, record, where, topology)
    )


def parse_faults(specs: Iterable[str], topology: Topology) -> tuple[Fault, ...]:
    """All faults of a scenario in the order in which they take effect; ScenarioError if two contradict each other."""
    parsed = [(fault, spec) for spec in specs for fault in parse_fault(spec, topology)]
    spec_of = {id(fault): spec for fault, spec in parsed}
    faults = in_order(fault for fault, _ in parsed)
    _require_node_states(faults, spec_of)
    _require_link_states(faults, spec_of)
    return faults


def forms() -> list[dict[str, object]]:
    """Every kind of fault with its name, syntax and meaning."""
    return [
        {"kind": kind, "written": record.form, "meaning": (record.__doc__ or "").strip().splitlines()[0]}
        for kind, record in KINDS.items()
    ]


def _when(spec: str, record: type[Fault], when: str | None, topology: Topology) -> Mapping[str, Step]:
    """The first step of a fault, and the last if one is given."""
    kind, here = spec.partition(":")[0], topology.label(0)
    if when is None and "[@" in record.form:
        return {"step": 1}
    first, dash, last = (when or "").partition("-")
    if not NUMBER.fullmatch(first):
        where = here if issubclass(record, NodeFault) else f"{here}~{topology.label(topology.neighbour(0, 0))}"
        example = "".join([kind, ":", where, *(f":{example_value(name)}" for name in value_names(record))])
        raise ScenarioError("fault", spec, f"it needs a step as @STEP, counted from 1, such as {example}@2")
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
        raise ScenarioError("fault", spec, f"its rate must be a number from 0 (never) to 1 (always), got {text!r}")
    require_drawable(Decimal(text), "fault", spec)
    return float(text)


def require_drawable(rate: Decimal, field: str, value: str) -> None:
    """Refuse a positive rate below the resolution of the random numbers that it is compared with."""
    if 0 < rate < LEAST_RATE:
        raise ScenarioError(field, value, f"{rate} is too small to be drawn: a rate is 0, or at least 2^-53 (1.12e-16)")


def _count(what: str, spec: str, text: str) -> int:
    if not NUMBER.fullmatch(text):
        raise ScenarioError("fault", spec, f"its {what} must be a whole number of at least 1, got {text!r}")
    return int(text)


MEANINGS = {"steps": "number of steps", "packet": "number of the packet"}
"""The names of the whole numbers of built-in kinds in messages; others go by the name of their field."""
EXAMPLES = {"rate": "0.2", "packet": "3"}


def read_value(name: str, spec: str, text: str) -> float | int:
    """The value of the field `name` from its text; ScenarioError if it is invalid."""
    return _rate(spec, text) if name == "rate" else _count(MEANINGS.get(name, name), spec, text)


def example_value(name: str) -> str:
    """A valid text for the field `name`."""
    return EXAMPLES.get(name, "2")


def _rank(spec: str, label: str, topology: Topology) -> Rank:
    try:
        return topology.rank(label)
    except ScenarioError as error:
        raise ScenarioError("fault", spec, f"there is no node {label!r}: {error.allowed}") from None


def _link(spec: str, record: type[Fault], where: str, topology: Topology) -> Iterable[tuple[Rank, Port]]:
    """(sender, port) of each direction that a link specification means."""
    match = LINK.fullmatch(where)
    if not match:
        raise ScenarioError("fault", spec, f"it names a link as A~B, both ways, or A>B, one way: {record.form}")
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


def _require_node_states(faults: Iterable[Fault], spec_of: Mapping[int, str]) -> None:
    """Refuse a crash or hang of a crashed node, and a recovery of a node that has not crashed."""
    crashed: dict[Rank, Step] = {}
    for fault in faults:
        match fault:
            case Crash(rank=rank) | Hang(rank=rank) if rank in crashed:
                raise ScenarioError("fault", spec_of[id(fault)], "this node has crashed already")
            case Crash(step=step, rank=rank):
                crashed[rank] = step
            case Recover(step=step, rank=rank) if crashed.get(rank, step) >= step:
                raise ScenarioError("fault", spec_of[id(fault)], "this node has not crashed before that step")
            case Recover(rank=rank):
                del crashed[rank]


def _require_link_states(faults: Iterable[Fault], spec_of: Mapping[int, str]) -> None:
    """Refuse an `up` of a link that is not down. `up` ends every interval of `down` that has begun."""
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
            raise ScenarioError("fault", spec, "this link is not down in that step")
