"""The index of runs and its pictures: what they show follows from the tables of the runs, in a browser too."""

import json
import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from coordinator.history.run_index import read_runs, write_index
from coordinator.reports.data import read_run
from coordinator.reports.index_page import index_page
from coordinator.reports.scene.nodes import lacking
from coordinator.reports.thumbnail import COLOURS, FAULTY, IDLE, MISSING
from tests.helpers.browser import Browser
from tests.helpers.support import run_and_draw

DOTS = re.compile(r'<path stroke="(#\w+)" stroke-width="[\d.]+" d="((?:M[\d.]+ [\d.]+h0)+)"/>')
BROADCAST = {"collective": "broadcast", "algorithm": "greedy-tree"}


def dots(path: Path) -> dict[str, int]:
    """Return the number of dots of each colour."""
    return {colour: shape.count("M") for colour, shape in DOTS.findall((path / "thumbnail.svg").read_text())}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three runs."""
    root = tmp_path_factory.mktemp("runs")
    run_and_draw(root / "faults", topology="star:4", fault=["crash:2134@2"], **BROADCAST)
    run_and_draw(root / "none", topology="star:5", **BROADCAST)
    run_and_draw(root / "cut", topology="star:3", step_limit=1, **BROADCAST)
    return root


def test_a_dot_has_the_colour_of_its_node(runs: Path) -> None:
    nodes = pl.read_parquet(runs / "faults" / "nodes.parquet")
    faulty = nodes.filter(pl.col("state") != "alive").height
    missing = nodes.filter((pl.col("state") == "alive") & (pl.col("received") < pl.col("expected"))).height
    found = dots(runs / "faults")
    assert sum(found.values()) == 24
    assert (found[COLOURS[FAULTY]], found[COLOURS[MISSING]], found[COLOURS[IDLE]]) == (faulty, missing, 1) == (1, 10, 1)
    # Without faults: the source, and of the others as many of one colour as were done in one step (depth of the tree).
    found = dots(runs / "none")
    done = pl.read_parquet(runs / "none" / "nodes.parquet")["last_step"].drop_nulls().value_counts()["count"]
    assert sorted(found.values()) == sorted([1, *done])


def test_a_node_that_lacks_a_segment_is_not_done(tmp_path: Path) -> None:
    values = {
        "topology": "star:4",
        "collective": "broadcast",
        "algorithm": "edt",
        "segments": 3,
        "fault": ["crash:4132@3"],
    }
    path = run_and_draw(tmp_path / "run", **values).path
    summary = json.loads((path / "summary.json").read_text())
    assert (
        dots(path)[COLOURS[MISSING]]
        == summary["cut_off_count"]
        == summary["expected_deliveries"] - summary["deliveries"]
        > 0
    )
    # Also where the summary does not list every node.
    data = read_run(path)
    data.summary["cut_off"] = []
    found = lacking(data)
    assert found is not None
    assert found.sum() == summary["cut_off_count"]


def test_a_picture_is_small(tmp_path: Path) -> None:
    result = run_and_draw(tmp_path / "large", topology="hypercube:12", collective="broadcast", algorithm="sbt")
    assert 10_000 < (result.path / "thumbnail.svg").stat().st_size < 60_000


@pytest.mark.browser
def test_the_page_in_a_browser(page: Browser, runs: Path, tmp_path: Path) -> None:
    copied = tmp_path / "a & <b>" / "runs"
    shutil.copytree(runs, copied)
    index = write_index(copied, index_page)
    for width, theme in ((1000, "light"), (360, "dark")):
        page.resize(width)
        page.prefer(prefers_color_scheme=theme)
        page.open(index)
        if width > 640:  # a small screen has no room for pictures
            page.wait_until("[...document.images].every((image) => image.complete && image.naturalWidth)")
        assert page.evaluate("document.images.length") == 3
        assert page.evaluate("document.documentElement.scrollWidth") == width
    visible = "[...document.querySelectorAll('.runs td.run a')].map((link) => link.textContent)"
    assert len(page.evaluate(visible)) == 3
    page.evaluate("document.getElementById('filter').focus()")
    page.call("Input.insertText", text="Star:5  HOLDS")
    assert page.evaluate(visible) == ["star:5 broadcast by greedy-tree"]
    assert page.evaluate("document.getElementById('shown').textContent") == "1 of 3"
    # The link leads to the report.
    page.open(page.evaluate("document.querySelector('.runs td.run a').href"))
    assert "S_5" in page.evaluate("document.title")


@pytest.mark.browser
def test_runs_are_sorted_grouped_and_compared(page: Browser, runs: Path) -> None:
    entries = {entry.topology: entry for entry in read_runs(runs)}
    page.resize(1000)
    page.open(write_index(runs, index_page))
    networks = "[...document.querySelectorAll('.runs td.run a')].map((link) => link.textContent.split(' ')[0])"

    page.click("[data-key=packets] button")
    assert page.evaluate(networks) == sorted(entries, key=lambda name: entries[name].packets or 0, reverse=True)
    page.click("[data-key=packets] button")
    assert page.evaluate(networks) == sorted(entries, key=lambda name: entries[name].packets or 0)
    assert page.evaluate("document.querySelector('[data-key=packets]').getAttribute('aria-sort')") == "ascending"

    page.evaluate(
        "(() => { const group = document.getElementById('group'); group.value = 'outcome';"
        "group.dispatchEvent(new Event('change')); })()"
    )
    headings = page.evaluate("[...document.querySelectorAll('tr.group')].map((row) => row.textContent)")
    assert sorted(headings) == ["holds: 2 runs, 2 hold", "undecided: 1 run, 0 hold"]

    tick = "document.querySelectorAll('.tick input')[%d].click()"
    assert page.evaluate("document.getElementById('comparison').hidden")
    page.evaluate(tick % 0)
    page.evaluate(tick % 1)
    assert not page.evaluate("document.getElementById('comparison').hidden")
    rows = page.evaluate(
        "[...document.getElementById('differences').rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    differences = {name: (one, other) for name, one, other in rows}
    one, other = differences["network"]
    assert differences["steps"] == (str(entries[one].steps), str(entries[other].steps))
    assert "seed" not in differences
    page.wait_until("[...document.querySelectorAll('#frames iframe')].every((frame) => frame.src.endsWith('#network'))")
    # A third run takes the place of the first.
    page.evaluate(tick % 2)
    assert page.evaluate("[...document.querySelectorAll('.tick input')].map((box) => box.checked)") == [
        False,
        True,
        True,
    ]
    assert page.complaints() == []
