"""The command line: what it prints, and with which exit status it ends."""

import json
from pathlib import Path

import pytest

from coordinator.cli import main

RUN = ("run", "--collective", "broadcast", "--driver", "memory")

HOSTED = ("plan", "--collective", "broadcast", "--algorithm", "sbt")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go below a folder of their own."""
    monkeypatch.chdir(tmp_path)


def summary_of(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    printed = json.loads(capsys.readouterr().out)
    assert isinstance(printed, dict)
    return printed


def test_json_is_the_summary_of_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "there"
    assert main([*RUN, "--topology", "star:4", "--algorithm", "greedy-tree", "--json", "--out", str(out)]) == 0
    assert summary_of(capsys) == json.loads((out / "summary.json").read_text())


def test_a_file_needs_no_flags_and_flags_override_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "scenario.toml"
    file.write_text('topology = "star:4"\ncollective = "broadcast"\nalgorithm = "greedy-tree"\ndriver = "memory"\n')
    assert main(["run", str(file), "--json"]) == 0
    assert summary_of(capsys)["seed"] == 0
    assert main(["run", str(file), "--seed", "7", "--json"]) == 0
    assert summary_of(capsys)["seed"] == 7


def test_what_is_printed_names_the_run_directory(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*RUN, "--topology", "star:3", "--algorithm", "flood"]) == 0
    printed = capsys.readouterr().out
    assert "verdict: holds" in printed
    folder = Path(printed.rsplit("run directory: ", 1)[1].strip())
    assert (folder / "journal.parquet").exists()
    assert (folder.parent / "latest").resolve() == folder.resolve()


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ([*RUN, "--topology", "ej:1+2^2", "--algorithm", "improved", "--fault", "crash:0,0/0,0@1"], 3, "undecided"),
        (["run", "--topolgy", "star:4"], 2, "--topology"),
        (["run"], 2, "topology"),
        (["run", "nowhere.toml"], 2, "nowhere.toml"),
        ([*RUN, "--topology", "star:4", "--algorithm", "gredy-tree"], 2, "'greedy-tree'"),
        ([*RUN, "--topology", "star:4", "--algorithm", "flood", "--source", "1244"], 2, "permutation"),
        ([*RUN, "--topology", "star:4", "--algorithm", "flood", "--fault", "crash:4321"], 2, "@STEP"),
        ([*RUN, "--topology", "star:4", "--algorithm", "flood", "--messages", "0"], 2, "messages"),
        ([*HOSTED, "--topology", "hypercube:26"], 4, "GiB of memory"),
        (["frobnicate"], 2, "frobnicate"),
    ],
)
def test_exit_status(arguments: list[str], status: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == status
    printed = capsys.readouterr()
    assert said in printed.out + printed.err


def test_a_negative_control_is_violated(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--topology", "ej:1+2^2", "--collective", "allgather", "--algorithm", "three-phase-printed"]
    assert main(["run", "--driver", "memory", *arguments]) == 1
    assert "violated" in capsys.readouterr().out


@pytest.mark.parametrize(
    "what", [["list", "topologies"], ["list", "algorithms"], ["list", "faults"], ["doctor"], ["clean"]]
)
def test_small_commands_print_text_and_json(what: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(what) == 0
    assert capsys.readouterr().out.strip()
    assert main([*what, "--json"]) == 0
    json.loads(capsys.readouterr().out)


def test_plan_predicts_without_running(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", "--topology", "star:5", "--collective", "broadcast", "--algorithm", "greedy-tree", "--json"]
    assert main(arguments) == 0
    planned = summary_of(capsys)
    assert planned["links"] == 240
    assert planned["claims"]
    assert not (tmp_path / "runs").exists()
