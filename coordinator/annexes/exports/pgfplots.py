"""Charts for LaTeX: the numbers of a chart as an axis of pgfplots, and the curves of a campaign as a document.

The document is made from rows of `coordinator.reports.curves`, so a stored campaign is exported without running anything.
"""

from collections.abc import Iterator, Sequence
from math import nan

from coordinator.annexes.exports.latex import PREAMBLE, comments, definition, text
from coordinator.reports.charts import ratio_plot
from coordinator.reports.curves import curves_of
from coordinator.reports.pictures import Picture
from coordinator.reports.plot import CROSSES, HOLLOW, Mode, Plot, PlotAxis, Series
from coordinator.reports.tables import Row
from coordinator.reports.theme import viridis

HEAD = (
    "% Curves of a campaign of the coordinator; compile with pdflatex. Each figure may be copied by itself.\n"
    "\\documentclass{article}\n\\usepackage[a4paper, margin=2cm]{geometry}\n"
    + "\n".join(PREAMBLE)
    + "\n\\begin{document}\n"
)
MARKS = {HOLLOW: "o", CROSSES: "x", 0: "*", 1: "square*", 2: "triangle*", 3: "diamond*"}
"""Names of marks."""
ROW = 0.45
"""Height of a row of a diagram or a table in centimetres, as far as the height of the axis allows it."""
TALLEST = 20.0
COLOURS = 16
"""Steps of the scale of colours."""


def pgfplots(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a LaTeX document with a plot for each figure: lines with error bars, and crosses for theory."""
    yield HEAD
    for title, (x_label, lines, unit) in curves_of(rows).items():
        yield from axis(title, ratio_plot(x_label, lines, unit))
        yield "\n"
    yield "\\end{document}\n"


def chart_lines(picture: Picture) -> Sequence[str]:
    """Return the lines of a chart for a LaTeX document; its head says what the document needs."""
    assert picture.plot is not None
    needs = ["Its document needs in the preamble:", *PREAMBLE]
    return [*comments([*(picture.about or (picture.title,)), *needs]), *axis(picture.title, picture.plot)]


# --- one axis --------------------------------------------------------------------------------------------------------


def axis(title: str, plot: Plot) -> Iterator[str]:
    """Yield the picture of one plot; it needs the lines of `latex.PREAMBLE` in its document."""
    yield f"% {' '.join(title.split())}\n\\begin{{tikzpicture}}\n"
    for colour in sorted({series.colour for series in plot.series} - {"viridis"}):
        yield definition(colour)[1]
    options = ["width=11cm", f"height={_height(plot):g}cm", f"title={{{text(title)}}}", *_axis_options("x", plot.x)]
    options += [*_axis_options("y", plot.y), "legend cell align=left"]
    options.append("legend style={at={(1.03, 1)}, anchor=north west, font=\\small}")
    cells = [series for series in plot.series if series.mode is Mode.CELLS]
    if cells:
        options += _scale(max((point[2] for series in cells for point in series.points), default=1))
    elif not plot.y.names:
        options.append("grid=major, grid style={black!10}")
    yield "\\begin{axis}[\n" + "".join(f"  {option},\n" for option in options) + "]\n"
    for series in plot.series:
        yield from _series(series, plot)
    yield "\\end{axis}\n\\end{tikzpicture}\n"


def _height(plot: Plot) -> float:
    """Return the height of an axis in centimetres: rows with names need a height each."""
    if not plot.y.downwards:
        return 7
    rows = _extent(plot.y)
    bars = sum(series.mode is Mode.ROWS for series in plot.series)
    return round(min(TALLEST, max(5.0, 2 + ROW * rows * max(1, bars / 2))), 2)


def _extent(axis: PlotAxis) -> float:
    return (axis.high or 0) - (axis.low or 0)


def _axis_options(letter: str, axis: PlotAxis) -> Iterator[str]:
    yield f"{letter}label={{{text(axis.title)}}}"
    if axis.low is not None:
        yield f"{letter}min={axis.low:.9g}"
    if axis.high is not None and axis.high != axis.low:
        yield f"{letter}max={axis.high:.9g}"
    if axis.log:
        yield f"{letter}mode=log"
    if axis.downwards:
        yield f"{letter} dir=reverse"
    if axis.names:
        yield f"{letter}tick={{{','.join(f'{value:.9g}' for value in axis.names)}}}"
        yield f"{letter}ticklabels={{{','.join(f'{{{text(name)}}}' for name in axis.names.values())}}}"
        yield f"{letter}ticklabel style={{font=\\scriptsize}}"
    if axis.shares:
        yield f"{letter}tick={{0,0.25,0.5,0.75,1}}"
        yield f"{letter}ticklabels={{0\\,\\%,25\\,\\%,50\\,\\%,75\\,\\%,100\\,\\%}}"


def _scale(most: float) -> Iterator[str]:
    """Yield the scale of colours, and its bar."""
    steps = [viridis(at / COLOURS).removeprefix("#") for at in range(COLOURS + 1)]
    colours = " ".join(f"rgb255=({int(c[:2], 16)},{int(c[2:4], 16)},{int(c[4:], 16)})" for c in steps)
    yield f"colormap={{bench}}{{{colours}}}"
    yield f"colorbar, point meta min=0, point meta max={most or 1:.9g}"
    yield "colorbar style={font=\\scriptsize}"


def _series(series: Series, plot: Plot) -> Iterator[str]:
    if not series.points:
        return
    match series.mode:
        case Mode.BARS | Mode.ROWS:
            yield from _bars_of(series)
        case Mode.STROKES:
            yield from _strokes(series)
        case Mode.CELLS:
            yield from _cells(series, plot)
        case _:
            yield from _line(series)
    if series.name:
        yield f"\\addlegendentry{{{text(series.name)}}}\n"


def _drawn(series: Series, *more: str) -> str:
    """Return the options of a series: its colour, dashes, and whether the legend names it."""
    options = [definition(series.colour)[0], *more]
    if series.dashes:
        lengths = series.dashes.split()
        options.append("dash pattern=" + " ".join(f"{('on', 'off')[at % 2]} {n}pt" for at, n in enumerate(lengths)))
    if not series.name:
        options.append("forget plot")
    return ", ".join(options)


STEPS = {Mode.STAIRS: "const plot, thick", Mode.PLATEAUS: "const plot mark mid, thick", Mode.LINE: "thick"}


def _line(series: Series) -> Iterator[str]:
    mark = "mark=none" if series.mark is None else f"mark={MARKS[series.mark if series.mark < 0 else series.mark % 4]}"
    options = _drawn(series, STEPS.get(series.mode, "only marks"), mark, "mark options={solid}")
    if len(series.points[0]) == 2:
        yield f"\\addplot[{options}] table {{\n"
        yield from (f"{x:.9g} {y:.9g}\n" for x, y in series.points)
    else:
        yield f"\\addplot[{options}, error bars/.cd, y dir=both, y explicit]\n"
        yield "table[x=x, y=y, y error plus=plus, y error minus=minus] {\nx y plus minus\n"
        yield from (f"{x:.9g} {y:.9g} {high - y:.9g} {y - low:.9g}\n" for x, y, low, high in series.points)
    yield "};\n"


def _bars_of(series: Series) -> Iterator[str]:
    """Write bars; their width is in units of the axis on which they stand."""
    colour, _ = definition(series.colour)
    kind = "ybar" if series.mode is Mode.BARS else "xbar"
    options = f"{kind}, bar shift=0pt, bar width={series.width:.6g}, fill={colour}, draw=none"
    options += "" if series.name else ", forget plot"
    if not series.labels:
        yield f"\\addplot[{options}] table {{\n"
        yield from (f"{x:.9g} {y:.9g}\n" for x, y in series.points)
    else:
        near = (
            "nodes near coords, point meta=explicit symbolic, every node near coord/.append style={font=\\scriptsize}"
        )
        yield f"\\addplot[{options}, {near}] coordinates {{\n"
        yield from (
            f"({x:.9g}, {y:.9g}) [{{{text(label)}}}]\n"
            for (x, y), label in zip(series.points, series.labels, strict=True)
        )
    yield "};\n"


def _strokes(series: Series) -> Iterator[str]:
    """Write single lines; an empty line of the table ends one."""
    thick = f"line width={0.5 if series.width < 1 else series.width:g}pt" + (
        ", opacity=0.25" if series.width > 1 else ""
    )
    yield f"\\addplot[{_drawn(series, 'mark=none', thick, 'empty line=jump')}] table {{\n"
    yield from (f"{x:.9g} {y:.9g}\n{a:.9g} {b:.9g}\n\n" for x, y, a, b in series.points)
    yield "};\n"


def _cells(series: Series, plot: Plot) -> Iterator[str]:
    """Write squares as a whole matrix, in which empty squares have no number.

    A row and a column beyond the axis are added: a matrix of one row or one column has no size.
    """
    columns, rows = (round(_extent(axis)) + 1 for axis in (plot.x, plot.y))
    values = {(x, y): value for x, y, value in series.points}
    yield f"\\addplot[matrix plot*, point meta=explicit, mesh/cols={columns}, forget plot] table[meta=value] {{\n"
    yield "x y value\n"
    yield from (f"{x} {y} {values.get((x, y), nan):.9g}\n" for y in range(rows) for x in range(columns))
    yield "};\n"
