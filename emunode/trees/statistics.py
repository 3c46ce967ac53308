"""Measurements of families of spanning trees: properties that the literature states before any algorithm runs on them.

Table 1 of Johnsson and Ho, for trees at root 0 whose arcs lead from level l to l + 1 over port d (dimension d):

* e_ld: arcs of port d that leave level l;
* s_ld: total size of the subtrees below those arcs;
* r_ld: pairs of a node whose parent arc has port d, and a descendant l levels below it.

A family of `count` trees carries a message in `count` parts, so every tree weighs 1/count. Ports are those of the
parent. Each function walks all the trees: use them on small networks.
"""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

from emunode.model import Port, Rank
from emunode.trees.base import Trees, levels

LevelTable = Mapping[tuple[int, Port], Fraction]
"""Values by (level, port); missing values are 0."""


def edges_by_level_and_port(trees: Trees) -> LevelTable:
    """Return e_ld of table 1: arcs of port d that leave level l, by (l, d)."""
    found: Counter[tuple[int, Port]] = Counter()
    for tree in range(trees.count):
        for rank, level in levels(trees, tree).items():
            # Counted at the parent: its level and its port are the l and d of e_ld.
            found.update((level, port) for port in trees.children(rank, tree))
    return _weighed(found, trees)


def subtrees_by_level_and_port(trees: Trees) -> LevelTable:
    """Return s_ld of table 1: sizes of the subtrees below these arcs, by (l, d)."""
    found: Counter[tuple[int, Port]] = Counter()
    neighbour = trees.topology.neighbour
    for tree in range(trees.count):
        reached, sizes = levels(trees, tree), subtree_sizes(trees, tree)
        for rank, level in reached.items():
            for port in trees.children(rank, tree):
                found[level, port] += sizes[neighbour(rank, port)]
    return _weighed(found, trees)


def descendants_by_distance_and_port(trees: Trees) -> LevelTable:
    """Return r_ld of table 1: descendants l levels below the ends of arcs of port d, by (l, d)."""
    found: Counter[tuple[int, Port]] = Counter()
    for tree in range(trees.count):
        for rank in trees.topology.ranks():
            route = trees.route(rank, tree)
            # Every arc on the path to `rank` has `rank` as a descendant; the last one at distance 0.
            found.update((below, port) for below, port in enumerate(reversed(route)))
    return _weighed(found, trees)


def subtree_sizes(trees: Trees, tree: int) -> dict[Rank, int]:
    """Return the number of ranks in the subtree of every rank, itself included."""
    reached = levels(trees, tree)
    sizes = dict.fromkeys(reached, 1)
    # Breadth-first order reversed: all children come before their parent.
    for rank in reversed(reached):
        sizes[rank] += sum(sizes[trees.topology.neighbour(rank, port)] for port in trees.children(rank, tree))
    return sizes


def arc_loads(trees: Trees) -> Counter[tuple[Rank, Port]]:
    """Return the number of trees that use each arc, an arc being (parent, port towards the child); unused arcs are
    missing.
    """
    return Counter(
        (rank, port)
        for tree in range(trees.count)
        for rank in trees.topology.ranks()
        for port in trees.children(rank, tree)
    )


def arc_congestion(trees: Trees) -> int:
    """Return the largest number of trees that share one arc; 1 means that the family is arc-disjoint."""
    return max(arc_loads(trees).values())


def shared_rank(trees: Trees) -> Rank | None:
    """Return the first rank two of whose root paths share an inner rank; None if all root paths are vertex-disjoint."""
    for rank in trees.topology.ranks():
        # The root and `rank` are on every path; only inner ranks must differ.
        inner = [between for tree in range(trees.count) for between in trees.path(rank, tree)[1:-1]]
        if len(set(inner)) < len(inner):
            return rank
    return None


def is_greedy(trees: Trees) -> bool:
    """Return whether every path from the root is a shortest one."""
    weight = trees.topology.weight
    return all(level == weight(rank) for tree in range(trees.count) for rank, level in levels(trees, tree).items())


def _weighed(found: Counter[tuple[int, Port]], trees: Trees) -> LevelTable:
    return {key: Fraction(count, trees.count) for key, count in sorted(found.items())}
