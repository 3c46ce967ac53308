"""Metrics of the paths that messages took: properties that papers state about trees, measured on the journal.

The trees of the algorithm are not consulted: each hop is an arc, and consecutive arcs form a path. Hops are seen from the
root of the collective, so that a gather or a reduce has the arcs of the scatter or broadcast that it reverses. Only metrics
that an algorithm claims (`Algorithm.structure_claims`) are measured, and only in fault-free runs. Where every rank is a
root, an even sample of the roots is measured, limited by `SAMPLED_HOPS`.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.features.base import ResolvedRun
from coordinator.results.queries import at_receiver, collect
from emunode.model import PERSONALISED, ROOTLESS, Collective, Port, Rank
from emunode.topologies.star import StarGraph

Ranks = NDArray[np.int64]

SAMPLED_HOPS = 40_000
MOST_HOPS = 2_000_000
"""Most hops that are measured of a broadcast; of more, only the hops of the first segments of every tree."""
SAMPLED_PATHS = 300_000
"""Most paths that are compared with each other, over all trees of one root."""

INWARDS = (Collective.GATHER, Collective.REDUCE, Collective.REDUCE_SCATTER)


def structure_metrics(plan: ResolvedRun, journal: pl.LazyFrame, rows: int | None = None) -> dict[str, int]:
    """Return the metrics that the structure claims of a fault-free run need; `rows` as in `Paths`."""
    wanted, paths = claimed_structure(plan), Paths(plan, journal, rows)
    if not wanted or paths.hops.is_empty():
        return {}
    return {name: METRICS[name](paths) for name in wanted}


def claimed_structure(plan: ResolvedRun) -> list[str]:
    """Return the names of the metrics that the structure claims of a fault-free run need, in alphabetical order."""
    # Faults cut paths short and leave trees incomplete, so a property of whole trees says nothing about such a run.
    return [] if plan.judged.harmful_faults else sorted({claim.name for claim in plan.algorithm.structure_claims()})


@dataclass(frozen=True)
class Paths:
    """The hops of a run, seen from the root."""

    plan: ResolvedRun
    journal: pl.LazyFrame
    rows: int | None = None
    """The most rows that the journal may have, None if that is unknown."""

    @cached_property
    def hops(self) -> pl.DataFrame:
        """A row per hop: root, leaf (-1 if it is for all ranks), tree, segment, step, parent, child, port of the parent."""
        # A gather or a reduce runs every arc of its tree upwards.
        inwards = self.plan.spec.collective in INWARDS
        rows = self.journal
        root = "target" if inwards else "origin"
        if self.plan.spec.collective in ROOTLESS or self.plan.spec.permutation:
            rows = rows.filter(pl.col(root).is_in(self._sampled_roots()))
        elif self.plan.spec.collective not in PERSONALISED and self._is_long():
            # Trees do not change between segments, so the first ones show all of them.
            rows = rows.filter(pl.col("segment") < self._sampled_segments())
        columns = {
            "root": root,
            "leaf": "origin" if inwards else "target",
            "parent": "receiver" if inwards else "sender",
            "child": "sender" if inwards else "receiver",
        }
        if inwards:
            # Inwards the parent is the receiver, and its own port names the arc.
            rows = at_receiver(rows, self.plan.topology)
        named = {name: pl.col(column).cast(pl.Int64) for name, column in columns.items()}
        hops = rows.select("tree", "segment", "step", "port", **named)
        ends = ["root", "parent", "child", *(["leaf"] if self.plan.spec.collective in PERSONALISED else [])]
        # Rows with ranks that do not exist are counted by the audit; here they would index past the tables.
        known = pl.all_horizontal(pl.col(ends).is_between(0, self.plan.topology.order - 1))
        return collect([hops.filter(known)], self.rows)[0]

    def _sampled_roots(self) -> list[Rank]:
        order = self.plan.topology.order
        count = max(1, min(order, SAMPLED_HOPS * order // max(self._count(pl.len()), 1)))
        # Evenly spaced, so that roots of all parts of the network are among them.
        return [index * order // count for index in range(count)]

    def _sampled_segments(self) -> int:
        """Return the number of first segments that have `MOST_HOPS` hops together, at least one per tree."""
        fitting = self.segments * MOST_HOPS // self._count(pl.len())
        return max(fitting, self._count(pl.col("tree").n_unique()))

    def _is_long(self) -> bool:
        return (self.rows is None or self.rows > MOST_HOPS) and self._count(pl.len()) > MOST_HOPS

    def _count(self, what: pl.Expr) -> int:
        return int(collect([self.journal.select(what)], self.rows)[0].item())

    @property
    def segments(self) -> int:
        """Number of different segments in the journal."""
        return self._count(pl.col("segment").n_unique())

    @cached_property
    def _weights(self) -> Ranks:
        """Distance of every rank from rank 0."""
        topology = self.plan.topology
        return np.array([topology.weight(rank) for rank in topology.ranks()])

    def distances(self, root: Rank) -> Ranks:
        """Return the distance of every rank from `root`."""
        topology = self.plan.topology
        view = topology.seen_from(root)
        # A network with translations looks the same from every root, and its distances from rank 0 serve for all roots.
        weights = self._weights if view is topology else np.array([view.weight(rank) for rank in view.ranks()])
        return np.asarray(weights[[topology.relative(rank, root) for rank in topology.ranks()]])

    def by_root(self) -> Iterator[tuple[Rank, pl.DataFrame]]:
        """Yield each root with its hops, in no particular order."""
        roots = self.hops["root"].unique()
        if len(roots) == 1:
            # Most runs have one root, and making groups takes a third of the time of its longest detour.
            yield int(roots[0]), self.hops
            return
        for (root,), hops in self.hops.group_by("root"):
            yield int(str(root)), hops

    def parents(self, hops: pl.DataFrame) -> list[Ranks]:
        """Return for every tree of one root the parent of each rank; -1 for ranks that the tree does not reach."""
        trees = []
        # Different segments of one tree use the same arcs.
        # A rank has one parent in a tree, so an array with an entry for each rank holds the tree.
        # In a journal that was altered a rank may have two: then the highest one counts, whatever the order of the rows.
        arcs = hops.select("tree", "parent", "child").unique().sort("child", "parent")
        tree, parent, child = (column.to_numpy() for column in arcs.iter_columns())
        for number in np.unique(tree):
            own = tree == number
            parents = np.full(self.plan.topology.order, -1, dtype=np.int64)
            parents[child[own]] = parent[own]
            trees.append(parents)
        return trees

    @cached_property
    def places(self) -> pl.DataFrame:
        """(root, leaf, tree, port): the port of the root that leads to each leaf in each tree."""
        # The first hop of a message decides the subtree; a leaf has one row for each tree that reaches it.
        first = self.hops.filter(pl.col("parent") == pl.col("root"))
        return first.select("root", "leaf", "tree", "port").unique()

    def star(self) -> StarGraph:
        """Return the topology, for metrics that are defined for star graphs only."""
        assert isinstance(self.plan.topology, StarGraph)
        return self.plan.topology

    def ports_of_leaves(self) -> Mapping[bytes, frozenset[Port]]:
        """Return the ports of the root that lead to each leaf, by the relative label of the leaf."""
        star = self.star()
        by_leaf: dict[bytes, set[Port]] = {}
        for root, leaf, _, port in self.places.iter_rows():
            by_leaf.setdefault(star.permutation(star.relative(leaf, root)), set()).add(port)
        return {label: frozenset(ports) for label, ports in by_leaf.items()}


def longest_detour(paths: Paths) -> int:
    """Return the most hops of a message beyond its distance from the root.

    It is the number of ranks if a message did not come from the root.
    """
    # Each message of a personalised collective has its own path, so its hops can simply be counted.
    if paths.plan.spec.collective in PERSONALISED:
        return max(_detour_of_messages(paths, root, hops) for root, hops in paths.by_root())
    return max(_detour_in_trees(paths, root, hops) for root, hops in paths.by_root())


def _detour_of_messages(paths: Paths, root: Rank, hops: pl.DataFrame) -> int:
    # A message crosses a link with one row, so the number of its rows is the length of its path.
    lengths = hops.group_by("leaf", "tree", "segment").len()
    distances = paths.distances(root)[lengths["leaf"].to_numpy()]
    return int((lengths["len"].to_numpy().astype(np.int64) - distances).max())


def _detour_in_trees(paths: Paths, root: Rank, hops: pl.DataFrame) -> int:
    distances = paths.distances(root)
    longest = 0
    for parents in paths.parents(hops):
        reached = np.flatnonzero(parents >= 0)
        # A rank whose ancestors do not end at the root was reached from elsewhere: reported as the largest value.
        lost = len(reached)
        # All ranks climb one level at a time: numpy does a whole level of the tree in one step.
        for depth, ranks, above in _ascend(parents, root, reached):
            arrived = ranks[above == root]
            lost -= len(arrived)
            longest = max(longest, int((depth - distances[arrived]).max(initial=0)))
        if lost:
            return len(parents)
    return longest


def _ascend(parents: Ranks, root: Rank, ranks: Ranks) -> Iterator[tuple[int, Ranks, Ranks]]:
    """Yield (depth, ranks, their ancestors `depth` levels up), level by level.

    A rank is left out once it has reached the root, or a rank without a known parent.
    """
    above = parents[ranks]
    for depth in range(1, len(parents) + 1):
        yield depth, ranks, above
        below = (above != root) & (above >= 0)
        # Ranks that have arrived drop out, so the work is the sum of the depths.
        ranks, above = ranks[below], parents[above[below]]
        if not len(ranks):
            return


def trees_per_arc(paths: Paths) -> int:
    """Return the most trees of one root that use one directed link."""
    # Lemma 6 of Tseng and Sheu (congestion 2) and the arc-disjointness of EDT, nESBT and the independent trees.
    return _largest(paths.hops.group_by("root", "parent", "port").agg(pl.col("tree").n_unique()), "tree")


def trees_per_link(paths: Paths) -> int:
    """Return the most trees of one root that use one link, in either direction."""
    # The lower rank comes first, so that both directions of a link fall into one group.
    ends = [pl.min_horizontal("parent", "child").alias("one"), pl.max_horizontal("parent", "child").alias("other")]
    used = paths.hops.select("root", "tree", *ends)
    return _largest(used.group_by("root", "one", "other").agg(pl.col("tree").n_unique()), "tree")


def paths_per_inner_node(paths: Paths) -> int:
    """Return the most paths from one root to one rank, in different trees, that pass through one other rank."""
    if paths.plan.spec.collective in PERSONALISED:
        # The leaf is the end of its own paths; only nodes before it can break them.
        inner = paths.hops.filter(pl.col("child") != pl.col("leaf"))
        return _largest(inner.group_by("root", "leaf", "child").agg(pl.col("tree").n_unique()), "tree")
    return max(_shared_in_trees(paths, root, hops) for root, hops in paths.by_root())


def _shared_in_trees(paths: Paths, root: Rank, hops: pl.DataFrame) -> int:
    trees, order = paths.parents(hops), paths.plan.topology.order
    # Every `step`-th rank: paths of different ranks are compared independently of each other.
    step = 1 + order * len(trees) // SAMPLED_PATHS
    # One number per pair (rank, inner rank): paths in two trees share an inner node where a pair repeats.
    passed = [np.empty(0, dtype=np.int64)]
    for parents in trees:
        reached = np.flatnonzero(parents >= 0)[::step]
        for _, ranks, above in _ascend(parents, root, reached):
            # An altered journal may lack the parent of a rank.
            inner = (above != root) & (above >= 0)
            passed.append(ranks[inner] * order + above[inner])
    _, counts = np.unique(np.concatenate(passed), return_counts=True)
    return int(counts.max(initial=0))


def same_type_per_step(paths: Paths) -> int:
    """Return the most directed links of one type (port) that messages of one root cross in one step."""
    # `unique`: several segments on one link in one step still use that link once.
    used = paths.hops.select("root", "step", "parent", "port").unique()
    return _largest(used.group_by("root", "step", "port").len(), "len")


def segments_per_message(paths: Paths) -> int:
    """Return the number of segments of a message."""
    return paths.segments // paths.plan.spec.messages


def largest_subtree(paths: Paths) -> int:
    """Return the most leaves reached through one port of the root, counted once per tree."""
    return max(_subtree_sizes(paths))


def smallest_subtree(paths: Paths) -> int:
    """Return the fewest leaves reached through one port of the root, counted once per tree."""
    return min(_subtree_sizes(paths))


def _subtree_sizes(paths: Paths) -> list[int]:
    sizes = dict(paths.places.group_by("port").len().iter_rows())
    # Ports of the root that no message used have an empty subtree.
    return [sizes.get(port, 0) for port in range(paths.plan.topology.degree)]


# --- the trees for scattering on the star graph (Fragopoulou and Akl, TR 93-346, theorems 9 and 10) ------------------


def outside_own_substar(paths: Paths) -> int:
    """Count leaves with symbol 1 at a position i > 1 that are not reached through the root's link i alone."""
    by_leaf = paths.ports_of_leaves()
    # Theorems 9.1 and 10.1: S^i lies in the subtree of link i, and i is the position of symbol 1.
    return sum(ports != {label.index(1) - 1} for label, ports in by_leaf.items() if label[0] != 1)


def off_displacement(paths: Paths) -> int:
    """Count leaves that are not reached through the ports that their position in their necklace requires.

    In a necklace of p nodes, each the cycle rotation of the node before it, the first is reached through port 0, the next
    through port 1, and so on. Repeated nodes are reached through all ports of the same residue modulo p.
    """
    by_leaf = paths.ports_of_leaves()
    wrong = 0
    for label, ports in by_leaf.items():
        # Theorem 10.2: a necklace of p nodes repeats in (n-1)/p subtrees, p ports apart.
        period = _period(label)
        residues = {port % period for port in ports}
        following = {port % period for port in by_leaf.get(rotate(label), frozenset())}
        lowest = min(ports)
        # Theorems 9.2 and 10.3: one rotation of the leaf is one port further. The first copy lies within the first p
        # ports.
        wrong += len(residues) != 1 or lowest >= period or following != {(lowest + 1) % period}
    return wrong


def off_period(paths: Paths) -> int:
    """Count leaves that are not reached through exactly (n-1)/p ports, where p is the length of their necklace."""
    by_leaf = paths.ports_of_leaves()
    # Theorem 10.2: (n-1)/p copies, each in a subtree of its own.
    return sum(len(ports) * _period(label) != len(label) - 1 for label, ports in by_leaf.items())


def inner_home_nodes(paths: Paths) -> int:
    """Count the ranks with symbol 1 in first position, other than the root, that forwarded a message."""
    star = paths.star()
    senders = paths.hops.filter(pl.col("parent") != pl.col("root")).select("root", "parent").unique()
    # Theorems 9.3 and 10.4: nodes with x_1 = 1 are leaves of the tree, so they never send.
    return sum(star.permutation(star.relative(rank, root))[0] == 1 for root, rank in senders.iter_rows())


def unrotated_arcs(paths: Paths) -> int:
    """Count the arcs of a subtree of the root whose cycle rotation is not an arc of the next subtree."""
    star = paths.star()
    arcs: list[set[tuple[bytes, bytes]]] = [set() for _ in range(star.degree)]
    # Each arc belongs to the subtree of the root port that leads to its leaf.
    behind = paths.hops.join(paths.places.rename({"port": "subtree"}), on=["root", "leaf", "tree"])
    for root, parent, child, subtree in behind.select("root", "parent", "child", "subtree").unique().iter_rows():
        ends = (star.permutation(star.relative(rank, root)) for rank in (parent, child))
        arcs[subtree].add((next(ends), next(ends)))
    turned = [{(rotate(parent), rotate(child)) for parent, child in own} for own in arcs]
    # Theorem 10.7: R carries the subtree of port p onto the subtree of port p + 1.
    return sum(len(own - arcs[(port + 1) % len(arcs)]) for port, own in enumerate(turned))


def rotate(symbols: bytes) -> bytes:
    """Return the cycle rotation R: symbol r(x) at position r(i) for x at i, where r(1) = 1 and 2 -> 3 -> .. -> n -> 2."""
    n = len(symbols)
    # r(x) = (x - 1) mod (n - 1) + 2 for x > 1: 2 -> 3 -> .. -> n -> 2.
    turned = bytes(symbol if symbol == 1 else (symbol - 1) % (n - 1) + 2 for symbol in symbols)
    return turned[:1] + turned[-1:] + turned[1:-1]


def _period(symbols: bytes) -> int:
    """Return the number of nodes in the necklace of a node."""
    period, turned = 1, rotate(symbols)
    # The order of R is n - 1, so the orbit closes after at most that many rotations.
    while turned != symbols:
        period, turned = period + 1, rotate(turned)
    return period


def _largest(groups: pl.DataFrame, column: str) -> int:
    """Return the largest value of a column; 0 for an empty table."""
    return int(groups[column].max() or 0)  # type: ignore[arg-type]


METRICS: Mapping[str, Callable[[Paths], int]] = {
    measure.__name__: measure
    for measure in (
        longest_detour,
        trees_per_arc,
        trees_per_link,
        paths_per_inner_node,
        same_type_per_step,
        segments_per_message,
        largest_subtree,
        smallest_subtree,
        outside_own_substar,
        off_displacement,
        off_period,
        inner_home_nodes,
        unrotated_arcs,
    )
}
"""The structure metrics that an algorithm can claim, by name."""
