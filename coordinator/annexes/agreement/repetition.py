"""The repetition of a collective after failures, measured as a run of its own on the remaining network."""

from collections.abc import Mapping

import polars as pl

from coordinator.annexes.agreement.decisions import Reported, part_after
from coordinator.annexes.agreement.judge import Verdicts, judge_agreement, records_of
from coordinator.features.base import Evidence, Findings, Metric, Repetition, ResolvedRun
from coordinator.features.journals.rows import IS_REPETITION
from coordinator.scenario.model import OnFailure
from emunode.annexes.agreement.survivors import TREES, NetworkPart, RunEnd
from emunode.model import AGAIN_TREE, ALL_RANKS, Agreement, FaultKnowledge


def judge(run: ResolvedRun, settings: Agreement, evidence: Evidence) -> Findings:
    """Judge the agreement in a journal, and measure the repetition that stands at the end.

    Nothing is measured about deliveries if the collective was to run again, and did not.
    """
    verdicts = judge_agreement(run, settings, evidence.journal, evidence.timetable)
    summary = {"agreement": records_of(run, verdicts)}
    if not settings.shrink:
        return Findings(verdicts.metrics, summary)
    # Every repetition has tree numbers of its own, a block of TREES for each.
    begun = evidence.journal.filter(IS_REPETITION).select(((pl.col("tree") - AGAIN_TREE) // TREES).unique()).collect()
    metrics: dict[str, Metric] = {**verdicts.metrics, "repetitions": len(begun)}
    # No decision, no repetition: the first run is the final one.
    if not verdicts.standing:
        metrics["final_delivery_ratio"] = evidence.delivery_ratio
        return Findings(metrics, summary)
    repetition = repetition_of(run, evidence.journal, verdicts)
    if repetition is None:
        # A single node has everything that is due to it.
        alone = bool(_going_on(verdicts))
        return Findings(
            metrics | ({"repetition_order": 1, "final_delivery_ratio": 1.0} if alone else {}), summary, replaced=alone
        )
    metrics |= _repetition_metrics(run, verdicts, repetition, evidence.measure(repetition))
    return Findings(metrics, summary, replaced=True, repetition=repetition)


def _repetition_metrics(
    run: ResolvedRun, verdicts: Verdicts, repetition: Repetition, measured: Mapping[str, Metric]
) -> dict[str, Metric]:
    """Return the metrics of a repetition that was measured as a run of its own."""
    # Series by step have no counterpart in the metrics of a repetition.
    numbers = {name: value for name, value in measured.items() if isinstance(value, int | float)}
    return {
        "repetition_order": len(repetition.ranks),
        **{f"repetition_{name}": numbers[name] for name in ("steps", "packets", "segments", "bytes")},
        "repetition_seconds": numbers["virtual_seconds"],
        "final_delivery_ratio": numbers["delivery_ratio"],
        "agreement_errors": verdicts.metrics["agreement_errors"]
        + repetition.strays
        # The audit of the whole run judges whether faults explain the lost packets.
        + (max(0, numbers["illegal_hops"] - numbers["lost"]) if run.judged.timeline.is_lasting else 0),
    }


def _going_on(verdicts: Verdicts) -> list[Reported]:
    """Return the final decisions of nodes that run the collective again."""
    return [each for group in verdicts.standing.values() for each in group if each.ends == (RunEnd.REPEATED,)]


def repetition_of(run: ResolvedRun, journal: pl.LazyFrame, verdicts: Verdicts) -> Repetition | None:
    """Return the repetition that stands at the end; None without a repetition, or if it needs no packets."""
    going_on = _going_on(verdicts)
    if not going_on:
        return None
    # All decisions that stand in the component that continues are the same, or the judge has counted the differences.
    decision = going_on[0]
    part = part_after(run, decision)
    if part.algorithm is None:
        return None
    plain = {
        "fault": (),
        "fault_knowledge": FaultKnowledge.NONE,
        "on_failure": OnFailure.CONTINUE,
        # Steps ascend along every path under either clock, so the rules of lock-step are valid for both.
        "clock": "steps",
        "keep_alive": None,
        "agreement_steps": None,
    }
    again = ResolvedRun(
        scenario=run.scenario.model_copy(update=plain),
        topology=part.algorithm.topology,
        spec=part.algorithm.spec,
        algorithm=part.algorithm,
        faults=(),
        features=(),
        in_effect=(),
    )
    rows = _renumbered(run, journal, decision, part)
    # Ranks and ports outside the part have no new number, so such rows have a null.
    strange = pl.any_horizontal(pl.all().is_null())
    strays = rows.filter(strange).select(pl.len()).collect().item()
    # The repetition begins in the step of the decision, step 1 of its own count.
    return Repetition(again, rows.filter(~strange), strays, part.ranks, decision.step - 1)


def _renumbered(run: ResolvedRun, journal: pl.LazyFrame, decision: Reported, part: NetworkPart) -> pl.LazyFrame:
    """Return the rows of a repetition in the form of a run of its own: ranks, ports, trees and steps count from its
    beginning.
    """
    assert part.algorithm is not None
    new = {rank: number for number, rank in enumerate(part.ranks)}
    network = part.algorithm.topology
    ports = [
        (rank, port, network.neighbours(number).index(new[peer]))
        for rank, number in new.items()
        for port, peer in run.topology.adjacent(rank)
        # Links that were given up, or lead out of the part, are not part of the new network.
        if peer in new and new[peer] in network.neighbours(number)
    ]
    table = pl.DataFrame(ports, schema={"sender": pl.Int32, "port": pl.Int16, "new_port": pl.Int16}, orient="row")
    # Each repetition has a block of tree numbers, so that packets of two repetitions cannot be confused.
    first = AGAIN_TREE + TREES * decision.number
    # A target may also stand for all ranks.
    renumber = {**new, ALL_RANKS: ALL_RANKS}
    ranks = [
        pl.col(name).replace_strict(renumber, default=None, return_dtype=pl.Int32)
        for name in ("sender", "receiver", "origin", "target")
    ]
    return (
        journal.filter(pl.col("tree").is_between(first, first + TREES - 1), pl.col("sender").is_in(list(part.ranks)))
        .join(table.lazy(), on=["sender", "port"], how="left")
        .with_columns(
            *ranks,
            port="new_port",
            tree=pl.col("tree") - first,
            step=pl.col("step") - (decision.step - 1),
        )
        .drop("new_port")
    )
