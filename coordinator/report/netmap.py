"""The network drawn on its own layout: who received when, and, step by step, which links carry what.

Up to `NODES_WITH_LINKS` nodes every node is a circle and every used link a path of its own; a script shows the step that the
reader asks for by joining the paths of its links into a handful of elements. Above, nodes that finished in the same step
share one path of little squares, and above `NODES_ONE_BY_ONE` a square stands for a cell of neighbouring nodes, so that the
browser never holds more than a few thousand elements. Without a script the picture shows the whole run.

In gather and reduce, where nodes give and do not get, a node counts as done when it has sent what it had to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.report.data import RunData
from coordinator.report.layout import Floats, Layout, Ranks, cells_of, layout_of, shapes_of
from coordinator.report.linkpaths import link_paths
from coordinator.report.plots import viridis
from emunode.errors import ScenarioError
from emunode.topology.base import Topology

NODES_WITH_LINKS = 1_050
"""Q_10 is drawn link by link; the next larger networks are not."""
NODES_ONE_BY_ONE = 20_000
CELLS = 5_000
MOST_FRAMES = 240
LINK_ENTRIES = 60_000
"""Links that carry something, summed over frames; steps are put together until it fits."""
NODES_WITH_WEB = 420
"""Idle links are shown up to here; above they would be a grey area."""
NODES_WITH_ARROWS = 420
MANY_LINKS = 1_500
"""From here on links shine through each other."""
GIVING = ("gather", "reduce")

CSS = """
.map { display: block; width: 100%; height: auto; max-height: 92vh; margin: 0 auto; }
.map .web { stroke: var(--grid); fill: none; }
.map .flow { stroke: var(--blue); fill: none; stroke-linecap: round; }
.map .head { fill: var(--blue); }
.map .gone { stroke: var(--red); fill: none; stroke-dasharray: 5 4; }
.map .node { stroke: var(--ink); stroke-width: 1; stroke-opacity: .55; }
.map .ring { stroke: var(--ink); fill: none; }
.map .cross { stroke: var(--red); fill: none; stroke-linecap: round; }
.map .name { text-anchor: middle; dominant-baseline: central; pointer-events: none; }
.map .later { opacity: .13; }
"""


@dataclass
class Frames:
    """What the script needs: for every frame its name, its busy links and what each node got."""

    names: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    first: list[int] = field(default_factory=list)
    last: list[int] = field(default_factory=list)
    colours: list[str] = field(default_factory=list)
    links: list[list[int]] = field(default_factory=list)
    loads: list[list[int]] = field(default_factory=list)
    lost: list[list[int]] = field(default_factory=list)
    gains: list[list[int]] = field(default_factory=list)
    """Node, pieces, node, pieces, .."""


@dataclass
class NetworkMap:
    """The picture, what its script gets, and what stands below it."""

    svg: str
    script: dict[str, object]
    legend: str
    first_colour: str
    last_colour: str


def giving(data: RunData) -> bool:
    """Whether nodes are judged by what they send."""
    return data.get("collective") in GIVING


def network_map(data: RunData, hops: pl.DataFrame | None) -> NetworkMap | None:
    """The picture of a run; None where not even the network or its nodes are known.

    `hops` has a row for each step and directed link that carried something (`packets_of`), or is None if that is unknown.
    """
    topology = data.topology
    if topology is None or (data.nodes is None and hops is None):
        return None
    layout = layout_of(topology)
    steps = _steps(data, hops)
    if topology.order <= NODES_WITH_LINKS:
        return _small(data, topology, layout, hops, steps)
    return _large(data, topology, layout, hops, steps)


def packets_of(journal: pl.LazyFrame) -> pl.DataFrame:
    """Step, sender, port, receiver, segments, of these lost, and first copies that reached whom they are meant for."""
    return (
        journal.group_by("step", "sender", "port", "receiver")
        .agg(
            segments=pl.len().cast(pl.Int64),
            lost=(pl.col("outcome").cast(pl.String) == "lost").sum().cast(pl.Int64),
            first=(pl.col("outcome").cast(pl.String) == "first").sum().cast(pl.Int64),
        )
        .sort("step", "sender", "port")
        .collect(engine="streaming")
    )


def _steps(data: RunData, hops: pl.DataFrame | None) -> int:
    if hops is not None and len(hops):
        return int(hops["step"].max())  # type: ignore[arg-type]
    if data.steps is not None:
        return len(data.steps)
    return 0


def _finish_steps(data: RunData, hops: pl.DataFrame | None, order: int) -> Ranks:
    """Of every rank the step in which it was done; 0 for never."""
    steps = np.zeros(order, dtype=np.int64)
    if giving(data):
        if hops is not None:
            table = hops.group_by("sender").agg(pl.col("step").max())
            steps[table["sender"].to_numpy()] = table["step"].to_numpy()
    elif data.nodes is not None:
        steps[:] = data.nodes["last_step"].fill_null(0).to_numpy()
    elif hops is not None:
        table = hops.filter(pl.col("first") > 0).group_by("receiver").agg(pl.col("step").max())
        steps[table["receiver"].to_numpy()] = table["step"].to_numpy()
    return steps


def _labels(data: RunData, topology: Topology) -> list[str]:
    if data.nodes is not None:
        return [str(label) for label in data.nodes["label"].to_list()]
    return [topology.label(rank) for rank in topology.ranks()]


def _source(data: RunData, topology: Topology) -> int | None:
    """The rank of the source (or target) of a rooted collective."""
    if data.get("collective") in ("allgather", "alltoall"):
        return None
    label = data.get("source")
    try:
        return topology.rank(str(label)) if label is not None else 0
    except ScenarioError:  # from a damaged file
        return None


def crashes_of(data: RunData) -> dict[int, int]:
    """Rank -> step of the crash."""
    found: dict[int, int] = {}
    for fault in data.faults:
        rank, step = fault.get("rank"), fault.get("step")
        if fault.get("kind") == "crash" and isinstance(rank, int) and isinstance(step, int) and 0 <= rank < data.order:
            found[rank] = step
    return found


# Up to a thousand nodes: node by node, link by link.


def _small(data: RunData, topology: Topology, layout: Layout, hops: pl.DataFrame | None, steps: int) -> NetworkMap:
    used, paths, heads = _used_links(topology, layout, hops)
    width = _frame_width(hops, steps)
    frames = _frames(hops, used, steps, width, giving(data))
    finish = _finish_steps(data, hops, topology.order)
    gained, full = _gained(data, frames, topology.order)
    _tell(frames, full, _due(data, gained), finish)
    source, crashes = _source(data, topology), crashes_of(data)
    totals = [0] * len(used)
    for links, loads in zip(frames.links, frames.loads, strict=True):
        for link, load in zip(links, loads, strict=True):
            totals[link] += load
    labels = _labels(data, topology)
    body = [_web(topology, layout), *_flow(paths, heads, totals, layout), _lost(frames, paths, layout)]
    body += _nodes(layout, labels, finish, steps, source, crashes, gained)
    script: dict[str, object] = {
        "kind": "links",
        "whole": f"{_count(len(used), 'directed link')} of {topology.order * topology.degree:,} "
        f"{'carries' if len(used) == 1 else 'carry'} {_count(sum(totals), 'segment')} in {_count(steps, 'step')}",
        "paths": paths,
        "heads": heads,
        "totals": totals,
        "names": frames.names,
        "texts": frames.texts,
        "first": frames.first,
        "last": frames.last,
        "colours": frames.colours,
        "links": frames.links,
        "loads": frames.loads,
        "lost": frames.lost,
        "gains": frames.gains,
        "full": full,
        "source": -1 if source is None or giving(data) else source,
    }
    return NetworkMap(_svg(layout, body, topology), script, _legend(data, totals, width, 1), viridis(0), viridis(1))


def _frame_width(hops: pl.DataFrame | None, steps: int) -> int:
    """Steps in one frame: few enough frames, and few enough busy links over all of them."""
    if hops is None:
        return 1
    width = max(1, -(-steps // MOST_FRAMES))
    while (
        width < steps
        and hops.select(((pl.col("step") - 1) // width).alias("f"), "sender", "port").n_unique() > LINK_ENTRIES
    ):
        width *= 2
    return width


def _used_links(
    topology: Topology, layout: Layout, hops: pl.DataFrame | None
) -> tuple[dict[tuple[int, int], int], list[str], list[str]]:
    """Index of each used directed link by sender and port, its line and its arrowhead."""
    if hops is None:
        return {}, [], []
    links = hops.select("sender", "port", "receiver").unique().sort("sender", "port")
    senders, ports, receivers = (links[name].cast(pl.Int64).to_numpy() for name in ("sender", "port", "receiver"))
    used = {key: at for at, key in enumerate(zip(senders.tolist(), ports.tolist(), strict=True))}
    lines, heads = link_paths(layout, shapes_of(topology, senders, ports, receivers), senders, receivers)
    return used, lines, heads if topology.order <= NODES_WITH_ARROWS else []


def _frames(
    hops: pl.DataFrame | None, used: Mapping[tuple[int, int], int], steps: int, width: int, gives: bool
) -> Frames:
    frames = Frames()
    count = -(-steps // width) if steps else 0
    for at in range(count):
        first, last = at * width + 1, min(steps, (at + 1) * width)
        frames.first.append(first)
        frames.last.append(last)
        frames.names.append(f"{first}" if first == last else f"{first} to {last}")
        frames.colours.append(viridis(at / (count - 1) if count > 1 else 0.6))
    for per_frame in (frames.links, frames.loads, frames.lost, frames.gains):
        per_frame.extend([] for _ in range(count))
    if hops is None or not count:
        return frames
    by_frame = hops.with_columns(frame=(pl.col("step") - 1) // width)
    busy = by_frame.group_by("frame", "sender", "port").agg(pl.col("segments").sum(), pl.col("lost").sum())
    for frame, sender, port, segments, lost in busy.sort("frame", "sender", "port").iter_rows():
        link = used[sender, port]
        frames.links[frame].append(link)
        frames.loads[frame].append(segments)
        if lost:
            frames.lost[frame].append(link)
    who, what = ("sender", "segments") if gives else ("receiver", "first")
    gains = by_frame.filter(pl.col(what) > 0).group_by("frame", rank=who).agg(pl.col(what).sum()).sort("frame", "rank")
    for frame, rank, pieces in gains.iter_rows():
        frames.gains[frame] += (rank, pieces)
    return frames


def _gained(data: RunData, frames: Frames, order: int) -> tuple[list[int], list[int]]:
    """Pieces that each node got (or gave) in all, and how many it takes to be done."""
    gained = [0] * order
    for gains in frames.gains:
        for rank, pieces in zip(gains[::2], gains[1::2], strict=True):
            gained[rank] += pieces
    if giving(data):
        return gained, gained
    return gained, [max(gained, default=0)] * order


def _due(data: RunData, gained: Sequence[int]) -> NDArray[np.bool_]:
    """Which nodes are to get (or give) anything: not the source, and not one that crashes."""
    if data.nodes is None or giving(data):
        return np.asarray(gained) > 0 if any(gained) else np.ones(len(gained), dtype=np.bool_)
    return np.asarray(data.nodes["expected"].fill_null(0).to_numpy() > 0)


def _tell(frames: Frames, full: Sequence[int], due: NDArray[np.bool_], finish: Ranks) -> None:
    """One sentence a frame: what moves, and how many nodes are done after it."""
    have, done, all_due = [0] * len(due), 0, int(due.sum())
    known = any(frames.gains)
    finished = np.sort(finish[due])
    for at in range(len(frames.names)):
        for rank, pieces in zip(frames.gains[at][::2], frames.gains[at][1::2], strict=True):
            before = have[rank]
            have[rank] += pieces
            done += bool(due[rank]) and before < full[rank] <= have[rank]
        if not known:
            done = int(np.searchsorted(finished, frames.last[at], side="right") - np.searchsorted(finished, 1))
        links, segments, lost = len(frames.links[at]), sum(frames.loads[at]), len(frames.lost[at])
        gone = f", {_count(lost, 'link')} lose something" if lost else ""
        moves = f"{_count(links, 'link')} carry {_count(segments, 'segment')}{gone}; " if links else ""
        frames.texts.append(f"{moves}{done:,} of {_count(all_due, 'node')} done")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _web(topology: Topology, layout: Layout) -> str:
    """Every link, faintly."""
    if topology.order > NODES_WITH_WEB:
        return ""
    links = np.array([(rank, port, other) for rank, port, other, _ in topology.links()], dtype=np.int64)
    senders, ports, receivers = links[:, 0], links[:, 1], links[:, 2]
    lines, _ = link_paths(layout, shapes_of(topology, senders, ports, receivers), senders, receivers)
    return f'<path class="web" stroke-width="{max(0.5, 0.05 * layout.radius):.2f}" d="{"".join(lines)}"/>'


def _flow(paths: Sequence[str], heads: Sequence[str], totals: Sequence[int], layout: Layout) -> list[str]:
    """Used links in three widths by how much they carry; the script fills the same elements anew for every step."""
    thick = [[], [], []]  # type: list[list[str]]
    most = max(totals, default=0)
    for path, total in zip(paths, totals, strict=True):
        thick[weight_class(total, most)].append(path)
    unit = max(0.55, min(2.6, 0.12 * layout.radius))
    faint = ' stroke-opacity="0.5"' if len(paths) > MANY_LINKS else ""
    flows = [
        f'<path class="flow" id="flow{at}"{faint} stroke-width="{unit * wide:.2f}" d="{"".join(lines)}"/>'
        for at, (lines, wide) in enumerate(zip(thick, (0.7, 1.4, 2.4), strict=True))
    ]
    return [*flows, f'<path class="head" id="heads" d="{"".join(heads)}"/>']


def weight_class(load: int, most: int) -> int:
    """0, 1, 2 for a load up to a third of the largest, up to two thirds, and above; 1 where all are equal to 1."""
    if most <= 1:
        return 1
    return min(2, 3 * load // most if 3 * load % most else 3 * load // most - 1)


def _lost(frames: Frames, paths: Sequence[str], layout: Layout) -> str:
    links = sorted({link for lost in frames.lost for link in lost})
    wide = max(0.8, 0.14 * layout.radius)
    return f'<path class="gone" id="lost" stroke-width="{wide:.2f}" d="{"".join(paths[link] for link in links)}"/>'


def _nodes(
    layout: Layout,
    labels: Sequence[str],
    finish: Ranks,
    steps: int,
    source: int | None,
    crashes: Mapping[int, int],
    gained: Sequence[int],
) -> list[str]:
    radius, x, y = layout.radius, layout.x.tolist(), layout.y.tolist()
    letters = max((len(label) for label in labels), default=1)
    font = min(17.0, 1.75 * radius / (0.58 * letters))
    parts, names = [], []
    for rank, label in enumerate(labels):
        done, share = int(finish[rank]), 0.0
        if done:
            share = (done - 1) / (steps - 1) if steps > 1 else 0.6
        tip = f"{label} (rank {rank})"
        tip += f", done in step {done}" if done else ", nothing arrived" if rank != source else ", source"
        tip += f", {gained[rank]:,} {'piece' if gained[rank] == 1 else 'pieces'}" if gained[rank] else ""
        tip += f", crashes at step {crashes[rank]}" if rank in crashes else ""
        fill = viridis(share) if done else "var(--paper)"
        parts.append(
            f'<circle class="node" cx="{x[rank]:.1f}" cy="{y[rank]:.1f}" r="{radius:.1f}" fill="{fill}">'
            f"<title>{escape(tip)}</title></circle>"
        )
        if font >= 8:
            ink = "var(--ink)" if not done else "#fff" if share < 0.55 else "#111"
            names.append(
                f'<text class="name" x="{x[rank]:.1f}" y="{y[rank]:.1f}" font-size="{font:.1f}" fill="{ink}">'
                f"{escape(label)}</text>"
            )
    marks = []
    if source is not None:
        marks.append(
            f'<circle class="ring" cx="{x[source]:.1f}" cy="{y[source]:.1f}" r="{1.32 * radius:.1f}" '
            f'stroke-width="{max(1.0, 0.13 * radius):.1f}"/>'
        )
    for rank, step in crashes.items():
        marks.append(_cross(x[rank], y[rank], 1.25 * radius, step))
    return [f'<g id="nodes">{"".join(parts)}</g>', f'<g id="names">{"".join(names)}</g>', *marks]


def _cross(x: float, y: float, arm: float, step: int) -> str:
    a = arm * 0.8
    return (
        f'<path class="cross" data-step="{step}" stroke-width="{max(1.2, 0.2 * arm):.1f}" '
        f'd="M{x - a:.1f} {y - a:.1f}l{2 * a:.1f} {2 * a:.1f}m0 {-2 * a:.1f}l{-2 * a:.1f} {2 * a:.1f}"/>'
    )


# Above: nodes that were done in the same step share a path.


def _large(data: RunData, topology: Topology, layout: Layout, hops: pl.DataFrame | None, steps: int) -> NetworkMap:
    finish = _finish_steps(data, hops, topology.order)
    source, crashes = _source(data, topology), crashes_of(data)
    frames = _frames(None, {}, steps or int(finish.max(initial=0)), max(1, -(-steps // MOST_FRAMES)), gives=False)
    x, y, done, side, size = layout.x, layout.y, finish, 0.9 * layout.spacing, 1
    if topology.order > NODES_ONE_BY_ONE:
        x, y, done, side, size = _cells(topology, layout, finish)
    width = frames.last[0] - frames.first[0] + 1 if frames.names else 1
    groups = np.where(done > 0, (done - 1) // width, -1)
    body = [
        f'<path class="node never" stroke-width="{0.08 * side:.2f}" fill="none" d="{_squares(x, y, groups == -1, side)}"/>'
    ]
    for at, colour in enumerate(frames.colours):
        squares = _squares(x, y, groups == at, side)
        if squares:
            body.append(f'<path class="cells" data-frame="{at}" fill="{colour}" d="{squares}"/>')
    if source is not None:
        body.append(
            f'<circle class="ring" cx="{layout.x[source]:.1f}" cy="{layout.y[source]:.1f}" r="{max(5.0, 1.2 * side):.1f}" '
            'stroke-width="1.6"><title>source</title></circle>'
        )
    for rank, step in list(crashes.items())[:400]:
        body.append(_cross(float(layout.x[rank]), float(layout.y[rank]), max(4.0, side), step))
    _tell_large(frames, data, finish, width)
    script: dict[str, object] = {
        "kind": "cells",
        "whole": _count(steps, "step"),
        "names": frames.names,
        "texts": frames.texts,
        "first": frames.first,
        "last": frames.last,
    }
    return NetworkMap(_svg(layout, body, topology), script, _legend(data, [], width, size), viridis(0), viridis(1))


def _cells(topology: Topology, layout: Layout, finish: Ranks) -> tuple[Floats, Floats, Ranks, float, int]:
    """Middle of every cell of nodes, the mean step (rounded) in which they were done, and the side of its square."""
    cell = cells_of(topology, layout, CELLS)
    count = int(cell.max()) + 1
    size = np.bincount(cell, minlength=count)
    has = size > 0
    served = np.bincount(cell, weights=finish > 0, minlength=count)
    mean = np.bincount(cell, weights=finish, minlength=count) / np.maximum(served, 1)
    x = np.bincount(cell, weights=layout.x, minlength=count)[has] / size[has]
    y = np.bincount(cell, weights=layout.y, minlength=count)[has] / size[has]
    done = np.where(served > 0, np.maximum(1, np.round(mean)), 0).astype(np.int64)[has]
    side = 0.8 * float(np.sqrt(1000.0 * layout.height / (3.0 * has.sum())))
    return x, y, done, side, int(size.max())


def _squares(x: Floats, y: Floats, chosen: NDArray[np.bool_], side: float) -> str:
    a, left, top = f"{side:.1f}", (x[chosen] - side / 2).tolist(), (y[chosen] - side / 2).tolist()
    return "".join([f"M{px:.1f} {py:.1f}h{a}v{a}h-{a}z" for px, py in zip(left, top, strict=True)])


def _tell_large(frames: Frames, data: RunData, finish: Ranks, width: int) -> None:
    due = _due(data, finish.tolist())
    finished = np.sort(finish[due & (finish > 0)])
    packets = data.steps["packets"].to_list() if data.steps is not None else []
    for last in frames.last:
        sent = sum(packets[last - width : last])
        done = int(np.searchsorted(finished, last, side="right"))
        moves = f"{_count(sent, 'packet')}; " if packets else ""
        frames.texts.append(f"{moves}{done:,} of {_count(int(due.sum()), 'node')} done")


# Around the picture.


def _svg(layout: Layout, body: Sequence[str], topology: Topology) -> str:
    return (
        f'<svg class="map" id="map" viewBox="0 0 1000 {layout.height:.0f}" role="img" '
        f'aria-label="{escape(topology.title)}">{"".join(body)}</svg>'
    )


def _legend(data: RunData, totals: Sequence[int], width: int, cell: int) -> str:
    parts = []
    done = "it has sent all it had to send" if giving(data) else "the last it was to get arrived"
    parts.append(f"Colour of a node: the step in which {done}; hollow: not yet, or never.")
    if totals:
        parts.append(f"Links: the thicker, the more segments (at most {max(totals):,} on one link in the whole run).")
    if width > 1:
        parts.append(f"One position of the slider is {width} steps.")
    if cell > 1:
        parts.append(f"A square stands for up to {cell} nodes that are drawn close together and has their mean step.")
    return " ".join(parts)
