"""The comparison of orders that closes Fragopoulou and Akl 1996: fault-tolerant algorithms on S_n and on the hypercube.

The only text at hand has lost the formulas of the tables; the orders here follow from the lower bounds, with 2^k ~ n! nodes
and so k ~ n log n. M = 1 message on x = n - 1 trees: those of EDT on S_n, of nESBT (Johnsson and Ho) on C_k.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil, factorial, lgamma, log

from coordinator.papers.base import Section
from coordinator.papers.fragopoulou_akl.lemmas import surpluses
from coordinator.papers.fragopoulou_akl.report_1993 import total_distance
from coordinator.papers.fragopoulou_akl.star_against_hypercube import networks
from coordinator.papers.run_cache import RunCache
from coordinator.papers.tables import VERDICT, Table, compared, notes, unmeasured, verdict_of
from coordinator.results.claims import Verdict
from emunode.topologies.base import Topology
from emunode.topologies.star import StarGraph

NOTES = notes("fragopoulou_akl", "orders")

MESSAGE_BYTES = 64
LARGEST_PAIR = 5
EVALUATED = range(6, 49)
"""Sizes n over which bounds are set against orders, with a hypercube of n! nodes, k = log2 n!."""
Formula = Callable[[int], int]


def sum_of_depths(n: int) -> int:
    """d of one tree of EDT: the distances, and what paths are longer."""
    _, two, four = surpluses(n)
    return total_distance(n) + 2 * two + 4 * four


def cube_depths(k: int) -> int:
    """The same of one tree of nESBT: k 2^(k-1) + 2^k - 2."""
    return (k << (k - 1)) + (1 << k) - 2


@dataclass(frozen=True)
class Problem:
    """One row of the comparison: orders of time and transmissions, S_n and C_k, and which is better by log n."""

    name: str
    collective: str
    algorithm: str
    time: tuple[str, str]
    transmissions: tuple[str, str]
    star: tuple[Formula, Formula]
    """Steps and transmissions of EDT with x = n - 1, by n."""
    cube: tuple[Callable[[int, int], int], Callable[[int, int], int]]
    """Lower bound of the steps, and transmissions, of nESBT, by k and x."""
    better: tuple[str, str]
    """What the text says of time and transmissions."""


def _others(k: int) -> int:
    return (1 << k) - 1


PROBLEMS = (
    Problem(
        "single node broadcast",
        "broadcast",
        "edt",
        ("x/n + n", "x/(n log n) + n log n"),
        ("x n!", "x n!"),
        (lambda n: 3 * n // 2 + 1, lambda n: (n - 1) * (factorial(n) - 1)),
        (lambda k, x: ceil(x / k) + k - 1, lambda k, x: x * _others(k)),
        ("degree and diameter", "the same"),
    ),
    Problem(
        "multinode broadcast",
        "allgather",
        "edt-dfs",
        ("x n!/n", "x n!/(n log n)"),
        ("x (n!)^2", "x (n!)^2"),
        (lambda n: factorial(n) - 1, lambda n: factorial(n) * (n - 1) * (factorial(n) - 1)),
        (lambda k, x: ceil(x * _others(k) / k), lambda k, x: x * _others(k) << k),
        ("C_k by log n", "the same"),
    ),
    Problem(
        "single node scattering",
        "scatter",
        "edt",
        ("x n!/n", "x n!/(n log n)"),
        ("x n! n", "x n! n log n"),
        (lambda n: factorial(n) - 1, lambda n: (n - 1) * sum_of_depths(n)),
        (lambda k, x: ceil(x * _others(k) / k), lambda k, x: x * cube_depths(k)),
        ("C_k by log n", "S_n by log n"),
    ),
    Problem(
        "total exchange",
        "alltoall",
        "edt",
        ("x n!", "x n!"),
        ("x (n!)^2 n", "x (n!)^2 n log n"),
        (sum_of_depths, lambda n: factorial(n) * (n - 1) * sum_of_depths(n)),
        (lambda k, x: ceil(x * (1 << (k - 1))), lambda k, x: x * cube_depths(k) << k),
        ("the same", "S_n by log n"),
    ),
)


def order_tables(cache: RunCache) -> Iterator[Section]:
    """Both networks measured, where a size is small enough, and the bounds evaluated."""
    sizes = [n for n in cache.sizes if n <= LARGEST_PAIR]
    if sizes:
        yield Table("Comparison of orders, measured", _measured(cache, sizes), NOTES["measured"])
    yield Table("Comparison of orders, lower bounds evaluated", _evaluated(), NOTES["evaluated"])


def _measured(cache: RunCache, sizes: list[int]) -> Iterator[dict[str, object]]:
    for problem in PROBLEMS:
        rows = {
            "time": dict[str, object](zip(("S_n, order", "C_k, order"), problem.time, strict=True)),
            "transmissions": dict[str, object](zip(("S_n, order", "C_k, order"), problem.transmissions, strict=True)),
        }
        verdicts: dict[str, list[Verdict]] = {quantity: [] for quantity in rows}
        for n in sizes:
            star, cube = networks(n)
            for network, name in ((star, f"S_{n}"), (cube, f"C_{cube.degree}")):
                for quantity, half in _halves(cache, problem, network, n - 1):
                    rows[quantity][name] = half["measured"]
                    verdicts[quantity].append(Verdict(str(half[VERDICT])))
        for quantity, row in rows.items():
            yield {"problem": problem.name, "quantity": quantity, **row, VERDICT: str(verdict_of(verdicts[quantity]))}


def _halves(cache: RunCache, problem: Problem, network: Topology, x: int) -> Iterator[tuple[str, dict[str, object]]]:
    on_star = isinstance(network, StarGraph)
    trial = cache.run(
        topology=network.name,
        collective=problem.collective,
        algorithm=problem.algorithm if on_star else "nesbt",
        port_model="all-port",
        message_bytes=MESSAGE_BYTES,
        packet_limit=MESSAGE_BYTES,
        redundancy=x,
    )
    if on_star:
        time, transmissions = (formula(x + 1) for formula in problem.star)
    else:
        time, transmissions = (formula(network.degree, x) for formula in problem.cube)
    yield "time", compared(time, trial.number("startups"), trial, relation="==" if on_star else ">=")
    yield "transmissions", compared(transmissions, trial.number("segments"), trial)


def _evaluated() -> Iterator[dict[str, object]]:
    for at, problem in enumerate(PROBLEMS):
        for which, quantity in enumerate(("time", "transmissions")):
            ratios = {n: bound_ratio(n, at, which) for n in EVALUATED}
            about = {"problem": problem.name, "quantity": quantity}
            about |= {f"S/C, n = {n}": round(ratios[n], 3) for n in (6, 12, 24, 48)}  # type: ignore[misc]
            yield about | unmeasured(round(spread(at, which), 2), paper=problem.better[which])


def spread(at: int, which: int) -> float:
    """How far S/C is from the order that the text gives it."""
    claimed = {"C_k by log n": 1, "S_n by log n": -1}.get(PROBLEMS[at].better[which], 0)
    if PROBLEMS[at].better[which] == "degree and diameter":
        claimed = -1  # x = n - 1 copies leave the diameter
    rest = [bound_ratio(n, at, which) / log(n) ** claimed for n in EVALUATED]
    return max(rest) / min(rest)


def bound_ratio(n: int, at: int, which: int) -> float:
    """The lower bound on S_n over that on a hypercube of n! nodes, for x = n - 1; time or transmissions."""
    k = lgamma(n + 1) / log(2)
    average = n + 2 / n + sum(1 / i for i in range(1, n + 1)) - 4
    diameter = 3 * (n - 1) // 2
    times = (diameter / ((n - 1) / k + k - 1), k / (n - 1), k / (n - 1), (average / (n - 1)) / (k / 2 / k))
    transmissions = (1.0, 1.0, average / (k / 2), average / (k / 2))
    return (times, transmissions)[which][at]
