"""The data of the panels of a report."""

from collections.abc import Callable
from functools import cached_property

import polars as pl
from markupsafe import Markup

from coordinator.reports.data import RunData
from coordinator.reports.fault_table import fault_table
from coordinator.reports.interactive.node_data import NodeData, node_data
from coordinator.reports.maps.base import NetworkMap
from coordinator.reports.network_svg import network_map
from coordinator.reports.scene.nodes import ALL_TO_ALL
from coordinator.reports.scene.packets import packets_of
from coordinator.reports.scene.scene import Scene
from coordinator.reports.scene.votes import votes_of

ROWS_AT_ONCE = 2_000_000
"""Longer journals are read by `coordinator report` only, not at the end of a run."""


class Report:
    """A run, and the data that several panels need."""

    def __init__(self, data: RunData, *, thorough: bool = True) -> None:
        self.data = data
        self.hops = _packets(data, thorough)
        self.votes = None if self.hops is None else votes_of(data)

    @cached_property
    def scene(self) -> Scene | None:
        """The scene that all pictures of the network show; None if the network is unknown."""
        topology = self.data.topology
        return None if topology is None else Scene(self.data, topology, self.hops, self.votes)

    @cached_property
    def picture(self) -> NetworkMap | None:
        """The drawing of the network; the script of the page needs it too."""
        return None if self.scene is None else network_map(self.scene)

    @cached_property
    def nodes(self) -> NodeData | None:
        """The data for questions about single nodes; None without a drawing and for networks that are too large."""
        if self.picture is None:
            return None
        return node_data(self.data, self.picture.layout, None if self.hops is None else len(self.hops))

    @cached_property
    def fault_rows(self) -> list[dict[str, str]]:
        """The faults in words, for their panel and for questions about single nodes."""
        return fault_table(self.data)

    @property
    def fault_steps(self) -> list[int]:
        """The steps when faults begin."""
        return [fault["step"] for fault in self.data.faults if isinstance(fault.get("step"), int)]

    @property
    def directed_links(self) -> int:
        """Directed links of the network; 0 if it is unknown."""
        return 2 * self.data.topology.link_count if self.data.topology else 0


DrawPanel = Callable[[Report], Markup | None]
"""Draws one section of the page, or returns None if there is nothing to show."""


def _packets(data: RunData, thorough: bool) -> pl.DataFrame | None:
    """Return one row per packet (`packets_of`); None if the journal is missing, damaged, or too long for a quick
    report.
    """
    if data.hops is None:
        return None
    try:
        rows = data.get("journal_rows") or data.hops.select(pl.len()).collect().item()
        if not thorough and rows > ROWS_AT_ONCE:
            data.notes.append(
                f"the journal has {rows:,} rows, so this report omits figures counted from it; "
                "`coordinator report` adds them"
            )
            return None
        # In all-to-all collectives nothing is due from a faulty node.
        due = None
        if data.nodes is not None and data.get("collective") in ALL_TO_ALL:
            due = ~pl.col("origin").is_in(data.nodes.filter(pl.col("state") != "alive")["rank"].to_list())
        return packets_of(data.hops, due)
    except (OSError, pl.exceptions.PolarsError) as error:
        data.notes.append(f"journal.parquet cannot be read: {str(error).splitlines()[0][:200]}")
        data.journal = None
        return None
