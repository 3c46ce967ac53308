"""Liveness: once the faults have stopped changing, everything due finishes within a bound, or the run says what waits.

A run *settles* as soon as the last fault has begun or ended. From there on

* reliable links send each segment that is on its way again within their longest time-out. After that they lose nothing
  more, so the collective ends no later than if it began anew;
* a node under a rule of repair that asks has asked each of its ports one after the other, and gets the segment from
  the neighbour that healthy nodes and links connect to the source;
* nodes that shrink notice the last failure after K steps, agree within the steps of the agreement, and run again.

Sometimes nothing can be promised, for example where a crashed node forgot what others wait for. Then the run still names
each waiting rule and what it waits for (`journals.waits`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from coordinator.annexes import annex_function
from coordinator.features import journals
from coordinator.features.base import Evidence, Feature, Findings, Metric, ResolvedRun
from coordinator.features.options import LivenessOptions
from coordinator.scenario.fault_ends import ended
from coordinator.scenario.model import Scenario
from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import LIVENESS, Assumption, Claim
from emunode.errors import ScenarioError
from emunode.faults.effects import ALWAYS
from emunode.faults.kinds import Moment
from emunode.faults.timeline import FaultTimeline
from emunode.model import CollectiveSpec
from emunode.terminal import first_of
from emunode.timed.cost_model import NANO
from emunode.topologies.base import Topology

SOURCE: Final = "liveness"
SHOWN_NODES: Final = 12
"""Most nodes that a line lists."""


def ended_by_option(scenario: Scenario, topology: Topology, specs: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of faults, with the end that the option names.

    Without the option they stay as they are.
    """
    at = LivenessOptions.of(scenario).heal_at
    return tuple(specs if at is None else ended(specs, topology, at))


class LivenessFeature(Feature):
    """The end of runs whose nodes get what faults have kept from them."""

    name = "liveness"
    metrics = frozenset(LIVENESS)
    judged_anyway = metrics

    def is_active(self, spec: CollectiveSpec) -> bool:
        return spec.reliable is not None or spec.asks or (spec.agreement is not None and spec.agreement.shrink)

    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        del scenario, topology
        return spec

    def require(self, scenario: Scenario, algorithm: Algorithm) -> None:
        at = LivenessOptions.of(scenario).heal_at
        if at is None:
            return
        if not self.is_active(algorithm.spec):
            reason = "no node would send again what is lost; add --reliable, --repair RULE or --on-failure shrink"
            raise ScenarioError("heal_at", at, reason)
        if isinstance(at, str) and scenario.clock != "timed":
            raise ScenarioError("heal_at", at, "in lock-step a step, counted from 1")

    def claims(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[Claim]:
        if not timeline or timeline.opaque:
            return
        bound = promise(run)
        if bound is None:
            return
        assumes = frozenset({Assumption.NO_WRONG_SUSPICION})
        yield Claim("waiting_nodes", 0, "==", f"{SOURCE}: {bound.why}", assumes=assumes)
        unit = "seconds" if bound.seconds else "steps"
        most = bound.most / NANO if bound.seconds else bound.most
        yield Claim(
            f"settling_{unit}", most, "<=", f"{SOURCE}: {bound.formula}", derived=bound.derived, assumes=assumes
        )

    def measure(self, run: ResolvedRun, evidence: Evidence) -> Findings:
        if not run.faults:
            return Findings()
        metrics: dict[str, Metric] = {"waiting_nodes": len(evidence.unserved)}
        calm = calm_from(run)
        last = journals.waits.settled_at(run, evidence)
        if calm is not None and last is not None:
            if calm.seconds:
                metrics["settling_seconds"] = max(0, last - calm.start) / NANO
            else:
                # The step when the faults are over is the first one of the rest.
                metrics["settling_steps"] = max(0, last - calm.start + 1)
        found = journals.waits.waits(run, evidence) if evidence.unserved and evidence.explained else ()
        return Findings(metrics, {"waiting": [each.record() for each in found]} if found else {})

    def lines(self, run: ResolvedRun, summary: Mapping[str, Any]) -> Iterator[str]:
        """Yield the rules that wait at the end of a run, each with what it waits for."""
        for each in summary.get("waiting", ()):
            nodes = first_of(each["nodes"], SHOWN_NODES)
            yield f"waiting: {nodes} (rule {each['rule']}) for {each['for']}: {each['because']}"


# --- the time without changes ------------------------------------------------------------------------------------------


class LastFaultChange(NamedTuple):
    """The time when the last fault has begun or ended."""

    start: int
    seconds: bool
    """Whether `start` is in nanoseconds, and not a step."""


def calm_from(run: ResolvedRun) -> LastFaultChange | None:
    """Return the time of the last change of a run's faults.

    None under the timed clock for faults in steps.
    """
    timeline = timeline_of(run)
    if timeline is None or timeline.opaque:
        return None
    changes = [
        moment
        for spells in timeline.spells.values()
        for interval, *_ in spells
        for moment in (interval.start, interval.end)
        if moment < ALWAYS
    ]
    return LastFaultChange(max(changes, default=0), run.scenario.clock == "timed")


def timeline_of(run: ResolvedRun) -> FaultTimeline | None:
    """Return the effects of the faults in the unit of the clock.

    None for faults in steps under the timed clock.
    """
    if run.scenario.clock != "timed":
        return run.judged.timeline
    faults = tuple(run.translated) or run.faults
    # From the very beginning on is the same in both units.
    if all(isinstance(fault.step, Moment) or (fault.step == 1 and fault.interval.is_endless) for fault in faults):
        return FaultTimeline(faults)
    return None


# --- what is promised --------------------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """The time that everything due takes to arrive once the faults are over, and why."""

    most: int
    """Steps, or nanoseconds."""
    why: str
    formula: str
    seconds: bool = False
    derived: bool = False


def promise(run: ResolvedRun) -> Bound | None:
    """Return the bound of a run with faults.

    None if nothing is promised.
    """
    spec = run.spec
    if spec.agreement is not None:
        after_agreement: Bound | None = annex_function("time of an agreement")(run)
        return after_agreement
    if spec.asks:
        after_requests: Bound | None = annex_function("time of a repair by requests")(run)
        return after_requests
    over_links: Bound | None = annex_function("time over reliable links")(run)
    return over_links
