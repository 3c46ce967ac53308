"""The trees of a run as its packets show them: the parent of every node in every tree, from the journal.

In a collective from a source, the parent of a node is the neighbour that sent the first copy meant for it; towards a
target, it is the neighbour that the node sent its own segments to. A unicast over several routes has one path per
route. The collectives without a root have trees for every origin. Where no packet shows a parent because faults kept it
away, the schedule of the algorithm does, if it has spanning trees that agree with all packets.
"""

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
import polars as pl

from coordinator.reports.computed_layout import Ranks
from coordinator.reports.data import RunData
from coordinator.reports.interactive.packing import pack
from coordinator.reports.scene.nodes import has_root, root_of
from emunode.model import ALL_RANKS, Collective
from emunode.topologies.base import Topology
from emunode.trees.base import Trees

DOWN: Final = (Collective.BROADCAST, Collective.SCATTER, Collective.ALLGATHER, Collective.ALLTOALL)
UP: Final = (Collective.GATHER, Collective.REDUCE)
CHECKED: Final = (Collective.SCATTER, Collective.ALLTOALL)
"""Collectives whose packets for one rank pass others, and have to agree with the parents of these."""
MOST_PARENTS: Final = 60_000
"""Entries of all tables of parents. A larger network without a root has the trees of rank 0 only."""
MOST_TREES: Final = 64
ARRIVED, LOST, PLANNED = 0, 1, 2
"""How a parent is known: a packet arrived on the arc, packets were only lost on it, or it carried nothing."""


@dataclass(frozen=True)
class NodeParents:
    """The trees of a run, by root."""

    roots: list[int]
    count: int
    """Trees per root."""
    up: bool
    """Whether packets travel from children to parents."""
    port: Ranks
    """By root, tree and rank, the port of the rank that leads to its parent; -1 if it has none."""
    how: Ranks
    """Of the same shape: ARRIVED, LOST or PLANNED."""

    def path(self, topology: Topology, tree: int, rank: int) -> list[int]:
        """Return the ranks from the first root to `rank`, as far as parents are known."""
        path = [rank]
        while (port := int(self.port[0, tree, path[0]])) >= 0 and len(path) <= topology.order:
            path.insert(0, topology.neighbour(path[0], port))
        return path

    def record(self) -> dict[str, object]:
        """Return the trees for the script."""
        table = np.where(self.port < 0, -1, 3 * self.port + self.how)
        return {"roots": self.roots, "count": self.count, "up": self.up, "parents": pack(table)}


def parents_of(data: RunData) -> NodeParents | None:
    """Return the trees of a run; None if it has none, or if its packets do not follow trees."""
    topology, name, hops = data.topology, str(data.get("collective")), data.hops
    roots = _roots(data)
    if topology is None or hops is None or not roots:
        return None
    rootless = not has_root(data)
    if rootless and len(roots) < topology.order:
        hops = hops.filter(pl.col("origin").is_in(roots))
    arcs = _arcs(hops, name, roots)
    count = 1 + int(arcs["tree"].max() or 0)  # type: ignore[arg-type]
    if not len(arcs) or count > MOST_TREES or count * topology.order > MOST_PARENTS:
        return None
    if name in CHECKED and not _follows_trees(hops, arcs, rootless=len(roots) > 1):
        return None
    port = np.full((len(roots), count, topology.order), -1, dtype=np.int64)
    how = np.zeros_like(port)
    back = cache(lambda rank, port: topology.end(rank, port)[1])
    for root, tree, rank, parent, parent_port, lost in arcs.iter_rows():
        # Towards a target, the sender is the child, and the port is its own.
        port[root, tree, rank] = parent_port if name in UP else back(parent, parent_port)
        how[root, tree, rank] = LOST if lost else ARRIVED
    found = NodeParents(roots, count, name in UP, port, how)
    if not rootless and name != Collective.UNICAST:
        _add_planned(data, found)
    return found


def _roots(data: RunData) -> list[int]:
    """Return the roots whose trees are drawn; none if the collective has no trees."""
    topology, name, root = data.topology, str(data.get("collective")), root_of(data)
    if topology is None or data.hops is None or name not in (*DOWN, *UP, Collective.UNICAST):
        return []
    if root is not None:
        return [root]
    if name not in (Collective.ALLGATHER, Collective.ALLTOALL):
        return []
    trees = 1 + (data.hops.select(pl.col("tree").max()).collect().item() or 0)
    return list(topology.ranks()) if trees * topology.order**2 <= MOST_PARENTS else [0]


def _arcs(hops: pl.LazyFrame, name: str, roots: list[int]) -> pl.DataFrame:
    """Return root, tree, rank, parent, port of the sender, lost: the arc to the parent of every rank, by its first
    packet.
    """
    lost = pl.col("outcome").cast(pl.String) == "lost"
    child, parent = ("sender", "receiver") if name in UP else ("receiver", "sender")
    match name:
        case Collective.GATHER:
            meant = pl.col("origin") == pl.col("sender")
        case Collective.REDUCE | Collective.UNICAST:
            meant = pl.lit(value=True)
        case _:
            meant = (pl.col("target") == ALL_RANKS) | (pl.col("target") == pl.col("receiver"))
    root = pl.col("origin").cast(pl.Int64) if len(roots) > 1 else pl.lit(0, dtype=pl.Int64)
    # Segments that come back to a root make no node its parent.
    at_root = pl.col(child) == (pl.col("origin") if len(roots) > 1 else roots[0])
    rows = hops.filter(meant & ~at_root).select("step", "tree", "port", root=root, rank=child, parent=parent, lost=lost)
    return (
        # An arrival counts before a loss, an earlier packet before a later one; ports make the choice unique.
        rows.sort("lost", "step", "parent", "port")
        .group_by("root", "tree", "rank", maintain_order=True)
        .first()
        .select("root", "tree", "rank", "parent", "port", "lost")
        .sort("root", "tree", "rank")
        .collect(engine="streaming")
    )


def _follows_trees(hops: pl.LazyFrame, arcs: pl.DataFrame, *, rootless: bool) -> bool:
    """Return whether packets for others also reach every rank from its parent."""
    root = pl.col("origin").cast(pl.Int64) if rootless else pl.lit(0, dtype=pl.Int64)
    others = hops.filter(pl.col("target") != pl.col("receiver")).select(
        "tree", root=root, rank="receiver", parent="sender"
    )
    return not (
        others.unique()
        .join(arcs.lazy().select("root", "tree", "rank", "parent"), on=["root", "tree", "rank", "parent"], how="anti")
        .head(1)
        .collect(engine="streaming")
        .height
    )


def _add_planned(data: RunData, found: NodeParents) -> None:
    """Fill the gaps from the trees of the algorithm, if they agree with every packet."""
    topology = data.topology
    trees = getattr(data.plan.algorithm, "trees", None) if data.plan else None
    if topology is None or not isinstance(trees, Trees) or trees.count < found.count:
        return
    root, table = found.roots[0], found.port[0]
    if (table[:, np.arange(topology.order) != root] >= 0).all():
        return
    planned = np.full_like(table, -1)
    for tree in range(found.count):
        for relative in topology.ranks():
            for port in trees.children(relative, tree):
                rank, its_port = topology.end(topology.absolute(relative, root), port)
                planned[tree, rank] = its_port
    if ((table >= 0) & (table != planned)).any():
        return
    missing = (table < 0) & (planned >= 0)
    found.how[0][missing] = PLANNED
    table[missing] = planned[missing]
