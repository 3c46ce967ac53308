"""Figures 16 and 17 of Johnsson and Ho on the timed clock, in memory."""

from dataclasses import replace

import pytest

from coordinator.annexes.papers.johnsson_ho import timed_speedup
from coordinator.annexes.papers.run_cache import RunCache
from tests.annexes.papers.support import golden


def test_the_timed_speed_up_matches_theory(run_cache: RunCache) -> None:
    """Compared with the closed forms of the golden file."""
    predicted = golden("hypercube", "ipsc_broadcast_prediction")
    by_n = {int(row["n"]): row for row in predicted if row["P=packets"] == "60"}
    found = list(timed_speedup.rows(replace(run_cache, sizes=timed_speedup.REPRODUCTION.sizes), driver="memory"))
    assert [row["n"] for row in found] == sorted(by_n)
    for row in found:
        expected = by_n[int(str(row["n"]))]
        assert row["verdict"] == "holds"
        assert row["SBT measured"] == pytest.approx(float(expected["SBT_ms"]), abs=0.1)
        assert row["nESBT measured"] == pytest.approx(float(expected["nESBT_ms_exchange"]), abs=0.1)
        assert row["measured"] == pytest.approx(float(expected["speedup_exchange"]), abs=1e-4)
