"""The star graph compared with the hypercube of nearest size: lower bounds of the papers, and measurements.

Fragopoulou and Akl 1993 (TR 93-346), tables 4 (S_n), 5 (C_k) and 6 (the two compared), and the closing table of
Fragopoulou and Akl 1996 for fault-tolerant single node broadcast. Their unit of time is one uncut message over one
link. Time is therefore start-ups with packets of one message: a hypercube algorithm that sends several messages over a
link in a step pays for each. Where messages are cut into equal parts for all links there is no rounding up; these rows
are separate, with the bound that holds for parts. Erratum: table 6 prints n! n for total exchange on C_n over one port;
k 2^(k-1) gives n! n log n.
"""

from collections.abc import Iterator, Mapping, Sequence
from math import ceil, factorial, log2

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.formulas import evaluate
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import (
    EVALUATED,
    UNJUDGED,
    VERDICT,
    Table,
    compared,
    notes,
    printed,
    unmeasured,
    verdict_of,
)
from coordinator.results.claims import Verdict
from emunode.topologies.base import Topology
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph

NOTES = notes("fragopoulou_akl", "star_against_hypercube")

QUANTITIES = ("transmissions", "one-port time", "all-port time")
IN_PARTS = "all-port time in parts"
"""All-port time with every message cut into one part per link of a node; not in the papers."""
MESSAGE_BYTES = 840
"""A multiple of every degree, so that parts are equal."""


PROBLEMS = {row["problem"]: row for row in printed("star_against_hypercube")}
"""Rows of tables 4 and 5: the lower bounds as formulas, and the algorithms that are run, by family and port model."""
EXCHANGE, ALL_PORT = "total exchange", "all-port time"
BY_LIST, OF_11, BY_NECKLACES = "list schedule", "of [11], not built", "SBnT, by necklaces"
"""Algorithms for total exchange of whole messages on C_k: of this project, of the paper, and a stand-in that is slower."""


def lower_bound(problem: Mapping[str, str], network: Topology, quantity: str) -> float:
    """Return the bound of table 4 or 5, without rounding: N nodes, `total` the sum of all distances from a node."""
    total = sum(distance * count for distance, count in enumerate(network.distribution_from(0)))
    return float(evaluate(problem[quantity], N=network.order, degree=network.degree, total=total))


def networks(n: int) -> tuple[Topology, Topology]:
    """Return S_n and the hypercube whose order is nearest to n! by ratio."""
    return StarGraph(n), Hypercube(round(log2(factorial(n))))


def build(cache: RunCache) -> Iterator[Section]:
    """Yield one table per size, with both networks side by side."""
    for n in cache.sizes:
        star, cube = networks(n)
        yield Table(f"{star.title} and {cube.title}", rows(cache, n), NOTES["bounds"] if n == cache.sizes[-1] else ())


def rows(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Yield every row: one problem on both networks, bound and measurement of each."""
    pair = networks(n)
    on_star, on_cube = ([*rows_of_network(cache, network)] for network in pair)
    by_problem = {(row["problem"], row["quantity"]): row for row in on_star}
    for cube in on_cube:
        # a second algorithm for the same problem has no counterpart
        star = by_problem.pop((cube["problem"], cube["quantity"]), None)
        yield _side_by_side(str(cube["problem"]), str(cube["quantity"]), pair, [star, cube])
    for redundancy in range(1, n):
        halves = [_broadcast(cache, network, redundancy) for network in pair]
        yield _side_by_side(f"broadcast, x = {redundancy} trees", ALL_PORT, pair, halves)


def rows_of_network(cache: RunCache, network: Topology) -> Iterator[dict[str, object]]:
    """Yield the rows of table 4 or 5: problem, quantity, algorithm, and the columns of `compared`.

    The algorithm that meets 2^(k-1) in table 5 is of another paper and is not built: its row is evaluated only. A list
    schedule has as many steps, by edge colouring, and SBnT more; neither has a counterpart in print.
    """
    for name, problem in PROBLEMS.items():
        for quantity in (*QUANTITIES, IN_PARTS):
            about = {"problem": name, "quantity": quantity}
            if (name, quantity, network.family) != (EXCHANGE, ALL_PORT, "hypercube"):
                row = bound_row(cache, network, problem, quantity)
                yield about | {"algorithm": _algorithm(problem, network, quantity)} | row
                continue
            bound = ceil(lower_bound(problem, network, quantity))
            yield about | {"algorithm": BY_LIST} | bound_row(cache, network, problem, quantity) | {"paper": None}
            yield about | {"algorithm": OF_11} | unmeasured(bound, paper=bound, bound=bound)
            trial = _run(cache, problem, network, "all-port", "sbnt")
            predicted = necklace_distances(network.degree)
            slower = compared(predicted, trial.number("startups"), trial, bound=bound)
            yield about | {"algorithm": BY_NECKLACES} | slower


def _algorithm(problem: Mapping[str, str], network: Topology, quantity: str) -> str:
    model = {"transmissions": "one-port", IN_PARTS: "in parts"}.get(quantity, quantity.removesuffix(" time"))
    return problem[f"{network.family} {model}"]


def _side_by_side(
    problem: str, quantity: str, pair: tuple[Topology, Topology], halves: Sequence[Mapping[str, object] | None]
) -> dict[str, object]:
    row: dict[str, object] = {"problem": problem, "quantity": quantity}
    for network, half in zip(pair, halves, strict=True):
        row[f"{network_name(network)} algorithm"] = half and half["algorithm"]
        for column in ("bound", "predicted", "measured"):
            row[f"{network_name(network)} {column}"] = half and half["lower bound" if column == "bound" else column]
    judged = [Verdict(str(half[VERDICT])) for half in halves if half and half[VERDICT] not in UNJUDGED]
    return row | {VERDICT: str(verdict_of(judged)) if judged else EVALUATED}


def network_name(network: Topology) -> str:
    """Name a network S_n or C_k, like the papers."""
    return f"S_{network.n}" if isinstance(network, StarGraph) else f"C_{network.degree}"


def bound_row(cache: RunCache, network: Topology, problem: Mapping[str, str], quantity: str) -> dict[str, object]:
    """Return a bound of table 4 or 5, or the bound for parts, and a run, as the columns of `compared`; the bound stands
    under paper.
    """
    if quantity == IN_PARTS:
        trial = _run_in_parts(cache, problem, network)
        least = round(lower_bound(problem, network, "all-port time"), 3)
        return compared(least, messages(trial, "transfer_bytes"), trial, bound=least)
    bound = ceil(lower_bound(problem, network, quantity))
    if quantity == "transmissions":
        trial = _run(cache, problem, network, "one-port")
        return compared(bound, messages(trial, "bytes"), trial, paper=bound, bound=bound)
    trial = _run(cache, problem, network, quantity.removesuffix(" time"))
    return compared(bound, trial.number("startups"), trial, paper=bound, bound=bound)


def necklace_distances(k: int) -> int:
    """Return the sum of the distances to node 0 over the necklaces of C_k, the labels that are rotations of each other."""
    mask = (1 << k) - 1
    least = {min((label << turn | label >> (k - turn)) & mask for turn in range(k)) for label in range(1 << k)}
    return sum(label.bit_count() for label in least)


def _run(
    cache: RunCache, problem: Mapping[str, str], network: Topology, model: str, algorithm: str | None = None
) -> CachedRun:
    """Run with whole messages, one per packet: where a step has several for a link, each takes a start-up."""
    ports = "exchange" if network.family == "hypercube" and model == "one-port" else model
    sizes = {"message_bytes": MESSAGE_BYTES, "packet_limit": MESSAGE_BYTES}
    chosen = algorithm or problem[f"{network.family} {model}"]
    return cache.run(network, problem["collective"], chosen, port_model=ports, **sizes)


def _run_in_parts(cache: RunCache, problem: Mapping[str, str], network: Topology) -> CachedRun:
    """Run with equal parts over all ports; trees with repeated nodes take them as n - 1 messages for each node."""
    algorithm = problem[f"{network.family} in parts"]
    many = network.degree if algorithm == "replicated-balanced-tree" else 1
    parts = {"message_bytes": MESSAGE_BYTES // many, "messages": many}
    return cache.run(network, problem["collective"], algorithm, port_model="all-port", **parts)


def messages(trial: CachedRun, metric: str) -> float:
    """Return the bytes as messages; a fraction where parts of messages are moved."""
    whole, rest = divmod(int(trial.number(metric)), MESSAGE_BYTES)
    return whole + round(rest / MESSAGE_BYTES, 3) if rest else whole


def _broadcast(cache: RunCache, network: Topology, redundancy: int) -> dict[str, object]:
    """Broadcast over x of the disjoint trees; their depth, floor(3n/2) + 1 or k + 1, is the time, since x is at most
    their number.
    """
    star = isinstance(network, StarGraph)
    algorithm = "edt" if star else "nesbt"
    trial = cache.run(network, "broadcast", algorithm, redundancy=redundancy)
    depth = 3 * network.n // 2 + 1 if isinstance(network, StarGraph) else network.degree + 1
    bound = ceil(redundancy / network.degree) + network.diameter - 1
    return {"algorithm": algorithm} | compared(depth, trial.number("steps"), trial, paper=bound, bound=bound)


REPRODUCTION = described("fragopoulou_akl", "star_against_hypercube", build, range(3, 6))
