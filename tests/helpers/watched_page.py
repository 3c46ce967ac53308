"""The page of a watched run in the browser: what it shows, and what the run directory says that it should show."""

import json
import math
from typing import Any

import polars as pl

from coordinator.reports.layout import WIDTH, layout_of
from coordinator.reports.theme import LIGHT, mixture, viridis
from emunode.topologies.base import Topology
from tests.helpers.browser import Browser
from tests.helpers.command_line import Ended, Start
from tests.helpers.watch_support import Client

READY = "!document.getElementById('step').disabled"
OVER = "document.getElementById('result').textContent"
BOX = "(({x, y, width}) => [x, y, width])(document.getElementById('map').getBoundingClientRect())"
PIXELS = """
((points, name) => {
  const map = document.getElementById(name), unit = map.width / map.clientWidth;
  const { data } = map.getContext("2d").getImageData(0, 0, map.width, map.height);
  return points.map((point) => point.map((place) => Math.round(place * unit)))
    .map(([x, y]) => [...data.slice(4 * (y * map.width + x), 4 * (y * map.width + x) + 3)]);
})
"""


class Watched:
    """A command `coordinator run --watch` in a process of its own, and its page."""

    def __init__(self, start: Start, page: Browser, flags: str) -> None:
        self.page = page
        self.command = start(f"coordinator run --watch --json {flags}")
        self.command.wait_for(lambda: "http" in self.command.err and self.command.err.endswith("\n"), "the address")
        self.url = next(word for word in self.command.err.split() if word.startswith("http"))
        self.client = Client(self.url)
        page.open(self.url)
        page.wait_until(READY)

    def step(self) -> None:
        """Press the button, and wait until the step has run."""
        before = self.page.evaluate("document.getElementById('slider').max")
        self.page.click("#step")
        self.page.wait_until(f"document.getElementById('slider').max !== {before!r} || {OVER}")

    def run(self) -> dict[str, object]:
        """Let the run go on to its end, and close it; the summary that it printed."""
        self.page.evaluate("document.getElementById('rate').value = '0'")
        self.page.click("#run")
        return dict(self.close().data)

    def close(self) -> Ended:
        """Press the button after the end of the run; how the command ended."""
        self.page.wait_until(OVER)
        self.page.click("#close")
        return self.command.end()

    def text(self, name: str) -> str:
        return str(self.page.evaluate(f"document.getElementById({name!r}).textContent"))

    def at(self, topology: Topology, rank: int, away: float = 0.0, turn: float = 0.5) -> tuple[float, float]:
        """Return the place of a node on the canvas in pixels, `away` from its centre in radii, at a turn from its top."""
        layout, angle = layout_of(topology), 2 * math.pi * turn
        unit = self.page.evaluate(BOX)[2] / WIDTH
        across, down = away * layout.radius * math.sin(angle), -away * layout.radius * math.cos(angle)
        return float((layout.x[rank] + across) * unit), float((layout.y[rank] + down) * unit)

    def click_node(self, topology: Topology, rank: int) -> None:
        self.page.evaluate("document.getElementById('map').scrollIntoView()")
        left, top, _ = self.page.evaluate(BOX)
        x, y = self.at(topology, rank)
        self.page.click_at(left + x, top + y)
        self.page.wait_until(f"document.getElementById('selected').textContent.includes('rank {rank})')")

    def colours(self, points: list[tuple[float, float]], canvas: str = "map") -> list[str]:
        """Return the colours of a canvas at these places, after packets have arrived and it was drawn."""
        self.page.wait_until("!('moving' in document.getElementById('map').dataset)")
        self.page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found = self.page.evaluate(f"{PIXELS}({json.dumps(points)}, {json.dumps(canvas)})")
        return ["#" + "".join(f"{part:02x}" for part in pixel) for pixel in found]


def received(path: Any, step: int) -> dict[int, int]:
    """By rank, the segments that first arrived up to `step`, from the journal of a run directory."""
    return {rank: count for rank, (count, _) in arrived(path, step).items()}


def arrived(path: Any, step: int) -> dict[int, tuple[int, int]]:
    """By rank, the segments that first arrived up to `step`, and the step of the newest one."""
    journal = pl.read_parquet(f"{path}/journal.parquet").filter(pl.col("step") <= step, outcome="first")
    counts = journal.group_by("receiver").agg(pl.len(), pl.col("step").max())
    return {rank: (count, newest) for rank, count, newest in counts.iter_rows()}


def step_colours(path: Any, step: int, steps: int, nodes: list[int], goal: int = 1) -> list[str]:
    """The colours of nodes in a report of a run of `steps` steps, after `step`: of the step of the newest segment."""
    have = arrived(path, step)
    shades = [viridis((have[rank][1] - 1) / (steps - 1)) if rank in have else "" for rank in nodes]
    return [
        mixture(shade, LIGHT["paper"], round(20 + 80 * have[rank][0] / goal) / 100) if shade else LIGHT["paper"]
        for rank, shade in zip(nodes, shades, strict=True)
    ]
