"""Nodes and links as a file declares them, on the way to a `TableTopology`.

Everything that a file can say and a network cannot have is refused with ValueError, in words for the user.
"""

from collections.abc import Hashable, Mapping
from math import isfinite
from typing import Any

from emunode.model import Rank
from emunode.topologies.table import MAX_LINKS, MAX_NODES, Attributes, TableTopology, parallel_links

Link = tuple[Rank, Rank]


class DeclaredNetwork:
    """A graph under construction; `directed` files have every arc in both directions, or none in both."""

    def __init__(self, *, directed: bool = False) -> None:
        self.directed = directed
        self.switches = set[Rank]()
        self.remarks: list[str] = []
        """Remarks for the user about how the file was read."""
        self._ranks: dict[Hashable, Rank] = {}
        self._labels: list[str] = []
        self._links: list[Link] = []
        self._node_attributes: dict[Rank, Attributes] = {}
        self._link_attributes: dict[Link, Attributes] = {}

    def __contains__(self, node: Hashable) -> bool:
        return node in self._ranks

    def add_node(
        self, node: Hashable, attributes: Mapping[str, object] | None = None, *, label: str | None = None
    ) -> None:
        """Declare the next node: its name in links, and its label, by default the same."""
        if node in self._ranks:
            raise ValueError(f"duplicate node {node!r}: it is declared twice")
        rank = self._ranks[node] = len(self._ranks)
        if rank >= MAX_NODES:
            raise ValueError(f"more than {MAX_NODES:,} nodes")
        self._labels.append(str(node) if label is None else label)
        if plain := plain_attributes(attributes or {}):
            self._node_attributes[rank] = plain

    def add_link(self, one: Hashable, other: Hashable, attributes: Mapping[str, object] | None = None) -> None:
        """Declare a link, or an arc of a directed file, between declared nodes."""
        for end in (one, other):
            if end not in self._ranks:
                raise ValueError(f"undeclared node {end!r} at the end of a link")
        if len(self._links) >= (2 * MAX_LINKS if self.directed else MAX_LINKS):
            raise ValueError(f"more than {MAX_LINKS:,} links")
        ends = self._ranks[one], self._ranks[other]
        self._links.append(ends)
        if plain := plain_attributes(attributes or {}):
            ends = min(ends), max(ends)
            # The first direction that is declared decides.
            self._link_attributes[ends] = {**plain, **self._link_attributes.get(ends, {})}

    def topology(self, name: str, *, relabel: bool = False) -> TableTopology:
        """Return the network; `relabel` calls every node by its rank and keeps its label as the attribute
        `original_label`.

        Raises ValueError or ScenarioError.
        """
        labels, node_attributes = self._labels, self._node_attributes
        if relabel:
            labels = [str(rank) for rank in range(len(labels))]
            node_attributes = {
                rank: {**node_attributes.get(rank, {}), **plain_attributes({"original_label": label})}
                for rank, label in enumerate(self._labels)
            }
        links = self._undirected_links() if self.directed else self._links
        return TableTopology(
            name,
            labels,
            links,
            switches=self.switches,
            node_attributes=node_attributes,
            link_attributes=self._link_attributes,
            remarks=self.remarks,
        )

    def _undirected_links(self) -> list[Link]:
        """Return one link for every pair of opposite arcs, or for every arc if none has a reverse."""
        arcs = set[Link]()
        for arc in self._links:
            if arc in arcs:
                raise ValueError(parallel_links(*(self._labels[rank] for rank in arc)))
            arcs.add(arc)
        alone = [(one, other) for one, other in self._links if (other, one) not in arcs]
        if alone and len(alone) == sum(one != other for one, other in self._links):
            # Editors such as yEd call every drawing directed.
            self.remarks.append("the graph is directed, but no arc has a reverse: links are taken as undirected")
            return self._links
        for one, other in alone:
            ends = f"{self._labels[one]!r} to {self._labels[other]!r}"
            raise ValueError(
                f"the graph is directed, and the arc from {ends} has no reverse, while {len(arcs) - len(alone)} arcs "
                "have; links go both ways: add the reverse, or declare the graph undirected"
            )
        return [(one, other) for one, other in self._links if one <= other]


def plain_attributes(attributes: Mapping[str, Any]) -> Attributes:
    """Return the attributes that are text, finite numbers or truth values: nested records and other objects are left
    out.
    """
    return {key: value for key, value in attributes.items() if _is_plain(key) and _is_plain(value)}


def _is_plain(value: object) -> bool:
    match value:
        case str():
            return value.encode(errors="ignore").decode() == value  # no half of a surrogate pair
        case int():
            return -(2**63) <= value < 2**63
        case float():
            return isfinite(value)
    return False
