"""Readers of network files, one per suffix: from bytes to a `DeclaredNetwork`; ValueError for unreadable content.

Most formats are read here, because the readers of networkx merge repeated nodes, create undeclared ones and skip lines
silently. networkx reads GML and sparse6.
"""

import json
import re
from ast import literal_eval
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, cast
from xml.etree.ElementTree import Element, ParseError, XMLPullParser

from coordinator.scenario.declared_network import DeclaredNetwork
from emunode.topologies.table import MAX_LINKS, MAX_NODES

if TYPE_CHECKING:
    import networkx

XML_CHUNK: Final = 1 << 16
MAX_DENSE_NODES: Final = 20_000
"""graph6 has a bit for every pair of nodes."""
TUPLE_TOKEN: Final = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[()]""")
"""A text in quotes, or a parenthesis outside of any."""
MAX_DICTIONARY: Final = 1_000
"""Characters in the dictionary of one link of an edge list."""


def text_of(data: bytes) -> str:
    """Return the text of a file, with or without a byte order mark."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text: byte {data[error.start]:#04x} at offset {error.start}") from None


def declared(graph: "networkx.Graph[Any]", *, labelled: bool = False) -> DeclaredNetwork:
    """Return the nodes and links of a networkx graph of any kind.

    Nodes are called by their text, or by their attribute `label` if `labelled`.
    """
    network = DeclaredNetwork(directed=graph.is_directed())
    labels = unique_labels(network, dict(graph.nodes(data="label"))) if labelled else {}
    for node, attributes in graph.nodes(data=True):
        network.add_node(node, attributes, label=labels.get(node))
    for one, other, attributes in graph.edges(data=True):
        network.add_link(one, other, attributes)
    return network


# --- GraphML -----------------------------------------------------------------------------------------------------------

CONVERTERS: Final[Mapping[str, Callable[[str], object]]] = {
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "boolean": lambda text: {"true": True, "1": True, "false": False, "0": False}[text.lower()],
    "string": str,
}


def read_graphml(data: bytes) -> DeclaredNetwork:
    """Read a document with one `graph`. Entities are never expanded, because a document that declares any is refused."""
    text = text_of(data)
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ValueError("it has a document type declaration (<!DOCTYPE ..>), which may declare entities; remove it")
    reader = GraphmlReader()
    parser: XMLPullParser[Element] = XMLPullParser(("start", "end"))
    try:
        for start in range(0, len(text), XML_CHUNK):
            parser.feed(text[start : start + XML_CHUNK])
            reader.read(parser)
        parser.close()
        reader.read(parser)
    except ParseError as error:
        raise ValueError(f"it is not XML: {error}") from None
    return reader.finish()


class GraphmlReader:
    """Reads elements as they are complete, and frees them: a document may be larger than its network by far."""

    def __init__(self) -> None:
        self._open: list[Element] = []
        self._graphs = 0
        self._directed = False
        self._directions = set[bool]()
        self._keys: dict[str, tuple[str, str, str]] = {}
        """By id: the element that has the attribute, its name and its type."""
        self._defaults: dict[str, dict[str, object]] = {"node": {}, "edge": {}}
        self._nodes: list[tuple[str, dict[str, object]]] = []
        self._drawn: dict[str, str] = {}
        """The text that yEd draws in a node, by its id."""
        self._links: list[tuple[str, str, dict[str, object]]] = []
        self._unknown_directions: list[str] = []

    def read(self, parser: "XMLPullParser[Element]") -> None:
        """Take the elements that the parser has ready."""
        for event, element in cast("Iterator[tuple[str, Element]]", parser.read_events()):
            if event == "start":
                self._start(element)
                self._open.append(element)
            else:
                self._open.pop()
                self._end(element)

    def finish(self) -> DeclaredNetwork:
        """Return the network, with links after all nodes: a file may declare them in any order."""
        if self._graphs != 1:
            raise ValueError(f"{self._graphs or 'no'} graphs in the file, expected one")
        if self._unknown_directions:
            raise ValueError(f"unknown edgedefault {self._unknown_directions[0]!r}; known are directed and undirected")
        if len(self._directions) > 1:
            raise ValueError("directed and undirected edges are mixed")
        network = DeclaredNetwork(directed=self._directions == {True})
        # Drawings of yEd show names that are no attributes.
        names = {node: self._drawn.get(node, attributes.get("label")) for node, attributes in self._nodes}
        labels = unique_labels(network, names)
        for node, attributes in self._nodes:
            network.add_node(node, attributes, label=labels.get(node))
        for one, other, attributes in self._links:
            network.add_link(one, other, attributes)
        return network

    def _start(self, element: Element) -> None:
        match local_name(element):
            case "graph":
                if any(local_name(outer) == "graph" for outer in self._open):
                    raise ValueError("a graph inside a node cannot be read")
                self._graphs += 1
                direction = element.get("edgedefault", "undirected")
                self._directed = direction == "directed"
                if direction not in ("directed", "undirected"):
                    self._unknown_directions.append(direction)
            case "hyperedge":
                raise ValueError("a hyperedge joins any number of nodes; a link joins two nodes")

    def _end(self, element: Element) -> None:
        kind = local_name(element)
        if kind == "key":
            self._add_key(element)
        elif kind in ("node", "edge"):
            attributes = {**self._defaults[kind], **dict(self._values(element, kind))}
            if kind == "node":
                node = required(element, "id", f"node {len(self._nodes) + 1}")
                self._nodes.append((node, attributes))
                if label := drawn_label(element):
                    self._drawn[node] = label
            else:
                self._add_edge(element, attributes)
            self._open[-1].clear()

    def _add_key(self, element: Element) -> None:
        of, name = element.get("for", "all"), element.get("attr.name")
        key = required(element, "id", "a key")
        if name is None:  # an extension of some editor
            name = key
        self._keys[key] = of, name, element.get("attr.type", "string")
        for child in element:
            if local_name(child) == "default":
                for kind in ("node", "edge"):
                    if of in (kind, "all"):
                        self._defaults[kind][name] = self._converted(key, child.text or "")

    def _add_edge(self, element: Element, attributes: dict[str, object]) -> None:
        where = f"edge {len(self._links) + 1}"
        self._links.append((required(element, "source", where), required(element, "target", where), attributes))
        directed = element.get("directed")
        self._directions.add(self._directed if directed is None else directed == "true")

    def _values(self, element: Element, kind: str) -> Iterator[tuple[str, object]]:
        """Yield the name and value of every attribute of a node or an edge."""
        for child in element:
            if local_name(child) == "data":
                key = required(child, "key", f"data of a {kind}")
                if key not in self._keys:
                    raise ValueError(f"the attribute {key!r} of a {kind} is not declared by a key before the graph")
                if not len(child):
                    yield self._keys[key][1], self._converted(key, child.text or "")

    def _converted(self, key: str, text: str) -> object:
        _, name, kind = self._keys[key]
        try:
            return CONVERTERS[kind](text)
        except (KeyError, ValueError):
            raise ValueError(f"the value {text[:50]!r} of the attribute {name!r} is not of type {kind}") from None


def drawn_label(node: Element) -> str | None:
    """Return the first label that yEd draws in a node."""
    texts = ((element.text or "").strip() for element in node.iter() if local_name(element) == "NodeLabel")
    return next(filter(None, texts), None)


def unique_labels(network: DeclaredNetwork, names: Mapping[Any, object]) -> dict[Any, str]:
    """Return the labels of nodes with these names, or none with a remark if any name is missing or repeated."""
    labels = {node: str(name) for node, name in names.items() if name is not None}
    if len(set(labels.values())) == len(names):
        return labels
    if labels:
        (label, count), *_ = Counter(labels.values()).most_common(1)
        reason = f"{count} nodes have the label {label!r}" if count > 1 else f"{len(names) - len(labels)} have no label"
        network.remarks.append(f"nodes are called by their ids, since {reason}")
    return {}


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace."""
    return element.tag.rpartition("}")[2]


def required(element: Element, attribute: str, where: str) -> str:
    """Return an attribute that an element must have."""
    value = element.get(attribute)
    if value is None:
        raise ValueError(f"missing {attribute}: {where} has none")
    return value


# --- GML ---------------------------------------------------------------------------------------------------------------


def read_gml(data: bytes) -> DeclaredNetwork:
    """Read GML. Nodes are called by their labels, or by their ids if any label is missing or repeated."""
    import networkx  # noqa: PLC0415  # it takes a quarter of a second to import

    try:
        graph = networkx.parse_gml(text_of(data).split("\n"), label="id")
    except Exception as error:  # a malformed record surfaces as any exception
        raise ValueError(f"it is not GML: {shortened(error)}") from None
    return declared(graph, labelled=True)


def shortened(error: Exception) -> str:
    """Return the message of a library about a file, cut because it may quote all of it."""
    text = str(error) or type(error).__name__
    return text if len(text) <= 200 else f"{text[:200]} .."


# --- node-link JSON ----------------------------------------------------------------------------------------------------


def load_json(data: bytes) -> object:
    """Parse a JSON document; ValueError if the text is not JSON."""
    try:
        return json.loads(text_of(data))
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    except RecursionError:
        raise ValueError("it is not a network: its records are nested too deeply") from None


def read_node_link(document: object) -> DeclaredNetwork:
    """Read a document in the form of `networkx.node_link_data`, with its links under `edges`, or under `links` like
    before 3.6.
    """
    if not isinstance(document, dict) or not isinstance(document.get("nodes"), list):
        raise ValueError("it has no list of nodes under 'nodes' (node-link JSON)")
    links = [document[key] for key in ("edges", "links") if key in document]
    if len(links) != 1 or not isinstance(links[0], list):
        raise ValueError("it needs one list of links, under 'edges' or 'links'")
    network = DeclaredNetwork(directed=document.get("directed") is True)
    for number, node in enumerate(document["nodes"]):
        network.add_node(node_id(node, "id", f"node {number}"), others(node, "id"))
    for number, link in enumerate(links[0]):
        one, other = (node_id(link, end, f"link {number}") for end in ("source", "target"))
        network.add_link(one, other, others(link, "source", "target", "key"))
    return network


def node_id(record: object, key: str, where: str) -> Hashable:
    """Return the text or whole number under `key`, or the tuple of such for a list."""
    if not isinstance(record, dict):
        raise ValueError(f"{where} is not an object")
    if key not in record:
        raise ValueError(f"missing {key}: {where} has none")
    try:
        return plain_id(record[key])
    except ValueError:
        raise ValueError(
            f"the {key} of {where} is {str(record[key])[:50]}, expected text or a whole number, or a list of these"
        ) from None


def plain_id(value: object) -> Hashable:
    """Return the id of a node in Python: JSON has lists for tuples."""
    match value:
        case list():
            return tuple(map(plain_id, value))
        case bool():
            pass
        case str():
            return value
        case int() if abs(value) < 2**63:
            return value
    raise ValueError(value)


def others(record: Mapping[str, object], *keys: str) -> dict[str, object]:
    """Return the entries of a record under other keys."""
    return {key: value for key, value in record.items() if key not in keys}


# --- graph6 and sparse6 ------------------------------------------------------------------------------------------------


def read_graph6(data: bytes) -> DeclaredNetwork:
    """Read a bit for every pair of nodes, column by column of the upper triangle."""
    order, rest = announced_order(single_graph(data, b">>graph6<<"))
    pairs = order * (order - 1) // 2
    if order > MAX_DENSE_NODES:
        raise ValueError(f"{order:,} nodes are too many for graph6; at most {MAX_DENSE_NODES:,}: use sparse6")
    if len(rest) != -(-pairs // 6):
        raise ValueError(f"{order} nodes need {-(-pairs // 6)} bytes after their number, found {len(rest)}")
    import numpy as np  # noqa: PLC0415  # it starts threads, and every plan imports this module

    sixes = np.frombuffer(rest, dtype=np.uint8) - 63
    bits = np.unpackbits(sixes[:, None], axis=1)[:, 2:].reshape(-1)[:pairs]
    at = np.flatnonzero(bits)
    # Column j holds the pairs (0, j) .. (j-1, j) and begins at j (j-1) / 2.
    columns = ((1 + np.sqrt(1 + 8 * at)) // 2).astype(np.int64)
    rows = at - columns * (columns - 1) // 2
    network = DeclaredNetwork()
    for node in range(order):
        network.add_node(node)
    for one, other in zip(rows.tolist(), columns.tolist(), strict=True):
        network.add_link(one, other)
    return network


def read_sparse6(data: bytes) -> DeclaredNetwork:
    """Read a list of links in a stream of bits."""
    import networkx  # noqa: PLC0415  # see `read_gml`

    line = single_graph(data, b">>sparse6<<")
    if not line.startswith(b":"):
        raise ValueError("a sparse6 graph begins with a colon")
    order, rest = announced_order(line[1:])
    # Each entry of the stream makes a link or moves on to another node.
    entries = 6 * len(rest) // (1 + max(1, (order - 1).bit_length()))
    if order > MAX_NODES or entries > MAX_LINKS + 2 * order:
        raise ValueError(
            f"{order:,} nodes and up to {entries:,} links are too many; at most {MAX_NODES:,} nodes and {MAX_LINKS:,} links"
        )
    try:
        return declared(networkx.from_sparse6_bytes(line))
    except (networkx.NetworkXException, ValueError, IndexError) as error:
        raise ValueError(f"it is not sparse6: {shortened(error)}") from None


def single_graph(data: bytes, header: bytes) -> bytes:
    """Return the only line of a file, without the header of its format."""
    lines = [line.strip(b"\r") for line in data.removeprefix(header).split(b"\n") if line.strip(b"\r")]
    if len(lines) != 1:
        raise ValueError(f"{len(lines) or 'no'} graphs in the file, expected one")
    for byte in lines[0].removeprefix(b":"):
        if not 63 <= byte <= 126:
            raise ValueError(f"bad byte {byte:#04x}: the bytes of this format are 63..126")
    return lines[0]


def announced_order(line: bytes) -> tuple[int, bytes]:
    """Return the number of nodes (written in 1, 4 or 8 bytes) and the rest of the bytes."""
    skipped, digits = (2, 6) if line[:2] == b"~~" else (1, 3) if line[:1] == b"~" else (0, 1)
    number, rest = line[skipped : skipped + digits], line[skipped + digits :]
    if len(number) < digits:
        raise ValueError("it ends within the number of nodes")
    order = 0
    for byte in number:
        order = order << 6 | (byte - 63)
    return order, rest


# --- edge lists --------------------------------------------------------------------------------------------------------


def read_edge_list(data: bytes) -> DeclaredNetwork:
    """Read a link per line: two nodes, then nothing, a weight, or a dictionary of attributes.

    `#` begins a comment, and so does `%` at the beginning of a line.
    """
    network = DeclaredNetwork()
    for number, line in enumerate(text_of(data).split("\n"), 1):
        words = [] if line.startswith("%") else list(edge_words(line.partition("#")[0]))
        if not words:
            continue
        if len(words) < 2:
            raise ValueError(f"line {number}: expected two nodes separated by a blank, found {words[0][:50]!r}")
        for node in words[:2]:
            if node not in network:
                network.add_node(node)
        network.add_link(words[0], words[1], link_attributes(words[2].strip(), number) if words[2:] else None)
    return network


def edge_words(line: str) -> Iterator[str]:
    """Yield both nodes of a line, and the rest if there is any; a tuple is one name, blanks included."""
    for _ in range(2):
        line = line.strip()
        end = tuple_end(line) or len(line.split(maxsplit=1)[0]) if line else 0
        if end:
            yield line[:end]
        line = line[end:]
    if line.strip():
        yield line.strip()


def tuple_end(line: str) -> int:
    """Return the length of the tuple that a line begins with; 0 if it begins with none."""
    depth = 0
    for token in TUPLE_TOKEN.finditer(line if line.startswith("(") else ""):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if not depth:
            return token.end() if line[token.end() : token.end() + 1].strip() == "" else 0
    return 0


def link_attributes(text: str, number: int) -> dict[str, object]:
    """Return the attributes at the end of a line."""
    try:
        if not text.startswith("{"):
            return {"weight": float(text)}
        value = literal_eval(text) if len(text) <= MAX_DICTIONARY else None
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise ValueError(
            f"line {number}: expected a weight or a dictionary after the nodes, found {text[:50]!r}; "
            "names have no blanks, except tuples in parentheses"
        )
    return value


# --- topology text of ns-3 ---------------------------------------------------------------------------------------------

NS3_FIRST_LINES: Final[Mapping[int, tuple[str, ...]]] = {
    3: ("nodes", "switches", "links"),
    6: ("nodes", "gpus_per_server", "nvswitches", "switches", "links", "gpu_type"),
    7: ("nodes", "gpus_per_server", "nvswitches", "switches", "links", "gpu_type", "gpus_per_node"),
}
"""The meaning of the words of the first line, by their number."""
NS3_LINK: Final = ("rate", "delay", "error_rate")


def read_ns3(data: bytes) -> DeclaredNetwork:
    """Read the format of HPCC, ASTRA-sim and SimAI: counts, the ids of the switches, then five words for every link."""
    first, _, rest = text_of(data).partition("\n")
    names = NS3_FIRST_LINES.get(len(first.split()))
    if names is None:
        known = "; ".join(" ".join(words) for words in NS3_FIRST_LINES.values())
        raise ValueError(f"line 1 has {len(first.split())} words; expected one of: {known}")
    counts = dict(zip(names, first.split(), strict=True))
    nodes, switches, links = (whole_number(counts[name], name) for name in ("nodes", "switches", "links"))
    nvswitches = whole_number(counts.get("nvswitches", "0"), "nvswitches")
    if nodes > MAX_NODES or links > MAX_LINKS or switches + nvswitches > nodes:
        raise ValueError(
            f"{nodes:,} nodes, {switches + nvswitches:,} switches and {links:,} links do not fit: at most {MAX_NODES:,} "
            f"nodes, {MAX_LINKS:,} links, and no more switches than nodes"
        )
    words = iter(rest.split())
    network = DeclaredNetwork()
    forwarding = [whole_number(next(words, "nothing"), "switch") for _ in range(nvswitches + switches)]
    for node in range(nodes):
        network.add_node(node)
    for switch in forwarding:
        if switch not in network or switch in network.switches:
            raise ValueError(f"switch {switch} is not a node or is listed twice; nodes are 0..{nodes - 1}")
        network.switches.add(switch)
    add_ns3_links(network, list(words), links)
    return network


def add_ns3_links(network: DeclaredNetwork, words: list[str], links: int) -> None:
    """Add `links` links of five words each."""
    if len(words) != 5 * links:
        raise ValueError(f"{links} links announced, which are {5 * links} words; found {len(words)}")
    for at in range(0, len(words), 5):
        one, other, *values = words[at : at + 5]
        attributes = dict(zip(NS3_LINK, values, strict=True))
        network.add_link(whole_number(one, "source"), whole_number(other, "destination"), attributes)


def whole_number(word: str, name: str) -> int:
    """Return a count or an id."""
    if not (word.isascii() and word.isdigit()):
        raise ValueError(f"{name}: expected a whole number, found {word[:50]!r}")
    if len(word) > 9:
        raise ValueError(f"{name}: {word[:50]} is too large; at most {10**9 - 1:,}")
    return int(word)


READERS: Final[Mapping[str, Callable[[bytes], DeclaredNetwork]]] = {
    ".graphml": read_graphml,
    ".gml": read_gml,
    ".json": lambda data: read_node_link(load_json(data)),
    ".g6": read_graph6,
    ".s6": read_sparse6,
    ".edges": read_edge_list,
    ".topo": read_ns3,
}
"""By the suffix of the file."""
