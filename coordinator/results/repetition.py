"""The repetition of a collective after failures, measured as a run of its own on what is left of the network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import polars as pl

from coordinator.planning.plan import Plan
from coordinator.results.agreement import Verdicts
from coordinator.results.decisions import Reported, part_after
from coordinator.results.journal_rows import IS_REPETITION
from coordinator.scenario.model import OnFailure
from emunode.model import AGAIN_TREE, ALL_RANKS, FaultKnowledge, Rank, Step
from emunode.protocols.survivors import TREES, Part, RunEnd


@dataclass(frozen=True)
class Repetition:
    """A collective that ran again, as a run of its own."""

    plan: Plan
    """On what is left of the network, renumbered, without faults."""
    rows: pl.LazyFrame
    """Its journal."""
    strays: int
    """Rows of its trees between nodes that do not take part in it."""
    ranks: Sequence[Rank]
    """By new rank, the old one."""
    before: Step
    """The step after which it begins."""


def repetition_of(plan: Plan, journal: pl.LazyFrame, verdicts: Verdicts) -> Repetition | None:
    """The repetition that stands at the end; None without one, or if it needs no packets."""
    agreement = plan.spec.agreement
    going_on = [each for group in verdicts.standing.values() for each in group if each.ends == (RunEnd.REPEATED,)]
    if agreement is None or not agreement.shrink or not going_on:
        return None
    decision = going_on[0]
    part = part_after(plan, decision)
    if part.algorithm is None:
        return None
    plain = {
        "fault": (),
        "fault_knowledge": FaultKnowledge.NONE,
        "on_failure": OnFailure.CONTINUE,
        "agreement_steps": None,
    }
    again = replace(
        plan,
        scenario=plan.scenario.model_copy(update=plain),
        topology=part.algorithm.topology,
        spec=part.algorithm.spec,
        algorithm=part.algorithm,
        faults=(),
        hosts=0,
        in_effect=(),
    )
    rows = _renumbered(plan, journal, decision, part)
    strange = pl.any_horizontal(pl.all().is_null())
    strays = rows.filter(strange).select(pl.len()).collect().item()
    return Repetition(again, rows.filter(~strange), strays, part.ranks, decision.step - 1)


def repetition_metrics(
    plan: Plan, journal: pl.LazyFrame, verdicts: Verdicts, measure: Callable[[Repetition], Mapping[str, object]]
) -> dict[str, int | float]:
    """The metrics of the repetition that stands at the end; `measure` measures a run of its own.

    Nothing about deliveries if the collective was to run again, and did not.
    """
    agreement = plan.spec.agreement
    if agreement is None or not agreement.shrink:
        return {}
    begun = journal.filter(IS_REPETITION).select(((pl.col("tree") - AGAIN_TREE) // TREES).unique()).collect()
    found: dict[str, int | float] = {"repetitions": len(begun)}
    repetition = repetition_of(plan, journal, verdicts)
    if repetition is None:
        # A single node has everything that it needs.
        alone = any(each.ends == (RunEnd.REPEATED,) for group in verdicts.standing.values() for each in group)
        return found | ({"repetition_order": 1, "final_delivery_ratio": 1.0} if alone else {})
    numbers = {name: value for name, value in measure(repetition).items() if isinstance(value, int | float)}
    return found | {
        "repetition_order": len(repetition.ranks),
        **{f"repetition_{name}": numbers[name] for name in ("steps", "packets", "segments", "bytes")},
        "repetition_seconds": numbers["virtual_seconds"],
        "final_delivery_ratio": numbers["delivery_ratio"],
        "agreement_errors": verdicts.metrics["agreement_errors"]
        + repetition.strays
        # Whether faults explain what was lost is judged with all other packets.
        + (max(0, numbers["illegal_hops"] - numbers["lost"]) if plan.timeline.is_lasting else 0),
    }


def _renumbered(plan: Plan, journal: pl.LazyFrame, decision: Reported, part: Part) -> pl.LazyFrame:
    """The rows of a repetition as those of a run of its own: ranks, ports, trees and steps count from its beginning."""
    assert part.algorithm is not None
    new = {rank: number for number, rank in enumerate(part.ranks)}
    network = part.algorithm.topology
    ports = [
        (rank, port, network.neighbours(number).index(new[peer]))
        for rank, number in new.items()
        for port, peer in plan.topology.adjacent(rank)
        if peer in new and new[peer] in network.neighbours(number)
    ]
    table = pl.DataFrame(ports, schema={"sender": pl.Int32, "port": pl.Int16, "new_port": pl.Int16}, orient="row")
    first = AGAIN_TREE + TREES * decision.number
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
