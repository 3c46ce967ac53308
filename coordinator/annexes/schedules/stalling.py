"""The losses of a chunk program to outages in a runtime whose thread blocks wait: RCCL, NCCL, MSCCL.

A receipt whose message is lost never completes, and takes no later message in its place. Its thread block stops there, and
so does every operation that depends on it. A gpu that is out of service executes nothing. The run ends when nothing can
move; output cells that do not hold what the collective defines are lost.
"""

from collections.abc import Collection

from coordinator.annexes.schedules.chunk_program import Cell, ChunkProgram
from coordinator.annexes.schedules.chunk_run import NOTHING, ChunkExecution
from coordinator.annexes.schedules.outages import StalledRun, StepOutages
from emunode.model import Rank


def stalled_run(
    program: ChunkProgram, outages: StepOutages, faulty: Collection[Rank] = (), capacity: int | None = None
) -> StalledRun:
    """Return the losses of a program to outages; nothing is expected of the `faulty` gpus."""
    run = ChunkExecution(program, capacity, outages)
    expected, lost = 0, dict[Rank, list[Cell]]()
    for gpu in program.gpus:
        rank = gpu.number
        if rank in faulty:
            continue
        for cell, members in program.outputs(rank):
            expected += 1
            held = run.memory[rank].get(program.canonical(rank, cell), NOTHING)
            if held == NOTHING or run.sums.members(held) != members:
                lost.setdefault(rank, []).append(cell)
    stuck = [place for place in run.stuck() if run.blocks[place].gpu not in faulty]
    first = ""
    if stuck:
        block = run.blocks[stuck[0]]
        first = f"{block.at(run.done[stuck[0]])} waits for {run.awaited_by(stuck[0])[0]}"
    return StalledRun(expected, lost, len(stuck), first)
