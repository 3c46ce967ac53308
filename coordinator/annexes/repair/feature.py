"""Repair: a broadcast goes around faults, by requests of the nodes or by other trees."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coordinator.annexes.repair.options import RepairOptions
from coordinator.features import journals
from coordinator.features.base import BrokenAssumption, Evidence, Feature, Findings, ResolvedRun
from coordinator.scenario.durations import format_duration
from coordinator.scenario.model import Scenario
from emunode.algorithms.claims import REPAIR, Assumption, Claim
from emunode.annexes import load
from emunode.faults.timeline import FaultTimeline
from emunode.model import CollectiveSpec
from emunode.terminal import plural
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    import polars as pl


class RepairFeature(Feature):
    """Requests of nodes for overdue segments, or trees that avoid known faults."""

    name = "repair"
    metrics = frozenset(REPAIR)
    unpredictable = "nodes repair what was lost"

    def is_active(self, spec: CollectiveSpec) -> bool:
        return spec.repair is not None

    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        if RepairOptions.of(scenario).repair is None:
            return spec
        return spec._replace(repair=load("coordinator.annexes.repair.settings:repair_of")(scenario))

    def claims_without_faults(self, run: ResolvedRun, claims: Sequence[Claim]) -> Iterable[Claim]:
        if not run.spec.asks:
            return ()
        claim: Claim = load("coordinator.annexes.repair.service:no_request")(run.spec)
        return (claim,)

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
