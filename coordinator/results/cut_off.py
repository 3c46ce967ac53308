"""The nodes that a run cut off, with the responsible faults."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coordinator.planning.plan import Plan
from coordinator.results.claims import broken_root
from coordinator.results.metrics import Measurement
from coordinator.theory.dependence.losses import losses
from coordinator.theory.dependence.outages import Outages, outages_of
from emunode.algorithms.base import Dependence
from emunode.faults.effects import Place
from emunode.faults.kinds import Fault, Moment
from emunode.faults.timeline import FaultTimeline
from emunode.model import Rank

LISTED_NODES = 100
"""Most nodes that a summary lists; further ones are only counted."""


@dataclass(frozen=True)
class CutOff:
    """The nodes that were cut off."""

    nodes: Sequence[tuple[str, str | None]]
    """(label, responsible faults) of the first LISTED_NODES; None where the faults cannot be determined."""
    count: int
    missing: Sequence[str] | None = None
    """The labels of the first LISTED_NODES whose contributions the result with the fewest lacks; None where nothing is
    counted."""

    def record(self) -> dict[str, object]:
        """Return the keys of the unreachable nodes in summary.json."""
        return {
            "cut_off": [{"label": label, "because": because} for label, because in self.nodes],
            "cut_off_count": self.count,
            **({} if self.missing is None else {"missing_contributions": list(self.missing)}),
        }


def cut_off(plan: Plan, measurement: Measurement, *, ended: bool = False) -> CutOff:
    """Return the healthy nodes that miss a message, each with the responsible faults.

    A run that `ended` early has not served them yet, so no fault is to blame.
    """
    ranks, label = measurement.cut_off, plan.topology.label
    counted = "least_contributions" in measurement.metrics
    missing = [label(rank) for rank in measurement.missing[:LISTED_NODES]] if counted else None
    if not ranks:
        return CutOff((), 0, missing)
    because = (lambda _: None) if ended else _cause(plan, measurement)
    return CutOff([(label(rank), because(rank)) for rank in ranks[:LISTED_NODES]], len(ranks), missing)


def faults_without_effect(plan: Plan) -> list[str]:
    """Return the faults of the scenario that begin after the last step and so have no effect."""
    effective = set(plan.judged.effective_faults)
    return [text for text, faults in plan.faults_by_text.items() if effective.isdisjoint(faults)]


def _cause(plan: Plan, measurement: Measurement) -> Callable[[Rank], str | None]:
    """Return a function from a rank to the faults that blocked its paths; None where they cannot be determined."""
    stated = plan.faults_by_text
    # A fault that begins after the last step, cannot cost a delivery or only slows down is no cause.
    began = {fault for fault in plan.judged.effective_faults if _began(fault, measurement)}
    breaking = [text for text, faults in stated.items() if any(map(_breaks, began.intersection(faults)))]
    single = len(breaking) == 1 and not any(fault.slows for fault in began)
    if single and not plan.algorithm.traits.negative_control:
        # An algorithm that serves every node without faults, and one fault: nothing else is different.
        return lambda _: breaking[0]
    outages = plan.judged.outages
    # The blame follows from the schedule only where losses are exact.
    exact = plan.algorithm.dependence is not Dependence.QUEUED and plan.exact_steps
    if outages is None or not (exact or outages.permanent) or broken_root(plan):
        return lambda _: None
    lost = losses(plan.algorithm, outages)
    if lost is None:
        return lambda _: None
    texts: dict[Place, list[str]] = {}
    for text in breaking:
        for fault in stated[text]:
            # The losses name places. Each fault by itself gives the places that it puts out of service, and these lead
            # back to the fault as the user wrote it.
            alone = outages_of(FaultTimeline([fault]), (), plan.topology, plan.spec.seed) or Outages()
            for place in alone.places:
                texts.setdefault(place, []).append(text)

    def because(rank: Rank) -> str | None:
        places = lost.causes.get(rank, ())
        named = {text for place in places for text in texts.get(place, ())}
        # In the order of the scenario.
        return ", ".join(text for text in breaking if text in named) or None

    return because


def _began(fault: Fault, measurement: Measurement) -> bool:
    """Return whether a fault began before the run ended; of a fault at a time it is not known."""
    steps = measurement.metrics["steps"]
    return isinstance(fault.step, Moment) or not isinstance(steps, int) or fault.step <= steps


def _breaks(fault: Fault) -> bool:
    """Return whether a fault can cost a delivery."""
    return fault.breaks and not fault.revives
