"""A reproduction: a function from a `RunCache` to the tables and figures of a paper."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from coordinator.papers.run_cache import RunCache
from coordinator.papers.tables import Table
from emunode.errors import ScenarioError


@dataclass(frozen=True)
class Figure:
    """A drawing: an SVG element in the colour variables of `coordinator.reports.plots`."""

    title: str
    svg: str
    caption: str = ""


Section = Table | Figure


@dataclass(frozen=True)
class Reproduction:
    """What `coordinator reproduce NAME` runs and shows."""

    name: str
    title: str
    paper: str
    """Citation."""
    description: str
    """One sentence on what is reproduced."""
    build: Callable[[RunCache], Iterator[Section]]
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
