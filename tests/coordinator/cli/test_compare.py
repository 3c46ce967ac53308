"""`coordinator compare`: differences of stored runs, in each format."""

import csv
from pathlib import Path

import pytest

from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Provide two runs that differ in their algorithm."""
    folder = tmp_path_factory.mktemp("runs")
    for name in ("edt", "flood"):
        Case(f"star:3 broadcast {name}").stored(folder / name)
    return folder / "edt", folder / "flood"


def test_differences_are_printed_and_equal_metrics_left_out(call: Call, runs: tuple[Path, Path]) -> None:
    short, whole = call("compare", *runs), call("compare --all", *runs)
    assert (short.status, whole.status) == (0, 0)
    assert short.out.startswith("the scenarios differ in: algorithm; different histories\n")
    for printed, row in ((short, False), (whole, True)):
        assert any(line.split()[:2] == ["metric", "order"] for line in printed.out.splitlines()) is row
    assert "--all prints equal metrics" in short.out
    (steps,) = (line for line in short.out.splitlines() if line.split()[:2] == ["metric", "steps"])
    assert steps.split() == ["metric", "steps", "5", "(predicted", "5)", "3", "(predicted", "3)", "0.6"]
    assert not any(line.split()[:3] == ["metric", "journal", "hash"] for line in whole.out.splitlines())
    assert "--all" not in whole.out
    same = call("compare", runs[0], runs[0]).out
    assert same.startswith("the scenarios differ in: nothing; the same history, byte for byte\n")


def test_formats_have_every_metric(call: Call, runs: tuple[Path, Path]) -> None:
    record = call("compare --json", *runs).data
    assert record["differs"] == {"algorithm": ["edt", "flood"]}
    rows = list(csv.reader(call("compare --csv", *runs).out.splitlines()))
    table = call("compare --markdown", *runs).out
    for name, values in record["metrics"].items():
        assert [row[1] for row in rows].count(name) == 1, name
        assert f"| metric | {name} |" in table
        assert len(values) == 2
