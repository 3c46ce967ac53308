"""Programs of thread blocks on buffers of chunks: what an MSCCL file contains, and Chakra traces with cells.

Every gpu has an input, an output and a scratch buffer of cells; a cell holds one chunk. A thread block runs its operations
in order. It receives from one peer and sends to one peer on one channel. The semantics are those of the runtime (RCCL):
sources of additions are local cells, and a send is complete as soon as its values are taken.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Final, NamedTuple

from coordinator.annexes.schedules.base import MOST_OPERATIONS, RefusedScheduleError
from emunode.model import Rank

BUFFERS: Final = ("i", "o", "s")
RECEIVING: Final = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
SENDING: Final = frozenset({"s", "rcs", "rrs", "rrcs"})
READING: Final = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
"""The operations that read their source; a fused copy (`rcs`) sends what it received."""
WRITING: Final = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
OPERATIONS: Final = RECEIVING | SENDING | {"cpy", "re", "nop"}
COLLECTIVES: Final[Mapping[str, str]] = {
    "allreduce": "allreduce", "allgather": "allgather", "reducescatter": "reducescatter",
    "reduce_scatter": "reducescatter", "alltoall": "alltoall", "broadcast": "broadcast", "reduce": "reduce",
    "gather": "gather", "scatter": "scatter",
}  # fmt: skip
"""The collectives that can be judged, with their spellings."""
MOST_CHUNKS: Final = 8 * MOST_OPERATIONS
"""The most chunks of the buffers of all gpus."""
CUT: Final = frozenset({"allgather", "alltoall", "reducescatter", "gather", "scatter"})
"""The collectives that give each gpu an equal part of the chunks."""

Cell = tuple[str, int]
"""(buffer, offset)."""
Contribution = int
"""gpu x chunks + chunk: one chunk of the input of one gpu."""


class ChunkOperation(NamedTuple):
    """One step of a thread block."""

    type: str
    source: Cell
    destination: Cell
    size: int
    """Consecutive cells."""
    waits: tuple[int, int] | None
    """(thread block, step) of the same gpu that must be complete before."""
    line: int


@dataclass
class ThreadBlock:
    """The operations of one thread block, in order."""

    gpu: Rank
    number: int
    send: int
    """The peer that it sends to, or -1."""
    receive: int
    channel: int
    line: int
    operations: list[ChunkOperation] = field(default_factory=list)

    def at(self, step: int) -> str:
        """Return the place of a step in words."""
        return f"gpu {self.gpu}, tb {self.number}, step {step}"

    @property
    def name(self) -> str:
        """The place of the thread block in words."""
        return f"gpu {self.gpu}, tb {self.number}"


@dataclass
class ProgramGpu:
    """The buffers and thread blocks of one gpu."""

    number: Rank
    cells: Mapping[str, int]
    """The number of cells of each buffer."""
    copies: Sequence[tuple[int, int]] = ()
    """Input cells that are copied to output cells before anything else."""
    blocks: list[ThreadBlock] = field(default_factory=list)


@dataclass
class ChunkProgram:
    """A program for all gpus, and the collective that it claims to be."""

    name: str
    collective: str
    """One of the values of `COLLECTIVES`."""
    in_place: bool
    chunks: int
    """Chunks of the larger buffer of a gpu, C."""
    gpus: Sequence[ProgramGpu]
    root: Rank = 0

    @cached_property
    def part(self) -> int:
        """Chunks that each gpu owns, k = C / n, or all where the buffer is not cut."""
        return self.chunks // len(self.gpus) if self.collective in CUT else self.chunks

    @cached_property
    def blocks(self) -> Sequence[ThreadBlock]:
        """All thread blocks, by gpu and number."""
        return [block for gpu in self.gpus for block in gpu.blocks]

    def canonical(self, gpu: Rank, cell: Cell) -> Cell:
        """Return the cell by the name of its memory: in place, input and output share some."""
        buffer, offset = cell
        if not self.in_place or buffer == "s":
            return cell
        if self.collective == "reducescatter":
            return ("i", gpu * self.part + offset) if buffer == "o" and offset < self.part else cell
        if buffer == "o":
            return cell
        if self.collective == "allgather":
            return ("o", gpu * self.part + offset) if offset < self.part else cell
        return "o", offset

    def inputs(self, gpu: Rank) -> Iterator[tuple[Cell, Contribution]]:
        """Yield the cells that hold a contribution at the start."""
        if self.collective in ("broadcast", "scatter") and gpu != self.root:
            return
        count = self.part if self.collective in ("allgather", "gather") else self.chunks
        for chunk in range(count):
            yield ("i", chunk), gpu * self.chunks + chunk

    def outputs(self, gpu: Rank) -> Iterator[tuple[Cell, frozenset[Contribution]]]:
        """Yield the cells that the collective defines, with the contributions whose sum they must hold."""
        ranks, chunks, part, collective = range(len(self.gpus)), self.chunks, self.part, self.collective
        if collective in ("gather", "reduce") and gpu != self.root:
            return
        if collective in ("allgather", "gather", "alltoall"):
            first = gpu * part if collective == "alltoall" else 0
            for origin, chunk in product(ranks, range(part)):
                yield ("o", origin * part + chunk), frozenset({origin * chunks + first + chunk})
            return
        first = gpu * part if collective in ("scatter", "reducescatter") else 0
        origins: Iterable[Rank] = (self.root,) if collective in ("scatter", "broadcast") else ranks
        for chunk in range(part):
            yield ("o", chunk), frozenset(origin * chunks + first + chunk for origin in origins)

    def require_sound(self) -> None:
        """Refuse peers, channels, cells and dependencies that do not exist. Raises RefusedScheduleError."""
        count = len(self.gpus)
        if self.chunks * count > MOST_CHUNKS:
            raise RefusedScheduleError(f"{count} gpus with {self.chunks} chunks each are more than {MOST_CHUNKS:,}")
        if self.collective in CUT and self.chunks % count:
            raise RefusedScheduleError(f"{self.collective} of {count} gpus in {self.chunks} chunks: not a multiple")
        if not 0 <= self.root < count:
            raise RefusedScheduleError(f"there is no gpu {self.root} to be the root")
        for gpu in self.gpus:
            for source, destination in gpu.copies:
                _require_cell(gpu, f"gpu {gpu.number}, copy", ("i", source), 1)
                _require_cell(gpu, f"gpu {gpu.number}, copy", ("o", destination), 1)
            by_number = {block.number: block for block in gpu.blocks}
            for block in gpu.blocks:
                _require_peers(block, count)
                for step, operation in enumerate(block.operations):
                    _require_operation(gpu, block, step, operation, by_number)
            _require_own_channels(gpu)


def _require_peers(block: ThreadBlock, gpus: int) -> None:
    for peer in (block.send, block.receive):
        if peer == block.gpu:
            raise RefusedScheduleError(f"{block.name}: its peer is itself")
        if not -1 <= peer < gpus:
            raise RefusedScheduleError(f"{block.name}: there is no gpu {peer}")


def _require_operation(
    gpu: ProgramGpu, block: ThreadBlock, step: int, operation: ChunkOperation, blocks: Mapping[int, ThreadBlock]
) -> None:
    at = block.at(step)
    if operation.type in SENDING and block.send < 0:
        raise RefusedScheduleError(f"{at}: sends, and its thread block has no receiver")
    if operation.type in RECEIVING and block.receive < 0:
        raise RefusedScheduleError(f"{at}: receives, and its thread block has no sender")
    if operation.type in READING:
        _require_cell(gpu, at, operation.source, operation.size)
    if operation.type in WRITING:
        _require_cell(gpu, at, operation.destination, operation.size)
    if operation.waits is None:
        return
    other, awaited = operation.waits
    if other not in blocks:
        raise RefusedScheduleError(f"{at}: waits for tb {other}, which does not exist")
    have = len(blocks[other].operations)
    if not 0 <= awaited < have:
        raise RefusedScheduleError(f"{at}: waits for step {awaited} of tb {other}, which has {have}")
    if other == block.number and awaited >= step:
        raise RefusedScheduleError(f"{at}: waits for step {awaited} of its own thread block")


def _require_cell(gpu: ProgramGpu, at: str, cell: Cell, count: int) -> None:
    buffer, offset = cell
    have = gpu.cells[buffer]
    if not 0 <= offset <= offset + count - 1 < have:
        raise RefusedScheduleError(
            f"{at}: {buffer}[{offset}..{offset + count - 1}] is outside of {buffer}_chunks={have}"
        )


def _require_own_channels(gpu: ProgramGpu) -> None:
    """Refuse two thread blocks of a gpu that send to one peer on one channel, or that receive from it."""
    for receives, way in ((False, "send to"), (True, "receive from")):
        used: dict[tuple[int, int], int] = {}
        for block in gpu.blocks:
            peer = block.receive if receives else block.send
            works = any(operation.type in (RECEIVING if receives else SENDING) for operation in block.operations)
            if peer < 0 or not works:
                continue
            other = used.setdefault((peer, block.channel), block.number)
            if other != block.number:
                raise RefusedScheduleError(
                    f"gpu {gpu.number}: tb {other} and tb {block.number} both {way} {peer} on channel {block.channel}"
                )
