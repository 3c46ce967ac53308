"""Drawings as pictures of TikZ: paths, arcs, styles and texts."""

import re
from html import escape
from math import comb, dist, hypot

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


@pytest.mark.parametrize(
    ("large", "sweep", "centre", "middle"),
    [
        (0, 0, (51.12, 26.63), (43.22, 50.35)),
        (0, 1, (38.88, 63.37), (46.78, 39.65)),
        (1, 0, (38.88, 63.37), (30.97, 87.09)),
        (1, 1, (51.12, 26.63), (59.03, 2.91)),
    ],
)
def test_arcs_stay_on_their_circle(
    large: int, sweep: int, centre: tuple[float, float], middle: tuple[float, float]
) -> None:
    """At the radius from the centre that SVG defines, by way of the middle that the flags say."""
    (line,) = paths(f'<path stroke="#000000" fill="none" d="M30 40A25 25 0 {large} {sweep} 60 50"/>')
    points, last = [], (30.0, 40.0)
    for curve in CURVE.finditer(line):
        numbers = list(map(float, curve.groups()))
        corners = [last, *zip(numbers[::2], numbers[1::2], strict=True)]
        for share in (step / 50 for step in range(51)):
            weights = [comb(3, k) * share**k * (1 - share) ** (3 - k) for k in range(4)]
            points.append([sum(w * corner[k] for w, corner in zip(weights, corners, strict=True)) for k in (0, 1)])
        last = corners[-1]
    assert dist(last, (60, 50)) < 0.01
    assert all(abs(dist(centre, point) - 25) < 0.03 for point in points)
    assert min(dist(middle, point) for point in points) < 1.5


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
