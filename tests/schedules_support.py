"""An independent interpreter of chunk programs: random order of turns, random numbers in place of contributions."""

from collections import deque
from random import Random

from coordinator.schedules.chunk_program import RECEIVING, SENDING, WRITING, ChunkOperation, ChunkProgram

WORD = 2**64
NOTHING = 7
"""The content of cells that nothing was written to."""
Memory = dict[tuple[int, str, int], int]


def random_execution(program: ChunkProgram, seed: int) -> bool:
    """Return whether one execution ends, and every output is the sum of its contributions modulo 2^64."""
    random = Random(seed)
    number: dict[int, int] = {}
    memory: Memory = {}
    for gpu in program.gpus:
        for cell, contribution in program.inputs(gpu.number):
            number[contribution] = random.randrange(WORD)
            memory[gpu.number, *program.canonical(gpu.number, cell)] = number[contribution]
    blocks = {(block.gpu, block.number): block for block in program.blocks}
    done = dict.fromkeys(blocks, 0)
    wires: dict[tuple[int, int, int], deque[list[int]]] = {}
    for block in blocks.values():
        wires.setdefault((block.gpu, block.send, block.channel), deque())
        wires.setdefault((block.receive, block.gpu, block.channel), deque())
    able = list(blocks)
    while able:
        name = random.choice(able)
        block = blocks[name]
        if done[name] == len(block.operations):
            able.remove(name)
            continue
        operation = block.operations[done[name]]
        wire = wires[block.receive, block.gpu, block.channel]
        waits = operation.waits is not None and done[block.gpu, operation.waits[0]] <= operation.waits[1]
        if waits or (operation.type in RECEIVING and not wire):
            able.remove(name)
            continue
        came = wire.popleft() if operation.type in RECEIVING else [NOTHING] * operation.size
        came += [NOTHING] * operation.size
        sent = [_apply(program, memory, block.gpu, operation, index, came[index]) for index in range(operation.size)]
        if operation.type in SENDING:
            wires[block.gpu, block.send, block.channel].append(sent)
        done[name] += 1
        # Every thread block that stopped may go on now.
        able = [each for each in blocks if done[each] < len(blocks[each].operations)]
    if any(done[name] < len(block.operations) for name, block in blocks.items()) or any(wires.values()):
        return False
    return all(
        memory.get((gpu.number, *program.canonical(gpu.number, cell)))
        == sum(number[contribution] for contribution in members) % WORD
        for gpu in program.gpus
        for cell, members in program.outputs(gpu.number)
    )


def _apply(program: ChunkProgram, memory: Memory, gpu: int, operation: ChunkOperation, index: int, value: int) -> int:
    """Execute an operation on one cell; return the value that it sends."""
    source = program.canonical(gpu, (operation.source[0], operation.source[1] + index))
    target = program.canonical(gpu, (operation.destination[0], operation.destination[1] + index))
    local = memory.get((gpu, *source), NOTHING)
    match operation.type:
        case "s" | "cpy":
            value = local
        case "re":
            value = local + memory.get((gpu, *target), NOTHING)
        case "rrs" | "rrc" | "rrcs":
            value += local
    if operation.type in WRITING:
        memory[gpu, *target] = value % WORD
    return value % WORD
