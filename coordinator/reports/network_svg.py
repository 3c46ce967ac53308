"""The network on its layout: which node was done when and, step by step, which links carry what.

Up to `NODES_WITH_LINKS` nodes, the map shows every node and every used link (`maps/link_map.py`); larger networks are
squares without links (`maps/cell_map.py`). A script shows the step that the reader chooses; without a script the map shows
the whole run.

In gather and reduce, a node is done when it has sent everything. In allgather and alltoall, each node is a pie of what it
received, in the colours of the steps. If payloads were altered, a node has the colour of the value it elected.
"""

import polars as pl

from coordinator.reports.data import RunData
from coordinator.reports.layout import layout_of
from coordinator.reports.maps import cell_map, link_map
from coordinator.reports.maps.base import MapRun, NetworkMap
from coordinator.reports.maps.marks import ALL_TO_ALL
from coordinator.reports.votes import Votes

CSS = """
.map { display: block; width: 100%; height: auto; max-height: 92vh; margin: 0 auto; }
.map .web { stroke: var(--grid); fill: none; }
.map .flow { stroke: var(--blue); fill: none; stroke-linecap: round; }
.map .head { fill: var(--blue); }
.map .gone { stroke: var(--red); fill: none; stroke-dasharray: 5 4; }
.map .node { stroke: var(--ink); stroke-width: 1; stroke-opacity: .55; }
.map .slice, .map .progress { pointer-events: none; }
.map .ring { stroke: var(--ink); fill: none; }
.map .cross { stroke: var(--red); fill: none; stroke-linecap: round; }
.map .diamond { stroke: var(--purple); fill: none; stroke-linejoin: round; }
.map .name { text-anchor: middle; dominant-baseline: central; pointer-events: none; }
.map .halo .name { paint-order: stroke; stroke: var(--paper); stroke-width: 3.5px; stroke-linejoin: round; }
.map .later { opacity: .13; }
.keys { display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; }
.key { display: inline-flex; align-items: center; gap: .4rem; }
.key svg { width: 15px; height: 15px; flex: none; overflow: visible; }
@media (max-width: 640px) {
  .map .names.large .name {
    font-size: 28px; fill: var(--ink); paint-order: stroke; stroke: var(--paper); stroke-width: 7px;
  }
  .map .names.none { display: none; }
}
@media not all and (max-width: 640px) { .small-screen { display: none; } }
"""


def network_map(data: RunData, hops: pl.DataFrame | None, votes: Votes | None) -> NetworkMap | None:
    """The map of a run, or None if its network is unknown or neither its nodes nor its packets are known.

    `hops` are the packets of `packets_of`; `votes` are those of a run in which payloads were altered.
    """
    topology = data.topology
    if topology is None or (data.nodes is None and hops is None):
        return None
    run = MapRun(data, topology, layout_of(topology), hops, _steps(data, hops), votes)
    return link_map.draw(run) if topology.order <= link_map.NODES_WITH_LINKS else cell_map.draw(run)


def packets_of(data: RunData, journal: pl.LazyFrame) -> pl.DataFrame:
    """One row per packet: step, sender, port, receiver, segments, segments lost, and first copies of segments due.

    In all-to-all collectives nothing is due from a faulty node, so copies of its segments do not count as first.
    """
    due = pl.lit(value=True)
    if data.nodes is not None and data.get("collective") in ALL_TO_ALL:
        due = ~pl.col("origin").is_in(data.nodes.filter(pl.col("state") != "alive")["rank"].to_list())
    outcome = pl.col("outcome").cast(pl.String)
    return (
        journal.group_by("step", "sender", "port", "receiver")
        .agg(
            segments=pl.len().cast(pl.Int64),
            lost=(outcome == "lost").sum().cast(pl.Int64),
            first=((outcome == "first") & due).sum().cast(pl.Int64),
        )
        .sort("step", "sender", "port")
        .collect(engine="streaming")
    )


def _steps(data: RunData, hops: pl.DataFrame | None) -> int:
    if hops is not None and len(hops):
        return int(hops["step"].max())  # type: ignore[arg-type]
    return len(data.steps) if data.steps is not None else 0
