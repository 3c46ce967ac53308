"""A report in the browser, and what its journal says about nodes: parents, children, paths and packets."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from emunode.model import ALL_RANKS
from emunode.topologies.registry import parse_topology
from tests.helpers.browser import Browser

TABLES = """
[...document.querySelectorAll("#node table")].map((table) => [table.caption.textContent,
  [...table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent.trim()))])"""
ARCS = """
[...document.querySelectorAll("#overlay path.KIND")].map((path) => [+path.dataset.tree,
  (path.getAttribute("d") || "").split("\\n").filter(Boolean).map((d) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", "path");
    made.setAttribute("d", d);
    return [0, made.getTotalLength()].map((at) => made.getPointAtLength(at)).map(({x, y}) => [x, y]);
  })])
"""
POSITIONS = """
[...document.querySelectorAll("#nodes circle")].map((c) => ["cx", "cy"].map((name) => +c.getAttribute(name)))
"""
STATE = """
(() => {
  const all = (query) => [...document.querySelectorAll(query)], at = (id) => document.getElementById(id);
  const pressed = (query) => all(query).filter((button) => button.getAttribute("aria-pressed") === "true");
  return {
    hash: location.hash, slider: +at("slider").value, now: at("now").textContent, whole: pressed("#whole").length,
    choices: pressed("[data-choice]").map((button) => button.dataset.choice),
    rings: all("#overlay circle.selected").map((circle) => +circle.dataset.rank),
    hidden: at("node").hidden, title: at("node").querySelector("h3")?.textContent,
    levels: all("#levels:not([hidden]) svg").map((drawing) => +drawing.dataset.tree),
    showLevels: pressed("#show-levels").length, playing: pressed("#play").length,
    wholeTrees: all("#overlay .whole").map((path) => +path.dataset.tree),
    box: at("map").getAttribute("viewBox").split(" ").map(Number),
  };
})()"""
ARROWS = {
    "ArrowRight": 39,
    "ArrowLeft": 37,
    "ArrowUp": 38,
    "ArrowDown": 40,
    "Escape": 27,
    "Tab": 9,
    "Enter": 13,
    "Home": 36,
}


class Recorded:
    """The journal of a run from a source, read independently of the code of reports."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.summary = json.loads((path / "summary.json").read_text())
        self.topology = parse_topology(self.summary["topology"])
        self.journal = pl.read_parquet(path / "journal.parquet").with_columns(pl.col("outcome").cast(pl.String))
        source = self.summary.get("source")
        self.root = self.topology.rank(source) if source is not None else 0
        self.up = self.summary["collective"] in ("gather", "reduce")
        self.trees = 1 + int(self.journal["tree"].max())  # type: ignore[arg-type]

    def parents(self, tree: int, origin: int | None = None) -> dict[int, int]:
        """By rank, the parent in a tree: where its first own packet came from, or went to."""
        found: dict[int, int] = {}
        for row in self.journal.sort("step").iter_rows(named=True):
            if row["tree"] != tree or row["outcome"] == "lost" or origin not in (None, row["origin"]):
                continue
            if self.up:
                if self.summary["collective"] == "reduce" or row["origin"] == row["sender"]:
                    found.setdefault(row["sender"], row["receiver"])
            elif row["target"] in (ALL_RANKS, row["receiver"]) and row["receiver"] != (
                self.root if origin is None else origin
            ):
                found.setdefault(row["receiver"], row["sender"])
        return found

    def received(self, rank: int) -> list[tuple[str, ...]]:
        """Step, sender, port, tree, segments and outcome of the packets that a node received."""
        words = {
            "first": "first copy",
            "duplicate": "duplicate",
            "corrupt": "altered",
            "lost": "lost",
            "relay": "to pass on",
        }
        by = ["step", "sender", "port", "tree", "outcome"]
        rows = self.journal.filter(pl.col("receiver") == rank).group_by(by).len().sort(by)
        return [
            (
                str(row["step"]),
                self.topology.label(row["sender"]),
                str(self.topology.end(row["sender"], row["port"])[1]),
                str(row["tree"] + 1),
                str(row["len"]),
                words.get(row["outcome"], row["outcome"]),
            )
            for row in rows.iter_rows(named=True)
        ]


def path_to(parents: Mapping[int, int], rank: int) -> list[int]:
    """Return the ranks from the root to `rank`."""
    path = [rank]
    while path[0] in parents:
        path.insert(0, parents[path[0]])
        assert len(path) <= len(parents) + 1
    return path


def below(parents: Mapping[int, int], rank: int) -> set[int]:
    """Return the ranks of the subtree of `rank`, without itself."""
    return {other for other in parents if rank in path_to(parents, other)[:-1]}


class ReportPage:
    """The report of a run."""

    def __init__(self, page: Browser, run: Recorded, fragment: str = "") -> None:
        self.page, self.run = page, run
        page.open("about:blank")  # the address of an earlier report may differ by its fragment only
        page.open(run.path / "report.html", fragment)

    def go(self, fragment: str) -> None:
        """Change the fragment of the address, and wait until the page has followed."""
        self.page.evaluate(
            f"new Promise((done) => {{ if (location.hash === {fragment!r}) done(); "
            f"else {{ addEventListener('hashchange', () => done(), {{once: true}}); location.hash = {fragment!r}; }} }})"
        )

    def select(self, rank: int, more: str = "") -> None:
        self.go(f"#node={self.run.topology.label(rank)}{more}")

    def text(self, name: str) -> str:
        return str(self.page.evaluate(f"document.getElementById({name!r}).textContent"))

    def tables(self) -> dict[str, list[list[str]]]:
        """Return the tables about the selected node by their captions."""
        return dict(self.page.evaluate(TABLES))

    def facts(self) -> list[str]:
        return list(self.page.evaluate("[...document.querySelectorAll('#node .facts li')].map((li) => li.textContent)"))

    def arcs(self, kind: str) -> dict[int, set[tuple[int, int]]]:
        """By tree, (sender, receiver) of the arcs that are drawn over the map as `route`, `branch` or `whole`."""
        places = self.page.evaluate(POSITIONS)

        def nearest(point: list[float]) -> int:
            return min(
                range(len(places)), key=lambda at: (places[at][0] - point[0]) ** 2 + (places[at][1] - point[1]) ** 2
            )

        found: dict[int, set[tuple[int, int]]] = {}
        for tree, ends in self.page.evaluate(ARCS.replace("KIND", kind)):
            found.setdefault(tree, set()).update((nearest(one), nearest(other)) for one, other in ends)
        return found

    def rings(self, kind: str) -> set[int]:
        """Return the ranks of the nodes with a ring of this kind."""
        rings = f"[...document.querySelectorAll('#overlay circle.{kind}')].map((c) => +c.dataset.rank)"
        return set(self.page.evaluate(rings))

    def state(self) -> dict[str, Any]:
        """Return the state of the page, read from its parts: step, node, choice of trees."""
        return dict(self.page.evaluate(STATE))
