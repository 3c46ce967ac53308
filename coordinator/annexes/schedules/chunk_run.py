"""The execution of a chunk program as soon as possible: what crosses each link in each step, and what every cell holds.

In a step, gpus and thread blocks take turns by number, one operation each, until nothing moves; then every directed link
carries its capacity. A cell holds a sum of contributions, or nothing. The happens-before relation is followed by vector
clocks over thread blocks: as channels are queues with one thread block at each end, the relation does not depend on
timing, so a program without races has one result.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.annexes.schedules.chunk_program import (
    READING,
    RECEIVING,
    SENDING,
    WRITING,
    Cell,
    ChunkOperation,
    ChunkProgram,
    Contribution,
    ThreadBlock,
)
from coordinator.annexes.schedules.outages import StepOutages
from emunode.model import Rank, Step

NOTHING: Final = 0
"""The sum of a cell that nothing was written to."""
MOST_CLOCKS: Final = 2**28
"""The most entries of all vector clocks that are computed, operations x thread blocks: a few seconds."""
SECOND: Final = 2**40
"""Added to a contribution for every further time that a sum has it."""

VectorClock = NDArray[np.int32]
Sum = int
"""The number of a sum of contributions in `Sums`."""
Access = tuple[int, int]
"""(thread block, step)."""


class Sums:
    """Sums of contributions, each kept once and named by a number; 0 is the sum of a cell that holds nothing."""

    def __init__(self) -> None:
        self._members: list[frozenset[Contribution]] = [frozenset()]
        self._number: dict[frozenset[Contribution], Sum] = {}
        self._added: dict[tuple[Sum, Sum], Sum] = {}

    def of(self, members: frozenset[Contribution]) -> Sum:
        """Return the number of a sum."""
        number = self._number.get(members)
        if number is None:
            number = self._number[members] = len(self._members)
            self._members.append(members)
        return number

    def members(self, number: Sum) -> frozenset[Contribution]:
        """Return the contributions of a sum; a repeated one is there again with a multiple of `SECOND` added."""
        return self._members[number]

    def add(self, one: Sum, other: Sum) -> Sum:
        """Return the sum of two sums; anything plus nothing is nothing."""
        if NOTHING in (one, other):
            return NOTHING
        pair = (one, other) if one <= other else (other, one)
        if pair not in self._added:
            left, right = self._members[one], self._members[other]
            if not left.isdisjoint(right):
                # A contribution that is there already is counted, and not merged: a set alone would hide it.
                times = Counter(member % SECOND for member in left)
                times.update(member % SECOND for member in right)
                members = frozenset(member + SECOND * time for member, count in times.items() for time in range(count))
            else:
                members = left | right
            self._added[pair] = self.of(members)
        return self._added[pair]


class ChunkCrossing(NamedTuple):
    """A part of a message that crosses a link in one step."""

    step: Step
    sender: Rank
    receiver: Rank
    values: Sequence[Sum]


class _Message:
    """The output of one sending operation."""

    __slots__ = ("channel", "clock", "left", "lost", "values")

    def __init__(self, channel: "_Channel", values: Sequence[Sum], clock: VectorClock | None) -> None:
        self.channel = channel
        self.values = values
        self.left = len(values)
        self.lost = False
        self.clock = clock


class _Channel:
    """The messages from one gpu to another on one channel, in order."""

    __slots__ = ("arrived", "broken", "name", "receives", "sends", "taken", "waiting")

    def __init__(self, name: tuple[Rank, Rank, int]) -> None:
        self.name = name
        self.sends: list[int] = []
        """The sizes of all messages of the program."""
        self.receives: list[int] = []
        self.arrived: deque[_Message] = deque()
        self.taken = 0
        self.broken = False
        """Whether a message of the channel is lost, so that its receipt and all later receipts wait for ever."""
        self.waiting: int | None = None
        """The thread block that waits for the next message."""


class ChunkExecution:
    """One execution of a program over links of one capacity, with all that can be judged from it."""

    def __init__(self, program: ChunkProgram, capacity: int | None = None, outages: StepOutages | None = None) -> None:
        self.program = program
        self._outages = outages
        self._step: Step = 0
        self.sums = Sums()
        self.capacity = capacity
        self.steps: Step = 0
        self.crossings: list[ChunkCrossing] = []
        self.loads: Counter[tuple[Rank, Rank]] = Counter()
        self.redundant = 0
        self.race: tuple[Rank, Cell, Access, Access] | None = None
        """The first race in the order of execution."""
        self.reads_nothing: tuple[int, int, Cell] | None = None
        """The first read, by thread block and step, of a cell that holds nothing."""
        self.blocks = program.blocks
        self._place = {(block.gpu, block.number): place for place, block in enumerate(self.blocks)}
        operations = sum(len(block.operations) for block in self.blocks)
        self.races_judged = outages is None and operations * len(self.blocks) <= MOST_CLOCKS
        self._prepare()
        self._run()

    # --- the state at the start

    def _prepare(self) -> None:
        program, sums = self.program, self.sums
        self.memory: list[dict[Cell, Sum]] = [{} for _ in program.gpus]
        self.writer: list[dict[Cell, int]] = [{} for _ in program.gpus]
        """The line of the last operation that wrote a cell."""
        self._had: list[set[Sum]] = [set() for _ in program.gpus]
        for gpu in program.gpus:
            rank = gpu.number
            for cell, contribution in program.inputs(rank):
                self.memory[rank][program.canonical(rank, cell)] = sums.of(frozenset({contribution}))
            held = self.memory[rank]
            copied = [
                (program.canonical(rank, ("o", target)), held.get(program.canonical(rank, ("i", source)), NOTHING))
                for source, target in gpu.copies
            ]
            held.update(copied)
            self._had[rank].update(held.values())
        self._channels: dict[tuple[Rank, Rank, int], _Channel] = {}
        self._sends: list[_Channel | None] = []
        self._receives: list[_Channel | None] = []
        self._awaited: set[Access] = set()
        for block in self.blocks:
            self._sends.append(self._channel(block.gpu, block.send, block.channel) if block.send >= 0 else None)
            self._receives.append(
                self._channel(block.receive, block.gpu, block.channel) if block.receive >= 0 else None
            )
            sends, receives = self._sends[-1], self._receives[-1]
            for operation in block.operations:
                if operation.type in SENDING and sends is not None:
                    sends.sends.append(operation.size)
                if operation.type in RECEIVING and receives is not None:
                    receives.receives.append(operation.size)
                if operation.waits is not None:
                    self._awaited.add((self._place[block.gpu, operation.waits[0]], operation.waits[1]))

    def _channel(self, sender: Rank, receiver: Rank, number: int) -> _Channel:
        name = sender, receiver, number
        if name not in self._channels:
            self._channels[name] = _Channel(name)
        return self._channels[name]

    # --- steps

    def _run(self) -> None:
        count = len(self.blocks)
        self.done = [0] * count
        """By thread block, its complete operations."""
        self._clocks: list[VectorClock] = [np.zeros(count, np.int32) for _ in range(count if self.races_judged else 0)]
        self._snapshots: dict[Access, VectorClock] = {}
        self._sleepers: dict[Access, list[int]] = {}
        self._written: dict[tuple[Rank, Cell], dict[int, int]] = {}
        self._read: dict[tuple[Rank, Cell], dict[int, int]] = {}
        queues: dict[tuple[Rank, Rank], deque[_Message]] = {}
        ready, step = set(range(count)), 0
        while True:
            self._step = step = step + 1
            self._local_phase(ready, queues)
            if queues:
                self.steps = step
                ready = self._cross(step, queues)
            else:
                # Nothing moves before the next outage ends: the steps until then are left out, however many there are.
                ends = [end for end in (self._outages.ends if self._outages else ()) if end > step]
                if not ends:
                    break
                step = min(ends) - 1
            if self._outages is not None:
                # A gpu that was stopped may go on.
                ready.update(range(count))

    def _local_phase(self, ready: set[int], queues: dict[tuple[Rank, Rank], deque[_Message]]) -> None:
        """Let thread blocks take turns, one operation each, round after round, until none can go on."""
        now, later = sorted(ready), list[int]()
        queued = set(ready)
        while now:
            place = heappop(now)
            queued.discard(place)
            woken = self._turn(place, queues)
            for other in woken:
                if other in queued:
                    continue
                queued.add(other)
                # Thread blocks of a higher number have their turn still in this round.
                heappush(now if other > place else later, other)
            if not now:
                now, later = later, []

    def _turn(self, place: int, queues: dict[tuple[Rank, Rank], deque[_Message]]) -> list[int]:
        """Execute one operation of a thread block if it can go on; return the thread blocks that may go on now."""
        block, step = self.blocks[place], self.done[place]
        if step == len(block.operations) or (self._outages and self._outages.stops(self._step, block.gpu)):
            return []
        operation = block.operations[step]
        if operation.waits is not None:
            awaited = self._place[block.gpu, operation.waits[0]], operation.waits[1]
            if self.done[awaited[0]] <= awaited[1]:
                self._sleepers.setdefault(awaited, []).append(place)
                return []
        message = None
        if operation.type in RECEIVING:
            channel = self._receives[place]
            assert channel is not None
            if not channel.arrived:
                channel.waiting = place
                return []
            message = channel.arrived.popleft()
            channel.taken += 1
        self._advance(place, operation, message)
        sent = self._apply(place, block, operation, message)
        if sent is not None:
            channel = self._sends[place]
            assert channel is not None
            clock = self._clocks[place].copy() if self.races_judged else None
            queues.setdefault((block.gpu, block.send), deque()).append(_Message(channel, sent, clock))
        self.done[place] = step + 1
        if (place, step) in self._awaited and self.races_judged:
            self._snapshots[place, step] = self._clocks[place].copy()
        return [*self._sleepers.pop((place, step), ()), place]

    def _advance(self, place: int, operation: ChunkOperation, message: _Message | None) -> None:
        """Move the clock of a thread block past an operation."""
        if not self.races_judged:
            return
        clock, block = self._clocks[place], self.blocks[place]
        if operation.waits is not None:
            awaited = self._place[block.gpu, operation.waits[0]], operation.waits[1]
            np.maximum(clock, self._snapshots[awaited], out=clock)
        if message is not None and message.clock is not None:
            np.maximum(clock, message.clock, out=clock)
        clock[place] = self.done[place] + 1

    def _apply(
        self, place: int, block: ThreadBlock, operation: ChunkOperation, message: _Message | None
    ) -> list[Sum] | None:
        """Read and write cells; return the values that are sent."""
        kind, gpu, canonical = operation.type, block.gpu, self.program.canonical
        if kind == "nop":
            return None
        memory, sums, sent = self.memory[gpu], self.sums, []
        received = [] if message is None else [*message.values, *[NOTHING] * operation.size][: operation.size]
        (source, first), (destination, target) = operation.source, operation.destination
        for index in range(operation.size):
            value = NOTHING
            if kind in READING:
                cell = canonical(gpu, (source, first + index))
                value = memory.get(cell, NOTHING)
                self._note_access(place, gpu, cell, writes=False)
                if value == NOTHING:
                    self._note_nothing(place, (source, first + index))
            if kind in WRITING or kind == "re":
                cell = canonical(gpu, (destination, target + index))
            match kind:
                case "r" | "rcs":
                    value = received[index]
                    self._note_receipt(gpu, value)
                case "rrs" | "rrc" | "rrcs":
                    value = sums.add(received[index], value)
                case "re":
                    before = memory.get(cell, NOTHING)
                    if before == NOTHING:
                        self._note_nothing(place, (destination, target + index))
                    value = sums.add(before, value)
            if kind in WRITING:
                self._note_access(place, gpu, cell, writes=True)
                memory[cell] = value
                self._had[gpu].add(value)
                self.writer[gpu][cell] = operation.line
            if kind in SENDING:
                sent.append(value)
        return sent if kind in SENDING else None

    def _note_receipt(self, gpu: Rank, value: Sum) -> None:
        if value != NOTHING and value in self._had[gpu]:
            self.redundant += 1

    def _note_nothing(self, place: int, cell: Cell) -> None:
        here = place, self.done[place], cell
        if self.reads_nothing is None or here < self.reads_nothing:
            self.reads_nothing = here

    def _note_access(self, place: int, gpu: Rank, cell: Cell, *, writes: bool) -> None:
        """Compare an access with earlier ones of other thread blocks: one that the clock does not know is unordered."""
        if not self.races_judged:
            return
        key, step, clock = (gpu, cell), self.done[place], self._clocks[place]
        written = self._written.setdefault(key, {})
        read = self._read.setdefault(key, {})
        for earlier in (written, read) if writes else (written,):
            for other, at in earlier.items():
                # The last access of a thread block suffices: its earlier ones happened before it.
                if self.race is None and other != place and clock[other] <= at:
                    pair = sorted([(other, at), (place, step)])
                    self.race = gpu, cell, pair[0], pair[1]
        (written if writes else read)[place] = step

    def _cross(self, step: Step, queues: dict[tuple[Rank, Rank], deque[_Message]]) -> set[int]:
        """Let every link carry its capacity; return the thread blocks whose message has arrived."""
        woken: set[int] = set()
        for link in list(queues):
            queue, room = queues[link], self.capacity
            while queue and room != 0:
                message = queue[0]
                part = message.left if room is None else min(message.left, room)
                start = len(message.values) - message.left
                self.crossings.append(ChunkCrossing(step, *link, message.values[start : start + part]))
                self.loads[link] += part
                message.left -= part
                message.lost |= self._outages is not None and self._outages.blocks(step, *link)
                if room is not None:
                    room -= part
                if not message.left:
                    queue.popleft()
                    message.channel.broken |= message.lost
                    if message.channel.broken:
                        continue
                    message.channel.arrived.append(message)
                    if message.channel.waiting is not None:
                        woken.add(message.channel.waiting)
                        message.channel.waiting = None
            if not queue:
                del queues[link]
        return woken

    # --- what is wrong

    def stuck(self) -> list[int]:
        """Return the thread blocks that have operations left."""
        return [place for place, block in enumerate(self.blocks) if self.done[place] < len(block.operations)]

    def awaited_by(self, place: int) -> tuple[str, int | None]:
        """Return what a thread block that is stuck waits for, in words, and the thread block that would provide it."""
        block = self.blocks[place]
        operation = block.operations[self.done[place]]
        if operation.waits is not None:
            awaited = self._place[block.gpu, operation.waits[0]]
            if self.done[awaited] <= operation.waits[1]:
                return f"tb {operation.waits[0]} step {operation.waits[1]}", awaited
        channel = self._receives[place]
        sender = next(
            (other for other, sends in enumerate(self._sends) if sends is channel and sends is not None), None
        )
        return f"a message from {block.receive} on channel {block.channel}", sender

    def unreceived(self) -> Iterator[tuple[Rank, Rank, int, int]]:
        """Yield (sender, receiver, channel, count) of messages that no operation takes."""
        for name, channel in sorted(self._channels.items()):
            if channel.arrived:
                yield *name, len(channel.arrived)

    def unequal(self) -> Iterator[tuple[Rank, Rank, int, int, int, int]]:
        """Yield (sender, receiver, channel, number, size, size that is taken) of messages of the wrong size."""
        for name, channel in sorted(self._channels.items()):
            for number, (size, taken) in enumerate(zip(channel.sends, channel.receives, strict=False)):
                if size != taken:
                    yield *name, number, size, taken
