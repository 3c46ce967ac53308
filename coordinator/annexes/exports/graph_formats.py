"""Exports of networks, trees and schedules: GraphML for graph tools, GOAL for LogGOPSim.

GraphML.** A directed graph with two arcs for every link. Nodes are identified by label and have their rank as an
attribute. Arcs have their port and, in `trees`, the numbers of the spanning trees that use them from parent to child,
separated by spaces. An export of a plan lists the trees of the algorithm. An export of a run lists the trees whose
packets the arc carried (only the packets of rank 0 if every rank is a source) and adds measurements: `first_step`,
`last_step` and `state` of nodes, `packets`, `segments` and `bytes` of arcs.

**GOAL** has what a run executed; `schedules.goal` describes the format.

Both formats are written line by line, so that the largest runs can be exported.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape, quoteattr

import polars as pl

from coordinator.annexes import annex_function
from coordinator.reports.data import LARGEST_ORDER, RunData
from coordinator.scenario.networks import load_topology
from emunode.algorithms.base import Algorithm
from emunode.algorithms.registry import find_algorithm
from emunode.errors import ScenarioError
from emunode.model import ROOTLESS, Collective, CollectiveSpec, Duplex, Port, Rank
from emunode.topologies.base import Topology
from emunode.trees.base import Trees

Arc = tuple[Rank, Port]
ROOM_BYTES = 2**25
"""Message size that every algorithm can split into its segments."""

KEYS: Mapping[str, tuple[str, str]] = {
    "rank": ("node", "int"), "first_step": ("node", "int"), "last_step": ("node", "int"), "state": ("node", "string"),
    "port": ("edge", "int"), "trees": ("edge", "string"), "packets": ("edge", "int"), "segments": ("edge", "int"),
    "bytes": ("edge", "int"),
    "topology": ("graph", "string"), "collective": ("graph", "string"), "algorithm": ("graph", "string"),
    "root": ("graph", "string"),
}  # fmt: skip
"""GraphML attributes: the element that has them, and their type."""


def graphml_of_plan(topology: str, collective: str, algorithm: str | None, source: str | None) -> Iterator[str]:
    """Return a network and, if an algorithm is given, its trees. Raises ScenarioError for unknown names."""
    network = load_topology(topology)
    network.require_order(LARGEST_ORDER)
    if algorithm is None:
        return graphml(network, {}, {})
    if collective not in list(Collective):
        raise ScenarioError("collective", collective, f"expected one of: {', '.join(Collective)}")
    about = {"collective": collective, "algorithm": algorithm, "root": source or network.label(0)}
    return graphml(network, planned_trees(network, Collective(collective), algorithm, source), about)


def planned_trees(
    topology: Topology, collective: Collective, algorithm: str, source: str | None
) -> dict[Arc, list[int]]:
    """Return the arcs of an algorithm's spanning trees rooted at `source`, each with the trees that use it.

    Raises ScenarioError for an unknown algorithm or label, and for an algorithm with routes instead of trees.
    """
    root = topology.rank(source) if source is not None else 0
    spec = CollectiveSpec(topology.name, collective, algorithm, root, message_bytes=ROOM_BYTES)
    entry = find_algorithm(topology, spec)
    trees = getattr(_supported(entry, topology, spec), "trees", None)
    if not isinstance(trees, Trees):
        raise ScenarioError("algorithm", algorithm, "this algorithm has no spanning trees; export a run of it instead")
    arcs: dict[Arc, list[int]] = {}
    for tree in range(trees.count):
        for rank in topology.ranks():
            for port in trees.children(rank, tree):
                arcs.setdefault((topology.absolute(rank, root), port), []).append(tree)
    return arcs


def _supported(entry: type[Algorithm], topology: Topology, spec: CollectiveSpec) -> Algorithm:
    """Return the algorithm with the first port model and duplex mode that it supports."""
    port_model = entry.port_models[0]
    duplex = spec.duplex if spec.duplex in entry.duplexes else Duplex.HALF
    return entry(topology, spec._replace(port_model=port_model, duplex=duplex))


def executed_trees(data: RunData) -> dict[Arc, list[int]]:
    """Return the trees whose packets each arc carried, according to the journal."""
    if data.hops is None:
        return {}
    journal = data.hops
    if str(data.get("collective")) in ROOTLESS:
        journal = journal.filter(pl.col("origin") == 0)
    table = (journal.group_by("sender", "port").agg(pl.col("tree").unique().sort()).sort("sender", "port")).collect(
        engine="streaming"
    )
    return {(sender, port): trees for sender, port, trees in table.iter_rows()}


def graphml_of_run(data: RunData) -> Iterator[str]:
    """Return the network of a run with its measurements. Raises ScenarioError (field `run`) if the network is unknown."""
    topology = _topology(data)
    nodes: dict[Rank, dict[str, Any]] = {}
    links: dict[Arc, dict[str, Any]] = {}
    if data.nodes is not None:
        of_nodes = ("rank", "first_step", "last_step", "state")
        nodes = {row["rank"]: row for row in data.nodes.select(of_nodes).iter_rows(named=True)}
    if data.links is not None:
        # A foreign history has no segments.
        of_links = [name for name in ("sender", "port", "packets", "segments", "bytes") if name in data.links.columns]
        links = {(row.pop("sender"), row["port"]): row for row in data.links.select(of_links).iter_rows(named=True)}
    about = {key: data.get(key) for key in ("collective", "algorithm")} | {"root": data.get("source")}
    return graphml(topology, executed_trees(data), about, nodes, links)


def graphml(
    topology: Topology,
    trees: Mapping[Arc, Iterable[int]],
    about: Mapping[str, Any],
    nodes: Mapping[Rank, Mapping[str, Any]] | None = None,
    links: Mapping[Arc, Mapping[str, Any]] | None = None,
) -> Iterator[str]:
    """Yield the lines of a GraphML document."""
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n'
    for name, (of, kind) in KEYS.items():
        yield f'<key id="{name}" for="{of}" attr.name="{name}" attr.type="{kind}"/>\n'
    yield f'<graph id={quoteattr(topology.name)} edgedefault="directed">\n'
    yield _values({"topology": topology.name, **about}) + "\n"
    labels = [quoteattr(topology.label(rank)) for rank in topology.ranks()]
    for rank, label in enumerate(labels):
        yield f"<node id={label}>{_values({**(nodes or {}).get(rank, {}), 'rank': rank})}</node>\n"
    for rank in topology.ranks():
        for port, other in topology.adjacent(rank):
            values = {**(links or {}).get((rank, port), {}), "port": port}
            if (rank, port) in trees:
                values["trees"] = " ".join(map(str, trees[rank, port]))
            yield f"<edge source={labels[rank]} target={labels[other]}>{_values(values)}</edge>\n"
    yield "</graph>\n</graphml>\n"


def _values(values: Mapping[str, Any]) -> str:
    return "".join(
        f'<data key="{key}">{escape(str(value))}</data>' for key, value in values.items() if value is not None
    )


def goal_of_run(data: RunData) -> Iterator[str]:
    """Return the schedule that a run executed. Raises ScenarioError (field `run`) if its network or journal is not
    available.
    """
    topology = _topology(data)
    if data.hops is None:
        raise ScenarioError("run", str(data.path), "the journal is missing or unreadable; " + data.reasons)
    packets = (
        data.hops.group_by("step", "sender", "port", "receiver")
        .agg(pl.col("bytes").cast(pl.Int64).sum(), lost=(pl.col("outcome").cast(pl.String) == "lost").all())
        .collect(engine="streaming")
    )
    title = f"{data.get('collective')} by {data.get('algorithm')}"
    lines: Iterator[str] = annex_function("packets as GOAL")(topology, title, packets)
    return lines


def _topology(data: RunData) -> Topology:
    if data.topology is None:
        raise ScenarioError("run", str(data.path), "its network is unknown; " + data.reasons)
    return data.topology
