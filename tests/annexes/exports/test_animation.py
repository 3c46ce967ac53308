"""The animated picture of a run: each picture is the map of the report at that step."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from coordinator.annexes.exports.animation import map_at, write_gif
from coordinator.reports.data import read_run
from coordinator.reports.panels.base import Report
from tests.helpers.browser import Browser
from tests.helpers.command_line import Call, fields
from tests.helpers.support import needs_png, run_and_draw, run_scenario

SCENARIOS = [
    "star:4 broadcast edt source=2134 segments=3 fault=crash:4132@2",
    "ej:2+3 broadcast improved",
    "star:3 allgather edt-dfs",
    "star:4 broadcast edt redundancy=3 fault=byzantine:2134 fault=byzantine:3214",
    "star:3 allgather edt-dfs redundancy=2 fault=byzantine:213",
]
PAGE = """
(() => {
  const of = (id) => document.getElementById(id).getAttribute("d").split("\\n").filter(Boolean);
  const channels = (colour) => (colour.startsWith("color(") ? colour.match(/[\\d.]+/g).slice(0, 3).map((part) => 255 * part)
    : colour.match(/[\\d.]+/g).slice(0, 3).map(Number));
  return {
    links: ["flow0", "flow1", "flow2", "lost"].map(of),
    fills: [...document.querySelectorAll("#nodes circle")].map((c) => channels(getComputedStyle(c).fill)),
    pies: [...document.querySelectorAll("#progress path")].map((path) => path.getAttribute("d").split(/[zM]+/).length),
    crosses: [...document.querySelectorAll(".cross")].filter((cross) => getComputedStyle(cross).display !== "none").length,
    text: document.getElementById("now").textContent,
  };
})()
"""
LINKS = ("flow0", "flow1", "flow2", "lost")


def channels(colour: str) -> list[int]:
    if len(colour) == 4:
        colour = "#" + "".join(2 * digit for digit in colour[1:])
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


@pytest.mark.browser
@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_pictures_are_those_of_the_page(scenario: str, page: Browser, tmp_path: Path) -> None:
    path = run_and_draw(tmp_path / "run", **fields(scenario)).path
    picture = Report(read_run(path)).picture
    assert picture is not None
    page.open(path / "report.html")
    for frame in range(picture.frames):
        page.evaluate(
            f"(() => {{ const slider = document.getElementById('slider'); slider.value = {frame + 1}; "
            "slider.dispatchEvent(new Event('input')); })()"
        )
        shown = page.evaluate(PAGE)
        root = ElementTree.fromstring(map_at(picture, frame))
        named = {each.get("id"): each for each in root.iter() if each.get("id")}
        drawn = [re.split(r"\s(?=M)", named[name].get("d") or "") for name in LINKS]
        assert [sorted(filter(None, each)) for each in drawn] == [sorted(each) for each in shown["links"]]
        fills = [channels(circle.attrib["fill"]) for circle in named["nodes"]]
        differences = [
            abs(a - b)
            for one, other in zip(fills, shown["fills"], strict=True)
            for a, b in zip(one, other, strict=True)
        ]
        assert max(differences) <= 1
        if "progress" in named:
            pies = [len(re.split("[zM]+", each.get("d", ""))) for each in named["progress"]]
            assert pies == shown["pies"]
        crosses = [each for each in root.iter() if each.get("class") == "cross" and each.get("display") != "none"]
        assert len(crosses) == shown["crosses"]
        text = next(each for each in reversed(list(root.iter())) if each.tag.endswith("text")).text
        assert text is not None
        assert shown["text"].startswith(text.rstrip("…"))


@needs_png
def test_export_writes_an_animation(tmp_path: Path, call: Call) -> None:
    image = pytest.importorskip("PIL.Image")
    run_scenario(tmp_path / "run", **fields("star:3 broadcast greedy-tree"))
    refused = call("export", tmp_path / "run", "--gif", tmp_path / "no" / "such.gif")
    assert refused.status == 2
    assert "cannot be written: No such file or directory" in refused.err
    ended = call("export", tmp_path / "run", "--gif", tmp_path / "run.gif")
    assert (ended.status, ended.out) == (0, f"wrote gif: {tmp_path / 'run.gif'}\n")
    with image.open(tmp_path / "run.gif") as opened:
        steps = read_run(tmp_path / "run").get("steps")
        assert opened.n_frames == steps
        durations, colours = [], []
        for frame in range(steps):
            opened.seek(frame)
            durations.append(opened.info["duration"])
            colours.append(opened.convert("RGB").getcolors(1 << 20))
    assert durations == [700] * (steps - 1) + [2500]
    assert all(len(found) > 5 for found in colours)
    assert len({str(sorted(found)) for found in colours}) == steps, "no two pictures are alike"


@pytest.mark.parametrize("kind", ["cells", "levels"])
def test_large_maps_have_pictures(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.reports.maps.link_map.NODES_WITH_LINKS", 5)
    scenario = {"cells": "star:3 broadcast greedy-tree", "levels": "star:3 allgather edt-dfs"}[kind]
    picture = Report(read_run(run_scenario(tmp_path / "run", **fields(scenario)).path)).picture
    assert picture is not None
    assert picture.script["kind"] == kind
    documents = [map_at(picture, frame) for frame in range(picture.frames)]
    assert len(set(documents)) == picture.frames
    assert not any("var(" in document for document in documents)
    if kind == "cells":
        faint = [document.count('opacity="0.13"') for document in documents]
        assert faint == sorted(faint, reverse=True)
        assert faint[-1] == 0


def test_what_cannot_be_drawn_is_refused(tmp_path: Path, call: Call) -> None:
    path = run_scenario(tmp_path / "run", **fields("star:3 broadcast greedy-tree")).path
    ended = call("export --topology star:3 --gif a.gif")
    assert (ended.status, ended.err) == (
        2,
        "coordinator: invalid gif 'a.gif': only a run has steps to show: give the run\n",
    )
    (path / "journal.parquet").unlink()
    (path / "nodes.parquet").unlink()
    data = read_run(path)
    with pytest.raises(Exception, match=r"the run has no steps to show: .*journal\.parquet is missing"):
        write_gif(data, tmp_path / "a.gif")
    assert not (tmp_path / "a.gif").exists()
