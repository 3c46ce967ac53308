"""Frames: the positions of the slider, each of one step or, in long runs, of several."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from coordinator.reports.maps.base import MapRun
from coordinator.reports.numbers import plural
from coordinator.reports.theme import viridis
from coordinator.reports.votes import lacking

MOST_FRAMES = 240
LINK_ENTRIES = 60_000
"""Busy links summed over frames: frames get longer until the page holds at most this many."""


@dataclass
class Frames:
    """The content of the map at each position of the slider."""

    first: list[int]
    """First step."""
    last: list[int]
    """Last step."""
    links: list[list[int]]
    """Busy links, by their index on the page."""
    loads: list[list[int]]
    """Segments on each of the busy links."""
    lost: list[list[int]]
    """Links that lost a packet."""
    gains: list[list[int]]
    """Rank, segments, rank, segments, .. of the nodes that received (or sent) segments."""
    texts: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The steps of each frame in words."""
        return [
            str(first) if first == last else f"{first} to {last}"
            for first, last in zip(self.first, self.last, strict=True)
        ]

    @property
    def colours(self) -> list[str]:
        """The colour of each frame, dark to bright."""
        count = len(self.first)
        return [viridis(at / (count - 1) if count > 1 else 0.6) for at in range(count)]

    def script(self) -> dict[str, object]:
        """The data of the script for any kind of map."""
        return {"names": self.names, "texts": self.texts, "first": self.first, "last": self.last}


def empty_frames(steps: int, width: int) -> Frames:
    """Frames of `width` steps without links."""
    firsts = list(range(1, steps + 1, width))
    lasts = [min(steps, first + width - 1) for first in firsts]
    links, loads, lost, gains = ([list[int]() for _ in firsts] for _ in range(4))
    return Frames(firsts, lasts, links, loads, lost, gains)


def link_frames(run: MapRun, used: Mapping[tuple[int, int], int], width: int) -> Frames:
    """Frames with their busy links and gains; `used` gives the index of a link by sender and port.

    Without a journal, the gain of a node is that it is done.
    """
    frames = empty_frames(run.steps, width)
    if run.hops is None:
        for rank, step in enumerate(run.finish.tolist()):
            if 0 < step <= run.steps:
                frames.gains[(step - 1) // width] += (rank, 1)
    if run.hops is None or not frames.first:
        return frames
    by_frame = run.hops.with_columns(frame=(pl.col("step") - 1) // width)
    busy = by_frame.group_by("frame", "sender", "port").agg(pl.col("segments").sum(), pl.col("lost").sum())
    for frame, sender, port, segments, lost in busy.sort("frame", "sender", "port").iter_rows():
        link = used[sender, port]
        frames.links[frame].append(link)
        frames.loads[frame].append(segments)
        if lost:
            frames.lost[frame].append(link)
    end, what = ("sender", "segments") if run.giving else ("receiver", "first")
    moved = by_frame.filter(pl.col(what) > 0)
    gains = moved.group_by("frame", rank=end).agg(pl.col(what).sum()).sort("frame", "rank")
    for frame, rank, segments in gains.iter_rows():
        frames.gains[frame] += (rank, segments)
    return frames


def link_frame_width(hops: pl.DataFrame | None, steps: int) -> int:
    """Steps per frame that keep both the frames and their busy links few enough."""
    width = max(1, -(-steps // MOST_FRAMES))
    while hops is not None and width < steps and _busy_links(hops, width) > LINK_ENTRIES:
        width *= 2
    return width


def _busy_links(hops: pl.DataFrame, width: int) -> int:
    return hops.select(((pl.col("step") - 1) // width).alias("frame"), "sender", "port").n_unique()


def texts_of_tables(run: MapRun, frames: Frames) -> list[str]:
    """By frame, the packets in it and the nodes that are done after it, from the tables of the run."""
    finish, missing = run.finish, lacking(run.data)
    due = run.due(finish.tolist())
    complete = due & (finish > 0) & (True if missing is None else ~missing)
    done = np.sort(finish[complete])
    packets = run.data.steps["packets"].to_list() if run.data.steps is not None else []
    texts = []
    for first, last in zip(frames.first, frames.last, strict=True):
        words = [plural(sum(packets[first - 1 : last]), "packet")] if packets else []
        # Only the journal says when nodes sent what they give.
        if run.hops is not None or not run.giving:
            words.append(run.done(int(np.searchsorted(done, last, side="right")), int(due.sum()), last))
        texts.append("; ".join(words))
    return texts
