"""Pickles of networks and runs: names and plain tables, since topologies and algorithms hold caches and functions."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from coordinator.scenario.network_files import network_document, network_from
from coordinator.scenario.networks import hold_network
from coordinator.scenario.plugins import loaded_plugins
from emunode.model import Plugin
from emunode.plugins import load_received
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.topologies.table import TableTopology

KeptTopology: TypeAlias = str | dict[str, Any]
"""The name of a network, or the whole of a network from a file."""


def keep_topology(topology: Topology) -> KeptTopology:
    """Return the values that a topology can be made from again."""
    if not isinstance(topology, TableTopology):
        return topology.name
    return network_document(topology)


def restore_topology(kept: KeptTopology) -> Topology:
    """Return the topology that was kept; this process then knows a topology from a file by its name and digest."""
    if isinstance(kept, str):
        return parse_topology(kept)
    topology = network_from(kept)
    hold_network(topology)
    return topology


def kept_plugins(entries: Sequence[str]) -> tuple[Plugin, ...]:
    """Return the plug-ins of entries with their texts."""
    return loaded_plugins(entries, all_of_them=True)


def load_kept_plugins(plugins: Sequence[Plugin]) -> None:
    """Execute plug-ins that were kept, unless this process has them. Raises ScenarioError (field `plugin`)."""
    for plugin in plugins:
        load_received(plugin)
