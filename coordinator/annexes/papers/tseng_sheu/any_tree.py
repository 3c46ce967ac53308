"""Section 5.1 of Tseng and Sheu 1997: algorithm 2 works with any spanning tree, and takes as many steps as it is high.

The trees here are the greedy one; one of optimal height that is not greedy; one of random links; and a Hamiltonian path.
Each is executed by the nodes' local rules in memory, as algorithm 2 is with the greedy tree.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from random import Random

import numpy as np

from coordinator.annexes.papers.tables import stated
from coordinator.history.journal import sorted_records
from emunode.algorithms.star.multiple_trees import RotatedTreesAllgather
from emunode.engine.memory import MemoryEngine
from emunode.model import Collective, CollectiveSpec, Port, PortModel, Rank, Step
from emunode.play import play
from emunode.topologies.base import Topology
from emunode.topologies.star import StarGraph
from emunode.trees.base import Trees
from emunode.trees.star.base import StarTrees
from emunode.trees.star.greedy import GreedyTree
from emunode.trees.star.hamiltonian import hamiltonian_cycle
from emunode.trees.star.rotation import RotatedTrees

LARGEST = 5
"""The largest n: a Hamiltonian path of S_6 takes 719 steps."""
MESSAGE_BYTES = 60

ParentPorts = Mapping[Rank, Port]
"""The port of every rank but the root that leads to its parent."""


class ListedTree(StarTrees):
    """A spanning tree given by the parent of every rank."""

    title = "a listed tree"

    def __init__(self, star: StarGraph, parents: ParentPorts) -> None:
        super().__init__(star)
        self._parents = parents

    def parent(self, rank: Rank, tree: int) -> Port:  # there is one
        """Look the port up; raises ValueError for the root."""
        if not rank:
            raise ValueError("the root has no parent")
        return self._parents[rank]


def greedy(star: StarGraph) -> ParentPorts:
    """Return the parents in L, the tree of algorithm 2."""
    tree = GreedyTree(star)
    return {rank: tree.parent(rank, 0) for rank in range(1, star.order)}


def not_greedy(star: StarGraph) -> ParentPorts:
    """Return L with leaves moved below farther neighbours, as long as the height stays D_n.

    For n = 4 it is L itself: every node at distance 2 has a neighbour that no other node reaches in four steps.
    """
    tree, parents = GreedyTree(star), dict(greedy(star))
    used: set[Rank] = set()
    for rank in range(1, star.order):
        if tree.children(rank, 0) or rank in used or star.weight(rank) + 2 > star.diameter:
            continue
        parents[rank], parent = next(end for end in star.adjacent(rank) if star.weight(end[1]) > star.weight(rank))
        used |= {rank, parent}  # the new parent stays where it is
    return parents


def random_tree(star: StarGraph) -> ParentPorts:
    """Return a tree that grows by one random link at a time, the same one on every call."""
    random, parents = Random(star.n), dict[Rank, Port]()
    border = list(star.ends(0))
    while border:
        _, peer, its_port = border.pop(random.randrange(len(border)))
        if peer and peer not in parents:
            parents[peer] = its_port
            border += star.ends(peer)
    return parents


def hamiltonian(star: StarGraph) -> ParentPorts:
    """Return a Hamiltonian path, the tree of greatest height."""
    rank, parents = 0, dict[Rank, Port]()
    for port in hamiltonian_cycle(star)[:-1]:
        rank, back = star.end(rank, port)
        parents[rank] = back
    return parents


TREES: Mapping[str, Callable[[StarGraph], ParentPorts]] = {
    "greedy L": greedy,
    "height D_n, not greedy": not_greedy,
    "random links": random_tree,
    "Hamiltonian path": hamiltonian,
}


def heights(star: StarGraph, parents: ParentPorts) -> dict[Rank, int]:
    """Return the level of every rank, counted along its path."""
    found = {0: 0}
    for first in parents:
        path, rank = [], first
        while rank not in found:
            path.append(rank)
            rank = star.neighbour(rank, parents[rank])
        found |= {node: level for level, node in enumerate(reversed(path), found[rank] + 1)}
    return found


def run(star: StarGraph, parents: ParentPorts) -> np.ndarray:
    """Execute algorithm 2 with the rotations of a tree; returns all hops."""
    height = max(heights(star, parents).values())

    class AnyTree(RotatedTreesAllgather):
        """Algorithm 2 with the given tree."""

        def make_trees(self, topology: Topology) -> Trees:  # the tree has it
            return RotatedTrees(star, ListedTree(star, parents))

        @cached_property
        def last_offset(self) -> Step:
            return height

    spec = CollectiveSpec(
        star.name,
        Collective.ALLGATHER,
        "rotated-trees",
        source=0,
        message_bytes=MESSAGE_BYTES,
        port_model=PortModel.ALL_PORT,
    )
    return sorted_records(list(play(MemoryEngine(AnyTree(star, spec)))))


def any_tree(n: int) -> Iterator[dict[str, object]]:
    """Check four statements on each tree: steps, reached nodes, equal loads of links in every step, and the transfer."""
    star = StarGraph(n)
    for name, make in TREES.items():
        parents = make(star)
        if make is not_greedy and parents == greedy(star):
            continue
        levels = heights(star, parents)
        hops = run(star, parents)
        row = stated("tseng_sheu_any_tree", n=n, f=star.order, height=max(levels.values()))
        steps, links = hops["step"].astype(int), hops["sender"].astype(int) * star.degree + hops["port"]
        received = Counter(zip(hops["receiver"].tolist(), hops["origin"].tolist(), strict=True))
        in_step = Counter[tuple[int, int]](zip(steps.tolist(), links.tolist(), strict=True))
        sizes = Counter(levels.values())
        # by lemma 7 a link carries one segment for each node of level t in step t
        last, every_link = int(max(steps)), range(star.order * star.degree)
        uneven = sum(in_step[step, link] != sizes[step] for step in range(1, last + 1) for link in every_link)
        heaviest = dict.fromkeys(range(1, last + 1), 0)
        for (step, _), load in in_step.items():
            heaviest[step] = max(heaviest[step], load)
        about = {"n": n, "tree": name}
        yield about | row("steps", last)
        yield about | row("received", sum(count == star.degree for count in received.values()))
        yield about | row("uneven", uneven)
        yield about | row("transfer", sum(heaviest.values()))
