"""The map of a small network: every node is a circle and every used link a path.

The script shows a step by joining the paths of its links into the same handful of elements that show the whole run. It takes
the paths from these elements, one a line, so that the page holds each path once. Links are numbered in the same order.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.reports.interactive.packing import pack
from coordinator.reports.layout import Layout, shapes_of
from coordinator.reports.link_paths import link_paths
from coordinator.reports.maps.base import MapRun, NetworkMap
from coordinator.reports.maps.frames import Frames, link_frame_width, link_frames, texts_of_tables
from coordinator.reports.maps.marks import STATE_COLOURS, key, node_keys
from coordinator.reports.maps.nodes import Nodes
from coordinator.reports.numbers import plural
from coordinator.reports.votes import State, Votes

NODES_WITH_LINKS = 1_050
"""Q_10 is drawn link by link; the next larger networks are not."""
NODES_WITH_IDLE_LINKS = 420
"""In larger networks, idle links would be a grey area."""
NODES_WITH_ARROWS = 420
LINE = "\n"
"""Between two paths of one element."""
MANY_LINKS = 1_500
"""From this number on, links are translucent."""


def draw(run: MapRun) -> NetworkMap:
    """The map, and for its script the links and gains of every frame."""
    links = _used_links(run)
    used = {link: at for at, link in enumerate(zip(links["sender"].to_list(), links["port"].to_list(), strict=True))}
    paths, heads = _drawn(run, links)
    totals = links["segments"].to_list()
    width = link_frame_width(run.hops, run.steps)
    frames = link_frames(run, used, width)
    gained = [0] * run.order
    for gains in frames.gains:
        for rank, segments in zip(gains[::2], gains[1::2], strict=True):
            gained[rank] += segments
    full = run.full(gained) if run.votes is None else run.votes.segments_due
    due = run.due(gained)
    frames.texts += texts_of_tables(run, frames) if run.hops is None else _texts(run, frames, full, due)
    nodes = Nodes(run, gained, full)
    body = [_idle_links(run), *_flow(paths, heads, totals, run.layout), _lost(frames, paths, run.layout)]
    script: dict[str, object] = {
        "kind": "links",
        "whole": _whole_run(run, len(used), sum(totals)),
        "senders": pack(links["sender"]),
        "ports": pack(links["port"]),
        **frames.script(),
        "colours": frames.colours,
        "links": list(map(pack, frames.links)),
        "loads": list(map(pack, frames.loads)),
        "lost": list(map(pack, frames.lost)),
        "gains": list(map(pack, frames.gains)),
        "full": full,
        "fixed": nodes.fixed,
        "pies": nodes.pies,
        "votes": _vote_frames(run.votes, width, len(frames.first)) if run.votes else None,
    }
    legend = _legend(run, max(totals, default=0), width, nodes)
    return NetworkMap(run.svg([*body, *nodes.draw(frames)]), script, legend, run.layout, ramp=run.votes is None)


def _whole_run(run: MapRun, links: int, segments: int) -> str:
    if run.hops is None:
        return plural(run.steps, "step")
    carry = "carries" if links == 1 else "carry"
    ended = f"; {run.votes.sentence()}" if run.votes else ""
    return (
        f"{plural(links, 'directed link')} of {2 * run.topology.link_count:,} {carry} {plural(segments, 'segment')} "
        f"in {plural(run.steps, 'step')}{ended}"
    )


def _vote_frames(votes: Votes, width: int, count: int) -> dict[str, object]:
    """The votes for the script: by node, its state and the frames of its first and last copy (-1: never), and gains."""
    heard, settled = (
        (np.where(steps > 0, (steps - 1) // width, -1)).tolist() for steps in (votes.heard, votes.settled)
    )
    gains: list[list[int]] = [[] for _ in range(count)]
    for step, state, rank, segments in votes.segments.select("settled", "state", "rank", "count").iter_rows():
        gains[(step - 1) // width] += (rank, state, segments)
    return {
        "state": votes.state.tolist(),
        "heard": heard,
        "settled": settled,
        "colours": [STATE_COLOURS.get(state, "") for state in State],
        "gains": gains,
    }


def _texts(run: MapRun, frames: Frames, full: Sequence[int], due: NDArray[np.bool_]) -> list[str]:
    """A sentence per frame: what moves in it, and how many nodes are done after it."""
    texts = []
    have, done, all_due = [0] * len(due), 0, int(due.sum())
    for last, gains, links, loads, lost in zip(
        frames.last, frames.gains, frames.links, frames.loads, frames.lost, strict=True
    ):
        for rank, segments in zip(gains[::2], gains[1::2], strict=True):
            before = have[rank]
            have[rank] += segments
            done += bool(due[rank]) and before < full[rank] <= have[rank]
        gone = f", and {plural(len(lost), 'link')} {'loses' if len(lost) == 1 else 'lose'} some" if lost else ""
        sent = f"{plural(sum(loads), 'segment')} {'is' if sum(loads) == 1 else 'are'} sent"
        moves = f"{sent} over {plural(len(links), 'link')}{gone}; " if links else ""
        texts.append(f"{moves}{run.done(done, all_due, last)}")
    return texts


def _used_links(run: MapRun) -> pl.DataFrame:
    """The used links with their segments in the whole run, ordered by width class, sender and port."""
    if run.hops is None:
        return pl.DataFrame(schema=dict.fromkeys(("sender", "port", "receiver", "segments"), pl.Int64))
    ends = pl.col("sender", "port", "receiver").cast(pl.Int64)
    links = run.hops.group_by(ends).agg(pl.col("segments").sum()).sort("sender", "port")
    most = int(links["segments"].max() or 0)  # type: ignore[arg-type]
    classes = pl.Series("class", [width_class(segments, most) for segments in links["segments"].to_list()], pl.Int8)
    return links.with_columns(classes).sort("class", maintain_order=True)


def _drawn(run: MapRun, links: pl.DataFrame) -> tuple[list[str], list[str]]:
    """The line of each link, and its arrowhead."""
    senders, ports, receivers = (links[name].to_numpy() for name in ("sender", "port", "receiver"))
    lines, heads = link_paths(run.layout, shapes_of(run.topology, senders, ports, receivers), senders, receivers)
    return lines, heads if run.order <= NODES_WITH_ARROWS else []


def _idle_links(run: MapRun) -> str:
    """Every link, faintly."""
    if run.order > NODES_WITH_IDLE_LINKS:
        return ""
    links = np.array([(rank, port, other) for rank, port, other, _ in run.topology.links()], dtype=np.int64)
    senders, ports, receivers = links.T
    lines, _ = link_paths(run.layout, shapes_of(run.topology, senders, ports, receivers), senders, receivers)
    return f'<path class="web" stroke-width="{max(0.5, 0.05 * run.layout.radius):.2f}" d="{"".join(lines)}"/>'


def _flow(paths: Sequence[str], heads: Sequence[str], totals: Sequence[int], layout: Layout) -> list[str]:
    """Used links in three widths by their load."""
    by_width: list[list[str]] = [[], [], []]
    most = max(totals, default=0)
    for path, total in zip(paths, totals, strict=True):
        by_width[width_class(total, most)].append(path)
    unit = max(0.55, min(2.6, 0.12 * layout.radius))
    faint = ' stroke-opacity="0.5"' if len(paths) > MANY_LINKS else ""
    flows = [
        f'<path class="flow" id="flow{at}"{faint} stroke-width="{unit * wide:.2f}" d="{LINE.join(lines)}"/>'
        for at, (lines, wide) in enumerate(zip(by_width, (0.7, 1.4, 2.4), strict=True))
    ]
    return [*flows, f'<path class="head" id="heads" d="{LINE.join(heads)}"/>']


def width_class(load: int, most: int) -> int:
    """0, 1 or 2 for a load in the lower, middle or upper third up to `most`; 1 if no link carries more than one."""
    return 1 if most <= 1 else min(2, -(-3 * load // most) - 1)


def _lost(frames: Frames, paths: Sequence[str], layout: Layout) -> str:
    links = sorted({link for lost in frames.lost for link in lost})
    wide = max(0.8, 0.14 * layout.radius)
    return f'<path class="gone" id="lost" stroke-width="{wide:.2f}" d="{"".join(paths[link] for link in links)}"/>'


def _legend(run: MapRun, most: int, width: int, nodes: Nodes) -> str:
    keys = node_keys(run.data, run.broken, run.votes, pies=nodes.pies, root=run.source is not None)
    if most:
        keys.append(key("link", f"thicker links carry more segments (at most {most:,} on one link in the whole run)"))
    if run.data.get("lost") != 0:
        keys.append(key("lost", "a link that lost packets"))
    omitted = []
    if run.order > NODES_WITH_IDLE_LINKS:
        omitted.append("Idle links and arrowheads are omitted.")
    if not nodes.labelled:
        omitted.append("Labels are omitted; point at a node to see its label.")
    phone = []
    if nodes.labelled and not nodes.labelled_on_phones:
        phone.append('<span class="small-screen">Labels are omitted on small screens.</span>')
    return run.legend(keys, omitted, width, *phone)
