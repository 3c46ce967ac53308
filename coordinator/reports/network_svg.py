"""The network drawn on its own layout: who received when, and, step by step, which links carry what.

Up to `NODES_WITH_LINKS` nodes every node is a circle and every used link a path of its own; a script shows the step that the
reader asks for by joining the paths of its links into a handful of elements. Above, nodes that finished in the same step
share one path of little squares, and above `NODES_ONE_BY_ONE` a square stands for a cell of neighbouring nodes, so that the
browser never holds more than a few thousand elements. Without a script the picture shows the whole run.

In gather and reduce, where nodes give and do not get, a node counts as done when it has sent what it had to. Where every
node gets something from every other, each is a pie of what it got, in the colours of the steps. Where payloads were altered,
a node has the colour of the value that it elected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.reports.data import RunData
from coordinator.reports.layout import Floats, Layout, Ranks, cells_of, layout_of, shapes_of
from coordinator.reports.link_paths import link_paths
from coordinator.reports.nodes import (  # fmt: skip
    ALL_TO_ALL,
    STATE_COLOURS,
    Frames,
    NodeMark,
    Nodes,
    broken_nodes,
    count_of,
    cross,
    diamond,
    giving,
    key,
    node_keys,
)
from coordinator.reports.plots import viridis
from coordinator.reports.votes import State, Votes
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology

NODES_WITH_LINKS = 1_050
"""Q_10 is drawn link by link; the next larger networks are not."""
NODES_ONE_BY_ONE = 20_000
CELLS = 5_000
MOST_FRAMES = 240
LEVELS = 10
"""Shades of progress on large maps of all-to-all collectives; the last is for nodes that have everything."""
LEVEL_ENTRIES = 400_000
"""Squares of such a map, summed over frames; steps are put together until it fits."""
LINK_ENTRIES = 60_000
"""Links that carry something, summed over frames; steps are put together until it fits."""
NODES_WITH_WEB = 420
"""Idle links are shown up to here; above they would be a grey area."""
NODES_WITH_ARROWS = 420
MANY_LINKS = 1_500
"""From here on links shine through each other."""
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


@dataclass
class NetworkMap:
    """The picture, what its script gets, and what stands below it."""

    svg: str
    script: dict[str, object]
    legend: str
    """HTML."""
    ramp: bool
    """Whether colours stand for a scale."""
    scale: tuple[str, str] | None = None
    """Names of its ends; None: the first and the last step."""


def network_map(data: RunData, hops: pl.DataFrame | None, votes: Votes | None) -> NetworkMap | None:
    """The picture of a run; None where not even the network or its nodes are known.

    `hops` has a row for each step and directed link that carried something (`packets_of`), or is None if that is unknown;
    `votes` are those of a run in which payloads were altered.
    """
    topology = data.topology
    if topology is None or (data.nodes is None and hops is None):
        return None
    layout = layout_of(topology)
    steps = _steps(data, hops)
    if topology.order <= NODES_WITH_LINKS:
        return _small(data, topology, layout, hops, steps, votes)
    return _large(data, topology, layout, hops, steps, votes)


def packets_of(data: RunData, journal: pl.LazyFrame) -> pl.DataFrame:
    """Step, sender, port, receiver, segments, of these lost, and first copies that reached nodes that they are meant for.

    In all-to-all collectives, copies of what a faulty node has to say do not count as first: nobody is owed them.
    """
    owed = pl.lit(value=True)
    if data.nodes is not None and data.get("collective") in ALL_TO_ALL:
        owed = ~pl.col("origin").is_in(data.nodes.filter(pl.col("state") != "alive")["rank"].to_list())
    return (
        journal.group_by("step", "sender", "port", "receiver")
        .agg(
            segments=pl.len().cast(pl.Int64),
            lost=(pl.col("outcome").cast(pl.String) == "lost").sum().cast(pl.Int64),
            first=((pl.col("outcome").cast(pl.String) == "first") & owed).sum().cast(pl.Int64),
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


# Up to a thousand nodes: node by node, link by link.


def _small(
    data: RunData, topology: Topology, layout: Layout, hops: pl.DataFrame | None, steps: int, votes: Votes | None
) -> NetworkMap:
    used, paths, heads = _used_links(topology, layout, hops)
    width = _frame_width(hops, steps)
    frames = _frames(hops, used, steps, width, giving(data))
    finish = _finish_steps(data, hops, topology.order)
    gained, full = _gained(data, frames, topology.order)
    if votes is not None:
        full = [votes.pieces_due] * topology.order
    _describe_frames(frames, full, _due(data, gained), finish, votes)
    totals = [0] * len(used)
    for links, loads in zip(frames.links, frames.loads, strict=True):
        for link, load in zip(links, loads, strict=True):
            totals[link] += load
    nodes = Nodes(
        layout, _labels(data, topology), steps, finish, gained, full, _source(data, topology), broken_nodes(data), votes,
        pies=data.get("collective") in ALL_TO_ALL,
        giving=giving(data),
    )  # fmt: skip
    body = [_web(topology, layout), *_flow(paths, heads, totals, layout), _lost(frames, paths, layout)]
    body += nodes.draw(frames)
    ended = f"; {votes.sentence()}" if votes else ""
    script: dict[str, object] = {
        "kind": "links",
        "whole": f"{count_of(len(used), 'directed link')} of {topology.order * topology.degree:,} "
        f"{'carries' if len(used) == 1 else 'carry'} {count_of(sum(totals), 'segment')} in {count_of(steps, 'step')}{ended}",
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
        "fixed": nodes.fixed,
        "pies": nodes.pies,
        "votes": _vote_frames(votes, width, len(frames.names)) if votes else None,
    }
    legend = _legend(data, totals, width, nodes)
    return NetworkMap(_svg(layout, body, topology), script, legend, ramp=votes is None)


def _vote_frames(votes: Votes, width: int, count: int) -> dict[str, object]:
    """States and their colours, the frames of the first and the last copy of each node (-1: never), and of every piece."""
    heard, settled = (
        (np.where(steps > 0, (steps - 1) // width, -1)).tolist() for steps in (votes.heard, votes.settled)
    )
    gains: list[list[int]] = [[] for _ in range(count)]
    for step, state, rank, pieces in votes.pieces.select("settled", "state", "rank", "count").iter_rows():
        gains[(step - 1) // width] += (rank, state, pieces)
    return {
        "state": votes.state.tolist(),
        "heard": heard,
        "settled": settled,
        "colours": [STATE_COLOURS.get(state, "") for state in State],
        "gains": gains,
    }


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
    return gained, _full(data, gained)


def _full(data: RunData, gained: list[int]) -> list[int]:
    """How many pieces it takes each node to be done, given what it got (or gave) in all."""
    if giving(data):
        return gained
    most, order = max(gained, default=0), len(gained)
    if data.plan is None or data.get("intact_deliveries") == data.get("expected_deliveries"):
        return [most] * order
    spec, healthy = data.plan.spec, order - len(data.plan.states)
    due = sum(data.plan.algorithm.segments_due(number) for number in range(spec.messages))
    return [due * (healthy - 1 if spec.collective in ALL_TO_ALL else 1)] * order


def _due(data: RunData, gained: Sequence[int]) -> NDArray[np.bool_]:
    """Which nodes are to get (or give) anything: not the source, and not one that crashes."""
    if data.nodes is None or giving(data):
        return np.asarray(gained) > 0 if any(gained) else np.ones(len(gained), dtype=np.bool_)
    return np.asarray(data.nodes["expected"].fill_null(0).to_numpy() > 0)


def _describe_frames(
    frames: Frames, full: Sequence[int], due: NDArray[np.bool_], finish: Ranks, votes: Votes | None
) -> None:
    """One sentence for each frame: what moves, and how many nodes are done after it."""
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
        gone = f", {count_of(lost, 'link')} lose something" if lost else ""
        moves = f"{count_of(links, 'link')} carry {count_of(segments, 'segment')}{gone}; " if links else ""
        state = votes.sentence(frames.last[at]) if votes else f"{done:,} of {count_of(all_due, 'node')} done"
        frames.texts.append(f"{moves}{state}")


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


# Above: nodes that were done in the same step share a path.


def _large(
    data: RunData, topology: Topology, layout: Layout, hops: pl.DataFrame | None, steps: int, votes: Votes | None
) -> NetworkMap:
    finish = _finish_steps(data, hops, topology.order)
    state = np.zeros(topology.order, dtype=np.int64)
    if votes is not None:
        state = votes.state
        finish = np.where(state > State.WAITING, votes.settled, 0)
    if votes is None and hops is not None and data.get("collective") in ALL_TO_ALL:
        return _progress_map(data, topology, layout, hops, steps)
    source, broken = _source(data, topology), broken_nodes(data)
    frames = _frames(None, {}, steps or int(finish.max(initial=0)), max(1, -(-steps // MOST_FRAMES)), gives=False)
    x, y, done, side, size = layout.x, layout.y, finish, 0.9 * layout.spacing, 1
    if topology.order > NODES_ONE_BY_ONE:
        x, y, done, state, side, size = _cells(topology, layout, finish, state)
    width = frames.last[0] - frames.first[0] + 1 if frames.names else 1
    groups = np.where(done > 0, (done - 1) // width, -1)
    body = [
        f'<path class="node never" stroke-width="{0.08 * side:.2f}" fill="none" d="{_squares(x, y, groups == -1, side)}"/>'
    ]
    colours = dict(STATE_COLOURS) if votes is not None else {State.WAITING: ""}
    for at, of_step in enumerate(frames.colours):
        for kind, colour in colours.items():
            squares = _squares(x, y, (groups == at) & (state == kind), side)
            if squares:
                body.append(f'<path class="cells" data-frame="{at}" fill="{colour or of_step}" d="{squares}"/>')
    if source is not None:
        body.append(
            f'<circle class="ring" cx="{layout.x[source]:.1f}" cy="{layout.y[source]:.1f}" r="{max(5.0, 1.2 * side):.1f}" '
            f'stroke-width="1.6" style="fill:var(--ink)"><title>{"target" if giving(data) else "source"}</title></circle>'
        )
    for rank, mark in list(broken.items())[:400]:
        shape = diamond if mark.kind == "byzantine" else lambda x, y, arm, step=mark.step: cross(x, y, arm, step)
        body.append(shape(float(layout.x[rank]), float(layout.y[rank]), max(4.0, side)))
    _describe_large(frames, data, finish, width, votes)
    script: dict[str, object] = {
        "kind": "cells",
        "whole": count_of(steps, "step") + (f"; {votes.sentence()}" if votes else ""),
        "names": frames.names,
        "texts": frames.texts,
        "first": frames.first,
        "last": frames.last,
    }
    legend = _large_legend(data, width, size, broken, votes)
    return NetworkMap(_svg(layout, body, topology), script, legend, ramp=votes is None)


def _progress_map(data: RunData, topology: Topology, layout: Layout, hops: pl.DataFrame, steps: int) -> NetworkMap:
    """A large map of an all-to-all collective: the shade of a node is its share of what it is to get."""
    order = topology.order
    x, y, side, size, cell = layout.x, layout.y, 0.9 * layout.spacing, 1, np.arange(order)
    if order > NODES_ONE_BY_ONE:
        x, y, _, _, side, size = _cells(topology, layout, np.ones(order, np.int64), np.zeros(order, np.int64))
        cell = np.unique(cells_of(topology, layout, CELLS), return_inverse=True)[1]
    width = max(1, -(-steps // min(MOST_FRAMES, max(1, LEVEL_ENTRIES // len(x)))))
    frames = _frames(None, {}, steps, width, gives=False)
    first = hops.filter(pl.col("first") > 0)
    at = (first["step"].to_numpy().astype(np.int64) - 1) // width
    got = np.zeros((len(frames.names), order), dtype=np.int64)
    np.add.at(got, (at, first["receiver"].to_numpy()), first["first"].to_numpy())
    have = got.cumsum(axis=0)
    full = _full(data, have[-1].tolist())
    shares = np.minimum(1.0, have / np.maximum(1, np.asarray(full)))
    members = np.bincount(cell)
    mean = np.stack([np.bincount(cell, weights=row) / members for row in shares])
    levels = np.floor(mean * (LEVELS - 1) + 1e-9).astype(np.int64)
    squares = [_squares(x[k : k + 1], y[k : k + 1], np.ones(1, dtype=np.bool_), side) for k in range(len(x))]
    body = [
        f'<path class="level{" node" if level == 0 else ""}" fill="{viridis(level / (LEVELS - 1)) if level else "none"}" '
        f'd="{"".join(squares[k] for k in np.flatnonzero(levels[-1] == level))}"/>'
        for level in range(LEVELS)
    ]
    broken = broken_nodes(data)
    body += [
        cross(float(layout.x[rank]), float(layout.y[rank]), max(4.0, side), mark.step)
        for rank, mark in list(broken.items())[:400]
    ]
    due = _due(data, full)
    done = (shares[:, due] >= 1).sum(axis=1).tolist()
    frames.texts += [f"{count:,} of {count_of(int(due.sum()), 'node')} done" for count in done]
    script: dict[str, object] = {
        "kind": "levels",
        "whole": f"{count_of(steps, 'step')}; {frames.texts[-1]}",
        "names": frames.names,
        "texts": frames.texts,
        "first": frames.first,
        "last": frames.last,
        "squares": squares,
        "levels": ["".join(map(str, row)) for row in levels.tolist()],
    }
    legend = _large_legend(data, width, size, broken, None, pies=True)
    return NetworkMap(_svg(layout, body, topology), script, legend, ramp=True, scale=("nothing", "everything"))


def _cells(
    topology: Topology, layout: Layout, finish: Ranks, state: Ranks
) -> tuple[Floats, Floats, Ranks, Ranks, float, int]:
    """Of every cell of nodes its middle, the mean step (rounded) in which they were done, their worst state; and sizes."""
    cell = cells_of(topology, layout, CELLS)
    count = int(cell.max()) + 1
    size = np.bincount(cell, minlength=count)
    has = size > 0
    served = np.bincount(cell, weights=finish > 0, minlength=count)
    mean = np.bincount(cell, weights=finish, minlength=count) / np.maximum(served, 1)
    worst = np.zeros(count, dtype=np.int64)
    np.maximum.at(worst, cell, state)
    x = np.bincount(cell, weights=layout.x, minlength=count)[has] / size[has]
    y = np.bincount(cell, weights=layout.y, minlength=count)[has] / size[has]
    done = np.where(served > 0, np.maximum(1, np.round(mean)), 0).astype(np.int64)[has]
    side = 0.8 * float(np.sqrt(1000.0 * layout.height / (3.0 * has.sum())))
    return x, y, done, worst[has], side, int(size.max())


def _squares(x: Floats, y: Floats, chosen: NDArray[np.bool_], side: float) -> str:
    a, left, top = f"{side:.1f}", (x[chosen] - side / 2).tolist(), (y[chosen] - side / 2).tolist()
    return "".join([f"M{px:.1f} {py:.1f}h{a}v{a}h-{a}z" for px, py in zip(left, top, strict=True)])


def _describe_large(frames: Frames, data: RunData, finish: Ranks, width: int, votes: Votes | None) -> None:
    due = _due(data, finish.tolist())
    finished = np.sort(finish[due & (finish > 0)])
    packets = data.steps["packets"].to_list() if data.steps is not None else []
    for last in frames.last:
        sent = sum(packets[last - width : last])
        done = int(np.searchsorted(finished, last, side="right"))
        moves = f"{count_of(sent, 'packet')}; " if packets else ""
        state = votes.sentence(last) if votes else f"{done:,} of {count_of(int(due.sum()), 'node')} done"
        frames.texts.append(f"{moves}{state}")


# Around the picture.


def _svg(layout: Layout, body: Sequence[str], topology: Topology) -> str:
    return (
        f'<svg class="map" id="map" viewBox="0 0 1000 {layout.height:.0f}" role="img" '
        f'aria-label="{escape(topology.title)}">{"".join(body)}</svg>'
    )


def _legend(data: RunData, totals: Sequence[int], width: int, nodes: Nodes) -> str:
    keys = node_keys(data, nodes.broken, nodes.votes, pies=nodes.pies, root=nodes.source is not None)
    if totals:
        keys.append(
            key("link", f"the thicker, the more segments (at most {max(totals):,} on one link in the whole run)")
        )
    if data.get("lost") != 0:
        keys.append(key("lost", "a link that lost something"))
    notes = []
    if len(nodes.labels) > NODES_WITH_WEB:
        notes.append("Idle links and arrowheads are left out.")
    if not nodes.labelled:
        notes.append("Labels are left out; point at a node to see its label.")
    if width > 1:
        notes.append(f"One position of the slider is {width} steps.")
    phone = ""
    if nodes.labelled and not nodes.labelled_on_phones:
        phone = ' <span class="small-screen">Labels are left out on small screens.</span>'
    return f'<span class="keys">{"".join(keys)}</span>{" ".join(notes)}{phone}'


def _large_legend(
    data: RunData, width: int, cell: int, broken: Mapping[int, NodeMark], votes: Votes | None, *, pies: bool = False
) -> str:
    keys = node_keys(data, broken, votes, pies=pies, root=data.get("collective") not in ALL_TO_ALL)
    if pies:
        keys[0] = "Colour of a node: how much it has of all that it is to get; brightest: everything."
    notes = [f"Links and labels are left out: the network has more than {NODES_WITH_LINKS:,} nodes."]
    if width > 1:
        notes.append(f"One position of the slider is {width} steps.")
    if cell > 1:
        what = "the worst of their votes" if votes else "their mean" if pies else "their mean step"
        notes.append(f"A square stands for up to {cell} nodes that are drawn close together and shows {what}.")
    return f'<span class="keys">{"".join(keys)}</span>{" ".join(notes)}'
