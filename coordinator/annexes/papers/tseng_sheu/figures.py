"""Figures 1 to 4 of Tseng and Sheu 1997, drawn from the trees that run; symbols count from 0, as in the paper."""

from collections import Counter
from collections.abc import Iterator, Sequence
from math import cos, gcd, pi, sin

from coordinator.annexes.exports.paper_figures import COLOURS, HEAD, DrawingPart, network_panel, tree_arcs
from coordinator.annexes.papers.base import Figure
from coordinator.annexes.papers.figures import drawn
from coordinator.annexes.papers.tables import compared
from emunode.algorithms.claims import Value
from emunode.model import Rank
from emunode.testing import check_trees
from emunode.topologies.star import StarGraph
from emunode.trees.base import Trees, levels
from emunode.trees.star.greedy import CongestionTwoTrees, GreedyTree
from emunode.trees.star.rotation import RotatedTrees
from emunode.trees.statistics import arc_congestion, is_greedy

STAR = StarGraph(4)
"""The network of figures 1, 2 and 4."""
LABEL_CHANGE = "4132"
"""3021 where symbols count from 0."""
SHIFTED, SHIFT = 8, 6
"""n and i of figure 3."""
RING = 80.0
"""Radius of a cycle in figure 3."""
DISC = 17.0


def from_zero(rank: Rank) -> str:
    """Return a label with symbols 0..n-1."""
    return "".join(str(symbol - 1) for symbol in STAR.permutation(rank))


def rotated_root(i: int) -> Rank:
    """Return rho^i of the identity: its label shifted right by i, cyclically."""
    return STAR.rank_of(STAR.identity[-i:] + STAR.identity[:-i]) if i else 0


def figure_1() -> Figure:
    """Draw L(r) for the identity and its three shifts."""
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
    return drawn("tseng_sheu", 1, panels)


def figure_2() -> Figure:
    """Draw the three trees Lhat at the identity."""
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
    return drawn("tseng_sheu", 2, panels)


def cycles_of_shift(n: int, i: int) -> list[tuple[int, ...]]:
    """Return the cycles of r as a permutation of rho^i(r): the symbol in one dimension of a cycle belongs in the next
    one.

    Found by comparing the two labels, and not by the arithmetic of (2).
    """
    r = list(range(n))
    goal = r[-i:] + r[:-i]
    cycles: list[tuple[int, ...]] = []
    left = set(r)
    while left:
        cycle = [min(left)]
        while (following := goal.index(r[cycle[-1]])) != cycle[0]:
            cycle.append(following)
        left -= set(cycle)
        cycles.append(tuple(cycle))
    return cycles


def figure_3() -> Figure:
    """Draw the cycles of rho^6(r) for n = 8, each as a ring of dimensions."""
    n, i = SHIFTED, SHIFT
    cycles = cycles_of_shift(n, i)
    panels = [_ring(f"C_{k} = ({', '.join(map(str, cycle))})", cycle) for k, cycle in enumerate(cycles)]
    return drawn("tseng_sheu", 3, panels, n=n, i=i)


def _ring(title: str, cycle: Sequence[int]) -> DrawingPart:
    """Draw dimensions in a circle, clockwise from the top, with an arrow from each to the next."""
    width, middle = 260.0, HEAD + RING + 2 * DISC
    turn = 2 * pi / len(cycle)
    places = [(width / 2 + RING * sin(k * turn), middle - RING * cos(k * turn)) for k in range(len(cycle))]
    body = [_arrow(start, places[(k + 1) % len(places)]) for k, start in enumerate(places)]
    body += [
        f'<circle class="node" cx="{x:.1f}" cy="{y:.1f}" r="{DISC:.0f}" fill="var(--paper)"/>'
        f'<text class="name" x="{x:.1f}" y="{y:.1f}" font-size="13" fill="var(--ink)">{dimension}</text>'
        for dimension, (x, y) in zip(cycle, places, strict=True)
    ]
    return DrawingPart(title, width, middle + RING + 2 * DISC, body)


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    """Draw an arrow from the rim of one disc to the rim of the next."""
    (x1, y1), (x2, y2) = start, end
    long = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
    dx, dy = (x2 - x1) / long, (y2 - y1) / long
    tip_x, tip_y = x2 - dx * DISC, y2 - dy * DISC
    back_x, back_y = tip_x - 9 * dx, tip_y - 9 * dy
    return (
        f'<path class="flow" stroke-width="1.6" d="M{x1 + dx * DISC:.1f} {y1 + dy * DISC:.1f}L{back_x:.1f} {back_y:.1f}"/>'
        f'<path class="head" d="M{tip_x:.1f} {tip_y:.1f}L{back_x - 4 * dy:.1f} {back_y + 4 * dx:.1f}'
        f'L{back_x + 4 * dy:.1f} {back_y - 4 * dx:.1f}Z"/>'
    )


def figure_4() -> Figure:
    """Draw L(0123), its label change and its dimension change."""
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
    return drawn("tseng_sheu", 4, panels)


def figure_checks() -> Iterator[dict[str, object]]:
    """Check statements of the paper about the trees; raises ContractError if they do not span S_4."""
    greedy, hats, rotated = GreedyTree(STAR), CongestionTwoTrees(STAR), RotatedTrees(STAR, GreedyTree(STAR))
    for trees in (greedy, hats, rotated):
        check_trees(trees)
    yield _check("figure 1: L(r)", "shortest paths", "lemma 3", True, is_greedy(greedy))
    yield _check("figure 1: L(r)", "height", "D_n", STAR.diameter, _height(greedy, 0))
    shifted = Counter(arc for i in (1, 2, 3) for arc in tree_arcs(greedy, 0, rotated_root(i), upward=True))
    yield _check("figure 1 (b) to (d)", "congestion", "lemma 4: at most 2", 2, max(shifted.values()))
    for tree, height in enumerate((7, 8, 7)):
        name = f"figure 2: Lhat({from_zero(rotated_root(tree + 1))})"
        yield _check(name, "height", "D_n + n + gcd(n, i) - 2", height, _height(hats, tree))
    yield _check("figure 2", "congestion", "lemma 6: at most 2", 2, arc_congestion(hats))
    yield from _cycle_checks()
    yield _check("figure 4 (c): DC(1, L(0123))", "height", "D_n", STAR.diameter, _height(rotated, 1))


def _cycle_checks() -> Iterator[dict[str, object]]:
    """Yield the cycles of figure 3, and the path p_6 of the trees through their dimensions."""
    n, i = SHIFTED, SHIFT
    cycles = cycles_of_shift(n, i)
    expected = [tuple((k + step * i) % n for step in range(n // gcd(n, i))) for k in range(gcd(n, i))]
    for k, (wanted, found) in enumerate(zip(expected, cycles, strict=True)):
        name = f"figure 3: C_{k}"
        yield _check(name, "dimensions", f"({', '.join(map(str, FIGURE_3[k]))})", wanted, found)
    star = StarGraph(n)
    path = CongestionTwoTrees(star).turned_path(i)
    yield _check("figure 3: p_6", "length", "n + gcd(n, i) - 2", n + gcd(n, i) - 2, len(path))
    printed = [*FIGURE_3[0][1:], *FIGURE_3[1], FIGURE_3[1][0]]
    sequence = "trail(C_0), C_1, first(C_1)"
    yield _check("figure 3: p_6", "dimensions", sequence, tuple(printed), tuple(port + 1 for port in path))
    rank = 0
    for port in path:
        rank = star.neighbour(rank, port)
    end = "".join(str(symbol - 1) for symbol in star.permutation(rank))
    digits = "".join(map(str, range(n)))
    yield _check("figure 3: p_6", "end", "rho^6(r) = 23456701", int(digits[-i:] + digits[:-i]), int(end))


FIGURE_3 = ((0, 6, 4, 2), (1, 7, 5, 3))
"""The cycles as the text before figure 3 prints them."""


def _height(trees: Trees, tree: int) -> int:
    return max(levels(trees, tree).values())


def _check(tree: str, quantity: str, paper: str, predicted: Value, measured: Value) -> dict[str, object]:
    return compared(predicted, measured, paper=paper, trees=tree, quantity=quantity)
