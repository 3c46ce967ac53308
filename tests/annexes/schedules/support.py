"""Independent interpreters: of chunk programs in a random order of turns, and of messages that wait for others."""

import json
from collections import Counter, deque
from random import Random

from coordinator.annexes.schedules.chunk_program import (
    RECEIVING,
    SENDING,
    WRITING,
    ChunkOperation,
    ChunkProgram,
    ThreadBlock,
)
from tests.helpers.support import GOLDEN

WORD = 2**64
FOLDER = GOLDEN / "schedules"
RIGHT = sorted(path for path in FOLDER.glob("*.xml") if not path.name.startswith(("wrong", "refused", "forest")))
"""The MSCCL files that hold."""
NOTHING = 7
"""The content of cells that nothing was written to."""
Memory = dict[tuple[int, str, int], int]


def refused_texts(formats: str) -> dict[str, tuple[str, str]]:
    """Return texts that readers of some formats refuse, by name, with the reason: a file with one change, or a short one."""
    rows = [json.loads(line) for line in (FOLDER / "refused.jsonl").read_text().splitlines()]
    return {
        row["name"]: (
            (FOLDER / row["file"]).read_text().replace(*row["change"]) if "file" in row else row["text"], row["reason"]
        )
        for row in rows
        if row["of"] == formats
    }  # fmt: skip


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


class RandomOutage:
    """An outage of one gpu, or of one link in one direction, in some steps or from a step on."""

    def __init__(self, seed: int, gpus: int) -> None:
        draw = Random(seed)
        self.one, self.other = draw.sample(range(gpus), 2)
        self.of_gpu = draw.random() < 0.5
        self.first = draw.randint(1, 4)
        self.after = draw.choice([self.first + 1, self.first + 2, 0])
        """The first step after the outage; 0 if it does not end."""

    def lasts(self, step: int) -> bool:
        """Return whether the outage is there in a step."""
        return self.first <= step and (not self.after or step < self.after)

    def stops(self, step: int, gpu: int) -> bool:
        """Return whether a gpu does nothing in a step."""
        return self.of_gpu and gpu == self.one and self.lasts(step)

    def blocks(self, step: int, sender: int, receiver: int) -> bool:
        """Return whether a link loses what crosses in a step."""
        ends = sender, receiver
        return self.lasts(step) and (self.one in ends if self.of_gpu else ends == (self.one, self.other))


class StallingGpus:
    """A program whose thread blocks wait for lost messages for ever, by steps, and by turns in a random order."""

    def __init__(self, program: ChunkProgram, seed: int, outage: RandomOutage) -> None:
        self._program, self._outage, self._random = program, outage, Random(seed)
        self._memory: dict[tuple[int, str, int], Counter[tuple[int, int]]] = {}
        for gpu in program.gpus:
            for cell, contribution in program.inputs(gpu.number):
                self._memory[self._at(gpu.number, cell)] = Counter([divmod(contribution, program.chunks)])
            for source, target in gpu.copies:
                held = self._memory[self._at(gpu.number, ("i", source))]
                self._memory[self._at(gpu.number, ("o", target))] = held
        self._done = {(block.gpu, block.number): 0 for block in program.blocks}
        self._counts: Counter[tuple[bool, int, int, int]] = Counter()
        """By (whether sent, sender, receiver, channel), the messages so far."""
        self._inbox: dict[tuple[int, int, int, int], list[Counter[tuple[int, int]]]] = {}
        """By sender, receiver, channel and number, what has arrived."""
        self._leaving: dict[tuple[int, int, int, int], list[Counter[tuple[int, int]]]] = {}
        for step in range(1, 60):
            while any(self._turn(step, block) for block in self._random.sample(program.blocks, len(program.blocks))):
                pass
            crossed = {key: values for key, values in self._leaving.items() if not outage.blocks(step, *key[:2])}
            self._inbox.update(crossed)
            self._leaving = {}

    def _at(self, gpu: int, cell: tuple[str, int], index: int = 0) -> tuple[int, str, int]:
        return gpu, *self._program.canonical(gpu, (cell[0], cell[1] + index))

    def _turn(self, step: int, block: ThreadBlock) -> bool:
        """Execute one operation of a thread block, unless it has to wait."""
        name = block.gpu, block.number
        if self._outage.stops(step, block.gpu) or self._done[name] == len(block.operations):
            return False
        each = block.operations[self._done[name]]
        if each.waits is not None and self._done[block.gpu, each.waits[0]] <= each.waits[1]:
            return False
        came = [Counter[tuple[int, int]]()] * each.size
        if each.type in RECEIVING:
            wire = block.receive, block.gpu, block.channel
            # Only the message of this number: a later one is not taken in its place.
            message = (*wire, self._counts[(False, *wire)])
            if message not in self._inbox:
                return False
            came = self._inbox[message]
            self._counts[(False, *wire)] += 1
        sent = [self._apply(block.gpu, each, index, came[index]) for index in range(each.size)]
        if each.type in SENDING:
            wire = block.gpu, block.send, block.channel
            self._leaving[(*wire, self._counts[(True, *wire)])] = sent
            self._counts[(True, *wire)] += 1
        self._done[name] += 1
        return True

    def _apply(
        self, gpu: int, each: ChunkOperation, index: int, came: Counter[tuple[int, int]]
    ) -> Counter[tuple[int, int]]:
        """Execute an operation on one cell; return the value that it sends."""
        target, nothing = self._at(gpu, each.destination, index), Counter[tuple[int, int]]()
        local = self._memory.get(self._at(gpu, each.source, index), nothing)
        match each.type:
            case "r" | "rcs":
                value = came
            case "rrc" | "rrs" | "rrcs":
                value = came + local
            case "re":
                value = self._memory.get(target, nothing) + local
            case _:
                value = local
        if each.type in WRITING:
            self._memory[target] = value
        return value

    @property
    def lost(self) -> dict[int, list[tuple[str, int]]]:
        """The output cells, by gpu, that are not right; none of a gpu with an outage of its own."""
        found: dict[int, list[tuple[str, int]]] = {}
        for gpu in self._program.gpus:
            for cell, members in self._program.outputs(gpu.number):
                right = Counter(divmod(member, self._program.chunks) for member in members)
                faulty = self._outage.of_gpu and gpu.number == self._outage.one
                if not faulty and self._memory.get(self._at(gpu.number, cell)) != right:
                    found.setdefault(gpu.number, []).append(cell)
        return found


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
        """Return the step when each message arrives, by sender, receiver and number among the messages of the pair.

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
        """Return the step when each message arrives; a step has all that needs nothing of the same step."""
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
