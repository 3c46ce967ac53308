"""Figures 1, 2 and 4 of Tseng and Sheu 1997, drawn from the trees that run; symbols count from 0, as they print them."""

from collections import Counter
from collections.abc import Iterator

from coordinator.papers.base import Figure, compared
from coordinator.report.drawings import COLOURS, drawing, network_panel, tree_arcs
from emunode.model import Rank
from emunode.topology.star import StarGraph
from emunode.trees.base import Trees, arc_congestion, levels, verify
from emunode.trees.measure import is_greedy
from emunode.trees.star import CongestionTwoTrees, GreedyTree
from emunode.trees.star_rotation import RotatedTrees

STAR = StarGraph(4)
"""Which all of them show."""
LABEL_CHANGE = "4132"
"""3021 where symbols count from 0."""


def from_zero(rank: Rank) -> str:
    """A label with symbols 0..n-1."""
    return "".join(str(symbol - 1) for symbol in STAR.permutation(rank))


def rotated_root(i: int) -> Rank:
    """rho^i of the identity: its label shifted right by i, cyclically."""
    return STAR.rank_of(STAR.identity[-i:] + STAR.identity[:-i]) if i else 0


def figure_1() -> Figure:
    """L(r) for the identity and its three shifts."""
    trees, roots = GreedyTree(STAR), [rotated_root(i) for i in range(STAR.n)]
    panels = [
        network_panel(
            f"({'abcd'[i]}) L({from_zero(root)})",
            STAR,
            {"blue": tree_arcs(trees, 0, root, upward=True)},
            ringed=[root],
            label=from_zero,
        )
        for i, root in enumerate(roots)
    ]
    return Figure(
        "Figure 1: spanning trees L(r) in S_4",
        drawing("Greedy spanning trees in S_4", panels),
        "Arcs lead to the root, which is ringed; dotted links are not used.",
    )


def figure_2() -> Figure:
    """The three trees Lhat at the identity."""
    trees = CongestionTwoTrees(STAR)
    panels = [
        network_panel(
            f"({'abc'[tree]}) Lhat({from_zero(rotated_root(tree + 1))})",
            STAR,
            {COLOURS[tree]: tree_arcs(trees, tree)},
            ringed=[0],
            label=from_zero,
        )
        for tree in range(trees.count)
    ]
    return Figure(
        "Figure 2: the three congestion-2 spanning trees rooted at 0123 in S_4",
        drawing("Congestion-2 spanning trees in S_4", panels),
        "Arcs lead away from the root 0123. No directed link is in more than two of the three trees.",
    )


def figure_4() -> Figure:
    """L(0123), its label change and its dimension change."""
    greedy, rotated = GreedyTree(STAR), RotatedTrees(STAR, GreedyTree(STAR))
    root = STAR.rank(LABEL_CHANGE)
    parts = (
        ("(a) L(0123)", greedy, 0, 0),
        (f"(b) LC({from_zero(root)}, L(0123))", greedy, 0, root),
        ("(c) DC(1, L(0123))", rotated, 1, 0),
    )
    panels = [
        network_panel(title, STAR, {"green": tree_arcs(trees, tree, at)}, ringed=[at], label=from_zero)
        for title, trees, tree, at in parts
    ]
    return Figure(
        "Figure 4: label change and dimension change",
        drawing("A spanning tree of S_4, its label change and its dimension change", panels),
        "LC replaces symbols 0, 1, 2, 3 by 3, 0, 2, 1; DC replaces dimensions 1, 2, 3 by 2, 3, 1.",
    )


def figure_checks() -> Iterator[dict[str, object]]:
    """What the paper says of the trees drawn; that they span S_4 is checked first, and raises ContractError if not."""
    greedy, hats, rotated = GreedyTree(STAR), CongestionTwoTrees(STAR), RotatedTrees(STAR, GreedyTree(STAR))
    for trees in (greedy, hats, rotated):
        verify(trees)
    yield _check("figure 1: L(r)", "shortest paths", "lemma 3", True, is_greedy(greedy))
    yield _check("figure 1: L(r)", "height", "D_n", STAR.diameter, _height(greedy, 0))
    shifted = Counter(arc for i in (1, 2, 3) for arc in tree_arcs(greedy, 0, rotated_root(i), upward=True))
    yield _check("figure 1 (b) to (d)", "congestion", "lemma 4: at most 2", 2, max(shifted.values()))
    for tree, height in enumerate((7, 8, 7)):
        name = f"figure 2: Lhat({from_zero(rotated_root(tree + 1))})"
        yield _check(name, "height", "D_n + n + gcd(n, i) - 2", height, _height(hats, tree))
    yield _check("figure 2", "congestion", "lemma 6: at most 2", 2, arc_congestion(hats))
    yield _check("figure 4 (c): DC(1, L(0123))", "height", "D_n", STAR.diameter, _height(rotated, 1))


def _height(trees: Trees, tree: int) -> int:
    return max(levels(trees, tree).values())


def _check(tree: str, quantity: str, paper: str, predicted: int, measured: int) -> dict[str, object]:
    return {"trees": tree, "quantity": quantity} | compared(predicted, measured, paper=paper)
