"""Figures 1 to 14 of Hussain, drawn from networks and runs, with the quantities that can be counted in them.

The pictures are not in the text. Caption and text determine figures 1 to 11. Figures 12 to 14 show "part of" an unnamed
network with four unnamed senders; they are listed as not reproduced.
"""

from collections.abc import Callable, Iterator

import polars as pl

from coordinator.annexes.exports.paper_figures import Arc, network_panel
from coordinator.annexes.papers.base import Figure, Section, described
from coordinator.annexes.papers.figures import drawn
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import Table, compared
from emunode.algorithms.claims import Value
from emunode.model import Rank
from emunode.topologies.eisenstein_jacobi import UNITS, EisensteinJacobi

EJ_3_4, EJ_5_6 = EisensteinJacobi(3, 4, 1), EisensteinJacobi(5, 6, 1)
EJ_1_2, SQUARE = EisensteinJacobi(1, 2, 1), EisensteinJacobi(2, 3, 2)
LARGE = 960.0
"""Width of the network of 361 nodes."""
AddRow = Callable[..., None]
"""Adds a row to the table of counted quantities: figure, statement, print, prediction, measurement, runs."""


def black_node() -> Rank:
    """Return (1 - rho2, 1 + rho) in EJ_{2+3rho}^(2); rho2 = rho - 1, so 1 - rho2 is 2 - rho."""
    return SQUARE.index(1, 1) + SQUARE.modulus * SQUARE.index(2, -1)


def regular_links(network: EisensteinJacobi) -> list[Arc]:
    """Return the links of a network of one dimension that stay within the grid of its canonical labels, once each."""
    found = []
    for rank in network.ranks():
        x, y = network.coordinates(rank)
        for unit in range(3):
            there = (x + UNITS[unit][0], y + UNITS[unit][1])
            if network.coordinates(network.index(*there)) == there:
                found.append((rank, unit))
    return found


def arcs_in(trial: CachedRun, first: int, last: int) -> list[Arc]:
    """Return the directed links that carried something in these steps."""
    used = trial.journal().filter(pl.col("step").is_between(first, last)).select("sender", "port").unique()
    return [(sender, port) for sender, port in used.sort("sender", "port").collect().iter_rows()]


def _broadcast(cache: RunCache, network: EisensteinJacobi, algorithm: str) -> CachedRun:
    return cache.run(network, "broadcast", algorithm, duplex="half")


def build(cache: RunCache) -> Iterator[Section]:
    """Yield the figures in order, and their counted quantities."""
    rows: list[dict[str, object]] = []

    def check(number: int, what: str, paper: object, predicted: Value, measured: Value, *trials: CachedRun) -> None:
        rows.append({"figure": number, "what": what} | compared(predicted, measured, *trials, paper=paper))

    yield from _networks(check)
    yield from _broadcasts(cache, check)
    yield from _phases(cache, check)
    yield Table("Figures 1 to 11: counted quantities", rows)


def _networks(check: AddRow) -> Iterator[Figure]:
    """Yield figures 1 to 3."""
    links = regular_links(EJ_3_4)
    body = network_panel("solid: regular links, dotted: wraparound links", EJ_3_4, {"blue": links}, ringed=[0])
    yield drawn("hussain", 1, [body])
    # within a hexagon of radius D there are 9 D^2 + 3 D of the 9 D^2 + 9 D + 3 links
    check(1, "regular links", "solid", 9 * 3**2 + 3 * 3, len(links))
    three = EJ_3_4.index(3, 0)
    ends = [EJ_3_4.coordinates(EJ_3_4.neighbour(three, port)) for port in (1, 0, 5)]
    # -3 rho; 3 rho2 = -3 + 3 rho; -1 + 2 rho2 = -3 + 2 rho
    for port, wanted, found in zip(("+rho", "+1", "-rho2"), ((0, -3), (-3, 3), (-3, 2)), ends, strict=True):
        check(1, f"example 2.1: the {port} link of node 3 (x, y)", str(wanted), wanted, found)

    shades = {rank: (EJ_5_6.sector(rank)[0] - 1) / 5 for rank in EJ_5_6.ranks() if rank}
    body = network_panel("sectors 1 to 6, dark to bright", EJ_5_6, {}, ringed=[0], shades=shades)
    yield drawn("hussain", 2, [body])
    sizes = [sum(EJ_5_6.sector(rank)[0] == j for rank in EJ_5_6.ranks() if rank) for j in range(1, 7)]
    check(2, "nodes of each sector", "(N-1)/6", (15,) * 6, tuple(sizes))

    black = black_node()
    ports = range(SQUARE.degree)
    around: dict[str, list[Arc]] = {"blue": [(0, port) for port in ports], "orange": [(black, port) for port in ports]}
    body = network_panel("nodes 0 and (1-rho2, 1+rho)", SQUARE, around, ringed=[0, black], width=LARGE)
    yield drawn("hussain", 3, [body])
    check(3, "neighbours of the black node", "6n", 12, len(set(SQUARE.neighbours(black)) - {black}))


def _broadcasts(cache: RunCache, check: AddRow) -> Iterator[Figure]:
    """Yield figures 4 to 8."""
    trial = _broadcast(cache, EJ_3_4, "improved")
    steps = {step: arcs_in(trial, step, step) for step in (1, 2, 3)}
    names = {arc: str(step) for step, arcs in steps.items() for arc in arcs}
    body = network_panel("steps 1, 2, 3", EJ_3_4, {"blue": names}, ringed=[0], names=names, width=640)
    yield drawn("hussain", 4, [body])
    check(4, "links used in steps 1, 2, 3", "6, 12, 18", (6, 12, 18), tuple(map(len, steps.values())), trial)
    reached = [EJ_3_4.index(*pair) for pair in ((2, 0), (2, -1), (3, 0), (3, -1), (3, -2))]
    numbered = tuple(int(names[arc]) for rank in reached for arc in names if EJ_3_4.neighbour(*arc) == rank)
    check(4, "steps of 2, 1-rho2, 3, 2-rho2, 1-2rho2 in sector 6", "2, 2, 3, 3, 3", (2, 2, 3, 3, 3), numbered, trial)

    for algorithm, numbers, spans, counts in (
        ("iterative", (5, 6), ((1, 2), (3, 4)), (18, 342)),
        ("improved", (7, 8), ((1, 1), (2, 2)), (12, 60)),
    ):
        trial = _broadcast(cache, SQUARE, algorithm)
        which = ("first round", "second round") if algorithm == "iterative" else ("step 1", "step 2")
        for number, (first, last), count, name in zip(numbers, spans, counts, which, strict=True):
            arcs = arcs_in(trial, first, last)
            body = network_panel(name, SQUARE, {"blue": arcs}, ringed=[0], width=LARGE)
            yield drawn("hussain", number, [body], first=first, last=last)
            check(number, "links used", None, count, len(arcs), trial)


def _phases(cache: RunCache, check: AddRow) -> Iterator[Figure]:
    """Yield figures 9 to 11: the ports of one node, here node 0 of EJ_{3+4rho}."""
    trial = cache.run(EJ_3_4, "allgather", "three-phase", duplex="half")
    units = ("+1", "+rho", "+rho2", "-1", "-rho", "-rho2")
    for phase, wanted in enumerate(((0, 1, 5), (1, 2, 3), (3, 4, 5)), 1):
        arcs = arcs_in(trial, 3 * phase - 2, 3 * phase)
        out = [arc for arc in arcs if arc[0] == 0]
        into = [(rank, port) for rank, port in arcs if EJ_3_4.neighbour(rank, port) == 0]
        body = network_panel(f"phase {phase}", EJ_3_4, {"blue": out, "orange": into}, ringed=[0])
        yield drawn("hussain", 8 + phase, [body])
        printed = ", ".join(units[port] for port in wanted)
        check(8 + phase, "ports that send", printed, wanted, tuple(sorted({port for _, port in out})), trial)
        received = tuple(sorted({(port + 3) % 6 for _, port in into}))
        check(
            8 + phase, "ports that receive: the others", None, tuple(sorted({*range(6)} - {*wanted})), received, trial
        )


REPRODUCTION = described("hussain", "figures", build)
