"""The nodes of a small network: circles, pies and labels."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import cos, pi, sin

import polars as pl

from coordinator.reports.maps.base import MapRun
from coordinator.reports.maps.frames import Frames
from coordinator.reports.maps.marks import BYZANTINE, STATE_COLOURS, cross, diamond
from coordinator.reports.numbers import plural
from coordinator.reports.theme import viridis
from coordinator.reports.votes import WORDS, State

SLICES = 24
"""Slices of different colours in the pie of a node, at most; a quarter of it in networks above `NODES_WITH_SLICES`."""
NODES_WITH_SLICES = 200
SMALLEST_LETTERS = 8.0
"""Smaller labels (in units of the drawing) are omitted."""
PHONE_LETTERS = 28.0
"""Letters on a small screen, on which a drawing of 1000 units is about 350 pixels wide."""


@dataclass
class Nodes:
    """The nodes at the end of the run; `gained` and `full` are segments by rank (see `MapRun.full`)."""

    run: MapRun
    gained: Sequence[int]
    full: Sequence[int]

    def __post_init__(self) -> None:
        self.labels = self.run.labels
        self.source = self.run.source
        # Shares need the journal.
        self.pies = self.run.all_to_all and self.run.hops is not None
        self._letters = max(map(len, self.labels), default=1)

    @property
    def font(self) -> float:
        """Size of labels that fit into their nodes."""
        return min(17.0, 1.75 * self.run.layout.radius / (0.58 * self._letters))

    @property
    def labelled(self) -> bool:
        """Whether labels are large enough to read."""
        return self.font >= SMALLEST_LETTERS

    @property
    def labelled_on_phones(self) -> bool:
        """Whether labels that are legible on a small screen fit between nodes."""
        return self.labelled and 0.58 * PHONE_LETTERS * self._letters < 0.98 * self.run.layout.spacing

    @property
    def byzantine(self) -> list[int]:
        """Ranks of byzantine nodes."""
        return [rank for rank, mark in self.run.broken.items() if mark.shape == "diamond"]

    @property
    def fixed(self) -> list[int]:
        """Ranks whose colour is the same at every step."""
        judged = self.run.votes is not None and self.source is not None and bool(self.run.votes.due[self.source])
        return sorted({*self.byzantine, *([] if self.source is None or judged else [self.source])})

    def draw(self, frames: Frames) -> list[str]:
        """Circles with their pies, labels and marks."""
        x, y, radius = self.run.layout.x.tolist(), self.run.layout.y.tolist(), self.run.layout.radius
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
            for rank, mark in self.run.broken.items()
            if mark.shape == "cross"
        ]
        around = [diamond(x[rank], y[rank], 1.62 * radius) for rank in self.byzantine]
        if self.source is not None:
            around.append(
                f'<circle class="ring" cx="{x[self.source]:.1f}" cy="{y[self.source]:.1f}" r="{1.32 * radius:.1f}" '
                f'stroke-width="{max(1.0, 0.13 * radius):.1f}"/>'
            )
        # Below labels, so that a cross does not hide one; above circles where there are no labels.
        return [*crosses, *layers, *around] if self.labelled else [*layers, *crosses, *around]

    def _colours(self, rank: int, fixed: set[int]) -> tuple[str, str]:
        """Colours of a node and of its label."""
        if rank in fixed:
            return (BYZANTINE, "#111") if rank in self.byzantine else ("var(--ink)", "var(--paper)")
        if self.pies:
            return "var(--paper)", "var(--ink)"
        if self.run.votes is not None:
            colour = STATE_COLOURS.get(State(int(self.run.votes.state[rank])))
            return (colour, "#111") if colour else ("var(--paper)", "var(--ink)")
        done = int(self.run.finish[rank])
        if not done:
            return "var(--paper)", "var(--ink)"
        share = (done - 1) / (self.run.steps - 1) if self.run.steps > 1 else 0.6
        return viridis(share), "#fff" if share < 0.55 else "#111"

    def _tip(self, rank: int) -> str:
        words = [f"{self.labels[rank]} (rank {rank})"]
        done, mark = int(self.run.finish[rank]), self.run.broken.get(rank)
        if rank == self.source:
            words.append("target" if self.run.giving else "source")
        if mark is not None:
            words.append(f"{mark.kind} from step {mark.step}")
        elif self.run.votes is not None and self.run.votes.due[rank]:
            words.append(WORDS[State(int(self.run.votes.state[rank]))])
            words += [f"last copy in step {self.run.votes.settled[rank]}"] if self.run.votes.settled[rank] else []
        elif done:
            known = self.run.hops is not None and self.gained[rank] >= self.full[rank]
            words.append(f"done in step {done}" if known else f"last received in step {done}")
        elif rank != self.source and (self.run.hops is not None or not self.run.giving):
            words.append("nothing arrived" if not self.run.giving else "sent nothing")
        if self.pies and self.run.votes is None:
            words.append(f"{self.gained[rank]:,} of {self.full[rank]:,} segments")
        elif self.gained[rank] and self.run.votes is None and self.run.hops is not None:
            words.append(plural(self.gained[rank], "segment"))
        return ", ".join(words)

    def _slices(self, frames: Frames) -> list[str]:
        """The pies of the whole run, clockwise from the top, and empty paths for those that the script draws."""
        have, parts = [0] * len(self.labels), []
        for colour, got in self._votes_by_colour() if self.run.votes is not None else self._segments_by_colour(frames):
            drawn = []
            for rank, segments in sorted(got.items()):
                drawn.append(self._slice(rank, have[rank], have[rank] + segments))
                have[rank] += segments
            parts.append(f'<path class="slice" fill="{colour}" d="{"".join(drawn)}"/>')
        empty = "".join('<path class="progress" d=""/>' for _ in State)
        return [f'<g id="slices">{"".join(parts)}</g>', f'<g id="progress">{empty}</g>']

    def _segments_by_colour(self, frames: Frames) -> Iterator[tuple[str, dict[int, int]]]:
        """For every few frames, their colour and the segments that each node received in them."""
        count = len(frames.gains)
        every = max(1, -(-count // (SLICES if len(self.labels) <= NODES_WITH_SLICES else SLICES // 4)))
        for first in range(0, count, every):
            got: dict[int, int] = {}
            for gains in frames.gains[first : first + every]:
                for rank, segments in zip(gains[::2], gains[1::2], strict=True):
                    got[rank] = got.get(rank, 0) + segments
            yield frames.colours[min(first + every // 2, count - 1)], got

    def _votes_by_colour(self) -> Iterator[tuple[str, dict[int, int]]]:
        """For every state, its colour and the segments of each node in that state."""
        assert self.run.votes is not None
        for state, colour in STATE_COLOURS.items():
            table = self.run.votes.segments.filter(pl.col("state") == state).group_by("rank").agg(pl.col("count").sum())
            yield colour, dict(table.iter_rows())

    def _slice(self, rank: int, low: int, high: int) -> str:
        x, y, r = float(self.run.layout.x[rank]), float(self.run.layout.y[rank]), self.run.layout.radius
        full = self.full[rank] or 1
        start, end = (2 * pi * min(1.0, segments / full) for segments in (low, high))
        if end - start > 2 * pi - 1e-6:
            return f"M{x:.1f} {y - r:.1f}a{r:.1f} {r:.1f} 0 1 1 -.01 0z"
        # Coordinates relative to the one before are short, which counts with thousands of slices.
        ax, ay, bx, by = r * sin(start), -r * cos(start), r * sin(end), -r * cos(end)
        arc = f"a{r:.1f} {r:.1f} 0 {int(end - start > pi)} 1 {bx - ax:.1f} {by - ay:.1f}"
        return f"M{x:.1f} {y:.1f}l{ax:.1f} {ay:.1f}{arc}z"
