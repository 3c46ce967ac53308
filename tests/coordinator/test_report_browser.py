"""Reports in a browser: the slider is moved, and what is drawn then is what the journal says of that step."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from coordinator.report.html import write_report
from tests.browser import Browser, find_chromium
from tests.support import run_journal

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no Chromium here (Debian, Ubuntu: apt install chromium; or set CHROMIUM)"
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
"""(nearest node of its beginning, of its end) of every link that is drawn in the colours of traffic."""

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
    """The browser without what earlier pages told, and in light colours; a page that complains fails its test."""
    browser.events.clear()
    browser.prefer(prefers_color_scheme="light")
    yield browser
    assert browser.complaints() == []


def reported(folder: Path, **scenario: object) -> tuple[Path, pl.DataFrame]:
    """A run's report and journal."""
    result, journal = run_journal(folder / "run", **scenario)
    write_report(result.path)
    return result.path / "report.html", journal


def links_of(journal: pl.DataFrame, step: int) -> set[tuple[int, int]]:
    return {(sender, receiver) for sender, receiver in journal.filter(step=step).select("sender", "receiver").rows()}


def receivers_until(journal: pl.DataFrame, step: int) -> set[int]:
    return set(journal.filter((pl.col("step") <= step) & (pl.col("outcome") == "first"))["receiver"])


def move_to(page: Browser, step: int) -> None:
    """By the keyboard: to the beginning, and on, one step a press."""
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
def test_the_slider_shows_what_the_journal_says_of_a_step(name: str, page: Browser, tmp_path: Path) -> None:
    path, journal = reported(tmp_path, **BROADCASTS[name])
    page.open(path)
    assert page.evaluate("document.getElementById('now').textContent").startswith("whole run")
    whole = page.evaluate(DRAWN_LINKS)
    assert len(whole) == len(journal)
    for step in range(1, int(journal["step"].max()) + 1):  # type: ignore[arg-type]
        move_to(page, step)
        assert sorted(map(tuple, page.evaluate(DRAWN_LINKS))) == sorted(links_of(journal, step))
        assert set(page.evaluate(FILLED)) == receivers_until(journal, step)
        said = page.evaluate("document.getElementById('now').textContent")
        assert said.startswith(f"step {step} of ")
    page.click("#whole")
    assert page.evaluate(DRAWN_LINKS) == whole


def test_a_step_can_be_linked_to_and_played_from(page: Browser, tmp_path: Path) -> None:
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


def test_a_crash_is_crossed_out_from_its_step_on(page: Browser, tmp_path: Path) -> None:
    path, _ = reported(tmp_path, **BROADCASTS["star"], fault=["crash:4231@2"])
    page.open(path)
    shown = "[...document.querySelectorAll('.cross')].map((c) => getComputedStyle(c).display !== 'none')"
    move_to(page, 1)
    assert page.evaluate(shown) == [False]
    page.press("ArrowRight", ARROWS["ArrowRight"])
    assert page.evaluate(shown) == [True]


def test_dark_light_and_print(page: Browser, tmp_path: Path) -> None:
    """Text is told from its ground in each: their lightness differs by at least a half."""
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


def test_a_report_of_thousands_of_nodes_stays_small_and_works(page: Browser, tmp_path: Path) -> None:
    """Under 10 MB and a few thousand elements; how fast it opens, `python -m tests.browser` tells."""
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
