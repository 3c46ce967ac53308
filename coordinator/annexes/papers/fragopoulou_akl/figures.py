"""Figures 1 to 6 of Fragopoulou and Akl 1993: S_4, and spanning trees of it, drawn from the trees that run.

Links are named by their type, 2..n. Nodes are shaded by the step when a run reached them. Choices that the paper leaves
open (the Hamiltonian path, the order of necklaces) are choices of this project.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import permutations
from math import factorial

import polars as pl

from coordinator.annexes.exports.paper_figures import COLOURS, Arc, Branch, branch_of, network_panel, tree_panel
from coordinator.annexes.papers.base import Figure
from coordinator.annexes.papers.figures import drawn
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import stated
from emunode.model import Port, Rank
from emunode.topologies.star import StarGraph
from emunode.trees.base import Trees
from emunode.trees.star.balanced import BalancedTree, NearBalancedTree, ReplicatedTrees
from emunode.trees.star.hamiltonian import RotatedPaths
from emunode.trees.star.necklace import NecklaceTree
from emunode.trees.statistics import is_greedy

STAR = StarGraph(4)
"""The network of all figures."""


def figures(cache: RunCache) -> Iterator[Figure]:
    """Yield every figure, shaded by the steps of its run."""
    paths, necklaces = RotatedPaths(STAR), NecklaceTree(STAR)
    yield _figure_1()
    receipts = _first_receipts(_broadcast(cache, "rotated-hamiltonian"))
    on_star = tree_panel("(b) on S_4", _branch(_phase_1(paths), receipts))
    yield drawn("fragopoulou_akl", 2, [tree_panel("(a) construction", _scheme(), branch=120), on_star])
    yield _figure(3, _children(necklaces), _first_receipts(_broadcast(cache, "mbst")))
    for number, trees, algorithm, many in (
        (4, BalancedTree(STAR), "balanced-tree", 1),
        (5, NearBalancedTree(STAR), "near-balanced-tree", 1),
        (6, ReplicatedTrees(STAR), "replicated-balanced-tree", 3),
    ):
        nodes = _scatter(cache, algorithm, many).table("nodes")
        served = dict(nodes.select("rank", "last_step").drop_nulls().iter_rows())
        yield _figure(number, _children(trees), served)


def _figure_1() -> Figure:
    """Draw the four S_3 in colour, by the symbol at position 4, and the links of type 4 between them."""
    within: dict[str, list[Arc]] = {colour: [] for colour in COLOURS[: STAR.n]}
    for rank in STAR.ranks():
        colour = COLOURS[STAR.permutation(rank)[-1] - 1]
        within[colour] += [(rank, port) for port in range(STAR.degree - 1)]
    panel = network_panel("S_4", STAR, within, width=640.0)
    return drawn("fragopoulou_akl", 1, [panel])


def substar_checks(n: int) -> Iterator[dict[str, object]]:
    """Yield the properties of the substars with one symbol at position n, and of the further decomposition."""
    star = StarGraph(n)
    parts: dict[int, list[Rank]] = {}
    for rank in star.ranks():
        parts.setdefault(star.permutation(rank)[-1], []).append(rank)
    row = stated(
        "fragopoulou_akl_1993_figures",
        n=n,
        below=n - 1,
        f=factorial(n),
        sizes=(factorial(n - 1),) * n,
        links=(factorial(n - 2),) * (n * (n - 1) // 2),
    )
    yield row("sizes", tuple(len(part) for part in parts.values()))
    yield row("stars", sum(is_star(star, part) for part in parts.values()))
    between = Counter(
        frozenset((symbol, star.permutation(star.neighbour(rank, star.degree - 1))[-1]))
        for symbol, part in parts.items()
        for rank in part
    )
    yield row("links", tuple(count // 2 for count in between.values()))
    for k in range(1, n):
        found = len({star.permutation(rank)[k:] for rank in star.ranks()})
        yield row("substars", found, k=k, part=factorial(k))


def is_star(star: StarGraph, part: Sequence[Rank]) -> bool:
    """Return whether these nodes and the links of types 2..n-1 between them are S_{n-1}, symbols renamed in order."""
    symbols = bytes(sorted(star.permutation(part[0])[:-1]))
    image = {rank: bytes(symbols.find(symbol) + 1 for symbol in star.permutation(rank)[:-1]) for rank in part}
    swaps = all(
        image.get(star.neighbour(rank, port)) == x[port + 1 : port + 2] + x[1 : port + 1] + x[:1] + x[port + 2 :]
        for rank, x in image.items()
        for port in range(star.degree - 1)
    )
    return swaps and set(image.values()) == set(map(bytes, permutations(range(1, star.n))))


def figure_checks(cache: RunCache) -> Iterator[dict[str, object]]:
    """Check statements of the paper about these trees in the runs that used them."""
    yield from substar_checks(STAR.n)
    row = stated("fragopoulou_akl_1993_figures")
    for algorithm in ("rotated-hamiltonian", "mbst"):
        trial = _broadcast(cache, algorithm)
        yield row(algorithm, len(_types(trial).filter(pl.col("links") > pl.col("types"))), trial)
    for number, trees in ((3, NecklaceTree(STAR)), (4, BalancedTree(STAR)), (5, NearBalancedTree(STAR))):
        yield row(f"figure {number}", is_greedy(trees))
    for algorithm, many in (("balanced-tree", 1), ("near-balanced-tree", 1), ("replicated-balanced-tree", 3)):
        trial = _scatter(cache, algorithm, many)
        root = trial.table("links").filter(pl.col("sender") == 0)["segments"].sort(descending=True)
        yield row(algorithm, tuple(root), trial)


def _figure(number: int, children: Callable[[Rank], Iterable[Port]], steps: dict[Rank, int]) -> Figure:
    return drawn("fragopoulou_akl", number, [tree_panel("S_4", _branch(children, steps))])


def _branch(children: Callable[[Rank], Iterable[Port]], steps: dict[Rank, int]) -> Branch:
    return branch_of(STAR, children, link=lambda port: str(port + 2), steps=steps)


def _scheme() -> Branch:
    """Draw the branch of root link j, to T_j: a Hamiltonian path of the substar with symbol 1 at position j."""
    below = tuple(Branch(f"T_{j}: path of S^{j}" if j != ".." else j, j) for j in ("2", "3", "..", "n"))
    return Branch("12..n", below=below)


def _children(trees: Trees) -> Callable[[Rank], Iterable[Port]]:
    """Return the children over all trees: a repeated node has several places, but only one per tree."""
    return lambda rank: sorted({port for tree in range(trees.count) for port in trees.children(rank, tree)})


def _phase_1(trees: Trees) -> Callable[[Rank], Iterable[Port]]:
    """Return the children without the nodes that start with symbol 1."""

    def children(rank: Rank) -> Iterable[Port]:
        ports = trees.children(rank, 0)
        return [port for port in ports if STAR.permutation(STAR.neighbour(rank, port))[0] != 1]

    return children


def _broadcast(cache: RunCache, algorithm: str) -> CachedRun:
    return cache.run(STAR, "allgather", algorithm, message_bytes=60)


def _scatter(cache: RunCache, algorithm: str, many: int) -> CachedRun:
    return cache.run(STAR, "scatter", algorithm, message_bytes=60, messages=many, port_model="all-port")


def _first_receipts(trial: CachedRun) -> dict[Rank, int]:
    """Return the step when each rank first receives from rank 0."""
    firsts = trial.journal().filter(pl.col("origin") == 0, pl.col("outcome") == "first")
    return dict(firsts.select("receiver", "step").collect().iter_rows())


def _types(trial: CachedRun) -> pl.DataFrame:
    """Count for each step the links and the distinct link types that carry the message of rank 0."""
    hops = trial.journal().filter(pl.col("origin") == 0)
    return hops.group_by("step").agg(links=pl.len(), types=pl.col("port").n_unique()).collect()
