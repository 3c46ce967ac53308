"""The space-time diagram as SVG: nodes down, time across, packets as lines from the sender to the receiver."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Final, NamedTuple

from coordinator.reports.chart import LETTER, NARROW, Chart, Frame, milliseconds, shortened
from coordinator.reports.plot import CROSSES, DIAMOND, HOLLOW, Mode, Plot, PlotAxis, Series

TOP, ROW, MARGIN = 30, 18, 16
WIDTH: Final = 1040


class Style(NamedTuple):
    """How packets of a kind are drawn: the colour and the dashes of their lines, and their name in the legend."""

    colour: str
    dashes: str
    words: str


WITHHELD: Final = "withheld"
LOST: Final = "lost"
STYLES: Mapping[str, Style] = {
    "packet": Style("blue", "", "packet"),
    "altered": Style("purple", "", "with altered segments"),
    "again": Style("orange", "", "sent again"),
    "request": Style("orange", "2 2", "request"),
    "repair": Style("green", "", "repair"),
    "control": Style("grey", "1 2", "control"),
    LOST: Style("red", "4 2", "lost"),
    WITHHELD: Style("grey", "", "withheld by its sender"),
}
"""By kind of packet; a withheld packet is a circle at its sender, the others are lines."""
CIRCLE: Final = "a3 3 0 1 0 6 0a3 3 0 1 0 -6 0"
"""From its leftmost point."""


class Line(NamedTuple):
    """A packet: rows of its sender and receiver, its start and end in seconds, and its kind (of STYLES)."""

    sender: int
    receiver: int
    start: float
    end: float
    kind: str


class FaultMark(NamedTuple):
    """A fault: the row of its node, its time in seconds, its end or None, and its name."""

    row: int
    start: float
    end: float | None
    name: str


class MindChange(NamedTuple):
    """A change of mind of a node: its row, the time in seconds, whether it suspects from then on, and words."""

    row: int
    at: float
    suspected: bool
    words: str


def space_time(
    title: str,
    labels: Sequence[str],
    lines: Sequence[Line],
    marks: Sequence[FaultMark],
    suspicions: Sequence[MindChange] = (),
    *,
    narrow: bool,
) -> Chart:
    """Draw the diagram. `labels` are the labels of the nodes, from top to bottom."""
    names = [shortened(label, narrow=narrow) for label in labels]
    width = NARROW if narrow else WIDTH
    left = round(max(48, 14 + LETTER * max(map(len, names), default=0)))
    last = max((line.end for line in lines), default=0.0) or 1.0
    bottom = TOP + ROW * len(labels)
    axis = milliseconds(last, left, width - MARGIN, narrow=narrow)

    def x(seconds: float) -> float:
        return axis.at(1000 * min(seconds, last))

    def y(row: int) -> float:
        return TOP + ROW * row + ROW / 2

    chart = Chart(title, Frame(left, TOP, width - MARGIN, bottom), width)
    chart.heading(14)
    chart.rule("".join(f"M{left} {y(row):.1f}H{width - MARGIN}" for row in range(len(labels))))
    chart.row_names(names, ROW)
    chart.add('<g class="ticks">')
    chart.time_axis(axis)
    chart.add('</g><g class="plot">')
    chart.body += [_bar(mark, x(mark.start), x(last if mark.end is None else mark.end), y(mark.row)) for mark in marks]
    for kind in STYLES:
        there = [line for line in lines if line.kind == kind]
        if there and kind == WITHHELD:
            chart.add(symbol(kind, "".join(f"M{x(line.start) - 3:.1f} {y(line.sender)}{CIRCLE}" for line in there)))
        elif there:
            chart.add(
                symbol(kind, "".join(f"M{x(a):.1f} {y(one)}L{x(b):.1f} {y(other)}" for one, other, a, b, _ in there))
            )
    lost = [line for line in lines if line.kind == LOST]
    if lost:
        crosses = "".join(f"M{x(line.end) - 3:.1f} {y(line.receiver) - 3}l6 6m0 -6l-6 6" for line in lost)
        chart.add(f'<path fill="none" stroke="var(--red)" stroke-width="1.5" d="{crosses}"/>')
    chart.body += [_diamond(x(each.at), y(each.row), each) for each in suspicions if each.at <= last]
    chart.add("</g>")
    # The script of the page zooms what is in the group `plot` (`templates/report/zoom.js`).
    chart.attributes = f'data-times="{left} {width - MARGIN} {1000 * last:.6g} {bottom}" '
    across = PlotAxis("milliseconds", 0, 1000 * last)
    down = PlotAxis("", -0.5, len(labels) - 0.5, names=dict(enumerate(labels)), downwards=True)
    return chart.finish(bottom + 34, Plot(across, down, _series(lines, marks, suspicions, last)))


def _series(
    lines: Sequence[Line], marks: Sequence[FaultMark], suspicions: Sequence[MindChange], last: float
) -> list[Series]:
    """Return the diagram as numbers: packets by kind, faults as thick strokes, losses and changes of mind as marks."""
    bars = [
        (1000 * mark.start, mark.row, 1000 * (last if mark.end is None else min(last, mark.end)), mark.row)
        for mark in marks
    ]
    series = [Series("fault", Mode.STROKES, bars, "red", width=4)] if bars else []
    for kind, style in STYLES.items():
        there = [line for line in lines if line.kind == kind]
        if there and kind == WITHHELD:
            points = [(1000 * line.start, line.sender) for line in there]
            series.append(Series(style.words, Mode.MARKS, points, style.colour, mark=HOLLOW))
        elif there:
            strokes = [(1000 * line.start, line.sender, 1000 * line.end, line.receiver) for line in there]
            series.append(Series(style.words, Mode.STROKES, strokes, style.colour, style.dashes))
    if lost := [(1000 * line.end, line.receiver) for line in lines if line.kind == LOST]:
        series.append(Series("", Mode.MARKS, lost, "red", mark=CROSSES))
    for suspected, name in ((True, "suspects"), (False, "suspects no longer")):
        if points := [(1000 * each.at, each.row) for each in suspicions if each.suspected == suspected]:
            series.append(Series(name, Mode.MARKS, points, "purple" if suspected else "grey", mark=DIAMOND))
    return series


def symbol(kind: str, path: str) -> str:
    """Draw a path in the style of a kind of packet."""
    colour, dashes, _ = STYLES[kind]
    dash = f' stroke-dasharray="{dashes}"' if dashes else ""
    return f'<path fill="none" stroke="var(--{colour})" stroke-width="1.2"{dash} d="{path}"/>'


def _bar(mark: FaultMark, left: float, right: float, y: float) -> str:
    """Draw a fault on the row of a node: a bar for as long as the fault lasts, with a flag at its beginning."""
    return (
        f'<g><title>{escape(mark.name)}</title><rect x="{left:.1f}" y="{y - 5:.1f}" width="{max(1.0, right - left):.1f}" '
        f'height="10" fill="var(--red)" opacity=".15"/><path class="flag" d="M{left:.1f} {y - 6:.1f}v12l5 -6z"/></g>'
    )


def _diamond(x: float, y: float, suspicion: MindChange) -> str:
    """Draw a change of mind of a node: filled if the node suspects a neighbour from then on, hollow if it no longer
    does.
    """
    fill = "var(--purple)" if suspicion.suspected else "var(--paper)"
    return (
        f'<path fill="{fill}" stroke="var(--purple)" d="M{x - 4:.1f} {y:.1f}l4 -4l4 4l-4 4z">'
        f"<title>{escape(suspicion.words)}</title></path>"
    )
