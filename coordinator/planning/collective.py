"""The collective of a scenario: source and targets as ranks, link capacity, number of segments, settings of the links."""

from typing import Any

from coordinator.annexes import annex_function
from coordinator.features.registry import FEATURES
from coordinator.scenario.model import DEFAULT_BYTES, DEFAULT_VECTOR_BYTES, MOST_BYTES, OnFailure, Scenario
from coordinator.scenario.option import options_of
from coordinator.scenario.programs import ProgramOptions, command_of
from coordinator.scenario.traffic_patterns import targets_of
from emunode.algorithms.registry import find_algorithm, with_blocks
from emunode.errors import ScenarioError
from emunode.model import (
    ALL_RANKS,
    AUTOMATIC,
    FOLDING,
    OWN_CAPACITY,
    ROOTLESS,
    UNLIMITED,
    VECTOR,
    Collective,
    CollectiveSpec,
    OptionValue,
    Rank,
)
from emunode.topologies.base import SEARCH_LIMIT, Topology

CAPACITIES = {None: OWN_CAPACITY, "unlimited": UNLIMITED, "auto": AUTOMATIC}
"""Values of `link_capacity` that are no numbers."""
LONGEST_SETTING = 4096
"""Characters of the longest text that hosts receive as the value of an added option."""


def collective_spec(scenario: Scenario, topology: Topology) -> CollectiveSpec:
    """Return the collective of a scenario, with the number of segments chosen where it is `auto`."""
    capacity = scenario.link_capacity
    computed: dict[str, Any] = {
        "topology": topology.name,
        "source": _source_rank(scenario, topology),
        "target": ALL_RANKS,
        "permutation": (),
        "message_bytes": _message_bytes(scenario, topology),
        "segments": 1 if scenario.segments == "auto" else scenario.segments,
        "packet_limit": scenario.packet_limit or 0,
        "program": command_of(ProgramOptions.of(scenario).program or ""),
        "link_capacity": capacity if isinstance(capacity, int) else CAPACITIES[capacity],
        "reliable": None,
        "repair": None,
        "settings": _settings(scenario),
    }
    # Every other option that has the name of a field of the record for hosts is one.
    options = options_of(type(scenario))
    same = {
        name: getattr(scenario, name) for name in CollectiveSpec._fields if name in options and name not in computed
    }
    spec = _with_targets(scenario, topology, CollectiveSpec(**same, **computed))
    spec = with_blocks(find_algorithm(topology, spec), topology, spec)
    if scenario.on_failure is not OnFailure.CONTINUE:
        spec = spec._replace(agreement=annex_function("agreement on failures")(scenario, topology, spec))
    for feature in FEATURES.values():
        spec = feature.configure(scenario, topology, spec)
    if scenario.segments != "auto":
        return spec
    entry = find_algorithm(topology, spec)
    return spec._replace(segments=entry.auto_segments(topology, spec, scenario.startup, scenario.per_byte))


def _settings(scenario: Scenario) -> tuple[OptionValue, ...]:
    """Return the options of features and plug-ins that hosts receive, as far as they have a value."""
    options = [name for name, each in options_of(type(scenario)).items() if each.option.for_hosts]
    values = {name: getattr(scenario, name) for name in options}
    for name, value in values.items():
        if isinstance(value, int) and not -(2**63) <= value < 2**63:
            raise ScenarioError(name, value, "hosts receive whole numbers from -2**63 to 2**63 - 1")
        if isinstance(value, str) and len(value) > LONGEST_SETTING:
            raise ScenarioError(name, f"{value[:20]}..", f"hosts receive at most {LONGEST_SETTING} characters")
    return tuple(OptionValue(name, value) for name, value in values.items() if value is not None)


def _message_bytes(scenario: Scenario, topology: Topology) -> int:
    """Return the size of the contribution of a rank. The size does not depend on the algorithm, so that algorithms can
    be compared.
    """
    if scenario.message_bytes is not None:
        return scenario.message_bytes
    if scenario.collective not in VECTOR:
        return DEFAULT_BYTES
    ranks = len(topology.data_ranks)
    return min(DEFAULT_BYTES * ranks, max(DEFAULT_VECTOR_BYTES, ranks), MOST_BYTES)


def _source_rank(scenario: Scenario, topology: Topology) -> Rank:
    collective = "a permutation" if scenario.permutation is not None else scenario.collective
    rootless = scenario.collective in ROOTLESS or scenario.permutation is not None
    if scenario.source is None:
        # Where contributions are folded, a root of the algorithm's choice owns data like all other owners of blocks.
        return 0 if rootless and scenario.collective not in FOLDING else topology.data_ranks[0]
    if rootless:
        raise ScenarioError("source", scenario.source, f"in {collective} every node is a source; leave it out")
    return _data_rank(topology, "source", scenario.source)


def _data_rank(topology: Topology, field: str, label: str) -> Rank:
    """Return the rank of a node that owns data; ScenarioError for `field`."""
    try:
        rank = topology.rank(label)
    except ScenarioError as error:
        raise ScenarioError(field, label, error.allowed) from None
    if topology.is_switch(rank):
        raise ScenarioError(field, label, "it is a switch, which owns no data; name another node")
    return rank


def _with_targets(scenario: Scenario, topology: Topology, spec: CollectiveSpec) -> CollectiveSpec:
    """Complete `spec` with the target or the permutation of a unicast."""
    if spec.collective is not Collective.UNICAST:
        for field in ("target", "permutation"):
            if getattr(scenario, field) is not None:
                reason = f"only a unicast has one, not {spec.collective}; leave it out"
                raise ScenarioError(field, getattr(scenario, field), reason)
        return spec
    if scenario.permutation is not None:
        if scenario.target is not None:
            raise ScenarioError("target", scenario.target, "a permutation names all targets; leave one of them out")
        return spec._replace(permutation=targets_of(scenario.permutation, topology, scenario.seed))
    if scenario.target is None:
        if topology.order > SEARCH_LIMIT:
            reason = f"name one: the farthest node is found in networks of at most {SEARCH_LIMIT} nodes"
            raise ScenarioError("target", None, reason)
        return spec._replace(target=topology.farthest_from(spec.source))
    target = _data_rank(topology, "target", scenario.target)
    if target == spec.source:
        raise ScenarioError("target", scenario.target, "it is the source; name another node")
    return spec._replace(target=target)
