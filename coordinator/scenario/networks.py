"""The network that a scenario names: a member of a family, or a network from a file.

A file is named by `file:PATH`. A stored scenario keeps such a network beside it as a `network.json`, and names this
file with its digest, so that the folder can be moved and the scenario run again anywhere. A network that exists only in
this process, such as a networkx graph, is named by its digest too (`hold_network`).
"""

import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, Unpack
from weakref import WeakValueDictionary

from coordinator.scenario.declared_network import AS_DECLARED, Reading
from coordinator.scenario.model import OPTIONS, Scenario, dump_scenario
from coordinator.scenario.network_files import read_network, write_network
from coordinator.scenario.network_readers import READERS
from coordinator.scenario.plugins import absolute_plugins, keep_plugins
from coordinator.scenario.reach import FILE
from emunode.errors import ScenarioError
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.topologies.table import TableTopology

PREFIX: Final = FILE
NETWORK: Final = "network.json"
"""The file of a run directory that holds its network."""


_held: WeakValueDictionary[tuple[str, str], TableTopology] = WeakValueDictionary()
"""Networks of this process by name and digest."""


def hold_network(topology: TableTopology) -> dict[str, object]:
    """Return the values of a scenario that name a network of this process; the values are valid as long as the network
    exists.
    """
    _held[topology.name, topology.sha256] = topology
    return {"topology": topology.name, "network_sha256": topology.sha256}


def load_topology(name: str, sha256: str | None = None, **reading: Unpack[Reading]) -> Topology:
    """Return the network of this name; `file:PATH` is read unless this process holds a network of that name and digest.

    With `sha256`, a network from a file must have this digest.

    Raises ScenarioError (field `topology`).
    """
    if not name.startswith(PREFIX):
        _refuse_path(name)
        return parse_topology(name)
    held = _held.get((name, sha256)) if sha256 is not None else None
    if held is not None:
        return held
    path = Path(name.removeprefix(PREFIX))
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ScenarioError("topology", name, f"the file cannot be read: {reason}") from None
    topology = _read(path, status.st_mtime_ns, status.st_size, **reading)
    if sha256 is not None and sha256 != topology.sha256:
        raise ScenarioError(
            "topology", name, f"digest mismatch: the scenario says {sha256}, the file has {topology.sha256}"
        )
    return topology


def _refuse_path(name: str) -> None:
    """Raise ScenarioError for the path of a file without `file:`, so that its suffix is explained and not the families."""
    if ":" in name or not Path(name).suffix:
        return
    suffix = Path(name).suffix.lower()
    if suffix in READERS:
        raise ScenarioError("topology", name, f"a network from a file is named {PREFIX}{name}")
    raise ScenarioError(
        "topology", name, f"unknown suffix {suffix!r} of a network file; the known ones are {' '.join(READERS)}"
    )


@lru_cache(8)
def _read(path: Path, _changed: int, _size: int, **reading: Unpack[Reading]) -> TableTopology:
    """Return a network file, read once as long as it does not change."""
    began = time.perf_counter()
    topology = read_network(path, **reading)
    topology.read_seconds = time.perf_counter() - began
    return topology


def network_of(scenario: Scenario) -> Topology:
    """Return the network of a scenario; ScenarioError (field `topology`)."""
    return load_topology(
        scenario.topology, scenario.network_sha256, relabel=scenario.relabel, merge_links=scenario.merge_links
    )


def network_of_values(values: Mapping[str, object]) -> Topology | None:
    """Return the network of the values of a scenario, None without one; ScenarioError (field `topology`)."""
    topology, sha256 = values.get("topology"), values.get("network_sha256")
    if not isinstance(topology, str):
        return None
    return load_topology(
        topology,
        sha256 if isinstance(sha256, str) else None,
        relabel=bool(values.get("relabel")),
        merge_links=bool(values.get("merge_links")),
    )


def absolute_value(name: str, value: object, folder: Path) -> object:
    """Return the value of a key with the path of its file, if it names one, taken as relative to `folder`."""
    path = OPTIONS[name].path(value) if isinstance(value, str) and name in OPTIONS else None
    if path is None:
        return value
    assert isinstance(value, str)
    return value.removesuffix(path) + str(folder.absolute() / path)


def with_absolute_network(values: Mapping[str, object], folder: Path) -> dict[str, object]:
    """Return the values of a scenario with absolute paths of its files (given relative to `folder`): of `topology`,
    `permutation`, `schedule`, `trees`, `placement`, `data` and `plugin`.
    """
    absolute = {name: absolute_value(name, value, folder) for name, value in values.items()}
    if "plugin" in values:
        absolute["plugin"] = absolute_plugins(values["plugin"], folder)
    return absolute


def keep_network(topology: Topology, folder: Path, file: str = NETWORK) -> dict[str, object]:
    """Write a network from a file into `folder`; returns the values of a scenario there that name it."""
    if not isinstance(topology, TableTopology):
        return {}
    write_network(folder / file, topology)
    return {"topology": PREFIX + file, "network_sha256": topology.sha256, **AS_DECLARED}


def stored_scenario(scenario: Scenario, topology: Topology, folder: Path, file: str = NETWORK) -> str:
    """Return the text of a scenario file in `folder`, and write the files it names.

    A network from a file is written beside it as `file`; plug-ins are copied too.
    """
    kept = keep_network(topology, folder, file) | keep_plugins(scenario.plugin, folder)
    return dump_scenario(scenario.model_copy(update=kept))


def stored_topology(name: str, folder: Path) -> Topology:
    """Return the network with this name of a run that `folder` holds; ScenarioError (field `topology`)."""
    return load_topology(PREFIX + str(folder / NETWORK)) if name.startswith(PREFIX) else parse_topology(name)
