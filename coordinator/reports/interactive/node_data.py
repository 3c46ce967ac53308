"""The data of the script beyond the picture: labels and ports, packets, trees, faults, and nodes that were cut off.

From these data the script finds the receipts of a node with times and senders, its paths and its subtree. Every part
has a bound: packets of long runs are summed over several steps, and networks above MOST_NODES have none of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl

from coordinator.reports.data import RunData
from coordinator.reports.interactive.packing import pack
from coordinator.reports.interactive.parents import NodeParents, parents_of
from coordinator.reports.layout import Layout
from coordinator.reports.scene.nodes import giving
from coordinator.results.reasons import unserved_words
from emunode.topologies.base import Topology

MOST_NODES: Final = 20_000
MOST_PORTS: Final = 120_000
"""Ports of all nodes."""
MOST_PACKETS: Final = 40_000
OUTCOMES: Final = ("first", "duplicate", "corrupt", "lost", "relay")


@dataclass(frozen=True)
class NodeData:
    """The data of the page about every node."""

    topology: Topology
    layout: Layout
    data: RunData
    trees: NodeParents | None
    packets: dict[str, object] | None
    """None if the journal is missing or too long, or if even sums over all steps are too many."""

    def record(self, faults: Sequence[Mapping[str, str]], cut_off: Mapping[str, str | None]) -> dict[str, object]:
        """Return the data for the script.

        `faults` are the rows of the table of faults; `cut_off` has the label of every node that is listed as cut off, with
        the responsible faults.
        """
        topology, layout = self.topology, self.layout
        labels = [topology.label(rank) for rank in topology.ranks()]
        rank_of = {label: rank for rank, label in enumerate(labels)}
        return {
            "labels": labels,
            "degree": topology.degree,
            "ends": _ends(topology),
            "x": pack(np.round(10 * layout.x)),
            "y": pack(np.round(10 * layout.y)),
            "radius": round(layout.radius, 2),
            "giving": giving(self.data),
            "nodes": _nodes(self.data),
            "packets": self.packets,
            "trees": self.trees.record() if self.trees else None,
            "faults": [_fault(record, row) for record, row in zip(self.data.faults, faults, strict=False)],
            "cutOff": {rank_of[label]: because or "" for label, because in cut_off.items() if label in rank_of},
            "unserved": unserved_words(self.data.summary).capitalize(),
        }


def node_data(data: RunData, layout: Layout, packets: int | None) -> NodeData | None:
    """Return the data for questions about nodes, given the number of `packets`; without packets and trees if the number
    is None.

    None for networks that are too large.
    """
    topology = data.topology
    if topology is None or topology.order > MOST_NODES or topology.order * topology.degree > MOST_PORTS:
        return None
    if packets is None:
        return NodeData(topology, layout, data, None, None)
    return NodeData(topology, layout, data, parents_of(data), _packets(data, packets))


def _ends(topology: Topology) -> dict[str, str]:
    """Return the rank and the port at the other end of each port.

    -1 where a rank has no such port.
    """
    peers = np.full((topology.order, topology.degree), -1, dtype=np.int64)
    ports = np.full_like(peers, -1)
    for rank in topology.ranks():
        for port, peer, its_port in topology.ends(rank):
            peers[rank, port], ports[rank, port] = peer, its_port
    return {"peers": pack(peers), "ports": pack(ports)}


def _nodes(data: RunData) -> dict[str, object] | None:
    """Return for each rank the segments that arrived, the messages due, the first and the last arrival, and the final
    state.
    """
    nodes = data.nodes
    if nodes is None:
        return None
    states = list(dict.fromkeys(str(state) for state in nodes["state"].to_list()))
    return {
        **{
            name: pack(nodes[name].fill_null(-1).to_numpy())
            for name in ("received", "expected", "first_step", "last_step")
        },
        "state": pack([states.index(str(state)) for state in nodes["state"].to_list()]),
        "states": states,
    }


def _packets(data: RunData, count: int) -> dict[str, object] | None:
    """Return the packets in the order of their steps: sender, port, tree, outcome and segments, and how many there are
    per step.

    If there are too many, all packets that cross a link within a few steps are one entry, without their tree. `count`
    is the number of packets; there are more packets if outcomes or trees of their segments differ.
    """
    hops = data.hops
    if hops is None:
        return None
    by, width = ["step", "sender", "port", "tree", "outcome"], 1
    last = int(hops.select(pl.col("step").max()).collect().item() or 0)
    table = _counted(hops, by, pl.len()) if count <= MOST_PACKETS else None
    if table is None or len(table) > MOST_PACKETS:
        by.remove("tree")
        table = _counted(hops, by, pl.len())
        while len(table) > MOST_PACKETS and width < last:
            width *= 2
            first = (pl.col("step") - 1) // width * width + 1
            table = _counted(table.lazy().with_columns(step=first), by, pl.col("segments").sum())
        if len(table) > MOST_PACKETS:
            return None
        table = table.with_columns(tree=pl.lit(-1))
    # Sorted by names of outcomes, whose order as an enumeration is another one.
    table = table.with_columns(pl.col("outcome").cast(pl.String)).sort(by)
    steps, counts = np.unique(table["step"].to_numpy(), return_counts=True)
    outcomes = [OUTCOMES.index(name) if name in OUTCOMES else len(OUTCOMES) for name in table["outcome"].to_list()]
    return {
        "width": width,
        "last": last,
        "steps": pack(steps),
        "counts": pack(counts),
        **{name: _column(table[name].cast(pl.Int64).to_list()) for name in ("sender", "port", "tree", "segments")},
        "outcome": _column(outcomes),
        "outcomes": [*OUTCOMES, "other"],
    }


def _column(values: Sequence[int]) -> str | int:
    """Return the values as text, or their value if they are all the same."""
    return values[0] if len(set(values)) == 1 else pack(values)


def _counted(rows: pl.LazyFrame, by: list[str], segments: pl.Expr) -> pl.DataFrame:
    return rows.group_by(by).agg(segments=segments.cast(pl.Int64)).collect(engine="streaming")


def _fault(record: Mapping[str, Any], row: Mapping[str, str]) -> dict[str, object]:
    """Return a fault with its place, as numbers and in words."""
    numbers = {
        name: record[name] for name in ("rank", "sender", "port", "step", "last") if isinstance(record.get(name), int)
    }
    return {**numbers, **row, "step": numbers.get("step", 1)}
