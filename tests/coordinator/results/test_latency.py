"""Latencies of served nodes, against a walk over the journal and against closed formulas."""

from collections import defaultdict
from random import Random

import numpy as np
import pytest

from coordinator.history.journal import sorted_records, table
from coordinator.results.latency import latency_metrics
from coordinator.results.metrics import measure
from emunode.model import HopOutcome
from tests.helpers.scenarios import Case
from tests.helpers.support import played

NAMES = ("served_nodes", "mean_latency", "max_latency", "informed_nodes_per_step", "redundancy_cost")
CASES = (
    "star:4 broadcast edt redundancy=2",
    "star:4 broadcast edt redundancy=3 messages=2",
    "star:4 broadcast greedy-tree",
    "hypercube:3 broadcast nesbt redundancy=3",
    "hypercube:4 broadcast flood source=0110",
    "ej:2+3 broadcast improved segments=3",
)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("line", CASES)
def test_latencies_are_those_of_the_journal(line: str) -> None:
    topology, _, algorithm, *_ = line.split()
    chance, partly = Random(f"{topology} {algorithm}"), 0
    for seed in range(12):
        parts = chance.sample(["crash=2", "down=3", "loss=2:0.5", "delay=1:2", "hang=1"], seed % 4)
        fault = [f"random:{part}@{1 + seed % 3}" for part in parts]
        plan = Case(line, *fault, seed=seed).plan
        rows, altered = played(plan)
        records = sorted_records([rows])
        metrics = measure(plan, table(records).lazy(), altered, rows=len(records)).metrics

        # By node, the step in which each piece arrived first.
        first: dict[int, dict[int, int]] = defaultdict(dict)
        for row in records:
            if row["outcome"] in (HopOutcome.FIRST, HopOutcome.DUPLICATE):
                pieces = first[int(row["receiver"])]
                pieces.setdefault(int(row["segment"]), int(row["step"]))
        due = plan.spec.messages * plan.algorithm.segments_per_message
        latencies = [
            max(pieces.values())
            for rank, pieces in first.items()
            if rank != plan.spec.source and rank not in plan.judged.states and len(pieces) == due
        ]
        packets = len(_packets(records))
        expected: dict[str, object] = {
            "served_nodes": len(latencies),
            "redundancy_cost": pytest.approx(packets / (plan.topology.order - 1)),
            "informed_nodes_per_step": tuple(
                1 + sum(latency <= step for latency in latencies) for step in range(max(latencies, default=0) + 1)
            ),
        }
        if latencies:
            expected |= {"mean_latency": pytest.approx(np.mean(latencies)), "max_latency": max(latencies)}
        assert {name: metrics[name] for name in NAMES if name in metrics} == expected, fault
        partly += 0 < len(latencies) < plan.topology.order - 1
    assert partly, "no fault cost a node its message"


def _packets(records: np.ndarray) -> set[tuple[int, int, int]]:
    return {(int(row["step"]), int(row["sender"]), int(row["port"])) for row in records}


def test_a_run_that_serves_no_node_has_no_latency() -> None:
    nothing = latency_metrics(np.array([], dtype=np.int64), 24, 3, broadcast=True)
    assert nothing == {"served_nodes": 0, "redundancy_cost": 3 / 23, "informed_nodes_per_step": (1,)}
    assert "informed_nodes_per_step" not in latency_metrics(np.array([2, 1]), 24, 3, broadcast=False)
