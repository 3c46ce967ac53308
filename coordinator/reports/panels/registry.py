"""The panels of a report in page order. To add one, write a function `Report -> Markup | None` and list it here."""

from typing import Final

from coordinator.annexes import merged
from coordinator.reports.panels.agreement import agreement_panel
from coordinator.reports.panels.base import DrawPanel
from coordinator.reports.panels.delivery_times import delivery_times_panel
from coordinator.reports.panels.faults import cut_off_panel, faults_panel
from coordinator.reports.panels.links import links_panel
from coordinator.reports.panels.network import network_panel
from coordinator.reports.panels.steps import steps_panel
from coordinator.reports.panels.summary import claims_panel, details_panel, tiles_panel
from coordinator.reports.panels.traffic import traffic_panel
from emunode.annexes import load

CORE: Final[tuple[DrawPanel, ...]] = (
    tiles_panel,
    network_panel,
    claims_panel,
    faults_panel,
    cut_off_panel,
    agreement_panel,
    steps_panel,
    delivery_times_panel,
    links_panel,
    traffic_panel,
    details_panel,
)
_added = {follows: load(target) for follows, target in merged("panels").items()}
PANELS: list[DrawPanel] = [panel for each in CORE for panel in (each, _added.get(each.__name__)) if panel]
