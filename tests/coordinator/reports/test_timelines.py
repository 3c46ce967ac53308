"""Timelines of links against the journal."""

import re
from collections import Counter
from pathlib import Path

import polars as pl
import pytest

from coordinator.reports.data import read_run
from coordinator.reports.panels.base import Report
from coordinator.reports.panels.links import TIMELINES, TIPPED_CELLS, heat_map, links_panel
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import fields
from tests.helpers.scenarios import Case

TIP = re.compile(r"<title>(\S+) → (\S+), step (\d+): (\d+)</title>")


@pytest.mark.parametrize("scenario", ["hypercube:3 alltoall sbt", "hypercube:4 alltoall sbt", "hypercube:3 gather sbt"])
def test_timelines_of_links_count_the_segments_of_the_journal(scenario: str, tmp_path: Path) -> None:
    path = Case(scenario).stored(tmp_path / "run").path
    topology = parse_topology(str(fields(scenario)["topology"]))
    journal = pl.read_parquet(path / "journal.parquet")
    counts = Counter(journal.select("sender", "receiver", "step").iter_rows())
    totals = Counter(journal.select("sender", "receiver").iter_rows())
    shown = set(sorted(totals, key=lambda link: (-totals[link], link[0]))[:TIMELINES])
    busiest = sorted(totals.values(), reverse=True)[:TIMELINES]
    panel = str(links_panel(Report(read_run(path))))
    wide = panel.partition("chart full")[2].partition("chart full")[2].partition("</svg>")[0]
    found = {
        (topology.rank(sender), topology.rank(receiver), int(step)): int(count)
        for sender, receiver, step, count in TIP.findall(wide)
    }
    assert found
    assert found.items() <= counts.items()
    drawn = {(sender, receiver) for sender, receiver, _ in found}
    assert sorted((totals[link] for link in drawn), reverse=True) == busiest
    assert len(found) == sum(1 for sender, receiver, _ in counts if (sender, receiver) in drawn)
    if len(totals) <= TIMELINES:
        assert drawn == shown


def test_links_with_one_segment_a_step_are_not_drawn(tmp_path: Path) -> None:
    path = Case("star:4 broadcast edt segments=3").stored(tmp_path / "run").path
    assert pl.read_parquet(path / "journal.parquet").select("sender", "receiver", "step").is_unique().all()
    assert "Segments by" not in str(links_panel(Report(read_run(path))))


def test_heat_maps_of_many_cells_are_a_path_per_shade() -> None:
    """Every cell is there: the area of the paths is that of the cells with a value."""
    steps, rows = 115, 8
    table = [[(row * step) % 5 for step in range(steps)] for row in range(rows)]
    drawing = heat_map("Title", [f"row {row}" for row in range(rows)], table, steps).svg
    cells = sum(1 for row in table for value in row if value)
    assert cells > TIPPED_CELLS
    assert "<title>" not in drawing
    widths = [float(width) for width in re.findall(r"h([\d.]+)v", drawing)]
    left, right = (float(re.search(rf'data-{side}="([\d.]+)"', drawing)[1]) for side in ("left", "right"))  # type: ignore[index]
    assert sum(widths) == pytest.approx(cells * (right - left) / steps, rel=0.01)
