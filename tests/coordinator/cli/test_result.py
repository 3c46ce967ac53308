"""The result of a run as text: network, faults, the nodes that they cut off, and the verdict."""

from pathlib import Path

import polars as pl
import pytest

from coordinator.cli.result import SHOWN_NODES, show_result
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case


def test_of_many_nodes_the_first_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case("ring:40 broadcast bfs-tree", "crash:1@1")
    result = case.stored(tmp_path / "run")
    show_result(result.plan, result)
    (cut,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("cut off by "))
    nodes = pl.read_parquet(result.path / "nodes.parquet")
    lost = nodes.filter(pl.col("received") < pl.col("expected"))["label"].to_list()
    named = ", ".join([*lost[:SHOWN_NODES], f"{len(lost) - SHOWN_NODES} more"])
    assert cut == f"cut off by crash:1@1, {len(lost)} nodes: {named}"


def test_faults_without_effect_are_named(call: Call) -> None:
    ended = call("run --driver memory --topology star:3 --collective broadcast --algorithm flood --fault crash:213@90")
    assert "after the last step, so without effect: crash:213@90" in ended.out
