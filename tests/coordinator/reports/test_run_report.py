"""Reports (self-contained, complete, small, also for damaged runs), layouts, comparisons and exports."""

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from functools import cache
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import networkx as nx
import numpy as np
import polars as pl
import pytest
from markupsafe import Markup

from coordinator.api.comparisons import compare
from coordinator.history.stored_run import NUMBERS
from coordinator.reports.campaign_report import page as campaign_page
from coordinator.reports.charts import Bins, grouped_bars
from coordinator.reports.compare import as_rows, write_figure
from coordinator.reports.data import RunData, find_run, read_run
from coordinator.reports.fault_table import fault_table
from coordinator.reports.interactive.packing import unpack
from coordinator.reports.layout import LAYOUTS, cells_of, layout_of, shapes_of
from coordinator.reports.maps import cell_map, link_map
from coordinator.reports.numbers import abbreviate, plural, show, show_seconds
from coordinator.reports.panels.base import Report
from coordinator.reports.panels.faults import cut_off
from coordinator.reports.panels.registry import PANELS
from coordinator.reports.panels.steps import steps_panel
from coordinator.reports.run_report import render, write_report
from coordinator.reports.scene import scene
from coordinator.reports.scene.votes import State, votes_of
from coordinator.reports.tables import to_csv, to_markdown
from coordinator.reports.theme import DARK, LIGHT, standalone, viridis
from emunode.errors import ScenarioError
from emunode.topologies.registry import parse_topology, small_examples
from emunode.topologies.star import StarGraph
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees
from emunode.trees.statistics import arc_loads
from tests.command_line import Call, fields, flags
from tests.support import run_scenario

STAR4 = "star:4 broadcast greedy-tree source=1234"
CRASHED = "star:5 broadcast greedy-tree source=12345 fault=crash:21345@2"
CUBE = "hypercube:5 broadcast flood"
EJ = "ej:3+4 broadcast improved"
ALLGATHER = "star:4 allgather hamiltonian-cycle port_model=one-port"
GATHER = "star:4 gather balanced-tree"
RUNS = (STAR4, CRASHED, CUBE, EJ, "ej:1+2^2 broadcast improved", ALLGATHER, GATHER)
RUN_STAR4 = " ".join(["run --driver memory", *flags(**fields(STAR4))])


class Page(HTMLParser):
    """The elements, references and text of a page whose elements are all closed."""

    VOID = frozenset({"meta", "link", "input", "br"})
    REFERENCES = frozenset({"src", "href", "action", "xlink:href", "srcset"})

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
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.refers += [value or "" for name, value in attributes if name in self.REFERENCES]
        self.ids |= {value or "" for name, value in attributes if name == "id"}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "script" and not self.data:
            self.data = data


def page_of(run_path: Path) -> Page:
    return Page((run_path / "report.html").read_text())


class Run:
    """A finished run, in memory, and its report."""

    def __init__(self, out: Path, scenario: str) -> None:
        self.path = run_scenario(out, **fields(scenario)).path
        self.text = (self.path / "report.html").read_text()
        self.page = Page(self.text)
        self.script = json.loads(self.page.data)
        for name in ("links", "loads", "lost", "gains"):
            if name in self.script:
                self.script[name] = list(map(unpack, self.script[name]))
        self.summary = json.loads((self.path / "summary.json").read_text())
        self.journal = pl.read_parquet(self.path / "journal.parquet")


Runs = Callable[[str], Run]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    """Provide the run of a scenario, made once; tests do not modify its directory."""
    return cache(lambda scenario: Run(tmp_path_factory.mktemp("runs") / "run", scenario))


@pytest.fixture
def copied(runs: Runs, tmp_path: Path) -> Path:
    """Provide a copy of a run directory, to be damaged."""
    return shutil.copytree(runs(CRASHED).path, tmp_path / "run")


# --- the page --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", RUNS)
def test_every_report_is_self_contained_and_matches_the_journal(runs: Runs, scenario: str) -> None:
    run = runs(scenario)
    assert [each for each in run.page.refers if not each.startswith("#")] == ["data:,"]
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)|url\(|@import|\bimport\(|fetch\(|XMLHttp", run.text)
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


# --- broken and half-written runs ------------------------------------------------------------------------------------

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


def test_unexpected_values_do_not_fail(copied: Path) -> None:
    summary = json.loads((copied / "summary.json").read_text())
    values = (None, "x", -1, [1], {"a": 1}, 1.5)
    for turn, key in enumerate(summary):
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


def test_a_crash_that_cuts_nodes_off_has_an_effect() -> None:
    """A leaf of a tree that crashed lost no packet, but the nodes behind it received nothing."""
    records: list[dict[str, object]] = [
        {"kind": "crash", "step": 2, "rank": 1, "label": name, "last": None, "seen": None} for name in ("4231", "2134")
    ]
    summary = {"cut_off": [{"label": "2341", "because": "crash:4231@2"}]}
    table = fault_table(RunData(Path(), "run", summary=summary, faults=records))
    assert [row["words"] for row in table] == [
        "until the end; cut off 1 node",
        "until the end; no effect observed",
    ]


def test_an_effect_of_a_fault_is_also_what_was_not_sent(runs: Runs) -> None:
    run = runs("star:4 broadcast greedy-tree fault=crash:4231@2")
    free = runs("star:4 broadcast greedy-tree")
    star = parse_topology("star:4")
    due = (
        free.journal.filter(pl.col("sender") == star.rank("4231"), pl.col("step") >= 2).select("step", "port").unique()
    )
    cut = run.summary["cut_off_count"]
    assert len(due) > 0
    assert cut > 0
    data = read_run(run.path)
    (row,) = fault_table(data)
    unsent = f"{plural(len(due), 'packet')} not sent that {'is' if len(due) == 1 else 'are'} without faults"
    assert row["words"].endswith(f"{unsent}; cut off {plural(cut, 'node')}")
    assert "no effect observed" not in row["words"]


def test_links_of_equal_load_are_a_sentence_and_no_ranking(runs: Runs) -> None:
    run = runs(STAR4)
    assert "Each of 23 of 72 directed links carries 1 segment; the others are idle." in run.page.text
    assert "Busiest links" not in run.page.text
    unequal = runs(ALLGATHER)
    equal = unequal.journal.group_by("sender", "port").len()["len"].n_unique() == 1
    assert ("Busiest links" in unequal.page.text) != equal


LOSSY = {
    "crash": f"{STAR4} fault=crash:2134@1",
    "crashes": f"{STAR4} fault=crash:2134@1 fault=crash:3214@2",
    "link": f"{STAR4} fault=down:1234~2134@1",
    "messages": f"{STAR4} messages=3 segments=2 fault=down:1234~2134@3",
    "scatter": "star:4 scatter balanced-tree fault=crash:3214@2",
    "gather": f"{GATHER} fault=crash:3214@2",
    "allgather": f"{ALLGATHER} fault=crash:3214@4",
    "byzantine": f"{STAR4} fault=byzantine:2134",
    "voting": "star:4 broadcast edt redundancy=2 fault=byzantine:2134",
    "whole": STAR4,
}


@pytest.mark.parametrize("name", LOSSY)
def test_cut_off_nodes_are_listed_with_their_cause(name: str, tmp_path: Path) -> None:
    run = Run(tmp_path / "run", LOSSY[name])
    nodes = run.summary.pop("cut_off")
    labels = [node["label"] for node in nodes]
    assert bool(labels) == (name != "whole")
    assert ("cut-off" in run.page.ids) == bool(labels)
    causes = dict.fromkeys(node["because"] for node in nodes)
    for cause in causes:
        words = ", ".join(node["label"] for node in nodes if node["because"] == cause)
        assert f"by {cause}: {words}" in run.page.text if cause else words in run.page.text
    assert len(causes) == (2 if name == "crashes" else bool(labels))
    assert [label for label, _ in cut_off(read_run(run.path), votes_of(read_run(run.path))).nodes] == labels
    del run.summary["cut_off_count"]
    (run.path / "summary.json").write_text(json.dumps(run.summary))
    data = read_run(run.path)
    found = cut_off(data, votes_of(data))
    assert [label for label, _ in found.nodes] == labels
    assert found.count == len(labels)


def test_terminal_lists_cut_off_nodes(call: Call) -> None:
    text = call(RUN_STAR4, "--fault", "crash:2134@1", "--out", "one").out
    nodes = pl.read_parquet("one/nodes.parquet")
    lost = nodes.filter(pl.col("received") < pl.col("expected"))["label"].to_list()
    assert f"cut off by crash:2134@1, {len(lost)} nodes: {', '.join(lost[:12])}" in text
    text = call(RUN_STAR4, "--out", "two").out
    assert "cut off" not in text
    assert "links.parquet" not in text


def test_omitted_idle_links_are_mentioned(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("coordinator.results.tables", "coordinator.cli.result", "coordinator.reports.panels.links"):
        monkeypatch.setattr(f"{module}.LISTED_LINKS", 71)
    printed = call(RUN_STAR4, "--out", "run")
    assert printed.status == 0
    assert len(pl.read_parquet("run/links.parquet")) == 23
    assert "links.parquet leaves out idle links, as the network has more than 71 directed links" in printed.out
    assert "links.parquet lists no idle links: the network has 72 directed links" in page_of(Path("run")).text


def test_links_of_an_irregular_network_are_counted_by_port(call: Call) -> None:
    assert (
        call("run --topology mesh:3x3 --collective broadcast --algorithm bfs-tree --driver memory --out run").status
        == 0
    )
    assert "8 directed links of 24 carry 8 segments" in page_of(Path("run")).text


# --- altered payloads ------------------------------------------------------------------------------------------------

ALTERED = {
    "outvoted": "star:4 broadcast edt redundancy=3 fault=byzantine:2134",
    "outvoting": "star:4 broadcast edt redundancy=3 fault=byzantine:2134 fault=byzantine:3214",
    "split": "star:4 broadcast edt redundancy=2 fault=byzantine:2134",
    "two altered copies": "star:4 broadcast edt redundancy=3 fault=corrupt:1234>2134:1 fault=corrupt:1234>3214:1",
    "one copy": "star:4 broadcast greedy-tree fault=byzantine:2134",
    "messages": "star:4 broadcast greedy-tree messages=3 fault=corrupt:1234>2134:1@1-2",
    "segments": "star:4 broadcast greedy-tree segments=4 fault=corrupt:1234>2134:1@1-2 fault=crash:4231@3",
    "flood": "star:4 broadcast flood fault=byzantine:2134 fault=byzantine:4231",
    "allgather": "star:4 allgather edt-dfs redundancy=3 fault=byzantine:2134 fault=byzantine:3214",
    "gather": f"{GATHER} fault=byzantine:2134",
    "reduce": "star:4 reduce greedy-tree messages=2 fault=byzantine:2134",
}


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("name", ALTERED)
def test_votes_match_the_metrics_of_the_run(name: str, runs: Runs) -> None:
    run = runs(ALTERED[name])
    data = read_run(run.path)
    votes = votes_of(data)
    assert votes is not None
    assert run.summary["corrupt"] > 0
    assert votes.intact() == run.summary["intact_deliveries"]
    assert votes.expected == run.summary["expected_deliveries"]
    assert votes.intact(int(run.journal["step"].max())) == votes.intact()  # type: ignore[arg-type]
    assert votes.intact(0) == 0
    if data.elections is not None:
        contested = data.elections.filter(pl.col("elected") != "right")
        who = "origin" if name == "gather" else "receiver"
        assert set(contested[who]) == set(np.flatnonzero(votes.state > State.RIGHT).tolist())
        wrong = contested.filter(pl.col("elected") == "wrong")
        assert set(wrong[who]) == set(np.flatnonzero(votes.state == State.WRONG).tolist())


@pytest.mark.parametrize("name", ["outvoting", "split", "two altered copies", "one copy"])
def test_report_counts_intact_messages(name: str, runs: Runs) -> None:
    run = runs(ALTERED[name])
    intact, expected = run.summary["intact_deliveries"], run.summary["expected_deliveries"]
    assert f"{intact} of {expected}" in run.page.text
    counts = re.compile(r"of (\d+) nodes (\d+) ha(?:s|ve) the right value, (\d+) a wrong one, (\d+) no majority")
    for text in (run.script["whole"], run.script["texts"][-1]):
        found = counts.search(text)
        assert found
        due, right, wrong, split = map(int, found.groups())
        assert (due, right, wrong + split) == (expected, intact, expected - intact)
        assert bool(split) == (name in ("split", "two altered copies"))
    assert not any("done" in text for text in run.script["texts"])
    assert f"intact messages {intact / expected:.1%}" in run.page.text
    assert "nothing was delivered at all" not in run.page.text
    assert ("byzantine" in run.page.text) == (name != "two altered copies")


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
    names = ["topology", "faults", "trials", "delivery ratio", "theory", "guaranteed", "promised", "verdict"]
    assert re.findall(r"<th[^>]*>([^<]*)</th>", text) == names
    assert page.text.count("0.1235") == page.text.count("(0.1000 to 0.2000)") == 4
    for words in ("✓ holds", "? 2 undecided", "✗ 3 violated, 1 undecided", "✗ theory excluded"):
        assert page.text.count(words) == 1
    assert "delivery ratio 1, not 0.5" in page.text
    assert page.tags["td"] == 4 * len(names)


# --- layouts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*small_examples(), "star:6", "hypercube:8", "ej:2+3^2", "ej:1+2^3"])
def test_nodes_do_not_overlap_and_hexagon_links_have_length_1(name: str) -> None:
    topology = parse_topology(name)
    layout = layout_of(topology)
    for positions, size in ((layout.x, 1000), (layout.y, layout.height)):
        assert np.isfinite(positions).all()
        assert layout.radius < positions.min()
        assert positions.max() < size - layout.radius
    distance = np.hypot(layout.x[:, None] - layout.x, layout.y[:, None] - layout.y)
    np.fill_diagonal(distance, np.inf)
    assert distance.min() >= 0.999 * layout.spacing
    assert distance.min() > 2 * layout.radius
    links = np.array([(rank, port, other) for rank, port, other, _ in topology.links()])
    shapes = shapes_of(topology, links[:, 0], links[:, 1], links[:, 2])
    assert np.isfinite(shapes.bow).all()
    if topology.family == "ej" and "^" not in name:
        straight = shapes.wrap_x**2 + shapes.wrap_y**2 == 0
        assert distance[links[straight, 0], links[straight, 2]] == pytest.approx(layout.scale)


@pytest.mark.parametrize("name", ["star:7", "star:8", "hypercube:15", "ej:3+4^3", "ej:60+61"])
def test_large_layouts_have_distinct_positions_and_few_cells(name: str) -> None:
    topology = parse_topology(name)
    layout = layout_of(topology)
    assert len(set(zip(layout.x.tolist(), layout.y.tolist(), strict=True))) == topology.order
    cells = cells_of(topology, layout, 5000)
    assert len(np.unique(cells)) <= 5000
    assert len(np.unique(cells)) > 500


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


def test_comparison_shows_differences(runs: Runs) -> None:
    star4, crashed, ej = (runs(scenario).path for scenario in (STAR4, CRASHED, EJ))
    comparison = compare(star4, crashed).record
    assert comparison["differs"]["topology"] == ["star:4", "star:5"]
    assert comparison["differs"]["fault"] == [[], ["crash:21345@2"]]
    assert "seed" not in comparison["differs"]
    assert comparison["metrics"]["steps"] == [4, 6]
    assert comparison["metrics"]["segments"][0] == 23
    assert not comparison["same_history"]
    assert compare(ej, ej).same_history
    steps = {"about": "metric", "name": "steps", str(star4): 4, str(crashed): 6, "ratio": 1.5}
    assert steps in as_rows(comparison)


def test_compare_command(runs: Runs, call: Call) -> None:
    def compared(options: str) -> str:
        ended = call(f"compare {options}", runs(STAR4).path, runs(CUBE).path)
        assert ended.status == 0
        return ended.out

    assert "the scenarios differ in: topology, algorithm, source" in compared("")
    assert json.loads(compared("--json"))["metrics"]["order"] == [24, 32]
    assert compared("--csv").startswith("about,name,")
    assert "| scenario | topology | star:4 | hypercube:5 |" in compared("--markdown --plot both.svg")
    figure = Path("both.svg").read_text()
    assert figure.startswith("<svg")
    assert "var(" not in figure


def test_png_contains_text(runs: Runs, call: Call) -> None:
    pytest.importorskip("resvg_py", reason="the extra `report` is not installed")
    figure = standalone(grouped_bars("Compared", {"steps": [4]}, ["one"]))
    try:
        write_figure(figure, Path("with.png"))
    except ScenarioError:
        pytest.skip("no fonts on this machine")
    write_figure(re.sub("<text.*?</text>", "", figure), Path("without.png"))
    assert Path("with.png").read_bytes() != Path("without.png").read_bytes()
    call("compare --csv --plot both.png", runs(STAR4).path, runs(CUBE).path)
    assert Path("both.png").read_bytes().startswith(b"\x89PNG")


def test_report_command(runs: Runs, call: Call) -> None:
    run = runs(STAR4)
    assert call("report", run.path, "--out", "page.html").status == 0
    assert Path("page.html").read_text() == run.text
    shutil.copytree(run.path, "runs/mine/one")
    Path("runs/mine/latest").symlink_to("one")
    for name in ("mine", "runs/mine", "runs/mine/latest"):
        ended = call("report", name)
        assert ended.status == 0
        assert ended.out.strip().endswith("runs/mine/one/report.html")
    assert call("report mine --out not/there.html").status == 2


@pytest.mark.parametrize(
    "line",
    [
        "report nothing",
        "compare .",
        "compare RUN",
        "compare RUN .",
        "compare RUN nothing",
        "compare RUN RUN --csv --json",
        "compare RUN RUN --plot x.gif",
        "export",
        "export RUN",
        "export --graphml x",
        "export RUN --topology star:4 --graphml x",
        "export --topology star:4 --goal x",
        "export --topology star:99 --graphml x",
        "export --topology star:4 --algorithm nope --graphml x",
        "export --topology star:4 --algorithm edt --collective nope --graphml x",
        "export --topology star:4 --algorithm edt --source 9999 --graphml x",
        "export --topology star:4 --algorithm flood --graphml x",
        "export RUN --goal /proc/nowhere/x",
    ],
)
def test_bad_arguments_are_rejected(runs: Runs, call: Call, line: str) -> None:
    assert call(line.replace("RUN", str(runs(STAR4).path))).status == 2


# --- exports ---------------------------------------------------------------------------------------------------------


def test_graphml_of_a_run(runs: Runs, call: Call) -> None:
    assert call("export", runs(STAR4).path, "--graphml", "run.graphml").status == 0
    graph = nx.read_graphml("run.graphml")
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


def test_graphml_of_a_plan(call: Call) -> None:
    assert call("export --topology star:4 --algorithm edt --source 3142 --graphml edt.graphml").status == 0
    graph, trees = nx.read_graphml("edt.graphml"), EdgeDisjointTrees(StarGraph(4))
    for tree in range(trees.count):
        arcs = [(a, b) for a, b, values in graph.edges(data=True) if str(tree) in values.get("trees", "").split()]
        assert nx.is_arborescence(nx.DiGraph(arcs))
        assert [node for node, degree in nx.DiGraph(arcs).in_degree() if not degree] == ["3142"]
    loads = sum(len(values.get("trees", "").split()) for _, _, values in graph.edges(data=True))
    assert loads == arc_loads(trees).total()


@pytest.mark.parametrize("name", ["hypercube:3", "ej:1+2^2", "star:3"])
def test_graphml_of_a_network(call: Call, name: str) -> None:
    assert call("export --graphml net.graphml --topology", name).status == 0
    topology, graph = parse_topology(name), nx.read_graphml("net.graphml")
    assert (len(graph), graph.number_of_edges()) == (topology.order, topology.order * topology.degree)
    assert nx.diameter(graph) == topology.diameter


@pytest.mark.parametrize("scenario", RUNS)
def test_goal_matches_the_journal(runs: Runs, call: Call, scenario: str) -> None:
    run = runs(scenario)
    assert call("export", run.path, "--goal", "run.goal").status == 0
    order, sends, receipts = parse_goal(Path("run.goal").read_text())
    assert order == parse_topology(str(fields(scenario)["topology"])).order
    arrived = run.journal.filter(pl.col("outcome") != "lost")
    packets = arrived.group_by("step", "sender", "receiver").agg(pl.col("bytes").sum())
    wanted = Counter(packets.select("sender", "receiver", "step", "bytes").iter_rows())
    assert sends == receipts == wanted


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
            assert {one, other} <= known.keys()
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
