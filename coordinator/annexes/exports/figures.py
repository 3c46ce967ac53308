"""The figures of a run for papers and slides: every chart and map of its report as SVG, PNG, PDF and LaTeX.

`FIGURES` lists them, beside the map; a figure that has nothing to show of a run is left out. Charts are also axes of
pgfplots. A document `figures.tex` shows all of them.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from itertools import chain
from pathlib import Path
from typing import Final

from coordinator.annexes import annex_function
from coordinator.annexes.exports import latex, paper_figures
from coordinator.annexes.exports.graph_formats import executed_trees
from coordinator.annexes.exports.space_time.panel import space_time_diagram
from coordinator.reports import network_svg
from coordinator.reports.chart import Chart, DrawChart
from coordinator.reports.data import RunData
from coordinator.reports.layout import WIDTH
from coordinator.reports.maps.base import NetworkMap
from coordinator.reports.maps.link_map import NODES_WITH_ARROWS
from coordinator.reports.maps.marks import SHAPES, LegendEntry
from coordinator.reports.panels.base import Report
from coordinator.reports.panels.delivery_times import served_chart
from coordinator.reports.panels.links import loads_chart, ports_chart, timelines_chart
from coordinator.reports.panels.steps import delivered_chart, step_charts
from coordinator.reports.panels.traffic import traffic_charts
from coordinator.reports.pictures import Picture, picture_of, write_lines
from coordinator.reports.theme import LIGHT, TREE_COLOURS, in_light_colours, standalone, viridis, without_media
from coordinator.scenario.command import run_command
from emunode.errors import ScenarioError
from emunode.terminal import plural

ROW: Final = 24
"""Height of an entry of a legend, in units of the map."""
SHADES: Final = 24
MOST_LETTERS: Final = 2000
"""Letters of a command that files name."""
MOST_TREES: Final = 12
COLUMNS: Final = 3
"""Trees side by side."""
DOCUMENT: Final = "figures.tex"
PREAMBLE: Final = (*latex.PREAMBLE, r"\usepackage{graphicx}")
LARGEST: Final = r"width=\linewidth, height=0.85\textheight, keepaspectratio"

# --- the figures of a run --------------------------------------------------------------------------------------------


def _map(report: Report, at: int | None) -> Iterator[tuple[str, Picture]]:
    """Yield the map at a position of the slider, or of the whole run."""
    if report.picture is not None:
        name = "map" if at is None else f"map-step-{_names(report.picture)[at].replace(' to ', '-')}"
        yield name, map_picture(report.picture, at)


def _trees(report: Report) -> Iterator[tuple[str, Picture]]:
    drawn = tree_picture(report)
    if drawn is not None:
        yield "trees", drawn


def _named(name: str, draw: Callable[[Report], Chart | None]) -> "Draw":
    def yield_it(report: Report) -> Iterator[tuple[str, Picture]]:
        chart = draw(report)
        if chart is not None:
            yield name, picture_of(chart)

    return yield_it


def _wide(draw: Callable[[Report], DrawChart | None]) -> Callable[[Report], Chart | None]:
    """Return a function that draws the wide form of a chart."""
    return lambda report: None if (chart := draw(report)) is None else chart(False)


def _steps(report: Report) -> Iterator[tuple[str, Picture]]:
    for column, chart in step_charts(report).items():
        yield f"steps-{column.replace('_', '-')}", picture_of(chart)


def _space_time(report: Report) -> Iterator[tuple[str, Picture]]:
    diagram = space_time_diagram(report)
    names = ("space-time", "space-time-achieved")
    for name, draw in zip(names, diagram.charts if diagram else (), strict=False):
        yield name, picture_of(draw(False))


def _traffic(report: Report) -> Iterator[tuple[str, Picture]]:
    for name, draw in zip(("traffic", "traffic-by-rule"), traffic_charts(report), strict=False):
        yield name, picture_of(draw(False))


def _additions(report: Report) -> Iterator[tuple[str, Picture]]:
    if not isinstance(report.data.get("distinct_trees"), int):  # of real numbers alone
        return
    drawn = annex_function("picture of additions")(report)
    if drawn is not None:
        yield "additions", Picture(standalone(drawn), "Order of the additions of the first element")


Draw = Callable[[Report], Iterator[tuple[str, Picture]]]
"""Yields the figures of a kind with their names."""
FIGURES: Final[Sequence[Draw]] = (
    _trees,
    _named("delivered", _wide(delivered_chart)),
    _steps,
    _named("served", _wide(served_chart)),
    _space_time,
    _named("ports", _wide(ports_chart)),
    _named("links", _wide(timelines_chart)),
    _named("loads", loads_chart),
    _traffic,
    _additions,
)


def figures_of_run(data: RunData, step: int | None = None, command: str | None = None) -> dict[str, Picture]:
    """Return the figures of a run by their names. With `step`, the map shows the run after that step.

    `command` is the command that writes them, which the files name. Raises ScenarioError (field `step`) if the run has no
    such step.
    """
    report = Report(data)
    at = None if step is None else _frame(report, step)
    about = [*([f"Made by: {command}"] if command else []), *_about(data)]
    drawn = chain(_map(report, at), *(draw(report) for draw in FIGURES))
    return {name: replace(each, about=[*(each.about or (each.title,)), *about]) for name, each in drawn}


def _about(data: RunData) -> Iterator[str]:
    """Yield what identifies a run: the command that repeats it, and the hash of its history."""
    if data.plan is not None:
        command = run_command(data.plan.scenario)
        yield f"Run: {command if len(command) <= MOST_LETTERS else command[:MOST_LETTERS] + ' ..'}"
    if data.get("journal_hash"):
        yield f"Journal hash: {data.get('journal_hash')}"


def _names(picture: NetworkMap) -> list[str]:
    names = picture.script["names"]
    assert isinstance(names, list)
    return names


def _frame(report: Report, step: int) -> int:
    """Return the position of the slider that shows a step."""
    last = report.picture.script["last"] if report.picture else []
    assert isinstance(last, list)
    if not last or not 1 <= step <= last[-1]:
        allowed = f"expected 1 to {last[-1]}" if last else "the run has no steps to show"
        raise ScenarioError("step", step, allowed)
    return next(at for at, end in enumerate(last) if step <= end)


# --- maps ------------------------------------------------------------------------------------------------------------


def map_picture(picture: NetworkMap, at: int | None) -> Picture:
    """Draw the map at a position of the slider, or of the whole run, above the legend of its symbols."""
    height = round(picture.layout.height)
    keys = [*picture.keys, *([LegendEntry("ramp", _ramp_words(picture))] if picture.ramp else [])]
    legend = "".join(_legend_row(key, height + ROW * (row + 1)) for row, key in enumerate(keys))
    whole = height + ROW * (len(keys) + 1)
    css = without_media(network_svg.CSS)
    svg = in_light_colours(
        f'<svg xmlns="http://www.w3.org/2000/svg" class="map" viewBox="0 0 {WIDTH:.0f} {whole}" '
        f'width="{WIDTH:.0f}" height="{whole}"><style>{css}text{{font-family:sans-serif}}</style>'
        f'<rect width="{WIDTH:.0f}" height="{whole}" fill="{LIGHT["paper"]}"/>{"".join(picture.body(at))}{legend}</svg>'
    )
    title = picture.scene.topology.title
    return Picture(svg, title, about=(f"{title}: {_sentence(picture, at)}",))


def _sentence(picture: NetworkMap, at: int | None) -> str:
    if at is None:
        return str(picture.script["whole"])
    texts = picture.script["texts"]
    assert isinstance(texts, list)
    return f"step {_names(picture)[at]}: {texts[at]}"


def _legend_row(key: LegendEntry, y: float) -> str:
    symbol = SHAPES.get(key.shape, "")
    if key.shape == "ramp":
        colours = (viridis(share / SHADES) for share in range(SHADES + 1))
        symbol = "".join(
            f'<rect x="{-10 + 4 * at}" y="-7" width="4.2" height="14" fill="{colour}"/>'
            for at, colour in enumerate(colours)
        )
    x = 140 if key.shape == "ramp" else 48
    words = f'<text x="{x}" y="{y:.0f}" dominant-baseline="central" font-size="15" fill="{LIGHT["ink"]}">'
    return f'<g transform="translate(24 {y:.0f})">{symbol}</g>{words}{escape(key.words)}</text>'


def _ramp_words(picture: NetworkMap) -> str:
    first, last = picture.scale or ("step 1", f"step {picture.scene.steps:,}")
    return f"from {first} to {last}"


# --- trees -----------------------------------------------------------------------------------------------------------


def tree_picture(report: Report) -> Picture | None:
    """Draw the trees on which packets went, beside one another; None where the links are not drawn, or not by trees."""
    data = report.data
    topology = data.topology
    if topology is None or topology.order > NODES_WITH_ARROWS or data.hops is None:
        return None
    arcs = executed_trees(data)
    trees = sorted({tree for used in arcs.values() for tree in used if tree >= 0})[:MOST_TREES]
    root = report.scene.source if report.scene else None
    if not trees or root is None:
        return None
    panels = []
    for tree in trees:
        colour = TREE_COLOURS[tree % len(TREE_COLOURS)]
        used = [arc for arc, by in arcs.items() if tree in by]
        panels.append(paper_figures.network_panel(f"tree {tree + 1}", topology, {colour: used}, ringed=(root,)))
    drawn = paper_figures.drawing("Trees", panels, columns=min(COLUMNS, len(panels)))
    css = without_media(network_svg.CSS) + paper_figures.CSS
    words = f"{topology.title}: {plural(len(trees), 'tree')} by which packets went"
    return Picture(_document(drawn, css), words)


def _document(drawn: str, css: str) -> str:
    """Return a drawing as an SVG document in light colours on paper."""
    head, _, rest = in_light_colours(drawn).partition(">")
    box = re.search(r'viewBox="0 0 (\d+) (\d+)"', head)
    assert box is not None
    size = f'width="{box[1]}" height="{box[2]}"'
    style = in_light_colours(f"<style>{css}text{{font-family:sans-serif}}</style>")
    return f'{head} xmlns="http://www.w3.org/2000/svg" {size}>{style}<rect {size} fill="{LIGHT["paper"]}"/>{rest}\n'


# --- files -----------------------------------------------------------------------------------------------------------


def write_figures(figures: Mapping[str, Picture], folder: Path) -> Path:
    """Write figures as `.svg`, `.png`, `.pdf` and, if charts, `.tex`, and a document with all; return the document.

    Raises ScenarioError (field `figures`) if there is no figure, PNG is not available, or the folder cannot be written.
    """
    if not figures:
        raise ScenarioError("figures", str(folder), "there is nothing to draw")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ScenarioError("figures", str(folder), f"cannot be written: {error.strerror}") from None
    for name, drawn in figures.items():
        for suffix in drawn.formats:
            drawn.save(folder / f"{name}{suffix}", field="figures")
    return write_lines(folder / DOCUMENT, document(figures), "figures")


def document(figures: Mapping[str, Picture]) -> Iterator[str]:
    """Yield a LaTeX document with every figure on a page of its own."""
    yield "% Compile with pdflatex. To use a figure in a paper, copy the preamble and its line.\n"
    yield "\\documentclass{article}\n\\usepackage[a4paper, margin=1.5cm]{geometry}\n" + "\n".join(PREAMBLE)
    yield "\n\\pagestyle{empty}\n\\begin{document}\n"
    for name, drawn in figures.items():
        words = latex.text(drawn.about[0] if drawn.about else name)
        line = f"\\includegraphics[{LARGEST}]{{{name}.pdf}}" if drawn.plot is None else f"\\input{{{name}.tex}}"
        yield f"\\begin{{center}}\n{line}\\par\\medskip\n{words}\n"
        yield "\\end{center}\n\\clearpage\n"
    yield "\\end{document}\n"
