"""Fragopoulou and Akl 1993: tables 1 to 6 evaluated and measured, theorems counted, and figures 1 to 6 drawn.

P. Fragopoulou and S. G. Akl, "Optimal communication algorithms on star graphs using spanning tree constructions",
TR 93-346, Queen's University 1993. SLA is the one-port, MLA the all-port model; a message crosses a link in a step.
t_n = n! (n + 2/n + H_n - 4) is the sum of all distances from a node. M messages are M = n - 1 here, of which every
method makes whole shares.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, factorial

import polars as pl

from coordinator.papers.base import Reproduction, Section
from coordinator.papers.fragopoulou_akl.figures import figure_checks, figures
from coordinator.papers.fragopoulou_akl.star_against_hypercube import (
    IN_PARTS,
    PROBLEMS,
    QUANTITIES,
    bound_row,
    networks,
)
from coordinator.papers.fragopoulou_akl.theorems import theorems
from coordinator.papers.run_cache import RunCache, Trial
from coordinator.papers.tables import ERRATUM, VERDICT, Table, compared, notes, unmeasured
from emunode.topologies.star import StarGraph
from emunode.trees.star.rotation import Rotation, necklace_count

NOTES = notes("fragopoulou_akl", "report_1993")

MESSAGE_BYTES = 60
MOST_HOPS = {"SLA": 600_000, "MLA": 2_500_000}
"""Larger runs are evaluated and not measured: they take a minute each."""
LARGEST_PAIR = 5
"""The largest star graph that is set beside a hypercube."""
MODELS = {"SLA": "one-port", "MLA": "all-port"}
Formula = Callable[[int, int], int]
"""Of n and M."""


def total_distance(n: int) -> int:
    """t_n by the closed form."""
    harmonic = sum(Fraction(1, i) for i in range(1, n + 1))
    return int(factorial(n) * (n + Fraction(2, n) + harmonic - 4))


def others(n: int) -> int:
    """n! - 1."""
    return factorial(n) - 1


def necklace_distances(n: int) -> int:
    """Sum over the necklaces of S_n of their distance to the root."""
    star = StarGraph(n)
    return sum(star.weight(necklace[0]) for necklace in Rotation(star).necklaces())


@dataclass(frozen=True)
class Method:
    """One cell of tables 1 to 3: how it prints its time, and what its schedule takes."""

    model: str
    many: bool
    name: str
    algorithm: str
    printed: str
    steps: Formula
    collective: str = ""
    """Where it is not the table's."""


@dataclass(frozen=True)
class Problem:
    """One of tables 1 to 3: a problem, its bounds and its methods."""

    title: str
    collective: str
    busiest: Callable[[int], int]
    """Messages that the busiest node sends or receives, for M = 1: over one port the time."""
    transmissions: Callable[[int], int]
    printed: str
    """The printed number of transmissions for M = 1."""
    methods: tuple[Method, ...]
    notes: Sequence[str]

    def least_steps(self, n: int, many: int, model: str) -> int:
        """The lower bound of section 2."""
        busiest = many * self.busiest(n)
        return busiest if model == "SLA" else ceil(Fraction(busiest, n - 1))


def _one(n: int, many: int) -> int:
    return many * others(n)


def _spread(n: int, many: int) -> int:
    return ceil(Fraction(many * others(n), n - 1))


def _one_exchange(n: int, many: int) -> int:
    return many * total_distance(n)


def _spread_exchange(n: int, many: int) -> int:
    return ceil(Fraction(many * total_distance(n), n - 1))


ONE, SPREAD = "n! - 1", "ceil((n!-1)/(n-1))"
MANY, MANY_SPREAD = "M(n! - 1)", "ceil(M(n!-1)/(n-1))"

BROADCASTING = Problem(
    "Table 1, multinode broadcasting",
    "allgather",
    others,
    lambda n: factorial(n) * others(n),
    "n!(n! - 1)",
    (
        Method("SLA", False, "Hamiltonian cycle", "hamiltonian-cycle", ONE, _one),
        Method("SLA", True, "Hamiltonian cycle, M times", "hamiltonian-cycle", MANY, _one),
        Method("MLA", False, "rotated Hamiltonian paths", "rotated-hamiltonian", SPREAD, _spread),
        Method(
            "MLA",
            True,
            "rotated Hamiltonian paths, M times",
            "rotated-hamiltonian",
            f"{MANY_SPREAD} {ERRATUM}",
            _spread,
        ),
        Method("MLA", False, "technique from [11] (MBST)", "mbst", SPREAD, _spread),
        Method(
            "MLA",
            True,
            "MBST, M times (not printed)",
            "mbst",
            "M ceil((n!-1)/(n-1))",
            lambda n, many: many * _spread(n, 1),
        ),
    ),
    NOTES["multinode_broadcasting"],
)

SCATTERING = Problem(
    "Table 2, single node scattering",
    "scatter",
    others,
    total_distance,
    "t_n",
    (
        Method("SLA", False, "shortest-path tree", "balanced-tree", ONE, _one),
        Method("SLA", True, "shortest-path tree, M times", "balanced-tree", MANY, _one),
        Method("MLA", False, "as balanced as possible", "balanced-tree", SPREAD, _spread),
        Method("MLA", False, "as balanced as possible, gathering", "balanced-tree", SPREAD, _spread, "gather"),
        Method(
            "MLA",
            False,
            "almost balanced",
            "near-balanced-tree",
            f"O({SPREAD})",
            lambda n, many: many * necklace_count(n),
        ),
        Method(
            "MLA",
            True,
            "as balanced as possible (text)",
            "balanced-tree",
            "M ceil((n!-1)/(n-1))",
            lambda n, many: many * _spread(n, 1),
        ),
        Method("MLA", True, "perfectly balanced, repeated nodes", "replicated-balanced-tree", MANY_SPREAD, _spread),
    ),
    NOTES["single_node_scattering"],
)

EXCHANGE = Problem(
    "Table 3, total exchange",
    "alltoall",
    total_distance,
    lambda n: factorial(n) * total_distance(n),
    "n! t_n",
    (
        Method("SLA", False, "shortest-path tree", "near-balanced-tree", "t_n", _one_exchange),
        Method("SLA", True, "shortest-path tree, M times", "near-balanced-tree", "M t_n", _one_exchange),
        Method(
            "MLA",
            False,
            "almost balanced (rule 9)",
            "near-balanced-tree",
            f"O(ceil(t_n/(n-1))) {ERRATUM}",
            lambda n, many: many * necklace_distances(n),
        ),
        Method(
            "MLA",
            True,
            "perfectly balanced (rule 10)",
            "replicated-balanced-tree",
            "ceil(M t_n/(n-1))",
            _spread_exchange,
        ),
        Method("MLA", False, "open problem: list schedule", "list-schedule", "open: ceil(t_n/(n-1))", _spread_exchange),
    ),
    NOTES["total_exchange"],
)


def build(cache: RunCache) -> Iterator[Section]:
    """Tables 1 to 3 and theorems over the sizes, tables 4 to 6 over pairs of networks, then the figures."""
    for problem in (BROADCASTING, SCATTERING, EXCHANGE):
        rows = [
            row for n in cache.sizes for method in problem.methods for row in _method_rows(cache, problem, method, n)
        ]
        yield Table(problem.title, rows, problem.notes)
    yield Table("Section 5: messages over the root's links", [row for n in cache.sizes for row in _balance(cache, n)])
    yield from theorems(cache)
    rule_9 = [row for n in cache.sizes for row in _rule_9(cache, n)]
    yield Table("Section 7: the time of rule 9, as printed and as it is", rule_9, NOTES["rule_9"])
    pairs = [n for n in cache.sizes if n <= LARGEST_PAIR]
    if pairs:
        yield Table("Table 4, star network S_n", [row for n in pairs for row in _network_rows(cache, n, 0)])
        yield Table(
            "Table 5, hypercube network C_k",
            [row for n in pairs for row in _network_rows(cache, n, 1)],
            NOTES["table_5"],
        )
        yield Table("Table 6, comparison", _orders(cache, pairs), NOTES["table_6"])
    yield from figures(cache)
    yield Table("Figures 1 to 6: what is in them", figure_checks(cache), NOTES["figures"])


def _method_rows(cache: RunCache, problem: Problem, method: Method, n: int) -> Iterator[dict[str, object]]:
    many = n - 1 if method.many else 1
    hops = many * problem.transmissions(n)
    trial = _run(cache, problem, method, n, many) if hops <= MOST_HOPS[method.model] else None
    about = {"n": n, "model": method.model, "messages": "M = n-1" if method.many else "1", "method": method.name}
    cells = (
        ("time", "steps", method.printed, method.steps(n, many), problem.least_steps(n, many, method.model)),
        ("messages", "segments", f"M {problem.printed}" if method.many else problem.printed, hops, hops),
    )
    for quantity, metric, printed, predicted, bound in cells:
        row = about | {"quantity": quantity}
        if trial is None:
            yield row | unmeasured(predicted, paper=printed, bound=bound)
        else:
            yield row | compared(predicted, trial.number(metric), trial, paper=printed, bound=bound)


def _run(cache: RunCache, problem: Problem, method: Method, n: int, many: int) -> Trial:
    return cache.run(
        topology=f"star:{n}",
        collective=method.collective or problem.collective,
        algorithm=method.algorithm,
        port_model=MODELS[method.model],
        message_bytes=MESSAGE_BYTES,
        messages=many,
    )


def _balance(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """The largest share of a root link in a scatter is the largest root subtree of its tree, and the time."""
    least = ceil(Fraction(others(n), n - 1))
    for section, algorithm, many, largest, printed in (
        ("5.1", "balanced-tree", 1, least, "ceil((n!-1)/(n-1))"),
        ("5.2, definition 13", "near-balanced-tree", 1, necklace_count(n), "(n-1)! to 2(n-1)!"),
        ("5.2, definition 15", "replicated-balanced-tree", n - 1, others(n), "M(n!-1)/(n-1), M = n-1"),
    ):
        trial = cache.run(
            topology=f"star:{n}",
            collective="scatter",
            algorithm=algorithm,
            port_model="all-port",
            message_bytes=MESSAGE_BYTES,
            messages=many,
        )
        shares = sorted(trial.table("links").filter(pl.col("sender") == 0)["segments"])
        yield {"n": n, "tree of section": section, "smallest": shares[0]} | compared(
            largest, shares[-1], trial, paper=printed, bound=ceil(Fraction(many * others(n), n - 1))
        )


def _rule_9(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """h d, which the paper prints, and the sum of distances over the h necklaces."""
    rule = next(
        method for method in EXCHANGE.methods if method.algorithm == "near-balanced-tree" and method.model == "MLA"
    )
    average = Fraction(total_distance(n), factorial(n))
    necklaces = necklace_count(n)
    about = {"n": n, "necklaces h": necklaces, "average distance d": round(float(average), 4)}
    steps, bound = rule.steps(n, 1), EXCHANGE.least_steps(n, 1, "MLA")
    trial = _run(cache, EXCHANGE, rule, n, 1)
    yield about | compared(
        steps, trial.number("steps"), trial, paper=f"h d = {float(necklaces * average):.6g} {ERRATUM}", bound=bound
    )


# Tables 4 to 6.

PRINTED = {
    ("star", "multinode broadcast"): ("n!(n! - 1)", ONE, SPREAD),
    ("star", "single node scatter"): ("t_n", ONE, SPREAD),
    ("star", "total exchange"): ("n! t_n", "t_n", "ceil(t_n/(n-1))"),
    ("hypercube", "multinode broadcast"): ("2^k(2^k - 1)", "2^k - 1", "ceil((2^k-1)/k)"),
    ("hypercube", "single node scatter"): ("k 2^(k-1)", "2^k - 1", "ceil((2^k-1)/k)"),
    ("hypercube", "total exchange"): ("k 2^(2k-1)", "k 2^(k-1)", "2^(k-1)"),
}
"""Transmissions, time (SLA) and time (MLA) of tables 4 and 5."""
ORDERS = {
    "multinode broadcast": (("(n!)^2", "(n!)^2"), ("n!", "n!"), ("n!/n", "n!/(n log n)")),
    "single node scatter": (("n! n", "n! n log n"), ("n!", "n!"), ("n!/n", "n!/(n log n)")),
    "total exchange": (("(n!)^2 n", "(n!)^2 n log n"), ("n! n", f"n! n {ERRATUM}"), ("n!", "n!")),
}
"""Table 6: the same on S_n and on C_n."""


def _network_rows(cache: RunCache, n: int, which: int) -> Iterator[dict[str, object]]:
    network = networks(n)[which]
    name = f"C_{network.degree}" if which else f"S_{n}"
    for problem in PROBLEMS:
        printed = dict(zip(QUANTITIES, PRINTED[network.family, problem.name], strict=True))
        for quantity in (*QUANTITIES, IN_PARTS):
            row = bound_row(cache, network, problem, quantity)
            paper = printed.get(quantity, "-")
            yield {"network": name, "problem": problem.name, "quantity": quantity} | row | {"paper": paper}


def _orders(cache: RunCache, sizes: list[int]) -> Iterator[dict[str, object]]:
    for problem in PROBLEMS:
        for quantity, (star, cube) in zip(QUANTITIES, ORDERS[problem.name], strict=True):
            row: dict[str, object] = {
                "problem": problem.name,
                "quantity": quantity,
                "S_n, order": star,
                "C_n, order": cube,
            }
            verdicts = []
            for n in sizes:
                halves = [bound_row(cache, network, problem, quantity) for network in networks(n)]
                one, other = (half["measured"] for half in halves)
                row |= {f"S_{n}": one, f"C_{networks(n)[1].degree}": other}
                verdicts += [half[VERDICT] for half in halves]
            yield row | {VERDICT: next((verdict for verdict in verdicts if verdict != "holds"), "holds")}


REPRODUCTION = Reproduction(
    name="fragopoulou-akl-1993",
    title="Optimal communication on star graphs by spanning trees",
    paper="Fragopoulou-Akl 1993 (TR 93-346), tables 1 to 6, theorems 3 and 5 to 10, figures 1 to 6",
    description="Multinode broadcasting, scattering and total exchange, for one message and for M, beside the hypercube.",
    build=build,
    sizes=range(3, 7),
)
