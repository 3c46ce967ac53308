"""Pages, charts, tables and exports, made from run directories.

Most runs draw nothing, so what runs and what may draw meet in one map: a drawing is imported when it is asked for.
"""

from collections.abc import Mapping
from typing import Any, Final

from emunode.annexes import load

DRAWINGS: Final[Mapping[str, str]] = {
    "report.html": "coordinator.reports.run_report:write_report",
    "index.html": "coordinator.reports.index_page:index_page",
    "network": "coordinator.reports.network_picture:draw_network",
    "report": "coordinator.reports.run_pages:report_page",
    "cell": "coordinator.reports.run_pages:notebook_cell",
    "panel": "coordinator.reports.run_pages:panel_page",
    "panels": "coordinator.reports.run_pages:shown_panels",
}
"""The function of each drawing of a run or a network, by the name that runs ask for."""


def drawing(name: str) -> Any:
    """Return the function that makes a drawing."""
    return load(DRAWINGS[name])
