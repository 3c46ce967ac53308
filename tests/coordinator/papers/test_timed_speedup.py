"""Figures 16 and 17 of Johnsson and Ho by the timed clock, in memory."""

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from coordinator.papers.johnsson_ho import timed_speedup
from coordinator.papers.run_cache import open_run_cache

GOLDEN = Path(__file__).parent.parent.parent / "golden" / "hypercube" / "ipsc_broadcast_prediction.csv"


def test_speed_up_by_the_clock_is_that_of_theory() -> None:
    """Beside the closed forms of the golden file."""
    with GOLDEN.open() as file:
        golden = {int(row["n"]): row for row in csv.DictReader(file) if row["P=packets"] == "60"}
    with open_run_cache() as run_cache:
        found = list(timed_speedup.rows(replace(run_cache, sizes=timed_speedup.REPRODUCTION.sizes), driver="memory"))
    assert [row["n"] for row in found] == sorted(golden)
    for row in found:
        expected = golden[int(str(row["n"]))]
        assert row["verdict"] == "holds"
        assert row["SBT measured"] == pytest.approx(float(expected["SBT_ms"]), abs=0.1)
        assert row["nESBT measured"] == pytest.approx(float(expected["nESBT_ms_exchange"]), abs=0.1)
        assert row["measured"] == pytest.approx(float(expected["speedup_exchange"]), abs=1e-4)
