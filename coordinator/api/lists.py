"""Lists for the choice of a run: families of networks, algorithms, kinds of faults.

The functions whose names end with `_rows` return plain values, and importing this module imports no polars: the command line
prints them.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING

from coordinator.api.forks import require_usable
from coordinator.planning.placements.base import PLACEMENTS
from coordinator.scenario.blocks import BLOCK_KINDS
from coordinator.scenario.fault_sets import STRATEGIES
from coordinator.scenario.fault_syntax import forms
from coordinator.scenario.networks import load_topology
from emunode.algorithms.base import ANY_FAMILY, Algorithm, Need
from emunode.algorithms.registry import RegisteredAlgorithm, registered, require_visitable
from emunode.algorithms.registry import algorithms as registered_algorithms
from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS, Collective, CollectiveSpec
from emunode.topologies.base import FAMILIES, SEARCH_LIMIT, Topology
from emunode.topologies.registry import descriptions, parse_topology
from emunode.topologies.table import TableTopology

if TYPE_CHECKING:
    import polars as pl

EXAMPLE_BYTES = 720
"""Size of a message in the example of an algorithm: it divides into as many parts as any algorithm needs."""

TRIED_ENDS = 1 << 11
"""The most link ends of a network for trials of algorithms that look at all of it before they run: up to a second."""

ListRow = dict[str, object]


def topologies() -> "pl.DataFrame":
    """Return the families of networks, one row each: family, form, condition, example, describe, facts of the example.

    >>> import coordinator as tb
    >>> tb.topologies().select("family", "form").head(3).rows()
    [('star', 'star:N'), ('hypercube', 'hypercube:N'), ('ej', 'ej:A+B or ej:A+B^DIMENSIONS')]
    """
    return _frame(topology_rows())


def algorithms(topology: str | Topology | None = None, collective: str | None = None) -> "pl.DataFrame":
    """Return the algorithms, one row each: topology, collective, algorithm, port_models, duplexes, schedule, citation.

    `topology` is a family, such as `star`, or a network, such as `star:5`: then the list has the algorithms that can
    run on it. Algorithms that look at the whole network first are not tried on networks of more than 2,048 link ends,
    but listed. Raises ScenarioError (field `topology` or `collective`).

    >>> import coordinator as tb
    >>> tb.algorithms("star:4", "allgather")["algorithm"].to_list()[:3]
    ['rotated-trees', 'hamiltonian-cycle', 'rotated-hamiltonian']
    """
    return _frame([algorithm_row(family, entry) for family, entry in chosen_algorithms(topology, collective)])


def faults() -> "pl.DataFrame":
    """Return the kinds of faults, the blocks that fail together and the strategies of sets: kind, written, meaning, use.

    >>> import coordinator as tb
    >>> tb.faults().row(0, named=True)["written"]
    'crash:LABEL@STEP'
    """
    return _frame(fault_rows())


def _frame(rows: Sequence[ListRow]) -> "pl.DataFrame":
    import polars as pl  # noqa: PLC0415  # the command line prints the rows without it

    require_usable()
    return pl.DataFrame(rows, infer_schema_length=None)


# --- networks and faults -------------------------------------------------------------------------------------------------


def topology_rows() -> list[ListRow]:
    """List the families of networks, with the facts of an example."""
    return [
        {
            "family": known.family,
            "form": known.form,
            "condition": known.condition,
            "example": known.example,
            "describe": known.describe,
            **{key: value for key, value in parse_topology(known.example).facts().items() if key != "topology"},
        }
        for known in descriptions()
        if known.defined_by_name
    ]


def fault_rows() -> list[ListRow]:
    """List the kinds of faults, blocks and strategies; `use` tells the three apart."""
    blocks: list[ListRow] = [
        {"kind": name, "written": f"random:{kind.form}", "meaning": (kind.__doc__ or "").strip().splitlines()[0]}
        for name, kind in BLOCK_KINDS.items()
    ]
    strategies: list[ListRow] = [
        {"kind": name, "written": example, "meaning": meaning} for name, (example, meaning) in STRATEGIES.items()
    ]
    listed: dict[str, Sequence[ListRow]] = {"fault": forms(), "block": blocks, "strategy": strategies}
    return [{**row, "use": use} for use, rows in listed.items() for row in rows]


def placement_rows() -> list[ListRow]:
    """List the placements of nodes on hosts."""
    return [{"form": each.form, "meaning": each.meaning} for each in PLACEMENTS.values()]


# --- algorithms ----------------------------------------------------------------------------------------------------------


def chosen_algorithms(topology: str | Topology | None, collective: str | None) -> list[tuple[str, RegisteredAlgorithm]]:
    """List the algorithms with their families; without a family, algorithms for every network once, as of family `any`.

    If `topology` is a network, algorithms that cannot run on it are left out. Raises ScenarioError (field `topology` or
    `collective`).
    """
    network = network_of_filter(topology)
    if network is not None:
        return [(network.family, entry) for entry in runnable(network, collective)]
    assert topology is None or isinstance(topology, str)
    wanted = topology and topology.lower()
    only = _collective(collective)
    found = [(family if wanted else entry.family, entry) for family, entry in registered() if wanted in (None, family)]
    return [
        (family, entry)
        for family, entry in sorted(dict.fromkeys(found), key=lambda each: each[0] == ANY_FAMILY)
        if only in (None, entry.collective)
    ]


def network_of_filter(topology: str | Topology | None) -> Topology | None:
    """Return the network that a filter names; None for a family and for no filter."""
    if topology is None or isinstance(topology, Topology):
        return topology
    if topology.startswith(f"{TableTopology.family}:"):
        return load_topology(topology)
    if ":" in topology:
        return parse_topology(topology)
    if topology.lower() not in FAMILIES:
        raise ScenarioError("topology", topology, f"expected a network such as star:5, or one of {', '.join(FAMILIES)}")
    return None


def _collective(name: str | None) -> Collective | None:
    if name is None:
        return None
    try:
        return Collective(str(name).lower().replace("_", "-"))
    except ValueError:
        raise ScenarioError("collective", name, f"expected one of: {', '.join(Collective)}") from None


def runnable(topology: Topology, collective: str | None = None) -> Iterator[RegisteredAlgorithm]:
    """List the algorithms that can run on a network, by collective, algorithms of its family first.

    Algorithms that look at the whole network first are listed without being tried if it is large (`is_tried`).
    """
    only = _collective(collective)
    for each in Collective:
        if only in (None, each):
            for entry in registered_algorithms(topology.family, each).values():
                with suppress(ScenarioError):
                    require_visitable(topology, entry)
                    if is_tried(topology, entry):
                        accepted(topology, entry)
                    yield entry


def is_tried(topology: Topology, entry: RegisteredAlgorithm) -> bool:
    """Return whether making the algorithm on the network takes so little time that a list may try it."""
    return not entry.needs & {Need.EVERY_NODE, Need.TABLE} or topology.order * topology.degree <= TRIED_ENDS


def accepted(topology: Topology, entry: RegisteredAlgorithm) -> Algorithm:
    """Make an algorithm on a network, under the first setting that it accepts.

    Raises ScenarioError, with the reason for the first setting, if it accepts none.
    """
    require_visitable(topology, entry)
    target = ALL_RANKS
    if entry.collective is Collective.UNICAST:
        # A far target needs a search of the whole network; a neighbour is as good where that is too large.
        large = topology.order > SEARCH_LIMIT
        target = topology.neighbour(0, topology.ports(0)[0]) if large else topology.farthest_from(0)
    reason: ScenarioError | None = None
    # Some algorithms send one message over each port and accept no other number.
    for port_model, duplex, messages in product(entry.port_models, entry.duplexes, (1, topology.degree)):
        spec = CollectiveSpec(
            topology.name,
            entry.collective,
            entry.name,
            topology.data_ranks[0],
            port_model,
            duplex,
            EXAMPLE_BYTES,
            messages,
            target=target,
        )
        try:
            return entry(topology, spec)
        except ScenarioError as error:
            reason = reason or error
            if error.field == "topology":  # whatever the port model and the number of messages
                break
    assert reason is not None
    raise reason


def algorithm_row(family: str, entry: RegisteredAlgorithm) -> ListRow:
    """Describe an algorithm by plain values."""
    return {
        "topology": family,
        "collective": str(entry.collective),
        "algorithm": entry.name,
        "port_models": [str(model) for model in entry.port_models],
        "duplexes": [str(duplex) for duplex in entry.duplexes],
        "schedule": "precomputed schedule" if Need.TABLE in entry.needs else "local rule",
        "citation": entry.citation,
    }
