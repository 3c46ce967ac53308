"""Reports (self-contained, complete, small, also for damaged runs), layouts, comparisons and exports."""

import io
import json
import re
import shutil
from collections import Counter
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import networkx as nx
import numpy as np
import polars as pl
import pytest
from markupsafe import Markup
from rich.console import Console

from coordinator.cli.app import main
from coordinator.execution.run import run
from coordinator.planning.plan import make_plan
from coordinator.reports.campaign_report import page as campaign_page
from coordinator.reports.charts import Bins, grouped_bars
from coordinator.reports.compare import as_rows, compare, read_runs, write_figure
from coordinator.reports.data import RunData, find_run, read_run
from coordinator.reports.layout import LAYOUTS, cells_of, layout_of, shapes_of
from coordinator.reports.maps import cell_map, frames, link_map
from coordinator.reports.numbers import abbreviate, plural, show, show_seconds
from coordinator.reports.panels.base import Report
from coordinator.reports.panels.faults import cut_off, fault_table
from coordinator.reports.panels.registry import PANELS
from coordinator.reports.run_report import render, write_report
from coordinator.reports.tables import to_csv, to_markdown
from coordinator.reports.theme import DARK, LIGHT, standalone, viridis
from coordinator.reports.votes import State, votes_of
from coordinator.scenario.model import make_scenario
from emunode.errors import ScenarioError
from emunode.topologies.registry import parse_topology, small_examples
from emunode.topologies.star import StarGraph
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees
from emunode.trees.statistics import arc_loads

STAR4: dict[str, object] = {
    "topology": "star:4",
    "collective": "broadcast",
    "algorithm": "greedy-tree",
    "source": "1234",
}
RUN_STAR4 = ["run", "--driver", "memory", *(part for key, value in STAR4.items() for part in (f"--{key}", str(value)))]
CRASHED: dict[str, object] = {**STAR4, "topology": "star:5", "source": "12345", "fault": ["crash:21345@2"]}
TABLES = ("journal", "nodes", "links", "steps")
RUNS: dict[str, dict[str, object]] = {
    "star4": STAR4,
    "crashed": CRASHED,
    "cube": {"topology": "hypercube:5", "collective": "broadcast", "algorithm": "flood"},
    "ej": {"topology": "ej:3+4", "collective": "broadcast", "algorithm": "improved"},
    "ej2": {"topology": "ej:1+2^2", "collective": "broadcast", "algorithm": "improved"},
    "allgather": {
        "topology": "star:4", "collective": "allgather", "algorithm": "hamiltonian-cycle", "port_model": "one-port",
    },
    "gather": {"topology": "star:4", "collective": "gather", "algorithm": "balanced-tree"},
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A finished run directory per entry of RUNS; tests do not modify them."""
    folder = tmp_path_factory.mktemp("runs")
    return {name: make_run(folder / name, **values) for name, values in RUNS.items()}


def make_run(out: Path, **values: object) -> Path:
    return run(make_plan(make_scenario({"driver": "memory", **values})), out, lambda *_: None).path


class Page(HTMLParser):
    """The elements, references and text of a page."""

    VOID = frozenset({"meta", "link", "input", "br"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.refers: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.data = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        for name, value in attributes:
            if name in ("src", "href", "action", "xlink:href", "srcset"):
                self.refers.append(value or "")
            if name == "id":
                self.ids.add(value or "")
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "script" and not self.data:
            self.data = data


def page_of(run_path: Path) -> Page:
    page = Page((run_path / "report.html").read_text())
    assert page.open == [], "every element is closed"
    return page


# --- the page --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", RUNS)
def test_every_report_is_self_contained(runs: dict[str, Path], name: str) -> None:
    text = (runs[name] / "report.html").read_text()
    page = page_of(runs[name])
    assert page.refers == ["data:,"]
    assert not re.search(r"https?://|url\(|@import|\bimport\(|fetch\(|XMLHttp", text)
    assert "default-src 'none'" in text
    assert len(text) < 400_000
    assert {"network", "claims", "steps", "links", "details", "slider", "map"} <= page.ids
    assert "notes" not in page.ids
    assert (runs[name] / "log.jsonl").read_text() == ""


def test_report_shows_scenario_claims_and_results(runs: dict[str, Path]) -> None:
    page = page_of(runs["star4"])
    summary = json.loads((runs["star4"] / "summary.json").read_text())
    assert "broadcast from 1234 by greedy-tree, all-port, 1 message of 64 bytes, in memory" in page.text
    assert "all 23" in page.text
    for claim in summary["claims"]:
        assert claim["source"] in page.text
    assert page.text.count("✓ holds") == len(summary["claims"]) + 1
    script = json.loads(page.data)
    assert script["names"] == ["1", "2", "3", "4"]
    assert [len(links) for links in script["links"]] == [3, 6, 9, 5]
    assert script["texts"][0] == "3 links carry 3 segments; 3 of 23 nodes done"


@pytest.mark.parametrize("name", RUNS)
def test_script_data_matches_the_journal(runs: dict[str, Path], name: str) -> None:
    script = json.loads(page_of(runs[name]).data)
    journal = pl.read_parquet(runs[name] / "journal.parquet")
    for at, step in enumerate(script["last"]):
        rows = journal.filter(pl.col("step") == step)
        assert len(script["links"][at]) == rows.select("sender", "port").n_unique()
        assert sum(script["loads"][at]) == len(rows)
        gains = dict(zip(script["gains"][at][::2], script["gains"][at][1::2], strict=True))
        what = rows if name == "gather" else rows.filter(pl.col("outcome") == "first")
        who = "sender" if name == "gather" else "receiver"
        assert gains == dict(Counter(what[who].to_list()))
    assert len(script["paths"]) == journal.select("sender", "port").n_unique()


def test_faults_are_marked_in_charts_and_on_the_map(runs: dict[str, Path]) -> None:
    text = (runs["crashed"] / "report.html").read_text()
    page = page_of(runs["crashed"])
    assert "faults" in page.ids
    assert text.count("fault at the beginning of step 2") == 8, "six small charts, and delivery in two forms"
    assert 'class="cross" data-step="2"' in text
    assert "21345" in page.text


def test_text_from_files_is_escaped(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", **STAR4)
    evil = "</script><script>alert(1)</script>"
    summary = json.loads((path / "summary.json").read_text())
    summary["claims"][0]["source"] = summary["undecided_because"] = summary["source"] = evil
    (path / "summary.json").write_text(json.dumps(summary))
    nodes = pl.read_parquet(path / "nodes.parquet").with_columns(label=pl.lit(evil))
    nodes.write_parquet(path / "nodes.parquet")
    (path / "faults.json").write_text(json.dumps([{"kind": evil, "label": evil, "step": 1, "rank": 0}]))
    before = page_of(path).tags["script"]
    write_report(path)
    assert "<script>alert" not in (path / "report.html").read_text()
    assert page_of(path).tags["script"] == before


def test_large_network_has_few_elements(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", topology="star:7", collective="broadcast", algorithm="bfs-tree")
    page = page_of(path)
    assert sum(page.tags.values()) < 1000
    assert (path / "report.html").stat().st_size < 1_000_000
    assert json.loads(page.data)["texts"][-1] == "15 packets; 5,039 of 5,039 nodes done"


def test_very_large_network_is_drawn_in_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_map, "NODES_WITH_LINKS", 100)
    monkeypatch.setattr(cell_map, "NODES_ONE_BY_ONE", 100)
    monkeypatch.setattr(cell_map, "CELLS", 30)
    path = make_run(tmp_path / "run", topology="star:5", collective="broadcast", algorithm="bfs-tree")
    text = (path / "report.html").read_text()
    assert "A square stands for up to 6 nodes" in text
    assert sum(cells.count("M") for cells in re.findall(r'class="cells"[^>]* d="([^"]*)"', text)) == 20


def test_many_steps_share_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "LINK_ENTRIES", 100)
    path = make_run(tmp_path / "run", **RUNS["allgather"])
    script = json.loads(page_of(path).data)
    assert sum(map(len, script["links"])) <= 100
    assert [last + 1 for last in script["last"][:-1]] == script["first"][1:]
    assert sum(map(sum, script["loads"])) == len(pl.read_parquet(path / "journal.parquet"))


# --- broken and half-written runs ------------------------------------------------------------------------------------

FILES = ("summary.json", "scenario.toml", "faults.json", *(f"{table}.parquet" for table in TABLES))


@pytest.mark.parametrize("how", ["missing", "empty", "cut", "nonsense"])
@pytest.mark.parametrize("name", FILES)
def test_damaged_file_is_listed_and_the_rest_is_shown(
    runs: dict[str, Path], tmp_path: Path, name: str, how: str
) -> None:
    path = tmp_path / "run"
    shutil.copytree(runs["crashed"], path)
    content = (path / name).read_bytes()
    match how:
        case "missing":
            (path / name).unlink()
        case "empty":
            (path / name).write_bytes(b"")
        case "cut":
            (path / name).write_bytes(content[: len(content) // 2])
        case "nonsense":
            (path / name).write_bytes(b"\xff\x00{" * 40)
    write_report(path)
    page = page_of(path)
    if (name, how) != ("scenario.toml", "empty") and (name, how) != ("scenario.toml", "cut"):
        assert "notes" in page.ids
        assert name in page.text
    assert "Permutation star graph" in page.text


@pytest.mark.parametrize("name", FILES)
def test_files_with_unexpected_content_do_not_fail(runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    path = tmp_path / "run"
    shutil.copytree(runs["crashed"], path)
    if name.endswith(".parquet"):
        pl.DataFrame({"step": ["x"], "rank": [7]}).write_parquet(path / name)
    else:
        (path / name).write_text("7" if name.endswith(".json") else "seven = 7")
    write_report(path)
    page_of(path)


def test_unexpected_values_do_not_fail(runs: dict[str, Path], tmp_path: Path) -> None:
    path = tmp_path / "run"
    shutil.copytree(runs["crashed"], path)
    summary = json.loads((path / "summary.json").read_text())
    for key in summary:
        for value in (None, "x", -1, [1], {"a": 1}, 1.5):
            (path / "summary.json").write_text(json.dumps({**summary, key: value}))
            Page(render(read_run(path)))


def test_killed_run_is_reported_from_parts_of_its_journal(runs: dict[str, Path], tmp_path: Path) -> None:
    for file in ("scenario.toml", "journal.parquet"):
        shutil.copy(runs["star4"] / file, tmp_path / file)
    rows = pl.read_parquet(tmp_path / "journal.parquet").filter(pl.col("step") <= 2)
    (tmp_path / "journal.parquet").unlink()
    rows.write_parquet(tmp_path / "journal-00000.parquet")
    write_report(tmp_path)
    page = page_of(tmp_path)
    assert "this report uses the 1 part that" in page.text
    assert "measured again" in page.text
    assert "9 of 23" in page.text


def test_folders_without_a_run_are_rejected(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="no such run"):
        find_run(tmp_path / "nothing")
    with pytest.raises(ScenarioError, match="not a run directory"):
        find_run(tmp_path)


def test_run_survives_a_failing_report_and_reports_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ZeroDivisionError("no paper left")

    monkeypatch.setattr("coordinator.reports.run_report.write_report", fail)
    assert main([*RUN_STAR4, "--out", str(tmp_path / "run")]) == 0
    assert not (tmp_path / "run" / "report.html").exists()
    assert (tmp_path / "run" / "summary.json").exists()
    assert "report.html was not drawn: ZeroDivisionError: no paper left" in capsys.readouterr().out
    assert "ZeroDivisionError: no paper left" in (tmp_path / "run" / "log.jsonl").read_text()


def test_family_without_a_layout_is_drawn_from_its_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(LAYOUTS, "star")
    for nodes_with_links in (1000, 10):
        monkeypatch.setattr(link_map, "NODES_WITH_LINKS", nodes_with_links)
        path = make_run(tmp_path / str(nodes_with_links), **STAR4)
        assert "The family star has no layout of its own: positions are computed from the links." in page_of(path).text
    layout = layout_of(StarGraph(4))
    assert len(set(zip(layout.x.tolist(), layout.y.tolist(), strict=True))) == 24
    assert len(np.unique(cells_of(StarGraph(4), layout, 4))) == 4


def test_a_new_panel_needs_one_line(runs: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def order_panel(report: Report) -> Markup:
        return Markup("<p>{} nodes</p>").format(report.data.order)

    monkeypatch.setattr("coordinator.reports.run_report.PANELS", [*PANELS, order_panel])
    assert "<p>24 nodes</p>" in render(read_run(runs["star4"]))


def test_derived_claims_are_marked(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", topology="hypercube:4", collective="alltoall", algorithm="sbnt")
    claims = json.loads((path / "summary.json").read_text())["claims"]
    derived = [claim["name"].replace("_", " ") for claim in claims if claim["derived"]]
    assert 0 < len(derived) < len(claims)
    text = (path / "report.html").read_text()
    assert re.findall(r"<td>([^<]*) \*</td>", text) == derived
    assert "* Derived from the schedule" in text
    assert "* Derived" not in (make_run(tmp_path / "plain", **STAR4) / "report.html").read_text()


# --- what faults did -------------------------------------------------------------------------------------------------


def test_faults_are_described_in_words() -> None:
    records: list[dict[str, object]] = [
        {"kind": "crash", "step": 2, "rank": 1, "label": "2134", "last": None, "seen": 3},
        {"kind": "recover", "step": 5, "rank": 1, "label": "2134", "last": None, "seen": None},
        {"kind": "crash", "step": 6, "rank": 1, "label": "2134", "last": None, "seen": None},
        {"kind": "loss", "step": 1, "sender": 0, "port": 1, "label": "1>2", "rate": 0.25, "last": 9, "seen": 1},
        {"kind": "delay", "step": 1, "sender": 0, "port": 2, "label": "1>3", "steps": 1, "last": None, "seen": None},
        {"kind": "down", "step": 3, "sender": 0, "port": 2, "label": "1>3", "last": 8, "seen": 4},
        {"kind": "up", "step": 7, "sender": 0, "port": 2, "label": "1>3", "last": None, "seen": 7},
        {"kind": "drop", "step": 1, "sender": 0, "port": 0, "label": "1>4", "packet": 3, "last": None, "seen": None},
        {"kind": "crash", "step": 1, "rank": 9, "label": "4321"},  # format of older runs
    ]
    table = fault_table(RunData(Path(), "run", faults=records))
    assert [row["words"] for row in table] == [
        "to the end of step 4; first effect in step 3",
        "no effect observed",
        "until the end; no effect observed",
        "with probability 0.25; to the end of step 9; first effect in step 1",
        "by 1 step; until the end; no effect observed",
        "to the end of step 6; first effect in step 4",
        "first effect in step 7",
        "packet number 3; until the end; no effect observed",
        "",
    ]
    assert {row["step"] for row in table} == {"1", "2", "3", "5", "6", "7"}


LOSSY: dict[str, dict[str, object]] = {
    "crash": {**STAR4, "fault": ["crash:2134@1"]},
    "crashes": {**STAR4, "fault": ["crash:2134@1", "crash:3214@2"]},
    "link": {**STAR4, "fault": ["down:1234~2134@1"]},
    "messages": {**STAR4, "messages": 3, "segments": 2, "fault": ["down:1234~2134@3"]},
    "scatter": {"topology": "star:4", "collective": "scatter", "algorithm": "balanced-tree", "fault": ["crash:3214@2"]},
    "gather": {"topology": "star:4", "collective": "gather", "algorithm": "balanced-tree", "fault": ["crash:3214@2"]},
    "allgather": {**RUNS["allgather"], "fault": ["crash:3214@4"]},
    "byzantine": {**STAR4, "fault": ["byzantine:2134"]},
    "voting": {
        "topology": "star:4", "collective": "broadcast", "algorithm": "edt", "redundancy": 2, "fault": ["byzantine:2134"],
    },
    "whole": STAR4,
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSY)
def test_cut_off_nodes_are_listed_with_their_cause_also_for_older_runs(name: str, tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", **LOSSY[name])
    summary = json.loads((path / "summary.json").read_text())
    labels = [node["label"] for node in summary["cut_off"]]
    assert bool(labels) == (name != "whole")
    page = page_of(path)
    assert ("cut-off" in page.ids) == bool(labels)
    causes = dict.fromkeys(node["because"] for node in summary["cut_off"])
    for cause in causes:
        words = ", ".join(node["label"] for node in summary["cut_off"] if node["because"] == cause)
        assert f"by {cause}: {words}" in page.text if cause else words in page.text
    assert len(causes) == (2 if name == "crashes" else bool(labels))
    assert [label for label, _ in cut_off(read_run(path), votes_of(read_run(path))).nodes] == labels
    del summary["cut_off"], summary["cut_off_count"]
    (path / "summary.json").write_text(json.dumps(summary))
    data = read_run(path)
    found = cut_off(data, votes_of(data))
    assert [label for label, _ in found.nodes] == labels
    assert found.count == len(labels)


def test_terminal_lists_cut_off_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([*RUN_STAR4, "--fault", "crash:2134@1", "--out", str(tmp_path / "one")])
    text = capsys.readouterr().out
    nodes = pl.read_parquet(tmp_path / "one" / "nodes.parquet")
    lost = nodes.filter(pl.col("received") < pl.col("expected"))["label"].to_list()
    assert f"cut off by crash:2134@1, {len(lost)} nodes: {', '.join(lost[:12])}" in text
    main([*RUN_STAR4, "--out", str(tmp_path / "two")])
    text = capsys.readouterr().out
    assert "cut off" not in text
    assert "links.parquet" not in text


def test_omitted_idle_links_are_mentioned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("coordinator.results.tables", "coordinator.cli.result", "coordinator.reports.panels.links"):
        monkeypatch.setattr(f"{module}.LISTED_LINKS", 71)
    out = io.StringIO()
    monkeypatch.setattr("coordinator.cli.render.console", lambda: Console(file=out, width=150))
    assert main([*RUN_STAR4, "--out", str(tmp_path / "run")]) == 0
    assert len(pl.read_parquet(tmp_path / "run" / "links.parquet")) == 23
    assert "links.parquet leaves out idle links, as the network has more than 71 directed links" in out.getvalue()
    assert "links.parquet lists no idle links: the network has 72 directed links" in page_of(tmp_path / "run").text


# --- altered payloads ------------------------------------------------------------------------------------------------

ALTERED: dict[str, dict[str, object]] = {
    "outvoted": {"algorithm": "edt", "redundancy": 3, "fault": ["byzantine:2134"]},
    "outvoting": {"algorithm": "edt", "redundancy": 3, "fault": ["byzantine:2134", "byzantine:3214"]},
    "split": {"algorithm": "edt", "redundancy": 2, "fault": ["byzantine:2134"]},
    "two altered copies": {"algorithm": "edt", "redundancy": 3, "fault": ["corrupt:1234>2134:1", "corrupt:1234>3214:1"]},
    "one copy": {"algorithm": "greedy-tree", "fault": ["byzantine:2134"]},
    "messages": {"algorithm": "greedy-tree", "messages": 3, "fault": ["corrupt:1234>2134:1@1-2"]},
    "segments": {"algorithm": "greedy-tree", "segments": 4, "fault": ["corrupt:1234>2134:1@1-2", "crash:4231@3"]},
    "flood": {"algorithm": "flood", "fault": ["byzantine:2134", "byzantine:4231"]},
    "allgather": {
        "collective": "allgather", "algorithm": "edt-dfs", "redundancy": 3, "fault": ["byzantine:2134", "byzantine:3214"],
    },
    "gather": {"collective": "gather", "algorithm": "balanced-tree", "fault": ["byzantine:2134"]},
    "reduce": {"collective": "reduce", "algorithm": "greedy-tree", "messages": 2, "fault": ["byzantine:2134"]},
}  # fmt: skip


@pytest.mark.parametrize("name", ALTERED)
def test_votes_match_the_metrics_of_the_run(name: str, tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", **{"topology": "star:4", "collective": "broadcast", **ALTERED[name]})
    summary = json.loads((path / "summary.json").read_text())
    data = read_run(path)
    votes = votes_of(data)
    assert votes is not None
    assert summary["corrupt"] > 0
    assert votes.intact() == summary["intact_deliveries"]
    assert votes.expected == summary["expected_deliveries"]
    journal = pl.read_parquet(path / "journal.parquet")
    assert votes.intact(int(journal["step"].max())) == votes.intact()  # type: ignore[arg-type]
    assert votes.intact(0) == 0
    if data.elections is not None:
        contested = data.elections.filter(pl.col("elected") != "right")
        who = "origin" if name == "gather" else "receiver"
        assert set(contested[who]) == set(np.flatnonzero(votes.state > State.RIGHT).tolist())
        wrong = contested.filter(pl.col("elected") == "wrong")
        assert set(wrong[who]) == set(np.flatnonzero(votes.state == State.WRONG).tolist())


def test_run_without_altered_copies_has_no_votes(runs: dict[str, Path]) -> None:
    assert all(votes_of(read_run(path)) is None for path in runs.values())


@pytest.mark.parametrize("name", ["outvoting", "split", "two altered copies", "one copy"])
def test_report_counts_intact_messages(name: str, tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", **{"topology": "star:4", "collective": "broadcast", **ALTERED[name]})
    summary = json.loads((path / "summary.json").read_text())
    intact, expected = summary["intact_deliveries"], summary["expected_deliveries"]
    page = page_of(path)
    script = json.loads(page.data)
    assert f"{intact} of {expected}" in page.text
    for text in (script["whole"], script["texts"][-1]):
        found = re.search(
            r"of (\d+) nodes (\d+) ha(?:s|ve) the right value, (\d+) a wrong one, (\d+) no majority", text
        )
        assert found
        due, right, wrong, split = map(int, found.groups())
        assert (due, right, wrong + split) == (expected, intact, expected - intact)
        assert bool(split) == (name in ("split", "two altered copies"))
    assert not any("done" in text for text in script["texts"])
    assert f"intact messages {intact / expected:.1%}" in page.text
    assert "nothing was delivered at all" not in page.text
    assert ("byzantine" in page.text) == (name != "two altered copies")


# --- campaigns -------------------------------------------------------------------------------------------------------


def test_campaign_page_shows_verdicts_and_findings() -> None:
    figures = {"delivery_ratio": 0.123456789, "ratio_low": 0.1, "ratio_high": 0.2, "theory": None}
    figures |= {"guaranteed": 1.0, "guaranteed_low": 1.0, "guaranteed_high": 1.0, "promised": 1}
    rows: list[dict[str, object]] = [
        {"topology": "star:4", "faults": "nodes=1", "trials": 9, "undecided": undecided, "violated": violated, **figures,
         "finding": finding}
        for undecided, violated, finding in ((0, 0, None), (2, 0, None), (1, 3, None), (0, 0, "delivery ratio 1, not 0.5"))
    ]  # fmt: skip
    text = campaign_page("star_4: broadcast", {"trials": 36}, rows, {})
    page = Page(text)
    assert page.open == []
    names = ["topology", "faults", "trials", "delivery ratio", "theory", "guaranteed", "promised", "verdict"]
    assert re.findall(r"<th[^>]*>([^<]*)</th>", text) == names
    assert page.text.count("0.1235") == page.text.count("(0.1000 to 0.2000)") == 4
    for words in ("✓ holds", "? 2 undecided", "✗ 3 violated, 1 undecided", "✗ theory excluded"):
        assert page.text.count(words) == 1
    assert "delivery ratio 1, not 0.5" in page.text
    assert page.tags["td"] == 4 * len(names)


# --- large maps ------------------------------------------------------------------------------------------------------


def test_large_maps_list_what_is_omitted(tmp_path: Path, runs: dict[str, Path]) -> None:
    large = page_of(make_run(tmp_path / "large", topology="star:7", collective="broadcast", algorithm="bfs-tree"))
    assert "Links and labels are omitted: the network has more than 1,050 nodes." in large.text
    middle = page_of(make_run(tmp_path / "middle", topology="star:6", collective="broadcast", algorithm="bfs-tree"))
    assert "Idle links and arrowheads are omitted." in middle.text
    assert "Labels are omitted" in middle.text
    assert "omitted" not in page_of(runs["star4"]).text


# --- layouts ---------------------------------------------------------------------------------------------------------

NETWORKS = [*small_examples(), "star:6", "hypercube:8", "ej:2+3^2", "ej:1+2^3"]


@pytest.mark.parametrize("name", NETWORKS)
def test_nodes_do_not_overlap(name: str) -> None:
    layout = layout_of(parse_topology(name))
    assert np.isfinite(layout.x).all()
    assert np.isfinite(layout.y).all()
    distance = np.hypot(layout.x[:, None] - layout.x, layout.y[:, None] - layout.y)
    np.fill_diagonal(distance, np.inf)
    assert distance.min() >= 0.999 * layout.spacing
    assert distance.min() > 2 * layout.radius
    margin = layout.radius
    assert margin < layout.x.min()
    assert layout.x.max() < 1000 - margin
    assert margin < layout.y.min()
    assert layout.y.max() < layout.height - margin


@pytest.mark.parametrize("name", ["star:7", "star:8", "hypercube:15", "ej:3+4^3", "ej:60+61"])
def test_large_layouts_have_distinct_positions_and_few_cells(name: str) -> None:
    topology = parse_topology(name)
    layout = layout_of(topology)
    assert len(set(zip(layout.x.tolist(), layout.y.tolist(), strict=True))) == topology.order
    cells = cells_of(topology, layout, 5000)
    assert len(np.unique(cells)) <= 5000
    assert len(np.unique(cells)) > 500


@pytest.mark.parametrize("name", NETWORKS)
def test_straight_hexagon_links_have_unit_length(name: str) -> None:
    topology = parse_topology(name)
    links = np.array([(rank, port, other) for rank, port, other, _ in topology.links()])
    shapes = shapes_of(topology, links[:, 0], links[:, 1], links[:, 2])
    assert np.isfinite(shapes.bow).all()
    if topology.family == "ej" and "^" not in name:
        layout = layout_of(topology)
        straight = shapes.wrap_x**2 + shapes.wrap_y**2 == 0
        one, other = links[straight, 0], links[straight, 2]
        length = np.hypot(layout.x[one] - layout.x[other], layout.y[one] - layout.y[other])
        assert length == pytest.approx(layout.scale)


def test_substars_are_drawn_as_blocks() -> None:
    topology = parse_topology("star:5")
    layout = layout_of(topology)
    for block in range(5):
        own = slice(24 * block, 24 * (block + 1))
        centre = layout.x[own].mean(), layout.y[own].mean()
        reach = np.hypot(layout.x - centre[0], layout.y - centre[1])
        assert reach[own].max() < np.delete(reach, np.r_[own]).min()


# --- colours, bars and tables ----------------------------------------------------------------------------------------


def contrast(one: str, other: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_text_and_marks_contrast_with_the_page(colours: dict[str, str]) -> None:
    assert contrast(colours["ink"], colours["paper"]) > 7
    assert contrast(colours["muted"], colours["panel"]) > 4.5
    for name in ("blue", "green", "red"):
        assert contrast(colours[name], colours["paper"]) > 3


def test_viridis_gets_brighter() -> None:
    shades = [contrast(viridis(share / 20), "#000000") for share in range(21)]
    assert all(one < other for one, other in pairwise(shades))


def test_bars_keep_peaks() -> None:
    values = [0.0] * 5039
    values[4321] = 7
    bins = Bins(5039)
    assert len(bins.of(values)) == bins.count <= 160
    assert max(bins.of(values)) == 7
    assert bins.span(0) == "steps 1 to 32"
    assert bins.span(bins.count - 1).endswith("5,039")


def test_tables() -> None:
    rows: list[dict[str, object]] = [{"name": "a|b", "value": (1, 2)}, {"name": 'x, "y"', "value": None}]
    assert to_csv(rows) == 'name,value\na|b,1 2\n"x, ""y""",\n'
    assert to_markdown(rows) == '| name | value |\n| --- | --- |\n| a\\|b | 1, 2 |\n| x, "y" | - |\n'
    assert to_csv([]) == to_markdown([]) == ""
    values = (None, 12345, 0.1234567, 12345.6, 2.0, True, "x")
    assert [show(value) for value in values] == ["-", "12,345", "0.123457", "12,345.6", "2", "yes", "x"]
    assert [show(value, 4, decimals=4) for value in (1.0, 0.5, 0.00012, 1.23456)] == ["1", "0.5000", "0.0001", "1.235"]
    assert [abbreviate(value) for value in (2e9, 1.5e6, 1200.0, 0.1)] == ["2G", "1.5M", "1,200", "0.1"]
    assert [show_seconds(value) for value in (1.5, 0.002, 3e-6)] == ["1.5 s", "2 ms", "3 µs"]
    assert [plural(1, "symmetr", "ies", "y"), plural(2, "node")] == ["1 symmetry", "2 nodes"]
    assert show(list(range(40))).endswith(", 11, .. (40)")


# --- comparing -------------------------------------------------------------------------------------------------------


def test_comparison_shows_differences(runs: dict[str, Path]) -> None:
    comparison = compare(read_runs([runs["star4"], runs["crashed"]]))
    assert comparison["differs"]["topology"] == ["star:4", "star:5"]
    assert comparison["differs"]["fault"] == [[], ["crash:21345@2"]]
    assert "seed" not in comparison["differs"]
    assert comparison["metrics"]["steps"] == [4, 6]
    assert comparison["metrics"]["segments"][0] == 23
    assert not comparison["same_history"]
    assert compare(read_runs([runs["ej"], runs["ej"]]))["same_history"]
    steps = {"about": "metric", "name": "steps", str(runs["star4"]): 4, str(runs["crashed"]): 6, "ratio": 1.5}
    assert steps in as_rows(comparison)


def test_compare_command(runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = [str(runs["star4"]), str(runs["cube"])]
    assert main(["compare", *both]) == 0
    assert "the scenarios differ in: topology, algorithm, source" in capsys.readouterr().out
    assert main(["compare", *both, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["order"] == [24, 32]
    assert main(["compare", *both, "--csv"]) == 0
    assert capsys.readouterr().out.startswith("about,name,")
    assert main(["compare", *both, "--markdown", "--plot", str(tmp_path / "both.svg")]) == 0
    figure = (tmp_path / "both.svg").read_text()
    assert figure.startswith("<svg")
    assert "var(" not in figure
    assert "| scenario | topology | star:4 | hypercube:5 |" in capsys.readouterr().out


def run_with(command: str, arguments: str, run_path: Path) -> int:
    """The exit status of a command whose arguments name a run as RUN."""
    return main([command, *(str(run_path) if argument == "RUN" else argument for argument in arguments.split())])


@pytest.mark.parametrize(
    "arguments", [".", "RUN", "RUN .", "RUN nothing", "RUN RUN --csv --json", "RUN RUN --plot x.gif"]
)
def test_compare_rejects_bad_arguments(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_with("compare", arguments, runs["star4"]) == 2


def test_png(runs: dict[str, Path], tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="the extra `report` is not installed")
    status = main(["compare", str(runs["star4"]), str(runs["cube"]), "--csv", "--plot", str(tmp_path / "both.png")])
    if status == 2:
        pytest.skip("no fonts on this machine")
    assert (tmp_path / "both.png").read_bytes().startswith(b"\x89PNG")


def test_png_contains_text(tmp_path: Path) -> None:
    pytest.importorskip("resvg_py", reason="the extra `report` is not installed")
    figure = standalone(grouped_bars("Compared", {"steps": [4]}, ["one"]))
    try:
        write_figure(figure, tmp_path / "with.png")
    except ScenarioError:
        pytest.skip("no fonts on this machine")
    write_figure(re.sub("<text.*?</text>", "", figure), tmp_path / "without.png")
    assert (tmp_path / "with.png").read_bytes() != (tmp_path / "without.png").read_bytes()


def test_report_command(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "page.html"
    assert main(["report", str(runs["star4"]), "--out", str(out)]) == 0
    assert out.read_text() == (runs["star4"] / "report.html").read_text()
    monkeypatch.chdir(tmp_path)
    shutil.copytree(runs["star4"], tmp_path / "runs" / "mine" / "one")
    (tmp_path / "runs" / "mine" / "latest").symlink_to("one")
    for name in ("mine", "runs/mine", "runs/mine/latest"):
        capsys.readouterr()
        assert main(["report", name]) == 0
        assert capsys.readouterr().out.strip().endswith("runs/mine/one/report.html")
    assert main(["report", "nothing"]) == 2
    assert main(["report", "mine", "--out", str(tmp_path / "not" / "there.html")]) == 2


# --- exports ---------------------------------------------------------------------------------------------------------


def test_graphml_of_a_run(runs: dict[str, Path], tmp_path: Path) -> None:
    assert main(["export", str(runs["star4"]), "--graphml", str(tmp_path / "run.graphml")]) == 0
    graph = nx.read_graphml(tmp_path / "run.graphml")
    topology = parse_topology("star:4")
    assert graph.is_directed()
    assert (len(graph), graph.number_of_edges()) == (24, 72)
    for rank in topology.ranks():
        assert graph.nodes[topology.label(rank)]["rank"] == rank
        for port, other in enumerate(topology.neighbours(rank)):
            assert graph.edges[topology.label(rank), topology.label(other)]["port"] == port
    tree = [(one, other) for one, other, values in graph.edges(data=True) if values.get("trees") == "0"]
    assert nx.is_arborescence(nx.DiGraph(tree))
    assert len(tree) == 23
    assert all(values["packets"] == ("trees" in values) for _, _, values in graph.edges(data=True))
    assert graph.nodes["2134"]["first_step"] == 1


def test_graphml_of_a_plan(tmp_path: Path) -> None:
    file = tmp_path / "edt.graphml"
    arguments = ["--topology", "star:4", "--algorithm", "edt", "--source", "3142", "--graphml", str(file)]
    assert main(["export", *arguments]) == 0
    graph, trees = nx.read_graphml(file), EdgeDisjointTrees(StarGraph(4))
    for tree in range(trees.count):
        arcs = [(a, b) for a, b, values in graph.edges(data=True) if str(tree) in values.get("trees", "").split()]
        assert nx.is_arborescence(nx.DiGraph(arcs))
        assert [node for node, degree in nx.DiGraph(arcs).in_degree() if not degree] == ["3142"]
    loads = sum(len(values.get("trees", "").split()) for _, _, values in graph.edges(data=True))
    assert loads == arc_loads(trees).total()


@pytest.mark.parametrize("name", ["hypercube:3", "ej:1+2^2", "star:3"])
def test_graphml_of_a_network(tmp_path: Path, name: str) -> None:
    file = tmp_path / "net.graphml"
    assert main(["export", "--topology", name, "--graphml", str(file)]) == 0
    topology, graph = parse_topology(name), nx.read_graphml(file)
    assert (len(graph), graph.number_of_edges()) == (topology.order, topology.order * topology.degree)
    assert nx.diameter(graph) == topology.diameter


@pytest.mark.parametrize("name", RUNS)
def test_goal_matches_the_journal(runs: dict[str, Path], tmp_path: Path, name: str) -> None:
    file = tmp_path / "run.goal"
    assert main(["export", str(runs[name]), "--goal", str(file)]) == 0
    order, sends, receipts = parse_goal(file.read_text())
    assert order == parse_topology(str(RUNS[name]["topology"])).order
    journal = pl.read_parquet(runs[name] / "journal.parquet")
    arrived = journal.filter(pl.col("outcome") != "lost")
    packets = arrived.group_by("step", "sender", "receiver").agg(pl.col("bytes").sum())
    wanted = Counter(packets.select("sender", "receiver", "step", "bytes").iter_rows())
    assert sends == wanted
    assert receipts == wanted


OPERATION = re.compile(r"l(\d+): (send|recv) (\d+)b (to|from) (\d+) tag (\d+)")


def parse_goal(text: str) -> tuple[int, Counter[tuple[int, ...]], Counter[tuple[int, ...]]]:
    """Order, sends and receipts, as (sender, receiver, step, bytes), of a schedule that is checked to be well-formed."""
    lines = [line for line in text.splitlines() if line and not line.startswith("//")]
    order = int(lines[0].removeprefix("num_ranks "))
    sends: Counter[tuple[int, ...]] = Counter()
    receipts: Counter[tuple[int, ...]] = Counter()
    rank = -1
    known: dict[str, int] = {}
    requires: dict[str, set[str]] = {}
    for line in lines[1:]:
        if line == f"rank {rank + 1} {{":
            rank, known, requires = rank + 1, {}, {}
        elif line == "}":
            check_order(known, requires)
        elif match := OPERATION.fullmatch(line):
            number, kind, size, _, other, tag = match.groups()
            assert f"l{number}" not in known
            known[f"l{number}"] = int(tag)
            ends = (rank, int(other)) if kind == "send" else (int(other), rank)
            (sends if kind == "send" else receipts)[(*ends, int(tag), int(size))] += 1
        elif " requires " in line:
            one, other = line.split(" requires ")
            assert one in known
            assert other in known
            requires.setdefault(one, set()).add(other)
        else:
            assert line == "l1: calc 0"
    assert rank == order - 1
    return order, sends, receipts


def check_order(steps: dict[str, int], requires: dict[str, set[str]]) -> None:
    """Operations of a step require exactly the operations of the previous active step."""
    for name, step in steps.items():
        before = max((other for other in steps.values() if other < step), default=0)
        assert requires.get(name, set()) == {other for other, when in steps.items() if when == before}


@pytest.mark.parametrize(
    "arguments",
    [
        "",
        "RUN",
        "--graphml x",
        "RUN --topology star:4 --graphml x",
        "--topology star:4 --goal x",
        "--topology star:99 --graphml x",
        "--topology star:4 --algorithm nope --graphml x",
        "--topology star:4 --algorithm edt --collective nope --graphml x",
        "--topology star:4 --algorithm edt --source 9999 --graphml x",
        "--topology star:4 --algorithm flood --graphml x",
        "RUN --goal /proc/nowhere/x",
    ],
)
def test_export_rejects_bad_arguments(
    runs: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_with("export", arguments, runs["star4"]) == 2
