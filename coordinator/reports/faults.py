"""What a report says of faults: the table of those that were given, and the nodes that they cut off."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from coordinator.planning.plan import Plan
from coordinator.reports.data import RunData
from coordinator.reports.tables import show
from coordinator.reports.votes import State, Votes
from emunode.model import ALL_RANKS, Collective

LISTED_FAULTS = 200
LISTED_NODES = 100
ENDED_BY = {"crash": "recover", "down": "up"}


def fault_table(data: RunData) -> list[dict[str, str]]:
    """One row for each fault, in words."""
    return [
        {
            "kind": str(fault.get("kind", "?")),
            "where": str(fault.get("label", fault.get("rank", "?"))),
            "step": show(fault.get("step")),
            "words": "; ".join(_words(fault, data.faults)),
        }
        for fault in data.faults[:LISTED_FAULTS]
    ]


def _words(fault: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> list[str]:
    words = []
    if fault.get("rate") is not None:
        words.append(f"with probability {show(fault['rate'])}")
    if fault.get("steps") is not None:
        words.append("by 1 step" if fault["steps"] == 1 else f"by {show(fault['steps'])} steps")
    if fault.get("packet") is not None:
        words.append(f"packet number {show(fault['packet'])}")
    if fault.get("kind") not in ENDED_BY.values() and "last" in fault:
        last = _last(fault, faults)
        words.append("until the end" if last is None else f"to the end of step {show(last)}")
    if "seen" in fault:
        seen = fault["seen"]
        words.append("no effect was seen" if seen is None else f"first effect in step {show(seen)}")
    return words


def _last(fault: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> object:
    """The last step in which a fault was in force; what mends it ends it."""
    place = ("rank",) if fault.get("kind") == "crash" else ("sender", "port")
    ends = [
        other["step"] - 1
        for other in faults
        if other.get("kind") == ENDED_BY.get(str(fault.get("kind")), "")
        and all(other.get(key) == fault.get(key) for key in place)
        and isinstance(other.get("step"), int)
        and isinstance(fault.get("step"), int)
        and other["step"] > fault["step"]
    ]
    last = fault.get("last")
    return min([*ends, *([last] if isinstance(last, int) else [])], default=last)


class CutOff(NamedTuple):
    """Healthy nodes that miss something that was due to them (in a gather, of which something is missing)."""

    total: int
    nodes: Sequence[tuple[str, str | None]]
    """Label and the fault that did it, where that is known; the first few."""

    def by_fault(self) -> list[tuple[str | None, list[str]]]:
        """The listed nodes by what cut them off."""
        groups: dict[str | None, list[str]] = {}
        for label, because in self.nodes:
            groups.setdefault(because, []).append(label)
        return list(groups.items())


def cut_off(data: RunData, votes: Votes | None) -> CutOff:
    """The nodes that a run's summary names; for older runs, which name none, those that its tables show."""
    named, count = data.summary.get("cut_off"), data.summary.get("cut_off_count")
    if isinstance(named, list):
        nodes = [
            (str(node.get("label")), None if node.get("because") is None else str(node["because"]))
            for node in named
            if isinstance(node, dict)
        ]
        return CutOff(count if isinstance(count, int) else len(nodes), nodes)
    ranks = _unserved(data, votes)
    topology = data.topology
    assert topology is not None or not ranks
    return CutOff(len(ranks), [(topology.label(rank), None) for rank in ranks[:LISTED_NODES]] if topology else [])


def _unserved(data: RunData, votes: Votes | None) -> list[int]:
    """Ranks of nodes that were not served, by the tables and the journal of a run."""
    plan, everything = data.plan, data.get("intact_deliveries") == data.get("expected_deliveries")
    if plan is None or data.topology is None or everything or plan.spec.collective is Collective.REDUCE:
        return []
    if votes is not None:
        return np.flatnonzero(votes.due & (votes.state != State.RIGHT)).tolist()
    got = _received(data, plan)
    due = sum(plan.algorithm.segments_due(number) for number in range(plan.spec.messages))
    healthy = [rank for rank in data.topology.ranks() if rank not in plan.states]
    if plan.spec.collective in (Collective.ALLGATHER, Collective.ALLTOALL):
        return [rank for rank in healthy if got.get(rank, due) < due * (len(healthy) - 1)]
    return [rank for rank in healthy if rank != plan.spec.source and got.get(rank, due) < due]


def _received(data: RunData, plan: Plan) -> dict[int, int]:
    """Pieces from healthy nodes that reached each rank, or in a gather those of its own that arrived; empty if unknown."""
    if data.journal is None:
        return {}
    rows = data.journal.filter(
        (pl.col("target") == ALL_RANKS) | (pl.col("target") == pl.col("receiver")),
        pl.col("outcome").cast(pl.String) == "first",
        (pl.col("origin") == plan.spec.source) | ~pl.col("origin").is_in(list(plan.states)),
    )
    by = "origin" if plan.spec.collective is Collective.GATHER else "receiver"
    arrived = rows.group_by(rank=by).agg(pl.len()).collect(engine="streaming")
    return {**dict.fromkeys(plan.topology.ranks(), 0), **dict(arrived.iter_rows())}
