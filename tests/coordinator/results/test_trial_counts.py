"""Counting a trial gives the metrics of measuring its journal, under any faults."""

from pathlib import Path
from random import Random

import pytest

from coordinator.history.journal import Journal, sorted_records, table
from coordinator.results.deliveries import messages_due
from coordinator.results.metrics import count_trial, measure
from emunode.net.wire import ROW
from tests.helpers.mutation_support import history_of
from tests.helpers.scenarios import Case
from tests.helpers.support import played

CASES = [
    "star:4 broadcast edt redundancy=3",
    "star:4 broadcast edt messages=3 redundancy=2",
    "star:4 broadcast congestion2-trees segments=2",
    "star:3 reduce edt messages=2",
    "star:3 allgather rotated-trees",
    "star:3 gather edt redundancy=2",
    "star:3 scatter edt redundancy=2 messages=2",
    "hypercube:3 alltoall sbt",
    "hypercube:3 broadcast flood",
    "ej:1+2 broadcast independent-trees redundancy=2",
]
BROKEN = (
    "crash=1", "crash=2;sources", "down=2", "hang=1", "byzantine=1", "loss=2:0.5", "corrupt=2:0.5", "delay=1:2",
    "duplicate=1:1", "drop=1:1",
)  # fmt: skip


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("line", CASES)
def test_trial_counts_equal_run_metrics(line: str) -> None:
    topology, collective, *_ = line.split()
    chance = Random(f"{topology}/{collective}")
    undelivered = altered = 0
    for seed in range(12):
        parts = chance.sample(BROKEN, seed % 4)
        fault = [f"random:{part}@{1 + seed % 2}" for part in parts]
        plan = Case(line, *fault, seed=seed).plan
        rows, altered_copies = played(plan)
        records = sorted_records([rows])
        counted = count_trial(plan, records, altered_copies)
        measured = measure(plan, table(records).lazy(), altered_copies, rows=len(records))
        assert counted.metrics == {name: measured.metrics[name] for name in counted.metrics}, fault
        due = messages_due(plan)
        assert due.tolist() == measured.nodes["expected"].to_list()
        whole = measured.metrics["intact_deliveries"] == measured.metrics["expected_deliveries"]
        assert (not counted.unserved) is whole
        assert (counted.least_copies > 0) is whole
        assert all(due[rank] for rank in counted.unserved)
        undelivered += not whole
        altered += bool(measured.metrics["corrupt"])
    assert undelivered, "nothing was ever lost, so nothing was shown"
    assert altered or collective in ("alltoall", "gather"), "nothing was ever altered"


def test_trial_hash_equals_run_hash(tmp_path: Path) -> None:
    plan = Case("star:4 broadcast edt", redundancy=3, fault=["random:nodes=2;links=1@2"]).plan
    rows, _ = played(plan)
    journal = Journal(tmp_path)
    journal.add([rows])
    journal.close()
    half = len(rows) // 2 // ROW.size * ROW.size
    assert count_trial(plan, sorted_records([rows[half:], rows[:half]])).journal_hash == journal.hash


def test_least_number_of_copies() -> None:
    """With three disjoint paths per node, each faulty node costs every other node at most one copy."""
    for crashed, least in ([], 3), (["crash:2134@1"], 2), (["crash:2134@1", "crash:3214@1"], 1):
        plan = Case("star:4 broadcast edt x=3", *crashed).plan
        assert count_trial(plan, history_of(plan)).least_copies == least
