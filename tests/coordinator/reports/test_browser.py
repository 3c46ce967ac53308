"""Reports in a browser: at every position of the slider, the page shows what the journal records for that step."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from emunode.topologies.registry import parse_topology
from tests.helpers.browser import CLIPPED, LETTERS, Browser
from tests.helpers.command_line import fields
from tests.helpers.support import run_and_draw

pytestmark = pytest.mark.browser

ARROWS = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35}

SHAPES = """
[...document.querySelectorAll("SELECTOR")].filter((shape) => shape.getClientRects().length).flatMap((shape) => {
  const {fill, stroke} = getComputedStyle(shape);
  return (shape.getAttribute("d") || "").split("M").slice(1).map((part) => {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("d", "M" + part);
    const length = path.getTotalLength(), points = [];
    for (let at = 0; at < COUNT; at++) points.push(path.getPointAtLength(length * at / (COUNT - 1)));
    return [fill, stroke, points.map(({x, y}) => [x, y])];
  });
})
"""
"""(fill, stroke, points at equal distances) of every visible part of the selected paths."""
CIRCLES = """
[...document.querySelectorAll("#nodes circle")].map((c) => ["cx", "cy", "r"].map((name) => +c.getAttribute(name)))
"""
FILLS = "[...document.querySelectorAll('#nodes circle')].map((c) => c.getAttribute('fill'))"
COLOURED = "[...document.querySelectorAll('#nodes circle')].map((c) => getComputedStyle(c).fill)"
KEY_COLOURS = """
Object.fromEntries([...document.querySelectorAll(".key")].map((key) =>
  [key.textContent, getComputedStyle(key.querySelector("circle, path")).fill]))
"""


class Shown:
    """A run whose report the browser shows."""

    def __init__(self, page: Browser, path: Path) -> None:
        self.page = page
        self.report = path / "report.html"
        self.summary = json.loads((path / "summary.json").read_text())
        self.journal = pl.read_parquet(path / "journal.parquet")
        self.nodes = pl.read_parquet(path / "nodes.parquet")
        self.faulty = self.nodes.filter(pl.col("state") != "alive")["rank"].to_list()
        self.circles = np.array(page.evaluate(CIRCLES))
        self.due = int(self.nodes["expected"].max())  # type: ignore[arg-type]
        self.last = int(self.journal["step"].max())  # type: ignore[arg-type]

    # what the run recorded

    def links_of(self, step: int) -> list[tuple[int, ...]]:
        return sorted(set(self.journal.filter(step=step).select("sender", "receiver").iter_rows()))

    def received(self, step: int) -> list[int]:
        """Return messages of origins without a fault that each node has received by the end of a step."""
        first = self.journal.filter(pl.col("outcome") == "first", pl.col("step") <= step)
        count = Counter(first.filter(~pl.col("origin").is_in(self.faulty))["receiver"])
        return [count[rank] for rank in self.nodes["rank"]]

    def elections(self) -> pl.DataFrame:
        return pl.read_parquet(self.report.with_name("elections.parquet"))

    # what the page shows

    def text(self) -> str:
        return str(self.page.evaluate("document.getElementById('now').textContent"))

    def move_to(self, step: int) -> None:
        """Move the slider with the keyboard: to the beginning, then one step per key press."""
        self.page.evaluate("document.getElementById('slider').focus()")
        self.page.press("Home", ARROWS["Home"])
        for _ in range(step - 1):
            self.page.press("ArrowRight", ARROWS["ArrowRight"])
        assert self.page.evaluate("document.getElementById('slider').value") == str(step)

    def shapes(self, selector: str, count: int) -> Any:
        return self.page.evaluate(SHAPES.replace("SELECTOR", selector).replace("COUNT", str(count)))

    def nearest(self, point: list[float]) -> int:
        """Return the node nearest to a point of the map."""
        return int(np.hypot(*(self.circles[:, :2] - point).T).argmin())

    def drawn_links(self) -> list[tuple[int, ...]]:
        """Return (sender, receiver) of every link that is drawn as carrying traffic."""
        lines = [ends for _, stroke, ends in self.shapes("#flow0, #flow1, #flow2", 2) if stroke != "none"]
        return sorted(tuple(map(self.nearest, ends)) for ends in lines)

    def shares(self, colour: str | None = None) -> Any:
        """Return the share of the area of each node that is coloured, or that has this colour."""
        areas = np.zeros(len(self.nodes))
        for fill, _, outline in self.shapes("#slices path, #progress path", 100):
            if colour in (None, fill):
                x, y = np.array(outline).T
                twice = np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y)
                areas[self.nearest([x.mean(), y.mean()])] += abs(twice) / 2
        return areas / (np.pi * self.circles[:, 2] ** 2)


Show = Callable[..., Shown]


@pytest.fixture
def show(page: Browser, tmp_path: Path) -> Show:
    """Run a scenario and open its report."""

    def show_one(scenario: str, *, fragment: str = "") -> Shown:
        path = run_and_draw(tmp_path / "run", **fields(scenario)).path
        page.open(path / "report.html", fragment)
        return Shown(page, path)

    return show_one


STAR = "star:4 broadcast greedy-tree source=1234"
BROADCASTS = {STAR: "1234", "hypercube:4 broadcast sbt source=0110": "0110", "ej:2+3 broadcast improved": "0,0"}
"""Broadcasts and their sources."""


@pytest.mark.parametrize(("scenario", "source"), BROADCASTS.items())
def test_slider_shows_links_and_receivers_of_a_step(scenario: str, source: str, show: Show) -> None:
    run = show(scenario)
    reached = {parse_topology(str(fields(scenario)["topology"])).rank(source)}
    assert run.text().startswith("whole run")
    whole = run.drawn_links()
    assert len(whole) == len(run.journal)
    for step in range(1, run.last + 1):
        run.move_to(step)
        assert run.drawn_links() == run.links_of(step)
        reached |= set(run.journal.filter(step=step, outcome="first")["receiver"])
        fills = run.page.evaluate(FILLS)
        assert {rank for rank, fill in enumerate(fills) if fill != "var(--paper)"} == reached
        assert run.text().startswith(f"step {step} of ")
    run.page.click("#whole")
    assert run.drawn_links() == whole


def test_step_in_the_address_is_shown_and_played_from(show: Show) -> None:
    run = show(STAR, fragment="#step=3")
    assert run.page.evaluate("document.getElementById('slider').value") == "3"
    assert run.drawn_links() == run.links_of(3)
    run.page.click("#play")
    ended = """new Promise((done) => {
      const button = document.getElementById("play");
      const look = () => button.getAttribute("aria-pressed") === "false" ? done(document.getElementById("slider").value)
                                                                         : requestAnimationFrame(look);
      look();
    })"""
    assert run.page.evaluate(ended) == "4"
    assert run.drawn_links() == run.links_of(4)


def test_a_tangle_of_links_begins_with_its_first_tree(show: Show) -> None:
    run = show("star:5 broadcast edt redundancy=4 source=12345")
    pressed = "document.querySelector('[data-choice][aria-pressed=true]').textContent"
    trees = "[...document.querySelectorAll('#overlay path')].map((path) => path.dataset.tree)"
    assert (run.page.evaluate(pressed), run.page.evaluate(trees)) == ("Tree 1", ["0"])
    assert run.text().endswith("; drawn is tree 1")
    run.move_to(3)
    assert (run.page.evaluate(pressed), run.drawn_links()) == ("Traffic", run.links_of(3))
    run.page.click("#whole")
    assert run.page.evaluate(pressed) == "Tree 1"
    run.page.click("[data-choice=traffic]")
    assert (run.page.evaluate(pressed), run.page.evaluate(trees)) == ("Traffic", [])
    run.page.wait_until("location.hash === '#tree=traffic'")


def test_time_is_zoomed(show: Show) -> None:
    run = show("star:4 broadcast greedy-tree clock=timed fault=crash:4231@6ms")
    chart = "document.querySelector('svg.full[data-times]')"
    starts = f"[...{chart}.querySelector('.plot path[stroke*=blue]').getAttribute('d').matchAll(/M([\\d.-]+)/g)]"
    places = f"{starts}.map((found) => Number(found[1]))"
    ticks = f"[...{chart}.querySelectorAll('.ticks .middle')].map((text) => Number(text.textContent))"
    left, right, last, _ = map(float, run.page.evaluate(f"{chart}.dataset.times").split())
    before = run.page.evaluate(places)
    times = [(x - left) / (right - left) * last for x in before]
    for _ in range(2):
        run.page.click("#times-closer")
    run.page.evaluate(
        "(() => { const slider = document.getElementById('times-slider'); slider.value = 0;"
        "slider.dispatchEvent(new Event('input')); })()"
    )
    # The first quarter of the time takes the whole width.
    assert run.page.evaluate(places) == pytest.approx([left + 4 * t / last * (right - left) for t in times], abs=0.3)
    shown = run.page.evaluate(ticks)
    assert len(shown) > 2
    assert 0 <= min(shown) < max(shown) <= last / 4
    run.page.click("#times-whole")
    assert run.page.evaluate(places) == before
    assert max(run.page.evaluate(ticks)) > last / 4


def test_contrast_in_dark_light_and_print(show: Show) -> None:
    """The lightness of text and background differs by at least a half."""
    run = show(STAR)
    lightness = """(() => {
      const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
      const of = (colour) => (([r, g, b]) => (0.3 * r + 0.59 * g + 0.11 * b) / 255)(parts(colour));
      return [of(getComputedStyle(document.documentElement).backgroundColor), of(getComputedStyle(document.body).color)];
    })()"""
    for media, scheme, sign in (("", "light", 1), ("", "dark", -1), ("print", "dark", 1)):
        run.page.prefer(media, prefers_color_scheme=scheme)
        ground, ink = run.page.evaluate(lightness)
        assert sign * (ground - ink) > 0.5


def test_report_of_thousands_of_nodes_is_small_and_works(show: Show) -> None:
    """Under 10 MB and a few thousand elements; `python -m tests.helpers.browser` measures how fast it opens."""
    run = show("star:7 broadcast greedy-tree")
    assert len(run.journal) == 5_039
    assert run.report.stat().st_size < 10_000_000
    assert run.page.evaluate("document.querySelectorAll('*').length") < 20_000
    assert run.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = "(({width, height}) => [width, height])(document.getElementById('map').getBoundingClientRect())"
    assert min(run.page.evaluate(box)) > 300
    run.move_to(4)
    assert run.text().startswith("step 4 of ")
    later = "[...document.querySelectorAll('.cells')].map((c) => [+c.dataset.frame, getComputedStyle(c).opacity])"
    cells = run.page.evaluate(later)
    assert cells
    assert all((float(opacity) < 0.5) == (frame > 3) for frame, opacity in cells)


# --- altered payloads ------------------------------------------------------------------------------------------------

THREE = "fault=byzantine:21345 fault=byzantine:34125 fault=byzantine:52341"
ELECTIONS = {
    "wrong": "star:5 broadcast edt redundancy=3 fault=byzantine:21345 fault=byzantine:32145",
    "right and wrong": f"star:5 broadcast edt redundancy=3 {THREE}",
    "right and split": "star:5 broadcast edt redundancy=4 fault=byzantine:21345 fault=byzantine:45321",
    "wrong and split": f"star:5 broadcast edt redundancy=4 {THREE}",
    "split": "star:4 broadcast edt redundancy=2 fault=byzantine:2134",
    "right": "star:4 broadcast edt redundancy=3 fault=byzantine:2134",
    "two altered copies": "star:4 broadcast edt redundancy=3 fault=corrupt:1234>2134:1 fault=corrupt:1234>3214:1",
}


@pytest.mark.parametrize("name", ELECTIONS)
def test_nodes_have_the_colour_of_the_elected_value(name: str, show: Show) -> None:
    run = show(ELECTIONS[name])
    due = set(run.nodes.filter(pl.col("expected") > 0)["rank"])
    words = {"right": "right value", "wrong": "wrong value elected", "none": "no majority"}
    wanted = dict.fromkeys(due, words["right"])
    wanted |= {rank: words[elected] for rank, elected in run.elections().select("receiver", "elected").iter_rows()}
    assert len(set(wanted.values())) == len(name.split(" and ")), "as many kinds of results as in the name"
    colours = run.page.evaluate(KEY_COLOURS)
    meaning = {colours[word]: word for word in words.values()}
    assert len(meaning) == 3
    drawn = run.page.evaluate(COLOURED)
    assert {rank: meaning[drawn[rank]] for rank in due} == wanted
    byzantine = set(run.nodes.filter(pl.col("state") == "byzantine")["rank"])
    assert {drawn[rank] for rank in byzantine}.isdisjoint({*meaning, drawn[0]})
    assert run.page.evaluate("document.querySelectorAll('.diamond').length") == len(byzantine)
    assert ("byzantine" in colours) == bool(byzantine)
    run.move_to(run.last)
    assert run.page.evaluate(COLOURED) == drawn
    count = Counter(wanted.values())
    right, wrong, none = (count[word] for word in words.values())
    assert f"of {len(due)} nodes {right} ha" in run.text()
    assert run.text().endswith(f" the right value, {wrong} a wrong one, {none} no majority")
    assert right == run.summary["intact_deliveries"]


# --- all-to-all collectives ------------------------------------------------------------------------------------------

CYCLE = "star:4 allgather hamiltonian-cycle port_model=one-port"
PROGRESS = [
    "hypercube:4 alltoall sbnt",
    *(pytest.param(f"{CYCLE}{fault}", marks=pytest.mark.slow) for fault in ("", " fault=crash:3214@5")),
]


@pytest.mark.parametrize("scenario", PROGRESS)
def test_pies_show_the_progress_of_each_node(scenario: str, show: Show) -> None:
    run = show(scenario)
    whole = np.divide(run.received(run.last), run.due)
    assert np.allclose(run.shares(), whole, atol=0.02)
    for step in {1, 2, run.last // 2, run.last}:
        run.move_to(step)
        assert np.allclose(run.shares(), np.divide(run.received(step), run.due), atol=0.02)
    run.page.click("#whole")
    assert np.allclose(run.shares(), whole, atol=0.02)
    assert run.page.evaluate("document.querySelectorAll('#slices path').length") > 1


LEVELS = "[...document.querySelectorAll('.level')].map((path) => path.getAttribute('d'))"
SQUARES = "JSON.parse(document.getElementById('data').textContent).squares"


def shades(run: Shown) -> list[int]:
    """Return the level of the square of each node."""
    corner = re.compile(r"M(\S+ \S+)h")
    level_of = {at: level for level, path in enumerate(run.page.evaluate(LEVELS)) for at in corner.findall(path)}
    return [level_of[at] for square in run.page.evaluate(SQUARES) for at in corner.findall(square)]


@pytest.mark.parametrize("scenario", [CYCLE, f"{CYCLE} fault=crash:3214@5"])
def test_large_maps_shade_nodes_by_progress(scenario: str, show: Show, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.reports.maps.link_map.NODES_WITH_LINKS", 10)
    run = show(scenario)
    whole = shades(run)
    for step in (1, 6, 12, run.last):
        run.move_to(step)
        received = run.received(step)
        assert shades(run) == [9 * count // run.due for count in received]
        done = received.count(run.due)
        assert run.text() == f"step {step} of {run.last}: {done} of {24 - len(run.faulty)} nodes done"
    assert shades(run) == whole


def test_pies_of_altered_runs_show_elected_values(show: Show) -> None:
    run = show("star:4 allgather edt-dfs redundancy=3 fault=byzantine:2134 fault=byzantine:3214")
    owed = run.elections().filter(~pl.col("origin").is_in(run.faulty), pl.col("elected") == "wrong")
    wrong = Counter(owed["receiver"])
    assert wrong.total() == run.summary["expected_deliveries"] - run.summary["intact_deliveries"]
    keys = run.page.evaluate(KEY_COLOURS)
    for word, wanted in (
        ("wrong value elected", [wrong[rank] / run.due for rank in run.nodes["rank"]]),
        ("right value", [0 if rank in run.faulty else 1 - wrong[rank] / run.due for rank in run.nodes["rank"]]),
    ):
        run.page.click("#whole")
        assert np.allclose(run.shares(keys[word]), wanted, atol=0.02)
        run.move_to(run.summary["steps"])
        assert np.allclose(run.shares(keys[word]), wanted, atol=0.02)


# --- marks -----------------------------------------------------------------------------------------------------------


def test_a_crash_is_marked_and_does_not_hide_the_label(show: Show) -> None:
    run = show(f"{STAR} fault=crash:4231@2 fault=hang:2134@1")
    shown = (
        "[...document.querySelectorAll('.cross')].map((c) => [c.dataset.step, getComputedStyle(c).display !== 'none'])"
    )
    above = """[...document.querySelectorAll(".cross")].map((cross) =>
      [...document.querySelectorAll("#nodes, #names")].every((layer) =>
        cross.compareDocumentPosition(layer) & Node.DOCUMENT_POSITION_FOLLOWING))"""
    assert run.page.evaluate(above) == [True, True]
    outside = """[...document.querySelectorAll(".cross")].map((cross) => {
      const [at, node] = [cross.getBBox(), document.querySelector("#nodes circle")];
      return at.width / 2 > 1.2 * node.getAttribute("r"); })"""
    assert run.page.evaluate(outside) == [True, True], "its arms reach beyond the node"
    assert "crashed or hung" in run.page.evaluate(KEY_COLOURS)
    for step in (1, 2):
        run.move_to(step)
        assert sorted(run.page.evaluate(shown)) == [["1", True], ["2", step == 2]]


GATHER = "star:4 gather balanced-tree source=2134"


@pytest.mark.parametrize(("scenario", "word"), [(STAR, "source"), (GATHER, "target")])
def test_the_source_is_filled_and_in_the_legend(scenario: str, word: str, show: Show) -> None:
    run = show(scenario)
    source = parse_topology("star:4").rank(str(fields(scenario)["source"]))
    for mode in ("light", "dark"):
        run.page.prefer(prefers_color_scheme=mode)
        run.page.open(run.report)
        colour = run.page.evaluate(KEY_COLOURS)[word]
        for step in (None, 1, run.last):
            if step:
                run.move_to(step)
            drawn = run.page.evaluate(COLOURED)
            assert [rank for rank, fill in enumerate(drawn) if fill == colour] == [source]


# --- small screens ---------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize(
    "scenario",
    [
        *BROADCASTS,
        "star:5 broadcast greedy-tree source=12345 fault=crash:21345@2",
        "hypercube:6 broadcast sbt source=000000 messages=9",
        CYCLE,
        ELECTIONS["right and split"],
        "star:7 broadcast bfs-tree",
    ],
)
def test_letters_in_figures_are_legible_on_a_phone(scenario: str, show: Show) -> None:
    run = show(scenario)
    for width in (390, 1400):
        run.page.resize(width)
        run.page.open(run.report)
        letters = run.page.evaluate(LETTERS)
        assert len(letters) > 20
        assert [text for font, box, text in letters if width == 390 and (font < 9 or box < 9)] == []
        assert run.page.evaluate(CLIPPED) == []
        assert run.page.evaluate("document.documentElement.scrollWidth") <= width
