"""The network on its layout: when each node was done and, step by step, the traffic of the links.

Up to `NODES_WITH_LINKS` nodes, the map shows every node and every used link (`maps/link_map.py`); larger networks are
squares without links (`maps/cell_map.py`). A script shows the step that the reader chooses; without a script the map shows
the whole run.

In gather and reduce, a node is done when it has sent everything. In allgather and alltoall, each node is a pie of its
received segments, in the colours of the steps. If payloads were altered, a node has the colour of the value it elected.
"""

from coordinator.reports.layout import layout_of
from coordinator.reports.maps import cell_map, link_map
from coordinator.reports.maps.base import NetworkMap
from coordinator.reports.scene.scene import Scene

CSS = """
.map { display: block; width: 100%; height: auto; max-height: 92vh; margin: 0 auto; }
.map .web { stroke: var(--grid); fill: none; }
.map .flow { stroke: var(--blue); fill: none; stroke-linecap: round; }
.map .head { fill: var(--blue); }
.map .forged { stroke: var(--purple); fill: none; stroke-linecap: round; }
.map .forged-head { fill: var(--purple); }
.map .withheld { stroke: var(--grey); fill: var(--paper); stroke-width: 1.5; }
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


def network_map(scene: Scene) -> NetworkMap | None:
    """Draw the map of a run; None if neither its nodes nor its packets are known."""
    if scene.data.nodes is None and scene.packets is None:
        return None
    draw = link_map.draw if scene.order <= link_map.NODES_WITH_LINKS else cell_map.draw
    return draw(scene, layout_of(scene.topology))
