"""Reads the files of Chakra execution traces: layout, metadata, nodes and attributes, with a bound on everything."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final
from zlib import MAX_WBITS, decompressobj
from zlib import error as ZlibError  # noqa: N812  # it is an exception

from coordinator.annexes.exports.protobuf import (
    Field,
    WireError,
    fields,
    fixed_number,
    read_varint,
    signed,
    unzigzag,
    whole_numbers,
)
from coordinator.annexes.schedules.base import MOST_BYTES, MOST_OPERATIONS, MOST_RANKS, RefusedScheduleError
from coordinator.history.stored.reading import read_bytes
from emunode.model import Rank

FILE: Final = re.compile(r"(.*)\.(0|[1-9][0-9]{0,6})\.et")
GZIP: Final = b"\x1f\x8b"
COMP, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
MOST_ATTRIBUTES: Final = 256
"""The most attributes of a node, and of the metadata of a rank."""
SHORT: Final = 64
"""The most bytes of an attribute that is kept once it is read."""
MOST_DEPENDENCIES: Final = 4 * MOST_OPERATIONS
"""The most dependencies of all nodes of all ranks."""
TYPES: Final = ("INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL")

NodeAttributes = Mapping[str, int | float | str | bytes]


@dataclass(slots=True)
class TraceNode:
    """One node of the trace of a rank."""

    rank: Rank
    number: int
    type: int
    depends: Sequence[int]
    attributes: NodeAttributes

    @property
    def name(self) -> str:
        """The place of the node in messages."""
        return f"rank {self.rank}, node {self.number}"

    def whole(self, name: str) -> int:
        """Return a whole number. Raises RefusedScheduleError."""
        value = self.attributes.get(name)
        if value is None:
            raise RefusedScheduleError(f"{self.name}: no attribute {name}")
        if not isinstance(value, int):
            raise RefusedScheduleError(f"{self.name}: {name} is no whole number")
        return value


@dataclass
class RankTrace:
    """The trace of one rank."""

    name: str
    metadata: dict[str, int | float | str | bytes] = field(default_factory=dict)
    nodes: dict[int, TraceNode] = field(default_factory=dict)


def set_of(path: Path) -> tuple[str, Sequence[Path]]:
    """Return the name of the set that a file belongs to, and the files by rank. Raises RefusedScheduleError."""
    found = FILE.fullmatch(path.name)
    if found is None:
        raise RefusedScheduleError("expected the name of a trace, such as NAME.0.et")
    name = found[1]
    ranks = sorted(
        int(other[2]) for each in path.parent.iterdir() if (other := FILE.fullmatch(each.name)) and other[1] == name
    )
    if len(ranks) > MOST_RANKS:
        raise RefusedScheduleError(f"it has {len(ranks):,} files; at most {MOST_RANKS:,} are read")
    for rank, present in enumerate(ranks):
        if rank != present:
            raise RefusedScheduleError(f"{name}.{rank}.et is missing, {name}.{present}.et exists")
    return name, [path.with_name(f"{name}.{rank}.et") for rank in ranks]


def read_traces(path: Path) -> Sequence[RankTrace]:
    """Return the traces of the set that a file belongs to, by rank. Raises RefusedScheduleError."""
    _, paths = set_of(path)
    left, budget, traces = MOST_BYTES, _Budget(), []
    for rank, each in enumerate(paths):
        try:
            data = read_bytes(each, left)
        except OSError as error:
            raise RefusedScheduleError(f"{each.name} cannot be read: {error.strerror}") from None
        data = _unpacked(each.name, data, left)
        left -= len(data)
        traces.append(_trace(each.name, rank, data, budget))
    for trace in traces:
        said = trace.metadata.get("num_ranks", len(traces))
        if said != len(traces):
            raise RefusedScheduleError(f"num_ranks is {said!r:.20}, {len(traces)} files exist")
    if len(traces) < 2:
        raise RefusedScheduleError("a schedule has 2 ranks or more, 1 file exists")
    return traces


def _unpacked(name: str, data: bytes, most: int) -> bytes:
    if not data.startswith(GZIP):
        return data
    unpacker = decompressobj(MAX_WBITS | 16)
    try:
        found = unpacker.decompress(data, most)
    except ZlibError as error:
        raise RefusedScheduleError(f"{name}: damaged compression: {error}") from None
    if unpacker.unconsumed_tail:
        raise RefusedScheduleError(f"{name}: it has more than {most:,} bytes unpacked")
    if not unpacker.eof:
        raise RefusedScheduleError(f"{name}: the compressed data is cut short")
    return found


@dataclass
class _Budget:
    """The nodes and dependencies that the files of a set may still have."""

    nodes: int = MOST_OPERATIONS
    dependencies: int = MOST_DEPENDENCIES

    def take_node(self) -> None:
        """Count a node. Raises WireError."""
        self.nodes -= 1
        if self.nodes < 0:
            raise WireError(f"the set has more than {MOST_OPERATIONS:,} nodes")

    def take_dependency(self) -> None:
        """Count a dependency. Raises WireError."""
        self.dependencies -= 1
        if self.dependencies < 0:
            raise WireError(f"the set has more than {MOST_DEPENDENCIES:,} dependencies")


def _trace(name: str, rank: Rank, data: bytes, budget: _Budget) -> RankTrace:
    """Return the trace in the bytes of one file."""
    trace, place, number = RankTrace(name), 0, 0
    if not data:
        raise RefusedScheduleError(f"{name}: the file is empty")
    while place < len(data):
        at = f"{name}, message {number}"
        try:
            size, place = read_varint(data, place, 5)
            if size > len(data) - place:
                raise RefusedScheduleError(f"{at}: {size} bytes are announced, {len(data) - place} are left")
            message = data[place : place + size]
            if number == 0:
                trace.metadata.update(_attributes(fields(message), 2))
            else:
                budget.take_node()
                node = _node(rank, message, budget)
                if node.number in trace.nodes:
                    raise RefusedScheduleError(f"{at}: node {node.number} exists already")
                trace.nodes[node.number] = node
        except WireError as error:
            raise RefusedScheduleError(f"{at}: {error}") from None
        place += size
        number += 1
    said = trace.metadata.get("num_nodes", len(trace.nodes))
    if said != len(trace.nodes):
        raise RefusedScheduleError(f"{name}: num_nodes is {said!r:.20}, the file has {len(trace.nodes)}")
    return trace


def _node(rank: Rank, message: bytes, budget: _Budget) -> TraceNode:
    number, kind = 0, 0
    # A dictionary keeps the order, and each number once.
    depends: dict[int, None] = {}
    found = list(fields(message))
    for key, wire, value in found:
        if key in (1, 3) and isinstance(value, int):
            number, kind = (value, kind) if key == 1 else (number, value)
        elif key in (4, 5):
            for other in whole_numbers(wire, value):
                budget.take_dependency()
                depends[other] = None
    return TraceNode(rank, number, kind, list(depends), _attributes(found, 10))


def _attributes(message: Iterable[Field], field_number: int) -> dict[str, int | float | str | bytes]:
    """Return the attributes in the field of this number, by name. Raises WireError."""
    found: dict[str, int | float | str | bytes] = {}
    for key, _, value in message:
        if key == field_number:
            found.update([_attribute(value)])
            if len(found) > MOST_ATTRIBUTES:
                raise WireError(f"it has more than {MOST_ATTRIBUTES} attributes")
    return found


def _attribute(message: int | bytes) -> tuple[str, int | float | str | bytes]:
    """Return the name and the value of an attribute; lists have the value of no use here, an empty text."""
    if isinstance(message, int):
        raise WireError("not a Chakra message (an attribute is a number)")
    # Nodes share most attributes: a third of the time of reading a trace. Long ones would fill the memory.
    return _read_once(message) if len(message) <= SHORT else _read(message)


def _read(message: bytes) -> tuple[str, int | float | str | bytes]:
    name, value = "", 0
    found: int | float | str | bytes = value
    for key, wire, part in fields(message):
        if key == 1 and isinstance(part, bytes):
            name = part.decode("utf-8", "replace")
        elif key >= 3:
            found = _scalar(key, wire, part)
    return name, found


_read_once = lru_cache(4096)(_read)


def _scalar(key: int, wire: int, part: int | bytes) -> int | float | str | bytes:
    if isinstance(part, int):
        return unzigzag(part) if key in (15, 17) else signed(part)
    if wire in (1, 5):
        return fixed_number(wire, part, floating=key in (3, 5), negative=key in (23, 25))
    return part.decode("utf-8", "replace") if key == 29 else part if key == 31 else ""
