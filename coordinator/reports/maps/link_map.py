"""The map of a small network: every node is a circle and every used link a path.

The script shows a step by joining the paths of its links into the same handful of elements that show the whole run. It takes
the paths from these elements, one a line, so that the page holds each path once. Links are numbered in the same order.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
import polars as pl

from coordinator.reports.computed_layout import Ranks
from coordinator.reports.interactive.packing import pack
from coordinator.reports.layout import Layout, shapes_of
from coordinator.reports.link_paths import link_paths
from coordinator.reports.maps.base import NetworkMap, map_legend, map_script, texts_of_tables
from coordinator.reports.maps.marks import VOTE_COLOURS, LegendEntry, node_keys
from coordinator.reports.maps.nodes import Nodes
from coordinator.reports.scene.scene import Scene
from emunode.terminal import plural

NODES_WITH_LINKS = 1_050
"""Q_10 is drawn link by link; the next larger networks are not."""
NODES_WITH_IDLE_LINKS = 420
"""In larger networks, idle links would be a grey area."""
NODES_WITH_ARROWS = 420
LINE = "\n"
"""Between two paths of one element."""
FAINT = ((1_500, 0.35), (300, 0.6))
"""Opacities of links in maps with more links than a number: lines behind others stay visible."""
WIDTHS = (0.7, 1.4, 2.4)


def draw(scene: Scene, layout: Layout) -> NetworkMap:
    """Draw the map, and return with it the links and gains of every frame for its script."""
    links, nodes, marks, positions = Links(scene, layout), Nodes(scene, layout), scene.marks, scene.positions
    due = scene.due(scene.gained)
    texts = texts_of_tables(scene, positions) if scene.packets is None else _texts(scene, due)
    frames, busy = positions.count, links.numbered(marks.links)
    script: dict[str, object] = {
        "kind": "links",
        "whole": _whole_run(scene, links),
        "senders": pack(links.table["sender"]),
        "ports": pack(links.table["port"]),
        **map_script(positions, texts),
        "colours": positions.colours,
        "links": _packed(busy, ["link"], frames),
        "loads": _packed(busy, ["segments"], frames),
        "lost": _packed(busy.filter(pl.col("lost") > 0), ["link"], frames),
        "forged": _packed(busy.filter(pl.col("altered") > 0), ["link"], frames),
        "withheld": _packed(links.numbered(marks.withheld, links.withheld), ["link"], frames),
        "gains": _packed(marks.gains, ["rank", "segments"], frames),
        "full": scene.full,
        "fixed": nodes.fixed,
        "pies": nodes.pies,
        "votes": None,
    }
    if scene.votes is not None:
        script["votes"] = {
            "heard": _packed(marks.heard, ["rank", "segments"], frames),
            "settled": _packed(marks.votes, ["rank", "state", "segments"], frames),
            "colours": list(VOTE_COLOURS.values()),
        }

    def body(at: int | None) -> list[str]:
        return [*links.draw(at), *nodes.draw(at)]

    keys = _keys(scene, links, nodes)
    return NetworkMap(scene, layout, body, script, keys, _legend(scene, keys, nodes), ramp=scene.votes is None)


def _packed(table: pl.DataFrame, columns: Sequence[str], frames: int) -> list[str]:
    """Return for each frame the values of these columns, row by row."""
    ends = np.searchsorted(table["frame"].to_numpy(), np.arange(frames + 1))
    values = np.stack([table[name].to_numpy() for name in columns], axis=1)
    return [pack(values[low:high]) for low, high in pairwise(ends.tolist())]


class Links:
    """The used links of a run, numbered in the order of their paths in the map: by width, sender and port."""

    def __init__(self, scene: Scene, layout: Layout) -> None:
        self.scene, self.layout = scene, layout
        used = scene.marks.links.lazy().group_by("sender", "port", "receiver")
        totals = used.agg(pl.col("segments", "lost", "altered").sum()).sort("sender", "port").collect()
        self.most = _most(totals)
        """Segments on the busiest link in the whole run."""
        self.most_in_frame = _most(scene.marks.links)
        loads = totals["segments"].to_list()
        classes = [width_class(load, self.most) for load in loads]
        if classes and min(classes) == len(WIDTHS) - 1:
            classes = [1] * len(loads)  # equal loads: thick lines would say nothing, and hide one another
        self.table = totals.with_columns(pl.Series("class", classes, pl.Int8)).sort("class", maintain_order=True)
        withheld = scene.marks.withheld.lazy().select("sender", "port", "receiver")
        self.withheld = withheld.unique().sort("sender", "port").collect()
        self.paths, heads = self._drawn(self.table)
        self.heads = heads if scene.order <= NODES_WITH_ARROWS else []

    def numbered(self, links: pl.DataFrame, among: pl.DataFrame | None = None) -> pl.DataFrame:
        """Return the links with their numbers, by default as used links, in the given order."""
        degree = self.scene.topology.degree

        def place(table: pl.DataFrame) -> Ranks:
            return np.asarray(table["sender"].to_numpy().astype(np.int64) * degree + table["port"].to_numpy())

        numbers = np.full(self.scene.order * degree, -1, dtype=np.int64)
        known = place(self.table if among is None else among)
        numbers[known] = np.arange(len(known))
        return links.with_columns(link=numbers[place(links)])

    def _drawn(self, links: pl.DataFrame) -> tuple[list[str], list[str]]:
        """Draw the line of each link, and its arrowhead."""
        return _paths(self.scene, self.layout, *(links[name].to_numpy() for name in ("sender", "port", "receiver")))

    @cached_property
    def stops(self) -> list[str]:
        """A circle at the sender of each link with withheld packets."""
        radius, size = self.layout.radius, max(2.0, 0.22 * self.layout.radius)
        circles = []
        for sender, receiver in self.withheld.select("sender", "receiver").iter_rows():
            x, y = float(self.layout.x[sender]), float(self.layout.y[sender])
            dx, dy = float(self.layout.x[receiver]) - x, float(self.layout.y[receiver]) - y
            away = (radius + 1.4 * size) / (float(np.hypot(dx, dy)) or 1.0)
            arcs = f"a{size:.1f} {size:.1f} 0 1 0 {2 * size:.1f} 0a{size:.1f} {size:.1f} 0 1 0 {-2 * size:.1f} 0"
            circles.append(f"M{x + dx * away - size:.1f} {y + dy * away:.1f}{arcs}")
        return circles

    def draw(self, at: int | None) -> list[str]:
        """Draw the links in a frame, or in the whole run: idle, busy in three widths by their load, forging, and losing
        ones.
        """
        if at is None:
            table, stops, classes = self.table, self.stops, self.table["class"].to_list()
            shown = np.arange(len(table))
        else:
            marks, most = self.scene.marks, self.most_in_frame
            table = self.numbered(marks.links.filter(pl.col("frame") == at)).sort("link")
            shown = table["link"].to_numpy()
            classes = [width_class(load, most) for load in table["segments"].to_list()]
            stops = self.stops and [
                self.stops[link]
                for link in self.numbered(marks.withheld.filter(pl.col("frame") == at), self.withheld)["link"]
            ]
        by_width: list[list[str]] = [[] for _ in WIDTHS]
        for link, width in zip(shown.tolist(), classes, strict=True):
            by_width[width].append(self.paths[link])
        unit = max(0.55, min(2.6, 0.12 * self.layout.radius))
        faint = next((f' stroke-opacity="{opacity}"' for least, opacity in FAINT if len(self.paths) > least), "")
        flows = [
            f'<path class="flow" id="flow{width}"{faint} stroke-width="{unit * wide:.2f}" d="{LINE.join(lines)}"/>'
            for width, (lines, wide) in enumerate(zip(by_width, WIDTHS, strict=True))
        ]
        heads = [self.heads[link] for link in shown] if self.heads else []
        losing, altered = (shown[table[kind].to_numpy() > 0] for kind in ("lost", "altered"))
        lost, forged = (LINE.join(self.paths[link] for link in links) for links in (losing, altered))
        wide = max(0.8, 0.14 * self.layout.radius)
        return [
            _idle_links(self.scene, self.layout),
            *flows,
            f'<path class="head" id="heads" d="{LINE.join(heads)}"/>',
            f'<path class="forged" id="forged" stroke-width="{1.2 * wide:.2f}" d="{forged}"/>',
            f'<path class="forged-head" id="forged-heads" d="{LINE.join(self.heads[link] for link in altered)}"/>'
            if self.heads
            else "",
            f'<path class="gone" id="lost" stroke-width="{wide:.2f}" d="{lost}"/>',
            *([f'<path class="withheld" id="withheld" d="{LINE.join(stops)}"/>'] if self.stops else []),
        ]


def _most(links: pl.DataFrame) -> int:
    return int(links["segments"].max() or 0)  # type: ignore[arg-type]


def _paths(scene: Scene, layout: Layout, senders: Ranks, ports: Ranks, receivers: Ranks) -> tuple[list[str], list[str]]:
    return link_paths(layout, shapes_of(scene.topology, senders, ports, receivers), senders, receivers)


def _idle_links(scene: Scene, layout: Layout) -> str:
    """Draw every link, faintly."""
    if scene.order > NODES_WITH_IDLE_LINKS:
        return ""
    links = np.array([(rank, port, other) for rank, port, other, _ in scene.topology.links()], dtype=np.int64)
    lines, _ = _paths(scene, layout, *links.T)
    return f'<path class="web" stroke-width="{max(0.5, 0.05 * layout.radius):.2f}" d="{"".join(lines)}"/>'


def width_class(load: int, most: int) -> int:
    """Return 0, 1 or 2 for a load in the lower, middle or upper third up to `most`; 1 if no link carries more than one."""
    return 1 if most <= 1 else min(2, -(-3 * load // most) - 1)


# --- words -----------------------------------------------------------------------------------------------------------


def _whole_run(scene: Scene, links: Links) -> str:
    if scene.packets is None:
        return plural(scene.steps, "step")
    used, segments = len(links.table), int(links.table["segments"].sum())
    carry = "carries" if used == 1 else "carry"
    ended = f"; {scene.votes.sentence()}" if scene.votes else ""
    return (
        f"{plural(used, 'directed link')} of {2 * scene.topology.link_count:,} {carry} {plural(segments, 'segment')} "
        f"in {plural(scene.steps, 'step')}{ended}"
    )


def _texts(scene: Scene, due: np.ndarray) -> list[str]:
    """Write a sentence per frame: the segments that move in it, and how many nodes are done after it."""
    busy, frames = scene.marks.links, scene.positions.count
    frame, carried = busy["frame"].to_numpy(), np.zeros(frames, dtype=np.int64)
    np.add.at(carried, frame, busy["segments"].to_numpy())
    used, losing = (
        np.bincount(frame, minlength=frames),
        np.bincount(frame[busy["lost"].to_numpy() > 0], minlength=frames),
    )
    moves = list(zip(used.tolist(), carried.tolist(), losing.tolist(), strict=True))
    done = _done(scene, due)
    texts = []
    for at, last in enumerate(scene.positions.last):
        links, segments, lost = moves[at]
        gone = f", and {plural(lost, 'link')} {'loses' if lost == 1 else 'lose'} some" if lost else ""
        sent = f"{plural(segments, 'segment')} {'is' if segments == 1 else 'are'} sent"
        moved = f"{sent} over {plural(links, 'link')}{gone}; " if links else ""
        texts.append(f"{moved}{scene.done(done[at], int(due.sum()), last)}")
    return texts


def _done(scene: Scene, due: np.ndarray) -> list[int]:
    """Count for each frame the nodes that have everything due to them after it."""
    gains, full = scene.marks.gains, np.asarray(scene.full, dtype=np.int64)
    by_rank = np.argsort(gains["rank"].to_numpy(), kind="stable")
    frame, rank, segments = (gains[name].to_numpy()[by_rank] for name in ("frame", "rank", "segments"))
    total = np.cumsum(segments)
    # The total before the first row of each rank belongs to other ranks and is subtracted.
    first = np.searchsorted(rank, rank)
    have = total - (total - segments)[first]
    complete = due[rank] & (full[rank] > 0) & (have >= full[rank])
    # Rows of a rank ascend by frame, and `unique` returns the first row of each rank.
    _, earliest = np.unique(rank[complete], return_index=True)
    reached: list[int] = np.bincount(frame[complete][earliest], minlength=scene.positions.count).cumsum().tolist()
    return reached


def _keys(scene: Scene, links: Links, nodes: Nodes) -> list[LegendEntry]:
    keys = node_keys(scene, pies=nodes.pies)
    if links.most:
        keys.append(
            LegendEntry(
                "link", f"thicker links carry more segments (at most {links.most:,} on one link in the whole run)"
            )
        )
    if links.table["altered"].sum():
        keys.append(LegendEntry("forged", "a link that carried altered segments"))
    if scene.data.get("lost") != 0:
        keys.append(LegendEntry("lost", "a link that lost packets"))
    if len(links.withheld):
        keys.append(LegendEntry("withheld", "a node that withheld a packet from a neighbour that it suspected"))
    return keys


def _legend(scene: Scene, keys: Sequence[LegendEntry], nodes: Nodes) -> str:
    omitted = []
    if scene.order > NODES_WITH_IDLE_LINKS:
        omitted.append("Idle links and arrowheads are omitted.")
    if not nodes.labelled:
        omitted.append("Labels are omitted; point at a node to see its label.")
    phone = []
    if nodes.labelled and not nodes.labelled_on_phones:
        phone.append('<span class="small-screen">Labels are omitted on small screens.</span>')
    return map_legend(scene, keys, omitted, scene.positions.width, *phone)
