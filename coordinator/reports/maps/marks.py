"""Marks and colours of nodes as SVG, and their legend."""

from collections.abc import Mapping
from html import escape
from typing import NamedTuple

from coordinator.reports.scene.scene import Scene
from coordinator.reports.scene.votes import WORDS, State

STATE_COLOURS: Mapping[State, str] = {State.RIGHT: "#009e73", State.SPLIT: "#56b4e9", State.WRONG: "#d55e00"}
VOTE_COLOURS: Mapping[State, str] = {
    State.WAITING: "color-mix(in srgb, var(--grey) 30%, var(--paper))",
    **STATE_COLOURS,
}
"""Also for open votes."""
BYZANTINE = "var(--purple)"


def cross(x: float, y: float, arm: float, step: int) -> str:
    """Draw the mark of a node that crashed or hung; the script shows it from `step` on."""
    a = arm * 0.8
    return (
        f'<path class="cross" data-step="{step}" stroke-width="{max(1.2, 0.2 * arm):.1f}" '
        f'd="M{x - a:.1f} {y - a:.1f}l{2 * a:.1f} {2 * a:.1f}m0 {-2 * a:.1f}l{-2 * a:.1f} {2 * a:.1f}"/>'
    )


def diamond(x: float, y: float, arm: float) -> str:
    """Draw the mark of a byzantine node."""
    return (
        f'<path class="diamond" stroke-width="{max(1.2, 0.1 * arm):.1f}" d="M{x:.1f} {y - arm:.1f}l{arm:.1f} {arm:.1f}'
        f'l{-arm:.1f} {arm:.1f}l{-arm:.1f} {-arm:.1f}z"/>'
    )


# --- the legend ------------------------------------------------------------------------------------------------------

SHAPES: Mapping[str, str] = {
    "root": '<circle r="6" fill="var(--ink)"/><circle r="9" fill="none" stroke="var(--ink)" stroke-width="1.5"/>',
    "hollow": '<circle r="7.5" fill="none" stroke="var(--ink)" stroke-width="1"/>',
    "cross": '<path d="M-7-7L7 7M7-7L-7 7" stroke="var(--red)" stroke-width="2.4" fill="none"/>',
    "diamond": f'<circle r="5" fill="{BYZANTINE}"/><path d="M0-10L10 0L0 10L-10 0z" fill="none" stroke="{BYZANTINE}" '
    'stroke-width="1.5"/>',
    "link": '<path d="M-10 0H10" stroke="var(--blue)" stroke-width="3" fill="none"/>',
    "forged": '<path d="M-10 0H10" stroke="var(--purple)" stroke-width="3" fill="none"/>',
    "withheld": '<circle r="4.5" fill="var(--paper)" stroke="var(--grey)" stroke-width="2"/>',
    "lost": '<path d="M-10 0H10" stroke="var(--red)" stroke-width="2" stroke-dasharray="5 3" fill="none"/>',
    "pie": '<circle r="7.5" fill="none" stroke="var(--ink)"/><path d="M0 0V-7.5A7.5 7.5 0 1 1-7.5 0z" fill="#21918c"/>',
    **{state.name: f'<circle r="7.5" fill="{colour}" stroke="var(--ink)"/>' for state, colour in STATE_COLOURS.items()},
}
"""Symbols of the legend, centred on the origin."""


class LegendEntry(NamedTuple):
    """An entry of the legend: a symbol (of SHAPES, or none) and its meaning."""

    shape: str
    words: str

    @property
    def html(self) -> str:
        """The entry for a page."""
        if not self.shape:
            return escape(self.words)
        symbol = f'<svg viewBox="-10 -10 20 20" aria-hidden="true">{SHAPES[self.shape]}</svg>'
        return f'<span class="key">{symbol}{escape(self.words)}</span>'


def node_keys(scene: Scene, *, pies: bool) -> list[LegendEntry]:
    """Return the entries of the legend for marks and colours of nodes."""
    keys = [LegendEntry("root", "target" if scene.giving else "source")] if scene.source is not None else []
    if scene.votes is not None:
        keys += [LegendEntry(state.name, WORDS[state]) for state in STATE_COLOURS]
        if pies:
            keys.append(LegendEntry("pie", "the share of what a node is due"))
        else:
            keys.append(
                LegendEntry("hollow", "nothing arrived; grey: not everything, or more copies may change the vote")
            )
    elif pies:
        keys.append(LegendEntry("pie", "the share that a node has of what it is due, in the colours of the steps"))
    else:
        done = "has sent everything" if scene.giving else "has everything"
        keys.append(LegendEntry("hollow", f"not yet; colours: the step from which on a node {done}"))
    for shape in ("cross", "diamond"):
        states = sorted({mark.state for mark in scene.broken.values() if mark.shape == shape})
        keys += [LegendEntry(shape, " or ".join(states))] if states else []
    return keys
