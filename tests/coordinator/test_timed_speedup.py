"""Figures 16 and 17 of Johnsson and Ho by the timed clock, in memory."""

import csv
from pathlib import Path

import pytest

from coordinator.papers import timed_speedup

GOLDEN = Path(__file__).parent.parent / "golden" / "hypercube" / "ipsc_broadcast_prediction.csv"


def test_speed_up_by_the_clock_is_that_of_theory() -> None:
    """Beside the closed forms of the golden file."""
    with GOLDEN.open() as file:
        golden = {int(row["n"]): row for row in csv.DictReader(file) if row["P=packets"] == "60"}
    found = list(timed_speedup.rows(driver="memory"))
    assert [row["n"] for row in found] == sorted(golden)
    for row in found:
        expected = golden[int(str(row["n"]))]
        assert row["verdict"] == "holds"
        assert row["sbt_measured"] == pytest.approx(float(expected["SBT_ms"]) / 1000, abs=1e-4)
        assert row["nesbt_measured"] == pytest.approx(float(expected["nESBT_ms_exchange"]) / 1000, abs=1e-4)
        assert row["speedup_measured"] == pytest.approx(float(expected["speedup_exchange"]), abs=1e-4)
