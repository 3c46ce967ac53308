"""Metrics: the numbers that claims are judged against, computed from a journal and its plan alone.

`measure` computes all metrics of one run, whatever its size, from a streamed Parquet file. `count_trial` computes the
few metrics that a campaign needs of each of its many small trials, in less than a millisecond, from packed rows in
memory. Metrics of both are defined once, in `deliveries` and in `shared_metrics`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import fsum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl

from coordinator.features.base import Evidence, Findings, Metric, Repetition, ResolvedRun
from coordinator.features.journals.rows import data_hops, data_records, hops_of
from coordinator.history.journal import Records, hash_of, records_of_rows, table
from coordinator.history.timetable import Timetable
from coordinator.results.audit import broken_rules, nonexistent_links
from coordinator.results.contributions import count_contributions
from coordinator.results.deliveries import (
    Deliveries,
    arrivals_of,
    count_deliveries,
    elected_arrivals,
    journal_arrivals,
    outcome_metrics,
    record_arrivals,
    runs,
    silent_sources,
)
from coordinator.results.latency import latency_metrics, served_latencies
from coordinator.results.queries import collect, count_rows, read_once
from coordinator.results.structure import structure_metrics
from coordinator.results.tables import (
    fault_records,
    link_table,
    node_table,
    packets_of,
    startups,
    step_table,
    used_links,
)
from coordinator.results.voting import elect
from emunode.engine.rank_set import AlteredCopy
from emunode.model import Collective, HopOutcome, Rank
from emunode.timed.cost_model import NANO

if TYPE_CHECKING:
    from coordinator.history.result_array import ResultArray


class Traffic(NamedTuple):
    """The traffic that was sent, whether or not it arrived."""

    steps: int
    packets: int
    segments: int
    bytes: int
    outcomes: Sequence[int]
    """Number of hops, indexed by HopOutcome."""


def shared_metrics(traffic: Traffic, deliveries: Deliveries) -> dict[str, Metric]:
    """Return the metrics that runs and trials have in common."""
    # `outcomes` is not among these keys, because `outcome_metrics` gives every outcome a key of its own.
    counts = {name: getattr(traffic, name) for name in ("steps", "packets", "segments", "bytes")}
    return {**counts, **deliveries.metrics, **outcome_metrics(traffic.outcomes)}


# --- runs --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Measurement:
    """Tables by node, link and step, and the metrics that claims are judged against."""

    steps: pl.DataFrame
    metrics: dict[str, Metric]
    faults: list[dict[str, object]]
    """Every fault: where and when it was injected, and the step of its first evidence."""
    elections: pl.DataFrame | None
    """Segments with altered copies that were put to the vote; None without redundancy or without altered copies."""
    cut_off: tuple[Rank, ...] = ()
    """Healthy ranks, ascending, that miss a message due to them; in a gather, healthy ranks whose messages do not all
    reach the target."""
    stated: Mapping[str, object] = field(default_factory=dict)
    """Further keys of `summary.json` that features state, such as decisions on failures."""
    missing: tuple[Rank, ...] = ()
    """The ranks whose contributions the result with the fewest lacks, ascending."""
    make_nodes: Callable[[], pl.DataFrame] = pl.DataFrame
    make_links: Callable[[], pl.DataFrame] = pl.DataFrame

    # No metric needs these two tables, and making them takes a fifth of the time of a short run.

    @cached_property
    def nodes(self) -> pl.DataFrame:
        """The table by node."""
        return self.make_nodes()

    @cached_property
    def links(self) -> pl.DataFrame:
        """The table by directed link."""
        return self.make_links()

    @property
    def tables(self) -> dict[str, pl.DataFrame | None]:
        """The tables by the names of their files."""
        return {"nodes": self.nodes, "links": self.links, "steps": self.steps, "elections": self.elections}


def measure(
    plan: ResolvedRun,
    journal: pl.LazyFrame,
    altered_copies: Sequence[AlteredCopy] = (),
    timetable: Timetable | None = None,
    rows: int | None = None,
    *,
    cut_short: bool = False,
    results: "ResultArray | None" = None,
) -> Measurement:
    """Measure a finished run without knowledge of the algorithm's intentions.

    `altered_copies` are the altered copies that arrived, in scenarios with redundancy; `timetable` is the timetable of
    a run under the timed clock; `rows` is the length of the journal, or a bound on it, if one is known; `cut_short` says
    that rows of hosts may be lost; `results` are the results of a reduction of real numbers.
    """
    everything = journal
    hops = hops_of(plan, journal)
    journal = data_hops(plan, hops)
    by_events = timetable if timetable is not None and timetable.events is not None else None
    first_arrivals = journal_arrivals(plan, journal)
    by_outcome = journal.group_by("outcome").agg(pl.len())
    packets, counts, unaltered = collect([packets_of(journal), by_outcome, first_arrivals], rows)
    numbers = dict(counts.iter_rows())
    outcomes = [numbers.get(outcome.name.lower(), 0) for outcome in HopOutcome]
    # Copies are voted on only if some were altered: otherwise the first arrival is right by definition.
    elections = elect(plan, journal, altered_copies, rows) if outcomes[HopOutcome.CORRUPT] else None
    arrivals = unaltered if elections is None else elected_arrivals(plan, elections)
    deliveries = count_deliveries(plan, arrivals_of(arrivals))
    # By rank the last new segment.
    latest = arrivals.lazy().group_by("receiver").agg(pl.col("step").max())
    steps, links, last_arrivals = collect(
        [step_table(plan, packets, arrivals), used_links(packets.lazy()), latest], rows
    )
    # Control segments cross links too, also links without data.
    crossed = collect([used_links(packets_of(hops))], rows)[0] if plan.features else links
    illegal = count_rows(broken_rules(plan, hops, packets, timetable, rows, cut_short=cut_short), rows)
    illegal += nonexistent_links(plan, crossed)
    heaviest_bytes = tuple(steps.drop_in_place("max_link_bytes"))
    traffic = Traffic(len(steps), len(packets), int(packets["segments"].sum()), int(packets["bytes"].sum()), outcomes)
    # Features measure before the tables are put together, because a repetition decides which nodes miss something in the
    # end.
    again = _Repetitions(rows)
    evidence = Evidence(everything, timetable, deliveries.metrics["delivery_ratio"], again.measure, results)
    findings: list[Findings] = []
    for feature in plan.features:
        last = again.cut_off if any(earlier.replaced for earlier in findings) else deliveries.unserved
        findings.append(feature.measure(plan, evidence._replace(unserved=last)))
    contributions = count_contributions(plan, journal)
    metrics = {
        **shared_metrics(traffic, deliveries),
        **_link_metrics(plan, steps, heaviest_bytes, links),
        **_step_metrics(steps, last_arrivals),
        **latency_metrics(
            served_latencies(plan, deliveries, arrivals_of(unaltered)),
            len(plan.topology.data_ranks),
            traffic.packets,
            broadcast=plan.spec.collective is Collective.BROADCAST,
        ),
        **_votes(plan, arrivals, elections),
        **({} if by_events is None else completion(journal, by_events)),
        **{name: value for found in findings for name, value in found.metrics.items()},
        "illegal_hops": illegal,
        **structure_metrics(plan, journal, rows),
        **contributions.metrics,
    }
    contested = None
    if elections is not None and plan.spec.redundancy > 1:
        # Unanimous segments are left out: the table shows where the vote mattered.
        contested = elections.filter(pl.col("right") < pl.col("copies")).drop("step", "owner")
    # In a gather the healthy origins are of interest: the target is one rank.
    cut_off = deliveries.unheard(plan) if plan.spec.collective is Collective.GATHER else deliveries.unserved
    return Measurement(
        steps=steps,
        metrics=metrics,
        faults=fault_records(plan, hops, timetable, rows),
        elections=contested,
        cut_off=tuple(again.cut_off) if any(found.replaced for found in findings) else cut_off,
        stated={name: value for found in findings for name, value in found.summary.items()},
        missing=contributions.missing,
        make_nodes=partial(node_table, plan, arrivals),
        make_links=partial(link_table, plan.topology, links),
    )


class _Repetitions:
    """Measures a collective that runs again after failures, and notes the ranks that it cuts off.

    `rows` is the length of the journal of the whole run, None if that is unknown.
    """

    def __init__(self, rows: int | None) -> None:
        self.cut_off: list[Rank] = []
        self._rows = rows

    def measure(self, again: Repetition) -> Mapping[str, Metric]:
        measurement = measure(again.run, read_once(again.rows, self._rows), rows=self._rows)
        self.cut_off += [again.ranks[rank] for rank in measurement.cut_off]
        return measurement.metrics


def _link_metrics(
    plan: ResolvedRun, steps: pl.DataFrame, heaviest_bytes: tuple[int, ...], links: pl.DataFrame
) -> dict[str, Metric]:
    # The heaviest link decides: by the cost model it sets the duration of its step.
    return {
        "max_link_segments_per_step": int(links["busiest_step_segments"].max() or 0),  # type: ignore[arg-type]
        "max_link_segments": int(links["segments"].max() or 0),  # type: ignore[arg-type]
        "links_used": len(links),
        "startups": sum(startups(size, plan.scenario.packet_limit) for size in heaviest_bytes),
        "transfer_bytes": sum(heaviest_bytes),
        "heaviest_link_segments_per_step": tuple(steps["max_link_segments"]),
        "heaviest_link_bytes_per_step": heaviest_bytes,
    }


def _step_metrics(steps: pl.DataFrame, last_arrivals: pl.DataFrame) -> dict[str, Metric]:
    receiving = tuple(steps["receiving"])
    # On cycles of odd length, flooding sends for one step more than any rank receives something new.
    last_receipt = max((step for step, ranks in enumerate(receiving, start=1) if ranks), default=0)
    return {
        # The order of the additions does not depend on how the table was made.
        "virtual_seconds": fsum(steps["virtual_seconds"]),
        "senders_per_step": tuple(steps["sending"]),
        "receivers_per_step": receiving[:last_receipt],
        "average_receive_step": float(last_arrivals["step"].mean() or 0.0),  # type: ignore[arg-type]
    }


def completion(journal: pl.LazyFrame, timetable: Timetable) -> dict[str, float]:
    """Return the time of the last receipt of a new segment by a rank that the segment is meant for."""
    arrived = journal.filter(pl.col("outcome") == "first").select("step", "sender", "port").unique()
    ends = (
        timetable.arriving.lazy().join(arrived, on=["step", "sender", "port"], how="semi").select(pl.col("end").max())
    )
    return {"completion_seconds": (ends.collect().item() or 0) / NANO}


def _votes(plan: ResolvedRun, arrivals: pl.DataFrame, elections: pl.DataFrame | None) -> dict[str, Metric]:
    """Count the due segments whose right value, a wrong value or no value was elected; 0 without redundancy."""
    counts: dict[str, int] = {}
    if plan.spec.redundancy > 1:
        # Messages of faulty origins may be due to no rank, as `expected_deliveries` has it.
        due = ~pl.col("owner").is_in(silent_sources(plan))
        counts = (
            {"right": len(arrivals.filter(due))}
            if elections is None
            else dict(elections.filter(due)["elected"].value_counts().iter_rows())
        )
    return {f"elected_{value}": counts.get(value, 0) for value in ("right", "wrong", "none")}


# --- trials ------------------------------------------------------------------------------------------------------------

NOTHING_DUE = 2**31 - 1


@dataclass(frozen=True)
class TrialCounts:
    """The counts of one trial that a campaign needs."""

    metrics: dict[str, Metric]
    """The metrics of `shared_metrics`."""
    unserved: tuple[Rank, ...]
    """Healthy ranks that miss a message due to them, ascending."""
    least_copies: int
    """Fewest intact copies of a segment, over the segments due to healthy ranks; 0 where one is missing."""
    latencies: tuple[int, ...]
    """The number of ranks with a latency of 0, 1, .. steps; see `coordinator.results.latency`."""
    journal_hash: str
    """The hash of the journal of a run: over the sorted rows."""


def count_trial(
    plan: ResolvedRun,
    records: Records,
    altered_copies: Sequence[AlteredCopy] = (),
    timetable: Timetable | None = None,
) -> TrialCounts:
    """Count a trial. `records` are all of its rows, sorted; `altered_copies` are the altered copies that arrived.

    Under the timed clock `timetable` has the times of its packets.
    """
    # Over all rows, before the rows of protocols are left out: a trial has the hash of the run that repeats it.
    digest = hash_of(records)
    everything = records
    records = data_records(plan, records)
    outcomes = np.bincount(records["outcome"], minlength=len(HopOutcome)).tolist()
    # Trials of campaigns are small, so rows are counted with numpy; starting polars costs more than the work.
    unaltered, copies = record_arrivals(plan, records)
    arrivals = unaltered
    if outcomes[HopOutcome.CORRUPT]:
        elections = elect(plan, table(records).lazy(), altered_copies, len(records))
        arrivals = arrivals_of(elected_arrivals(plan, elections))
        copies = elections["right"].to_numpy()
    deliveries = count_deliveries(plan, arrivals)
    traffic = Traffic(
        steps=int(records["step"].max(initial=0)),
        # As `packets_of`, on sorted rows: a packet is a run of equal (step, sender, port).
        packets=len(runs(records["step"], records["sender"], records["port"])[0]),
        segments=len(records),
        bytes=int(records["bytes"].sum(dtype=np.int64)),
        outcomes=outcomes,
    )
    metrics = shared_metrics(traffic, deliveries)
    # With a message missing, some segment has no intact copy, and the least number is 0 without a search.
    whole = metrics["intact_deliveries"] == metrics["expected_deliveries"]
    silent = silent_sources(plan)
    if silent:
        # Messages of faulty ranks may have arrived, but they are not due.
        copies = copies[~np.isin(arrivals.owner, silent)]
    # Segments that did not arrive are not among `copies`, so a missing one has to be counted as 0 here.
    least = int(copies.min(initial=NOTHING_DUE)) if whole else 0
    latencies = np.bincount(served_latencies(plan, deliveries, unaltered))
    counts = TrialCounts(metrics, deliveries.unserved, least, tuple(latencies.tolist()), digest)
    for feature in plan.features:
        if feature.judged_anyway:
            ratio = metrics["delivery_ratio"]
            again = _Repetitions(len(everything)).measure
            evidence = Evidence(
                table(everything).lazy(), timetable, ratio, again, unserved=counts.unserved, explained=False
            )
            counts = _with_findings(counts, feature.measure(plan, evidence))
    return counts


def _with_findings(counts: TrialCounts, findings: Findings) -> TrialCounts:
    """Merge the counts of a feature into the counts of a trial; deliveries count for the last run of the collective."""
    repetition = findings.repetition
    if repetition is None:
        return replace(counts, metrics={**counts.metrics, **findings.metrics})
    last = count_trial(repetition.run, records_of_rows(repetition.rows))
    deliveries = {name: last.metrics[name] for name in DELIVERIES}
    return TrialCounts(
        metrics={**counts.metrics, **deliveries, **findings.metrics},
        unserved=tuple(repetition.ranks[rank] for rank in last.unserved),
        least_copies=last.least_copies,
        # Latencies count from the beginning of the run, and the repetition begins after this number of steps.
        latencies=(0,) * repetition.before + last.latencies,
        journal_hash=counts.journal_hash,
    )


DELIVERIES = ("expected_deliveries", "deliveries", "intact_deliveries", "delivery_ratio", "duplicates")
