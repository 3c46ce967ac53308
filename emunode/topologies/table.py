"""A network given by its list of links: read from a file, or sent to a host by the coordinator that has the file.

Port p of a rank is its p-th smallest neighbour, so the order of the links in a file does not matter. Neighbour lists lie one
after the other in one array; a second array holds the port at the other end of each link.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from struct import Struct, pack, unpack_from
from typing import Final, Self
from zlib import compress, decompressobj
from zlib import error as ZlibError  # noqa: N812  # it is an exception

from emunode.errors import FrameError, ScenarioError
from emunode.model import Port, Rank
from emunode.topologies.all_pairs import ordered_pairs_by_distance
from emunode.topologies.base import ABSENT, SEARCH_LIMIT, Topology, searched_property
from emunode.topologies.digest import network_sha256

MAX_NODES: Final = 1_000_000
MAX_LINKS: Final = 2_000_000
"""Hosts receive the links in one frame of at most 64 megabytes."""
MAX_LABEL: Final = 100
"""Characters in a label."""
FORBIDDEN_IN_LABELS: Final = "~>@:;=#"
"""Characters that separate the parts of a fault, such as `down:A~B@2`. Blanks and unprintable ones are forbidden too."""

Attributes = Mapping[str, str | int | float | bool]
"""Attributes of a node or a link in a file, beyond the structure, such as a rate or a rack."""

BY_RANKS: Final = "call every node by its rank (--relabel; in Python relabel=True)"
MERGE_LINKS: Final = "--merge-links; in Python merge_links=True"

_MAGIC = b"network1"
_HEADER = Struct("<8sIIII")
"""The magic number, order, links, switches, and bytes of text."""


class TableTopology(Topology):
    """Any connected simple graph; ranks are in the order of the file.

    >>> network = TableTopology("triangle", ["a", "b", "c"], [(0, 1), (1, 2), (2, 0)])
    >>> [network.label(rank) for rank in network.ranks()], network.diameter
    (['a', 'b', 'c'], 1)
    """

    family = "file"
    form = "file:NAME"
    condition = "a network from a file, which travels with its scenario"
    example = "file:ring"
    describe = "network read from a file: nodes in the order of the file, port p is the p-th smallest neighbour"
    defined_by_name = False
    read_seconds = 0.0
    """How long reading and checking the file took; set by the reader."""
    small_examples = ()

    def __init__(
        self,
        name: str,
        labels: Iterable[str],
        links: Iterable[tuple[Rank, Rank]],
        *,
        switches: Iterable[Rank] = (),
        node_attributes: Mapping[Rank, Attributes] | None = None,
        link_attributes: Mapping[tuple[Rank, Rank], Attributes] | None = None,
        remarks: Iterable[str] = (),
    ) -> None:
        """Build the network `name`, the name of its file without folder and suffix; links are pairs of ranks in any order.

        Raises ScenarioError (field `topology`) unless the graph is simple, connected and within the limits of this module.
        The keys of `link_attributes` are pairs with the lower rank first. `remarks` tell the user how the file was read.
        """
        self.remarks = tuple(remarks)
        self.name = f"file:{name}"
        self.title = f"network {name} from a file"
        self._labels = tuple(labels)
        self.order = len(self._labels)
        if not 2 <= self.order <= MAX_NODES:
            raise self._error(f"it has {_plural(self.order, 'node')}; a network has 2 to {MAX_NODES:,} nodes")
        self._check_labels()
        self.switches = frozenset(switches)
        self._check_switches()
        self.node_attributes = dict(node_attributes or {})
        self.link_attributes = dict(link_attributes or {})
        self._build(links)
        self._check_connected()
        self._kept_distances: Callable[[Rank], array[int]] = lru_cache(max(2, SEARCH_LIMIT // self.order))(self._search)

    @cached_property
    def sha256(self) -> str:
        """The digest of order, links, ports and labels: hosts and run directories recognise the network by it."""
        return network_sha256(self)

    @classmethod
    def parse(cls, parameters: str) -> Self:
        raise ScenarioError(
            "topology", f"{cls.family}:{parameters}", f"{cls.condition}: give the file instead of its name"
        )

    def _error(self, message: str) -> ScenarioError:
        return ScenarioError("topology", self.name, message)

    # Construction.

    def _check_labels(self) -> None:
        if len(set(self._labels)) < self.order:
            seen: set[str] = set()
            twice = next(label for label in self._labels if label in seen or seen.add(label))  # type: ignore[func-returns-value]
            raise self._error(f"two nodes have the same label {twice!r}; give each node its own, or {BY_RANKS}")
        for label in self._labels:
            if problem := label_problem(label):
                raise self._error(f"{problem}; rename it, or {BY_RANKS}")

    def _check_switches(self) -> None:
        for switch in self.switches:
            if not 0 <= switch < self.order:
                raise self._error(f"switch {switch} is not a node: nodes are 0..{self.order - 1}")
        if len(self.switches) == self.order:
            raise self._error("every node is a switch; a network needs nodes that own data")

    def _build(self, links: Iterable[tuple[Rank, Rank]]) -> None:
        """Check the links one by one, and fill the neighbour lists, each in ascending order."""
        order = self.order
        codes = self._codes(links)
        degrees = array("i", [0]) * (order + 1)
        previous = -1
        for code in codes:
            if code == previous:
                one, other = divmod(code, order)
                raise self._error(parallel_links(self._labels[one], self._labels[other]))
            previous = code
            degrees[code // order] += 1
            degrees[code % order] += 1
        self.link_count = len(codes)
        self.degree = max(degrees)
        offsets = array("i", [0])
        for degree in degrees[:order]:
            offsets.append(offsets[-1] + degree)
        # Links are in lexicographic order (lower rank, higher rank). So the lower neighbours of a rank come first and
        # ascend, then the higher ones: appending keeps every list sorted.
        neighbours, reverse = array("i", [0]) * (2 * len(codes)), array("i", [0]) * (2 * len(codes))
        end = offsets[:order]
        for code in codes:
            one, other = code // order, code % order
            at, there = end[one], end[other]
            end[one], end[other] = at + 1, there + 1
            neighbours[at], neighbours[there] = other, one
            reverse[at], reverse[there] = there - offsets[other], at - offsets[one]
        self._offsets, self._neighbours, self._reverse = offsets, neighbours, reverse

    def _codes(self, links: Iterable[tuple[Rank, Rank]]) -> list[int]:
        """Return a number for every link that says both ends, ascending: lower rank * order + higher rank."""
        order = self.order
        codes = []
        for one, other in links:
            if not (0 <= one < order and 0 <= other < order):
                raise self._error(f"the link {one} - {other} ends at an undeclared node: nodes are 0..{order - 1}")
            if one == other:
                raise self._error(f"self-loop at {self._labels[one]!r}: a link joins two nodes")
            codes.append(one * order + other if one < other else other * order + one)
            if len(codes) > MAX_LINKS:
                raise self._error(f"it has more than {MAX_LINKS:,} links")
        codes.sort()
        return codes

    def _check_connected(self) -> None:
        if ABSENT not in self._search(0):
            return
        parts = sorted(self._components(), key=lambda part: (-part[1], part[0]))
        sizes = ", ".join(str(size) for _, size in parts[:5]) + (", .." if len(parts) > 5 else "")
        one, other = (repr(self._labels[rank]) for rank, _ in parts[:2])
        raise self._error(f"disconnected: {len(parts)} components of {sizes} nodes; no path joins {one} and {other}")

    def _components(self) -> Iterator[tuple[Rank, int]]:
        """Yield the first rank of every component, and the number of its ranks."""
        seen = bytearray(self.order)
        for root in self.ranks():
            if not seen[root]:
                seen[root] = True
                queue = [root]
                for rank in queue:
                    for neighbour in self.neighbour_list(rank):
                        if not seen[neighbour]:
                            seen[neighbour] = True
                            queue.append(neighbour)
                yield root, len(queue)

    # Labels and links.

    def label(self, rank: Rank) -> str:
        return self._labels[rank]

    def rank(self, label: str) -> Rank:
        rank = self._ranks.get(label)
        if rank is None:
            sample = ", ".join(self._labels[:3])
            raise ScenarioError("label", label, f"a node of {self.name} is one of {sample}, .. ({self.order} nodes)")
        return rank

    @cached_property
    def _ranks(self) -> dict[str, Rank]:
        return {label: rank for rank, label in enumerate(self._labels)}

    def is_switch(self, rank: Rank) -> bool:
        return rank in self.switches

    def neighbour_list(self, rank: Rank) -> "array[int]":
        """Return the neighbours of `rank`, ascending, without absent ones: port p leads to the p-th."""
        return self._neighbours[self._offsets[rank] : self._offsets[rank + 1]]

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        at = self._offsets[rank] + port
        return self._neighbours[at] if at < self._offsets[rank + 1] else ABSENT

    def end(self, rank: Rank, port: Port) -> tuple[Rank, Port]:
        at = self._offsets[rank] + port
        return self._neighbours[at], self._reverse[at]

    def neighbours(self, rank: Rank) -> tuple[Rank, ...]:
        present = self.neighbour_list(rank)
        return (*present, *[ABSENT] * (self.degree - len(present)))

    def ports(self, rank: Rank) -> Sequence[Port]:
        return range(self._offsets[rank + 1] - self._offsets[rank])

    # One hub must not make every rank as expensive as the hub: these two never look at absent ports.

    def adjacent(self, rank: Rank) -> Iterator[tuple[Port, Rank]]:
        return enumerate(self.neighbour_list(rank))

    def ends(self, rank: Rank) -> Iterator[tuple[Port, Rank, Port]]:
        reverse = self._reverse[self._offsets[rank] : self._offsets[rank + 1]]
        return zip(self.ports(rank), self.neighbour_list(rank), reverse, strict=True)

    # Distances by search; those from the latest roots are kept.

    @property
    def has_distance_formula(self) -> bool:
        return False

    def weight(self, relative: Rank) -> int:
        return self.distances_from(0)[relative]

    def distance(self, one: Rank, other: Rank) -> int:
        return self.distances_from(other)[one]

    def eccentricity(self, root: Rank) -> int:
        return max(self.distances_from(root))

    def _search(self, root: Rank) -> "array[int]":
        """Return the distance of every rank from `root`, by rank; -1 for ranks that cannot be reached."""
        offsets, neighbours = self._offsets, self._neighbours
        distances = array("i", [-1]) * self.order
        distances[root] = 0
        queue = [root]
        for rank in queue:
            further = distances[rank] + 1
            for neighbour in neighbours[offsets[rank] : offsets[rank + 1]]:
                if distances[neighbour] < 0:
                    distances[neighbour] = further
                    queue.append(neighbour)
        return distances

    def distances_from(self, root: Rank) -> "array[int]":
        return self._kept_distances(root)

    @cached_property
    def pairs_by_distance(self) -> tuple[int, ...]:
        """How many ordered pairs of ranks are at distance 0, 1, .., diameter."""
        return ordered_pairs_by_distance([self.neighbour_list(rank) for rank in self.ranks()])

    @searched_property
    def diameter(self) -> int:
        """The largest distance."""
        return len(self.pairs_by_distance) - 1

    @cached_property
    def average_distance(self) -> Fraction:
        """Mean distance between two different ranks, exactly."""
        total = sum(distance * pairs for distance, pairs in enumerate(self.pairs_by_distance))
        return Fraction(total, self.order * (self.order - 1))

    # The table as bytes, for hosts. Attributes stay with the coordinator.

    def to_bytes(self) -> bytes:
        """Name, labels, links and switches in a compact form; `from_bytes` makes an equal network of it."""
        text = "\n".join([self.name.partition(":")[2], *self._labels]).encode()
        ends = [end for one, _, other, _ in self.links() for end in (one, other)]
        switches = sorted(self.switches)
        header = _HEADER.pack(_MAGIC, self.order, self.link_count, len(switches), len(text))
        return header + compress(text + pack(f"<{len(ends) + len(switches)}I", *ends, *switches))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the network that `to_bytes` wrote; raises FrameError for anything else, before it takes much memory."""
        if len(data) < _HEADER.size:
            raise FrameError(f"malformed network: {len(data)} bytes")
        magic, order, links, switches, text_bytes = _HEADER.unpack_from(data)
        if magic != _MAGIC or order > MAX_NODES or links > MAX_LINKS or switches > order:
            raise FrameError(f"malformed network: its header says {order} nodes, {links} links and {switches} switches")
        if text_bytes > (order + 1) * (4 * MAX_LABEL + 1):
            raise FrameError(f"malformed network: its header says {text_bytes} bytes of labels")
        numbers = 2 * links + switches
        body = _decompressed(data[_HEADER.size :], text_bytes + 4 * numbers)
        values = unpack_from(f"<{numbers}I", body, text_bytes)
        pairs = zip(values[0 : 2 * links : 2], values[1 : 2 * links : 2], strict=True)
        try:
            name, *labels = body[:text_bytes].decode().split("\n")
            if len(labels) != order:
                raise FrameError(f"malformed network: its header says {order} nodes, but it has {len(labels)} labels")
            return cls(name, labels, pairs, switches=values[2 * links :])
        except (UnicodeDecodeError, ScenarioError) as error:
            raise FrameError(f"malformed network: {error}") from None


def label_problem(label: str) -> str | None:
    """Return why `label` cannot be a label, or None if it can."""
    if not label:
        return "a node has an empty label"
    if len(label) > MAX_LABEL:
        return f"label {label[:20]!r}.. has {len(label)} characters; at most {MAX_LABEL} are allowed"
    for character in label:
        if character in FORBIDDEN_IN_LABELS or character == " " or not character.isprintable():
            return f"label {label!r} contains the character {character!r}"
    return None


def parallel_links(one: str, other: str) -> str:
    """Return why there is at most one link between the nodes with these labels."""
    return (
        f"parallel links: two links join {one!r} and {other!r}, and a link is named by its ends (down:{one}~{other}); merge "
        f"them ({MERGE_LINKS}), which adds their rates, or remove the duplicate from the file"
    )


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def _decompressed(data: bytes, size: int) -> bytes:
    """Return exactly `size` bytes that were compressed into all of `data`; never more are produced."""
    decompressor = decompressobj()
    try:
        body = decompressor.decompress(data, size + 1)
    except ZlibError as error:
        raise FrameError(f"malformed network: {error}") from None
    if len(body) != size or decompressor.unused_data or not decompressor.eof:
        raise FrameError(f"malformed network: its header says {size} bytes")
    return body
