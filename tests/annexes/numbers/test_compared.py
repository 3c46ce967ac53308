"""Comparison of results: the elements that differ, and the first addition where the trees part."""

from pathlib import Path

import coordinator
from coordinator.reports.data import read_run
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows


def test_a_longer_message_changes_the_recorded_share_of_bits(tmp_path: Path) -> None:
    ring = Case("ring:6 allreduce ring port_model=one-port values=float32 seed=1 message_bytes=960")
    runs = [case.stored(tmp_path / name).path for name, case in (("one", ring), ("two", ring.but(message_bytes=1920)))]
    bits = coordinator.compare(*runs).record["bits"]
    assert bits["elements"] == 240
    # A ring that is rotated by one rank has another tree for each chunk, and the same share for six ranks.
    (row,) = golden_rows("additions", "independence", algorithm="ring", P="6", values="float32")
    assert f"{100 * bits['differing'] / 240:.1f}" == row["percent_changed_if_n_is_480"]
    assert bits["trees"] == ["((0+(((2+3)+4)+5))+1)", "(0+((((1+2)+3)+4)+5))"]
    assert f"first element {bits['first']}: " in bits["text"]


def test_equal_bits_are_certified_by_equal_trees(tmp_path: Path) -> None:
    case = Case("complete:6 allreduce recursive-doubling port_model=exchange values=float32 seed=1 message_bytes=960")
    runs = [case.stored(tmp_path / name).path for name, case in (("one", case), ("two", case.but(message_bytes=1920)))]
    bits = coordinator.compare(*runs).record["bits"]
    assert bits["differing"] == 0
    assert bits["text"].endswith("and their fold trees are equal there")


def test_runs_without_numbers_have_no_bits(tmp_path: Path) -> None:
    plain = Case("star:3 allreduce bfs-tree").stored(tmp_path / "plain").path
    assert read_run(plain).results is None
    assert coordinator.compare(plain, plain).record["bits"] is None


def test_runs_in_memory_are_compared_too() -> None:
    star = coordinator.network("star:3")
    one, other = (star.allreduce("bfs-tree", values=kind, seed=1) for kind in ("float32", "float64"))
    assert "no bits in common" in coordinator.compare(one, other).record["bits"]["text"]
    again = star.allreduce("bfb", values="float32", seed=1)
    assert coordinator.compare(one, again).record["bits"]["differing"] > 0
