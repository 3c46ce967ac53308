"""The nodes of a small network: circles, pies and labels."""

from collections.abc import Iterator
from html import escape
from math import cos, pi, sin

import numpy as np
import polars as pl

from coordinator.reports.layout import Layout
from coordinator.reports.maps.marks import BYZANTINE, STATE_COLOURS, VOTE_COLOURS, cross, diamond
from coordinator.reports.scene.scene import Held, Scene
from coordinator.reports.scene.votes import WORDS, State
from coordinator.reports.theme import brightness
from emunode.terminal import plural

PLAIN = ("var(--paper)", "var(--ink)")
"""Colours of a node that has nothing, and of its label."""
SLICES = 24
"""Slices of different colours in the pie of a node, at most; a quarter of it in networks above `NODES_WITH_SLICES`."""
NODES_WITH_SLICES = 200
SMALLEST_LETTERS = 8.0
"""Smaller labels (in units of the drawing) are omitted."""
MOST_LABELS = 64
"""In larger networks labels would cover pies and arrowheads: a pointer shows them."""
PHONE_LETTERS = 28.0
"""Letters on a small screen: a drawing of 1000 units is about 350 pixels wide there."""


class Nodes:
    """The nodes of a scene, at a position of the slider or at the end of the run."""

    def __init__(self, scene: Scene, layout: Layout) -> None:
        self.scene, self.layout = scene, layout
        # Shares need the journal.
        self.pies = scene.all_to_all and scene.packets is not None
        self._letters = max(map(len, scene.labels), default=1)
        self._colours = scene.positions.colours

    @property
    def font(self) -> float:
        """Size of labels that fit into their nodes."""
        return min(17.0, 1.75 * self.layout.radius / (0.58 * self._letters))

    @property
    def labelled(self) -> bool:
        """Whether labels are large enough to read, and few."""
        return self.font >= SMALLEST_LETTERS and len(self.scene.labels) <= MOST_LABELS

    @property
    def labelled_on_phones(self) -> bool:
        """Whether labels that are legible on a small screen fit between nodes."""
        return self.labelled and 0.58 * PHONE_LETTERS * self._letters < 0.98 * self.layout.spacing

    @property
    def byzantine(self) -> list[int]:
        """Ranks of byzantine nodes."""
        return [rank for rank, mark in self.scene.broken.items() if mark.shape == "diamond"]

    @property
    def fixed(self) -> list[int]:
        """Ranks whose colour is the same at every step."""
        judged = (
            self.scene.votes is not None
            and self.scene.source is not None
            and bool(self.scene.votes.due[self.scene.source])
        )
        return sorted({*self.byzantine, *([] if self.scene.source is None or judged else [self.scene.source])})

    def draw(self, at: int | None) -> list[str]:
        """Draw circles with their pies, labels and marks, after frame `at` or at the end of the run."""
        x, y, radius = self.layout.x.tolist(), self.layout.y.tolist(), self.layout.radius
        positions, scene = self.scene.positions, self.scene
        held = scene.end if at is None else scene.held(at)
        fixed, circles, names = set(self.fixed), [], []
        for rank, label in enumerate(scene.labels):
            fill, ink = self._paint(rank, held, fixed)
            fresh = ' style="stroke-width:3"' if at is not None and held.when[rank] == at else ""
            circles.append(
                f'<circle class="node" cx="{x[rank]:.1f}" cy="{y[rank]:.1f}" r="{radius:.1f}" fill="{fill}"{fresh}>'
                f"<title>{escape(self._tip(rank))}</title></circle>"
            )
            if self.labelled:
                names.append(
                    f'<text class="name" x="{x[rank]:.1f}" y="{y[rank]:.1f}" font-size="{self.font:.1f}" fill="{ink}">'
                    f"{escape(label)}</text>"
                )
        size = "large" if self.labelled_on_phones else "none"
        halo = " halo" if self.pies else ""
        layers = [f'<g id="nodes">{"".join(circles)}</g>', *(self._pies(held, at) if self.pies else [])]
        layers.append(f'<g id="names" class="names {size}{halo}">{"".join(names)}</g>')
        crosses = [
            cross(x[rank], y[rank], (1.6 if self.labelled else 1.25) * radius, mark.step)
            for rank, mark in scene.broken.items()
            if mark.shape == "cross" and (at is None or mark.step <= positions.last[at])
        ]
        around = [diamond(x[rank], y[rank], 1.62 * radius) for rank in self.byzantine]
        if scene.source is not None:
            around.append(
                f'<circle class="ring" cx="{x[scene.source]:.1f}" cy="{y[scene.source]:.1f}" r="{1.32 * radius:.1f}" '
                f'stroke-width="{max(1.0, 0.13 * radius):.1f}"/>'
            )
        # Below labels, so that a cross does not hide one; above circles where there are no labels.
        return [*crosses, *layers, *around] if self.labelled else [*layers, *crosses, *around]

    def _paint(self, rank: int, held: Held, fixed: set[int]) -> tuple[str, str]:
        """Return the colours of a node and of its label; the script of the page chooses in the same way (`steps.js`)."""
        if rank in fixed:
            return (BYZANTINE, "#111") if rank in self.byzantine else ("var(--ink)", "var(--paper)")
        if self.pies:
            return PLAIN
        if self.scene.votes is not None:
            state = held.state(rank, self.scene.full[rank])
            return PLAIN if state is None else (VOTE_COLOURS[state], "#111" if state else "var(--ink)")
        if held.when[rank] < 0:
            return PLAIN
        share = self._share(rank, held)
        colour = self._colours[held.when[rank]]
        mixed = f"color-mix(in srgb, {colour} {round(20 + 80 * share)}%, var(--paper))"
        ink = "var(--ink)" if share < 0.6 else "#111" if brightness(colour) > 125 else "#fff"
        return (colour if share == 1 else mixed), ink

    def _share(self, rank: int, held: Held) -> float:
        full = self.scene.full[rank]
        return min(1.0, int(held.have[rank]) / full) if full else 0.0

    def _tip(self, rank: int) -> str:
        words = [f"{self.scene.labels[rank]} (rank {rank})"]
        done, mark = int(self.scene.finish[rank]), self.scene.broken.get(rank)
        if rank == self.scene.source:
            words.append("target" if self.scene.giving else "source")
        if mark is not None:
            words.append(f"{mark.kind} from step {mark.step}")
        elif self.scene.votes is not None and self.scene.votes.due[rank]:
            words.append(WORDS[State(int(self.scene.votes.state[rank]))])
            words += [f"last copy in step {self.scene.votes.settled[rank]}"] if self.scene.votes.settled[rank] else []
        elif done:
            known = self.scene.packets is not None and self.scene.gained[rank] >= self.scene.full[rank]
            words.append(f"done in step {done}" if known else f"last received in step {done}")
        elif rank != self.scene.source and (self.scene.packets is not None or not self.scene.giving):
            words.append("nothing arrived" if not self.scene.giving else "sent nothing")
        if self.pies and self.scene.votes is None:
            words.append(f"{self.scene.gained[rank]:,} of {self.scene.full[rank]:,} segments")
        elif self.scene.gained[rank] and self.scene.votes is None and self.scene.packets is not None:
            words.append(plural(self.scene.gained[rank], "segment"))
        return ", ".join(words)

    # --- pies ------------------------------------------------------------------------------------------------------

    def _pies(self, held: Held, at: int | None) -> list[str]:
        """Draw the pies of the whole run in the colours of the steps, and the pies that the script draws for one step."""
        order, full = self.scene.order, self.scene.full
        parts = dict.fromkeys(State, ("", ""))
        if at is not None:
            by_colour = (
                [(colour, held.settled[:, state].tolist()) for state, colour in VOTE_COLOURS.items()]
                if self.scene.votes
                else [(self._colours[at], held.have.tolist())]
            )
            low = [0] * order
            for kind, (colour, counts) in zip(State, by_colour, strict=False):
                high = [start + count for start, count in zip(low, counts, strict=True)]
                path = "".join(
                    self._slice(rank, low[rank], high[rank]) for rank in range(order) if full[rank] and counts[rank]
                )
                parts[kind], low = (colour, path), high
        progress = "".join(
            f'<path class="progress" fill="{colour or "none"}" d="{path}"/>' for colour, path in parts.values()
        )
        slices = self._slices() if at is None else []
        return [f'<g id="slices">{"".join(slices)}</g>', f'<g id="progress">{progress}</g>']

    def _slices(self) -> list[str]:
        """Draw the pies of the whole run, clockwise from the top."""
        have, parts = [0] * self.scene.order, []
        for colour, got in self._votes_by_colour() if self.scene.votes is not None else self._segments_by_colour():
            drawn = []
            for rank, segments in sorted(got.items()):
                drawn.append(self._slice(rank, have[rank], have[rank] + segments))
                have[rank] += segments
            parts.append(f'<path class="slice" fill="{colour}" d="{"".join(drawn)}"/>')
        return parts

    def _segments_by_colour(self) -> Iterator[tuple[str, dict[int, int]]]:
        """Yield for every few frames their colour and the segments that each node received in them."""
        count, gains = self.scene.positions.count, self.scene.marks.gains
        every = max(1, -(-count // (SLICES if self.scene.order <= NODES_WITH_SLICES else SLICES // 4)))
        for first in range(0, count, every):
            got: dict[int, int] = {}
            low, high = np.searchsorted(gains["frame"].to_numpy(), (first, first + every))
            for rank, segments in gains[int(low) : int(high)].select("rank", "segments").iter_rows():
                got[rank] = got.get(rank, 0) + segments
            yield self._colours[min(first + every // 2, count - 1)], got

    def _votes_by_colour(self) -> Iterator[tuple[str, dict[int, int]]]:
        """Yield for every state its colour and the segments of each node in that state."""
        votes = self.scene.marks.votes.group_by("rank", "state").agg(pl.col("segments").sum())
        for state, colour in STATE_COLOURS.items():
            yield colour, dict(votes.filter(pl.col("state") == state).select("rank", "segments").iter_rows())

    def _slice(self, rank: int, low: int, high: int) -> str:
        x, y, r = float(self.layout.x[rank]), float(self.layout.y[rank]), self.layout.radius
        full = self.scene.full[rank] or 1
        start, end = (2 * pi * min(1.0, segments / full) for segments in (low, high))
        if end - start > 2 * pi - 1e-6:
            return f"M{x:.1f} {y - r:.1f}a{r:.1f} {r:.1f} 0 1 1 -.01 0z"
        # Coordinates relative to the one before are short: that counts with thousands of slices.
        ax, ay, bx, by = r * sin(start), -r * cos(start), r * sin(end), -r * cos(end)
        arc = f"a{r:.1f} {r:.1f} 0 {int(end - start > pi)} 1 {bx - ax:.1f} {by - ay:.1f}"
        return f"M{x:.1f} {y:.1f}l{ax:.1f} {ay:.1f}{arc}z"
