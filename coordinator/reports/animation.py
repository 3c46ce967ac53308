"""The map of a run as pictures, one per position of the slider, and as an animated GIF: `coordinator export RUN --gif FILE`.

The pictures follow from the drawing and the data of its script, as on the page (`templates/report/steps.js`), in light
colours. Below the map stands the sentence of the step.
"""

import re
from collections.abc import Sequence
from html import escape
from io import BytesIO
from math import cos, pi, sin
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

from coordinator.history.run_directory import replace_file
from coordinator.reports.data import RunData
from coordinator.reports.interactive.packing import unpack
from coordinator.reports.maps.base import NetworkMap
from coordinator.reports.maps.link_map import LINE, width_class
from coordinator.reports.network_svg import CSS
from coordinator.reports.panels.base import Report
from coordinator.reports.raster import png_of
from coordinator.reports.theme import LIGHT
from emunode.errors import ScenarioError

STRIP: Final = 56
"""Height of the strip with the sentence, in units of the map."""
LETTERS: Final = 100
"""Longest sentence in one line."""
SECONDS: Final = 0.7
MANY_FRAMES: Final = 60
SECONDS_OF_MANY: Final = 0.15
LAST_SECONDS: Final = 2.5


def write_gif(data: RunData, path: Path) -> Path:
    """Write the animation of a run and return its path.

    Raises ScenarioError (field `gif`) if the run has no steps to show, a package is missing, or the file cannot be written.
    """
    picture = Report(data).picture
    if picture is None or not picture.frames:
        raise ScenarioError(
            "gif", str(path), "the run has no steps to show: " + ("; ".join(data.notes) or "nothing was sent")
        )
    try:
        from PIL import Image  # noqa: PLC0415  # optional
    except ImportError:
        raise ScenarioError(
            "gif", str(path), "a GIF needs the Python package pillow (pip install 'pillow>=11')"
        ) from None

    def image(frame: int) -> Image.Image:
        return Image.open(BytesIO(png_of(map_at(picture, frame), "gif", path, zoom=1))).convert("RGB")

    # One palette for all pictures, from the last one, which has every colour: a palette of its own would make each flicker.
    palette = image(picture.frames - 1).quantize(256)
    # One at a time: the pictures of a long run would take a gigabyte.
    pictures = (image(at).quantize(palette=palette, dither=Image.Dither.NONE) for at in range(picture.frames))
    each = SECONDS if picture.frames <= MANY_FRAMES else SECONDS_OF_MANY
    durations = [round(1000 * each)] * (picture.frames - 1) + [round(1000 * LAST_SECONDS)]
    content = BytesIO()
    next(pictures).save(content, "GIF", save_all=True, append_images=pictures, duration=durations, loop=0)
    try:
        replace_file(path, content.getvalue())
    except OSError as error:
        raise ScenarioError("gif", str(path), f"cannot be written: {error.strerror}") from None
    return path


def map_at(picture: NetworkMap, frame: int) -> str:
    """The map at one position of the slider, from 0, as an SVG document."""
    return _Drawing(picture).document(frame)


class _Drawing:
    """The elements of a map, to be changed for one frame."""

    def __init__(self, picture: NetworkMap) -> None:
        self.script: dict[str, Any] = picture.script
        self.root = ElementTree.fromstring(picture.svg)
        named = {each.get("id"): each for each in self.root.iter() if each.get("id")}
        self.named = named
        self.circles = list(named["nodes"]) if "nodes" in named else []
        self.names = list(named["names"]) if "names" in named else []

    def document(self, frame: int) -> str:
        """The map in this frame."""
        script, kind = self.script, self.script["kind"]
        if kind == "links":
            self._draw_links(frame)
            if script["votes"]:
                self._draw_votes(frame)
            else:
                self._draw_nodes(frame)
        elif kind == "levels":
            self._draw_levels(frame)
        for each in self.root.iter():
            if each.get("class") == "cells" and int(each.get("data-frame", 0)) > frame:
                each.set("opacity", "0.13")
            if each.get("class") == "cross" and int(each.get("data-step", 0)) > script["last"][frame]:
                each.set("display", "none")
        text = f"step {script['names'][frame]} of {script['last'][-1]}: {script['texts'][frame]}"
        return self._document(text)

    def _document(self, text: str) -> str:
        width, height = map(float, self.root.attrib["viewBox"].split()[2:])
        css = re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*\s*\}", "", CSS)
        body = "".join(ElementTree.tostring(each, encoding="unicode") for each in self.root)
        shown = text if len(text) <= LETTERS else text[: LETTERS - 1] + "…"
        return _in_light_colours(
            f'<svg xmlns="http://www.w3.org/2000/svg" class="map" viewBox="0 0 {width:.0f} {height + STRIP:.0f}" '
            f'width="{width:.0f}" height="{height + STRIP:.0f}">'
            f"<style>{css}text{{font-family:sans-serif}}</style>"
            f'<rect width="{width:.0f}" height="{height + STRIP:.0f}" fill="{LIGHT["paper"]}"/>{body}'
            f'<text x="20" y="{height + STRIP / 2:.0f}" font-size="20" fill="var(--ink)">{escape(shown)}</text></svg>'
        )

    # --- links

    def _draw_links(self, frame: int) -> None:
        script, named = self.script, self.named
        flows = [named[f"flow{at}"] for at in range(3)]
        paths = [line for flow in flows for line in _lines(flow)]
        heads = _lines(named["heads"])
        most = max((load for packed in script["loads"] for load in unpack(packed)), default=1)
        links, loads = unpack(script["links"][frame]), unpack(script["loads"][frame])
        for at, flow in enumerate(flows):
            busy = (link for link, load in zip(links, loads, strict=True) if width_class(load, most) == at)
            flow.set("d", LINE.join(paths[link] for link in busy))
        named["heads"].set("d", LINE.join(heads[link] for link in links) if heads else "")
        named["lost"].set("d", LINE.join(paths[link] for link in unpack(script["lost"][frame])))

    # --- nodes

    def _paint(self, rank: int, fill: str, ink: str, *, fresh: bool) -> None:
        if rank not in self.script["fixed"]:
            self.circles[rank].set("fill", fill)
            if self.names:
                self.names[rank].set("fill", ink)
        self.circles[rank].set("style", f"stroke-width:{3 if fresh else 1}")

    def _draw_nodes(self, frame: int) -> None:
        script = self.script
        have, when = [0] * len(self.circles), [-1] * len(self.circles)
        for at in range(frame + 1):
            gains = unpack(script["gains"][at])
            for rank, segments in zip(gains[::2], gains[1::2], strict=True):
                have[rank] += segments
                when[rank] = at
        shares = [min(1.0, got / full) if full else 0.0 for got, full in zip(have, script["full"], strict=True)]
        if script["pies"]:
            self._draw_pies([(script["colours"][frame], [(0.0, share) for share in shares])])
        for rank, share in enumerate(shares):
            fresh, never = when[rank] == frame, when[rank] < 0
            if script["pies"] or never:
                self._paint(rank, "var(--paper)", "var(--ink)", fresh=fresh)
                continue
            colour = script["colours"][when[rank]]
            fill = colour if share == 1 else _mixture(colour, LIGHT["paper"], round(20 + 80 * share) / 100)
            ink = "var(--ink)" if share < 0.6 else "#111" if _brightness(colour) > 125 else "#fff"
            self._paint(rank, fill, ink, fresh=fresh)

    def _draw_votes(self, frame: int) -> None:
        script, votes = self.script, self.script["votes"]
        waiting = _mixture(LIGHT["grey"], LIGHT["paper"], 0.3)
        for rank in range(len(self.circles)):
            over = 0 <= votes["settled"][rank] <= frame and votes["state"][rank]
            some = 0 <= votes["heard"][rank] <= frame
            plain = script["pies"] or not (over or some)
            fill = "var(--paper)" if plain else votes["colours"][votes["state"][rank]] if over else waiting
            ink = "#111" if over and not script["pies"] else "var(--ink)"
            self._paint(rank, fill, ink, fresh=votes["settled"][rank] == frame)
        if not script["pies"]:
            return
        kinds = range(len(votes["colours"]))
        have = [[0] * len(kinds) for _ in self.circles]
        for gains in votes["gains"][: frame + 1]:
            for rank, state, segments in zip(gains[::3], gains[1::3], gains[2::3], strict=True):
                have[rank][state] += segments
        low = [0.0] * len(self.circles)
        parts = []
        for kind in kinds:
            high = [start + got[kind] / full for start, got, full in zip(low, have, script["full"], strict=True)]
            parts.append((votes["colours"][kind], list(zip(low, high, strict=True))))
            low = high
        self._draw_pies(parts)

    def _draw_pies(self, parts: Sequence[tuple[str, Sequence[tuple[float, float]]]]) -> None:
        """Slices from a lower to an upper share, for each colour one per node."""
        self.named["slices"].set("display", "none")
        for path, (colour, shares) in zip(self.named["progress"], parts, strict=False):
            path.set("fill", colour or "none")
            path.set("d", "".join(_slice(circle, *share) for circle, share in zip(self.circles, shares, strict=True)))

    def _draw_levels(self, frame: int) -> None:
        levels = [each for each in self.root.iter() if (each.get("class") or "").startswith("level")]
        for at, level in enumerate(levels):
            squares = zip(self.script["squares"], self.script["levels"][frame], strict=True)
            level.set("d", "".join(square for square, digit in squares if int(digit) == at))


def _lines(path: ElementTree.Element) -> list[str]:
    # A parser of XML turns the line breaks of an attribute into spaces. Nothing else in a path is a space before an M.
    return re.split(r"\s(?=M)", path.get("d", "")) if path.get("d") else []


def _slice(circle: ElementTree.Element, low: float, high: float) -> str:
    x, y, r = (float(circle.attrib[name]) for name in ("cx", "cy", "r"))
    if high <= low:
        return ""
    if high - low > 1 - 1e-6:
        return f"M{x} {y - r}a{r} {r} 0 1 1 -.01 0z"
    (ax, ay), (bx, by) = ((x + r * sin(2 * pi * share), y - r * cos(2 * pi * share)) for share in (low, high))
    return f"M{x} {y}L{ax:.2f} {ay:.2f}A{r} {r} 0 {int(high - low > 0.5)} 1 {bx:.2f} {by:.2f}z"


def _in_light_colours(svg: str) -> str:
    return re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], svg)


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def _brightness(colour: str) -> float:
    return sum(weight * part for weight, part in zip((0.3, 0.59, 0.11), _channels(colour), strict=True))


def _mixture(one: str, other: str, share: float) -> str:
    """`share` of the first colour and the rest of the second."""
    mixed = (round(share * a + (1 - share) * b) for a, b in zip(_channels(one), _channels(other), strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)
