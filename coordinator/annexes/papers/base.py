"""A reproduction: a function from a `RunCache` to the tables and figures of a paper."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import NOT_MEASURED, VERDICT, Table, printed, texts
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
LEFT_OUT = ("item", "statement", "reason")
"""The columns of the table of omissions."""


@dataclass(frozen=True)
class Reproduction:
    """The unit of `coordinator reproduce NAME`."""

    name: str
    title: str
    paper: str
    """Citation."""
    description: str
    """One sentence on the reproduced results."""
    build: Build
    sizes: range = range(0)
    """The sizes n available to `--n`; empty for a reproduction of fixed size."""

    def sections(self, cache: RunCache) -> Iterator[Section]:
        """Yield the sections of `build`, then the table of omissions, if there are any."""
        yield from self.build(cache)
        if self.left_out:
            rows = ({**{key: row[key] for key in LEFT_OUT}, VERDICT: NOT_MEASURED} for row in self.left_out)
            yield Table("Not reproduced", rows)

    @property
    def left_out(self) -> Sequence[Mapping[str, str]]:
        """Statements of the paper that no row reproduces: `item`, `statement` and `reason` of each."""
        return [row for row in printed("not_reproduced") if row["reproduction"] == self.name]

    def over(self, n: int | None) -> Sequence[int]:
        """Return all sizes, or the requested one; raises ScenarioError (field `n`) if there is no such size."""
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
    built_in="coordinator.annexes.papers.registry",
)
"""By name, in the order of `--all`; reproductions of plug-ins follow."""


def described(paper: str, part: str, build: Build, sizes: range = range(0)) -> Reproduction:
    """Return the reproduction whose name, title, citation and description are in `data/PAPER.toml` under `about.PART`."""
    return Reproduction(**texts(paper)["about"][part], build=build, sizes=sizes)
