"""The space-time diagram as SVG: nodes down, time across, packets as lines from the sender to the receiver."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

from coordinator.reports.numbers import show

LEFT, RIGHT, TOP, ROW = 76, 704, 30, 18
WIDTH = 720
NARROW_WIDTH = 360
STYLES: Mapping[str, tuple[str, str]] = {
    "packet": ("blue", ""),
    "again": ("orange", ""),
    "request": ("orange", "2 2"),
    "repair": ("green", ""),
    "control": ("grey", "1 2"),
    "lost": ("red", "4 2"),
}
"""By kind of packet: its colour and the dashes of its line."""
WORDS: Mapping[str, str] = {
    "packet": "packet",
    "again": "sent again",
    "request": "request",
    "repair": "repair",
    "control": "control",
    "lost": "lost",
}


class Line(NamedTuple):
    """A packet: rows of its sender and receiver, seconds at which it starts and ends, and its kind (of STYLES)."""

    sender: int
    receiver: int
    start: float
    end: float
    kind: str


class Mark(NamedTuple):
    """A fault: the row of its node, its time in seconds, its end or None, and its name."""

    row: int
    start: float
    end: float | None
    name: str


class Suspicion(NamedTuple):
    """A change of mind of a node: its row, the time in seconds, whether it suspects from then on, and words."""

    row: int
    at: float
    suspected: bool
    words: str


def space_time(
    title: str,
    labels: Sequence[str],
    lines: Sequence[Line],
    marks: Sequence[Mark],
    suspicions: Sequence[Suspicion] = (),
    *,
    narrow: bool,
) -> str:
    """The diagram. `labels` are those of the nodes, from top to bottom."""
    width = NARROW_WIDTH if narrow else WIDTH
    right = width - (WIDTH - RIGHT)
    last = max((line.end for line in lines), default=0.0) or 1.0
    bottom = TOP + ROW * len(labels)

    def x(seconds: float) -> float:
        return LEFT + (right - LEFT) * min(seconds, last) / last

    def y(row: int) -> float:
        return TOP + ROW * row + ROW / 2

    body = [f'<text class="title" x="8" y="14">{escape(title)}</text>']
    rows = "".join(f"M{LEFT} {y(row):.1f}H{right}" for row in range(len(labels)))
    body.append(f'<path class="axis" d="{rows}"/>')
    for row, label in enumerate(labels):
        body.append(f'<text class="end" x="{LEFT - 6}" y="{y(row) + 4:.1f}">{escape(label)}</text>')
    for tick in range(3 if narrow else 5):
        at = last * tick / (2 if narrow else 4)
        body.append(f'<text class="middle" x="{x(at):.1f}" y="{bottom + 14}">{show(1000 * at, 4)}</text>')
    body.append(f'<text class="end" x="{right}" y="{bottom + 28}">milliseconds</text>')
    body += [_bar(mark, x(mark.start), x(last if mark.end is None else mark.end), y(mark.row)) for mark in marks]
    for kind, (colour, dashes) in STYLES.items():
        there = [line for line in lines if line.kind == kind]
        if there:
            path = "".join(f"M{x(a):.1f} {y(one)}L{x(b):.1f} {y(other)}" for one, other, a, b, _ in there)
            dash = f' stroke-dasharray="{dashes}"' if dashes else ""
            body.append(f'<path fill="none" stroke="var(--{colour})" stroke-width="1.2"{dash} d="{path}"/>')
    lost = [line for line in lines if line.kind == "lost"]
    if lost:
        crosses = "".join(f"M{x(line.end) - 3:.1f} {y(line.receiver) - 3}l6 6m0 -6l-6 6" for line in lost)
        body.append(f'<path fill="none" stroke="var(--red)" stroke-width="1.5" d="{crosses}"/>')
    body += [_diamond(x(each.at), y(each.row), each) for each in suspicions if each.at <= last]
    return (
        f'<svg class="chart" viewBox="0 0 {width} {bottom + 34}" role="img" aria-label="{escape(title)}">'
        f"{''.join(body)}</svg>"
    )


def _bar(mark: Mark, left: float, right: float, y: float) -> str:
    """A fault on the row of a node: a bar for as long as it lasts, with a flag at its beginning."""
    return (
        f'<g><title>{escape(mark.name)}</title><rect x="{left:.1f}" y="{y - 5:.1f}" width="{max(1.0, right - left):.1f}" '
        f'height="10" fill="var(--red)" opacity=".15"/><path class="flag" d="M{left:.1f} {y - 6:.1f}v12l5 -6z"/></g>'
    )


def _diamond(x: float, y: float, suspicion: Suspicion) -> str:
    """A change of mind of a node: filled if it suspects a neighbour from then on, hollow if it does so no longer."""
    fill = "var(--purple)" if suspicion.suspected else "var(--paper)"
    return (
        f'<path fill="{fill}" stroke="var(--purple)" d="M{x - 4:.1f} {y:.1f}l4 -4l4 4l-4 4z">'
        f"<title>{escape(suspicion.words)}</title></path>"
    )
