"""Reports of damaged, half-written and killed runs show the rest."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from coordinator.history.stored_run import NUMBERS
from coordinator.reports.data import find_run, read_run
from coordinator.reports.panels.base import Report
from coordinator.reports.run_report import render, write_report
from coordinator.reports.scene import scene
from emunode.errors import ScenarioError
from emunode.terminal import plural
from tests.helpers.command_line import fields
from tests.helpers.report_runs import STAR4, Page, Runs, page_of
from tests.helpers.support import run_scenario

TABLES = ("journal.parquet", "nodes.parquet", "links.parquet", "steps.parquet")
FILES = ("summary.json", "scenario.toml", "faults.json", *TABLES)
UNLISTED = {("scenario.toml", "empty"), ("scenario.toml", "cut")}


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("how", ["missing", "empty", "cut", "nonsense"])
@pytest.mark.parametrize("name", FILES)
def test_damaged_file_is_listed_and_the_rest_is_shown(copied: Path, name: str, how: str) -> None:
    content = (copied / name).read_bytes()
    damaged = {"empty": b"", "cut": content[: len(content) // 2], "nonsense": b"\xff\x00{" * 40}
    (copied / name).unlink()
    if how in damaged:
        (copied / name).write_bytes(damaged[how])
    write_report(copied)
    page = page_of(copied)
    assert "notes" in page.ids or (name, how) in UNLISTED
    assert name in page.text or (name, how) in UNLISTED
    assert "Permutation star graph" in page.text


@pytest.mark.parametrize("scenario", ["star:3 alltoall edt", "star:3 gather edt", "star:3 broadcast greedy-tree"])
def test_without_a_journal_nothing_is_counted_from_it(scenario: str, tmp_path: Path) -> None:
    """As in a quick report of a long run: no links and segments are claimed to be none, and tables still count."""
    run_scenario(tmp_path / "run", **fields(scenario))
    (tmp_path / "run" / "journal.parquet").unlink()
    data = read_run(tmp_path / "run")
    assert data.steps is not None
    picture = Report(data).picture
    assert picture is not None
    assert picture.script["whole"] == plural(len(data.steps), "step")
    texts = picture.script["texts"]
    assert isinstance(texts, list)
    done = "" if "gather" in scenario else f"; {'5 of 5' if 'broadcast' in scenario else '6 of 6'} nodes done"
    assert texts[-1] == f"{plural(data.steps['packets'][-1], 'packet')}{done}"
    if "gather" in scenario:
        assert "nothing" not in picture.svg.replace("nothing arrived", "nothing")


def test_the_last_position_of_the_slider_may_cover_fewer_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene, "MOST_FRAMES", 2)
    run_scenario(tmp_path / "run", **fields("star:3 allgather rotated-trees"))
    (tmp_path / "run" / "journal.parquet").unlink()
    data = read_run(tmp_path / "run")
    assert data.steps is not None
    picture = Report(data).picture
    assert picture is not None
    packets = [int(str(text).split()[0]) for text in picture.script["texts"]]  # type: ignore[attr-defined]
    assert len(data.steps) % 2 == 1
    assert sum(packets) == data.steps["packets"].sum()


@pytest.mark.parametrize("name", FILES)
def test_files_with_unexpected_content_do_not_fail(copied: Path, name: str) -> None:
    if name in TABLES:
        pl.DataFrame({"step": ["x"], "rank": [7]}).write_parquet(copied / name)
    else:
        (copied / name).write_text("7" if name.endswith(".json") else "seven = 7")
    write_report(copied)
    page_of(copied)


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("part", range(4))
def test_unexpected_values_do_not_fail(copied: Path, part: int) -> None:
    summary = json.loads((copied / "summary.json").read_text())
    values = (None, "x", -1, [1], {"a": 1}, 1.5)
    for turn, key in [*enumerate(summary)][part::4]:
        (copied / "summary.json").write_text(json.dumps({**summary, key: values[turn % len(values)]}))
        try:
            data = read_run(copied)
        except ScenarioError as error:
            # Only where the type is wrong; a number of another size is shown.
            assert values[turn % len(values)] not in (-1, 1.5) or key not in NUMBERS
            words = "version" if key == "version" else f"summary.json: {key} is "
            assert words in str(error)  # noqa: PT017
        else:
            Page(render(data))


def test_killed_run_is_reported_from_parts_of_its_journal(runs: Runs, tmp_path: Path) -> None:
    run = runs(STAR4)
    shutil.copy(run.path / "scenario.toml", tmp_path)
    run.journal.filter(pl.col("step") <= 2).write_parquet(tmp_path / "journal-00000.parquet")
    write_report(tmp_path)
    page = page_of(tmp_path)
    for words in ("this report uses the 1 part that", "measured again", "9 of 23"):
        assert words in page.text


def test_folders_without_a_run_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no such run"):
        find_run(tmp_path / "nothing")
    with pytest.raises(ScenarioError, match="not a run directory"):
        find_run(tmp_path)
