"""Fault specifications: text to the frozen records that engines apply.

`crash:LABEL@STEP`. Labels may hold any character but `@`, so the step is what follows the last one.
"""

import re
from collections.abc import Iterable

from emunode.errors import ScenarioError
from emunode.fault import KINDS, Crash, Fault
from emunode.topology.base import Topology

STEP = re.compile("[1-9][0-9]{0,8}")


def parse_fault(spec: str, topology: Topology) -> Fault:
    """One fault; ScenarioError names what of it will not do."""
    kind, colon, rest = spec.partition(":")
    if not colon or kind not in KINDS:
        raise ScenarioError("fault", spec, f"it is KIND:WHERE@STEP with KIND one of: {', '.join(KINDS)}")
    where, at, when = rest.rpartition("@")
    if not at or not STEP.fullmatch(when):
        raise ScenarioError(
            "fault", spec, f"it says when as @STEP, counted from 1, such as {kind}:{topology.label(0)}@2"
        )
    try:
        rank = topology.rank(where)
    except ScenarioError as error:
        raise ScenarioError("fault", spec, f"there is no node {where!r}: {error.allowed}") from None
    return Crash(step=int(when), rank=rank)


def parse_faults(specs: Iterable[str], topology: Topology) -> tuple[Fault, ...]:
    """All faults of a scenario in the order in which they take effect."""
    faults = [parse_fault(spec, topology) for spec in specs]
    seen: set[int] = set()
    for fault, spec in zip(faults, specs, strict=True):
        if fault.rank in seen:
            raise ScenarioError("fault", spec, "this node crashes already")
        seen.add(fault.rank)
    return tuple(sorted(faults))
