"""Symmetries of a network under an algorithm.

Candidates are renamings of the ports that are the same at every rank. A candidate that maps the network onto itself
gives a permutation of the ranks that fixes the source. In star graphs it permutes the symbols 2..n, in hypercubes the
bits, and in Eisenstein-Jacobi networks the units (for some alpha it may also conjugate).

Such a permutation is a symmetry of a *run* if it also maps the algorithm's trees onto its trees, with the delay of every
arc and the load of every tree. Then a fault and its image cost the same deliveries in the same steps. Every candidate is
checked for all of this, link by link and arc by arc. For an algorithm without trees only the identity is used.

Networks without translations may number their ports differently at every rank. igraph searches their automorphisms,
where it is installed, and these are checked in the same way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from itertools import permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emunode.algorithms.base import Algorithm
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import Collective, Port, Rank
from emunode.topologies.base import ABSENT, CayleyTopology, Topology
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi

MOST_PORTS = 5
"""Highest degree where every permutation of ports is a candidate."""
MOST_DIMENSIONS = 3
"""Most dimensions of a product where every combination of the factors' symmetries is a candidate."""
MOST_SYMMETRIES = 2_000
"""Most automorphisms of a network without translations that are used.

Each is held against the trees arc by arc.
"""

Ranks = NDArray[np.int64]


@dataclass(frozen=True)
class Symmetry:
    """`ranks[r]` is the image of rank r; `ports[p]` is the image of port p at every rank, if all ranks agree on it."""

    ranks: Ranks
    ports: tuple[Port, ...] | None


class Neighbourhood:
    """The network as a table of neighbours, relative to a source."""

    def __init__(self, topology: Topology, source: int) -> None:
        self.topology = topology
        self.source = source
        self.table: Ranks = np.array([topology.neighbours(rank) for rank in topology.ranks()], dtype=np.int64)

    def automorphism(self, ports: Sequence[Port]) -> Symmetry | None:
        """Return the automorphism that fixes the source and renames ports like this, or None.

        It renames them in the same way at every rank.
        """
        # `renamed[image, p]` is the neighbour of the image over the renamed port.
        renamed = self.table[:, list(ports)]
        image = np.full(self.topology.order, -1, dtype=np.int64)
        image[self.source] = self.source
        reached = [self.source]
        # The list grows while it is read: a breadth-first search from the source.
        for rank in reached:
            for port, neighbour in enumerate(self.table[rank].tolist()):
                if image[neighbour] < 0:
                    # The renaming fixes the image of every rank, once the image of the source is known.
                    image[neighbour] = renamed[image[rank], port]
                    reached.append(neighbour)
        # A bijection that keeps every link, not only the links of the search tree.
        whole = len(np.unique(image)) == len(image) and bool((image[self.table] == renamed[image]).all())
        return Symmetry(image, tuple(ports)) if whole else None

    def checked(self, image: Ranks) -> Symmetry | None:
        """Return the symmetry with these images of ranks.

        None unless it is an automorphism that fixes the source.
        """
        whole = len(np.unique(image)) == len(image) and image[self.source] == self.source
        kept = all(
            {int(image[peer]) for peer in self.table[rank] if peer != ABSENT}
            == {int(peer) for peer in self.table[image[rank]] if peer != ABSENT}
            for rank in range(len(image))
        )
        return Symmetry(image, None) if whole and kept else None


def candidates(topology: Topology) -> Iterator[tuple[Port, ...]]:
    """Yield candidate renamings of ports, the identity first.

    They are all renamings, or the typical ones of the family.
    """
    degree = topology.degree
    match topology:
        case EisensteinJacobi(dimensions=dimensions) if dimensions <= MOST_DIMENSIONS:
            # Turns by a sixth, with and without reflection: the symmetries of the hexagonal lattice.
            turns = [[(turn + sign * port) % 6 for port in range(6)] for sign in (1, -1) for turn in range(6)]
            for order in permutations(range(dimensions)):
                for turned in product(turns, repeat=dimensions):
                    yield tuple(6 * order[d] + port for d in range(dimensions) for port in turned[d])
        # degree! renamings are few enough to try them all.
        case _ if degree <= MOST_PORTS:
            yield from permutations(range(degree))
        case EisensteinJacobi():
            yield tuple(range(degree))
        case _:
            # Otherwise rotations of the ports only, the known symmetries of star graphs and hypercubes.
            for turn in range(degree):
                yield tuple((port + turn) % degree for port in range(degree))


def identity(topology: Topology) -> Symmetry:
    """Return the identity, a symmetry of every run."""
    return Symmetry(np.arange(topology.order, dtype=np.int64), tuple(range(topology.degree)))


def symmetries(algorithm: Algorithm) -> list[Symmetry]:
    """Return the symmetries of the runs of `algorithm`, the identity first.

    They are the candidates that pass all checks, for runs without protocols.
    """
    topology = algorithm.topology
    # Without trees there is nothing to check a candidate against.
    if not isinstance(algorithm, TreeCollective) or algorithm.collective is not Collective.BROADCAST:
        return [identity(topology)]
    network = Neighbourhood(topology, algorithm.spec.source)
    trees = _trees(algorithm)
    if isinstance(topology, CayleyTopology):
        automorphisms = (network.automorphism(ports) for ports in candidates(topology))
    else:
        automorphisms = (network.checked(ranks) for ranks in searched_automorphisms(topology, algorithm.spec.source))
    return [symmetry for symmetry in automorphisms if symmetry is not None and keeps(symmetry, algorithm, trees)]


def searched_automorphisms(topology: Topology, source: Rank) -> list[Ranks]:
    """Return automorphisms that fix `source` and keep switches, the identity first.

    igraph finds them, where it is installed. All of them are returned if there are at most MOST_SYMMETRIES, else only
    the identity.
    """
    alone = [identity(topology).ranks]
    try:
        igraph: Any = import_module("igraph")
    except ImportError:
        return alone
    graph = igraph.Graph(n=topology.order, edges=[(one, other) for one, _, other, _ in topology.links()])
    # Automorphisms keep colours: the source is alone in its colour, and switches are apart because nothing is due to
    # them.
    colours = [2 if rank == source else int(topology.is_switch(rank)) for rank in topology.ranks()]
    if graph.count_automorphisms(color=colours) > MOST_SYMMETRIES:
        return alone
    generators = [np.array(each, dtype=np.int64) for each in graph.automorphism_group(color=colours)]
    # Every element of the group is a product of generators, so it is reached from the identity by multiplying with one
    # generator after the other.
    automorphisms, known = alone, {alone[0].tobytes()}
    for ranks in automorphisms:  # grows: every element times every generator
        for generator in generators:
            image = generator[ranks]
            if image.tobytes() not in known:
                known.add(image.tobytes())
                automorphisms.append(image)
    return automorphisms


def _trees(algorithm: TreeCollective) -> list[Ranks]:
    """Return for each tree the delay of each arc by (rank, port); 0 if there is no arc."""
    topology, source = algorithm.topology, algorithm.spec.source
    trees = []
    for tree in range(algorithm.trees.count):
        delays = np.zeros((topology.order, topology.degree), dtype=np.int64)
        for rank in topology.ranks():
            for port, delay in algorithm.child_delays(topology.relative(rank, source), tree):
                delays[rank, port] = delay
        trees.append(delays)
    return trees


def keeps(symmetry: Symmetry, algorithm: TreeCollective, trees: Sequence[Ranks] | None = None) -> bool:
    """Return whether every used tree is mapped onto a used tree with the same delays and load."""
    trees = _trees(algorithm) if trees is None else trees
    loads = [list(algorithm.copies_on_tree(tree)) for tree in range(algorithm.trees.count)]
    renamed: dict[int, int] = {}
    onto: set[int] = set()
    for tree, load in enumerate(loads):
        # A tree that carries nothing may be mapped onto anything.
        if not load:
            continue
        image = _image(symmetry, algorithm.topology, trees[tree])
        other = next((at for at, delays in enumerate(trees) if loads[at] and np.array_equal(delays, image)), None)
        # Copies of two trees that are mapped onto one would share arcs that the originals do not share.
        if other is None or other in onto or len(loads[other]) != len(load):
            return False
        onto.add(other)
        for (number, segment), (its_number, its_segment) in zip(load, loads[other], strict=True):
            # Copies keep their numbers (their steps), and segments are renamed consistently.
            if number != its_number or renamed.setdefault(segment, its_segment) != its_segment:
                return False
    length = algorithm.segments_per_message
    # A renaming must keep messages together: segments of one message stay segments of one.
    messages = {(segment // length, image // length) for segment, image in renamed.items()}
    return len(set(renamed.values())) == len(renamed) and len(messages) == algorithm.spec.messages


def _image(symmetry: Symmetry, topology: Topology, delays: Ranks) -> Ranks:
    """Return the delays of the images of all arcs of a tree, by (rank, port)."""
    image = np.zeros_like(delays)
    if symmetry.ports is not None:
        # One renaming for all ranks permutes whole rows and columns. Where ports are renamed differently at every rank,
        # the port of an arc's image follows from the image of its receiver.
        image[np.ix_(symmetry.ranks, np.array(symmetry.ports))] = delays
        return image
    for rank, port in np.argwhere(delays).tolist():
        there, peer = int(symmetry.ranks[rank]), int(symmetry.ranks[topology.neighbour(rank, port)])
        image[there, topology.neighbours(there).index(peer)] = delays[rank, port]
    return image
