"""Independent interpreters: of chunk programs in a random order of turns, and of messages that wait for others."""

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


class RandomMessages:
    """A random program of messages, each with a tag of its own, and its execution under outages."""

    def __init__(self, seed: int, ranks: int = 5, messages: int = 30) -> None:
        draw = Random(seed)
        self.ranks = ranks
        self.operations: list[tuple[int, str, int, int]] = []
        """(rank, send or recv or calc, message, peer)."""
        self.waits: list[list[tuple[int, bool]]] = []
        """By operation: (earlier operation of the rank, whether that must have ended)."""
        self.sizes = [draw.choice([0, 1, 64, 1000]) for _ in range(messages)]
        for message in range(messages):
            sender, receiver = draw.sample(range(ranks), 2)
            rows = [(sender, "send", message, receiver), (receiver, "recv", message, sender)]
            rows += [(sender, "calc", -1, sender)] if draw.random() < 0.2 else []
            for row in rows:
                own = [place for place, each in enumerate(self.operations) if each[0] == row[0]]
                awaited = draw.sample(own, min(len(own), draw.randrange(3)))
                self.waits.append([(place, draw.random() < 0.8) for place in awaited])
                self.operations.append(row)

    @property
    def goal(self) -> str:
        """The program as GOAL text."""
        lines = [f"num_ranks {self.ranks}"]
        for rank in range(self.ranks):
            lines.append(f"rank {rank} {{")
            for place, (own, way, message, peer) in enumerate(self.operations):
                if own != rank:
                    continue
                to = "to" if way == "send" else "from"
                what = "calc 7" if way == "calc" else f"{way} {self.sizes[message]}b {to} {peer} tag {message}"
                lines.append(f"l{place}: {what}")
                lines += [f"l{place} {'requires' if end else 'irequires'} l{other}" for other, end in self.waits[place]]
            lines.append("}")
        return "\n".join(lines) + "\n"

    def arrivals(self, fault: str = "") -> dict[tuple[int, int, int], int]:
        """Return the step in which each message arrives, by sender, receiver and number among the messages of the pair.

        The numbers are in the order of the steps without faults, and among equal steps in the order of the operations.
        """
        healthy = self._steps("")
        order = sorted(healthy, key=lambda message: (healthy[message], self._send(message)[0], self._send(message)[1]))
        counts: dict[tuple[int, int], int] = {}
        names = {}
        for message in order:
            _, _, sender, receiver = self._send(message)
            number = counts.get((sender, receiver), 0)
            counts[sender, receiver] = number + 1
            names[message] = sender, receiver, number
        return {names[message]: step for message, step in self._steps(fault).items()}

    def _send(self, message: int) -> tuple[int, int, int, int]:
        """Return rank, place, sender and receiver of a message."""
        for place, (rank, way, other, peer) in enumerate(self.operations):
            if way == "send" and other == message:
                return rank, place, rank, peer
        raise AssertionError

    def _steps(self, fault: str) -> dict[int, int]:
        """Return the step in which each message arrives; a step has all that needs nothing of the same step."""
        started: dict[int, int] = {}
        ended: dict[int, int] = {}
        arrived: dict[int, int] = {}
        for step in range(1, 2 * len(self.operations)):
            moved = True
            while moved:
                moved = False
                for place, (rank, way, message, peer) in enumerate(self.operations):
                    never = 2 * len(self.operations)
                    past = all(
                        (ended if end else started).get(other, never) <= step for other, end in self.waits[place]
                    )
                    if past and place not in started:
                        started[place], moved = step, True
                        if way == "send" and self._crosses(fault, step, rank, peer):
                            arrived[message] = step
                    done = way != "recv" or arrived.get(message, step) < step
                    if place in started and place not in ended and done:
                        ended[place], moved = step, True
        return arrived

    @staticmethod
    def _crosses(fault: str, step: int, sender: int, receiver: int) -> bool:
        if not fault:
            return True
        kind, _, rest = fault.partition(":")
        where, _, when = rest.partition("@")
        first, _, last = when.partition("-")
        if kind == "crash":
            return step < int(first) or int(where) not in (sender, receiver)
        ends = {tuple(map(int, where.replace("~", ">").split(">")))}
        if "~" in where:
            ends |= {each[::-1] for each in ends}
        return (sender, receiver) not in ends or not int(first) <= step <= int(last or 10**9)
