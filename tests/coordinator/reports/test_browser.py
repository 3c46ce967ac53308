"""Reports in a browser: at every position of the slider, the page shows what the journal records for that step."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from coordinator.cli.app import main
from coordinator.reports.run_report import write_report
from emunode.topologies.registry import parse_topology
from tests.browser import Browser, find_chromium
from tests.support import run_journal

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="Chromium not found (Debian, Ubuntu: apt install chromium; or set CHROMIUM)"
    ),
]

ARROWS = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35}

DRAWN_LINKS = """
(() => {
  const nodes = [...document.querySelectorAll("#nodes circle")].map((c) => [+c.getAttribute("cx"), +c.getAttribute("cy")]);
  const far = (p, [x, y]) => (x - p.x) ** 2 + (y - p.y) ** 2;
  const nearest = (p) => nodes.reduce((best, node, rank) => far(p, node) < far(p, nodes[best]) ? rank : best, 0);
  const links = [];
  for (const id of ["flow0", "flow1", "flow2"]) {
    const flow = document.getElementById(id), visible = getComputedStyle(flow);
    if (visible.display === "none" || visible.stroke === "none") continue;
    for (const part of flow.getAttribute("d").split("M").slice(1)) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", "M" + part);
      const long = path.getTotalLength();
      links.push([nearest(path.getPointAtLength(0)), nearest(path.getPointAtLength(long))]);
    }
  }
  return links;
})()
"""
"""(node nearest to the start, node nearest to the end) of every link that is drawn as carrying traffic."""

FILLED = """
[...document.querySelectorAll("#nodes circle")].flatMap((c, rank) => c.getAttribute("fill") === "var(--paper)" ? [] : [rank])
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    assert CHROMIUM is not None
    with Browser(CHROMIUM) as opened:
        yield opened


@pytest.fixture
def page(browser: Browser) -> Iterator[Browser]:
    """The browser without events of earlier pages, in light colours; errors on the page fail the test."""
    browser.events.clear()
    browser.prefer(prefers_color_scheme="light")
    browser.resize(1400)
    yield browser
    assert browser.complaints() == []


def reported(folder: Path, **scenario: object) -> tuple[Path, pl.DataFrame]:
    """The report and the journal of a run."""
    result, journal = run_journal(folder / "run", **scenario)
    write_report(result.path)
    return result.path / "report.html", journal


def links_of(journal: pl.DataFrame, step: int) -> set[tuple[int, int]]:
    return {(sender, receiver) for sender, receiver in journal.filter(step=step).select("sender", "receiver").rows()}


def receivers_until(journal: pl.DataFrame, step: int) -> set[int]:
    return set(journal.filter((pl.col("step") <= step) & (pl.col("outcome") == "first"))["receiver"])


def move_to(page: Browser, step: int) -> None:
    """Move the slider with the keyboard: to the beginning, then one step per key press."""
    page.evaluate("document.getElementById('slider').focus()")
    page.press("Home", ARROWS["Home"])
    for _ in range(step - 1):
        page.press("ArrowRight", ARROWS["ArrowRight"])
    assert page.evaluate("document.getElementById('slider').value") == str(step)


BROADCASTS: dict[str, dict[str, Any]] = {
    "star": {"topology": "star:4", "collective": "broadcast", "algorithm": "greedy-tree", "source": "1234"},
    "cube": {"topology": "hypercube:4", "collective": "broadcast", "algorithm": "sbt", "source": "0110"},
    "ej": {"topology": "ej:2+3", "collective": "broadcast", "algorithm": "improved"},
}


@pytest.mark.parametrize("name", BROADCASTS)
def test_slider_shows_links_and_receivers_of_a_step(name: str, page: Browser, tmp_path: Path) -> None:
    path, journal = reported(tmp_path, **BROADCASTS[name])
    source = parse_topology(BROADCASTS[name]["topology"]).rank(BROADCASTS[name].get("source", "0,0"))
    page.open(path)
    assert page.evaluate("document.getElementById('now').textContent").startswith("whole run")
    whole = page.evaluate(DRAWN_LINKS)
    assert len(whole) == len(journal)
    for step in range(1, int(journal["step"].max()) + 1):  # type: ignore[arg-type]
        move_to(page, step)
        assert sorted(map(tuple, page.evaluate(DRAWN_LINKS))) == sorted(links_of(journal, step))
        assert set(page.evaluate(FILLED)) == receivers_until(journal, step) | {source}
        text = page.evaluate("document.getElementById('now').textContent")
        assert text.startswith(f"step {step} of ")
    page.click("#whole")
    assert page.evaluate(DRAWN_LINKS) == whole


def test_step_in_the_address_is_shown_and_played_from(page: Browser, tmp_path: Path) -> None:
    path, journal = reported(tmp_path, **BROADCASTS["star"])
    page.open(path, "#step=3")
    assert page.evaluate("document.getElementById('slider').value") == "3"
    assert {tuple(link) for link in page.evaluate(DRAWN_LINKS)} == links_of(journal, 3)
    page.click("#play")
    ended = """new Promise((done) => {
      const button = document.getElementById("play");
      const look = () => button.getAttribute("aria-pressed") === "false" ? done(document.getElementById("slider").value)
                                                                         : requestAnimationFrame(look);
      look();
    })"""
    assert page.evaluate(ended) == "4"
    assert {tuple(link) for link in page.evaluate(DRAWN_LINKS)} == links_of(journal, 4)


def test_crash_is_marked_from_its_step_on(page: Browser, tmp_path: Path) -> None:
    path, _ = reported(tmp_path, **BROADCASTS["star"], fault=["crash:4231@2"])
    page.open(path)
    shown = "[...document.querySelectorAll('.cross')].map((c) => getComputedStyle(c).display !== 'none')"
    move_to(page, 1)
    assert page.evaluate(shown) == [False]
    page.press("ArrowRight", ARROWS["ArrowRight"])
    assert page.evaluate(shown) == [True]


def test_contrast_in_dark_light_and_print(page: Browser, tmp_path: Path) -> None:
    """The lightness of text and background differs by at least a half."""
    path, _ = reported(tmp_path, **BROADCASTS["star"])
    page.open(path)
    lightness = """(() => {
      const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
      const of = (colour) => (([r, g, b]) => (0.3 * r + 0.59 * g + 0.11 * b) / 255)(parts(colour));
      return [of(getComputedStyle(document.documentElement).backgroundColor), of(getComputedStyle(document.body).color)];
    })()"""
    ground, ink = page.evaluate(lightness)
    assert ground - ink > 0.5
    page.prefer(prefers_color_scheme="dark")
    ground, ink = page.evaluate(lightness)
    assert ink - ground > 0.5
    page.prefer("print", prefers_color_scheme="dark")
    ground, ink = page.evaluate(lightness)
    assert ground - ink > 0.5


def test_report_of_thousands_of_nodes_is_small_and_works(page: Browser, tmp_path: Path) -> None:
    """Under 10 MB and a few thousand elements; `python -m tests.browser` measures how fast it opens."""
    path, journal = reported(tmp_path, topology="star:7", collective="broadcast", algorithm="greedy-tree")
    assert len(journal) == 5_039
    assert path.stat().st_size < 10_000_000
    page.open(path)
    assert page.evaluate("document.querySelectorAll('*').length") < 20_000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = page.evaluate(
        "(({width, height}) => [width, height])(document.getElementById('map').getBoundingClientRect())"
    )
    assert min(box) > 300
    move_to(page, 4)
    assert page.evaluate("document.getElementById('now').textContent").startswith("step 4 of ")
    later = "[...document.querySelectorAll('.cells')].map((c) => [+c.dataset.frame, getComputedStyle(c).opacity])"
    cells = page.evaluate(later)
    assert cells
    assert all((float(opacity) < 0.5) == (frame > 3) for frame, opacity in cells)


# --- altered payloads ------------------------------------------------------------------------------------------------

COLOURED = """
[...document.querySelectorAll("#nodes circle")].map((c) => getComputedStyle(c).fill)
"""
KEY_COLOURS = """
Object.fromEntries([...document.querySelectorAll(".key")].map((key) =>
  [key.textContent, getComputedStyle(key.querySelector("circle, path")).fill]))
"""
ELECTIONS: dict[str, dict[str, Any]] = {
    "wrong": {"topology": "star:5", "redundancy": 3, "fault": ["byzantine:21345", "byzantine:32145"]},
    "right and wrong": {
        "topology": "star:5", "redundancy": 3, "fault": ["byzantine:21345", "byzantine:34125", "byzantine:52341"],
    },
    "right and split": {"topology": "star:5", "redundancy": 4, "fault": ["byzantine:21345", "byzantine:45321"]},
    "wrong and split": {
        "topology": "star:5", "redundancy": 4, "fault": ["byzantine:21345", "byzantine:34125", "byzantine:52341"],
    },
    "split": {"topology": "star:4", "redundancy": 2, "fault": ["byzantine:2134"]},
    "right": {"topology": "star:4", "redundancy": 3, "fault": ["byzantine:2134"]},
    "two altered copies": {"topology": "star:4", "redundancy": 3, "fault": ["corrupt:1234>2134:1", "corrupt:1234>3214:1"]},
}  # fmt: skip


@pytest.mark.parametrize("name", ELECTIONS)
def test_nodes_have_the_colour_of_the_elected_value(name: str, page: Browser, tmp_path: Path) -> None:
    path, journal = reported(tmp_path, collective="broadcast", algorithm="edt", **ELECTIONS[name])
    nodes = pl.read_parquet(path.with_name("nodes.parquet"))
    contested = pl.read_parquet(path.with_name("elections.parquet"))
    due = set(nodes.filter(pl.col("expected") > 0)["rank"])
    words = {"right": "right value", "wrong": "wrong value elected", "none": "no majority"}
    wanted = dict.fromkeys(due, words["right"])
    wanted |= {rank: words[elected] for rank, elected in contested.select("receiver", "elected").iter_rows()}
    assert len(set(wanted.values())) == len(name.split(" and ")), (
        "the run has as many kinds of results as its name lists"
    )
    page.open(path)
    colours = page.evaluate(KEY_COLOURS)
    meaning = {colours[word]: word for word in words.values()}
    assert len(meaning) == 3
    drawn = page.evaluate(COLOURED)
    assert {rank: meaning[drawn[rank]] for rank in due} == wanted
    byzantine = set(nodes.filter(pl.col("state") == "byzantine")["rank"])
    assert {drawn[rank] for rank in byzantine}.isdisjoint({*meaning, drawn[0]})
    assert page.evaluate("document.querySelectorAll('.diamond').length") == len(byzantine)
    assert ("byzantine" in colours) == bool(byzantine)
    move_to(page, int(journal["step"].max()))  # type: ignore[arg-type]
    assert page.evaluate(COLOURED) == drawn
    count = Counter(wanted.values())
    text = page.evaluate("document.getElementById('now').textContent")
    right, wrong, none = (count[word] for word in words.values())
    assert f"of {len(due)} nodes {right} ha" in text
    assert text.endswith(f" the right value, {wrong} a wrong one, {none} no majority")
    summary = json.loads(path.with_name("summary.json").read_text())
    assert right == summary["intact_deliveries"]


def test_vote_is_coloured_from_the_step_of_its_last_copy_on(page: Browser, tmp_path: Path) -> None:
    path, journal = reported(tmp_path, collective="broadcast", algorithm="edt", **ELECTIONS["wrong"])
    due = pl.read_parquet(path.with_name("nodes.parquet")).filter(pl.col("expected") > 0)["rank"].to_list()
    copies = journal.filter(pl.col("outcome") != "lost").group_by("receiver", "tree").agg(pl.col("step").min())
    settled = dict(copies.group_by("receiver").agg(pl.col("step").max()).iter_rows())
    page.open(path)
    wrong = page.evaluate(KEY_COLOURS)["wrong value elected"]
    for step in range(1, int(journal["step"].max()) + 1):  # type: ignore[arg-type]
        move_to(page, step)
        drawn = page.evaluate(COLOURED)
        assert {rank for rank in due if drawn[rank] == wrong} == {rank for rank in due if settled[rank] <= step}


# --- all-to-all collectives ------------------------------------------------------------------------------------------

PIES = """
(() => {
  const radius = +document.querySelector("#nodes circle").getAttribute("r"), area = Math.PI * radius ** 2;
  const nodes = [...document.querySelectorAll("#nodes circle")].map((c) => [+c.getAttribute("cx"), +c.getAttribute("cy")]);
  const shares = nodes.map(() => 0);
  for (const shape of document.querySelectorAll("#slices path, #progress path")) {
    if (!shape.getClientRects().length || !shape.getBoundingClientRect().width) continue;
    for (const part of (shape.getAttribute("d") || "").split("M").slice(1)) {
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", "M" + part);
      const length = path.getTotalLength(), ends = [];
      for (let at = 0; at < 400; at++) ends.push(path.getPointAtLength(length * at / 400));
      let twice = 0, x = 0, y = 0;
      ends.forEach((p, at) => {
        const q = ends[(at + 1) % 400];
        twice += p.x * q.y - q.x * p.y;
        x += p.x / 400;
        y += p.y / 400;
      });
      const far = ([a, b]) => (a - x) ** 2 + (b - y) ** 2;
      const rank = nodes.reduce((best, node, at) => far(node) < far(nodes[best]) ? at : best, 0);
      shares[rank] += Math.abs(twice) / 2 / area;
    }
  }
  return shares;
})()
"""
"""The coloured share of the area of each node."""
EXCHANGES: dict[str, dict[str, Any]] = {
    "allgather": {
        "topology": "star:4", "collective": "allgather", "algorithm": "hamiltonian-cycle", "port_model": "one-port",
    },
    "crash": {
        "topology": "star:4", "collective": "allgather", "algorithm": "hamiltonian-cycle", "port_model": "one-port",
        "fault": ["crash:3214@5"],
    },
    "alltoall": {"topology": "hypercube:4", "collective": "alltoall", "algorithm": "sbnt"},
}  # fmt: skip


@pytest.mark.parametrize("name", EXCHANGES)
def test_pies_show_the_progress_of_each_node(name: str, page: Browser, tmp_path: Path) -> None:
    path, journal = reported(tmp_path, **EXCHANGES[name])
    nodes = pl.read_parquet(path.with_name("nodes.parquet"))
    faulty = nodes.filter(pl.col("state") != "alive")["rank"].to_list()
    owed = journal.filter(pl.col("outcome") == "first", ~pl.col("origin").is_in(faulty))
    due = int(nodes["expected"].max())  # type: ignore[arg-type]

    def shares(step: int) -> list[float]:
        got = dict(owed.filter(pl.col("step") <= step).group_by("receiver").agg(pl.len()).iter_rows())
        return [got.get(rank, 0) / due for rank in nodes["rank"]]

    last = int(journal["step"].max())  # type: ignore[arg-type]
    page.open(path)
    assert np.allclose(page.evaluate(PIES), shares(last), atol=0.02)
    for step in {1, 2, last // 2, last}:
        move_to(page, step)
        assert np.allclose(page.evaluate(PIES), shares(step), atol=0.02)
    page.click("#whole")
    assert np.allclose(page.evaluate(PIES), shares(last), atol=0.02)
    assert page.evaluate("document.querySelectorAll('#slices path').length") > 1


SHADES = """
(() => {
  const shades = {};
  [...document.querySelectorAll(".level")].forEach((path, level) => {
    for (const [, x, y] of path.getAttribute("d").matchAll(/M(\\S+) (\\S+)h/g)) shades[`${x},${y}`] = level;
  });
  return JSON.parse(document.getElementById("data").textContent).squares.map((square) => {
    const [, x, y] = /M(\\S+) (\\S+)h/.exec(square);
    return shades[`${x},${y}`];
  });
})()
"""
"""The level of the square of each node."""


@pytest.mark.parametrize("name", ["allgather", "crash"])
def test_large_maps_of_all_to_all_collectives_shade_nodes_by_progress(
    name: str, page: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coordinator.reports.maps.link_map.NODES_WITH_LINKS", 10)
    path, journal = reported(tmp_path, **EXCHANGES[name])
    nodes = pl.read_parquet(path.with_name("nodes.parquet"))
    faulty = nodes.filter(pl.col("state") != "alive")["rank"].to_list()
    owed = journal.filter(pl.col("outcome") == "first", ~pl.col("origin").is_in(faulty))
    due, last = int(nodes["expected"].max()), int(journal["step"].max())  # type: ignore[arg-type]
    page.open(path)
    whole = page.evaluate(SHADES)
    for step in (1, 6, 12, last):
        got = dict(owed.filter(pl.col("step") <= step).group_by("receiver").agg(pl.len()).iter_rows())
        move_to(page, step)
        assert page.evaluate(SHADES) == [9 * got.get(rank, 0) // due for rank in nodes["rank"]]
        done = sum(got.get(rank, 0) == due for rank in nodes["rank"])
        text = page.evaluate("document.getElementById('now').textContent")
        assert text == f"step {step} of {last}: {done} of {24 - len(faulty)} nodes done"
    assert page.evaluate(SHADES) == whole


def test_pies_of_altered_runs_show_elected_values(page: Browser, tmp_path: Path) -> None:
    path, _ = reported(
        tmp_path, topology="star:4", collective="allgather", algorithm="edt-dfs", redundancy=3,
        fault=["byzantine:2134", "byzantine:3214"],
    )  # fmt: skip
    nodes = pl.read_parquet(path.with_name("nodes.parquet"))
    contested = pl.read_parquet(path.with_name("elections.parquet"))
    summary = json.loads(path.with_name("summary.json").read_text())
    faulty = nodes.filter(pl.col("state") != "alive")["rank"].to_list()
    owed = contested.filter(~pl.col("origin").is_in(faulty), pl.col("elected") == "wrong")
    wrong = dict(owed.group_by("receiver").agg(pl.len()).iter_rows())
    due = int(nodes["expected"].max())  # type: ignore[arg-type]
    assert sum(wrong.values()) == summary["expected_deliveries"] - summary["intact_deliveries"]
    page.open(path)
    keys = page.evaluate(KEY_COLOURS)
    coloured = PIES.replace("const shape of", "const shape of [...").replace('path")) {', 'path")].filter(CHOSEN)) {')
    for word, wanted in (
        ("wrong value elected", [wrong.get(rank, 0) / due for rank in nodes["rank"]]),
        ("right value", [0 if rank in faulty else 1 - wrong.get(rank, 0) / due for rank in nodes["rank"]]),
    ):
        chosen = coloured.replace("CHOSEN", f"(shape) => getComputedStyle(shape).fill === {keys[word]!r}")
        page.click("#whole")
        assert np.allclose(page.evaluate(chosen), wanted, atol=0.02)
        move_to(page, summary["steps"])
        assert np.allclose(page.evaluate(chosen), wanted, atol=0.02)


# --- marks -----------------------------------------------------------------------------------------------------------


def test_cross_does_not_hide_the_label(page: Browser, tmp_path: Path) -> None:
    path, _ = reported(tmp_path, **BROADCASTS["star"], fault=["crash:4231@2", "hang:2134@1"])
    page.open(path)
    above = """[...document.querySelectorAll(".cross")].map((cross) =>
      [...document.querySelectorAll("#nodes, #names")].every((layer) =>
        cross.compareDocumentPosition(layer) & Node.DOCUMENT_POSITION_FOLLOWING))"""
    assert page.evaluate(above) == [True, True]
    outside = """[...document.querySelectorAll(".cross")].map((cross) => {
      const [at, node] = [cross.getBBox(), document.querySelector("#nodes circle")];
      return at.width / 2 > 1.2 * node.getAttribute("r"); })"""
    assert page.evaluate(outside) == [True, True], "its arms reach beyond the node"
    assert "crashed or hung" in page.evaluate(KEY_COLOURS)


@pytest.mark.parametrize(("name", "word"), [("star", "source"), ("gather", "target")])
def test_the_source_is_filled_and_in_the_legend(name: str, word: str, page: Browser, tmp_path: Path) -> None:
    gather = {"topology": "star:4", "collective": "gather", "algorithm": "balanced-tree", "source": "2134"}
    scenario = gather if name == "gather" else BROADCASTS[name]
    path, journal = reported(tmp_path, **scenario)
    source = parse_topology("star:4").rank(str(scenario["source"]))
    for mode in ("light", "dark"):
        page.prefer(prefers_color_scheme=mode)
        page.open(path)
        colour = page.evaluate(KEY_COLOURS)[word]
        for step in (None, 1, int(journal["step"].max())):  # type: ignore[arg-type]
            if step:
                move_to(page, step)
            drawn = page.evaluate(COLOURED)
            assert [rank for rank, fill in enumerate(drawn) if fill == colour] == [source]


# --- small screens ---------------------------------------------------------------------------------------------------

LETTERS = """
[...document.querySelectorAll("svg.chart text, svg.map text")].filter((text) => text.getBoundingClientRect().width)
  .map((text) => [parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().d, text.getBoundingClientRect().height,
                  text.textContent])
"""
"""(pixels of its font, pixels of its box, text) of every visible text in a figure."""
CLIPPED = """
[...document.querySelectorAll("svg.chart")].filter((chart) => chart.getBoundingClientRect().width).flatMap((chart) => {
  const box = chart.getBoundingClientRect();
  return [...chart.querySelectorAll("text")].filter((text) => {
    const at = text.getBoundingClientRect();
    return at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1;
  }).map((text) => text.textContent);
})
"""
"""Texts that leave their chart."""
PAGES: dict[str, dict[str, Any]] = {
    **BROADCASTS,
    "star 5": {**BROADCASTS["star"], "topology": "star:5", "source": "12345", "fault": ["crash:21345@2"]},
    "cube 6": {**BROADCASTS["cube"], "topology": "hypercube:6", "source": "000000", "messages": 9},
    "allgather": EXCHANGES["allgather"],
    "elections": {"collective": "broadcast", "algorithm": "edt", **ELECTIONS["right and split"]},
    "large": {"topology": "star:7", "collective": "broadcast", "algorithm": "bfs-tree"},
}


@pytest.mark.parametrize("name", PAGES)
def test_letters_in_figures_are_legible_on_a_phone(name: str, page: Browser, tmp_path: Path) -> None:
    path, _ = reported(tmp_path, **PAGES[name])
    for width in (390, 1400):
        page.resize(width)
        page.open(path)
        letters = page.evaluate(LETTERS)
        assert len(letters) > 20
        assert [text for font, box, text in letters if width == 390 and (font < 9 or box < 9)] == []
        assert page.evaluate(CLIPPED) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= width


# --- campaigns -------------------------------------------------------------------------------------------------------

OUTSIDE = """
[...document.querySelectorAll("th, td")].filter((cell) => cell.getBoundingClientRect().width).filter((cell) => {
  const box = cell.getBoundingClientRect();
  return box.left < 0 || box.right > innerWidth;
}).map((cell) => cell.textContent)
"""


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("campaign") / "out"
    vary = ("--vary", "topology=star:4,hypercube:4", "--algorithm", "bfs-tree")
    points = ("--faults", "nodes=0..3", "--faults", "nodes=1;byzantine=1", "--faults", "links=1", "--trials", "30")
    assert main(["campaign", *vary, *points, "--workers", "1", "--out", str(out)]) == 0
    return out


@pytest.mark.parametrize("width", [1400, 1100, 800, 390])
def test_campaign_page_fits_the_screen(width: int, campaign: Path, page: Browser) -> None:
    page.resize(width)
    page.open(campaign / "campaign.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate("document.querySelector('thead').getBoundingClientRect().height") < 60
    names = page.evaluate("[...document.querySelectorAll('th')].map((cell) => cell.textContent)")
    assert names[:2] == ["topology", "faults"]
    assert {"theory", "promised", "delivery ratio", "guaranteed", "verdict"} <= set(names)
    if width == 390:
        assert [text for font, box, text in page.evaluate(LETTERS) if font < 9 or box < 9] == []
        text = page.evaluate("getComputedStyle(document.querySelector('td'), '::before').content")
        assert text == '"topology"', "without a header row, each cell shows its column name"


def test_campaign_page_shows_the_values_of_its_table(campaign: Path, page: Browser) -> None:
    table = pl.read_csv(campaign / "table.csv")
    page.open(campaign / "campaign.html")
    names = page.evaluate("[...document.querySelectorAll('th')].map((cell) => cell.textContent.replaceAll(' ', '_'))")
    rows = page.evaluate(
        "[...document.querySelectorAll('tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    assert len(rows) == len(table)
    for shown, row in zip(rows, table.iter_rows(named=True), strict=True):
        cells = dict(zip(names, shown, strict=True))
        assert (cells["topology"], cells["faults"]) == (row["topology"], row["faults"])
        for column, prefix in (("delivery_ratio", "ratio"), ("guaranteed", "guaranteed")):
            numbers = [float(number) for number in re.findall(r"[0-9.]+", cells[column])]
            ends = [row[column], row[f"{prefix}_low"], row[f"{prefix}_high"]]
            assert numbers == pytest.approx(ends if ends[1] < ends[2] else ends[:1], abs=5.1e-5)
        for column in ("theory", "promised", "lost"):
            assert (
                cells[column] == "-"
                if row[column] is None
                else float(cells[column]) == pytest.approx(row[column], abs=6e-4)
            )
        assert not any(re.search(r"\.\d{5}", text) for text in shown)
    title = page.evaluate("document.querySelector('h1').innerHTML")
    assert "S<sub>4</sub>" in title
    assert "Q<sub>4</sub>" in title
