"""Comparisons of runs, and the commands that compare and report."""

import re
import shutil
from pathlib import Path

import pytest

from coordinator.reports.charts import grouped_bars
from coordinator.reports.pictures import Picture
from coordinator.reports.theme import standalone
from tests.helpers.command_line import Call
from tests.helpers.report_runs import (
    CUBE,
    STAR4,
    Runs,
)
from tests.helpers.support import needs_png


@needs_png
def test_png_contains_text(runs: Runs, call: Call) -> None:
    figure = standalone(grouped_bars("Compared", {"steps": [4]}, ["one"]).svg)
    Picture(figure, "with").save("with.png")
    Picture(re.sub("<text.*?</text>", "", figure), "without").save("without.png")
    assert Path("with.png").read_bytes() != Path("without.png").read_bytes()
    call("compare --csv --plot both.png", runs(STAR4).path, runs(CUBE).path)
    assert Path("both.png").read_bytes().startswith(b"\x89PNG")


def test_report_command(runs: Runs, call: Call) -> None:
    run = runs(STAR4)
    shutil.copytree(run.path, "runs/mine/one")
    Path("runs/mine/latest").symlink_to("one")
    for name in ("mine", "runs/mine", "runs/mine/latest"):
        ended = call("report", name)
        assert ended.status == 0
        assert ended.out.strip().endswith("runs/mine/one/report.html")
    refused = call("report mine --out not/there.html")
    assert (refused.status, "invalid out" in refused.err, Path("not").exists()) == (2, True, False)


@pytest.mark.parametrize(
    "line",
    [
        "compare RUN",
        "compare RUN .",
        "compare RUN nothing",
        "compare RUN RUN --plot x.gif",
        "export RUN",
        "export RUN --topology star:4 --graphml x",
        "export RUN --goal /proc/nowhere/x",
    ],
)
def test_bad_arguments_are_rejected(runs: Runs, call: Call, line: str) -> None:
    assert call(line.replace("RUN", str(runs(STAR4).path))).status == 2
