"""The program of thread blocks in Chakra traces whose nodes name their cells: `contents` is `cells-1`."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from coordinator.annexes.schedules.base import MOST_OPERATIONS, RefusedScheduleError
from coordinator.annexes.schedules.chakra_traces import COMP, RECEIVE, SEND, RankTrace, TraceNode
from coordinator.annexes.schedules.chunk_program import (
    BUFFERS,
    OPERATIONS,
    Cell,
    ChunkOperation,
    ChunkProgram,
    ProgramGpu,
    ThreadBlock,
)
from emunode.model import Rank

CELLS: Final = "cells-1"
NODES_OF: Final[Mapping[str, tuple[int, ...]]] = {
    "s": (SEND,), "r": (RECEIVE,), "rrc": (RECEIVE, COMP), "cpy": (COMP,), "re": (COMP,), "rcs": (RECEIVE, SEND),
    "rrs": (RECEIVE, COMP, SEND), "rrcs": (RECEIVE, COMP, SEND),
}  # fmt: skip
"""The nodes of an operation of a thread block, in order."""


class CellProgram:
    """The program that the nodes of some traces name."""

    def __init__(self, traces: Sequence[RankTrace], collective: str, root: Rank) -> None:
        self._traces = traces
        self._collective = collective
        self.node_of: dict[tuple[Rank, int, int], int] = {}
        """By (gpu, thread block, step), the node that begins the operation."""
        self.program = self._program(root)
        self.program.require_sound()

    def _program(self, root: Rank) -> ChunkProgram:
        """Return the program of thread blocks that the nodes name."""
        first = self._traces[0].metadata
        numbers = {}
        for name in ("nchunksperloop", "inplace"):
            value = first.get(name)
            if not isinstance(value, int):
                raise RefusedScheduleError(f"contents is {CELLS}, and the metadata has no number {name}")
            numbers[name] = value
        if not self._collective:
            raise RefusedScheduleError(f"collective {str(first.get('collective'))!r:.40} is not known")
        if not 1 <= numbers["nchunksperloop"] <= MOST_OPERATIONS:
            raise RefusedScheduleError(f"nchunksperloop is {numbers['nchunksperloop']}")
        said = first.get("root", root)
        try:
            named_root = int(said)
        except (ValueError, OverflowError):
            raise RefusedScheduleError(f"root is {said!r:.20}, no whole number") from None
        gpus = [self._gpu(rank, trace) for rank, trace in enumerate(self._traces)]
        return ChunkProgram(
            "", self._collective, numbers["inplace"] == 1, numbers["nchunksperloop"], gpus, root or named_root
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
            self.node_of[rank, block.number, place[key]] = first.number
            block.operations.append(_operation(ordered[key], waits[0] if waits else None))
        return ProgramGpu(rank, cells, (), blocks.all)


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
