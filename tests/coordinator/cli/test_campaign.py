"""`coordinator campaign` and `certify` from the command line: results, resuming after a kill, Ctrl-C, invalid input."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from coordinator.cli.app import main

STAR = ("--topology", "star:4", "--algorithm", "edt", "--redundancy", "2")
CAMPAIGN = ("campaign", *STAR, "--faults", "nodes=2", "--workers", "1")
COORDINATOR = [sys.executable, "-m", "coordinator"]


def called(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, object]]:
    """Exit status and JSON of a command."""
    status = main([*arguments, "--json"])
    out = capsys.readouterr().out
    return status, json.loads(out) if out else {}


def rows_of(said: dict[str, object]) -> list[dict[str, Any]]:
    """The rows of a campaign."""
    rows = said["rows"]
    assert isinstance(rows, list)
    return rows


def records(folder: Path) -> list[dict[str, object]]:
    """What is recorded, line by line."""
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


# --- campaign ----------------------------------------------------------------------------------------------------------


def test_a_campaign_leaves_figures_tables_and_trials(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "campaign"
    grid = (
        "--vary",
        "algorithm=greedy-tree,edt",
        "--vary",
        "redundancy=1..3",
        "--faults",
        "nodes=0..3",
        "--trials",
        "40",
    )
    status, said = called(capsys, "campaign", "--topology", "star:4", *grid, "--out", str(folder))
    assert status == 0
    assert said["finished"] is True
    rows = said["rows"]
    assert isinstance(rows, list)
    assert [row["algorithm"] for row in rows[:4]] == ["greedy-tree", "edt x=1", "edt x=2", "edt x=3"]
    assert [row["trials"] for row in rows] == [1] * 4 + [40] * 12
    for row in rows:
        assert row["violated"] == row["undecided"] == 0
        assert row["ratio_low"] <= row["delivery_ratio"] <= row["ratio_high"]
        assert row["predicted"] == row["delivery_ratio"], "claims name the very nodes that are cut off"
        assert row["theory"] == pytest.approx(row["delivery_ratio"], abs=0.06)
    by_name = {(row["algorithm"], row["faults"]): row for row in rows}
    assert by_name["edt x=3", "nodes=2"]["guaranteed"] == 1
    assert by_name["edt x=3", "nodes=3"]["guaranteed"] < 1
    assert by_name["greedy-tree", "nodes=1"]["guaranteed"] < 1
    page = (folder / "campaign.html").read_text()
    assert page.count("<svg") == 4, "two charts, each for wide and for small screens"
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert (folder / "guaranteed-delivery-crashed-nodes.svg").read_text().startswith("<svg")
    assert len((folder / "table.csv").read_text().splitlines()) == 17
    assert (folder / "table.md").read_text().startswith("| algorithm | faults |")
    trials = pl.read_parquet(folder / "trials.parquet")
    assert len(trials) == 4 + 480
    assert (
        trials.filter(pl.col("point") == "nodes=2").group_by("draw").agg(pl.col("faults").n_unique())["faults"].max()
        == 1
    )


def test_mixed_draws_agree_with_all_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One crashed and one byzantine node in S_4: 108 of the 506 sets are survived."""
    arguments = ("campaign", "--topology", "star:4", "--algorithm", "edt", "--redundancy", "3", "--trials", "506")
    points = ("--faults", "nodes=1;byzantine=1", "--faults", "all:nodes=1;byzantine=1")
    status, said = called(capsys, *arguments, *points, "--out", str(tmp_path / "campaign"))
    assert status == 0
    drawn, whole = rows_of(said)
    assert whole["guaranteed"] == pytest.approx(108 / 506, abs=1e-9)
    assert whole["sets"] == whole["trials"] == 506
    assert drawn["sets"] is None
    assert drawn["guaranteed_low"] <= whole["guaranteed"] <= drawn["guaranteed_high"]
    assert drawn["ratio_low"] <= whole["delivery_ratio"] <= drawn["ratio_high"]


def test_a_known_fault_and_more_that_are_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One node is known to be dead, and up to two more fail: three trees bear one of them."""
    folder = tmp_path / "campaign"
    arguments = (
        "campaign",
        "--topology",
        "star:4",
        "--algorithm",
        "edt",
        "--redundancy",
        "3",
        "--fault",
        "crash:2134@1",
    )
    status, said = called(capsys, *arguments, "--faults", "all:nodes=0..2", "--out", str(folder))
    assert (status, said["finished"]) == (0, True)
    rows = rows_of(said)
    assert [row["trials"] for row in rows] == [1, 22, 231]
    assert [row["promised"] for row in rows] == [1, 1, None]
    for row in rows:
        assert row["theory"] == pytest.approx(row["delivery_ratio"], abs=1e-9)
        assert row["guaranteed_theory"] == pytest.approx(row["guaranteed"], abs=1e-9)
    assert rows[2]["guaranteed"] < 1
    status, again = called(capsys, "campaign", "--resume", str(folder))
    assert (status, again["trials"], again["rows"]) == (0, 0, rows)


def test_a_sample_of_all_sets_has_an_interval_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("campaign", *STAR, "--faults", "all:links=2", "--trials", "60", "--out", str(tmp_path / "campaign"))
    assert main([*arguments]) == 0
    assert "edt under all:links=2: a random sample of 60 of its 630 sets" in capsys.readouterr().out
    status, said = called(capsys, *arguments)
    (row,) = rows_of(said)
    assert (status, row["trials"], row["sets"]) == (0, 60, 630)
    assert row["guaranteed_low"] < row["guaranteed"] < row["guaranteed_high"]
    assert row["ratio_low"] < row["theory"] < row["ratio_high"]
    drawn = set(pl.read_parquet(tmp_path / "campaign" / "trials.parquet")["faults"])
    assert len(drawn) == 60
    assert any(":1234~" not in faults for faults in drawn), "not the first in order"


@pytest.mark.parametrize(("faults", "exact"), [("all:nodes=2", True), ("nodes=2", False)])
@pytest.mark.parametrize("figure", ["ratio", "guaranteed"])
def test_an_excluded_theory_is_a_finding(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    faults: str,
    exact: bool,
    figure: str,
) -> None:
    """With a wrong theory put in: just beside the figure for all sets, far enough off for a sample of 253."""
    import dataclasses

    from coordinator.campaigns import tables as results
    from coordinator.theory import reliability as theory

    def wrong(*arguments: object) -> theory.Expected:
        right = theory.expected_delivery_ratio(*arguments)  # type: ignore[arg-type]
        return dataclasses.replace(right, **{figure: getattr(right, figure) - (1e-6 if exact else 0.2)})

    arguments = ("campaign", *STAR, "--faults", faults, "--trials", "253", "--workers", "1")
    status, said = called(capsys, *arguments, "--out", str(tmp_path / "right"))
    assert (status, rows_of(said)[0]["finding"]) == (0, None)
    monkeypatch.setattr(results, "expected_delivery_ratio", wrong)
    status, said = called(capsys, *arguments, "--out", str(tmp_path / "wrong"))
    assert status == 1
    finding = rows_of(said)[0]["finding"]
    assert finding.startswith("delivery ratio" if figure == "ratio" else "guaranteed delivery")
    assert ("over all sets" if exact else "99.99 % interval") in finding
    assert main([*arguments, "--out", str(tmp_path / "wrong")]) == 1
    out = capsys.readouterr().out
    assert "theory excluded" in out
    assert "holds" not in out
    assert f"finding: edt under {faults}: " in out


def test_theory_is_left_out_where_it_does_not_apply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A tree that is grown around known faults still serves every node that can be reached."""
    arguments = ("campaign", "--topology", "star:4", "--algorithm", "bfs-tree", "--vary", "fault_knowledge=none,all")
    status, said = called(capsys, *arguments, "--faults", "all:nodes=1", "--out", str(tmp_path / "campaign"))
    assert status == 0
    without, with_it = rows_of(said)
    assert without["theory"] == pytest.approx(without["delivery_ratio"], abs=1e-9)
    assert without["delivery_ratio"] < 1
    assert (with_it["delivery_ratio"], with_it["theory"], with_it["guaranteed_theory"]) == (1, None, None)


def test_a_crew_finds_what_one_process_finds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for workers in ("1", "2"):
        folder = tmp_path / workers
        arguments = ("campaign", *STAR, "--faults", "nodes=2;loss=1:0.5", "--trials", "40", "--workers", workers)
        status, _ = called(capsys, *arguments, "--out", str(folder))
        assert status == 0
        found.append(sorted((folder / "trials.jsonl").read_text().splitlines()))
    assert found[0] == found[1]


def test_a_campaign_over_tcp_has_the_histories_of_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = []
    for driver in ("memory", "local"):
        folder = tmp_path / driver
        arguments = ("campaign", "--topology", "star:3", "--vary", "algorithm=edt,bfs-tree", "--driver", driver)
        knowledge = (
            "--vary",
            "fault_knowledge=none,all",
            "--faults",
            "down=1;loss=1:0.5@1-2",
            "--faults",
            "hang=1@2-3",
        )
        status, _ = called(capsys, *arguments, *knowledge, "--trials", "3", "--workers", "1", "--out", str(folder))
        assert status == 0
        found.append(records(folder))
    assert len(found[0]) == 2 * 2 * 2 * 3
    assert found[0] == found[1]


def test_a_killed_campaign_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Killed by SIGKILL in the middle, twice: every trial is there once in the end, and none was run again."""
    folder = tmp_path / "campaign"
    command = [*COORDINATOR, *CAMPAIGN, "--trials", "200", "--out", str(folder)]
    before: list[dict[str, object]] = []
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 60
            while len(lines(folder)) < len(before) + 20:
                assert process.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.01)
            process.kill()
        now = [json.loads(line) for line in lines(folder)]
        assert now[: len(before)] == before
        assert len(before) < len(now) < 200
        before = now
    assert not (folder / "trials.parquet").exists()
    status, said = called(capsys, "campaign", "--resume", str(folder))
    assert status == 0
    assert said["trials"] == 200 - len(before), "what had ended was not run again"
    after = records(folder)
    assert after[: len(before)] == before
    assert sorted(record["number"] for record in after) == list(range(200))  # type: ignore[type-var]
    alone = tmp_path / "alone"
    called(capsys, *CAMPAIGN, "--trials", "200", "--out", str(alone))
    assert (alone / "table.csv").read_bytes() == (folder / "table.csv").read_bytes()
    status, said = called(capsys, *CAMPAIGN, "--trials", "200", "--out", str(folder))
    assert (status, said["trials"]) == (0, 0)


def lines(folder: Path) -> list[bytes]:
    """Whole lines of the record so far."""
    path = folder / "trials.jsonl"
    return (
        [line for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")] if path.exists() else []
    )


@pytest.mark.parametrize("workers", ["1", "2"])
def test_ctrl_c_keeps_what_ended(tmp_path: Path, workers: str) -> None:
    folder = tmp_path / "campaign"
    command = [*COORDINATOR, "campaign", *STAR, "--faults", "nodes=2", "--trials", "100000", "--workers", workers]
    with subprocess.Popen([*command, "--out", str(folder), "--json"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        deadline = time.monotonic() + 60
        while len(lines(folder)) < 20:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        said = json.loads(process.stdout.read())
        assert process.wait(30) == 130
    assert said["finished"] is False
    assert said["rows"][0]["trials"] == len(records(folder)) == said["trials"]
    assert (folder / "trials.parquet").exists()


def test_more_trials_may_be_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(tmp_path / "campaign")
    called(capsys, *CAMPAIGN, "--trials", "5", "--out", folder)
    _, said = called(capsys, *CAMPAIGN, "--trials", "8", "--out", folder)
    assert said["trials"] == 3


def test_a_campaign_file_needs_no_flags(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "grid.toml"
    file.write_text(
        'topology = "ej:2+3"\nfaults = ["all:nodes=1", "all:links=1"]\ntrials = 57\n[vary]\n'
        'algorithm = ["improved", "independent-trees"]\nredundancy = [1, 6]\n'
    )
    status, said = called(capsys, "campaign", str(file), "--out", str(tmp_path / "campaign"))
    assert status == 0
    lost = {(row["algorithm"], row["faults"]): row["lost"] for row in said["rows"]}  # type: ignore[attr-defined]
    assert lost["improved", "all:nodes=1"] == pytest.approx(0.667, abs=0.0005)
    assert lost["improved", "all:links=1"] == pytest.approx(0.526, abs=0.0005)
    assert lost["independent-trees x=6", "all:nodes=1"] == lost["independent-trees x=6", "all:links=1"] == 0


def test_a_violated_claim_is_made_small_and_can_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a false claim put in: edt with two trees is said to survive everything."""
    from emunode.algorithms.claims import Claim
    from emunode.algorithms.star.edge_disjoint import DisjointTreesBroadcast

    false = Claim("delivery_ratio", 1.0, "==", "nowhere, 1999")
    monkeypatch.setattr(DisjointTreesBroadcast, "claims_with_outages", lambda *_: [false])
    folder = tmp_path / "campaign"
    arguments = ("campaign", *STAR, "--faults", "nodes=5@2", "--message-bytes", "4096", "--seed", "9", "--workers", "1")
    status, said = called(capsys, *arguments, "--trials", "10", "--out", str(folder))
    assert status == 1
    first = said["violations"][0]  # type: ignore[index]
    assert first["claims"][0].startswith("delivery_ratio == 1.0, and it was 0.")
    *command, path = first["repeat"].split()
    assert command == ["coordinator", "run"]
    from coordinator.scenario.model import make_scenario, read_scenario

    smallest = make_scenario(read_scenario(Path(path)))
    assert len(smallest.fault) == 2, "as many as trees"
    assert all(spec.endswith("@1") for spec in smallest.fault)
    assert (smallest.message_bytes, smallest.seed) == (1, 0)
    status, again = called(capsys, "run", path, "--out", str(tmp_path / "run"))
    assert status == 1
    assert again["verdict"] == "violated"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--faults", "nodes=24"), "it needs 24 nodes, but only 23 may fail"),
        (("--faults", "gremlins=1"), "'gremlins' is not among"),
        (("--faults", "nodes=1;nodes=2"), "'nodes' is repeated; give one part with the total number"),
        (("--faults", "byzantine=1:3"), "'byzantine' takes no value, so ':3' in 'byzantine=1:3' has no meaning"),
        (("--faults", "random:recover=1"), "'recover' repairs what 'crash' broke"),
        (("--faults", "bernoulli:nodes=1e-20"), "too small to be drawn: a rate is 0, or at least 2^-53"),
        (("--faults", "nodes=1", "--fault", "loss:1234~2134:1e-20"), "too small to be drawn"),
        ((), "give at least one point"),
        (("--faults", "nodes=1", "--trials", "0"), "invalid trials 0"),
        (("--faults", "nodes=1", "--vary", "redundancy"), "expected FIELD=VALUE"),
        (("--faults", "nodes=1", "--vary", "redundancy="), "expected at least one value"),
        (("--faults", "nodes=1", "--vary", "redundancy=4"), "no trials are left"),
        (("--faults", "nodes=1", "--workers", "0"), "a number of processes"),
        (("--faults", "nodes=1", "--clock", "timed"), "trials run in lock-step"),
        (("--faults", "nodes=1", "--precision", "2"), "half the width"),
        (("--faults", "nodes=1", "--resume", "somewhere"), "give no other flag of the grid"),
    ],
)
def test_bad_grids_are_refused_and_leave_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
) -> None:
    folder = tmp_path / "campaign"
    out = () if "--resume" in arguments else ("--out", str(folder))
    assert main(["campaign", *STAR, *arguments, *out]) == 2
    assert complaint in capsys.readouterr().err
    assert not (folder / "trials.parquet").exists()


def test_going_on_with_another_scenario_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "campaign"
    called(capsys, *CAMPAIGN, "--trials", "5", "--out", str(folder))
    before = (folder / "trials.jsonl").read_bytes()
    assert main([*CAMPAIGN, "--seed", "2", "--trials", "5", "--out", str(folder)]) == 2
    assert "a campaign of another grid or scenario" in capsys.readouterr().err
    assert (folder / "trials.jsonl").read_bytes() == before
    assert main(["campaign", "--resume", str(tmp_path)]) == 2
    assert "no campaign to resume" in capsys.readouterr().err


# --- certify -----------------------------------------------------------------------------------------------------------


def test_a_certificate_says_what_was_run(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("certify", "--topology", "star:4", "--algorithm", "edt", "--redundancy", "3", "--faults", "nodes<=2")
    status, said = called(capsys, *arguments)
    assert (status, said["verdict"], said["sets"], said["orbits"], said["symmetries"]) == (0, "holds", 277, 95, 3)
    assert said["counterexample"] is None
    assert main([*arguments]) == 0
    text = capsys.readouterr().out
    assert "verdict: holds   277 sets of faults in 95 orbits, each one run" in text
    assert "3 symmetries fix the source and keep the trees" in text


def test_a_counterexample_is_saved_and_can_be_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "counterexample.toml"
    arguments = ("certify", *STAR, "--message-bytes", "1000", "--faults", "links<=2", "--out", str(file))
    status, said = called(capsys, *arguments)
    assert (status, said["verdict"]) == (1, "violated")
    found = said["counterexample"]
    assert found["repeat"] == f"coordinator certify {file}"  # type: ignore[index]
    assert len(found["smallest"]) == 2  # type: ignore[index]
    status, again = called(capsys, "certify", str(file))
    assert (status, again["verdict"]) == (1, "violated")
    assert main(["certify", str(file)]) == 1
    assert "healthy and not served" in capsys.readouterr().out
    status, run = called(capsys, "run", str(file), "--out", str(tmp_path / "run"))
    assert run["delivery_ratio"] < 1  # type: ignore[operator]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--faults", "random:nodes=2"), "every set of faults"),
        (("--faults", "nodes<=24"), "23 may fail"),
        (("--faults", "nodes<=2", "--sample", "5"), "a driver other than memory"),
        (("--faults", "nodes<=2", "--workers", "1000"), "a number of processes"),
        (("--faults", "nodes<2"), "invalid part"),
        (("--faults", "nodes=1", "--clock", "timed"), "trials run in lock-step"),
    ],
)
def test_what_cannot_be_certified_is_said(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], complaint: str
) -> None:
    assert main(["certify", *STAR, *arguments]) == 2
    assert complaint in capsys.readouterr().err


# --- faults by description, in a run -----------------------------------------------------------------------------------


def test_a_run_says_what_was_drawn_and_repeats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("run", "--topology", "star:4", "--collective", "broadcast", "--algorithm", "edt", "--redundancy", "3")
    one, other = tmp_path / "one", tmp_path / "other"
    drawn = ("--driver", "memory", "--fault", "random:nodes=1;links=1@1", "--seed", "3")
    status, said = called(capsys, *arguments, *drawn, "--out", str(one))
    assert status == 0
    assert [str(spec).partition(":")[0] for spec in said["faults"]] == ["crash", "down"]  # type: ignore[attr-defined]
    status, again = called(capsys, "run", str(one / "scenario.toml"), "--out", str(other))
    assert again["journal_hash"] == said["journal_hash"]
    assert again["faults"] == said["faults"]
