"""Which nodes a run cut off, and which fault did it."""

from collections.abc import Sequence
from dataclasses import dataclass

from coordinator.faults import parse_fault
from coordinator.measure import Measurement
from coordinator.plan import Plan
from emunode.fault import Recover

LISTED_NODES = 100
"""Nodes that a summary names; the others are only counted."""


@dataclass(frozen=True)
class CutOff:
    """The nodes that were cut off."""

    nodes: Sequence[tuple[str, str | None]]
    """(label, the fault that cut it off), the first LISTED_NODES; None where the cause cannot be determined."""
    count: int

    def record(self) -> dict[str, object]:
        """The keys of summary.json."""
        return {
            "cut_off": [{"label": label, "because": because} for label, because in self.nodes],
            "cut_off_count": self.count,
        }


def cut_off(plan: Plan, measurement: Measurement) -> CutOff:
    """The healthy nodes that miss something, each with the fault that did it."""
    ranks = measurement.cut_off
    breaking = [spec for spec in plan.scenario.fault if _breaks(plan, spec)]
    only = breaking[0] if len(breaking) == 1 else None
    return CutOff([(plan.topology.label(rank), only) for rank in ranks[:LISTED_NODES]], len(ranks))


def _breaks(plan: Plan, spec: str) -> bool:
    """Whether a fault can cost anybody anything."""
    return any(fault.breaks and not isinstance(fault, Recover) for fault in parse_fault(spec, plan.topology))
