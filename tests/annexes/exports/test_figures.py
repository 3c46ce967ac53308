"""The figures of a run for papers: their numbers are those of the run, and LaTeX accepts them."""

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pypdf
import pytest

from coordinator.annexes.exports.figures import figures_of_run
from coordinator.reports.data import read_run
from coordinator.reports.pictures import Picture
from coordinator.reports.plot import Mode
from tests.helpers.command_line import Call, fields
from tests.helpers.support import needs_png, run_scenario

SCENARIOS = {
    "star:4 broadcast edt redundancy=3 segments=3 fault=crash:4132@2 fault=byzantine:2134": {
        "map",
        "trees",
        "space-time",
    },
    "star:3 allgather edt-dfs": {"map", "space-time", "ports", "loads"},
    "hypercube:3 broadcast sbt messages=6 clock=timed startup=1ms per_byte=0 fault=crash:011@3ms": {"served", "trees"},
    "hypercube:3 allreduce recursive-doubling values=float32": {"additions", "delivered"},
    "ej:2+3 broadcast improved": {"map", "trees", "steps-sending", "steps-receiving"},
    "hypercube:3 gather sbt": {
        "map",
        "links",
        "loads",
        "steps-active",
        "steps-free",
        "steps-max-link-segments",
        "steps-packets",
    },
}
"""Every figure is named in one of them."""


@pytest.fixture(scope="module", params=SCENARIOS, ids=lambda scenario: "-".join(scenario.split()[:3]))
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Provide a scenario and its run directory."""
    return request.param, run_scenario(tmp_path_factory.mktemp("run") / "run", **fields(request.param)).path


@pytest.fixture(scope="module")
def drawn(stored: tuple[str, Path]) -> Mapping[str, Picture]:
    """Provide the figures of a run."""
    return figures_of_run(read_run(stored[1]), command="coordinator export run --figures out")


def test_svg_and_latex_files_name_their_command(
    stored: tuple[str, Path], drawn: Mapping[str, Picture], tmp_path: Path
) -> None:
    assert SCENARIOS[stored[0]] <= drawn.keys()
    for name, picture in drawn.items():
        svg = picture.save(tmp_path / f"{name}.svg").read_text()
        about = next(each.text for each in ElementTree.fromstring(svg).iter() if each.tag.endswith("metadata"))
        made = "Made by: coordinator export run --figures out"
        assert made in (about or "")
        if picture.plot is not None:
            assert f"% {made}\n" in picture.save(tmp_path / f"{name}.tex").read_text()
        assert "var(" not in svg


@needs_png
def test_png_files_are_pictures_with_a_description(
    stored: tuple[str, Path], drawn: Mapping[str, Picture], tmp_path: Path
) -> None:
    images = pytest.importorskip("PIL.Image")
    assert drawn.keys() <= set().union(*SCENARIOS.values())
    for name in SCENARIOS[stored[0]]:
        image = images.open(drawn[name].save(tmp_path / f"{name}.png"))
        image.load()
        assert "Made by: coordinator export run --figures out" in image.info["Description"]


@needs_png
def test_pdf_files_have_size_texts_and_command(
    stored: tuple[str, Path], drawn: Mapping[str, Picture], tmp_path: Path
) -> None:
    """Read by another library: three quarters of a point for each unit, and every letter of the drawing as text."""
    for name in SCENARIOS[stored[0]]:
        path = drawn[name].save(tmp_path / f"{name}.pdf")
        assert path.read_bytes() == drawn[name].save(tmp_path / "again.pdf").read_bytes()
        read = pypdf.PdfReader(path)
        (page,) = read.pages
        root = ElementTree.fromstring(drawn[name].svg)
        *_, width, height = map(float, root.attrib["viewBox"].split())
        assert (float(page.mediabox.width), float(page.mediabox.height)) == pytest.approx((width * 0.75, height * 0.75))
        words = (text for each in root.iter() if each.tag.endswith("text") for text in each.itertext())
        assert Counter("".join("".join(words).split())) == Counter("".join(page.extract_text().split())), name
        assert read.metadata is not None
        assert "Made by: coordinator export run --figures out" in (read.metadata.subject or "")


def test_latex_has_balanced_groups_and_environments(drawn: Mapping[str, Picture]) -> None:
    for name, picture in drawn.items():
        if picture.plot is None:
            continue
        tex = re.sub(r"^%.*\n", "", "".join(picture.latex()), flags=re.MULTILINE)
        plain = re.sub(r"\\[{}]", "", tex)
        assert plain.count("{") == plain.count("}"), name
        begun, ended = (re.findall(rf"\\{word}{{(\w+)}}", tex) for word in ("begin", "end"))
        assert sorted(begun) == sorted(ended) == ["axis", "tikzpicture"], name
        used = set(re.findall(r"(?:draw=|fill=|text=|addplot\[)(bench-\w+)", tex))
        assert used <= set(re.findall(r"\\definecolor{([\w-]+)}", tex)), name


def test_numbers_of_charts_are_those_of_the_run(stored: tuple[str, Path], drawn: Mapping[str, Picture]) -> None:
    """The cells of ports and the bars of loads sum up to the packets and links of the tables."""
    steps, links = (pl.read_parquet(stored[1] / f"{name}.parquet") for name in ("steps", "links"))
    for name, picture in drawn.items():
        if name == "ports":
            assert _sum(picture, Mode.CELLS, 2) == steps["packets"].sum()
            tex = "".join(picture.latex())
            rows = [line.split() for line in tex.splitlines() if re.fullmatch(r"\d+ \d+ (nan|[\d.e+]+)", line)]
            assert sum(float(row[2]) for row in rows if row[2] != "nan") == steps["packets"].sum()
        if name == "loads":
            idle = json.loads((stored[1] / "summary.json").read_text())["links_opened"] * 2 - len(links)
            assert _sum(picture, Mode.BARS, 1) in (len(links), len(links) + idle)
        if name == "steps-packets":
            assert _sum(picture, Mode.BARS, 1) == steps["packets"].sum()
    if "space-time" in drawn:
        plot = drawn["space-time"].plot
        assert plot is not None
        packets = sum(len(each.points) for each in plot.series if each.mode is Mode.STROKES and each.name != "fault")
        assert packets == steps["packets"].sum()


def _sum(picture: Picture, mode: Mode, column: int) -> float:
    assert picture.plot is not None
    return sum(point[column] for series in picture.plot.series if series.mode is mode for point in series.points)


@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_pdflatex_compiles_all_figures(stored: tuple[str, Path], call: Call) -> None:
    assert call("export --figures out", stored[1]).status == 0
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "figures.tex"]
    done = subprocess.run(command, cwd="out", capture_output=True, check=False, timeout=180)
    assert done.returncode == 0, done.stdout[-2000:].decode(errors="replace")


@needs_png
def test_maps_show_a_step(call: Call, tmp_path: Path) -> None:
    path = run_scenario(Path("run"), **fields("star:3 broadcast edt")).path
    assert call("export --figures one --step 3 --json", path).data == {"written": {"figures": "one/figures.tex"}}
    about = pypdf.PdfReader(tmp_path / "one" / "map-step-3.pdf").metadata
    assert about is not None
    assert (about.title or "").startswith("permutation star graph S_3: step 3: ")
    assert f"coordinator export figures {path} one --step 3" in (about.subject or "")
    assert "{map-step-3.pdf}" in (tmp_path / "one" / "figures.tex").read_text()
    refused = call("export --figures two --step 99", path)
    assert refused.status == 2
    assert "expected 1 to" in refused.err
    assert not Path("two").exists()


@needs_png
def test_campaigns_have_figures_too(call: Call, tmp_path: Path) -> None:
    flags = "campaign --topology star:4 --algorithm greedy-tree --faults nodes=1..2 --trials 20 --workers 1 --out study"
    assert call(flags).status == 0
    assert call("export study --figures figures --csv points.csv").status == 0
    points = pl.read_csv("points.csv")
    tex = (tmp_path / "figures" / "delivery-ratio-over-crashed-nodes.tex").read_text()
    assert "% Made by: coordinator export figures study figures\n" in tex
    first = points.filter(pl.col("figure").str.starts_with("Delivery")).row(0, named=True)
    assert f"\n{first['x']:.9g} {first['value']:.9g} " in tex
    assert (tmp_path / "figures" / "losses-under-nodes-2.svg").exists()
    assert call("export study --figures figures --step 2").status == 2


def test_networks_and_comparisons_are_written_with_their_command(call: Call) -> None:
    assert call("graph star:3 --picture net.svg").status == 0
    assert "coordinator graph star:3 --picture net.svg" in Path("net.svg").read_text()
    paths = [run_scenario(Path(name), **fields(f"star:3 broadcast {name}")).path for name in ("edt", "flood")]
    for suffix in (".svg", ".tex"):
        assert call(f"compare --csv --plot both{suffix}", *paths).status == 0
        assert "Made by: coordinator compare" in Path(f"both{suffix}").read_text()
    refused = call("graph star:4 --picture net.tex")
    assert refused.status == 2
    message = "expected a file name that ends in .svg, .png or .pdf; for LaTeX write a .pdf, and \\includegraphics it"
    assert message in refused.err.replace("\n", " ")
