"""Verdicts on rows of tables."""

from pathlib import Path

from coordinator.annexes.papers.run_cache import CachedRun
from coordinator.annexes.papers.tables import compared, row_verdict
from tests.coordinator.results.test_conclude import TREE
from tests.scenarios import Case
from tests.support import run_scenario


def test_metrics_of_an_undecided_run_are_not_judged(tmp_path: Path) -> None:
    result = run_scenario(tmp_path / "run", **TREE, step_limit=1)
    trial = CachedRun(Case(TREE).plan, result.summary, result.path, result.verdict)
    assert compared(99, 1, trial)["verdict"] == "undecided"
    assert compared(1, 1, trial, bound=99)["verdict"] == "undecided"
    assert row_verdict(False, trials=[trial]) == "undecided"
    good = run_scenario(tmp_path / "good", **TREE)
    decided = CachedRun(Case(TREE).plan, good.summary, good.path, good.verdict)
    assert row_verdict(False, trials=[decided]) == "violated"
    assert row_verdict(False, trials=[decided, trial]) == "undecided"
