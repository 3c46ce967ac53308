"""Arc-disjoint spanning trees away from a root, as many as there are: the packing behind pipelined broadcast.

From any root there are as many as the smallest cut has links (Edmonds 1973). They use the two directions of a link
independently, so there are up to twice as many as edge-disjoint trees.

The trees grow together, arc by arc. Let V_j be the nodes that unfinished tree j has reached. All trees can be completed if
and only if every set X of nodes without the root has at least as many unused arcs into it as there are trees that have not
reached it yet (Edmonds). So an arc x > y may join a tree if, after it has gone, y can still be supplied over unused arcs
with one unit from every other tree that has not reached y, each from any node of its own. For sets that
contain x nothing changes, so x may supply any number of units, and the search for such a flow stays close to the arc. An
arc that is refused enters a tight set, one with exactly as many unused arcs as it needs. A tight set remains tight, so the
arc stays refused for this tree (Lovasz 1976).
"""

from collections.abc import Sequence
from typing import Final

from emunode.model import Rank
from emunode.trees.any_network.checks import NO_PARENT, Parents
from emunode.trees.any_network.parents import Adjacency, shallowest_first

UNLIMITED: Final = -1


class ArborescencePacking:
    """`count` trees that grow from rank 0."""

    def __init__(self, adjacency: Adjacency, count: int) -> None:
        self.adjacency = adjacency
        self.count = count
        self.parents = [[NO_PARENT] * len(adjacency) for _ in range(count)]
        self._unused = [dict.fromkeys(neighbours) for neighbours in adjacency]
        """By rank: the tails of the unused arcs into it, in order of ports."""
        self._reached = [0] * len(adjacency)
        """By rank: the unfinished trees that have reached it, as bits."""
        self._reached[0] = self._unfinished = (1 << count) - 1

    def grow(self, *, together: bool) -> bool:
        """Complete all trees, breadth first: `together`, level by level, or one after the other; return False if
        impossible.
        """
        all_trees = tuple(range(self.count))
        groups = [all_trees] if together else [(tree,) for tree in all_trees]
        return all(self._grow_group(group) for group in groups)

    def _grow_group(self, group: Sequence[int]) -> bool:
        """Complete some trees; they take turns to add one arc to the nodes of their deepest level."""
        left = dict.fromkeys(group, len(self.adjacency) - 1)
        levels = {tree: [0] for tree in group}
        while left:
            # The arcs to try at this level, and the nodes of the next one.
            arcs = {tree: ((x, y) for x in levels[tree] for y in self.adjacency[x]) for tree in left}
            levels = {tree: [] for tree in left}
            while arcs:
                for tree in tuple(arcs):
                    child = next((y for x, y in arcs[tree] if self._add(tree, x, y)), None)
                    if child is None:
                        del arcs[tree]
                        continue
                    levels[tree].append(child)
                    left[tree] -= 1
                    if not left[tree]:
                        self._unfinished &= ~(1 << tree)
                        del arcs[tree], left[tree]
            if any(not levels[tree] for tree in left):
                return False
        return True

    def _add(self, tree: int, tail: Rank, head: Rank) -> bool:
        """Add the arc tail > head to a tree, unless that is impossible or would make other trees impossible."""
        bit = 1 << tree
        if self._reached[head] & bit or tail not in self._unused[head]:
            return False
        del self._unused[head][tail]
        others = self._unfinished & ~self._reached[head] & ~bit
        if not Supply(self._unused, self._reached, head, tail, others).complete():
            self._unused[head][tail] = None
            return False
        self._reached[head] |= bit
        self.parents[tree][head] = tail
        return True


class Supply:
    """A flow to `sink` of one unit from every tree in `trees`; `tail` may stand in for any of the trees."""

    def __init__(
        self, unused: Sequence[dict[Rank, None]], reached: Sequence[int], sink: Rank, tail: Rank, trees: int
    ) -> None:
        self._unused = unused
        self._reached = reached
        self._sink = sink
        self._tail = tail
        self._waiting = trees
        self._wanted = trees.bit_count()
        self._from: dict[int, Rank] = {}
        """By tree: the node that supplies its unit."""
        self._into: dict[Rank, dict[Rank, None]] = {}
        self._out_of: dict[Rank, dict[Rank, None]] = {}
        """Arcs that carry a unit, by head and by tail."""

    def complete(self) -> bool:
        """Return whether there is such a flow."""
        return all(self.augment() for _ in range(self._wanted))

    def augment(self) -> bool:
        """Add one unit along a shortest path, searched backwards from the sink."""
        unused, reached, tail = self._unused, self._reached, self._tail
        # By node: the next node towards the sink, and the tree whose unit is redirected there (UNLIMITED: none).
        onward: dict[Rank, tuple[Rank, int]] = {self._sink: (self._sink, UNLIMITED)}
        queue = [self._sink]
        for here in queue:
            if here == tail or reached[here] & self._waiting:
                self._carry(here, onward)
                return True
            full = self._into.get(here, ())
            for before in unused[here]:
                if before not in onward and before not in full:
                    onward[before] = here, UNLIMITED
                    queue.append(before)
            for after in self._out_of.get(here, ()):
                if after not in onward:
                    onward[after] = here, UNLIMITED
                    queue.append(after)
            for tree, start in self._from.items():
                if reached[here] >> tree & 1 and start not in onward:
                    onward[start] = here, tree
                    queue.append(start)
        return False

    def _carry(self, here: Rank, onward: dict[Rank, tuple[Rank, int]]) -> None:
        """Send one unit from `here` to the sink."""
        if here != self._tail:
            tree = (self._reached[here] & self._waiting).bit_length() - 1
            self._waiting &= ~(1 << tree)
            self._from[tree] = here
        while here != self._sink:
            there, tree = onward[here]
            if tree != UNLIMITED:
                self._from[tree] = there
            elif there in self._into.get(here, ()):  # a unit comes the other way: it is taken back
                del self._into[here][there], self._out_of[there][here]
            else:
                self._into.setdefault(there, {})[here] = None
                self._out_of.setdefault(here, {})[there] = None
            here = there


def _paths(unused: Sequence[dict[Rank, None]], one: Rank, other: Rank, most: int) -> int:
    """Return how many arc-disjoint paths lead from `one` to `other`, counted up to `most`."""
    supply = Supply(unused, [0] * len(unused), other, one, 0)
    return next((paths for paths in range(most) if not supply.augment()), most)


def edge_connectivity(adjacency: Adjacency) -> int:
    """Return the links in the smallest cut of a connected graph.

    A cut separates the two ends of some link of any spanning tree, so only these pairs are looked at.
    """
    least, unused = min(map(len, adjacency)), [dict.fromkeys(neighbours) for neighbours in adjacency]
    seen, queue = {0}, [0]
    for rank in queue:
        for other in adjacency[rank]:
            if other not in seen:
                seen.add(other)
                queue.append(other)
                least = _paths(unused, rank, other, least)
    return least


def arborescences(adjacency: Adjacency, *, together: bool = True) -> tuple[Parents, ...]:
    """Return as many arc-disjoint spanning trees away from rank 0 as possible.

    A connected graph has as many as its smallest cut has links. Trees that grow `together` are about equally high. If
    they grow one after the other, the first is the lowest.
    """
    count = min(map(len, adjacency))
    packing = ArborescencePacking(adjacency, count)
    if not packing.grow(together=together):
        # The least degree is not the smallest cut.
        packing = ArborescencePacking(adjacency, edge_connectivity(adjacency))
        packing.grow(together=together)
    return shallowest_first(packing.parents)
