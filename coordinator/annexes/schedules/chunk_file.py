"""The judgement on a chunk program: deadlocks, messages, races, reads of nothing, and the contents of all outputs."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache

from coordinator.annexes.schedules.base import (
    FileClaim,
    FileJudgement,
    FileVerdict,
    HopTimetable,
    RefusedScheduleError,
    ScheduleFile,
)
from coordinator.annexes.schedules.chunk_program import SENDING, ChunkProgram, Contribution
from coordinator.annexes.schedules.chunk_run import NOTHING, SECOND, ChunkExecution, Sum
from coordinator.annexes.schedules.chunk_timetable import chunk_timetable
from coordinator.annexes.schedules.outages import StalledRun, StepOutages
from coordinator.annexes.schedules.stalling import stalled_run
from emunode.model import Rank


class ChunkFile(ScheduleFile):
    """A file that contains a chunk program."""

    place = "gpu "

    def __init__(
        self, format_name: str, program: ChunkProgram, notes: Sequence[str] = (), claims: Sequence[FileClaim] = ()
    ) -> None:
        self.format = format_name  # type: ignore[misc]  # several formats contain programs
        self.program = program
        self.collective = program.collective
        self.notes = tuple(notes)
        self.claims = tuple(claims)
        self.execution = lru_cache(2)(self._execution)

    @cached_property
    def labels(self) -> Sequence[str]:
        """The numbers of the gpus."""
        return [str(gpu.number) for gpu in self.program.gpus]

    def sends(self) -> Iterable[tuple[str, str]]:
        for block in self.program.blocks:
            for operation in block.operations:
                if operation.type in SENDING:
                    yield str(block.gpu), str(block.send)

    def _execution(self, capacity: int | None) -> ChunkExecution:
        return ChunkExecution(self.program, capacity)

    def judge(self, capacity: int | None = None) -> FileJudgement:
        run = self.execution(capacity)
        found = FileJudgement(
            FileVerdict.HOLDS,
            collective=self.program.collective,
            ranks=len(self.program.gpus),
            steps=run.steps,
            links=len(run.loads),
            chunks=run.loads.total(),
            largest_link_load=max(run.loads.values(), default=0),
            redundant=run.redundant,
            notes=self.notes,
            claims=self.claims,
        )
        found = self._deadlock(run, found)
        for sender, receiver, channel, count in run.unreceived():
            if not run.stuck():
                reason = f"gpu {sender} to gpu {receiver}, channel {channel}: {count} messages are never received"
                found = found.violated(reason)
        for sender, receiver, channel, number, size, taken in run.unequal():
            reason = f"message {number + 1} has {size} chunks, its receiver takes {taken}"
            found = found.violated(f"gpu {sender} to gpu {receiver}, channel {channel}: {reason}")
        found = self._race(run, found)
        if run.reads_nothing is not None:
            place, step, _ = run.reads_nothing
            found = found.violated(self.read_of_nothing(capacity), run.blocks[place].operations[step].line)
        found = self._contents(run, found)
        if found.verdict is FileVerdict.HOLDS and run.redundant:
            chunks = "1 chunk" if run.redundant == 1 else f"{run.redundant} chunks"
            return replace(found, reason=f"{chunks} came to a gpu that had it")
        if found.verdict is FileVerdict.HOLDS and not run.races_judged:
            reason = f"races are not judged in {len(run.blocks):,} thread blocks"
            return replace(found, verdict=FileVerdict.UNDECIDED, reason=reason)
        return found

    def read_of_nothing(self, capacity: int | None = None) -> str:
        """Return the first read of a cell that holds nothing, in words; empty if there is no such read."""
        run = self.execution(capacity)
        if run.reads_nothing is None:
            return ""
        place, step, (buffer, offset) = run.reads_nothing
        return f"{run.blocks[place].at(step)} reads {buffer}[{offset}], which holds nothing"

    def _deadlock(self, run: ChunkExecution, found: FileJudgement) -> FileJudgement:
        stuck = run.stuck()
        if not stuck:
            return found
        first = stuck[0]
        block = run.blocks[first]
        what = run.awaited_by(first)[0]
        reason = f"deadlock: {len(stuck)} thread blocks wait; {block.at(run.done[first])} waits for {what}"
        found = found.violated(reason, block.operations[run.done[first]].line)
        chain: list[int] = []
        place: int | None = first
        while place is not None and place not in chain:
            chain.append(place)
            provider = run.awaited_by(place)[1]
            place = provider if provider in stuck else None
        if place is None:
            return found
        cycle = [*chain[chain.index(place) :], place]
        words = " waits for ".join(run.blocks[each].name for each in cycle)
        return replace(found, notes=(*found.notes, f"cycle: {words}"))

    def _race(self, run: ChunkExecution, found: FileJudgement) -> FileJudgement:
        if run.race is None:
            return found
        gpu, (buffer, offset), (one, step), (other, its_step) = run.race
        blocks = run.blocks
        reason = (
            f"race on gpu {gpu}, {buffer}[{offset}]: tb {blocks[one].number} step {step} and tb {blocks[other].number} "
            f"step {its_step} are not ordered"
        )
        return found.violated(reason, blocks[one].operations[step].line)

    def _contents(self, run: ChunkExecution, found: FileJudgement) -> FileJudgement:
        """Compare all outputs with what the collective defines."""
        program, wrong, count = self.program, 0, 0
        first, line = "", None
        for gpu in program.gpus:
            rank = gpu.number
            for cell, members in program.outputs(rank):
                count += 1
                place = program.canonical(rank, cell)
                held = run.memory[rank].get(place, NOTHING)
                if run.sums.members(held) == members and held != NOTHING:
                    continue
                wrong += 1
                if not first:
                    line = run.writer[rank].get(place)
                    first = (
                        f"gpu {rank}, {cell[0]}[{cell[1]}]: expected {self._in_words(members)}, "
                        f"found {self.words_of(run, held)}"
                    )
        if not wrong:
            return found
        return found.violated(f"{wrong} of {count} chunks are wrong; {first}", line)

    def words_of(self, run: ChunkExecution, held: Sum) -> str:
        """Return a sum in words."""
        return "nothing" if held == NOTHING else self._in_words(run.sums.members(held))

    def _in_words(self, members: frozenset[Contribution]) -> str:
        times = Counter(member % SECOND for member in members)
        parts = [
            (f"{count} x " if count > 1 else "") + f"{member // self.program.chunks}.{member % self.program.chunks}"
            for member, count in sorted(times.items())
        ]
        return " + ".join(parts if len(parts) <= 16 else [*parts[:16], f"{len(parts) - 16} more"])

    def stalled(
        self, outages: StepOutages, faulty: Collection[Rank] = (), capacity: int | None = None
    ) -> StalledRun | None:
        return stalled_run(self.program, outages, faulty, capacity)

    def timetable(self, capacity: int | None = None) -> HopTimetable:
        if not any(self.sends()):
            raise RefusedScheduleError("no gpu sends; the file is judged, and not run")
        return chunk_timetable(self.execution(capacity))
