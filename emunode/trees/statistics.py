"""Measurements of families of spanning trees: what the literature states of a graph before any algorithm runs on it.

In the words of Johnsson and Ho, for trees at root 0 in which an arc leads from level l to l + 1 over port d (dimension
d):

* e_ld: arcs of port d that leave level l; E_d = sum over l;
* s_ld: total size of the subtrees that hang on those arcs;
* r_ld: pairs of a node whose parent arc has port d, and a descendant l levels below it.

A family of `count` trees carries a message in `count` parts, so every tree weighs 1/count. Ports are those of the
parent. Each function walks all the trees: for small networks, tests and reports.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from fractions import Fraction
from graphlib import CycleError, TopologicalSorter

from emunode.model import Port, Rank
from emunode.trees.base import Trees, arc_loads, levels

Table = Mapping[tuple[int, Port], Fraction]
"""Something by (level, port); what is missing is 0."""


def edges_by_level_and_port(trees: Trees) -> Table:
    """e_ld."""
    found: Counter[tuple[int, Port]] = Counter()
    for tree in range(trees.count):
        for rank, level in levels(trees, tree).items():
            found.update((level, port) for port in trees.children(rank, tree))
    return _weighed(found, trees)


def subtrees_by_level_and_port(trees: Trees) -> Table:
    """s_ld."""
    found: Counter[tuple[int, Port]] = Counter()
    neighbour = trees.topology.neighbour
    for tree in range(trees.count):
        reached, sizes = levels(trees, tree), subtree_sizes(trees, tree)
        for rank, level in reached.items():
            for port in trees.children(rank, tree):
                found[level, port] += sizes[neighbour(rank, port)]
    return _weighed(found, trees)


def descendants_by_distance_and_port(trees: Trees) -> Table:
    """r_ld, the number of levels l below first."""
    found: Counter[tuple[int, Port]] = Counter()
    for tree in range(trees.count):
        for rank in trees.topology.ranks():
            route = trees.route(rank, tree)
            found.update((below, port) for below, port in enumerate(reversed(route)))
    return _weighed(found, trees)


def subtree_sizes(trees: Trees, tree: int) -> dict[Rank, int]:
    """Number of ranks in the subtree of every rank, itself included."""
    reached = levels(trees, tree)
    sizes = dict.fromkeys(reached, 1)
    for rank in reversed(reached):
        sizes[rank] += sum(sizes[trees.topology.neighbour(rank, port)] for port in trees.children(rank, tree))
    return sizes


def root_subtree_sizes(trees: Trees, tree: int) -> dict[Port, int]:
    """Size of the subtree behind every port of the root, in the order in which the root serves them."""
    sizes = subtree_sizes(trees, tree)
    return {port: sizes[trees.topology.neighbour(0, port)] for port in trees.children(0, tree)}


def level_sizes(trees: Trees, tree: int) -> tuple[int, ...]:
    """Number of ranks on every level, the root's first."""
    counts = Counter(levels(trees, tree).values())
    return tuple(counts[level] for level in range(max(counts) + 1))


def distinct_arcs_by_port(trees: Trees) -> tuple[int, ...]:
    """E_d of the union: arcs of each port that some tree uses."""
    counts = Counter(port for _, port in arc_loads(trees))
    return tuple(counts[port] for port in range(trees.topology.degree))


def heaviest_arc(trees: Trees) -> Fraction:
    """Largest weight of an arc: the trees that use it over all trees."""
    return Fraction(max(arc_loads(trees).values()), trees.count)


def links_are_disjoint(trees: Trees) -> bool:
    """Whether no two trees use one link, in either direction."""
    reverse_port, neighbour = trees.topology.reverse_port, trees.topology.neighbour
    loads = arc_loads(trees)
    return max(loads.values()) == 1 and not any((neighbour(*arc), reverse_port(arc[1])) in loads for arc in loads)


def is_greedy(trees: Trees) -> bool:
    """Whether every path from the root is a shortest one."""
    weight = trees.topology.weight
    return all(level == weight(rank) for tree in range(trees.count) for rank, level in levels(trees, tree).items())


def is_acyclic(trees: Trees) -> bool:
    """Whether the arcs of all trees together form no directed cycle."""
    below: dict[Rank, set[Rank]] = defaultdict(set)
    for rank, port in arc_loads(trees):
        below[rank].add(trees.topology.neighbour(rank, port))
    try:
        TopologicalSorter(below).prepare()
    except CycleError:
        return False
    return True


def disjoint_paths(trees: Trees, rank: Rank) -> int:
    """Most root paths of a rank, one a tree, of which no two share an inner rank; equal paths count once."""
    paths = {trees.path(rank, tree)[1:-1] for tree in range(trees.count)}
    return _most_disjoint([frozenset(path) for path in sorted(paths)])


def _most_disjoint(sets: list[frozenset[Rank]]) -> int:
    if not sets:
        return 0
    first, *rest = sets
    return max(_most_disjoint(rest), 1 + _most_disjoint([other for other in rest if first.isdisjoint(other)]))


def _weighed(found: Counter[tuple[int, Port]], trees: Trees) -> Table:
    return {key: Fraction(count, trees.count) for key, count in sorted(found.items())}
