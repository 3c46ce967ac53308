"""The page of a campaign in a browser: its curves and tables against the tables of the campaign."""

import json
import re
from itertools import pairwise
from pathlib import Path

import polars as pl
import pytest

from coordinator.cli.invoke import main
from coordinator.reports.campaign_report import REACHED
from tests.helpers.browser import CLIPPED, LETTERS, Browser
from tests.helpers.command_line import Call

pytestmark = pytest.mark.browser

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


ROWS = "[...document.querySelectorAll('#figures tbody tr')].map((row) => [...row.children].map((cell) => cell.textContent))"


@pytest.mark.parametrize("width", [1400, 1100, 800, 390])
def test_campaign_page_fits_the_screen_and_shows_its_table(width: int, campaign: Path, page: Browser) -> None:
    page.resize(width)
    page.open(campaign / "campaign.html")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(CLIPPED) == []
    assert page.evaluate("document.querySelector('thead').getBoundingClientRect().height") < 60
    if width == 390:
        assert [text for font, box, text in page.evaluate(LETTERS) if font < 9 or box < 9] == []
        text = page.evaluate("getComputedStyle(document.querySelector('td'), '::before').content")
        assert text == '"topology"', "without a header row, each cell shows its column name"
    head = page.evaluate("document.querySelector('.lead').textContent")
    assert (
        "algorithm: bfs-tree; redundancy: 1; source: 1234, 0000; messages: 1 message of 64 bytes; segments: 1" in head
    )
    title = page.evaluate("document.querySelector('h1').innerHTML")
    assert "S<sub>4</sub>" in title
    assert "Q<sub>4</sub>" in title
    names = page.evaluate("[...document.querySelectorAll('#figures th')].map((cell) => cell.textContent)")
    assert names[:2] == ["topology", "faults"]
    assert {"theory", "promised", "delivery ratio", "guaranteed", "verdict"} <= set(names)
    table = pl.read_csv(campaign / "table.csv")
    for shown, row in zip(page.evaluate(ROWS), table.iter_rows(named=True), strict=True):
        cells = dict(zip(names, shown, strict=True))
        assert (cells["topology"], cells["faults"]) == (row["topology"], row["faults"])
        for column, prefix in (("delivery_ratio", "ratio"), ("guaranteed", "guaranteed")):
            numbers = [float(number) for number in re.findall(r"[0-9.]+", cells[column.replace("_", " ")])]
            ends = [row[column], row[f"{prefix}_low"], row[f"{prefix}_high"]]
            ends += [row[name] for name in ("ratio_betting_low", "ratio_betting_high") if prefix == "ratio"]
            assert numbers == pytest.approx(ends if ends[1] < ends[2] else ends[:1], abs=5.1e-5)
        for column in ("theory", "promised", "lost"):
            number = None if cells[column] == "-" else float(cells[column])
            assert number == pytest.approx(row[column], abs=6e-4)
        assert not any(re.search(r"\.\d{5}", text) for text in shown)


# --- curves ------------------------------------------------------------------------------------------------------------

MARKS = """
[...document.querySelectorAll(".live-chart")].map((box) => [box.querySelector(".live-title").textContent,
  [...box.querySelectorAll(".line-of")].map((line) => [line.dataset.name, [...line.querySelectorAll(".mark")].map((mark) => {
    const at = mark.getBBox();
    return [at.x + at.width / 2, at.y + at.height / 2];
  })])])
"""
"""(title, [(series, [(x, y) of every mark])]) of every chart."""
GRID = """
[...document.querySelectorAll(".live-chart")][AT].querySelectorAll("text.end").values().toArray()
  .map((tick) => [tick.textContent, parseFloat(tick.getAttribute("y")) - 4])
"""
SHOWN = """
[...document.querySelectorAll("figure > .chart, .live-chart")].filter((element) => element.getClientRects().length)
  .map((element) => element.getAttribute("class"))
"""
"""The classes of all visible pictures."""
OUTPUT = "document.querySelector('.live-chart output').textContent"
FIRST = "document.querySelector('.live-chart .live')"


def table(campaign: Path, topology: str) -> pl.DataFrame:
    """Return the rows of a network under 0 to 3 crashed nodes."""
    rows = pl.read_csv(campaign / "table.csv")
    return rows.filter(pl.col("faults").str.contains(r"^nodes=\d$"), topology=topology)


def heights(page: Browser, chart: int) -> dict[str, float]:
    """Return the pixels of the ticks of a chart, by their text."""
    return dict(page.evaluate(GRID.replace("AT", str(chart))))


def test_marks_of_curves_stand_where_the_numbers_are(campaign: Path, page: Browser) -> None:
    page.open(campaign / "campaign.html")
    charts = dict(page.evaluate(MARKS))
    for number, (title, column) in enumerate(
        {"Delivery ratio": "delivery_ratio", "Guaranteed delivery": "guaranteed"}.items()
    ):
        drawn = dict(charts[f"{title} over crashed nodes"])
        ticks = heights(page, number)
        none, whole = ticks["0 %"], ticks["100 %"]
        beside = drawn.pop(REACHED, None)
        assert (beside is not None) == (column == "delivery_ratio")
        if beside is not None:
            shares = [(none - y) / (none - whole) for _, y in beside]
            assert shares == pytest.approx(table(campaign, "star:4")["reachable"].to_list(), abs=0.01)
        assert list(drawn) == ["star:4", "hypercube:4"]
        for name, marks in drawn.items():
            shares = [(none - y) / (none - whole) for _, y in marks]
            assert shares == pytest.approx(table(campaign, name)[column].to_list(), abs=0.01)
            steps = [after - before for (before, _), (after, _) in pairwise(marks)]
            assert steps == pytest.approx([steps[0]] * 3, abs=1)


def test_log_scale_shows_what_is_lost(campaign: Path, page: Browser) -> None:
    page.open(campaign / "campaign.html")
    page.click(".live-chart button.log")
    ticks = heights(page, 0)
    decade = ticks["100 % lost"] - ticks["10 % lost"]
    assert decade > 20
    assert ticks["10 % lost"] - ticks["0 % lost"] >= decade - 1
    for name, marks in dict(page.evaluate(MARKS))["Delivery ratio over crashed nodes"]:
        ratios = table(campaign, "star:4")["reachable"] if name == REACHED else table(campaign, name)["delivery_ratio"]
        for (_, y), ratio in zip(marks, ratios, strict=True):
            lost = 10 ** ((y - ticks["100 % lost"]) / decade) if ratio < 1 else 0
            assert lost == pytest.approx(1 - ratio, rel=0.03)
            assert ratio < 1 or y == pytest.approx(ticks["0 % lost"], abs=1)
    assert page.evaluate(CLIPPED) == []


def test_points_tell_their_values_to_pointer_and_keys(campaign: Path, page: Browser) -> None:
    page.open(campaign / "campaign.html")
    page.evaluate(f"{FIRST}.focus()")
    for key, code in (("ArrowRight", 39), ("ArrowRight", 39), ("ArrowDown", 40)):
        page.press(key, code)
    row = table(campaign, "hypercube:4").row(2, named=True)
    shares = [float(number) / 100 for number in re.findall(r"([0-9.]+) %", page.evaluate(OUTPUT))]
    expected = [row[key] for key in ("delivery_ratio", "ratio_low", "ratio_high", "theory")]
    assert page.evaluate(OUTPUT).startswith("hypercube:4, 2 crashed nodes: ")
    assert shares == pytest.approx(expected, abs=6e-5)
    page.press("Escape", 27)
    assert page.evaluate(OUTPUT) == ""
    # After its line, a series has the mark of 0 faults, and then a bar and a mark for each number of faults.
    page.click(".live-chart .line-of .mark:nth-of-type(6)")
    assert page.evaluate(OUTPUT).startswith("star:4, 2 crashed nodes: ")


def test_series_can_be_left_out(campaign: Path, page: Browser) -> None:
    page.open(campaign / "campaign.html")
    page.click(".live-chart button.series")
    lines = dict(page.evaluate(MARKS))["Delivery ratio over crashed nodes"]
    assert [name for name, _ in lines] == ["hypercube:4", REACHED]
    assert page.evaluate("document.querySelector('button.series').getAttribute('aria-pressed')") == "false"
    page.click(".live-chart button.series")
    assert len(dict(page.evaluate(MARKS))["Delivery ratio over crashed nodes"]) == 3


def test_losses_are_those_of_the_trials(campaign: Path, page: Browser) -> None:
    page.open(campaign / "campaign.html")
    trials = pl.read_parquet(campaign / "trials.parquet").filter(pl.col("undecided").is_null(), point="nodes=2")
    lost = trials.with_columns(lost=pl.col("unserved").str.split(" ").list.len() * (pl.col("unserved") != ""))
    data = json.loads(page.evaluate("document.getElementById('data').textContent"))
    (chart,) = [chart for chart in data if chart["title"] == "Losses under nodes=2"]
    assert [series["name"] for series in chart["series"]] == ["star:4", "hypercube:4"]
    for series in chart["series"]:
        counts = lost.filter(topology=series["name"])["lost"]
        assert series["points"] == [
            [least, pytest.approx((counts >= least).mean(), abs=1e-8)]
            for least in range(1, int(counts.max()) + 1)  # type: ignore[arg-type]
        ]


def test_worst_trials_are_repeated_by_their_commands(campaign: Path, page: Browser, call: Call) -> None:
    page.open(campaign / "campaign.html")
    commands = page.evaluate("[...document.querySelectorAll('#worst code')].map((code) => code.textContent)")
    trials = pl.read_parquet(campaign / "trials.parquet").filter(pl.col("undecided").is_null())
    lost = trials.with_columns(lost=pl.col("unserved").str.split(" ").list.len() * (pl.col("unserved") != ""))
    assert len(commands) == len(set(commands)) == 10
    for command in commands[::9]:
        summary = call(command.removeprefix("coordinator "), "--json").data
        (known,) = lost.filter(journal_hash=summary["journal_hash"])["lost"].unique()
        assert known == summary["cut_off_count"]
        assert command != commands[0] or known == lost["lost"].max()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_is_small_and_complete_and_fills_a_phone(scheme: str, campaign: Path, page: Browser) -> None:
    path = campaign / "campaign.html"
    assert path.stat().st_size < 1_000_000
    assert "http" not in path.read_text().replace("http://www.w3.org/2000/svg", "").replace("http-equiv", "")
    page.prefer(prefers_color_scheme=scheme)
    page.resize(390)
    page.open(path)
    assert page.evaluate(f"{FIRST}.getBoundingClientRect().width") >= 0.8 * 390
    ink, paper = page.evaluate(
        f"[getComputedStyle({FIRST}.querySelector('text')).fill, getComputedStyle(document.documentElement).backgroundColor]"
    )
    dark = sum(map(int, re.findall(r"\d+", paper))) < sum(map(int, re.findall(r"\d+", ink)))
    assert dark == (scheme == "dark")


def test_paper_and_pages_without_scripts_show_fixed_pictures(campaign: Path, page: Browser) -> None:
    page.open(campaign / "campaign.html")
    assert set(page.evaluate(SHOWN)) == {"live-chart"}
    page.prefer("print")
    assert set(page.evaluate(SHOWN)) == {"chart full", "chart roomy"}
    page.prefer()
    page.evaluate("document.documentElement.classList.remove('scripted')")
    assert set(page.evaluate(SHOWN)) == {"chart full", "chart roomy"}
