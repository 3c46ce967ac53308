"""Claims compared with measurements: three-valued verdicts.

A claim about fault-free runs does not apply to runs with faults, so an algorithm states its claims under given faults
separately. Claims about an undecided run are undecided too.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isclose

from coordinator.features.base import Metric, ResolvedRun
from coordinator.features.options import LatenessOptions
from coordinator.history.lateness import LatenessReport
from coordinator.history.timetable import PredictionInputs, Timetable
from coordinator.planning.claims import KeptClaims, run_claims
from coordinator.planning.plan import Plan
from coordinator.results.tables import startups
from emunode.algorithms.claims import Assumption, Claim
from emunode.engine.known_paths import faults_in_time
from emunode.faults.effects import Alters, Loses, Stops
from emunode.model import ALL_RANKS, FOLDING, ROOTLESS, Collective, FaultKnowledge, Rank

MODEL_CONFORMANCE = Claim("illegal_hops", 0, "==", "the model: ports, neighbours, causality, faults")

COUNTED_ONCE = Claim("miscounted_results", 0, "==", "every contribution is folded exactly once")
"""Applies where contributions are folded: their payloads show only whether the number of times is odd."""

REPLAY_MATCH = Claim("replay_mismatches", 0, "==", "the rules, replayed in memory")
"""Applies to runs over sockets whose history is short enough to replay."""

CONFORMANCE = (MODEL_CONFORMANCE, REPLAY_MATCH)
"""Claims about the emulator, not the algorithm: they are judged under any faults."""
DELIVERY = frozenset(
    {"deliveries", "intact_deliveries", "delivery_ratio", "final_delivery_ratio", "least_contributions"}
)
"""Metrics of deliveries. A run without any claim about these is undecided."""


class Verdict(StrEnum):
    """The verdict on one claim, or on all claims of a run: one of three texts, and shown as such.

    >>> import coordinator as tb
    >>> run = tb.network("star:4").broadcast("greedy-tree")
    >>> run.verdict is tb.Verdict.HOLDS, [str(each) for each in tb.Verdict]
    (True, ['holds', 'violated', 'undecided'])
    """

    HOLDS = "holds"
    VIOLATED = "violated"
    UNDECIDED = "undecided"

    def __repr__(self) -> str:
        """Show the text: a verdict equals it."""
        return repr(str(self))


EXIT_STATUS = {Verdict.HOLDS: 0, Verdict.VIOLATED: 1, Verdict.UNDECIDED: 3}


class Judged(ABC):
    """A result with a verdict."""

    @property
    @abstractmethod
    def verdict(self) -> Verdict:
        """`holds`, `violated` or `undecided`."""

    @property
    def ok(self) -> bool:
        """Whether every claim holds."""
        return self.verdict == Verdict.HOLDS

    @property
    def exit_status(self) -> int:
        """The exit status of the command: 0 every claim holds, 1 a claim is violated, 3 undecided."""
        return EXIT_STATUS[self.verdict]


@dataclass(frozen=True)
class Judgement:
    """One claim with its measured value."""

    claim: Claim
    measured: Metric | None
    verdict: Verdict

    @property
    def ratio(self) -> float | None:
        """Measured value over the lower bound of every algorithm; None for claims that state none."""
        return ratio_to(self.claim.bound, self.measured)

    def record(self) -> dict[str, object]:
        """Return the entry of the claim in summary.json."""
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
    """Return measured value over lower bound, rounded to four decimals; None if there is no such number."""
    if not isinstance(bound, int | float) or not isinstance(measured, int | float) or not bound:
        return None
    # Four decimals: the ratio is shown to people, and stored summaries are compared as text.
    return round(measured / bound, 4)


def claims_of(plan: ResolvedRun) -> KeptClaims:
    """Return the claims of theory about this run and its faults, and the claim of model conformance."""
    stated = run_claims(plan)
    claims = stated.kept
    trusting = all(each.assumption is not Assumption.NO_WRONG_SUSPICION for each in stated.broken)
    # Faults keep contributions away, and then the payloads show it.
    counted = (
        trusting
        and plan.spec.collective in FOLDING
        and not plan.judged.harmful_faults
        and plan.algorithm.traits.states_order
    )
    undisturbed = trusting and not plan.faults and not plan.algorithm.traits.negative_control
    # A run without faults is judged by its deliveries even if its algorithm claims nothing about them.
    if undisturbed and not any(claim.name in DELIVERY for claim in claims):
        source = f"definition of {plan.spec.collective}: without faults every message arrives"
        claims = [*claims, Claim("delivery_ratio", 1.0, "==", source)]
    return stated._replace(kept=[*claims, *([COUNTED_ONCE] if counted else []), MODEL_CONFORMANCE])


def broken_root(plan: Plan) -> str | None:
    """Return the fault of the single source or target of the collective as text, or None."""
    faulty = [
        f"the {role} {plan.topology.label(root)} is {plan.judged.states[root]}"
        for root, role in roots_of(plan)
        if root in plan.judged.states
    ]
    return " and ".join(faulty) or None


def leaves_deliveries_open(plan: Plan, claims: Sequence[Claim]) -> bool:
    """Return whether the schedule of a run has to tell what is delivered under its faults."""
    # A result that lacks a contribution is no delivery, so its contributions are counted besides.
    # Derived claims cannot find an error in the schedule, so an independent claim is enough where there is one.
    if plan.spec.collective not in FOLDING and any(claim.name in DELIVERY for claim in claims):
        return False
    # A kind that does not state its effects may change anything, also what a packet carries: nothing exact is claimed.
    return bool(plan.judged.harmful_faults) and not plan.judged.timeline.opaque and not broken_root(plan)


def roots_of(plan: Plan) -> list[tuple[Rank, str]]:
    """Return the single source and target of the collective, with these words; none in collectives with many roots."""
    spec = plan.spec
    # With many roots one faulty root invalidates nothing.
    if spec.collective in ROOTLESS or spec.permutation:
        return []
    # The spec names the root of every collective `source`; in a gather or a reduce the root receives.
    which = "target" if spec.collective in (Collective.GATHER, Collective.REDUCE) else "source"
    return [(spec.source, which), *([(spec.target, "target")] if spec.target != ALL_RANKS else [])]


def timed_claims(plan: Plan, metrics: Mapping[str, Metric], timetable: Timetable) -> list[Claim]:
    """Return the claims about a run under the timed clock; `metrics` has its virtual time in lock-step."""
    lockstep, steps, limits = metrics["virtual_seconds"], metrics["steps"], LatenessOptions.of(plan.scenario)
    assert isinstance(lockstep, float)
    assert isinstance(steps, int)
    # Each step's virtual time is rounded to whole nanoseconds, in either direction.
    rounding = steps * 1e-9
    bound = Claim(
        "intended_seconds", lockstep + rounding, "<=", "the timed clock: no packet is later than in lock-step"
    )
    return [
        *([bound] if timetable.inputs is None else _claims_with_faults(plan, timetable.inputs, rounding)),
        Claim("early_hops", 0, "==", "the timed clock: nothing happens before its time"),
        Claim("lateness_ratio", limits.lateness_limit, "<=", "the scenario: lateness_limit"),
        Claim("worst_lateness_packets", limits.worst_lateness_limit, "<=", "the scenario: worst_lateness_limit"),
    ]


def _claims_with_faults(plan: Plan, inputs: PredictionInputs, rounding: float) -> list[Claim]:
    """Return the bounds on the time of the last receipt under faults; it is a maximum of sums of durations."""
    before = inputs.fault_free.intended_seconds
    if plan.goes_by_events:
        # The last packet may be an acknowledgement or a sign of life, and time-outs do not follow from the schedule.
        return []
    if plan.goes_by_arrivals and not plan.algorithm.timing.on_schedule:
        # Packets go other ways than without faults.
        return []
    # The time of the last receipt is a maximum over paths of sums of durations. Durations that grow by at most a factor
    # make such a maximum grow by at most the same factor.
    if all(each.fault.slows for each in inputs.faults):
        factor = faults_in_time(plan.algorithm, inputs.faults).largest_factor()
        least = Claim("intended_seconds", before, ">=", "the timed clock: faults make no packet earlier")
        most = factor * before + rounding
        source = "the timed clock: no later than by the largest product of factors"
        # Where packets may overtake one another, a late packet may have to wait for another one in addition.
        return [least, *([Claim("intended_seconds", most, "<=", source)] if plan.keeps_order else [])]
    # Packets are lost or altered, and none is delayed.
    timeline = plan.judged.timeline
    on_time = timeline.effects <= {Stops, Loses, Alters} and timeline.ranks_only_crash and not timeline.opaque
    if plan.spec.knowledge is FaultKnowledge.NONE and on_time:
        return [Claim("intended_seconds", before, "<=", "the timed clock: lost packets make no other one later")]
    return []


def slow_down(timetable: Timetable, completion: float | None = None) -> dict[str, Metric]:
    """Return the fault-free time of the last receipt, and the slow-down by faults.

    The slow-down is the time with faults over the time without them. With protocols, `completion` is the last receipt
    of data, and the time without faults is the time over plain links.
    """
    if timetable.inputs is None:
        return {}
    before = timetable.inputs.fault_free.intended_seconds
    last = timetable.intended_seconds if completion is None else completion
    return {
        "fault_free_seconds": before,
        "slow_down": last / before if before else 1.0,
    }


def why_invalid(plan: Plan, lateness: LatenessReport, metrics: Mapping[str, Metric]) -> str | None:
    """Return why the times of a timed run are invalid, or None: the run, or a single packet, was too late."""
    if lateness.unexpected:
        return lateness.unexpected
    limits = LatenessOptions.of(plan.scenario)
    late, worst = metrics["lateness_ratio"], metrics["worst_lateness_packets"]
    assert isinstance(late, float)
    assert isinstance(worst, float)
    reasons = []
    if late > limits.lateness_limit:
        reasons.append(
            # Named with the limit, so that the message tells how far off the machine was.
            f"the machine was late by {late:.1%} of the intended time, allowed are {limits.lateness_limit:.1%}"
        )
    if worst > limits.worst_lateness_limit:
        reasons.append(
            f"one packet was late by {worst:.1f} times the duration of the longest packet, "
            f"allowed are {limits.worst_lateness_limit:g}"
        )
    if not reasons:
        return None
    return (
        f"{'; '.join(reasons)}: {metrics['packets_per_ms']:.3g} packets per millisecond were due; "
        "use a longer startup, or a machine with more idle cores"
    )


def late_packets(plan: Plan, lateness: LatenessReport) -> float:
    """Return the worst lateness of any packet, in durations of the longest packet."""
    scenario = plan.scenario
    size = int(lateness.hops["bytes"].max() or 0)  # type: ignore[arg-type]
    # In durations of the longest packet, so that one limit fits fast and slow cost models.
    longest = scenario.startup * startups(size, scenario.packet_limit) + scenario.per_byte * size
    worst = lateness.metrics["worst_lateness_seconds"]
    assert isinstance(worst, float)
    return worst / longest if longest else 0.0


def judge(claims: Sequence[Claim], metrics: Mapping[str, Metric], undecided: str | None) -> list[Judgement]:
    """Compare claims with metrics; all are undecided if `undecided` gives a reason."""
    return [_judge(claim, metrics.get(claim.name), undecided) for claim in claims]


def _judge(claim: Claim, measured: Metric | None, undecided: str | None) -> Judgement:
    if measured is None or undecided:
        # No measurement, no verdict: a claim is never held to be true by default.
        return Judgement(claim, measured, Verdict.UNDECIDED)
    match claim.relation:
        case "==":
            holds = _equal(measured, claim.predicted)
        case "<=":
            # Floats are compared with a tolerance first, so that rounding does not violate a bound.
            holds = _equal(measured, claim.predicted) or measured < claim.predicted  # type: ignore[operator]
        case ">=":
            holds = _equal(measured, claim.predicted) or measured > claim.predicted  # type: ignore[operator]
        case _:
            raise ValueError(claim.relation)
    return Judgement(claim, measured, Verdict.HOLDS if holds else Verdict.VIOLATED)


def _equal(measured: Metric, predicted: Metric) -> bool:
    if isinstance(measured, float) or isinstance(predicted, float):
        # Theory adds the same terms in another order, so that the last digits may differ.
        return isclose(measured, predicted, rel_tol=1e-9)  # type: ignore[arg-type]
    return measured == predicted


def overall(judgements: Sequence[Judgement]) -> Verdict:
    """Return the worst verdict of the claims.

    "violated" comes before "undecided", and "undecided" before "holds". Without any claim a run is "undecided".
    """
    verdicts = {judgement.verdict for judgement in judgements}
    if Verdict.VIOLATED in verdicts:
        return Verdict.VIOLATED
    return Verdict.UNDECIDED if Verdict.UNDECIDED in verdicts or not verdicts else Verdict.HOLDS
