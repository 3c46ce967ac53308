"""Links as SVG paths: straight, bowed, or two stubs for links that leave a hexagon and return on its other side."""

from math import hypot

from coordinator.reports.computed_layout import Ranks
from coordinator.reports.layout import Layout, Shapes

Point = tuple[float, float]
Tip = tuple[float, float, float, float]
"""The end of an arrow and its direction."""


def link_paths(layout: Layout, shapes: Shapes, senders: Ranks, receivers: Ranks) -> tuple[list[str], list[str]]:
    """Draw a line and an arrowhead per directed link, from rim to rim of its nodes."""
    lines, heads = [], []
    radius, stub = layout.radius, 0.5 * layout.spacing
    head = max(2.2, min(8.0, 0.4 * radius))
    aside = 0.12 * radius
    for x1, y1, x2, y2, bow, wx, wy in zip(
        layout.x[senders].tolist(), layout.y[senders].tolist(), layout.x[receivers].tolist(), layout.y[receivers].tolist(),
        shapes.bow.tolist(), shapes.wrap_x.tolist(), shapes.wrap_y.tolist(), strict=True,
    ):  # fmt: skip
        if wx or wy:
            line, tip = _stubs((x1, y1), (x2, y2), (wx, wy), radius, stub, aside)
        else:
            line, tip = _curve((x1, y1), (x2, y2), bow, radius, aside)
        lines.append(line)
        heads.append(_head(*tip, head))
    return lines, heads


def _stubs(one: Point, other: Point, unit: Point, radius: float, stub: float, aside: float) -> tuple[str, Tip]:
    """Draw two stubs: out of the hexagon at one end and into it at the other."""
    (x1, y1), (x2, y2), (wx, wy) = one, other, unit
    sx, sy = -wy * aside, wx * aside
    line = (
        f"M{x1 + wx * radius + sx:.1f} {y1 + wy * radius + sy:.1f}l{wx * (stub - radius):.1f} {wy * (stub - radius):.1f}"
        f"M{x2 - wx * stub + sx:.1f} {y2 - wy * stub + sy:.1f}l{wx * (stub - radius):.1f} {wy * (stub - radius):.1f}"
    )
    return line, (x2 - wx * radius + sx, y2 - wy * radius + sy, wx, wy)


def _curve(one: Point, other: Point, bow: float, radius: float, aside: float) -> tuple[str, Tip]:
    """Draw a line or an arc from rim to rim, shifted to the right so that the two directions of a link stay apart."""
    (x1, y1), (x2, y2) = one, other
    dx, dy = x2 - x1, y2 - y1
    length = hypot(dx, dy) or 1.0
    ux, uy = dx / length, dy / length
    if not bow:  # a straight line, shifted to its right
        sx, sy = -uy * aside, ux * aside
        ax, ay, bx, by = x1 + ux * radius + sx, y1 + uy * radius + sy, x2 - ux * radius + sx, y2 - uy * radius + sy
        return f"M{ax:.1f} {ay:.1f}L{bx:.1f} {by:.1f}", (bx, by, ux, uy)
    # The middle of a cubic Bezier curve is at 3/4 of the offset of its two control points.
    lift = (bow * length + aside) / 0.75
    px, py = -uy * lift, ux * lift
    c1x, c1y, c2x, c2y = x1 + 0.14 * dx + px, y1 + 0.14 * dy + py, x2 - 0.14 * dx + px, y2 - 0.14 * dy + py
    first, last = hypot(c1x - x1, c1y - y1) or 1.0, hypot(x2 - c2x, y2 - c2y) or 1.0
    ax, ay = x1 + (c1x - x1) / first * radius, y1 + (c1y - y1) / first * radius
    tx, ty = (x2 - c2x) / last, (y2 - c2y) / last
    bx, by = x2 - tx * radius, y2 - ty * radius
    return f"M{ax:.1f} {ay:.1f}C{c1x:.1f} {c1y:.1f} {c2x:.1f} {c2y:.1f} {bx:.1f} {by:.1f}", (bx, by, tx, ty)


def _head(x: float, y: float, ux: float, uy: float, size: float) -> str:
    bx, by = x - ux * size * 1.6, y - uy * size * 1.6
    return (
        f"M{x:.1f} {y:.1f}L{bx - uy * size * 0.75:.1f} {by + ux * size * 0.75:.1f}"
        f"L{bx + uy * size * 0.75:.1f} {by - ux * size * 0.75:.1f}z"
    )
