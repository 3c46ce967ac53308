"""Drawings as pictures of TikZ: paths, arcs, styles and texts."""

import re
from html import escape
from math import atan2, cos, dist, hypot, pi, sin

import pytest

from coordinator.annexes.exports.latex import text
from coordinator.annexes.exports.tikz import picture

POINT = r"\((-?[\d.]+), (-?[\d.]+)\)"
CURVE = re.compile(rf"\.\. controls {POINT} and {POINT} \.\. {POINT}")


def drawn(body: str, css: str = "") -> list[str]:
    """Return the lines of a drawing of 100 units."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" class="map" viewBox="0 0 100 100">'
    return [line.strip() for line in picture(f"{head}{body}</svg>", css)]


def paths(body: str, css: str = "") -> list[str]:
    return [line for line in drawn(body, css) if line.startswith("\\path")]


def test_relative_and_absolute_commands_give_the_same_path() -> None:
    absolute = paths('<path stroke="#000000" fill="none" d="M10 10H30V40L5 6C1 2 3 4 50 60z"/>')
    relative = paths('<path stroke="#000000" fill="none" d="m10 10h20v30l-25-34c-4-4-2-2 45 54z"/>')
    assert absolute == relative
    assert absolute[0].endswith(
        "(10.00, 10.00) -- (30.00, 10.00) -- (30.00, 40.00) -- (5.00, 6.00) "
        ".. controls (1.00, 2.00) and (3.00, 4.00) .. (50.00, 60.00) -- cycle;"
    )


def test_each_part_of_a_path_is_a_path_of_its_own() -> None:
    found = paths('<path stroke="#000000" fill="none" d="M1 1L2 2\nM3 3L4 4M9 9"/>')
    assert [line.partition("] ")[2] for line in found] == [
        "(1.00, 1.00) -- (2.00, 2.00);",
        "(3.00, 3.00) -- (4.00, 4.00);",
    ]


@pytest.mark.parametrize("large", [0, 1])
@pytest.mark.parametrize("sweep", [0, 1])
def test_arcs_stay_on_their_circle(large: int, sweep: int) -> None:
    """The centre that SVG defines: at the radius from both ends, and the arc on the side that the flags say."""
    one, other, radius = (30.0, 40.0), (60.0, 50.0), 25.0
    (line,) = paths(f'<path stroke="#000000" fill="none" d="M30 40A25 25 0 {large} {sweep} 60 50"/>')
    ends, angles, last = [one], [], one
    for curve in CURVE.finditer(line):
        numbers = list(map(float, curve.groups()))
        a, b, c, d = last, numbers[:2], numbers[2:4], numbers[4:]
        for share in (0.25, 0.5, 0.75):
            rest = 1 - share
            weights = (rest**3, 3 * rest**2 * share, 3 * rest * share**2, share**3)
            x, y = (sum(w * point[k] for w, point in zip(weights, (a, b, c, d), strict=True)) for k in (0, 1))
            angles.append((x, y))
        last = (d[0], d[1])
        ends.append(last)
    assert dist(last, other) < 0.01
    half, (mx, my) = dist(one, other) / 2, ((one[0] + other[0]) / 2, (one[1] + other[1]) / 2)
    away = (radius**2 - half**2) ** 0.5
    ux, uy = (other[0] - one[0]) / (2 * half), (other[1] - one[1]) / (2 * half)
    centres = [(mx - side * away * uy, my + side * away * ux) for side in (1, -1)]
    on = [centre for centre in centres if all(abs(dist(centre, point) - radius) < 0.02 for point in [*angles, *ends])]
    assert len(on) == 1
    (cx, cy) = on[0]
    turn = (atan2(other[1] - cy, other[0] - cx) - atan2(one[1] - cy, one[0] - cx)) % (2 * pi)
    turn = turn if sweep else 2 * pi - turn
    assert (turn > pi) == bool(large)
    # The first curve leaves in the direction of the sweep: with the y axis down, clockwise on paper.
    begin = atan2(one[1] - cy, one[0] - cx)
    step = 1e-3 if sweep else -1e-3
    ahead = (cx + radius * cos(begin + step) - one[0], cy + radius * sin(begin + step) - one[1])
    left = (angles[0][0] - one[0], angles[0][1] - one[1])
    assert ahead[0] * left[0] + ahead[1] * left[1] > 0


def test_a_whole_circle_of_two_arcs_is_closed() -> None:
    (line,) = paths('<path fill="#000000" d="M10 20a3 3 0 1 0 6 0a3 3 0 1 0 -6 0z"/>')
    numbers = [list(map(float, each)) for each in re.findall(POINT, line)]
    assert all(hypot(x - 13, y - 20) < 3 * 1.5 for x, y in numbers)
    assert numbers[0] == numbers[-1] == [10, 20]


def test_rules_of_classes_apply_and_elements_override_them() -> None:
    css = ".map .flow { stroke: var(--blue); fill: none; stroke-width: 2 } .map .halo .name { stroke: #ffffff }"
    lines = drawn('<path class="flow" d="M0 0L1 1"/><path class="flow" style="stroke:#ff0000" d="M0 0L1 1"/>', css)
    assert "\\definecolor{bench-0072b2}{HTML}{0072B2}" in lines
    one, other = (line for line in lines if line.startswith("\\path"))
    assert one.startswith("\\path[draw=bench-0072b2, line width=")
    assert "draw=bench-ff0000" in other


def test_groups_move_what_is_in_them() -> None:
    (line,) = paths('<g transform="translate(10 20)"><path stroke="#000000" fill="none" d="M1 2L3 4"/></g>')
    assert line.endswith("(11.00, 22.00) -- (13.00, 24.00);")


def test_unknown_elements_are_refused() -> None:
    with pytest.raises(ValueError, match="a drawing has no element ellipse"):
        drawn('<ellipse rx="3"/>')


def test_names_are_escaped() -> None:
    names = ['a"b', "#1", "50%", r"\x", "{", "~^_&$", "a|b", "it's", "ü", "中"]
    tex = "\n".join(drawn("".join(f'<text x="1" y="2">{escape(name)}</text>' for name in names)))
    assert [line.partition("{")[2] for line in re.findall(r"at \(1.00, 2.00\) .*", tex)] == [
        f"{text(n)}}};" for n in names
    ]
    assert text('a"b#') == r"a\texttt{\char34}b\#"
    assert text("中") == "?"
    plain = re.sub(r"\\[{}#%&$_]", "", tex)
    assert plain.count("{") == plain.count("}")
    assert not re.search(r"[^\\][#&$]", re.sub(r"%.*", "", re.sub(r"\\[#%&$_]", "", tex)))
