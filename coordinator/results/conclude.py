"""The judge: from a plan and the history of its run to metrics, tables, claims and a verdict.

Runs, trials of campaigns, certificates and `coordinator verify` are all judged here, so the same history never gets two
verdicts. `conclude` measures and judges a journal; `judge_run` applies the same rules to known metrics, such as the metrics
of trials.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from coordinator.features.base import Metric
from coordinator.features.detection import suspicion_records
from coordinator.features.journals.rows import data_hops
from coordinator.history.lateness import judge_times
from coordinator.history.timetable import PACKET, Timetable
from coordinator.planning.claims import DroppedClaim, dropped_claims, fault_free_claims
from coordinator.planning.plan import Plan
from coordinator.results.claims import (
    CONFORMANCE,
    DELIVERY,
    REPLAY_MATCH,
    Judgement,
    Verdict,
    broken_root,
    claims_of,
    judge,
    late_packets,
    leaves_deliveries_open,
    overall,
    slow_down,
    timed_claims,
    why_invalid,
)
from coordinator.results.cut_off import CutOff, cut_off
from coordinator.results.differential import REPLAYED_ROWS, replay_mismatches
from coordinator.results.faults_in_steps import in_steps
from coordinator.results.metrics import Measurement, measure
from coordinator.results.reasons import NO_VOTE_WON, Reason, reason_of_end
from coordinator.results.run_metrics import own_metrics
from emunode.algorithms.claims import Claim
from emunode.annexes import load
from emunode.engine.rank_set import AlteredCopy
from emunode.errors import RuleError, RunError
from emunode.model import FOLDING, Collective

if TYPE_CHECKING:
    from coordinator.history.result_array import ResultArray

DERIVED: Final = "coordinator.theory.batch.derived:derived_claims"
"""The claims that follow from the schedule of a run; the module is imported for a run that needs them."""


@dataclass(frozen=True)
class History:
    """The record of a finished run, besides its plan."""

    journal: pl.LazyFrame
    rows: int
    """Number of rows of the journal."""
    ended: str | None = None
    """Why the run ended early, or None."""
    altered: Sequence[AlteredCopy] = ()
    """Altered copies that arrived, in scenarios with redundancy."""
    timetable: Timetable | None = None
    """Intended times, under the timed clock."""
    times: Sequence[bytes] = ()
    """Times of hops that hosts reported, under the timed clock."""
    results: "ResultArray | None" = None
    """The results of a reduction of real numbers."""


@dataclass(frozen=True)
class Ruling:
    """The verdict on every claim, and on the run."""

    judgements: list[Judgement]
    verdict: Verdict
    invalid: str | None
    """Why the measurement is invalid, or None. An invalid run enters no statistic."""
    undecided: str | None
    """Why the run is undecided, or None: it is invalid, no claim about its deliveries applies, or one has no number."""
    reason: Reason | None
    """The kind of that reason, one of four; None if the run is decided."""


@dataclass(frozen=True)
class Conclusion:
    """The conclusion from a history: measurement, rulings, and the nodes that were cut off."""

    plan: Plan
    """The plan that the run was judged by: faults given by times are translated into steps."""
    measurement: Measurement
    ruling: Ruling
    cut_off: CutOff
    timeline: pl.DataFrame | None = None
    """Intended and achieved times of every packet, under the timed clock."""
    records: Mapping[str, Sequence[Mapping[str, object]]] = field(default_factory=dict)
    """Under the timed clock, the entries of `served.json` and `suspicions.json`, by the name of the file."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """The metrics of the measurement, of the timed clock and of the replay."""
    dropped: list[DroppedClaim] = field(default_factory=list)
    """The claims whose assumptions fail in this run."""
    results: "ResultArray | None" = None
    """The results of a reduction of real numbers."""

    def stated(self) -> dict[str, object]:
        """Return further keys of summary.json: statements of features, and the claims that do not hold in this run."""
        dropped = [each.record() for each in dropped_claims(self.plan, self.dropped)]
        unjudged = self.plan.algorithm.traits.unjudged
        return {
            **{name: value() if callable(value) else value for name, value in self.measurement.stated.items()},
            **({"dropped_claims": dropped} if dropped else {}),
            **({"unjudged": unjudged} if unjudged else {}),
        }


def conclude(
    plan: Plan,
    history: History,
    *,
    replay: bool | None = None,
    derive: bool = False,
) -> Conclusion:
    """Measure and judge a history.

    With `derive`, claims follow from the schedule of the run where theory leaves the deliveries open.
    With `replay`, the run is compared with the memory engine; the default is to do so for short runs over sockets.
    """
    timetable = history.timetable
    if timetable is not None:
        plan = in_steps(plan, timetable)
    cut_short = history.ended is not None
    measurement = measure(
        plan, history.journal, history.altered, timetable, history.rows, cut_short=cut_short, results=history.results
    )
    metrics = dict(measurement.metrics)
    metrics.update(own_metrics(plan, data_hops(plan, history.journal)))
    sifted = claims_of(plan)
    reasons, claims, timeline = [history.ended], [*sifted.kept], None
    # These claims follow from the whole schedule, and a run that ended early has not executed all of it.
    if derive and history.ended is None and leaves_deliveries_open(plan, claims):
        claims += load(DERIVED)(plan, claims)
    records: dict[str, Sequence[Mapping[str, object]]] = {}
    if timetable is not None:
        lateness = judge_times(timetable, history.times)
        metrics.update(lateness.metrics)
        completed = metrics.get("completion_seconds")
        metrics.update(slow_down(timetable, completed if isinstance(completed, float) else None))
        metrics["worst_lateness_packets"] = late_packets(plan, lateness)
        timeline = lateness.hops
        records["served"] = delivery_records(plan, measurement, history.journal, timeline)
        records |= suspicion_records(plan, timetable)
        claims += timed_claims(plan, metrics, timetable)
        reasons.append(why_invalid(plan, lateness, metrics))
    # Any of them makes the measurement invalid; all are named.
    void = "; ".join(reason for reason in reasons if reason) or None
    if replay is None:
        # Replays cost as much as a run in memory, so only short ones are made by default.
        replay = plan.hosts > 0 and void is None and history.rows <= REPLAYED_ROWS
    if replay:
        try:
            metrics["replay_mismatches"] = replay_mismatches(
                plan, history.journal, timetable.inputs if timetable else None
            )
            claims.append(REPLAY_MATCH)
        except (RuleError, RunError) as error:
            # Only a program that plays the nodes can cause this: it answers differently now, or not at all.
            void = f"the replay in memory failed: {error}"
    ruling = judge_run(plan, claims, metrics, void)
    unreached = cut_off(plan, measurement, ended=history.ended is not None)
    return Conclusion(plan, measurement, ruling, unreached, timeline, records, metrics, sifted.dropped, history.results)


def judge_run(plan: Plan, claims: Sequence[Claim], metrics: Mapping[str, Metric], void: str | None) -> Ruling:
    """Judge claims by metrics. `void` says why the run proves nothing, or is None: it ended early, or its replay failed.

    An invalid measurement decides nothing, whatever its numbers. If nothing was delivered, or no claim about delivery
    applies, the run is undecided unless one of its other claims is violated.
    """
    invalid = void or _invalid(plan, metrics)
    # `invalid` outweighs `unproven`: the numbers of an invalid run prove nothing either way.
    unproven = invalid or _unproven(plan, claims, metrics)
    # Only under faults: without them an algorithm that delivers nothing is wrong, and is judged.
    nothing = invalid or (_nothing_delivered(plan, claims, metrics) if plan.faults else None)
    judgements = [
        # Conformance is about the emulator: it is judged even where nothing was delivered.
        each
        for claim in claims
        for each in judge([claim], metrics, _why_not(plan, claim, void, invalid, nothing))
    ]
    verdict = Verdict.UNDECIDED if invalid else overall(judgements)
    # A violated claim about the emulator decides a run that is otherwise invalid.
    if not void and any(each.verdict is Verdict.VIOLATED for each in judgements):
        verdict = Verdict.VIOLATED
    # Other claims may hold in a run without deliveries; that must not make the run a success.
    if unproven and verdict is Verdict.HOLDS:
        verdict = Verdict.UNDECIDED
    if verdict is not Verdict.UNDECIDED:
        return Ruling(judgements, verdict, invalid, None, None)
    if void:
        return Ruling(judgements, verdict, invalid, unproven, reason_of_end(void))
    if unproven:
        return Ruling(judgements, verdict, invalid, unproven, Reason.THEORY)
    return Ruling(judgements, verdict, invalid, _unmeasured(judgements), Reason.NOT_JUDGED)


def _unmeasured(judgements: Sequence[Judgement]) -> str:
    """Return which claims have no measurement, in words."""
    names = [each.claim.name for each in judgements if each.verdict is Verdict.UNDECIDED]
    return f"no number for {', '.join(dict.fromkeys(names)).replace('_', ' ')}" if names else "no claim"


def _why_not(plan: Plan, claim: Claim, void: str | None, invalid: str | None, nothing: str | None) -> str | None:
    """Return why a claim cannot be judged, or None.

    A claim about agreement is judged unless the run ended early, even if the collective could not succeed.
    """
    if any(claim.name in feature.judged_anyway for feature in plan.features):
        return void
    return invalid if claim in CONFORMANCE else nothing


def rule_counted(plan: Plan, metrics: Mapping[str, Metric], void: str | None) -> Ruling:
    """Judge a trial by the metrics that were counted; claims about other metrics are left out."""
    # A trial counts few metrics; a claim without a measurement would be undecided and would hide the others.
    return judge_run(plan, [claim for claim in claims_of(plan).kept if claim.name in metrics], metrics, void)


def _invalid(plan: Plan, metrics: Mapping[str, Metric]) -> str | None:
    """Return why a complete run does not test its algorithm, or None."""
    root = broken_root(plan)
    # Theory of broadcasts presumes a healthy source; with a faulty one the run tests nothing.
    if root:
        reason = f"{root}, and theory makes no claim about that"
        # Nodes that agree may find out that the root failed; this is a result of the agreement, and is stated as the
        # reason.
        if metrics.get("root_failed_nodes"):
            return f"{root}: {metrics['root_failed_nodes']} nodes agreed on that, and ended with the error root-failed"
        return reason if metrics["intact_deliveries"] else f"{_nothing_delivered(plan, (), metrics)}: {reason}"
    # A ratio over no expected delivery has no value.
    if not metrics["expected_deliveries"]:
        return "no healthy node is left to deliver to"
    return None


def _unproven(plan: Plan, claims: Sequence[Claim], metrics: Mapping[str, Metric]) -> str | None:
    """Return why the deliveries of a valid run cannot be judged, or None."""
    for feature in plan.features:
        if reason := feature.unproven(claims, metrics, plan.spec):
            return reason
    if any(claim.name in DELIVERY for claim in claims):
        return _nothing_delivered(plan, claims, metrics) if plan.faults else None
    where = "under these faults" if plan.judged.harmful_faults else f"to {plan.spec.algorithm}"
    # A protocol may be the reason, and not the algorithm: then an assumption of its claims fails.
    dropped = () if plan.judged.harmful_faults else claims_of(plan).dropped
    where = next((f"here: {each.because}" for each in dropped if each.claim.name in DELIVERY), where)
    return _nothing_delivered(plan, claims, metrics) or f"no claim about delivery applies {where}"


def _nothing_delivered(plan: Plan, claims: Sequence[Claim], metrics: Mapping[str, Metric]) -> str | None:
    """Return why a complete run proves nothing, or None; None too if a claim predicts that nothing is delivered."""
    if metrics["intact_deliveries"] or metrics.get("final_delivery_ratio"):
        return None
    # Faults explain an empty run only if the algorithm claims deliveries without them.
    delivers = any(claim.name in DELIVERY and claim.predicted for claim in fault_free_claims(plan).kept)
    if delivers and _nothing_is_foreseen(claims, len(plan.topology.data_ranks)):
        return None
    if plan.spec.collective in FOLDING:
        return "no result has the contributions of all nodes, each once and unaltered"
    if metrics.get("elected_wrong"):
        return "no vote elected the right value"
    if metrics.get("elected_none"):
        return NO_VOTE_WON
    return (
        "nothing was delivered intact: only altered copies arrived"
        if metrics["corrupt"]
        else "nothing was delivered at all"
    )


def _nothing_is_foreseen(claims: Sequence[Claim], contributors: int) -> bool:
    """Return whether a claim predicts that no delivery is right, or no result complete, and none predicts a delivery."""
    known = [claim for claim in claims if claim.name in DELIVERY and not isinstance(claim.predicted, tuple)]
    partial = any(claim.name == "least_contributions" and _at_most(claim, contributors - 1) for claim in known)
    counts = [claim for claim in known if claim.name != "least_contributions"]
    some = any(claim.relation != "<=" and claim.predicted for claim in counts)
    return not some and (partial or any(_at_most(claim, 0) for claim in counts))


def _at_most(claim: Claim, most: int) -> bool:
    return claim.relation != ">=" and claim.predicted <= most  # type: ignore[operator]  # no list


def delivery_records(
    plan: Plan, measurement: Measurement, journal: pl.LazyFrame, timeline: pl.DataFrame
) -> list[dict[str, object]]:
    """Return the entries of served.json: each healthy node that is to receive something, and when it had everything.

    `seconds` is the intended time and `achieved_seconds` the achieved time; null for a node that misses something.
    """
    missing = set(measurement.cut_off)
    if plan.spec.collective is Collective.GATHER and measurement.metrics["delivery_ratio"] != 1.0:
        # There the nodes that are cut off are origins, and the target is what misses something.
        missing = {plan.spec.source}
    firsts = journal.filter(pl.col("outcome") == "first").select(*PACKET, "receiver").unique().collect()
    last = firsts.join(timeline.select(*PACKET, "end", "ended").drop_nulls("end"), on=PACKET).group_by("receiver")
    times = {rank: times for rank, *times in last.agg(pl.col("end", "ended").max()).iter_rows()}
    due = measurement.nodes.filter(pl.col("expected") > 0, pl.col("state") == "alive").select("rank", "label")
    records = []
    for rank, label in due.iter_rows():
        intended, achieved = times.get(rank, (None, None)) if rank not in missing else (None, None)
        records.append({"rank": rank, "label": label, "seconds": intended, "achieved_seconds": achieved})
    return records
