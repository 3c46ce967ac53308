"""Writes a timetable as MSCCL XML: a thread block for every neighbour and direction, and a dependency for every cell.

A chunk has its cell of the collective, or a cell of scratch where it only passes. The formats name no steps, so idle steps
are lost: read again, every chunk leaves as soon as it can.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple
from xml.sax.saxutils import quoteattr

from coordinator.annexes.schedules.base import MOST_OPERATIONS, HopTimetable, RefusedScheduleError, TimedHop
from coordinator.annexes.schedules.chunk_program import Cell
from emunode.model import ALL_RANKS, FOLDING, Collective, Rank

NAMES: Final[Mapping[Collective, str]] = {
    Collective.ALLREDUCE: "allreduce", Collective.ALLGATHER: "allgather", Collective.REDUCE_SCATTER: "reducescatter",
    Collective.ALLTOALL: "alltoall", Collective.BROADCAST: "broadcast", Collective.REDUCE: "reduce",
    Collective.GATHER: "gather", Collective.SCATTER: "scatter",
}  # fmt: skip
OUT_OF_PLACE: Final = frozenset({Collective.ALLTOALL, Collective.GATHER, Collective.SCATTER})
"""The collectives whose own chunks are copied; in the others input and output are one memory."""
LOCAL: Final = -1
"""The peer of a thread block that copies."""

BlockKey = tuple[Rank, bool]
"""(peer, whether the thread block sends)."""
BlockStep = tuple[int, int]
"""(thread block, step)."""


class _Step(NamedTuple):
    """One step of a thread block."""

    kind: str
    cell: Cell
    target: Cell
    waits: BlockStep | None


@dataclass
class _CellAccess:
    """The last accesses to a cell."""

    writer: BlockStep | None = None
    readers: dict[int, int] = field(default_factory=dict)
    """By thread block, its last step that reads the cell since it was written."""


class _GpuText:
    """The thread blocks of one gpu."""

    def __init__(self) -> None:
        self.blocks: dict[BlockKey, list[_Step]] = {}
        self._numbers: dict[BlockKey, int] = {}
        self._accesses: dict[Cell, _CellAccess] = {}
        self.scratch: dict[tuple[Rank, Rank, int], int] = {}
        """By origin, target and number of a chunk that passes, its cell of scratch."""

    def add(self, key: BlockKey, kind: str, source: Cell, target: Cell) -> None:
        """Add a step that waits for all earlier accesses to its cells by other thread blocks."""
        number = self._numbers.setdefault(key, len(self._numbers))
        steps = self.blocks.setdefault(key, [])
        reads, writes = kind in ("s", "cpy", "rrc"), kind in ("r", "cpy", "rrc")
        waits: dict[int, int] = {}
        for cell, writing in ((source, False), (target, True)):
            if not (writes if writing else reads):
                continue
            access = self._accesses.setdefault(cell, _CellAccess())
            earlier = [access.writer] if access.writer else []
            if writing:
                earlier += access.readers.items()
            for block, step in earlier:
                if block != number:
                    waits[block] = max(step, waits.get(block, 0))
        awaited = sorted(waits.items())
        # A step waits for one other step: further ones are awaited by steps without an effect.
        steps += [_Step("nop", ("i", 0), ("i", 0), each) for each in awaited[:-1]]
        point = number, len(steps)
        steps.append(_Step(kind, source, target, awaited[-1] if awaited else None))
        if reads:
            self._accesses[source].readers[number] = point[1]
        if writes:
            self._accesses[target] = _CellAccess(point)


class MscclText:
    """The text of a timetable in MSCCL XML."""

    def __init__(self, timetable: HopTimetable, name: str) -> None:
        """Lay the timetable out. Raises RefusedScheduleError if MSCCL cannot express it."""
        if timetable.collective not in NAMES:
            raise RefusedScheduleError(f"MSCCL has no collective {timetable.collective}")
        self._timetable = timetable
        self._name = name
        self._gpus = [_GpuText() for _ in range(timetable.ranks)]
        self._came: set[tuple[Rank, Rank, Rank, int]] = set()
        self._is_cut = timetable.collective in FOLDING and not timetable.folders
        if timetable.collective in OUT_OF_PLACE:
            self._copy_own()
        hops = sorted(timetable.hops)
        if 2 * len(hops) > MOST_OPERATIONS:
            raise RefusedScheduleError(f"it has {len(hops):,} hops; at most {MOST_OPERATIONS // 2:,} are written")
        for _, group in groupby(hops, lambda hop: hop.step):
            step = list(group)
            # The sends of a step read what earlier steps left.
            for hop in step:
                cell = self._held(hop.sender, hop)
                self._gpus[hop.sender].add((hop.receiver, True), "s", cell, cell)
            for hop in step:
                self._receive(hop)

    @property
    def chunks(self) -> int:
        """Chunks of the larger buffer of a gpu."""
        timetable = self._timetable
        one = timetable.collective in (Collective.BROADCAST, Collective.REDUCE) or timetable.folders
        return timetable.messages * (1 if one else timetable.ranks)

    def _copy_own(self) -> None:
        """Copy the chunks that a rank has for itself."""
        timetable, part = self._timetable, self._timetable.messages
        everywhere = timetable.collective is Collective.ALLTOALL
        for rank in range(timetable.ranks) if everywhere else [timetable.source]:
            for number in range(part):
                source = number if timetable.collective is Collective.GATHER else rank * part + number
                target = number if timetable.collective is Collective.SCATTER else rank * part + number
                self._gpus[rank].add((LOCAL, False), "cpy", ("i", source), ("o", target))

    def _receive(self, hop: TimedHop) -> None:
        """Let the receiver store what crosses, or add it to what it has."""
        gpu, adds = self._gpus[hop.receiver], self._timetable.collective in FOLDING and hop.target != ALL_RANKS
        key = hop.receiver, hop.origin, hop.target, hop.segment
        if not adds and (key in self._came or hop.receiver == hop.origin):
            raise RefusedScheduleError(
                f"rank {hop.receiver} receives chunk {hop.segment} of {hop.origin} more than once; MSCCL has one cell for it"
            )
        self._came.add(key)
        cell = self._held(hop.receiver, hop)
        gpu.add((hop.sender, False), "rrc" if adds else "r", cell, cell)

    def _held(self, rank: Rank, hop: TimedHop) -> Cell:
        """Return the cell of a rank that holds the chunk of a hop."""
        part, number = self._timetable.messages, hop.segment
        match self._timetable.collective:
            case Collective.BROADCAST:
                return "o", number
            case Collective.ALLGATHER:
                return "o", hop.origin * part + number
            case Collective.ALLREDUCE | Collective.REDUCE | Collective.REDUCE_SCATTER:
                owner = hop.origin if hop.target == ALL_RANKS else hop.target
                return "i", owner * part + number if self._is_cut else number
        if rank == hop.origin:
            return "i", number if self._timetable.collective is Collective.GATHER else hop.target * part + number
        if rank == hop.target:
            return "o", number if self._timetable.collective is Collective.SCATTER else hop.origin * part + number
        scratch = self._gpus[rank].scratch
        return "s", scratch.setdefault((hop.origin, hop.target, number), len(scratch))

    # --- the text

    def lines(self) -> Iterator[str]:
        """Yield the lines of the file."""
        timetable = self._timetable
        in_place = timetable.collective not in OUT_OF_PLACE
        yield (
            f'<algo name={quoteattr(self._name)} proto="Simple" nchannels="1" nchunksperloop="{self.chunks}" '
            f'ngpus="{timetable.ranks}" coll="{NAMES[timetable.collective]}" inplace="{in_place:d}" '
            f'outofplace="{not in_place:d}" minBytes="0" maxBytes="0">\n'
        )
        for rank, gpu in enumerate(self._gpus):
            inputs, outputs = self._sizes()
            yield f'  <gpu id="{rank}" i_chunks="{inputs}" o_chunks="{outputs}" s_chunks="{len(gpu.scratch)}">\n'
            awaited = {step.waits for steps in gpu.blocks.values() for step in steps if step.waits}
            for number, ((peer, sends), steps) in enumerate(gpu.blocks.items()):
                ends = (peer, LOCAL) if sends else (LOCAL, peer)
                yield f'    <tb id="{number}" send="{ends[0]}" recv="{ends[1]}" chan="0">\n'
                for place, step in enumerate(steps):
                    block, other = step.waits or (-1, -1)
                    yield (
                        f'      <step s="{place}" type="{step.kind}" srcbuf="{step.cell[0]}" srcoff="{step.cell[1]}" '
                        f'dstbuf="{step.target[0]}" dstoff="{step.target[1]}" cnt="1" depid="{block}" deps="{other}" '
                        f'hasdep="{(number, place) in awaited:d}"/>\n'
                    )
                yield "    </tb>\n"
            yield "  </gpu>\n"
        yield "</algo>\n"

    def _sizes(self) -> tuple[int, int]:
        """Return the cells of input and output."""
        part, chunks = self._timetable.messages, self.chunks
        match self._timetable.collective:
            case Collective.ALLGATHER | Collective.GATHER:
                return part, chunks
            case Collective.SCATTER | Collective.REDUCE_SCATTER:
                return chunks, part
        return chunks, chunks
