"""Fragopoulou and Akl 1993: tables 1 to 6 evaluated and measured, theorems counted, and figures 1 to 6 drawn.

P. Fragopoulou and S. G. Akl, "Optimal communication algorithms on star graphs using spanning tree constructions",
TR 93-346, Queen's University 1993. SLA is the one-port, MLA the all-port model; a message crosses a link in a step.
t_n = n! (n + 2/n + H_n - 4) is the sum of all distances from a node. M is n - 1 here, so that every method divides it
into whole shares.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache
from math import ceil, factorial

import polars as pl

from coordinator.annexes.papers.base import Section, described
from coordinator.annexes.papers.formulas import evaluate
from coordinator.annexes.papers.fragopoulou_akl.figures import figure_checks, figures
from coordinator.annexes.papers.fragopoulou_akl.star_against_hypercube import network_name, networks, rows_of_network
from coordinator.annexes.papers.fragopoulou_akl.theorems import theorems
from coordinator.annexes.papers.growth import MOST, spread, status
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import (
    VERDICT,
    Table,
    compared,
    compared_metric,
    marked,
    notes,
    printed,
    unmeasured,
)
from coordinator.results.claims import Verdict
from emunode.topologies.star import StarGraph
from emunode.trees.star.rotation import Rotation, necklace_count

NOTES = notes("fragopoulou_akl", "report_1993")

MESSAGE_BYTES = 60
MOST_HOPS = {"SLA": 600_000, "MLA": 2_500_000}
"""Hops of the largest run per model; larger ones take a minute each and are only evaluated."""
LARGEST_PAIR = 5
"""The largest star graph that is compared with a hypercube."""
MODELS = {"SLA": "one-port", "MLA": "all-port"}


def total_distance(n: int) -> int:
    """Return t_n in closed form."""
    harmonic = sum(Fraction(1, i) for i in range(1, n + 1))
    return int(factorial(n) * (n + Fraction(2, n) + harmonic - 4))


def others(n: int) -> int:
    """Return n! - 1."""
    return factorial(n) - 1


@cache
def necklace_distances(n: int) -> int:
    """Return the sum over the necklaces of S_n of their distance to the root."""
    star = StarGraph(n)
    return sum(star.weight(necklace[0]) for necklace in Rotation(star).necklaces())


METHOD_TABLES = {row["table"]: row for row in printed("fragopoulou_akl_1993_tables")}
"""Tables 1 to 3: for M = 1 the messages that the busiest node sends or receives, and the transmissions, as formulas."""
METHODS = printed("fragopoulou_akl_1993_methods")
"""The methods of tables 1 to 3: the printed time, and the steps of the schedule as a formula."""


def _evaluated(formula: str, n: int, many: int = 1) -> int:
    names = {"f": factorial(n), "t_n": total_distance(n), "necklaces": necklace_count(n)}
    return int(evaluate(formula, n=n, M=many, necklace_distances=necklace_distances(n), **names))


def _least_steps(method: Mapping[str, str], n: int, many: int) -> int:
    """Return the lower bound of section 2: the busiest node has one port, or n - 1."""
    busiest = many * _evaluated(METHOD_TABLES[method["table"]]["busiest"], n)
    return busiest if method["model"] == "SLA" else ceil(Fraction(busiest, n - 1))


def build(cache: RunCache) -> Iterator[Section]:
    """Yield tables 1 to 3 and the theorems for all sizes, tables 4 to 6 for pairs of networks, then the figures."""
    for number, table in METHOD_TABLES.items():
        methods = [method for method in METHODS if method["table"] == number]
        rows = [row for n in cache.sizes for method in methods for row in _method_rows(cache, method, n)]
        yield Table(table["title"], rows, NOTES[table["notes"]])
    yield Table("Section 5: messages over the root's links", [row for n in cache.sizes for row in _balance(cache, n)])
    yield from theorems(cache)
    rule_9 = [_rule_9(cache, n) for n in cache.sizes]
    yield Table("Section 7: the time of rule 9, as printed and as measured", rule_9, NOTES["rule_9"])
    pairs = [n for n in cache.sizes if n <= LARGEST_PAIR]
    if pairs:
        yield Table("Table 4, star network S_n", [row for n in pairs for row in _network_rows(cache, n, 0)])
        yield Table(
            "Table 5, hypercube network C_k",
            [row for n in pairs for row in _network_rows(cache, n, 1)],
            NOTES["table_5"],
        )
    yield Table("Table 6, comparison of orders", _orders(), NOTES["table_6"])
    yield Table("Tables 2 and 3: orders of the time", _orders_of_methods(), NOTES["orders"])
    yield from figures(cache)
    yield Table("Figures 1 to 6: properties of their networks and trees", figure_checks(cache), NOTES["figures"])


def _method_rows(cache: RunCache, method: Mapping[str, str], n: int) -> Iterator[dict[str, object]]:
    many, table = 1 if method["messages"] == "1" else n - 1, METHOD_TABLES[method["table"]]
    hops = many * _evaluated(table["transmissions"], n)
    trial = _run(cache, method, n, many) if hops <= MOST_HOPS[method["model"]] else None
    about = {"n": n, **{key: method[key] for key in ("model", "messages", "method")}}
    transmissions = table["printed"] if many == 1 else f"M {table['printed']}"
    steps, least = _evaluated(method["steps"], n, many), _least_steps(method, n, many)
    # an order is no number: the bound behind it is a row of its own
    paper = None if method["most"] else method["printed"]
    yield compared_metric(steps, trial, "steps", paper=paper, bound=least, **about, quantity="time")
    if method["most"]:
        yield about | {"quantity": "time, at most"} | _at_most(method, n, trial)
    yield compared_metric(hops, trial, "segments", paper=transmissions, bound=hops, **about, quantity="messages")


def _at_most(method: Mapping[str, str], n: int, trial: CachedRun | None) -> dict[str, object]:
    """Return the bound behind a time that the text prints as an order, corrected where the time exceeds it."""
    most = round(float(evaluate(method["most"], n=n, f=factorial(n), t_n=total_distance(n))), 4)
    # section 7: h d takes the average over nodes for the average over necklaces
    wrong = (method["collective"], n) == ("alltoall", 3)
    paper = method["printed"]
    if wrong:
        paper, most = marked(f"<= {most:g}", erratum=True), _evaluated(method["steps"], n)
    if trial is None:
        return unmeasured(most, paper=paper)
    return compared(most, trial.number("steps"), trial, paper=paper, relation="<=")


def _run(cache: RunCache, method: Mapping[str, str], n: int, many: int) -> CachedRun:
    sizes = {"message_bytes": MESSAGE_BYTES, "messages": many}
    model = MODELS[method["model"]]
    return cache.run(f"star:{n}", method["collective"], method["algorithm"], port_model=model, **sizes)


def _balance(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Compare the largest share of a root link in a scatter with the largest root subtree of its tree, and the times."""
    least = ceil(Fraction(others(n), n - 1))
    for section, algorithm, many, largest, paper in (
        ("5.1", "balanced-tree", 1, least, "ceil((n!-1)/(n-1))"),
        ("5.2, definition 13", "near-balanced-tree", 1, necklace_count(n), "(n-1)! to 2(n-1)!"),
        ("5.2, definition 15", "replicated-balanced-tree", n - 1, others(n), "M(n!-1)/(n-1), M = n-1"),
    ):
        trial = cache.run(
            f"star:{n}", "scatter", algorithm, port_model="all-port", message_bytes=MESSAGE_BYTES, messages=many
        )
        if cache.rehearsing:
            continue
        shares = sorted(trial.table("links").filter(pl.col("sender") == 0)["segments"])
        yield {"n": n, "tree of section": section, "smallest": shares[0]} | compared(
            largest, shares[-1], trial, paper=paper, bound=ceil(Fraction(many * others(n), n - 1))
        )


def _rule_9(cache: RunCache, n: int) -> dict[str, object]:
    """Compare h d, as printed in the paper, with the sum of distances over the h necklaces."""
    (rule,) = (method for method in METHODS if "rule 9" in method["method"])
    average, necklaces = Fraction(total_distance(n), factorial(n)), necklace_count(n)
    about = {"n": n, "necklaces h": necklaces, "average distance d": round(float(average), 4)}
    paper = marked(f"h d = {float(necklaces * average):.6g}", erratum=True)
    trial = _run(cache, rule, n, 1)
    predicted, bound = _evaluated(rule["steps"], n), _least_steps(rule, n, 1)
    return about | compared(predicted, trial.number("steps"), trial, paper=paper, bound=bound)


# Tables 4 to 6.


def _network_rows(cache: RunCache, n: int, which: int) -> Iterator[dict[str, object]]:
    """Yield table 4 for the star graph, table 5 for the hypercube."""
    network = networks(n)[which]
    papers = {row["problem"]: row for row in printed("fragopoulou_akl_1993_bounds") if row["family"] == network.family}
    for row in rows_of_network(cache, network):
        paper = papers[str(row["problem"])].get(str(row["quantity"])) if row["paper"] is not None else None
        yield {"network": network_name(network)} | row | {"paper": paper}


def _orders() -> Iterator[dict[str, object]]:
    """Yield table 6: the closed forms of tables 4 and 5, divided by powers of n!, beside the orders."""
    for order in printed("fragopoulou_akl_1993_table_6"):
        star, cube = (spread(order[network], order[f"{network} growth"]) for network in ("S_n", "C_n"))
        misprint = spread(order["C_n"], order["C_n misprint"]) if order["C_n misprint"] else None
        yield {
            "problem": order["problem"],
            "quantity": order["quantity"],
            "S_n, order": order["S_n, order"],
            "C_n, order": order["C_n, order"],
            "S_n, spread": round(star, 3),
            "C_n, spread": round(cube, 3),
            "as printed": None if misprint is None else round(misprint, 3),
            VERDICT: status(star, cube) if misprint is None or misprint > MOST else Verdict.VIOLATED,
        }


def _orders_of_methods() -> Iterator[dict[str, object]]:
    """Derive two orders of tables 2 and 3 from the bounds of the text."""
    for row in printed("fragopoulou_akl_1993_orders"):
        found = spread(row["form"], row["growth"])
        about = {key: row[key] for key in ("method", "order", "at most")}
        yield about | {"spread": round(found, 3), VERDICT: status(found)}


REPRODUCTION = described("fragopoulou_akl", "report_1993", build, range(3, 7))
