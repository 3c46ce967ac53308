"""Checkers of spanning trees that are given as parents: each answers None, or names the first offending node or link.

A tree is a sequence of parents: entry r is the parent of rank r, and `NO_PARENT` at the root. Trees may come from a
construction of this package, from an algorithm, or from a file; nothing here looks at how they were made. `tree_problem`
comes first: the other checkers take trees that it accepts.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from emunode.model import Rank
from emunode.topologies.base import Topology

NO_PARENT: Final[Rank] = -1
"""The parent of the root."""

Parents = Sequence[Rank]
"""The parent of every rank, by rank."""


def root_of(parents: Parents) -> Rank:
    """Return the root of a tree."""
    return list(parents).index(NO_PARENT)


def arcs_of(parents: Parents) -> Iterator[tuple[Rank, Rank]]:
    """Yield (parent, child) of every arc, by child."""
    return ((parent, child) for child, parent in enumerate(parents) if parent != NO_PARENT)


def depths(parents: Parents) -> list[int]:
    """Return the number of links between the root and every rank, by rank; parents must form a tree."""
    found = [0 if parent == NO_PARENT else -1 for parent in parents]
    for rank in range(len(parents)):
        path = []
        while found[rank] < 0:
            path.append(rank)
            rank = parents[rank]  # noqa: PLW2901  # climbs to a rank of known depth; every rank is climbed from once
        for depth, below in enumerate(reversed(path), found[rank] + 1):
            found[below] = depth
    return found


def tree_problem(topology: Topology, parents: Parents, tree: int = 0) -> str | None:
    """Return why `parents` are not a spanning tree of the network: one root, existing links, and no cycle."""
    name, where = topology.label, f"tree {tree}"
    if len(parents) != topology.order:
        return f"{where} has parents of {len(parents)} nodes; {topology.name} has {topology.order}"
    roots = [rank for rank, parent in enumerate(parents) if parent == NO_PARENT]
    if not roots:
        return f"{where} has no root: every node has a parent"
    if len(roots) > 1:
        return f"{where} has {len(roots)} roots, among them {name(roots[0])} and {name(roots[1])}: it is not connected"
    for parent, child in arcs_of(parents):
        if not 0 <= parent < topology.order or parent not in topology.neighbours(child):
            other = name(parent) if 0 <= parent < topology.order else str(parent)
            return f"{where}: the parent of {name(child)} is {other}, but there is no link {name(child)}~{other}"
    # Ranks known to lead to the root; a climb that meets its own path runs in a cycle.
    leads = {roots[0]}
    for rank in topology.ranks():
        path: dict[Rank, None] = {}
        while rank not in leads:
            if rank in path:
                return f"{where}: the parents of {name(rank)} lead back to itself, so it is not connected to the root"
            path[rank] = None
            rank = parents[rank]  # noqa: PLW2901  # climbs
        leads.update(path)
    return None


def same_root_problem(topology: Topology, trees: Sequence[Parents]) -> str | None:
    """Return a message that names two trees with different roots, or None."""
    first = root_of(trees[0])
    for tree, parents in enumerate(trees):
        if (root := root_of(parents)) != first:
            return f"tree 0 has root {topology.label(first)}, tree {tree} has root {topology.label(root)}"
    return None


def edge_disjoint_problem(topology: Topology, trees: Sequence[Parents]) -> str | None:
    """Return the first link that two trees use, in whichever directions."""
    user: dict[tuple[Rank, Rank], int] = {}
    for tree, parents in enumerate(trees):
        for parent, child in arcs_of(parents):
            link = min(parent, child), max(parent, child)
            if (other := user.setdefault(link, tree)) != tree:
                one, two = map(topology.label, link)
                return f"trees {other} and {tree} both use the link {one}~{two}"
    return None


def arc_disjoint_problem(topology: Topology, trees: Sequence[Parents]) -> str | None:
    """Return the first link that two trees use in one direction."""
    user: dict[tuple[Rank, Rank], int] = {}
    for tree, parents in enumerate(trees):
        for arc in arcs_of(parents):
            if (other := user.setdefault(arc, tree)) != tree:
                parent, child = map(topology.label, arc)
                return f"trees {other} and {tree} both use the link {parent}>{child} in this direction"
    return None


def independence_problem(topology: Topology, trees: Sequence[Parents]) -> str | None:
    """Return the first node whose paths from the root, in different trees, share an inner node or a link.

    O(sum of all depths).
    """
    if problem := same_root_problem(topology, trees):
        return problem
    root, name = root_of(trees[0]), topology.label
    for rank in topology.ranks():
        inner: dict[Rank, int] = {}
        for tree, parents in enumerate(trees):
            here = rank
            while here != root and (here := parents[here]) != root:
                if here not in inner:
                    inner[here] = tree
                elif inner[here] != tree:
                    return f"the paths to {name(rank)} in trees {inner[here]} and {tree} both pass through {name(here)}"
                else:
                    return f"tree {tree}: the parents of {name(here)} lead back to itself"
        # Without inner nodes a path is the link from the root: only one tree may use it.
        direct = [tree for tree, parents in enumerate(trees) if parents[rank] == root]
        if len(direct) > 1:
            return f"trees {direct[0]} and {direct[1]} both use the link {name(root)}>{name(rank)}"
    return None


def complete_independence_problem(topology: Topology, trees: Sequence[Parents]) -> str | None:
    """Return why some two nodes have paths, in different trees, that share an inner node or a link, whichever is the
    root.

    That is so unless the trees share no link and no node is an inner node of two trees (Hasunuma 2001).
    """
    if problem := edge_disjoint_problem(topology, trees):
        return problem
    inner: dict[Rank, int] = {}
    for tree, parents in enumerate(trees):
        degree = [0] * topology.order
        for arc in arcs_of(parents):
            for rank in arc:
                degree[rank] += 1
        for rank, links in enumerate(degree):
            if links > 1 and (other := inner.setdefault(rank, tree)) != tree:
                return f"{topology.label(rank)} is an inner node of trees {other} and {tree}"
    return None
