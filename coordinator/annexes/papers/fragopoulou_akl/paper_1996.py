"""Fragopoulou and Akl 1996: the n-1 edge-disjoint spanning trees, collectives on them, and fault tolerance.

P. Fragopoulou and S. G. Akl, "Edge-disjoint spanning trees on the star network with applications to fault tolerance",
IEEE Trans. Computers 45(2), 1996. All-port; M messages, each on x of the trees ("degree x of fault tolerance" in the
paper); h is the depth of the trees, d their sum of depths, t_n the sum of all distances from a node. The only text at
hand has lost its formulas: lower bounds are derived as the paper derives them, the trees are a reconstruction.
"""

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from math import ceil, factorial

from coordinator.annexes.exports.paper_figures import (
    COLOURS,
    DrawingPart,
    branch_of,
    network_panel,
    tree_arcs,
    tree_panel,
)
from coordinator.annexes.papers.base import Figure, Section, described
from coordinator.annexes.papers.figures import drawn
from coordinator.annexes.papers.fragopoulou_akl.faults import fault_tables
from coordinator.annexes.papers.fragopoulou_akl.lemmas import lemmas
from coordinator.annexes.papers.fragopoulou_akl.orders import order_tables, run_whole_messages, sum_of_depths
from coordinator.annexes.papers.fragopoulou_akl.report_1993 import others, total_distance
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import ERRATUM, VERDICT, Table, compared, compared_metric, notes
from emunode.model import Port, Rank
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.star import StarGraph
from emunode.trees.base import levels
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees, ShortestPathGraph
from emunode.trees.statistics import shared_rank

NOTES = notes("fragopoulou_akl", "paper_1996")

BEST_DEPTH = {3: 5, 4: 6, 5: 8, 6: 9}
"""Smallest depth of any n - 1 arc-disjoint spanning trees of S_n, by exhaustive search."""
UNHEARD = {3: 0, 4: 49, 5: 993}
"""Pairs (place of the fault, node) per source that get no copy in a traversal by acknowledgements."""
DEPTHS = (7, 8)
"""Larger sizes where only the depth is measured."""
LARGEST_EXCHANGE = 5


def depth(n: int) -> int:
    """Return h = floor(3n/2) + 1."""
    return 3 * n // 2 + 1


def build(cache: RunCache) -> Iterator[Section]:
    """Yield the trees, the four problems, faults, and the comparison with the hypercube."""
    sizes = cache.sizes
    # Larger sizes too, unless one size was requested.
    deeper = DEPTHS if len(sizes) > 1 else ()
    yield Table("Depth of the trees", [_depth(cache, n) for n in (*sizes, *deeper)], NOTES["depth"])
    yield Table("The trees are disjoint", [row for n in sizes for row in _disjoint(cache, n)])
    yield lemmas(cache)
    yield Table("Single node broadcast", [row for n in sizes for row in _broadcasts(cache, n)], NOTES["bounds"])
    yield Table("Multinode broadcast", [row for n in sizes for row in _multinode(cache, n)], NOTES["multinode"])
    yield Table("Single node scattering", [row for n in sizes for row in _scatterings(cache, n)], NOTES["bounds"])
    yield Table("Total exchange", [row for n in sizes for row in _exchanges(cache, n)], NOTES["bounds"])
    yield from fault_tables(cache)
    for title, rows, notes_below in (
        (
            "One faulty node, multinode broadcast",
            (row for n in sizes for row in _one_fault(cache, n)),
            NOTES["one_fault"],
        ),
        ("Lower bounds on the hypercube C_k and on S_n", _hypercubes(cache), NOTES["hypercube"]),
    ):
        if found := list(rows):  # the largest sizes have none
            yield Table(title, found, notes_below)
    yield from order_tables(cache)
    yield _spt_and_spg()
    yield _drawn()


def _broadcast(cache: RunCache, n: int, messages: int, redundancy: int) -> CachedRun:
    return _on_trees(cache, n, "broadcast", messages, redundancy)


def _on_trees(
    cache: RunCache, n: int, collective: str, messages: int, redundancy: int, algorithm: str = "edt"
) -> CachedRun:
    return cache.run(f"star:{n}", collective, algorithm, messages=messages, redundancy=redundancy)


def _depth(cache: RunCache, n: int) -> dict[str, object]:
    trial = _broadcast(cache, n, 1, 1)
    return {"n": n, "D_n": StarGraph(n).diameter} | compared(
        depth(n), trial.number("steps"), trial, paper="floor(3(n-1)/2) + ?", bound=BEST_DEPTH.get(n)
    )


def _disjoint(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    trial = _broadcast(cache, n, 1, n - 1)
    yield compared(1, trial.number("max_link_segments"), trial, paper=1, n=n, quantity="trees that use one arc")
    yield compared(
        (n - 1) * others(n), trial.number("links_used"), trial, paper="(n-1)(n!-1)", n=n, quantity="arcs used"
    )
    spread = _on_trees(cache, n, "scatter", 1, n - 1)
    yield compared(
        sum_of_depths(n),
        spread.number("segments") // (n - 1),
        spread,
        bound=total_distance(n),
        n=n,
        quantity="sum of depths d",
    )
    apart = shared_rank(EdgeDisjointTrees(StarGraph(n))) is None
    yield compared(True, apart, paper="yes", n=n, quantity="root paths of a node share no node")


def _degrees(n: int) -> list[tuple[int, int]]:
    """Return the values of (M, x) whose copies fill all trees equally."""
    return sorted({(n - 1, 1), (n - 1, 2), (1, n - 1)}, reverse=True)


def _pair(
    about: Mapping[str, object], trial: CachedRun | None, steps: tuple[int, int, str], hops: tuple[int, int, str]
) -> Iterator[dict[str, object]]:
    """Yield the rows of time and transmissions; each quantity is given as (predicted, lower bound, as derived from the
    paper).
    """
    for quantity, metric, (predicted, bound, paper) in (("time", "steps", steps), ("transmissions", "segments", hops)):
        row = compared_metric(predicted, trial, metric, paper=paper, bound=bound, quantity=quantity)
        yield {**about, **row}


def _broadcasts(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    for messages, x in [(1, 1), *_degrees(n)]:
        filled = ceil(Fraction(messages * x, n - 1)) - 1
        steps = (filled + depth(n), filled + StarGraph(n).diameter, "ceil(Mx/(n-1)) + h - 1")
        hops = messages * x * others(n)
        trial = _broadcast(cache, n, messages, x)
        yield from _pair({"n": n, "M": messages, "x": x}, trial, steps, (hops, hops, "M x (n!-1)"))


def _multinode(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    bound = ceil(Fraction(others(n)))
    hops = factorial(n) * (n - 1) * others(n)
    about = {"n": n, "M": 1, "x": n - 1}
    trial = _on_trees(cache, n, "allgather", 1, n - 1, "edt-dfs")
    clocked = about | {"traversal": "by the clock"}
    yield from _pair(clocked, trial, (bound, bound, "M x (n!-1)/(n-1)"), (hops, hops, "n! M x (n!-1)"))
    if n not in UNHEARD:
        return
    trial = _on_trees(cache, n, "allgather", 1, n - 1, "edt-dfs-ack")
    acknowledged = about | {"traversal": "by acknowledgements"}
    # an acknowledgement takes a step as well; the bound of the paper leaves it out
    printed = f"M x (n!-1)/(n-1) {ERRATUM}"
    yield from _pair(acknowledged, trial, (2 * bound, bound, printed), (2 * hops, hops, "n! M x (n!-1), acknowledged"))


def _scatterings(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    for messages, x in _degrees(n):
        trial = _on_trees(cache, n, "scatter", messages, x)
        steps = messages * x * others(n) // (n - 1)
        hops = (messages * x * sum_of_depths(n), messages * x * total_distance(n), "M x d, asymptotically M x t_n")
        yield from _pair({"n": n, "M": messages, "x": x}, trial, (steps, steps, "M x (n!-1)/(n-1)"), hops)


def _exchanges(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    for messages, x in ((1, n - 1), (n - 1, 1)):
        trial = _on_trees(cache, n, "alltoall", messages, x) if n <= LARGEST_EXCHANGE else None
        steps = (sum_of_depths(n), total_distance(n), "M x d/(n-1), asymptotically M x t_n/(n-1)")
        copies = factorial(n) * (n - 1)
        hops = (copies * sum_of_depths(n), copies * total_distance(n), "n! M x d, asymptotically n! M x t_n")
        yield from _pair({"n": n, "M": messages, "x": x}, trial, steps, hops)


# Faults.


def _one_fault(cache: RunCache, n: int) -> Iterator[dict[str, object]]:
    """Test one faulty node: all nodes are sources, so the faulty node occupies every position relative to some source."""
    if n not in UNHEARD:
        return
    star = StarGraph(n)
    pairs = (star.order - 1) * (star.order - 2)
    for algorithm, traversal, unheard, paper in (
        ("edt-dfs", "by the clock", 0, "0"),
        ("edt-dfs-ack", "by acknowledgements", UNHEARD[n], f"0 {ERRATUM}" if UNHEARD[n] else "0"),
    ):
        trial = cache.run(
            star, "allgather", algorithm, redundancy=n - 1, fault=(f"crash:{star.label(star.order - 1)}@1",)
        )
        missing = pairs - trial.number("intact_deliveries")
        yield {
            "n": n,
            "x": n - 1,
            "traversal": traversal,
            "pairs of healthy nodes": pairs,
            "quantity": "without a copy",
        } | (compared(unheard, missing, paper=paper))


# The hypercube.


def _hypercubes(cache: RunCache) -> Iterator[dict[str, object]]:
    for n, k in ((3, 3), (4, 5), (5, 7)):
        if n not in cache.sizes:
            continue
        cube, x = Hypercube(k), n - 1
        total = k << (k - 1)
        star = StarGraph(n)
        bounds = (
            ("broadcast", "broadcast", star.diameter, ceil(Fraction(x, k)) + k - 1),
            ("multinode broadcast", "allgather", others(n), ceil(Fraction(x * (cube.order - 1), k))),
            ("single node scattering", "scatter", others(n), ceil(Fraction(x * (cube.order - 1), k))),
            ("total exchange", "alltoall", total_distance(n), ceil(Fraction(x * total, k))),
        )
        for problem, collective, on_star, on_cube in bounds:
            trial = run_whole_messages(cache, cube, collective, "nesbt", x)
            measured = trial.number("startups")
            row = {
                "S_n": f"S_{n}",
                "C_k": f"C_{k}",
                "x": x,
                "problem": problem,
                "S_n, bound": on_star,
                "C_k, bound": on_cube,
            }
            verdict = compared(on_cube, measured, trial, relation=">=")[VERDICT]
            yield row | {"C_k, measured": measured, VERDICT: verdict}


def _spt_and_spg() -> Figure:
    """Draw SPT, and two subtrees of SPG, as S_4 has them; the schematic figures of the paper are not in the text."""
    star = StarGraph(4)
    graph = ShortestPathGraph(star)

    def panel(title: str, reached: Sequence[Rank], subtree: Port | None = None) -> DrawingPart:
        children: dict[Rank, set[Port]] = {}
        for rank in reached:
            here = 0
            for port in graph.route(rank, star.permutation(rank).index(1) - 1 if subtree is None else subtree):
                children.setdefault(here, set()).add(port)
                here = star.neighbour(here, port)
        return tree_panel(
            title, branch_of(star, lambda rank: sorted(children.get(rank, ())), link=lambda port: str(port + 2))
        )

    apart = [rank for rank in star.ranks() if star.permutation(rank)[0] != 1]
    at_home = [rank for rank in range(1, star.order) if star.permutation(rank)[0] == 1]
    panels = [panel("SPT", apart)]
    for subtree in range(2):
        own = [rank for rank in apart if star.permutation(rank).index(1) == subtree + 1]
        panels.append(panel(f"SPG, subtree {subtree + 2}", [*own, *at_home], subtree))
    return drawn("fragopoulou_akl", "SPT", panels)


def _drawn() -> Figure:
    trees = EdgeDisjointTrees(StarGraph(4))
    star = trees.star
    panels = [
        tree_panel(
            f"tree {tree + 2}",
            branch_of(
                star,
                lambda rank, tree=tree: trees.children(rank, tree),  # type: ignore[misc]
                link=lambda port: str(port + 2),
                steps={rank: level for rank, level in levels(trees, tree).items() if level},
            ),
        )
        for tree in range(trees.count)
    ]
    together = {COLOURS[tree]: tree_arcs(trees, tree) for tree in range(trees.count)}
    panels.append(network_panel("all three on S_4", star, together, ringed=[0]))
    return drawn("fragopoulou_akl", "disjoint", panels)


REPRODUCTION = described("fragopoulou_akl", "paper_1996", build, range(3, 7))
