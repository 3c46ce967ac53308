"""Pages of a run as objects: its report, one panel alone, and its cell of a notebook."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import unescape
from typing import Final

from coordinator.reports.data import RunData
from coordinator.reports.layout import WIDTH, layout_of
from coordinator.reports.panels.base import DrawPanel, Report
from coordinator.reports.panels.network import network_panel
from coordinator.reports.panels.registry import PANELS
from coordinator.reports.panels.summary import claims_panel
from coordinator.reports.pictures import Page, Picture, frame
from coordinator.reports.run_report import render
from coordinator.reports.theme import standalone
from emunode.errors import ScenarioError

# Charts have a second form for small screens, with the same content.
CHART: Final = re.compile(r'<svg class="chart(?! narrow)[^"]*"[^>]*aria-label="([^"]*)".*?</svg>', re.DOTALL)
CLAIM_PIXELS: Final = 44
"""Height of a row of the table of claims."""
PAGE_PIXELS: Final = 360
PAGE_WIDTH: Final = 900
"""Height of the parts of a cell around the network and the claims; width of a cell of a notebook, roughly."""


@dataclass(frozen=True, repr=False)
class Panel(Page):
    """A panel of a report as a page of its own, with its charts."""

    pictures: Sequence[Picture] = ()
    """The charts of the panel as SVG documents; empty for panels of text, tables or the map."""

    def __repr__(self) -> str:
        return f"<panel {self.title!r}, {len(self.pictures)} pictures>"


def report_page(data: RunData) -> Page:
    """Draw the report of a run."""
    return Page(render(data), f"{data.name}: report")


def notebook_cell(data: RunData, title: str) -> str:
    """Draw the network and the claims of a run for a cell of a notebook."""
    page = render(data, thorough=False, panels=(network_panel, claims_panel))
    height = PAGE_PIXELS + CLAIM_PIXELS * len(data.summary.get("claims") or ())
    if data.topology is not None:
        height += round(PAGE_WIDTH * layout_of(data.topology).height / WIDTH)
    return frame(page, title, height)


def panel_page(data: RunData, name: str) -> Panel:
    """Draw one panel of a run. Raises ScenarioError (field `panel`) for unknown names, or if nothing is to be shown."""
    draw = _drawers().get(str(name).replace("_", "-"))
    if draw is None:
        raise ScenarioError("panel", name, f"expected one of: {', '.join(_drawers())}")
    section = draw(Report(data))
    if section is None:
        raise ScenarioError(
            "panel", name, f"it has nothing to show of this run; there is: {', '.join(shown_panels(data))}"
        )
    pictures = [Picture(standalone(each.group()), unescape(each.group(1))) for each in CHART.finditer(section)]
    return Panel(render(data, panels=(draw,)), f"{data.name}: {name}", pictures=pictures)


def shown_panels(data: RunData) -> list[str]:
    """Return the names of the panels that have something to show of a run, in the order of the report."""
    report = Report(data)
    return [name for name, draw in _drawers().items() if draw(report) is not None]


def _drawers() -> dict[str, DrawPanel]:
    """Return the panels by name; plug-ins and programs may have added some."""
    return {draw.__name__.removesuffix("_panel").replace("_", "-"): draw for draw in PANELS}
