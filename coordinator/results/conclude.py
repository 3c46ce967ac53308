"""The one judge: from a plan and the history of its run to metrics, tables, claims and a verdict.

A run, a trial of a campaign, a certificate and `coordinator verify` all take their judgement from here, so the same history
never gets two verdicts. `conclude` measures a journal completely; `rule` applies the same rules to metrics that were counted
elsewhere, which is what trials do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from coordinator.history.timetable import Timetable, judge_times
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
    overall,
    timed_claims,
    why_invalid,
)
from coordinator.results.cut_off import CutOff, cut_off
from coordinator.results.differential import REPLAYED_ROWS, replay_mismatches
from coordinator.results.metrics import Measurement, Metric, measure
from emunode.algorithms.claims import Claim
from emunode.engine.rank_set import AlteredCopy


@dataclass(frozen=True)
class History:
    """What is known of a run that is over, besides its plan."""

    journal: pl.LazyFrame
    rows: int
    """Rows of the journal."""
    ended: str | None = None
    """Why the run did not come to its end, or None if it did."""
    altered: Sequence[AlteredCopy] = ()
    """Altered copies that arrived, where copies are voted on."""
    timetable: Timetable | None = None
    """What was intended, under the timed clock."""
    times: Sequence[bytes] = ()
    """Times of hops that hosts reported, under the timed clock."""


@dataclass(frozen=True)
class Ruling:
    """Every claim judged, and what follows for the run."""

    judgements: list[Judgement]
    verdict: Verdict
    invalid: str | None
    """Why the measurement counts for nothing, or None. Such a run enters no statistic."""
    undecided: str | None
    """Why the run is undecided, or None: it is invalid, or nothing can be said about what it delivered."""


@dataclass(frozen=True)
class Conclusion:
    """A measured and judged history."""

    measurement: Measurement
    ruling: Ruling
    cut_off: CutOff
    timeline: pl.DataFrame | None = None
    """Intended and achieved times of every packet, under the timed clock."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """Those of the measurement, with what the clock and the replay add."""


def conclude(plan: Plan, history: History, *, replay: bool | None = None) -> Conclusion:
    """Measure and judge a history.

    `replay` says whether the run is compared with the memory engine; by default that is done for short runs over sockets.
    """
    measurement = measure(plan, history.journal, history.altered)
    metrics = dict(measurement.metrics)
    reasons, claims, timeline = [history.ended], claims_of(plan), None
    if history.timetable is not None:
        lateness = judge_times(history.timetable, history.times)
        metrics.update(lateness.metrics)
        metrics["worst_lateness_packets"] = late_packets(plan, lateness)
        timeline = lateness.hops
        claims += timed_claims(plan, metrics)
        reasons.append(why_invalid(plan, lateness, metrics))
    ended = "; ".join(reason for reason in reasons if reason) or None
    if replay is None:
        replay = plan.hosts > 0 and ended is None and history.rows <= REPLAYED_ROWS
    if replay:
        metrics["replay_mismatches"] = replay_mismatches(plan, history.journal)
        claims.append(REPLAY_MATCH)
    ruling = rule(plan, claims, metrics, ended)
    return Conclusion(measurement, ruling, cut_off(plan, measurement), timeline, metrics)


def rule(plan: Plan, claims: Sequence[Claim], metrics: Mapping[str, Metric], ended: str | None) -> Ruling:
    """Judge claims against metrics. `ended` says why the run did not come to a valid end, or is None.

    An invalid measurement decides nothing, whatever its numbers say. Where nothing was delivered, or no claim about delivery
    applies, the run is undecided unless something that is claimed of it all the same is violated.
    """
    invalid = ended or _invalid(plan, metrics)
    unproven = invalid or _unproven(plan, claims, metrics)
    nothing = invalid or _nothing_delivered(metrics)
    judgements = [
        each for claim in claims for each in judge([claim], metrics, invalid if claim in CONFORMANCE else nothing)
    ]
    verdict = Verdict.UNDECIDED if invalid else overall(judgements)
    if unproven and verdict is Verdict.HOLDS:
        verdict = Verdict.UNDECIDED
    undecided = unproven if verdict is Verdict.UNDECIDED else None
    return Ruling(judgements, verdict, invalid, undecided)


def rule_counted(plan: Plan, metrics: Mapping[str, Metric], ended: str | None) -> Ruling:
    """Judge a trial, of which only some metrics were counted; claims about others are not judged."""
    return rule(plan, [claim for claim in claims_of(plan) if claim.name in metrics], metrics, ended)


def _invalid(plan: Plan, metrics: Mapping[str, Metric]) -> str | None:
    """Why a run that came to its end says nothing about its algorithm, or None."""
    root = broken_root(plan)
    if root:
        reason = f"{root}, and theory says nothing of that"
        return reason if metrics["intact_deliveries"] else f"{_nothing_delivered(metrics)}: {reason}"
    if not metrics["expected_deliveries"]:
        return "no healthy node is left to deliver to"
    return None


def _unproven(plan: Plan, claims: Sequence[Claim], metrics: Mapping[str, Metric]) -> str | None:
    """Why nothing can be said about what a valid run delivered, or None."""
    if any(claim.name in DELIVERY for claim in claims):
        return _nothing_delivered(metrics)
    where = "under these faults" if plan.faults else f"to {plan.spec.algorithm}"
    return _nothing_delivered(metrics) or f"no claim about delivery applies {where}"


def _nothing_delivered(metrics: Mapping[str, Metric]) -> str | None:
    if metrics["intact_deliveries"]:
        return None
    if metrics["corrupt"]:
        return "nothing was delivered intact: only altered copies arrived"
    return "nothing was delivered at all"
