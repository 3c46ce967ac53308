"""Chakra execution traces: one file for each rank, NAME.0.et, NAME.1.et, .., a graph of sends, receipts and computations.

The public attributes say who sends how many bytes to whom, and what depends on what. They do not say what a message
contains, so contents are judged only where the nodes name their cells (`contents` is `cells-1`).
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final
from zlib import MAX_WBITS, decompressobj
from zlib import error as ZlibError  # noqa: N812  # it is an exception

from coordinator.schedules.base import (
    MOST_BYTES,
    MOST_OPERATIONS,
    MOST_RANKS,
    FileJudgement,
    FileVerdict,
    HopTimetable,
    RefusedScheduleError,
    ScheduleFile,
    ScheduleFormat,
    ScheduleSource,
)
from coordinator.schedules.chunk_file import ChunkFile
from coordinator.schedules.chunk_program import (
    BUFFERS,
    COLLECTIVES,
    OPERATIONS,
    SENDING,
    Cell,
    ChunkOperation,
    ChunkProgram,
    ProgramGpu,
    ThreadBlock,
)
from coordinator.schedules.formats.msccl import msccl_file
from coordinator.schedules.message_run import MessageExecution, RankOperation
from coordinator.schedules.protobuf import (
    WireError,
    fields,
    fixed_number,
    read_varint,
    signed,
    unzigzag,
    whole_numbers,
)
from coordinator.stored.reading import read_bytes
from emunode.model import Rank
from emunode.registry import register
from emunode.topologies.base import Topology

FILE: Final = re.compile(r"(.*)\.(0|[1-9][0-9]{0,6})\.et")
GZIP: Final = b"\x1f\x8b"
CELLS: Final = "cells-1"
TYPES: Final = ("INVALID", "METADATA", "MEM_LOAD", "MEM_STORE", "COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL")
COMP, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
NODES_OF: Final[Mapping[str, tuple[int, ...]]] = {
    "s": (SEND,), "r": (RECEIVE,), "rrc": (RECEIVE, COMP), "cpy": (COMP,), "re": (COMP,), "rcs": (RECEIVE, SEND),
    "rrs": (RECEIVE, COMP, SEND), "rrcs": (RECEIVE, COMP, SEND),
}  # fmt: skip
"""The nodes of an operation of a thread block, in order."""
LONGEST_TEXT: Final = 100


@register
class ChakraFormat(ScheduleFormat):
    """The traces of Chakra; any file of a set stands for all."""

    name = "chakra"
    suffixes = (".et",)

    def recognises(self, source: ScheduleSource) -> bool:
        return source.path.suffix.lower() == ".et"

    def read(self, source: ScheduleSource) -> ScheduleFile:
        return chakra_file(source.path, source.root)


NodeAttributes = Mapping[str, int | float | str | bytes]


@dataclass
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


def chakra_file(path: Path, root: Rank = 0) -> ScheduleFile:
    """Return the schedule of a set of traces. Raises RefusedScheduleError."""
    _, paths = set_of(path)
    left, traces = MOST_BYTES, []
    for rank, each in enumerate(paths):
        try:
            data = read_bytes(each, left)
        except OSError as error:
            raise RefusedScheduleError(f"{each.name} cannot be read: {error.strerror}") from None
        data = _unpacked(each.name, data, left)
        left -= len(data)
        traces.append(_trace(each.name, rank, data))
        if sum(len(trace.nodes) for trace in traces) > MOST_OPERATIONS:
            raise RefusedScheduleError(f"it has more than {MOST_OPERATIONS:,} nodes")
    for trace in traces:
        said = trace.metadata.get("num_ranks", len(traces))
        if said != len(traces):
            raise RefusedScheduleError(f"num_ranks is {said!r:.20}, {len(traces)} files exist")
    if len(traces) < 2:
        raise RefusedScheduleError("a schedule has 2 ranks or more, 1 file exists")
    return ChakraFile(traces, root)


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


def _trace(name: str, rank: Rank, data: bytes) -> RankTrace:
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
                trace.metadata.update(_attribute(value) for key, _, value in fields(message) if key == 2)
            else:
                node = _node(rank, message)
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


def _node(rank: Rank, message: bytes) -> TraceNode:
    number, kind = 0, 0
    depends: list[int] = []
    attributes = []
    for key, wire, value in fields(message):
        if key in (1, 3) and isinstance(value, int):
            number, kind = (value, kind) if key == 1 else (number, value)
        elif key in (4, 5):
            depends += whole_numbers(wire, value)
        elif key == 10:
            attributes.append(_attribute(value))
    return TraceNode(rank, number, kind, list(dict.fromkeys(depends)), dict(attributes))


def _attribute(message: int | bytes) -> tuple[str, int | float | str | bytes]:
    """Return the name and the value of an attribute; lists have the value of no use here, an empty text."""
    if isinstance(message, int):
        raise WireError("not a Chakra message (an attribute is a number)")
    name, value = "", 0
    found: int | float | str | bytes = value
    for key, wire, part in fields(message):
        if key == 1 and isinstance(part, bytes):
            name = part.decode("utf-8", "replace")
        elif key >= 3:
            found = _scalar(key, wire, part)
    return name, found


def _scalar(key: int, wire: int, part: int | bytes) -> int | float | str | bytes:
    if isinstance(part, int):
        return unzigzag(part) if key in (15, 17) else signed(part)
    if wire in (1, 5):
        return fixed_number(wire, part, floating=key in (3, 5), negative=key in (23, 25))
    return part.decode("utf-8", "replace") if key == 29 else part if key == 31 else ""


class ChakraFile(ScheduleFile):
    """The traces of all ranks."""

    format = ChakraFormat.name
    place = "rank "

    def __init__(self, traces: Sequence[RankTrace], root: Rank) -> None:
        self.traces = traces
        self.operations: list[RankOperation] = []
        self._nodes: list[TraceNode] = []
        for trace in traces:
            self._read_trace(trace)
        if not any(each.kind == "send" for each in self.operations):
            raise RefusedScheduleError("no node sends: nothing to check")
        named = str(traces[0].metadata.get("collective", ""))
        self.collective = COLLECTIVES.get(named.replace("reduce_scatter", "reducescatter"), "")
        self.program: ChunkFile | None = None
        self._node_of: dict[tuple[Rank, int, int], int] = {}
        if traces[0].metadata.get("contents") == CELLS:
            program = self._program(root)
            program.require_sound()
            self.program = ChunkFile(self.format, program)
        self.embedded = self._embedded(root)

    def _read_trace(self, trace: RankTrace) -> None:
        first = len(self.operations)
        # The order of nodes in a file means nothing.
        place = {number: first + at for at, number in enumerate(sorted(trace.nodes))}
        for number in sorted(trace.nodes):
            node = trace.nodes[number]
            for other in node.depends:
                if other not in place:
                    raise RefusedScheduleError(f"{node.name}: depends on node {other}, which does not exist")
            operation = self._operation(node)
            operation.after = [place[other] for other in node.depends]
            self.operations.append(operation)
            self._nodes.append(node)

    def _operation(self, node: TraceNode) -> RankOperation:
        if node.type == COMP:
            return RankOperation(node.rank, "calc", name=str(node.number))
        if node.type not in (SEND, RECEIVE):
            kind = TYPES[node.type] if node.type < len(TYPES) else str(node.type)
            reason = "names a collective, it is no schedule" if node.type == COLLECTIVE else "is not run"
            raise RefusedScheduleError(f"{node.name}: {kind}_NODE {reason}")
        own, other = ("comm_src", "comm_dst") if node.type == SEND else ("comm_dst", "comm_src")
        if own in node.attributes and node.whole(own) != node.rank:
            raise RefusedScheduleError(f"{node.name}: {own} is {node.whole(own)}, the file is of rank {node.rank}")
        peer = node.whole(other)
        if not 0 <= peer < len(self.traces):
            raise RefusedScheduleError(f"{node.name}: {other} is {peer}, there are ranks 0..{len(self.traces) - 1}")
        if peer == node.rank:
            raise RefusedScheduleError(f"{node.name}: its peer is itself")
        tag = node.whole("comm_tag") if "comm_tag" in node.attributes else 0
        named = next((name for name in ("comm_size", "msg_chunk_cnt") if name in node.attributes), None)
        if named is None:
            raise RefusedScheduleError(f"{node.name}: neither comm_size nor msg_chunk_cnt")
        if (size := node.whole(named)) <= 0 or tag < 0:
            wrong = f"{named} is {size}" if size <= 0 else f"comm_tag is {tag}"
            raise RefusedScheduleError(f"{node.name}: {wrong}")
        return RankOperation(node.rank, "send" if node.type == SEND else "recv", peer, tag, size, name=str(node.number))

    @property
    def labels(self) -> Sequence[str]:
        return [str(rank) for rank in range(len(self.traces))]

    def sends(self) -> Iterator[tuple[str, str]]:
        return ((str(each.rank), str(each.peer)) for each in self.operations if each.kind == "send")

    def require_network(self, topology: Topology) -> None:
        try:
            super().require_network(topology)
        except RefusedScheduleError as error:
            # The number of links is not part of the message of this format.
            raise RefusedScheduleError(re.sub(r"( sends), \d+ links\)", r"\1)", error.allowed)) from None

    # --- judgement

    def judge(self, capacity: int | None = None) -> FileJudgement:
        cycle = self._cycle()
        if cycle:
            return FileJudgement(FileVerdict.VIOLATED, cycle, ranks=len(self.traces))
        run = MessageExecution(self.operations, len(self.traces), capacity)
        found = FileJudgement(
            FileVerdict.HOLDS,
            collective=self.collective,
            ranks=len(self.traces),
            steps=run.steps,
            links=len(run.loads),
            chunks=len(run.crossings),
            largest_link_load=max(run.loads.values(), default=0),
        )
        found = self._matched(run, found)
        if self.program is not None and found.verdict is FileVerdict.HOLDS:
            cells = self.program.judge(capacity)
            if nothing := self.program.read_of_nothing(capacity):
                # Where a node reads too early, that is named, and not the race that it comes from.
                cells = replace(cells, verdict=FileVerdict.VIOLATED, reason=nothing)
            if cells.verdict is not FileVerdict.HOLDS:
                return replace(found, verdict=cells.verdict, reason=self._renamed(cells.reason))
            found = replace(found, redundant=cells.redundant, reason=self._renamed(cells.reason))
        if self.embedded is not None:
            found = self._of_embedded(found, self.embedded, capacity)
        if self.program is None and found.verdict is FileVerdict.HOLDS:
            found = replace(found, reason="contents not judged: the file does not carry them")
        return found

    def _matched(self, run: MessageExecution, found: FileJudgement) -> FileJudgement:
        taken: Counter[tuple[Rank, Rank, int]] = Counter()
        for number, message in sorted(run.received.items()):
            key = message.sender, message.receiver, message.tag
            if (takes := self.operations[number].size) != message.size:
                reason = f"message {taken[key]} has {message.size}, its receiver takes {takes}"
                found = found.violated(f"{key[0]} to {key[1]}, tag {key[2]}: {reason}")
            taken[key] += 1
        unended = run.unended()
        if unended:
            waits = next((each for each in unended if self.operations[each].kind == "recv"), unended[0])
            first = self.operations[waits]
            number = taken[first.peer, first.rank, first.tag]
            found = found.violated(
                f"deadlock: {len(unended)} nodes do not complete; rank {first.rank}, node {first.name} waits for message "
                f"{number} from {first.peer} with tag {first.tag}"
            )
        for sender, receiver, tag, count in run.unreceived():
            found = found.violated(f"{sender} to {receiver}, tag {tag}: {count} messages are never received")
        return found

    def _cycle(self) -> str:
        """Return the first cycle of dependencies inside a rank, in words; empty if there is no cycle."""
        for rank, trace in enumerate(self.traces):
            try:
                TopologicalSorter({number: node.depends for number, node in trace.nodes.items()}).prepare()
            except CycleError as error:
                nodes = sorted(set(error.args[1]))
                return f"deadlock: rank {rank}, nodes {nodes[:16]} wait for each other"
        return ""

    def _renamed(self, reason: str) -> str:
        """Return a reason about a program in the words of traces."""
        words = re.sub(
            r"gpu (\d+), tb (\d+), step (\d+)",
            lambda at: f"rank {at[1]}, node {self._node_of.get((int(at[1]), int(at[2]), int(at[3])), '?')}",
            reason,
        )
        return words.replace("gpu ", "rank ")

    # --- an MSCCL text in the metadata

    def _embedded(self, root: Rank) -> ChunkFile | None:
        text = self.traces[0].metadata.get("input_file")
        if not isinstance(text, str) or "<algo" not in text:
            return None
        return msccl_file(text.encode(), root)

    def _of_embedded(self, found: FileJudgement, embedded: ChunkFile, capacity: int | None) -> FileJudgement:
        theirs = Counter(
            (block.gpu, block.send, block.channel)
            for block in embedded.program.blocks
            for operation in block.operations
            if operation.type in SENDING
        )
        if theirs != Counter((each.rank, each.peer, each.tag) for each in self.operations if each.kind == "send"):
            return found.violated("the nodes are not those of input_file")
        judged = embedded.judge(capacity)
        return (
            found
            if judged.verdict is FileVerdict.HOLDS
            else found.violated(f"input_file: {judged.reason}", judged.line)
        )

    # --- cells

    def _program(self, root: Rank) -> ChunkProgram:
        """Return the program of thread blocks that the nodes name."""
        first = self.traces[0].metadata
        numbers = {}
        for name in ("nchunksperloop", "inplace"):
            value = first.get(name)
            if not isinstance(value, int):
                raise RefusedScheduleError(f"contents is {CELLS}, and the metadata has no number {name}")
            numbers[name] = value
        if not self.collective:
            raise RefusedScheduleError(f"collective {str(first.get('collective'))!r:.40} is not known")
        if not 1 <= numbers["nchunksperloop"] <= MOST_OPERATIONS:
            raise RefusedScheduleError(f"nchunksperloop is {numbers['nchunksperloop']}")
        said = first.get("root", root)
        gpus = [self._gpu(rank, trace) for rank, trace in enumerate(self.traces)]
        return ChunkProgram(
            "", self.collective, numbers["inplace"] == 1, numbers["nchunksperloop"], gpus, root or int(said)
        )

    def _gpu(self, rank: Rank, trace: RankTrace) -> ProgramGpu:
        cells = {}
        for buffer in BUFFERS:
            count = trace.metadata.get(f"{buffer}_chunks")
            if not isinstance(count, int) or not 0 <= count <= MOST_OPERATIONS:
                raise RefusedScheduleError(f"{trace.name}: {buffer}_chunks is {count!r:.20}")
            cells[buffer] = count
        groups: dict[tuple[int, int], list[TraceNode]] = {}
        for number in sorted(trace.nodes):
            node = trace.nodes[number]
            for name in ("tb_id", "local_time_step", "step_type"):
                if name not in node.attributes:
                    raise RefusedScheduleError(f"{node.name}: contents is {CELLS}, no attribute {name}")
            groups.setdefault((node.whole("tb_id"), node.whole("local_time_step")), []).append(node)
        ordered = {key: _in_order(group) for key, group in groups.items()}
        ends = {group[-1].number: key for key, group in ordered.items()}
        blocks = _Blocks(rank)
        block_of = {key: blocks.of(key[0], ordered[key]) for key in sorted(ordered)}
        awaited: dict[tuple[int, int], list[tuple[int, int]]] = {}
        place: dict[tuple[int, int], int] = {}
        sizes: Counter[int] = Counter()
        for key in sorted(ordered):
            wanted = [ends.get(other) for other in ordered[key][0].depends]
            block = block_of[key]
            others = [end for end in dict.fromkeys(wanted) if end is not None and block_of[end] is not block]
            awaited[key] = others
            # A thread block waits for one other step at a time, so further ones become operations of their own.
            place[key] = sizes[block.number] + max(len(others) - 1, 0)
            sizes[block.number] = place[key] + 1
        for key in sorted(ordered):
            block, first = block_of[key], ordered[key][0]
            waits = [(block_of[end].number, place[end]) for end in awaited[key]]
            block.operations += [ChunkOperation("nop", ("i", 0), ("i", 0), 0, each, 0) for each in waits[1:]]
            self._node_of[rank, block.number, place[key]] = first.number
            block.operations.append(_operation(ordered[key], waits[0] if waits else None))
        return ProgramGpu(rank, cells, (), blocks.all)

    def timetable(self, capacity: int | None = None) -> HopTimetable:
        if self.program is None:
            raise RefusedScheduleError("the traces do not say what messages contain, so they are judged, and not run")
        return self.program.timetable(capacity)


class _Blocks:
    """The thread blocks of a rank. One of a trace may have several peers, and is split by them."""

    def __init__(self, rank: Rank) -> None:
        self.rank = rank
        self.all: list[ThreadBlock] = []
        self._split: dict[int, list[ThreadBlock]] = {}
        self._tail: dict[int, int] = {}
        """By thread block, its last node."""

    def of(self, number: int, group: Sequence[TraceNode]) -> ThreadBlock:
        """Return the thread block for the peers of an operation."""
        send = next((node.whole("comm_dst") for node in group if node.type == SEND), -1)
        receive = next((node.whole("comm_src") for node in group if node.type == RECEIVE), -1)
        tags = [node.whole("comm_tag") if "comm_tag" in node.attributes else 0 for node in group if node.type != COMP]
        channel = tags[0] if tags else -1
        wanted = (send, receive, channel)
        for block in self._split.setdefault(number, []):
            own = (block.send, block.receive, block.channel)
            # Only dependencies order the nodes of a trace, whatever their thread block is.
            follows = self._tail[block.number] in group[0].depends
            if follows and all(-1 in pair or pair[0] == pair[1] for pair in zip(own, wanted, strict=True)):
                self._tail[block.number] = group[-1].number
                block.send, block.receive, block.channel = map(max, own, wanted)
                return block
        block = ThreadBlock(self.rank, len(self.all), send, receive, channel, 0)
        self._split[number].append(block)
        self._tail[block.number] = group[-1].number
        self.all.append(block)
        return block


def _in_order(group: Sequence[TraceNode]) -> Sequence[TraceNode]:
    """Return the nodes of one operation so that each depends on the node before."""
    depth = {node.number: 0 for node in group}
    for _ in group:
        for node in group:
            depth[node.number] = max((depth[other] + 1 for other in node.depends if other in depth), default=0)
    return sorted(group, key=lambda node: depth[node.number])


def _operation(group: Sequence[TraceNode], waits: tuple[int, int] | None) -> ChunkOperation:
    """Return the operation that some nodes of one step of a thread block make up."""
    first = group[0]
    kind = str(first.attributes["step_type"])
    if kind not in OPERATIONS or tuple(node.type for node in group) != NODES_OF.get(kind):
        raise RefusedScheduleError(f"{first.name}: these nodes are no operation {kind!r:.20}")
    size = first.whole("cnt")
    if not 1 <= size <= MOST_OPERATIONS:
        raise RefusedScheduleError(f"{first.name}: cnt is {size}")
    return ChunkOperation(kind, _cell(first, "src"), _cell(first, "dst"), size, waits, 0)


def _cell(node: TraceNode, prefix: str) -> Cell:
    name = f"{prefix}buf"
    if name not in node.attributes or f"{prefix}off" not in node.attributes:
        missing = name if name not in node.attributes else f"{prefix}off"
        raise RefusedScheduleError(f"{node.name}: contents is {CELLS}, no attribute {missing}")
    buffer = str(node.attributes[name])
    if buffer not in BUFFERS:
        raise RefusedScheduleError(f"{node.name}: there is no buffer {buffer!r:.20}")
    return buffer, node.whole(f"{prefix}off")
