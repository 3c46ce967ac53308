"""Networks from files and from networkx graphs.

Ranks are in the order of the file. A network is an undirected simple connected graph: a file that contradicts this is
refused, never repaired. Parallel links are merged if the user asks for it. Attributes of nodes and links (rates, delays,
racks) are data and never change the structure.

`network.json` holds the network of a run that has no name in any family, in one canonical form:

    {"format": "network 1", "name": .., "sha256": .., "labels": [..], "links": [[lower rank, higher rank], ..],
     "switches": [..], "node_attributes": [[rank, {..}], ..], "link_attributes": [[lower rank, higher rank, {..}], ..]}

Links are sorted, so equal networks have equal files. `sha256` is the digest of ranks, ports and labels.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Unpack

from coordinator.history.stored.reading import read_bytes
from coordinator.history.stored.writing import replace_file
from coordinator.scenario.declared_network import DeclaredNetwork, Reading, plain_attributes
from coordinator.scenario.network_readers import READERS, declared, load_json
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.digest import network_sha256
from emunode.topologies.table import Attributes, TableTopology

if TYPE_CHECKING:
    import networkx

MAX_NAME: Final = 60
FORMAT: Final = "network 1"
MAX_BYTES: Final = 2**28
"""The largest file of a network that is read."""


def is_network_file(text: str) -> bool:
    """Return whether `text`, a topology given by a user, is a file by its suffix."""
    return Path(text).suffix.lower() in READERS


def read_network(path: Path, **reading: Unpack[Reading]) -> TableTopology:
    """Return the network in a file whose suffix tells its format.

    A `network.json` of a run directory is read too. Raises ScenarioError (field `topology`).
    """
    reader = READERS.get(path.suffix.lower())
    try:
        if reader is None:
            raise ValueError(f"unknown suffix {path.suffix!r}; the known ones are {' '.join(READERS)}")
        data = _bytes_of(path)
        if path.suffix.lower() == ".json" and is_network_document(document := load_json(data)):
            return network_from(document)
        return reader(data).topology(network_name(path.stem), **reading)
    except ValueError as error:
        raise ScenarioError("topology", str(path), str(error)) from None
    except ScenarioError as error:
        raise ScenarioError("topology", str(path), error.allowed) from None


def from_networkx(graph: "networkx.Graph[Any]", name: str | None = None, **reading: Unpack[Reading]) -> TableTopology:
    """Return the network of a networkx graph; nodes are labelled by their text. Raises ScenarioError (field
    `topology`).
    """
    name = network_name(name or str(graph.name))
    try:
        network: DeclaredNetwork = declared(graph)
        return network.topology(name, **reading)
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
    """Return the name of a file without folder and suffix, of the characters that a run may have in its name."""
    return re.sub(r"[^A-Za-z0-9._+^-]+", "-", stem).strip("-.")[:MAX_NAME] or "network"


def _bytes_of(path: Path) -> bytes:
    try:
        return read_bytes(path, MAX_BYTES)
    except OSError as error:
        raise ValueError(f"the file cannot be read: {error.strerror}") from None


# --- network.json ------------------------------------------------------------------------------------------------------


def write_network(path: Path, topology: TableTopology) -> None:
    """Write a network as `network.json`."""
    replace_file(path, json.dumps(network_document(topology), separators=(",", ":"), sort_keys=True) + "\n")


def network_document(topology: TableTopology) -> dict[str, Any]:
    """Return a network as plain values."""
    return {
        "format": FORMAT,
        "name": topology.name.partition(":")[2],
        "sha256": network_sha256(topology),
        "labels": [topology.label(rank) for rank in topology.ranks()],
        "links": [[one, other] for one, _, other, _ in topology.links()],
        "switches": sorted(topology.switches),
        "node_attributes": [[rank, dict(values)] for rank, values in sorted(topology.node_attributes.items())],
        "link_attributes": [[*ends, dict(values)] for ends, values in sorted(topology.link_attributes.items())],
    }


def is_network_document(document: object) -> bool:
    """Return whether a JSON document says that it has this format."""
    return isinstance(document, dict) and document.get("format") == FORMAT


def network_from(document: Any) -> TableTopology:
    """Return the network of a document of this format; ValueError or ScenarioError if it is malformed or has another
    digest.
    """
    try:
        topology = TableTopology(
            str(document["name"]),
            [_checked(label, str) for label in document["labels"]],
            [(_checked(one, int), _checked(other, int)) for one, other in document["links"]],
            switches=[_checked(rank, int) for rank in document["switches"]],
            node_attributes={_checked(rank, int): _attributes(values) for rank, values in document["node_attributes"]},
            link_attributes={
                (_checked(one, int), _checked(other, int)): _attributes(values)
                for one, other, values in document["link_attributes"]
            },
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"malformed {FORMAT!r}: {error!r}") from None
    if (found := network_sha256(topology)) != document.get("sha256"):
        raise ValueError(f"digest mismatch: the file says {document.get('sha256')}, its links and labels have {found}")
    return topology


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise TypeError(f"expected {kind.__name__}, found {value!r:.50}")
    return value


def _attributes(values: Any) -> Attributes:
    if not isinstance(values, Mapping) or plain_attributes(values) != values:
        raise TypeError(f"expected attributes, found {values!r:.50}")
    return dict(values)
