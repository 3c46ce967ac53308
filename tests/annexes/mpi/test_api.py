"""`coordinator.judge`: verdicts as tables, and histories as runs."""

from pathlib import Path

import pytest

import coordinator as tb
from tests.annexes.mpi.support import played_library


def test_a_judgement_has_calls_pairs_and_runs(tmp_path: Path) -> None:
    library = played_library(tmp_path)
    found = tb.judge("allreduce", ["ring", "basic_linear"], ranks=3, mpirun=library, open_ports=True)
    assert (found.verdict, found.library) == ("holds", "Played MPI 1")
    assert found.calls.select("algorithm", "messages", "bytes").rows() == [
        ("ring", 12, 4000),
        ("basic_linear", 4, 4000),
    ]
    assert found.pairs.filter(found.pairs["call"] == 1).rows()[0] == (1, 0, 1, 1, 1000)
    assert found.orders.is_empty()
    assert [run.summary["algorithm"] for run in found.save(tmp_path / "runs")] == ["ring", "basic_linear"]
    assert sorted(path.name for path in (tmp_path / "runs").iterdir()) == [
        "allreduce-basic-linear-3-1000-r0-s0",
        "allreduce-ring-3-1000-r0-s0",
    ]
    assert "2 calls of Played MPI 1: holds" in repr(found)


def test_impossible_values_are_refused() -> None:
    with pytest.raises(tb.ScenarioError, match="invalid ranks 1"):
        tb.judge("allreduce", ranks=[1])
