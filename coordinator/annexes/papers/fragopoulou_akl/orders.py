"""The comparison of orders that closes Fragopoulou and Akl 1996: fault-tolerant algorithms on S_n and on the hypercube.

The only available text has lost the formulas of the tables. The orders here follow from the lower bounds, with 2^k ~ n!
nodes and therefore k ~ n log n. M = 1 message travels on x = n - 1 trees: those of EDT on S_n, and those of nESBT (Johnsson
and Ho) on C_k.
"""

from collections.abc import Iterator, Mapping
from math import factorial

from coordinator.annexes.papers.base import Section
from coordinator.annexes.papers.formulas import evaluate
from coordinator.annexes.papers.fragopoulou_akl.lemmas import surpluses
from coordinator.annexes.papers.fragopoulou_akl.report_1993 import total_distance
from coordinator.annexes.papers.fragopoulou_akl.star_against_hypercube import network_name, networks
from coordinator.annexes.papers.growth import SIZES, ratios, spread, status
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import VERDICT, Table, compared, notes, printed
from emunode.topologies.base import Topology
from emunode.topologies.star import StarGraph

NOTES = notes("fragopoulou_akl", "orders")
MESSAGE_BYTES = 64
LARGEST_PAIR = 5
ORDER_OF_RATIO = {
    "C_k by log n": "log_n",
    "S_n by log n": "1/log_n",
    # the x = n - 1 copies leave only the diameter in the order of the broadcast
    "degree and diameter": "1/log_n",
    "the same": "1",
}
"""The order of S/C, the lower bound on S_n over that on a hypercube of n! nodes, by the text of the comparison."""
ORDERS = printed("fragopoulou_akl_1996_orders")
"""Two rows per problem, time and transmissions. The columns S_n and C_k are the costs of EDT and nESBT, in n, f = n!,
k, N = 2^k and x.
"""


def sum_of_depths(n: int) -> int:
    """Return d of one tree of EDT: the sum of all distances, plus the surplus of longer paths."""
    _, two, four = surpluses(n)
    return total_distance(n) + 2 * two + 4 * four


def cube_depths(k: int) -> int:
    """Return d of one tree of nESBT: k 2^(k-1) + 2^k - 2."""
    return (k << (k - 1)) + (1 << k) - 2


def order_tables(cache: RunCache) -> Iterator[Section]:
    """Measure both networks for sizes that are small enough, then evaluate the orders by their bounds."""
    sizes = [n for n in cache.sizes if n <= LARGEST_PAIR]
    if sizes:
        measured = (row for order in ORDERS for n in sizes for row in _measured(cache, order, n))
        yield Table("Fault tolerant problems on S_n and C_k, measured", measured, NOTES["measured"])
    yield Table("Comparison of orders, lower bounds evaluated", map(_evaluated, ORDERS), NOTES["evaluated"])


def _measured(cache: RunCache, order: Mapping[str, str], n: int) -> Iterator[dict[str, object]]:
    star, cube = networks(n)
    for network in (star, cube):
        about = {"problem": order["problem"], "quantity": order["quantity"], "network": network_name(network)}
        yield about | _on_network(cache, order, network, n - 1)


def _on_network(cache: RunCache, order: Mapping[str, str], network: Topology, x: int) -> dict[str, object]:
    """Return one order on one network: the formula of the algorithm, or the lower bound of the time on C_k, and a run."""
    on_star = isinstance(network, StarGraph)
    trial = run_whole_messages(cache, network, order["collective"], order["algorithm"] if on_star else "nesbt", x)
    if on_star:
        predicted = evaluate(order["S_n"], n=x + 1, f=factorial(x + 1), depths=sum_of_depths(x + 1))
    else:
        k = network.degree
        predicted = evaluate(order["C_k"], k=k, N=1 << k, x=x, depths=cube_depths(k))
    timed = order["quantity"] == "time"
    measured = trial.number("startups" if timed else "segments")
    return compared(int(predicted), measured, trial, relation=">=" if timed and not on_star else "==")


def run_whole_messages(cache: RunCache, network: Topology, collective: str, algorithm: str, x: int) -> CachedRun:
    """Run an algorithm over x trees, all-port, with packets of at most one message."""
    sizes = {"message_bytes": MESSAGE_BYTES, "packet_limit": MESSAGE_BYTES, "redundancy": x}
    return cache.run(network, collective, algorithm, port_model="all-port", **sizes)


def _evaluated(order: Mapping[str, str]) -> dict[str, object]:
    found, growth = ratios(order["S/C"], "1"), ORDER_OF_RATIO[order["better"]]
    about: dict[str, object] = {key: order[key] for key in ("problem", "quantity", "S_n, order", "C_k, order")}
    about |= {f"S/C, n = {n:,}": round(ratio, 3) for n, ratio in zip(SIZES, found, strict=True)}
    spreads = spread(order["S/C"], growth)
    return about | {"better": order["better"], "spread": round(spreads, 3), VERDICT: status(spreads)}
