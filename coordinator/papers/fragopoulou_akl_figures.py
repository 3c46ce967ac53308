"""Figures 2 to 6 of Fragopoulou and Akl 1993: spanning trees of S_4, drawn from the trees that run.

Links are named by their type, 2..n. Nodes are shaded by the step in which a run served them. Where the paper leaves a
choice open (the Hamiltonian path, the order of necklaces) ours is drawn.
"""

from collections.abc import Callable, Iterable, Iterator

import polars as pl

from coordinator.papers.base import Figure, Lab, Trial, compared
from coordinator.report.drawings import Branch, branch_of, drawing, tree_panel
from emunode.model import Port, Rank
from emunode.topology.star import StarGraph
from emunode.trees.base import Trees
from emunode.trees.measure import is_greedy
from emunode.trees.star_hamiltonian import RotatedPaths
from emunode.trees.star_mbst import NecklaceTree
from emunode.trees.star_scatter import BalancedTree, NearBalancedTree, ReplicatedTrees

STAR = StarGraph(4)
"""Which all of them show."""
SHADES = "Darker nodes are served earlier."
SCATTERED = "Darker nodes are served earlier: the farthest first."


def figures(lab: Lab) -> Iterator[Figure]:
    """Each with the steps of its run."""
    paths, necklaces = RotatedPaths(STAR), NecklaceTree(STAR)
    yield Figure(
        "Figure 2: multinode broadcasting, algorithm 1",
        drawing(
            "Rotated Hamiltonian paths",
            [
                tree_panel("(a) construction", _scheme(), branch=120),
                tree_panel("(b) on S_4", _branch(_phase_1(paths), _heard(_broadcast(lab, "rotated-hamiltonian")))),
            ],
        ),
        f"Phase 1. {SHADES}",
    )
    yield _figure(
        "Figure 3: multinode broadcasting, algorithm 2 (MBST)",
        _children(necklaces),
        _heard(_broadcast(lab, "mbst")),
        SHADES,
    )
    for number, title, trees, algorithm, many in (
        (4, "algorithm 1, as balanced as possible", BalancedTree(STAR), "balanced-tree", 1),
        (5, "algorithm 2, balanced within a constant factor", NearBalancedTree(STAR), "near-balanced-tree", 1),
        (6, "M messages, perfectly balanced with repeated nodes", ReplicatedTrees(STAR), "replicated-balanced-tree", 3),
    ):
        served = dict(
            _scatter(lab, algorithm, many).table("nodes").select("rank", "last_step").drop_nulls().iter_rows()
        )
        yield _figure(f"Figure {number}: single node scattering, {title}", _children(trees), served, SCATTERED)


def figure_checks(lab: Lab) -> Iterator[dict[str, object]]:
    """What the paper says of these trees, in the runs that used them."""
    for name, algorithm in (("figure 2", "rotated-hamiltonian"), ("figure 3", "mbst")):
        trial = _broadcast(lab, algorithm)
        repeated = len(_types(trial).filter(pl.col("links") > pl.col("types")))
        about = {"trees": name, "quantity": "steps in which two links of one source have one type"}
        yield about | compared(0, repeated, trial, paper="theorem 2: none")
    for name, trees in (
        ("figure 3", NecklaceTree(STAR)),
        ("figure 4", BalancedTree(STAR)),
        ("figure 5", NearBalancedTree(STAR)),
    ):
        yield {"trees": name, "quantity": "shortest paths"} | compared(True, is_greedy(trees), paper="yes")
    for name, quantity, algorithm, many, sizes in (
        ("figure 4", "nodes behind the root's links", "balanced-tree", 1, (8, 8, 7)),
        ("figure 5", "nodes behind the root's links", "near-balanced-tree", 1, (9, 7, 7)),
        ("figure 6", "messages over the root's links, M = 3", "replicated-balanced-tree", 3, (23, 23, 23)),
    ):
        trial = _scatter(lab, algorithm, many)
        root = trial.table("links").filter(pl.col("sender") == 0)["segments"].sort(descending=True)
        yield {"trees": name, "quantity": quantity} | compared(sizes, tuple(root), trial, paper=PRINTED[name])


PRINTED = {
    "figure 4": "as equal as possible",
    "figure 5": "theorem 9: (n-1)! to 2(n-1)!",
    "figure 6": "theorem 10: M(n!-1)/(n-1) each",
}


def _figure(title: str, children: Callable[[Rank], Iterable[Port]], steps: dict[Rank, int], caption: str) -> Figure:
    return Figure(title, drawing(title, [tree_panel("S_4", _branch(children, steps))]), caption)


def _branch(children: Callable[[Rank], Iterable[Port]], steps: dict[Rank, int]) -> Branch:
    return branch_of(STAR, children, link=lambda port: str(port + 2), steps=steps)


def _scheme() -> Branch:
    """Root link j leads to T_j, a Hamiltonian path of the substar with symbol 1 at position j."""
    below = tuple(Branch(f"T_{j}: path of S^{j}" if j != ".." else j, j) for j in ("2", "3", "..", "n"))
    return Branch("12..n", below=below)


def _children(trees: Trees) -> Callable[[Rank], Iterable[Port]]:
    """The children in any of the trees: a repeated node has several places, but one in each."""
    return lambda rank: sorted({port for tree in range(trees.count) for port in trees.children(rank, tree)})


def _phase_1(trees: Trees) -> Callable[[Rank], Iterable[Port]]:
    """Without the nodes that start with symbol 1."""

    def children(rank: Rank) -> Iterable[Port]:
        ports = trees.children(rank, 0)
        return [port for port in ports if STAR.permutation(STAR.neighbour(rank, port))[0] != 1]

    return children


def _broadcast(lab: Lab, algorithm: str) -> Trial:
    return lab.run(topology=STAR.name, collective="allgather", algorithm=algorithm, message_bytes=60)


def _scatter(lab: Lab, algorithm: str, many: int) -> Trial:
    return lab.run(
        topology=STAR.name,
        collective="scatter",
        algorithm=algorithm,
        message_bytes=60,
        messages=many,
        port_model="all-port",
    )


def _heard(trial: Trial) -> dict[Rank, int]:
    """The step in which every rank heard rank 0."""
    firsts = trial.journal().filter(pl.col("origin") == 0, pl.col("outcome") == "first")
    return dict(firsts.select("receiver", "step").collect().iter_rows())


def _types(trial: Trial) -> pl.DataFrame:
    """Links and different link types that carry the message of rank 0, by step."""
    hops = trial.journal().filter(pl.col("origin") == 0)
    return hops.group_by("step").agg(links=pl.len(), types=pl.col("port").n_unique()).collect()
