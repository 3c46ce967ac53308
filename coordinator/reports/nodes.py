"""The nodes of a drawn network: their circles, pies, labels and marks, and what these mean."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import cos, pi, sin
from typing import NamedTuple

import polars as pl

from coordinator.reports.data import RunData
from coordinator.reports.layout import Layout, Ranks
from coordinator.reports.theme import viridis
from coordinator.reports.votes import WORDS, State, Votes

GIVING = ("gather", "reduce")
ALL_TO_ALL = ("allgather", "alltoall")
SLICES = 24
"""At most so many slices of different colour in the pie of a node; fewer where there are many nodes."""
NODES_WITH_SLICES = 200
SMALLEST_LETTERS = 8.0
"""Labels that would be smaller (in units of the picture) are left out."""
PHONE_LETTERS = 28.0
"""Letters on a small screen, where a picture of 1000 units is about 350 pixels wide."""
STATE_COLOURS: Mapping[State, str] = {State.RIGHT: "#009e73", State.SPLIT: "#56b4e9", State.WRONG: "#d55e00"}
BYZANTINE = "var(--purple)"
CROSSED = ("crash", "hang")


@dataclass
class Frames:
    """What the script needs: for every frame its name, its busy links and what each node got."""

    names: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    colours: list[str] = field(default_factory=list)
    links: list[list[int]] = field(default_factory=list)
    loads: list[list[int]] = field(default_factory=list)
    lost: list[list[int]] = field(default_factory=list)
    gains: list[list[int]] = field(default_factory=list)
    """Node, pieces, node, pieces, .."""


def giving(data: RunData) -> bool:
    """Whether nodes are judged by what they send."""
    return data.get("collective") in GIVING


class NodeMark(NamedTuple):
    """What is broken about a node, and from which step on."""

    kind: str
    step: int


def broken_nodes(data: RunData) -> dict[int, NodeMark]:
    """Rank -> the first fault of the node itself."""
    found: dict[int, NodeMark] = {}
    for fault in data.faults:
        rank, step, kind = fault.get("rank"), fault.get("step"), fault.get("kind")
        if (
            kind in (*CROSSED, "byzantine")
            and isinstance(rank, int)
            and isinstance(step, int)
            and 0 <= rank < data.order
        ):
            found.setdefault(rank, NodeMark(str(kind), step))
    return found


def count_of(number: int, noun: str) -> str:
    """A number and its noun, in the singular or the plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass
class Nodes:
    """The nodes of a small network as they stand at the end of the run."""

    layout: Layout
    labels: Sequence[str]
    steps: int
    finish: Ranks
    gained: Sequence[int]
    full: Sequence[int]
    source: int | None
    broken: Mapping[int, NodeMark]
    votes: Votes | None
    pies: bool
    giving: bool

    @property
    def font(self) -> float:
        """Size of labels that fit into their nodes."""
        return min(17.0, 1.75 * self.layout.radius / (0.58 * self._letters))

    @property
    def labelled(self) -> bool:
        """Whether labels are large enough to be read."""
        return self.font >= SMALLEST_LETTERS

    @property
    def labelled_on_phones(self) -> bool:
        """Whether labels of a size that can be read on a small screen fit between nodes."""
        return self.labelled and 0.58 * PHONE_LETTERS * self._letters < 0.98 * self.layout.spacing

    @property
    def _letters(self) -> int:
        return max((len(label) for label in self.labels), default=1)

    @property
    def byzantine(self) -> list[int]:
        """Ranks that alter what they pass on."""
        return [rank for rank, mark in self.broken.items() if mark.kind == "byzantine"]

    @property
    def fixed(self) -> list[int]:
        """Ranks whose colour is the same in every step."""
        judged = self.votes is not None and self.source is not None and bool(self.votes.due[self.source])
        return sorted({*self.byzantine, *([] if self.source is None or judged else [self.source])})

    def draw(self, frames: Frames) -> list[str]:
        """Circles, what is in them and around them; a cross stays clear of a label."""
        x, y, radius = self.layout.x.tolist(), self.layout.y.tolist(), self.layout.radius
        fixed, circles, names = set(self.fixed), [], []
        for rank, label in enumerate(self.labels):
            fill, ink = self._colours(rank, fixed)
            circles.append(
                f'<circle class="node" cx="{x[rank]:.1f}" cy="{y[rank]:.1f}" r="{radius:.1f}" fill="{fill}">'
                f"<title>{escape(self._tip(rank))}</title></circle>"
            )
            if self.labelled:
                names.append(
                    f'<text class="name" x="{x[rank]:.1f}" y="{y[rank]:.1f}" font-size="{self.font:.1f}" fill="{ink}">'
                    f"{escape(label)}</text>"
                )
        size = "large" if self.labelled_on_phones else "none"
        halo = " halo" if self.pies else ""
        layers = [f'<g id="nodes">{"".join(circles)}</g>', *(self._slices(frames) if self.pies else [])]
        layers.append(f'<g id="names" class="names {size}{halo}">{"".join(names)}</g>')
        crosses = [
            cross(x[rank], y[rank], (1.6 if self.labelled else 1.25) * radius, mark.step)
            for rank, mark in self.broken.items()
            if mark.kind in CROSSED
        ]
        around = [diamond(x[rank], y[rank], 1.62 * radius) for rank in self.byzantine]
        if self.source is not None:
            around.append(
                f'<circle class="ring" cx="{x[self.source]:.1f}" cy="{y[self.source]:.1f}" r="{1.32 * radius:.1f}" '
                f'stroke-width="{max(1.0, 0.13 * radius):.1f}"/>'
            )
        return [*crosses, *layers, *around] if self.labelled else [*layers, *crosses, *around]

    def _colours(self, rank: int, fixed: set[int]) -> tuple[str, str]:
        """Of a node and its label."""
        if rank in fixed:
            return (BYZANTINE, "#111") if rank in self.byzantine else ("var(--ink)", "var(--paper)")
        if self.pies:
            return "var(--paper)", "var(--ink)"
        if self.votes is not None:
            colour = STATE_COLOURS.get(State(int(self.votes.state[rank])))
            return (colour, "#111") if colour else ("var(--paper)", "var(--ink)")
        done = int(self.finish[rank])
        if not done:
            return "var(--paper)", "var(--ink)"
        share = (done - 1) / (self.steps - 1) if self.steps > 1 else 0.6
        return viridis(share), "#fff" if share < 0.55 else "#111"

    def _tip(self, rank: int) -> str:
        words = [f"{self.labels[rank]} (rank {rank})"]
        done, mark = int(self.finish[rank]), self.broken.get(rank)
        if rank == self.source:
            words.append("target" if self.giving else "source")
        if mark is not None:
            words.append(f"{mark.kind} from step {mark.step}")
        elif self.votes is not None and self.votes.due[rank]:
            words.append(WORDS[State(int(self.votes.state[rank]))])
            words += [f"last copy in step {self.votes.settled[rank]}"] if self.votes.settled[rank] else []
        elif done:
            words.append(
                f"done in step {done}" if self.gained[rank] >= self.full[rank] else f"last heard in step {done}"
            )
        elif rank != self.source:
            words.append("nothing arrived" if not self.giving else "sent nothing")
        if self.pies and self.votes is None:
            words.append(f"{self.gained[rank]:,} of {self.full[rank]:,} pieces")
        elif self.gained[rank] and self.votes is None:
            words.append(count_of(self.gained[rank], "piece"))
        return ", ".join(words)

    def _slices(self, frames: Frames) -> list[str]:
        """What every node got, clockwise from the top, by colour; and the pies that the script draws."""
        have, parts = [0] * len(self.labels), []
        for colour, got in self._votes_by_colour() if self.votes is not None else self._pieces_by_colour(frames):
            drawn = []
            for rank, pieces in sorted(got.items()):
                drawn.append(self._slice(rank, have[rank], have[rank] + pieces))
                have[rank] += pieces
            parts.append(f'<path class="slice" fill="{colour}" d="{"".join(drawn)}"/>')
        empty = "".join('<path class="progress" d=""/>' for _ in State)
        return [f'<g id="slices">{"".join(parts)}</g>', f'<g id="progress">{empty}</g>']

    def _pieces_by_colour(self, frames: Frames) -> Iterator[tuple[str, dict[int, int]]]:
        """Pieces that each node got in a few steps, in the colour of these."""
        count = len(frames.gains)
        every = max(1, -(-count // (SLICES if len(self.labels) <= NODES_WITH_SLICES else SLICES // 3)))
        for first in range(0, count, every):
            got: dict[int, int] = {}
            for gains in frames.gains[first : first + every]:
                for rank, pieces in zip(gains[::2], gains[1::2], strict=True):
                    got[rank] = got.get(rank, 0) + pieces
            yield frames.colours[min(first + every // 2, count - 1)], got

    def _votes_by_colour(self) -> Iterator[tuple[str, dict[int, int]]]:
        """Pieces of each node by what was elected."""
        assert self.votes is not None
        for state, colour in STATE_COLOURS.items():
            table = self.votes.pieces.filter(pl.col("state") == state).group_by("rank").agg(pl.col("count").sum())
            yield colour, dict(table.iter_rows())

    def _slice(self, rank: int, low: int, high: int) -> str:
        x, y, r = float(self.layout.x[rank]), float(self.layout.y[rank]), self.layout.radius
        full = self.full[rank] or 1
        start, end = (2 * pi * min(1.0, pieces / full) for pieces in (low, high))
        if end - start > 2 * pi - 1e-6:
            return f"M{x:.1f} {y - r:.1f}a{r:.1f} {r:.1f} 0 1 1 -.01 0z"
        return (
            f"M{x:.1f} {y:.1f}L{x + r * sin(start):.2f} {y - r * cos(start):.2f}A{r:.1f} {r:.1f} 0 "
            f"{int(end - start > pi)} 1 {x + r * sin(end):.2f} {y - r * cos(end):.2f}z"
        )


def cross(x: float, y: float, arm: float, step: int) -> str:
    """The mark of a node that crashed or hung, shown from its step on."""
    a = arm * 0.8
    return (
        f'<path class="cross" data-step="{step}" stroke-width="{max(1.2, 0.2 * arm):.1f}" '
        f'd="M{x - a:.1f} {y - a:.1f}l{2 * a:.1f} {2 * a:.1f}m0 {-2 * a:.1f}l{-2 * a:.1f} {2 * a:.1f}"/>'
    )


def diamond(x: float, y: float, arm: float) -> str:
    """The mark of a byzantine node."""
    return (
        f'<path class="diamond" stroke-width="{max(1.2, 0.1 * arm):.1f}" d="M{x:.1f} {y - arm:.1f}l{arm:.1f} {arm:.1f}'
        f'l{-arm:.1f} {arm:.1f}l{-arm:.1f} {-arm:.1f}z"/>'
    )


# The legend.

SHAPES: Mapping[str, str] = {
    "root": '<circle r="6" fill="var(--ink)"/><circle r="9" fill="none" stroke="var(--ink)" stroke-width="1.5"/>',
    "hollow": '<circle r="7.5" fill="none" stroke="var(--ink)" stroke-width="1"/>',
    "cross": '<path d="M-7-7L7 7M7-7L-7 7" stroke="var(--red)" stroke-width="2.4" fill="none"/>',
    "byzantine": f'<circle r="5" fill="{BYZANTINE}"/><path d="M0-10L10 0L0 10L-10 0z" fill="none" stroke="{BYZANTINE}" '
    'stroke-width="1.5"/>',
    "link": '<path d="M-10 0H10" stroke="var(--blue)" stroke-width="3" fill="none"/>',
    "lost": '<path d="M-10 0H10" stroke="var(--red)" stroke-width="2" stroke-dasharray="5 3" fill="none"/>',
    "pie": '<circle r="7.5" fill="none" stroke="var(--ink)"/><path d="M0 0V-7.5A7.5 7.5 0 1 1-7.5 0z" fill="#21918c"/>',
    **{state.name: f'<circle r="7.5" fill="{colour}" stroke="var(--ink)"/>' for state, colour in STATE_COLOURS.items()},
}
"""Of the legend: what stands before the words."""


def key(shape: str, words: str) -> str:
    """An entry of the legend, as HTML."""
    return (
        f'<span class="key"><svg viewBox="-10 -10 20 20" aria-hidden="true">{SHAPES[shape]}</svg>{escape(words)}</span>'
    )


def node_keys(
    data: RunData, broken: Mapping[int, NodeMark], votes: Votes | None, *, pies: bool, root: bool
) -> list[str]:
    """What marks and colours of nodes mean."""
    keys = [key("root", "target" if giving(data) else "source")] if root else []
    if votes is not None:
        keys += [key(state.name, WORDS[state]) for state in STATE_COLOURS]
        if pies:
            keys.append(key("pie", "how much of all that a node is to get"))
        else:
            keys.append(key("hollow", "nothing, or not everything, arrived; grey: copies are still to come"))
    elif pies:
        keys.append(key("pie", "how much a node has of all that it is to get, in the colour of the step"))
    else:
        done = "it has sent all it had to send" if giving(data) else "the last it was to get arrived"
        keys.append(key("hollow", f"not yet, or never; else the colour of the step in which {done}"))
    kinds = {mark.kind for mark in broken.values()}
    if kinds & set(CROSSED):
        keys.append(
            key("cross", " or ".join(word for kind, word in (("crash", "crashed"), ("hang", "hung")) if kind in kinds))
        )
    if "byzantine" in kinds:
        keys.append(key("byzantine", "byzantine"))
    return keys
