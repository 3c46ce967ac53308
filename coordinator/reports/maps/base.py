"""Drawing, script and legend of both kinds of maps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from coordinator.reports.layout import Layout, has_layout
from coordinator.reports.maps.marks import LegendEntry
from coordinator.reports.scene.scene import Positions, Scene
from emunode.terminal import plural


@dataclass
class NetworkMap:
    """The drawing, the data of its script, and its legend."""

    scene: Scene
    layout: Layout
    body: Callable[[int | None], Sequence[str]]
    """The content of the drawing at a position of the slider, from 0, or for the whole run."""
    script: dict[str, object]
    keys: Sequence[LegendEntry]
    """The legend of symbols."""
    legend: str
    """The legend with notes, as HTML."""
    ramp: bool
    """Whether colours stand for a scale."""
    scale: tuple[str, str] | None = None
    """Names of the ends of the scale; None: the first and the last step."""

    @property
    def svg(self) -> str:
        """The drawing of the whole run; the script of a page changes it."""
        return (
            f'<svg class="map" id="map" viewBox="0 0 1000 {self.layout.height:.0f}" role="img" '
            f'aria-label="{escape(self.scene.topology.title)}">{"".join(self.body(None))}</svg>'
        )

    @property
    def frames(self) -> int:
        """Positions of the slider."""
        names = self.script["names"]
        return len(names) if isinstance(names, list) else 0


def map_script(positions: Positions, texts: Sequence[str]) -> dict[str, object]:
    """Return the data of the script for any kind of map."""
    return {"names": positions.names, "texts": list(texts), "first": positions.first, "last": positions.last}


def map_legend(scene: Scene, keys: Sequence[LegendEntry], omitted: Sequence[str], width: int, *more: str) -> str:
    """Render keys and notes as HTML; `width` is the number of steps in one position of the slider."""
    notes = list(omitted)
    if not has_layout(scene.topology):
        family = escape(scene.topology.family)
        notes.insert(0, f"The family {family} has no layout of its own: positions are computed from the links.")
    if width > 1:
        notes.append(f"One position of the slider covers {width} steps.")
    return f'<span class="keys">{"".join(each.html for each in keys)}</span>{" ".join([*notes, *more])}'


def texts_of_tables(scene: Scene, positions: Positions) -> list[str]:
    """Write for each position the packets in it and the nodes that are done after it, from the tables of the run."""
    finish, missing = scene.finish, scene.lacking
    due = scene.due(finish.tolist())
    complete = due & (finish > 0) & (True if missing is None else ~missing)
    done = np.sort(finish[complete])
    packets = scene.data.steps["packets"].to_list() if scene.data.steps is not None else []
    texts = []
    for first, last in zip(positions.first, positions.last, strict=True):
        words = [plural(sum(packets[first - 1 : last]), "packet")] if packets else []
        # Only the journal says when nodes sent their own segments.
        if scene.packets is not None or not scene.giving:
            words.append(scene.done(int(np.searchsorted(done, last, side="right")), int(due.sum()), last))
        texts.append("; ".join(words))
    return texts
