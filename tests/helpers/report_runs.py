"""Runs of the tests of reports, and the elements of their pages."""

import json
from collections import Counter
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import polars as pl

from coordinator.reports.interactive.packing import unpack
from tests.helpers.command_line import fields, flags
from tests.helpers.support import run_and_draw

STAR4 = "star:4 broadcast greedy-tree source=1234"
CRASHED = "star:5 broadcast greedy-tree source=12345 fault=crash:21345@2"
CUBE = "hypercube:5 broadcast flood"
EJ = "ej:3+4 broadcast improved"
ALLGATHER = "star:4 allgather hamiltonian-cycle port_model=one-port"
GATHER = "star:4 gather balanced-tree"
RUNS = (STAR4, CRASHED, CUBE, EJ, "ej:1+2^2 broadcast improved", ALLGATHER, GATHER)
RUN_STAR4 = " ".join(["run --driver memory", *flags(**fields(STAR4))])


class Page(HTMLParser):
    """The elements, references and text of a page whose elements are all closed."""

    VOID = frozenset({"meta", "link", "input", "br"})
    REFERENCES = frozenset({"src", "href", "action", "xlink:href", "srcset"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.ids: set[str] = set()
        self.refers: list[str] = []
        self.open: list[str] = []
        self.text = ""
        self.data = ""
        self.feed(text)
        self.close()
        assert self.open == [], "every element is closed"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.refers += [value or "" for name, value in attributes if name in self.REFERENCES]
        self.ids |= {value or "" for name, value in attributes if name == "id"}
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"</{tag}> closes another element"

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.open and self.open[-1] == "script" and not self.data:
            self.data = data


def page_of(run_path: Path) -> Page:
    """Return the elements of the report of a run."""
    return Page((run_path / "report.html").read_text())


class Run:
    """A finished run, in memory, and its report."""

    def __init__(self, out: Path, scenario: str) -> None:
        self.path = run_and_draw(out, **fields(scenario)).path
        self.text = (self.path / "report.html").read_text()
        self.page = Page(self.text)
        self.script = json.loads(self.page.data)
        for name in ("links", "loads", "lost", "gains"):
            if name in self.script:
                self.script[name] = list(map(unpack, self.script[name]))
        self.summary = json.loads((self.path / "summary.json").read_text())
        self.journal = pl.read_parquet(self.path / "journal.parquet")


Runs = Callable[[str], Run]
