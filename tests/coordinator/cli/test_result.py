"""The result of a run as text: network, faults, the nodes that they cut off, and the verdict."""

from pathlib import Path

import pytest

from coordinator.cli.result import SHOWN_NODES, show_result
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case

LINE = "star:3 broadcast greedy-tree"


def shown(case: Case, folder: Path, capsys: pytest.CaptureFixture[str], **options: bool) -> list[str]:
    """Return the lines that are printed about a stored run of a case."""
    result = case.stored(folder / "run")
    capsys.readouterr()
    show_result(result.plan, result, **options)
    return capsys.readouterr().out.splitlines()


def test_of_many_nodes_the_first_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    case = Case("ring:40 broadcast bfs-tree", "crash:1@1")
    (cut,) = (line for line in shown(case, tmp_path, capsys) if line.startswith("cut off by "))
    *names, more = cut.partition(": ")[2].split(", ")
    lost = case.summary["expected_deliveries"] - case.summary["intact_deliveries"]
    assert len(names) == SHOWN_NODES
    assert f"{lost} nodes: " in cut
    assert more == f"{lost - SHOWN_NODES} more"


def test_claims_are_listed_with_their_sources(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    brief = shown(Case(LINE), tmp_path, capsys)
    (tmp_path / "more").mkdir()
    whole = "\n".join(shown(Case(LINE), tmp_path / "more", capsys, every_claim=True))
    assert "Tseng-Sheu" in whole
    assert not any("Tseng-Sheu" in line for line in brief)
    assert "delivered 5 of 5 in " in whole


def test_faults_without_effect_are_named(call: Call) -> None:
    ended = call("run --driver memory --topology star:3 --collective broadcast --algorithm flood --fault crash:213@90")
    assert "after the last step, so without effect: crash:213@90" in ended.out
