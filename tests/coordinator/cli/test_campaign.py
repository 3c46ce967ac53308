"""`coordinator campaign` and `certify` from the command line: results, resuming after a kill, Ctrl-C."""

import dataclasses
import json
import signal
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from coordinator.campaigns import engines, tables
from coordinator.scenario.model import make_scenario, read_scenario
from coordinator.theory import reliability
from emunode.algorithms.claims import Claim
from tests.helpers.command_line import Call, Start

STAR = "--topology star:4 --algorithm edt --redundancy 2"
THREE = "--topology star:4 --algorithm edt --redundancy 3"
CAMPAIGN = f"campaign {STAR} --faults nodes=2 --workers 1 --json"


def records(folder: Path) -> list[dict[str, Any]]:
    """Return the trials that are recorded so far; a line that is being written is left out."""
    path = folder / "trials.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("\n")]


# --- campaign ----------------------------------------------------------------------------------------------------------


def test_a_campaign_writes_figures_tables_and_trials(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "campaign"
    grid = "--vary algorithm=greedy-tree,edt --vary redundancy=1..3 --faults nodes=0..3 --trials 40"
    ended = call(f"campaign --topology star:4 {grid} --out campaign --json")
    assert ended.status == 0
    assert ended.data["finished"] is True
    rows = ended.data["rows"]
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
    assert page.count("<svg") == 2 * 2 + 3, "two charts for wide and for small screens, and the losses of three points"
    assert "http" not in page.replace("http-equiv", "").replace("http://www.w3.org/2000/svg", "")
    assert (folder / "guaranteed-delivery-crashed-nodes.svg").read_text().startswith("<svg")
    assert len((folder / "table.csv").read_text().splitlines()) == 17
    assert (folder / "table.md").read_text().startswith("| algorithm | faults |")
    trials = pl.read_parquet(folder / "trials.parquet")
    assert len(trials) == 4 + 480
    draws = trials.filter(pl.col("point") == "nodes=2").group_by("draw").agg(pl.col("faults").n_unique())
    assert draws["faults"].max() == 1


def test_mixed_draws_agree_with_all_sets(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """One crashed and one byzantine node in S_4: 108 of the 506 sets are survived."""
    monkeypatch.setattr(engines, "MOST_SAMPLE", 20)
    ended = [
        call(f"campaign {THREE} --trials {trials} --faults '{draw}nodes=1;byzantine=1' --workers 1 --json")
        for trials, draw in ((120, ""), (506, "all:"))
    ]
    assert [each.status for each in ended] == [0, 0]
    drawn, whole = (each.data["rows"][0] for each in ended)
    assert whole["guaranteed"] == pytest.approx(108 / 506, abs=1e-9)
    assert whole["sets"] == whole["trials"] == 506
    assert drawn["sets"] is None
    assert drawn["guaranteed_low"] <= whole["guaranteed"] <= drawn["guaranteed_high"]
    assert drawn["ratio_low"] <= whole["delivery_ratio"] <= drawn["ratio_high"]


def test_faults_are_drawn_in_addition_to_known_ones(call: Call) -> None:
    """One node is known to be dead, and up to two more fail: three trees tolerate one of them."""
    ended = call(f"campaign {THREE} --fault crash:2134@1 --faults all:nodes=0..2 --out campaign --json")
    assert (ended.status, ended.data["finished"]) == (0, True)
    rows = ended.data["rows"]
    assert [row["trials"] for row in rows] == [1, 22, 231]
    assert [row["promised"] for row in rows] == [1, 1, None]
    for row in rows:
        assert row["theory"] == pytest.approx(row["delivery_ratio"], abs=1e-9)
        assert row["guaranteed_theory"] == pytest.approx(row["guaranteed"], abs=1e-9)
    assert rows[2]["guaranteed"] < 1
    again = call("campaign --resume campaign --json")
    assert (again.status, again.data["trials"], again.data["rows"]) == (0, 0, rows)


def test_a_sample_of_all_sets_has_an_interval(call: Call, tmp_path: Path) -> None:
    line = f"campaign {STAR} --faults all:links=2 --trials 60 --out campaign"
    ended = call(line)
    assert ended.status == 0
    assert "edt under all:links=2: a random sample of 60 of its 630 sets" in ended.out
    again = call(f"{line} --json")
    (row,) = again.data["rows"]
    assert (again.status, row["trials"], row["sets"]) == (0, 60, 630)
    assert row["guaranteed_low"] < row["guaranteed"] < row["guaranteed_high"]
    assert row["ratio_low"] < row["theory"] < row["ratio_high"]
    drawn = set(pl.read_parquet(tmp_path / "campaign" / "trials.parquet")["faults"])
    assert len(drawn) == 60
    assert any(":1234~" not in faults for faults in drawn), "not the first in order"


@pytest.mark.parametrize(("faults", "exact"), [("all:nodes=2", True), ("nodes=2", False)])
@pytest.mark.parametrize("figure", ["ratio", "guaranteed"])
def test_a_wrong_theory_is_a_finding(
    call: Call, monkeypatch: pytest.MonkeyPatch, faults: str, exact: bool, figure: str
) -> None:
    """A theory just beside the figure for all sets, and one far enough off for a sample of 253."""
    monkeypatch.setattr(engines, "MOST_SAMPLE", 20)
    expected = reliability.expected_delivery_ratio

    def wrong(*arguments: object) -> reliability.Expected:
        right = expected(*arguments)  # type: ignore[arg-type]
        return dataclasses.replace(right, **{figure: getattr(right, figure) - (1e-6 if exact else 0.2)})

    line = f"campaign {STAR} --faults {faults} --trials 253 --workers 1"
    ended = call(f"{line} --out campaign --json")
    assert (ended.status, ended.data["rows"][0]["finding"]) == (0, None)
    monkeypatch.setattr(tables, "expected_delivery_ratio", wrong)
    ended = call(f"{line} --out campaign --json")
    assert (ended.status, ended.data["trials"]) == (1, 0), "judged again without further trials"
    finding = ended.data["rows"][0]["finding"]
    assert finding.startswith("delivery ratio" if figure == "ratio" else "guaranteed delivery")
    assert ("over all sets" if exact else "99.99 % interval") in finding
    printed = call(f"{line} --out campaign")
    assert printed.status == 1
    assert "theory excluded" in printed.out
    assert "holds" not in printed.out
    assert f"finding: edt under {faults}: " in printed.out


def test_theory_is_omitted_where_it_does_not_apply(call: Call) -> None:
    """A tree that is grown around known faults still serves every node that can be reached."""
    grid = "--vary fault_knowledge=none,all --faults all:nodes=1"
    ended = call(f"campaign --topology star:4 --algorithm bfs-tree {grid} --json")
    assert ended.status == 0
    without, with_it = ended.data["rows"]
    assert without["theory"] == pytest.approx(without["delivery_ratio"], abs=1e-9)
    assert without["delivery_ratio"] < 1
    assert (with_it["delivery_ratio"], with_it["theory"], with_it["guaranteed_theory"]) == (1, None, None)


OVER_TCP = (
    "--topology star:3 --vary algorithm=edt,bfs-tree --vary fault_knowledge=none,all "
    "--faults 'down=1;loss=1:0.5@1-2' --faults hang=1@2-3 --trials 3 --workers 1"
)


@pytest.mark.parametrize(
    ("grid", "variants", "trials"),
    [
        (f"{STAR} --faults 'nodes=2;loss=1:0.5' --trials 40", ("--workers 1", "--workers 2"), 40),
        (OVER_TCP, ("--driver memory", "--driver local"), 2 * 2 * 2 * 3),
    ],
    ids=["workers", "drivers"],
)
def test_trials_depend_on_neither_workers_nor_driver(
    call: Call, tmp_path: Path, grid: str, variants: tuple[str, str], trials: int
) -> None:
    found = []
    for number, variant in enumerate(variants):
        assert call(f"campaign {grid} {variant} --out", number).status == 0
        found.append(sorted((tmp_path / str(number) / "trials.jsonl").read_text().splitlines()))
    assert len(found[0]) == trials
    assert found[0] == found[1]


def test_a_killed_campaign_is_resumed(call: Call, start: Start, tmp_path: Path) -> None:
    """After two kills in the middle, the record holds every trial once: none was run again."""
    folder = tmp_path / "campaign"
    before: list[dict[str, Any]] = []
    for _ in range(2):
        campaign = start(f"coordinator {CAMPAIGN} --engine messages --trials 200 --out campaign")
        wanted = len(before) + 20
        campaign.wait_for(lambda wanted=wanted: len(records(folder)) >= wanted, "20 more trials")  # type: ignore[misc]
        campaign.process.kill()
        campaign.process.wait()
        now = records(folder)
        assert now[: len(before)] == before
        assert len(before) < len(now) < 200
        before = now
    assert not (folder / "trials.parquet").exists()
    resumed = call("campaign --resume campaign --json")
    assert resumed.status == 0
    assert resumed.data["trials"] == 200 - len(before), "a finished trial was run again"
    after = records(folder)
    assert after[: len(before)] == before
    assert sorted(record["number"] for record in after) == list(range(200))
    call(f"{CAMPAIGN} --engine messages --trials 200 --out alone")
    assert (tmp_path / "alone" / "table.csv").read_bytes() == (folder / "table.csv").read_bytes()
    again = call(f"{CAMPAIGN} --engine messages --trials 200 --out campaign")
    assert (again.status, again.data["trials"]) == (0, 0)


@pytest.mark.parametrize("engine", ["messages --workers 1", "messages --workers 2", "auto"])
def test_an_interrupted_campaign_keeps_finished_trials(start: Start, tmp_path: Path, engine: str) -> None:
    folder = tmp_path / "campaign"
    grid = f"{STAR} --faults nodes=2 --trials 100000000 --engine {engine}"
    campaign = start(f"coordinator campaign {grid} --out campaign --json")
    campaign.wait_for(lambda: len(records(folder)) >= 20, "20 trials")
    campaign.process.send_signal(signal.SIGINT)
    ended = campaign.end()
    assert ended.status == 130
    assert ended.data["finished"] is False
    kept = sum(record["trials"] if "block" in record else 1 for record in records(folder))
    assert ended.data["rows"][0]["trials"] == kept == ended.data["trials"] + ended.data["exact_trials"]
    assert (folder / "trials.parquet").exists()


def test_a_campaign_file_needs_no_flags(call: Call, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(
        'topology = "ej:2+3"\nfaults = ["all:nodes=1", "all:links=1"]\ntrials = 57\n[vary]\n'
        'algorithm = ["improved", "independent-trees"]\nredundancy = [1, 6]\n'
    )
    ended = call("campaign grid.toml --json")
    assert ended.status == 0
    lost = {(row["algorithm"], row["faults"]): row["lost"] for row in ended.data["rows"]}
    assert lost["improved", "all:nodes=1"] == pytest.approx(0.667, abs=0.0005)
    assert lost["improved", "all:links=1"] == pytest.approx(0.526, abs=0.0005)
    assert lost["independent-trees x=6", "all:nodes=1"] == lost["independent-trees x=6", "all:links=1"] == 0


def test_a_violated_claim_is_reduced_and_can_be_repeated(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """A false claim: edt with two trees survives everything."""
    false = Claim("delivery_ratio", 1.0, "==", "nowhere, 1999")
    monkeypatch.setattr("coordinator.planning.claims.claims_with_outages", lambda *_: [false])
    flags = "--faults nodes=5@2 --message-bytes 4096 --seed 9 --workers 1 --trials 10"
    ended = call(f"campaign {STAR} {flags} --json")
    assert ended.status == 1
    first = ended.data["violations"][0]
    assert first["claims"][0].startswith("delivery_ratio == 1.0, and it was 0.")
    *program, path = first["repeat"].split()
    assert program == ["coordinator", "run"]
    smallest = make_scenario(read_scenario(Path(path)))
    assert len(smallest.fault) == 2, "as many as trees"
    assert all(spec.endswith("@1") for spec in smallest.fault)
    assert (smallest.message_bytes, smallest.seed) == (1, 0)
    again = call("run --json", path)
    assert (again.status, again.data["verdict"]) == (1, "violated")


# --- certify -----------------------------------------------------------------------------------------------------------
