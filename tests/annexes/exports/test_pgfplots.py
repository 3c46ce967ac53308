"""The curves of a campaign as CSV and as LaTeX."""

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from coordinator.annexes.exports.pgfplots import pgfplots
from coordinator.reports.campaign_report import REACHED
from tests.helpers.command_line import Call

CAMPAIGN = "campaign --topology star:4 --collective broadcast --vary algorithm=edt,greedy-tree --workers 1 --out out"
POINTS = "--faults nodes=0..2 --faults links=1 --trials 20"


def test_export_writes_the_points_of_all_curves(call: Call) -> None:
    assert call(f"{CAMPAIGN} {POINTS}").status == 0
    done = call("export out --csv points.csv --pgfplots curves.tex --json")
    assert done.status == 0
    assert done.data == {"written": {"pgfplots": "curves.tex", "csv": "points.csv"}}
    points, table = pl.read_csv("points.csv"), pl.read_csv("out/table.csv")
    assert points.equals(pl.read_csv("out/curves.csv"))
    shares = points.filter(pl.col("figure").str.contains("over crashed nodes|over links down"))
    assert len(shares.filter(pl.col("unit") == "share", pl.col("series") != REACHED)) == 2 * len(table)
    for measure, prefix, theory in (
        ("delivery_ratio", "ratio", "theory"),
        ("guaranteed", "guaranteed", "guaranteed_theory"),
    ):
        title = "Delivery ratio" if prefix == "ratio" else "Guaranteed delivery"
        here = shares.filter(pl.col("figure").str.starts_with(title), pl.col("series") != REACHED)
        rows = table.sort("algorithm", measure, "faults")
        for name, column in (
            ("value", measure),
            ("low", f"{prefix}_low"),
            ("high", f"{prefix}_high"),
            ("theory", theory),
        ):
            assert sorted(here[name]) == pytest.approx(sorted(rows[column]))
    text = Path("curves.tex").read_text()
    numbers = [tuple(map(float, line.split())) for line in text.splitlines() if re.fullmatch(r"[-0-9.e ]+", line)]
    predicted = points.filter(pl.col("theory").is_not_null())
    expected = [*points.select("x", "value").iter_rows(), *predicted.select("x", "theory").iter_rows()]
    drawn = sorted((x, value) for x, value, *_ in numbers)
    assert np.array(drawn) == pytest.approx(np.array(sorted(expected)))
    assert compiles(Path("curves.tex"))


def compiles(path: Path) -> bool:
    """Return whether pdflatex accepts a document; without pdflatex, whether all its groups and environments are closed."""
    if shutil.which("pdflatex") is None:
        text = re.sub(r"\\[{}]", "", path.read_text())
        begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", text) for word in ("begin", "end"))
        return text.count("{") == text.count("}") and sorted(begun) == sorted(ended)
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", path.name]
    done = subprocess.run(command, cwd=path.parent, capture_output=True, check=False, timeout=120)
    return done.returncode == 0


def test_names_with_special_characters_are_printed_as_they_are(tmp_path: Path) -> None:
    name = r"a_b & 50% #1 {x} ~ ^ \\ $ < >"
    row = {
        "figure": name,
        "x_label": name,
        "unit": "share",
        "series": name,
        "x": 1.0,
        "value": 0.5,
        "low": 0.25,
        "high": 0.75,
        "theory": None,
    }
    text = "".join(pgfplots([row]))
    assert "1 0.5 0.25 0.25" in text
    assert "only marks" not in text
    path = tmp_path / "special.tex"
    path.write_text(text)
    assert compiles(path)


def test_damaged_curves_are_refused(call: Call) -> None:
    Path("out").mkdir()
    for text in ("figure,series\na,b\n", "figure,x_label,series,x,value,low,high,theory\na,b,c,one,1,1,1,\n"):
        Path("out/curves.csv").write_text(text)
        done = call("export out --pgfplots x.tex")
        assert done.status == 2
        assert "its curves.csv cannot be read" in done.err
