"""Judging: predictions against measurements, three-valued.

A claim about a fault-free run says nothing of a run in which something broke, so an algorithm states separately what it
claims under given faults. A run that proves nothing either way is `undecided`, and so is every claim about it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isclose

from coordinator.history.timetable import LatenessReport
from coordinator.planning.plan import Plan
from coordinator.results.metrics import Metric
from coordinator.results.tables import startups
from emunode.algorithms.claims import Claim
from emunode.model import Collective

MODEL_CONFORMANCE = Claim("illegal_hops", 0, "==", "the model: ports, neighbours, causality, faults")

REPLAY_MATCH = Claim("replay_mismatches", 0, "==", "the rules, replayed in memory")
"""Judged of runs over sockets whose history is short enough to replay."""

CONFORMANCE = (MODEL_CONFORMANCE, REPLAY_MATCH)
"""Claims about the emulator rather than the algorithm: they are judged whatever is broken."""
DELIVERY = frozenset({"deliveries", "intact_deliveries", "delivery_ratio"})
"""Metrics about what arrived. A run of which nothing is claimed in these is undecided."""


class Verdict(StrEnum):
    """What a run says about a claim, or about all of them."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNDECIDED = "undecided"


EXIT_STATUS = {Verdict.HOLDS: 0, Verdict.VIOLATED: 1, Verdict.UNDECIDED: 3}


@dataclass(frozen=True)
class Judgement:
    """One claim beside what was measured."""

    claim: Claim
    measured: Metric | None
    verdict: Verdict

    @property
    def ratio(self) -> float | None:
        """Measured to a lower bound; None for a claim that is none."""
        return ratio_to(self.claim.predicted, self.measured) if self.claim.relation == ">=" else None

    def record(self) -> dict[str, object]:
        """The claim as it stands in summary.json."""
        return {
            "name": self.claim.name,
            "predicted": self.claim.predicted,
            "measured": self.measured,
            "relation": self.claim.relation,
            "verdict": str(self.verdict),
            "ratio": self.ratio,
            "source": self.claim.source,
            "derived": self.claim.derived,
        }


def ratio_to(bound: Metric | None, measured: Metric | None) -> float | None:
    """How many times a lower bound was measured, to four digits after the point; None where that is no number."""
    if not isinstance(bound, int | float) or not isinstance(measured, int | float) or not bound:
        return None
    return round(measured / bound, 4)


def claims_of(plan: Plan) -> list[Claim]:
    """What theory says of this run, faults included; and that the run kept to the communication model."""
    return [*plan.claims(), MODEL_CONFORMANCE]


def broken_root(plan: Plan) -> str | None:
    """What is wrong with the one source, or the one target, of a collective that has one; None if nothing is."""
    state = plan.states.get(plan.spec.source)
    if not state or plan.spec.collective in (Collective.ALLGATHER, Collective.ALLTOALL):
        return None
    which = "target" if plan.spec.collective in (Collective.GATHER, Collective.REDUCE) else "source"
    return f"the {which} {plan.topology.label(plan.spec.source)} is {state}"


def timed_claims(plan: Plan, metrics: Mapping[str, Metric]) -> list[Claim]:
    """What holds of a run under the timed clock, lock-step virtual time being among its `metrics`."""
    lockstep, steps = metrics["virtual_seconds"], metrics["steps"]
    assert isinstance(lockstep, float)
    assert isinstance(steps, int)
    rounding = steps * 1e-9
    return [
        Claim("intended_seconds", lockstep + rounding, "<=", "the timed clock: no packet is later than in lock-step"),
        Claim("early_hops", 0, "==", "the timed clock: nothing happens before its time"),
        Claim("lateness_ratio", plan.scenario.lateness_limit, "<=", "the scenario: lateness_limit"),
        Claim("worst_lateness_packets", plan.scenario.worst_lateness_limit, "<=", "the scenario: worst_lateness_limit"),
    ]


def why_invalid(plan: Plan, lateness: LatenessReport, metrics: Mapping[str, Metric]) -> str | None:
    """Why the times of a timed run prove nothing, or None: the machine was late, at the end or with any one packet."""
    if lateness.unexpected:
        return lateness.unexpected
    scenario, late, worst = plan.scenario, metrics["lateness_ratio"], metrics["worst_lateness_packets"]
    assert isinstance(late, float)
    assert isinstance(worst, float)
    reasons = []
    if late > scenario.lateness_limit:
        reasons.append(
            f"the machine was late by {late:.1%} of the intended time, and {scenario.lateness_limit:.1%} are allowed"
        )
    if worst > scenario.worst_lateness_limit:
        reasons.append(
            f"one packet was late by {worst:.1f} times the duration of the longest packet, and "
            f"{scenario.worst_lateness_limit:g} are allowed"
        )
    if not reasons:
        return None
    return (
        f"{'; '.join(reasons)}: {metrics['packets_per_ms']:.3g} packets a millisecond were due; "
        "use a longer startup, or a machine with more idle cores"
    )


def late_packets(plan: Plan, lateness: LatenessReport) -> float:
    """The worst lateness of any packet, in times that the longest packet takes."""
    scenario = plan.scenario
    size = int(lateness.hops["bytes"].max() or 0)  # type: ignore[arg-type]
    longest = scenario.startup * startups(size, scenario.packet_limit) + scenario.per_byte * size
    worst = lateness.metrics["worst_lateness_seconds"]
    assert isinstance(worst, float)
    return worst / longest if longest else 0.0


def judge(claims: Sequence[Claim], metrics: Mapping[str, Metric], undecided: str | None) -> list[Judgement]:
    """Hold claims against metrics; a run that is `undecided` (with the reason) proves nothing either way."""
    return [_judge(claim, metrics.get(claim.name), undecided) for claim in claims]


def _judge(claim: Claim, measured: Metric | None, undecided: str | None) -> Judgement:
    if measured is None or undecided:
        return Judgement(claim, measured, Verdict.UNDECIDED)
    match claim.relation:
        case "==":
            holds = _equal(measured, claim.predicted)
        case "<=":
            holds = _equal(measured, claim.predicted) or measured < claim.predicted  # type: ignore[operator]
        case ">=":
            holds = _equal(measured, claim.predicted) or measured > claim.predicted  # type: ignore[operator]
        case _:
            raise ValueError(claim.relation)
    return Judgement(claim, measured, Verdict.HOLDS if holds else Verdict.VIOLATED)


def _equal(measured: Metric, predicted: Metric) -> bool:
    if isinstance(measured, float) or isinstance(predicted, float):
        return isclose(measured, predicted, rel_tol=1e-9)  # type: ignore[arg-type]
    return measured == predicted


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Violated if any claim is, undecided if any is or there are none, else holds."""
    verdicts = {judgement.verdict for judgement in judgements}
    if Verdict.VIOLATED in verdicts:
        return Verdict.VIOLATED
    return Verdict.UNDECIDED if Verdict.UNDECIDED in verdicts or not verdicts else Verdict.HOLDS
