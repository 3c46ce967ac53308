"""Properties of several spanning trees of one network, given as parents: a check names the first offending node or link."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from emunode.model import Rank
from emunode.topologies.base import Topology

NO_PARENT: Final[Rank] = -1
"""The parent of the root."""
Parents = Sequence[Rank]
"""The parent of every rank, by rank."""


def _arcs(parents: Parents) -> Iterator[tuple[Rank, Rank]]:
    return ((parent, child) for child, parent in enumerate(parents) if parent != NO_PARENT)


def arc_disjoint(topology: Topology, trees: Sequence[Parents]) -> str | None:
    """The first link that two trees use in one direction."""
    user: dict[tuple[Rank, Rank], int] = {}
    for tree, parents in enumerate(trees):
        for arc in _arcs(parents):
            if (other := user.setdefault(arc, tree)) != tree:
                return f"trees {other} and {tree} both use the link {'>'.join(map(topology.label, arc))}"
    return None


def edge_disjoint(topology: Topology, trees: Sequence[Parents]) -> str | None:
    """The first link that two trees use, in whichever direction."""
    user: dict[tuple[Rank, Rank], int] = {}
    for tree, parents in enumerate(trees):
        for arc in _arcs(parents):
            link = min(arc), max(arc)
            if (other := user.setdefault(link, tree)) != tree:
                return f"trees {other} and {tree} both use the link {'~'.join(map(topology.label, link))}"
    return None


def independent(topology: Topology, trees: Sequence[Parents]) -> str | None:
    """The first node whose paths from the root, in different trees, share an inner node or a link."""
    roots = [list(parents).index(NO_PARENT) for parents in trees]
    if len(set(roots)) > 1:
        return f"the trees have different roots: {', '.join(map(topology.label, roots))}"
    root = roots[0]
    for rank in topology.ranks():
        used: dict[Rank, int] = {}
        for tree, parents in enumerate(trees):
            here = rank
            while here != root and (here := parents[here]) != root:
                if (other := used.setdefault(here, tree)) != tree:
                    return (
                        f"the paths to {topology.label(rank)} in trees {other} and {tree} share {topology.label(here)}"
                    )
        direct = [tree for tree, parents in enumerate(trees) if parents[rank] == root]
        if len(direct) > 1:
            return f"trees {direct[0]} and {direct[1]} both lead to {topology.label(rank)} by the link from the root"
    return None


def completely_independent(topology: Topology, trees: Sequence[Parents]) -> str | None:
    """Why the trees are not independent for every root: a shared link, or an inner node of two trees (Hasunuma 2001)."""
    if problem := edge_disjoint(topology, trees):
        return problem
    inner: dict[Rank, int] = {}
    for tree, parents in enumerate(trees):
        links = [0] * topology.order
        for arc in _arcs(parents):
            for rank in arc:
                links[rank] += 1
        for rank, count in enumerate(links):
            if count > 1 and (other := inner.setdefault(rank, tree)) != tree:
                return f"{topology.label(rank)} is an inner node of trees {other} and {tree}"
    return None


PROPERTIES: Final[dict[str, Callable[[Topology, Sequence[Parents]], str | None]]] = {
    "arc-disjoint": arc_disjoint,
    "edge-disjoint": edge_disjoint,
    "independent": independent,
    "completely-independent": completely_independent,
}
