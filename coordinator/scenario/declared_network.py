"""Nodes and links as a file declares them, on the way to a `TableTopology`.

Everything that a file can say and a network cannot have is refused with ValueError, in words for the user.
"""

import re
from collections.abc import Hashable, Mapping, Sequence
from decimal import Decimal
from math import isfinite
from typing import Any, Final, TypedDict, Unpack

from coordinator.scenario.blocks import Link
from emunode.model import Rank
from emunode.topologies.table import MAX_LINKS, MAX_NODES, Attributes, TableTopology, parallel_links

ADDED: Final = ("weight", "rate", "capacity", "bandwidth", "LinkSpeedRaw")
"""Attributes of parallel links that add when the links are merged: numbers, or texts such as `100Gbps` of one unit."""
QUANTITY: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)( ?[A-Za-z/]*)")


class Reading(TypedDict, total=False):
    """How a network with the nodes and links of a file is made: the options of a scenario of these names."""

    relabel: bool
    """Call every node by its rank, and keep its label as the attribute `original_label`."""
    merge_links: bool
    """Make one link of parallel links."""


AS_DECLARED: Final[Mapping[str, object]] = dict.fromkeys(Reading.__annotations__, False)


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
        self._link_attributes: list[Attributes] = []
        """The attributes of every link, by its place in the list of links."""

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
        self._links.append((self._ranks[one], self._ranks[other]))
        self._link_attributes.append(plain_attributes(attributes) if attributes else {})

    def topology(self, name: str, **reading: Unpack[Reading]) -> TableTopology:
        """Return the network; raises ValueError or ScenarioError."""
        if reading.get("merge_links"):
            self._merge_links()
        labels, node_attributes = self._labels, self._node_attributes
        if reading.get("relabel"):
            labels = [str(rank) for rank in range(len(labels))]
            node_attributes = {
                rank: {**node_attributes.get(rank, {}), **plain_attributes({"original_label": label})}
                for rank, label in enumerate(self._labels)
            }
        links = self._undirected_links() if self.directed else self._links
        link_attributes: dict[Link, Attributes] = {}
        for (one, other), attributes in zip(self._links, self._link_attributes, strict=True):
            if attributes:
                ends = min(one, other), max(one, other)
                # The first direction that is declared decides.
                link_attributes[ends] = {**attributes, **link_attributes.get(ends, {})}
        return TableTopology(
            name,
            labels,
            links,
            switches=self.switches,
            node_attributes=node_attributes,
            link_attributes=link_attributes,
            remarks=self.remarks,
        )

    def _merge_links(self) -> None:
        """Make one link of links between the same nodes, and one arc of arcs in the same direction."""
        parallel: dict[Link, list[Attributes]] = {}
        for (one, other), attributes in zip(self._links, self._link_attributes, strict=True):
            ends = (one, other) if self.directed else (min(one, other), max(one, other))
            parallel.setdefault(ends, []).append(attributes)
        if len(parallel) < len(self._links):
            kind = "arcs" if self.directed else "links"
            self.remarks.append(
                f"{len(self._links)} {kind} are merged into {len(parallel)}, one for each pair of nodes"
            )
        self._links = list(parallel)
        self._link_attributes = list(map(merged_attributes, parallel.values()))

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


def merged_attributes(links: Sequence[Attributes]) -> Attributes:
    """Return the attributes of one link in place of parallel links: the sums of those in ADDED, and the others of the first
    link that has them. `merged_links` is their number.

    A sum is left out if one of the links lacks the value, or if values are no quantities of one unit.
    """
    if len(links) == 1:
        return links[0]
    merged: dict[str, str | int | float | bool] = {"merged_links": len(links)}
    for attributes in links:
        merged = {**attributes, **merged}
    for name in merged.keys() & set(ADDED):
        total = total_of([attributes.get(name) for attributes in links])
        if total is None:
            del merged[name]
        else:
            merged[name] = total
    return plain_attributes(merged)


def total_of(values: Sequence[object]) -> str | int | float | None:
    """Return the sum of numbers, or of quantities of one unit as text; None for any other values."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
        return sum(value for value in values if isinstance(value, int | float))
    found = [QUANTITY.fullmatch(value) if isinstance(value, str) else None for value in values]
    quantities = [(match[1], match[2]) for match in found if match]
    units = {unit for _, unit in quantities}
    if len(quantities) < len(values) or len(units) > 1:
        return None
    return f"{sum(Decimal(number) for number, _ in quantities)}{units.pop()}"


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
