"""Networks from files and from networkx graphs.

Ranks are in the order of the file. A network is an undirected simple connected graph: what a file says against that is
refused, never repaired. Attributes of nodes and links (rates, delays, racks) are data and never change the structure.
"""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from coordinator.scenario.declared_network import DeclaredNetwork
from coordinator.scenario.network_json import MAX_BYTES, is_network_document, network_from
from coordinator.scenario.network_readers import READERS, declared, load_json
from coordinator.stored.reading import read_bytes
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.table import TableTopology

if TYPE_CHECKING:
    import networkx

MAX_NAME: Final = 60


def is_network_file(text: str) -> bool:
    """Whether `text`, which a user gave as a topology, is a file by its suffix."""
    return Path(text).suffix.lower() in READERS


def read_network(path: Path, *, relabel: bool = False) -> TableTopology:
    """The network in a file whose suffix tells its format; `relabel` calls every node by its rank.

    A `network.json` of a run directory is read too. Raises ScenarioError (field `topology`).
    """
    reader = READERS.get(path.suffix.lower())
    try:
        if reader is None:
            raise ValueError(f"unknown suffix {path.suffix!r}; the known ones are {' '.join(READERS)}")
        data = _bytes_of(path)
        if path.suffix.lower() == ".json" and is_network_document(document := load_json(data)):
            return network_from(document)
        return reader(data).topology(network_name(path.stem), relabel=relabel)
    except ValueError as error:
        raise ScenarioError("topology", str(path), str(error)) from None
    except ScenarioError as error:
        raise ScenarioError("topology", str(path), error.allowed) from None


def from_networkx(graph: "networkx.Graph[Any]", name: str | None = None, *, relabel: bool = False) -> TableTopology:
    """The network of a networkx graph; nodes are labelled by their text. Raises ScenarioError (field `topology`)."""
    name = network_name(name or str(graph.name))
    try:
        network: DeclaredNetwork = declared(graph)
        return network.topology(name, relabel=relabel)
    except ValueError as error:
        raise ScenarioError("topology", f"{TableTopology.family}:{name}", str(error)) from None


def to_networkx(topology: Topology) -> "networkx.Graph[str]":
    """Return the network as a graph of its labels, with ranks, switches, ports and the attributes of a file."""
    import networkx  # noqa: PLC0415  # most readers do without

    nodes = topology.node_attributes if isinstance(topology, TableTopology) else {}
    links = topology.link_attributes if isinstance(topology, TableTopology) else {}
    label = topology.label
    graph: networkx.Graph[str] = networkx.Graph(name=topology.name.removeprefix(f"{TableTopology.family}:"))
    for rank in topology.ranks():
        switch = {"switch": True} if topology.is_switch(rank) else {}
        graph.add_node(label(rank), **{**nodes.get(rank, {}), "rank": rank, **switch})
    for one, port, other, its_port in topology.links():
        graph.add_edge(label(one), label(other), **{**links.get((one, other), {}), "ports": (port, its_port)})
    return graph


def network_name(stem: str) -> str:
    """The name of a file without folder and suffix, of the characters that a run may have in its name."""
    return re.sub(r"[^A-Za-z0-9._+^-]+", "-", stem).strip("-.")[:MAX_NAME] or "network"


def _bytes_of(path: Path) -> bytes:
    try:
        return read_bytes(path, MAX_BYTES)
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from None
