"""`network.json`: the network of a run that has no name in any family, in one canonical form.

    {"format": "network 1", "name": .., "sha256": .., "labels": [..], "links": [[lower rank, higher rank], ..],
     "switches": [..], "node_attributes": [[rank, {..}], ..], "link_attributes": [[lower rank, higher rank, {..}], ..]}

Links are sorted, so equal networks have equal files. `sha256` is the digest of ranks, ports and labels.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from coordinator.scenario.declared_network import plain_attributes
from coordinator.stored.reading import read_json
from coordinator.stored.writing import replace_file
from emunode.errors import ScenarioError
from emunode.topologies.digest import network_sha256
from emunode.topologies.table import Attributes, TableTopology

FORMAT: Final = "network 1"
MAX_BYTES: Final = 2**28
"""The largest file of a network that is read."""


def write_network(path: Path, topology: TableTopology) -> None:
    """Write a network as `network.json`."""
    replace_file(path, json.dumps(network_document(topology), separators=(",", ":"), sort_keys=True) + "\n")


def read_network_json(path: Path) -> TableTopology:
    """The network that `write_network` wrote; ScenarioError (field `topology`) unless it is whole and has its digest."""
    try:
        document = read_json(path, MAX_BYTES)
        if not is_network_document(document):
            raise ValueError(f"its format is not {FORMAT!r}")
        return network_from(document)
    except OSError as error:
        raise ScenarioError("topology", str(path), f"the file cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ScenarioError("topology", str(path), f"it is not a network: {error}") from None
    except ScenarioError as error:
        raise ScenarioError("topology", str(path), error.allowed) from None


def network_document(topology: TableTopology) -> dict[str, Any]:
    """A network as plain values."""
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
    """Whether a JSON document says that it has this format."""
    return isinstance(document, dict) and document.get("format") == FORMAT


def network_from(document: Any) -> TableTopology:
    """The network of a document of this format; ValueError or ScenarioError if it is malformed or has another digest."""
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
