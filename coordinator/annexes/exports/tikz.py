"""Maps, trees and other drawings for LaTeX: an SVG drawing of this program as a picture of TikZ.

It reads the elements that the drawings of this package consist of: paths of lines, curves and arcs, circles, rectangles,
texts and groups, in the styles of a style sheet whose rules name one class each. The y axis points down, as in SVG. An
arc becomes curves of at most a quarter of a circle that stay within 0.03 % of its radius.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import atan2, ceil, cos, hypot, pi, sin, sqrt, tan
from xml.etree import ElementTree  # it reads drawings of this program only

from coordinator.annexes.exports.latex import definition, text
from coordinator.reports.link_paths import Point
from coordinator.reports.theme import in_light_colours, without_media

WIDTH = 14.0
"""Largest width of a picture in centimetres."""
UNIT = 0.028
"""Largest length of a unit of the drawing in centimetres."""
POINTS_PER_CENTIMETRE = 28.4528
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_PART = re.compile(r"[MmLlHhVvCcAaZz]|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_HEX = re.compile(r"#(?:[0-9a-fA-F]{6}|[0-9a-fA-F]{3})")
INHERITED = (
    "fill", "stroke", "stroke-width", "font-size", "text-anchor", "dominant-baseline", "font-weight", "stroke-dasharray",
    "stroke-linecap", "stroke-linejoin",
)  # fmt: skip


def picture(svg: str, css: str = "") -> Iterator[str]:
    """Yield the picture of an SVG document or element; it needs TikZ (see `latex.PREAMBLE`).

    `css` is a style sheet; a `<style>` in the drawing counts too. Raises ValueError for an element that no drawing has.
    """
    root = ElementTree.fromstring(in_light_colours(svg))
    _, _, width, height = map(float, root.attrib["viewBox"].split())
    sheet = "".join(each.text or "" for each in root.iter() if _name(each) == "style")
    scale = min(UNIT, WIDTH / width)
    writer = _Writer(_rules(in_light_colours(css + sheet)), scale)
    body = [line for child in root for line in writer.element(child, _Style({}))]
    unit = f"{scale:.6g}cm"
    yield f"\\begin{{tikzpicture}}[x={unit}, y=-{unit}]\n"
    yield from (definition(colour)[1] for colour in sorted(writer.colours))
    yield f"\\useasboundingbox (0, 0) rectangle ({width:g}, {height:g});\n"
    yield from body
    yield "\\end{tikzpicture}\n"


def _name(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _rules(css: str) -> list[tuple[list[set[str]], dict[str, str]]]:
    """Return the rules of a style sheet in their order: the classes (or the name) of each part of a selector, and its
    declarations. Rules for small screens are left out.
    """
    found = []
    for selectors, body in _RULE.findall(without_media(css)):
        declared = {name.strip(): value.strip() for name, _, value in (each.partition(":") for each in body.split(";"))}
        for selector in selectors.split(","):
            parts = [set(re.findall(r"[.#]?[\w-]+", part)) for part in selector.split()]
            found.append((parts, declared))
    return found


@dataclass(frozen=True)
class _Style:
    """The properties that an element takes from the elements around it, and the names of those elements in rules."""

    values: Mapping[str, str]
    around: Sequence[set[str]] = ()
    origin: Point = (0.0, 0.0)
    opacity: float = 1.0


class _Writer:
    """Writes elements, and collects the colours that they need."""

    def __init__(self, rules: Sequence[tuple[list[set[str]], dict[str, str]]], scale: float) -> None:
        self.rules, self.scale = rules, scale
        self.colours: set[str] = set()

    def element(self, element: ElementTree.Element, outer: _Style) -> Iterator[str]:
        """Yield the lines of an element and of the elements in it."""
        name = _name(element)
        if name in ("title", "style", "metadata", "desc"):
            return
        style = self._style(element, outer)
        if style.values.get("display") == "none":
            return
        match name:
            case "g" | "svg":
                for child in element:
                    yield from self.element(child, style)
                return
            case "path":
                pieces = _pieces(_parsed(element.get("d", "")))
            case "circle":
                pieces = [_circle(element)] if float(element.get("r", 0)) else []
            case "rect":
                pieces = [_rectangle(element)]
            case "text":
                yield from self._text(element, style)
                return
            case _:
                raise ValueError(f"a drawing has no element {name}")
        options = self._options(style)
        if not options or not pieces:
            return
        tip = next((child.text for child in element if _name(child) == "title"), None)
        if tip:
            yield f"% {' '.join(tip.split())}\n"
        for piece in pieces:
            yield f"\\path[{options}] {_moved(piece, style.origin)};\n"

    def _style(self, element: ElementTree.Element, outer: _Style) -> _Style:
        named = {f".{each}" for each in element.get("class", "").split()} | {_name(element)}
        named |= {f"#{element.get('id')}"} if element.get("id") else set()
        own: dict[str, str] = {key: value for key, value in element.attrib.items() if key not in ("class", "id")}
        for parts, declared in self.rules:
            if parts and parts[-1] <= named and _within(parts[:-1], outer.around):
                own |= declared
        own |= {
            key.strip(): value.strip()
            for key, _, value in (each.partition(":") for each in element.get("style", "").split(";"))
            if key.strip()
        }
        x, y = outer.origin
        if shift := re.fullmatch(r"translate\(([-\d.]+)[ ,]([-\d.]+)\)", element.get("transform", "")):
            x, y = x + float(shift[1]), y + float(shift[2])
        if _name(element) == "svg":
            x, y = x + float(element.get("x", 0)), y + float(element.get("y", 0))
        values = {**{key: value for key, value in outer.values.items() if key in INHERITED}, **own}
        return _Style(values, [*outer.around, named], (x, y), outer.opacity * float(own.get("opacity", 1)))

    def _options(self, style: _Style) -> str:
        """Return the options of a path; empty if it is neither drawn nor filled."""
        values, found = style.values, []
        fill, stroke = values.get("fill", "#000000"), values.get("stroke", "none")
        width = float(values.get("stroke-width", "1").removesuffix("px")) * self.scale * POINTS_PER_CENTIMETRE
        if fill not in ("none", "transparent"):
            found += [f"fill={self._colour(fill)}", *_share("fill opacity", values.get("fill-opacity"), style.opacity)]
        if stroke != "none" and width > 0:
            found += [f"draw={self._colour(stroke)}", f"line width={width:.3g}pt"]
            found += _share("draw opacity", values.get("stroke-opacity"), style.opacity)
            if dashes := values.get("stroke-dasharray"):
                lengths = [float(each) * self.scale * POINTS_PER_CENTIMETRE for each in re.split(r"[ ,]+", dashes)]
                pattern = " ".join(f"{('on', 'off')[at % 2]} {length:.3g}pt" for at, length in enumerate(lengths))
                found.append(f"dash pattern={pattern}")
            if values.get("stroke-linecap") == "round":
                found.append("line cap=round")
            if values.get("stroke-linejoin") == "round":
                found.append("line join=round")
        return ", ".join(found)

    def _text(self, element: ElementTree.Element, style: _Style) -> Iterator[str]:
        values = style.values
        words = "".join(element.itertext()).strip()
        size = float(values.get("font-size", "11").removesuffix("px")) * self.scale * POINTS_PER_CENTIMETRE
        fill = values.get("fill", "#000000")
        if not words or fill == "none":
            return
        middle = values.get("dominant-baseline") in ("central", "middle")
        place = {"middle": "", "end": "east"}.get(values.get("text-anchor", "start"), "west")
        anchor = (place or "center") if middle else f"base {place}".strip()
        (x, y) = style.origin
        options = [f"text={self._colour(fill)}", f"anchor={anchor}", "inner sep=0pt"]
        options += _share("text opacity", values.get("fill-opacity"), style.opacity)
        bold = "\\bfseries" if values.get("font-weight") in ("bold", "600", "700") else ""
        options.append(f"font=\\sffamily{bold}\\fontsize{{{size:.3g}pt}}{{{1.2 * size:.3g}pt}}\\selectfont")
        at = f"({float(element.get('x', 0)) + x:.2f}, {float(element.get('y', 0)) + y:.2f})"
        if values.get("paint-order") == "stroke":
            options.append("fill=white, fill opacity=0.75, text opacity=1, inner sep=0.4pt, rounded corners=0.6pt")
        yield f"\\node[{', '.join(options)}] at {at} {{{text(words)}}};\n"

    def _colour(self, value: str) -> str:
        if not _HEX.fullmatch(value):
            value = {"white": "#ffffff", "black": "#000000", "currentColor": "#000000"}[value]
        self.colours.add(value.lower())
        return definition(value.lower())[0]


def _within(parts: Sequence[set[str]], around: Sequence[set[str]]) -> bool:
    """Return whether the elements around one match the parts of a selector, in this order."""
    places = iter(around)
    # The element of the whole drawing is not among them: its class, `map` or `chart`, matches.
    return all(part <= {".map", ".drawing", ".chart"} or any(part <= named for named in places) for part in parts)


def _share(name: str, value: str | None, opacity: float) -> list[str]:
    share = float(value or 1) * opacity
    return [f"{name}={share:.3g}"] if share < 1 else []


# --- paths -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Piece:
    """A line, a curve or a closed figure: a start, and then points (lines) or triples of points (curves)."""

    start: Point
    parts: Sequence[tuple[Point, ...]]
    closed: bool = False


def _parsed(d: str) -> Iterator[_Piece]:
    """Yield the pieces of the data of a path."""
    parts = _PART.findall(d)
    at, here, start = 0, (0.0, 0.0), (0.0, 0.0)
    found: list[tuple[Point, ...]] = []
    command = ""

    def take(count: int) -> list[float]:
        nonlocal at
        numbers = [float(each) for each in parts[at : at + count]]
        at += count
        return numbers

    while at < len(parts):
        if parts[at].isalpha():
            command = parts[at]
            at += 1
        relative, (x, y) = command.islower(), here
        dx, dy = (x, y) if relative else (0.0, 0.0)
        match command.upper():
            case "M":
                if found:
                    yield _Piece(start, found)
                a, b = take(2)
                start = here = (a + dx, b + dy)
                found, command = [], "l" if relative else "L"
            case "L":
                a, b = take(2)
                here = (a + dx, b + dy)
                found.append((here,))
            case "H":
                here = (take(1)[0] + dx, y)
                found.append((here,))
            case "V":
                here = (x, take(1)[0] + dy)
                found.append((here,))
            case "C":
                a, b, c, d2, e, f = take(6)
                here = (e + dx, f + dy)
                found.append(((a + dx, b + dy), (c + dx, d2 + dy), here))
            case "A":
                rx, _, _, large, sweep, a, b = take(7)
                there = (a + dx, b + dy)
                found.extend(_arc(here, there, rx, large=bool(large), sweep=bool(sweep)))
                here = there
            case _:
                yield _Piece(start, found, closed=True)
                here, found = start, []
    if found:
        yield _Piece(start, found)


def _arc(one: Point, other: Point, radius: float, *, large: bool, sweep: bool) -> Iterator[tuple[Point, ...]]:
    """Yield the curves of an arc of a circle from one point to another, as SVG defines it."""
    (x1, y1), (x2, y2) = one, other
    half = hypot(x2 - x1, y2 - y1) / 2
    if not half:
        return
    radius = max(radius, half)
    # The centre lies on the perpendicular of the chord, on the side that the flags choose.
    away = sqrt(max(0.0, radius**2 - half**2)) / half * (-1 if large == sweep else 1)
    cx, cy = (x1 + x2) / 2 - away * (y2 - y1) / 2, (y1 + y2) / 2 + away * (x2 - x1) / 2
    begin, end = atan2(y1 - cy, x1 - cx), atan2(y2 - cy, x2 - cx)
    turn = (end - begin) % (2 * pi) if sweep else -((begin - end) % (2 * pi))
    count = max(1, ceil(abs(turn) / (pi / 2) - 1e-9))
    step = turn / count
    reach = 4 / 3 * tan(step / 4) * radius
    for part in range(count):
        low, high = begin + part * step, begin + (part + 1) * step
        ax, ay, bx, by = (radius * f(angle) for angle in (low, high) for f in (cos, sin))
        last = other if part == count - 1 else (cx + bx, cy + by)
        yield (
            (cx + ax - reach * sin(low), cy + ay + reach * cos(low)),
            (cx + bx + reach * sin(high), cy + by - reach * cos(high)),
            last,
        )


def _pieces(parsed: Iterator[_Piece]) -> list[str | _Piece]:
    return [piece for piece in parsed if piece.parts]


def _circle(element: ElementTree.Element) -> str:
    x, y = float(element.get("cx", 0)), float(element.get("cy", 0))
    return f"({x:.2f}, {y:.2f}) circle [radius={float(element.get('r', 0)):.2f}]"


def _rectangle(element: ElementTree.Element) -> _Piece:
    x, y, width, height = (float(element.get(key, 0)) for key in ("x", "y", "width", "height"))
    corners = [((x + width, y),), ((x + width, y + height),), ((x, y + height),)]
    return _Piece((x, y), corners, closed=True)


def _moved(piece: "str | _Piece", origin: Point) -> str:
    """Write a piece, moved by the origin of its group."""
    ox, oy = origin
    if isinstance(piece, str):
        return piece if origin == (0.0, 0.0) else f"[shift={{({ox:.2f}, {oy:.2f})}}] {piece}"

    def at(point: Point) -> str:
        return f"({point[0] + ox:.2f}, {point[1] + oy:.2f})"

    words = [at(piece.start)]
    for part in piece.parts:
        if len(part) == 1:
            words.append(f"-- {at(part[0])}")
        else:
            words.append(f".. controls {at(part[0])} and {at(part[1])} .. {at(part[2])}")
    return " ".join(words) + (" -- cycle" if piece.closed else "")
