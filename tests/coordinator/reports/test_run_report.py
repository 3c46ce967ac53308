"""Reports of runs: self-contained, complete, small and open to new panels."""

import json
import re
from collections import Counter
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import polars as pl
import pytest
from markupsafe import Markup

from coordinator.reports.data import read_run
from coordinator.reports.interactive.packing import unpack
from coordinator.reports.layout import LAYOUTS, cells_of, layout_of
from coordinator.reports.maps import cell_map, link_map
from coordinator.reports.panels.base import Report
from coordinator.reports.panels.registry import PANELS
from coordinator.reports.panels.steps import steps_panel
from coordinator.reports.run_report import render, write_report
from coordinator.reports.scene import scene
from coordinator.reports.scene.votes import votes_of
from emunode.topologies.registry import parse_topology
from emunode.topologies.star import StarGraph
from tests.helpers.command_line import Call, fields
from tests.helpers.report_runs import (
    ALLGATHER,
    CRASHED,
    GATHER,
    RUN_STAR4,
    RUNS,
    STAR4,
    Run,
    Runs,
    page_of,
)
from tests.helpers.support import run_scenario


@pytest.mark.parametrize("scenario", RUNS)
def test_every_report_is_self_contained_and_matches_the_journal(runs: Runs, scenario: str) -> None:
    run = runs(scenario)
    assert [each for each in run.page.refers if not each.startswith("#")] == ["data:,"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|url\((?!#)|@import|\bimport\(|fetch\(|XMLHttp", run.text)
    assert "default-src 'none'" in run.text
    assert len(run.text) < 400_000
    assert {"network", "claims", "steps", "links", "details", "slider", "map"} <= run.page.ids
    assert "notes" not in run.page.ids
    assert (run.path / "log.jsonl").read_text() == ""
    for at, step in enumerate(run.script["last"]):
        rows = run.journal.filter(pl.col("step") == step)
        assert len(run.script["links"][at]) == rows.select("sender", "port").n_unique()
        assert sum(run.script["loads"][at]) == len(rows)
        gains = run.script["gains"][at]
        done = rows["sender"] if scenario == GATHER else rows.filter(pl.col("outcome") == "first")["receiver"]
        assert dict(zip(gains[::2], gains[1::2], strict=True)) == dict(Counter(done.to_list()))
    assert len(unpack(run.script["senders"])) == run.journal.select("sender", "port").n_unique()
    assert votes_of(read_run(run.path)) is None, "no copy was altered"


@pytest.mark.parametrize(
    ("scenario", "fault"),
    [
        ("star:4 broadcast edt segments=9", "crash:2134@2"),
        ("star:4 scatter edt", "down:1234~2134@1"),
        ("star:4 gather edt", "crash:2134@2"),
    ],
)
def test_what_is_delivered_is_a_share_of_what_is_due(scenario: str, fault: str, tmp_path: Path) -> None:
    """Segments that never arrive count as due, and nodes that miss some are not done."""
    run_scenario(tmp_path / "run", **fields(scenario, fault=[fault]))
    data = read_run(tmp_path / "run")
    page = str(steps_panel(Report(data)))
    segments, messages = data.get("segments_per_tree") or 1, data.get("expected_deliveries")
    assert data.journal is not None
    arrived = data.journal.filter(outcome="first").filter(
        (pl.col("target") == -1) | (pl.col("target") == pl.col("receiver")),
        pl.col("receiver") != parse_topology("star:4").rank("2134" if "crash" in fault else "1234"),
    )
    share = arrived.collect().height / (messages * segments)
    assert 0 < share < 1
    names = "everything|segments"
    assert re.search(rf">(?:{names}) {share:.1%}<", page)
    if "broadcast" in scenario:
        assert ">nodes done 0.0%<" in page


def test_report_shows_scenario_claims_and_results(runs: Runs) -> None:
    run = runs(STAR4)
    claims, text = run.summary["claims"], run.page.text
    assert "broadcast from 1234 by greedy-tree, all-port, 1 message of 64 bytes, in memory" in text
    assert "all 23" in text
    for claim in claims:
        assert claim["source"] in text
    assert text.count("✓ holds") == len(claims) + 1
    assert "omitted" not in text
    assert "* Derived" not in run.text
    assert run.script["names"] == ["1", "2", "3", "4"]
    assert [len(links) for links in run.script["links"]] == [3, 6, 9, 5]
    assert run.script["texts"][0] == "3 segments are sent over 3 links; 3 of 23 nodes done"


def test_derived_claims_are_marked(runs: Runs) -> None:
    run = runs("hypercube:4 alltoall sbnt")
    claims = run.summary["claims"]
    derived = [claim["name"].replace("_", " ") for claim in claims if claim["derived"]]
    assert 0 < len(derived) < len(claims)
    assert re.findall(r"<td>([^<]*) \*</td>", run.text) == derived
    assert "* Derived from the schedule" in run.text


def test_faults_are_marked_in_charts_and_on_the_map(runs: Runs) -> None:
    run = runs(CRASHED)
    assert "faults" in run.page.ids
    assert run.text.count("fault at the beginning of step 2") == 7, "five small charts, and delivery in two forms"
    assert 'class="cross" data-step="2"' in run.text
    assert "21345" in run.page.text


def test_text_from_files_is_escaped(copied: Path) -> None:
    evil = "</script><script>alert(1)</script>"
    summary = json.loads((copied / "summary.json").read_text())
    summary["claims"][0]["source"] = summary["undecided_because"] = summary["source"] = evil
    (copied / "summary.json").write_text(json.dumps(summary))
    nodes = pl.read_parquet(copied / "nodes.parquet").with_columns(label=pl.lit(evil))
    nodes.write_parquet(copied / "nodes.parquet")
    (copied / "faults.json").write_text(json.dumps([{"kind": evil, "label": evil, "step": 1, "rank": 0}]))
    before = page_of(copied).tags["script"]
    write_report(copied)
    assert "<script>alert" not in (copied / "report.html").read_text()
    assert page_of(copied).tags["script"] == before


def test_a_large_network_lists_the_omitted_elements(runs: Runs) -> None:
    large = runs("star:7 broadcast bfs-tree")
    assert sum(large.page.tags.values()) < 1_500
    assert (large.path / "report.html").stat().st_size < 1_000_000
    assert large.script["texts"][-1] == "15 packets; 5,039 of 5,039 nodes done"
    assert "Links and labels are omitted: the network has more than 1,050 nodes." in large.page.text
    middle = runs("star:6 broadcast bfs-tree")
    assert "Idle links and arrowheads are omitted." in middle.page.text
    assert "Labels are omitted" in middle.page.text


def test_very_large_network_is_drawn_in_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_map, "NODES_WITH_LINKS", 100)
    monkeypatch.setattr(cell_map, "NODES_ONE_BY_ONE", 100)
    monkeypatch.setattr(cell_map, "CELLS", 30)
    text = Run(tmp_path / "run", "star:5 broadcast bfs-tree").text
    assert "A square stands for up to 6 nodes" in text
    assert sum(cells.count("M") for cells in re.findall(r'class="cells"[^>]* d="([^"]*)"', text)) == 20


def test_many_steps_share_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene, "LINK_ENTRIES", 100)
    run = Run(tmp_path / "run", ALLGATHER)
    assert sum(map(len, run.script["links"])) <= 100
    assert [last + 1 for last in run.script["last"][:-1]] == run.script["first"][1:]
    assert sum(map(sum, run.script["loads"])) == len(run.journal)


@pytest.mark.draws
def test_run_survives_a_failing_report_and_reports_the_failure(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = Mock(side_effect=ZeroDivisionError("no paper left"))
    monkeypatch.setattr("coordinator.reports.run_report.write_report", failing)
    ended = call(RUN_STAR4, "--out", "run")
    assert ended.status == 0
    assert "report.html was not drawn: ZeroDivisionError: no paper left" in ended.out
    assert not Path("run/report.html").exists()
    assert Path("run/summary.json").exists()
    assert "ZeroDivisionError: no paper left" in Path("run/log.jsonl").read_text()


def test_family_without_a_layout_is_drawn_from_its_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(LAYOUTS, "star")
    for nodes_with_links in (1000, 10):
        monkeypatch.setattr(link_map, "NODES_WITH_LINKS", nodes_with_links)
        text = Run(tmp_path / str(nodes_with_links), STAR4).page.text
        assert "The family star has no layout of its own: positions are computed from the links." in text
    layout = layout_of(StarGraph(4))
    assert len(set(zip(layout.x.tolist(), layout.y.tolist(), strict=True))) == 24
    assert len(np.unique(cells_of(StarGraph(4), layout, 4))) == 4


def test_a_new_panel_needs_one_line(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    data = read_run(runs(STAR4).path)

    def order_panel(report: Report) -> Markup:
        return Markup("<p>{} nodes</p>").format(report.data.order)

    monkeypatch.setattr("coordinator.reports.run_report.PANELS", [*PANELS, order_panel])
    assert "<p>24 nodes</p>" in render(data)


def test_links_of_equal_load_are_a_sentence_and_no_ranking(runs: Runs) -> None:
    run = runs(STAR4)
    assert "23 of the 72 directed links carry 1 segment each." in run.page.text
    assert "Busiest links" not in run.page.text
    unequal = runs(ALLGATHER)
    equal = unequal.journal.group_by("sender", "port").len()["len"].n_unique() == 1
    assert ("Busiest links" in unequal.page.text) != equal


@pytest.mark.draws
def test_omitted_idle_links_are_mentioned(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("coordinator.results.tables", "coordinator.cli.result", "coordinator.reports.panels.links"):
        monkeypatch.setattr(f"{module}.LISTED_LINKS", 71)
    ended = call(RUN_STAR4, "--out", "run")
    assert ended.status == 0
    assert len(pl.read_parquet("run/links.parquet")) == 23
    words = "links.parquet leaves out idle links, as the network has more than 71 directed links"
    assert words in " ".join(ended.out.split())
    assert "links.parquet lists no idle links: the network has 72 directed links" in page_of(Path("run")).text


@pytest.mark.draws
def test_links_of_an_irregular_network_are_counted_by_port(call: Call) -> None:
    assert (
        call("run --topology mesh:3x3 --collective broadcast --algorithm bfs-tree --driver memory --out run").status
        == 0
    )
    assert "8 directed links of 24 carry 8 segments" in page_of(Path("run")).text


def test_a_head_names_what_differs_and_the_end_repeats_it(tmp_path: Path) -> None:
    flags = "--redundancy 3 --segments 7 --startup 5ms --seed 8"
    run_scenario(
        tmp_path / "run", **fields("star:4 broadcast independent-trees redundancy=3 segments=7 startup=5ms seed=8")
    )
    text = render(read_run(tmp_path / "run"))
    assert "broadcast from 1234 by independent-trees over 3 trees in 7 segments, start-up 5ms, all-port" in text
    (command,) = re.findall("<p class=.repeat.><code>(.*?)</code>", text)
    assert command.startswith("coordinator run star:4 broadcast independent-trees ")
    assert {*flags.split()} <= {*command.split()}


def test_a_run_with_a_file_is_repeated_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "ring.edges").write_text("a b\nb c\nc a\n")
    run_scenario(tmp_path / "run", **fields(f"file:{tmp_path}/ring.edges broadcast flood"))
    text = render(read_run(tmp_path / "run"))
    assert re.findall("<p class=.repeat.><code>(.*?)</code>", text) == ["coordinator run scenario.toml"]
    assert "The command, in the folder of the run, repeats it." in text
