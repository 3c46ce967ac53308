"""Measure the lessons of the networks and algorithms of the papers, and write `docs/maintainers/lesson-sizes.md`.

`scripts/lesson-sizes` makes every lesson that the tables do not have yet, the short ones first; `--only star:3` those of one
network. It can be interrupted, and called again. `tests/annexes/lesson/test_sizes.py` makes a sample of them.
"""

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from coordinator.annexes.lesson.branches import lesson_of
from coordinator.annexes.lesson.page import MOST_BYTES, render
from coordinator.execution.run import run
from coordinator.execution.sinks import DirectorySink
from coordinator.planning.plan import make_plan
from coordinator.reports.data import read_run
from coordinator.scenario.model import make_scenario
from emunode.algorithms.base import ALGORITHMS
from emunode.errors import ScenarioError
from emunode.model import Collective
from emunode.topologies.registry import parse_topology

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "maintainers" / "lesson-sizes.md"
START: Final = "<!-- sizes -->\n"
NETWORKS: Final[Mapping[str, Mapping[str, str]]] = {
    "star": {"star:3": "S_3", "star:4": "S_4"},
    "hypercube": {"hypercube:3": "Q_3", "hypercube:4": "Q_4"},
    "ej": {"ej:2+3": "EJ_{2+3rho}"},
}
"""The networks with their names in the papers, by family: the columns of a table."""
OPTIONS: Final[Sequence[dict[str, str]]] = ({}, {"segments": "2"}, {"segments": "3"}, {"port_model": "one-port"})
"""What an algorithm may need; the first that it accepts is taken."""


class Named(NamedTuple):
    """An algorithm of a paper: a row of a table."""

    collective: str
    algorithm: str


Sizes = dict[tuple[str, Named], str]
"""The cells of the tables, by network and row."""


def rows_of(family: str) -> Iterator[Named]:
    """Yield the algorithms of the papers on a family."""
    for collective in Collective:
        for entry in ALGORITHMS.within((family, collective)):
            yield Named(str(collective), entry.name)


def values_of(network: str, row: Named) -> dict[str, str]:
    """Return the values of a scenario with the fewest options that the algorithm accepts."""
    values = {"topology": network, "collective": row.collective, "algorithm": row.algorithm, "driver": "memory"}
    for options in OPTIONS:
        try:
            make_plan(make_scenario(values | options))
        except ScenarioError as error:
            refusal = error
        else:
            return values | options
    raise refusal


def measured(network: str, row: Named) -> str:
    """Return the size of a lesson in kB, or why there is none."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        run(make_plan(make_scenario(values_of(network, row))), DirectorySink(path, draw=False))
        data = read_run(path)
        try:
            size = len(render(data, lesson_of(data)).encode())
        except ScenarioError as error:
            return re.sub(r".* are ([\d,]+ hops).*", r"refused: \1", error.allowed)
    return f"{size / 1000:,.0f}" if size <= MOST_BYTES else f"refused: {size / 1000:,.0f}"


def read_tables(text: str) -> Sizes:
    """Return the cells of the tables of a page."""
    sizes: Sizes = {}
    for family in NETWORKS:
        networks = NETWORKS[family]
        heading = f"| collective | algorithm | {' | '.join(networks.values())} |"
        body = text.partition(heading)[2].partition("\n\n")[0]
        for line in body.splitlines()[2:]:
            collective, algorithm, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            for network, cell in zip(networks, cells, strict=True):
                if cell:
                    sizes[network, Named(collective, algorithm)] = cell
    return sizes


def tables(sizes: Sizes) -> str:
    """Return one table for each family."""
    parts = []
    for family, networks in NETWORKS.items():
        lines = [f"| collective | algorithm | {' | '.join(networks.values())} |", "|---|---|" + "---:|" * len(networks)]
        cells = ([*row, *(sizes.get((network, row), "") for network in networks)] for row in rows_of(family))
        lines += (f"| {' | '.join(each)} |" for each in cells)
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Fill the empty cells of the tables, and write the page after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="only this network, such as star:3")
    only = parser.parse_args().only
    before, _, after = PAGE.read_text(encoding="utf-8").partition(START)
    sizes = read_tables(after)
    wanted = [(network, row) for family in NETWORKS for network in NETWORKS[family] for row in rows_of(family)]
    wanted.sort(key=lambda cell: parse_topology(cell[0]).order)
    left = [cell for cell in wanted if cell not in sizes and only in (None, cell[0])]
    for number, (network, row) in enumerate(left, 1):
        sizes[network, row] = measured(network, row)
        print(f"{number} of {len(left)}: {network} {' '.join(row)}: {sizes[network, row]}", file=sys.stderr, flush=True)
        PAGE.write_text(before + START + "\n" + tables(sizes), encoding="utf-8")


if __name__ == "__main__":
    main()
