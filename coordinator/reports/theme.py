"""Colours and styles that all figures share.

Colours are CSS variables; a page gives them values for light, dark and print. They come from the palette of Okabe and
Ito and from viridis, both readable with any colour vision; shape or text repeats whatever a colour says.
"""

import re
from collections.abc import Mapping

VIRIDIS = ("#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725")
LIGHT: Mapping[str, str] = {
    "paper": "#ffffff", "ink": "#1d2733", "muted": "#5c6875", "grid": "#dfe4ea", "panel": "#f6f8fa",
    "blue": "#0072b2", "sky": "#3a9ad9", "orange": "#c98500", "green": "#009e73", "red": "#d55e00", "grey": "#8a949e",
    "purple": "#b5679b", "holds": "#00714f", "violated": "#ad4600", "undecided": "#8a5a00",
}  # fmt: skip
DARK: Mapping[str, str] = {
    "paper": "#12171d", "ink": "#e3e8ee", "muted": "#98a4b0", "grid": "#2b343e", "panel": "#1a2128",
    "blue": "#4da3dc", "sky": "#7cc6f0", "orange": "#e69f00", "green": "#2fbf95", "red": "#f07f33", "grey": "#77828d",
    "purple": "#cc79a7", "holds": "#2fbf95", "violated": "#f07f33", "undecided": "#e69f00",
}  # fmt: skip

TREE_COLOURS = ("blue", "orange", "green", "purple", "sky", "ink")
"""Colours of trees, without the red of lost packets; the seventh tree has the colour of the first, dashed."""
TREE_CLASSES = 2 * len(TREE_COLOURS)
"""Styles of trees: a thirteenth tree looks as the first."""

CHART_CSS = """
.chart text, .map text { font-family: system-ui, "Segoe UI", "Helvetica Neue", Arial, sans-serif; }
.chart text { font-size: 11px; fill: var(--muted); }
.chart .axis { stroke: var(--grid); fill: none; }
.chart .title { font-size: 12.5px; fill: var(--ink); font-weight: 600; }
.chart .fault { stroke: var(--red); stroke-dasharray: 3 2; fill: none; }
.chart .flag { fill: var(--red); stroke: none; }
.chart .line { fill: none; stroke-width: 2; stroke-linejoin: round; }
.chart .cursor { fill: var(--ink); opacity: .1; }
.chart .end { text-anchor: end; }
.chart .middle { text-anchor: middle; }
"""
RESPONSIVE_CSS = """
.chart.narrow { display: none; }
@media screen and (max-width: 640px) {
  .chart.full { display: none; }
  .chart.narrow { display: block; }
}
"""
"""For pages that hold charts in both forms of `responsive`."""


def colour_variables() -> str:
    """Return CSS that defines every colour variable for light and for dark screens; print uses the light values."""

    def block(colours: Mapping[str, str]) -> str:
        return "".join(f"--{name}:{value};" for name, value in colours.items())

    light, dark = block(LIGHT), block(DARK)
    return (
        f":root{{color-scheme:light dark;{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
    )


def tree_colours() -> str:
    """Return CSS that gives the trees 0, 1, .. their colours, on maps, in drawings of levels, in charts and in tables."""
    rules = []
    for at in range(TREE_CLASSES):
        colour = f"var(--{TREE_COLOURS[at % len(TREE_COLOURS)]})"
        dashes = "" if at < len(TREE_COLOURS) else ";stroke-dasharray:6 4"
        rules.append(f"#overlay .tree{at},.levels .tree{at},.chart .tree{at}{{stroke:{colour}{dashes}}}")
        filled = f"repeating-linear-gradient(90deg,{colour} 0 4px,transparent 4px 6px)" if dashes else colour
        rules.append(f".swatch.tree{at}{{background:{filled}}}")
    return "\n".join(rules) + "\n"


def viridis(share: float) -> str:
    """Return the colour for a share from 0 (dark) to 1 (bright)."""
    # The darkest 15 percent of the scale cannot be told from a dark page.
    at = (0.15 + 0.83 * min(1.0, max(0.0, share))) * (len(VIRIDIS) - 1)
    low = min(int(at), len(VIRIDIS) - 2)
    one, other = (tuple(int(VIRIDIS[i][k : k + 2], 16) for k in (1, 3, 5)) for i in (low, low + 1))
    return "#" + "".join(f"{round(a + (b - a) * (at - low)):02x}" for a, b in zip(one, other, strict=True))


def _channels(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def brightness(colour: str) -> float:
    """Return the brightness of an opaque colour such as #1a2b3c, from 0 to 255."""
    return sum(weight * part for weight, part in zip((0.3, 0.59, 0.11), _channels(colour), strict=True))


def mixture(one: str, other: str, share: float) -> str:
    """Mix `share` of the first colour with the rest of the second."""
    mixed = (round(share * a + (1 - share) * b) for a, b in zip(_channels(one), _channels(other), strict=True))
    return "#" + "".join(f"{part:02x}" for part in mixed)


def in_light_colours(svg: str) -> str:
    """Replace variables and mixtures in a drawing by the values of light screens, for programs that know neither."""
    plain = re.sub(r"var\(--(\w+)\)", lambda found: LIGHT[found[1]], svg)
    return re.sub(
        r"color-mix\(in srgb, (#\w{6}) (\d+)%, (#\w{6})\)",
        lambda found: mixture(found[1], found[3], int(found[2]) / 100),
        plain,
    )


def without_media(css: str) -> str:
    """Return a style sheet without its rules for some screens or for print, for programs that know one medium."""
    return re.sub(r"@media[^{]*\{(?:[^{}]*\{[^{}]*\})*\s*\}", "", css)


def standalone(figure: str) -> str:
    """Write a chart as an SVG document, in the light colours on a white background."""
    css, figure = in_light_colours(CHART_CSS), in_light_colours(figure)
    head, _, rest = figure.partition(">")
    _, _, width, height = re.search(r'viewBox="([^"]*)"', head)[1].split()  # type: ignore[index]
    return (
        f'{head} xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"><style>{css}</style>'
        f'<rect width="{width}" height="{height}" fill="{LIGHT["paper"]}"/>{rest}\n'
    )
