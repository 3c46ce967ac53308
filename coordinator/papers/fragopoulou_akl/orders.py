"""The comparison of orders that closes Fragopoulou and Akl 1996: fault-tolerant algorithms on S_n and on the hypercube.

The only available text has lost the formulas of the tables. The orders here follow from the lower bounds, with 2^k ~ n!
nodes and therefore k ~ n log n. M = 1 message travels on x = n - 1 trees: those of EDT on S_n, and those of nESBT (Johnsson
and Ho) on C_k.
"""

from collections.abc import Iterator, Mapping
from math import factorial, lgamma, log

from coordinator.papers.base import Section
from coordinator.papers.formulas import evaluate
from coordinator.papers.fragopoulou_akl.lemmas import surpluses
from coordinator.papers.fragopoulou_akl.report_1993 import total_distance
from coordinator.papers.fragopoulou_akl.star_against_hypercube import networks
from coordinator.papers.run_cache import RunCache
from coordinator.papers.tables import VERDICT, Table, compared, notes, printed, unmeasured, verdict_of
from coordinator.results.claims import Verdict
from emunode.topologies.base import Topology
from emunode.topologies.star import StarGraph

NOTES = notes("fragopoulou_akl", "orders")
MESSAGE_BYTES = 64
LARGEST_PAIR = 5
EVALUATED = range(6, 49)
"""Sizes n over which bounds are compared with orders, with a hypercube of n! nodes, k = log2 n!."""
ORDERS = printed("fragopoulou_akl_1996_orders")
"""Two rows per problem, time and transmissions. S_n and C_k are what EDT and nESBT take, in n, f = n!, k, N = 2^k and x."""


def sum_of_depths(n: int) -> int:
    """d of one tree of EDT: the sum of all distances, plus the surplus of longer paths."""
    _, two, four = surpluses(n)
    return total_distance(n) + 2 * two + 4 * four


def cube_depths(k: int) -> int:
    """d of one tree of nESBT: k 2^(k-1) + 2^k - 2."""
    return (k << (k - 1)) + (1 << k) - 2


def order_tables(cache: RunCache) -> Iterator[Section]:
    """Measurements on both networks for sizes that are small enough, then the evaluated bounds."""
    sizes = [n for n in cache.sizes if n <= LARGEST_PAIR]
    if sizes:
        measured = (_measured(cache, order, sizes) for order in ORDERS)
        yield Table("Comparison of orders, measured", measured, NOTES["measured"])
    yield Table("Comparison of orders, lower bounds evaluated", map(_evaluated, ORDERS), NOTES["evaluated"])


def _measured(cache: RunCache, order: Mapping[str, str], sizes: list[int]) -> dict[str, object]:
    row: dict[str, object] = {key: order[key] for key in ("problem", "quantity", "S_n, order", "C_k, order")}
    verdicts = []
    for n in sizes:
        star, cube = networks(n)
        for network, name in ((star, f"S_{n}"), (cube, f"C_{cube.degree}")):
            half = _on_network(cache, order, network, n - 1)
            row[name] = half["measured"]
            verdicts.append(Verdict(str(half[VERDICT])))
    return row | {VERDICT: verdict_of(verdicts)}


def _on_network(cache: RunCache, order: Mapping[str, str], network: Topology, x: int) -> dict[str, object]:
    """One order on one network: the formula of the algorithm, or the lower bound of the time on C_k, and a run."""
    on_star = isinstance(network, StarGraph)
    trial = cache.run(
        network,
        order["collective"],
        order["algorithm"] if on_star else "nesbt",
        port_model="all-port",
        message_bytes=MESSAGE_BYTES,
        packet_limit=MESSAGE_BYTES,
        redundancy=x,
    )
    if on_star:
        predicted = evaluate(order["S_n"], n=x + 1, f=factorial(x + 1), depths=sum_of_depths(x + 1))
    else:
        k = network.degree
        predicted = evaluate(order["C_k"], k=k, N=1 << k, x=x, depths=cube_depths(k))
    timed = order["quantity"] == "time"
    measured = trial.number("startups" if timed else "segments")
    return compared(int(predicted), measured, trial, relation=">=" if timed and not on_star else "==")


def _evaluated(order: Mapping[str, str]) -> dict[str, object]:
    about: dict[str, object] = {"problem": order["problem"], "quantity": order["quantity"]}
    about |= {f"S/C, n = {n}": round(bound_ratio(n, order), 3) for n in (6, 12, 24, 48)}
    return about | unmeasured(round(spread(order), 2), paper=order["better"])


def spread(order: Mapping[str, str]) -> float:
    """The largest over the smallest ratio of S/C to the order that the text states for it; 1 if S/C has that order."""
    # the x = n - 1 copies leave only the diameter in the order of the broadcast
    exponents = {"C_k by log n": 1, "S_n by log n": -1, "degree and diameter": -1}
    claimed = exponents.get(order["better"], 0)
    rest = [bound_ratio(n, order) / log(n) ** claimed for n in EVALUATED]
    return max(rest) / min(rest)


def bound_ratio(n: int, order: Mapping[str, str]) -> float:
    """S/C: the lower bound on S_n over that on a hypercube of n! nodes, for x = n - 1."""
    k = lgamma(n + 1) / log(2)
    average = n + 2 / n + sum(1 / i for i in range(1, n + 1)) - 4
    return float(evaluate(order["S/C"], n=n, k=k, average=average, diameter=3 * (n - 1) // 2))
