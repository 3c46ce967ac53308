"""Repair: a broadcast goes around faults, by requests of the nodes or by other trees."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coordinator.annexes.repair.options import RepairOptions
from coordinator.features import journals
from coordinator.features.base import BrokenAssumption, Evidence, Feature, Findings, ResolvedRun
from coordinator.features.options import LivenessOptions
from coordinator.scenario.durations import format_duration
from coordinator.scenario.fault_syntax import read_time
from coordinator.scenario.model import OnFailure, Scenario, knowledge_of
from emunode.algorithms.claims import REPAIR, Assumption, Claim
from emunode.annexes import load
from emunode.annexes.repair.rules import PlannedRule, rule_of
from emunode.errors import ScenarioError
from emunode.faults.timeline import FaultTimeline
from emunode.model import CollectiveSpec, FaultKnowledge, Repair
from emunode.terminal import plural
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    import polars as pl

NO_REQUEST = frozenset({Assumption.SENT_ONCE, Assumption.NOTHING_OVERDUE, Assumption.NO_WRONG_SUSPICION})
"""The assumptions of the claim that no node sends a request."""


class RepairFeature(Feature):
    """Requests of nodes for overdue segments, or trees that avoid known faults."""

    name = "repair"
    metrics = frozenset(REPAIR)
    unpredictable = "nodes repair what was lost"

    def is_active(self, spec: CollectiveSpec) -> bool:
        return spec.repair is not None

    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        return spec._replace(repair=repair_of(scenario))

    def claims_without_faults(self, run: ResolvedRun, claims: Sequence[Claim]) -> Iterator[Claim]:
        if run.spec.asks:
            rule = rule_of(run.spec)
            assert rule is not None
            yield Claim("repair_requests", 0, "==", f"{rule.citation}: nothing is overdue", assumes=NO_REQUEST)

    def claims_with_faults(self, run: ResolvedRun) -> Iterator[Claim] | None:
        if not run.spec.asks:
            return None
        # By name: the module builds on the features of liveness, which are registered after this one.
        claims: Iterator[Claim] = load("coordinator.annexes.repair.service:pull_claims")(run)
        return claims

    def broken(self, run: ResolvedRun, timeline: FaultTimeline) -> Iterator[BrokenAssumption]:
        if not run.spec.asks:
            return
        delayed = run.spec.reliable is not None
        if run.goes_by_events and (delayed or run.spec.detection is not None):
            # Late packets may be overdue and requested; the second copy, by another way, is traffic too.
            yield BrokenAssumption(Assumption.SENT_ONCE, "packets that are late may be asked for")
        elif delayed and not run.goes_by_events:
            why = "packets that wait for acknowledgements may be overdue, and what is asked for comes twice"
            yield BrokenAssumption(Assumption.NOTHING_OVERDUE, why, bounds_hold=True)

    def rows(self, run: ResolvedRun) -> "pl.Expr | None":
        return journals.rows.IS_REQUEST

    def measure(self, run: ResolvedRun, evidence: Evidence) -> Findings:
        # By name, as below: polars takes as long to import as a plan.
        measure = load("coordinator.annexes.repair.journal:repair_metrics")
        return Findings(measure(run, evidence.journal, evidence.timetable))

    def lines(self, run: ResolvedRun, summary: Mapping[str, Any]) -> Iterator[str]:
        """Yield the cost of the repair in a run with faults."""
        if run.spec.repair is None or not run.faults:
            return
        asked = (("repair_requests", "request"), ("repairs", "repair")) if run.spec.asks else ()
        counts = [plural(summary[name], noun) for name, noun in asked]
        if "repair_links" in summary:
            counts.append(plural(summary["repair_links"], "further link"))
        extra = summary["extra_segments"]
        counts.append(f"{plural(abs(extra), 'segment')} {'more' if extra >= 0 else 'fewer'}")
        late = ""
        if "recovery_steps" in summary:
            late = plural(summary["recovery_steps"], "step")
        elif "recovery_seconds" in summary:
            late = format_duration(summary["recovery_seconds"])
        recovery = late and f"; last delivery {late} later than without faults"
        yield f"repaired by {run.spec.repair.rule}: {', '.join(counts)}{recovery}"

    def violations(self, run: ResolvedRun, evidence: Evidence) -> "Iterable[pl.LazyFrame]":
        find = load("coordinator.annexes.repair.journal:repair_violations")
        violations: Iterable[pl.LazyFrame] = find(run, evidence.journal, evidence.timetable)
        return violations


def repair_of(scenario: Scenario) -> Repair | None:
    """Return how a scenario is repaired, or None.

    Raises ScenarioError if the settings of repair contradict each other.
    """
    options = RepairOptions.of(scenario)
    after = options.repair_after
    if options.repair is None:
        return None
    if scenario.on_failure is not OnFailure.CONTINUE:
        reason = "a collective is either repaired or run again; leave out --repair or --on-failure"
        raise ScenarioError("on_failure", str(scenario.on_failure), reason)
    knowledge, detection = knowledge_of(scenario)
    # By default a node is as patient with a packet as with the signs of life of a neighbour.
    repair = Repair(options.repair, after or (detection.after if detection else 1))
    if isinstance(rule_of(CollectiveSpec("", scenario.collective, "", 0, repair=repair)), PlannedRule):
        repair = repair._replace(after=0)
        if knowledge is not FaultKnowledge.ALL:
            reason = f"{options.repair} plans around faults that every node knows; use --fault-knowledge all"
            raise ScenarioError("fault_knowledge", scenario.fault_knowledge, reason)
        if after is not None:
            raise ScenarioError(
                "repair_after", after, f"under {options.repair} no node waits for a packet; leave it out"
            )
        return repair
    heal_at = LivenessOptions.of(scenario).heal_at
    if isinstance(heal_at, str):
        return repair._replace(heal_time=read_time(heal_at) or 0)
    return repair._replace(heal_step=heal_at or 0)
