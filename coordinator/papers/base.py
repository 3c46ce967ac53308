"""A reproduction: a function from a `RunCache` to the tables and figures of a paper."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.papers.run_cache import RunCache
from coordinator.papers.tables import Table, texts
from emunode.errors import ScenarioError
from emunode.registry import Registry


@dataclass(frozen=True)
class Figure:
    """A drawing: an SVG element in the colour variables of `coordinator.reports.theme`."""

    title: str
    svg: str
    caption: str = ""


Section = Table | Figure
Build = Callable[[RunCache], Iterator[Section]]


@dataclass(frozen=True)
class Reproduction:
    """The unit of `coordinator reproduce NAME`."""

    name: str
    title: str
    paper: str
    """Citation."""
    description: str
    """One sentence on what is reproduced."""
    build: Build
    sizes: range = range(0)
    """The sizes n available to `--n`; empty for a reproduction of fixed size."""

    def over(self, n: int | None) -> Sequence[int]:
        """All sizes, or the requested one; raises ScenarioError (field `n`) if there is no such size."""
        if n is None:
            return self.sizes
        if not self.sizes:
            raise ScenarioError("n", n, f"{self.name} has a fixed size; leave --n out")
        if n not in self.sizes:
            raise ScenarioError("n", n, f"{self.name} covers n = {self.sizes[0]}..{self.sizes[-1]}")
        return [n]


REPRODUCTIONS: Final = Registry[str, Reproduction](
    "reproduction",
    Reproduction,
    key=lambda reproduction: reproduction.name,
    instances=True,
    built_in="coordinator.papers.registry",
)
"""By name, in the order of `--all`; those of plug-ins follow."""


def described(paper: str, part: str, build: Build, sizes: range = range(0)) -> Reproduction:
    """The reproduction whose name, title, citation and description are in `data/PAPER.toml` under `about.PART`."""
    return Reproduction(**texts(paper)["about"][part], build=build, sizes=sizes)
