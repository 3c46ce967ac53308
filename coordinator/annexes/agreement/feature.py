"""Agreement on failures: nodes flood their suspicions, decide on the same set, and may run the collective again."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coordinator.features import journals
from coordinator.features.base import Evidence, Feature, Findings, Metric, ResolvedRun
from coordinator.scenario.durations import format_duration
from coordinator.scenario.model import Scenario
from emunode.algorithms.claims import AGREEMENT, Assumption, Claim
from emunode.annexes import load
from emunode.faults.kinds import NodeFault
from emunode.model import Agreement, CollectiveSpec
from emunode.terminal import first_of, plural
from emunode.timed.cost_model import NANO
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    import polars as pl

SOURCE = "agreement by flooding"
SHOWN_NODES = 12
"""Most lost nodes that are listed for one decision."""


class AgreementFeature(Feature):
    """Agreement on the set of failures, and on request a repetition of the collective on the remaining network."""

    name = "agreement"
    metrics = frozenset(AGREEMENT)
    judged_anyway = frozenset(
        {
            "agreement_errors",
            "revised_decisions",
            "slowest_agreement_steps",
            "slowest_agreement_seconds",
            "agreement_packets",
        }
    )

    def is_active(self, spec: CollectiveSpec) -> bool:
        return spec.agreement is not None

    def configure(self, scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
        # The core calls `agreement_of` by its name, so that it names this annex where it is missing.
        del scenario, topology
        return spec

    def claims_with_faults(self, run: ResolvedRun) -> Iterable[Claim] | None:
        # Nodes abandon the collective at the first suspicion, so the collective claims nothing under faults.
        return () if settings_of(run).shrink else None

    def rows(self, run: ResolvedRun) -> "pl.Expr":
        rows = journals.rows
        return rows.IS_REPORT | (rows.IS_CONTROL & (rows.IS_NEWS | rows.IS_REPETITION))

    def measure(self, run: ResolvedRun, evidence: Evidence) -> Findings:
        # By name: polars takes as long to import as a plan.
        judge = load("coordinator.annexes.agreement.repetition:judge")
        findings: Findings = judge(run, settings_of(run), evidence)
        return findings

    def lines(self, run: ResolvedRun, summary: Mapping[str, Any]) -> Iterator[str]:
        """Yield a line for each decision on failures that stands at the end, and one about the last repetition."""
        for decision in summary.get("agreement", ()):
            lost = first_of(decision["lost_nodes"], SHOWN_NODES) or "no node"
            ends = "".join(
                f"; {plural(end['nodes'], 'node')} "
                + ("run again" if name == "repeated" else f"ended with the error {name}")
                for name, end in decision["ends"].items()
            )
            when = (
                f"after {format_duration(decision['seconds'])}"
                if "seconds" in decision
                else f"in step {decision['step']}"
            )
            agreed = f"agreed by {plural(decision['nodes'], 'node')} {when}"
            yield f"{agreed}: lost are {lost}, and {plural(len(decision['links']), 'link')}{ends}"
        if summary.get("repetition_steps") is not None:
            yield f"the agreement took {plural(summary['agreement_packets'], 'packet')}"

    def unproven(self, claims: Sequence[Claim], metrics: Mapping[str, Metric], spec: CollectiveSpec) -> str | None:
        if metrics.get("agreement_errors") and not any(claim.name == "agreement_errors" for claim in claims):
            # Nodes that did not agree must not make a success, even if everything was delivered.
            return (
                f"{metrics['agreement_errors']} errors of agreement, about which nothing is claimed under these faults"
            )
        assert spec.agreement is not None
        if not spec.agreement.shrink or "final_delivery_ratio" in metrics:
            return None
        if failed := metrics.get("root_failed_nodes"):
            return f"{failed} nodes ended with the error root-failed"
        return "no node was left that could run the collective again"


def claims_of_outcome(run: ResolvedRun) -> Iterator[Claim]:
    """Yield the claims about the agreement under lasting faults; none for other faults."""
    agreement, topology, timeline = settings_of(run), run.topology, run.judged.timeline
    if run.goes_by_events:
        # No node notices a fault that begins after the end.
        timeline = run.judged.effective_timeline
    if not timeline:
        # Without faults the detectors are perfect where this is claimed (`_own`), so no node has anything to tell.
        yield _own("agreement_packets", 0, "no news without a suspicion")
        return
    if not timeline.is_lasting:
        return
    nodes = {place for place in timeline.stops if isinstance(place, int)}
    links = {min(place, topology.end(*place)) for place in timeline.stops if not isinstance(place, int)}
    # Fewer broken nodes and links than the connectivity leave a network connected: a broken link does no more harm
    # than a crash of one of its ends.
    cut = len(nodes) + len(links) >= (topology.connectivity or 1)
    where = "in every component: these faults may have cut the network" if cut else "at all healthy nodes"
    yield _own("agreement_errors", 0, f"the same set {where}")
    # A suspicion of a broken link may start at one end of the link only, so that its news have a longer way.
    if not cut and (not links or (len(links) == 1 and not nodes)):
        unit = "rounds" if run.goes_by_events else "steps"
        yield _own("revised_decisions", 0, f"news arrive within {agreement.steps} {unit}")
        if run.goes_by_events:
            # The suspicion falls anywhere into its round, so nearly a whole round may pass before the rounds of the
            # news begin.
            seconds = (agreement.steps + 1) * agreement.round / NANO
            formula = "D_f + kappa - 1 rounds after the round of the suspicion"
            yield _own("slowest_agreement_seconds", seconds, formula, at_most=True)
        else:
            yield _own("slowest_agreement_steps", agreement.steps, "D_f steps after the suspicion", at_most=True)
    # A root that fails after the last step of the collective cannot repeat it.
    faulty = {fault.rank for fault in run.faults if isinstance(fault, NodeFault)}
    if agreement.shrink and run.spec.sources_live(faulty):
        yield _own("final_delivery_ratio", 1.0, "the last run serves all that are left")


def _own(name: str, value: float, formula: str, *, at_most: bool = False) -> Claim:
    """Make a claim about the agreement. The claim assumes that no suspicion is wrong: such news may come at any time."""
    assumes = frozenset({Assumption.NO_WRONG_SUSPICION})
    return Claim(name, value, "<=" if at_most else "==", f"{SOURCE}: {formula}", assumes=assumes)


def settings_of(run: ResolvedRun) -> Agreement:
    """Return the settings of the agreement in a run with one."""
    assert run.spec.agreement is not None
    return run.spec.agreement
