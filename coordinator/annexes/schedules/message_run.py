"""The execution of operations with dependencies: sends, receipts and computations, of whose messages only the size counts.

GOAL files and Chakra traces without cells are executed here. In a step every operation that is ready starts, rank by
rank, in the order of the file; each directed link then carries its capacity. A send ends at once, and a receipt ends in
the step after its message has crossed.
"""

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Final, Literal

from emunode.model import Rank, Step

ANY: Final = -1
"""A source or tag that agrees with all."""

GoalVerb = Literal["send", "recv", "calc"]
Pattern = tuple[Rank, int]
"""Source and tag of a receipt, either of them perhaps `ANY`."""


@dataclass(slots=True)
class RankOperation:
    """One operation of one rank."""

    rank: Rank
    kind: GoalVerb
    peer: Rank = ANY
    tag: int = 0
    size: int = 0
    unit: int = 1
    """Bytes of a unit of `size`."""
    line: int = 0
    name: str = ""
    after: list[int] = field(default_factory=list)
    """Operations of the same file, by number, that must have ended."""
    after_start: list[int] = field(default_factory=list)
    """Operations that must have started."""


@dataclass(slots=True)
class SentMessage:
    """A message on its way."""

    send: int
    """The number of the operation that sent it."""
    sender: Rank
    receiver: Rank
    tag: int
    size: int
    step: Step = 0
    """The step when it crosses its link."""
    taken: bool = False


class MessageExecution:
    """One execution of all operations, given in order of ranks, over links of one capacity."""

    def __init__(self, operations: Sequence[RankOperation], ranks: int, capacity: int | None = None) -> None:
        self.operations = operations
        self.capacity = capacity
        self.steps: Step = 0
        self.crossings: list[SentMessage] = []
        self.loads: Counter[tuple[Rank, Rank]] = Counter()
        self.received: dict[int, SentMessage] = {}
        """By the number of a receipt, its message."""
        self.ended = [False] * len(operations)
        self._started = [False] * len(operations)
        # Queues by what the two sides agree on, so that a search does not pass all others that wait.
        self._posted: list[dict[Pattern, deque[int]]] = [{} for _ in range(ranks)]
        self._order: dict[int, int] = {}
        """By receipt, its place in the order of posting."""
        self._unexpected: list[dict[Pattern, deque[SentMessage]]] = [{} for _ in range(ranks)]
        self._missing = [len(each.after) + len(each.after_start) for each in operations]
        self._ends: list[list[int]] = [[] for _ in operations]
        self._starts: list[list[int]] = [[] for _ in operations]
        for number, each in enumerate(operations):
            for other in each.after:
                self._ends[other].append(number)
            for other in each.after_start:
                self._starts[other].append(number)
        self._queues: dict[tuple[Rank, Rank], deque[SentMessage]] = {}
        self._run()

    def _run(self) -> None:
        ready = [number for number, missing in enumerate(self._missing) if not missing]
        step = 0
        while True:
            step += 1
            self._start_all(ready)
            if not self._queues:
                return
            self.steps = step
            ready = []
            for message in self._cross(step):
                self._arrive(message, ready)

    def _start_all(self, ready: list[int]) -> None:
        """Start operations in the order of the file, with those that become ready by it."""
        ready.sort()
        while ready:
            number = heappop(ready)
            operation = self.operations[number]
            self._started[number] = True
            self._release(self._starts[number], ready)
            if operation.kind == "send":
                message = SentMessage(number, operation.rank, operation.peer, operation.tag, operation.size)
                self._queues.setdefault((operation.rank, operation.peer), deque()).append(message)
                self._end(number, ready)
            elif operation.kind == "calc":
                self._end(number, ready)
            else:
                self._post(number, ready)

    def _release(self, waiting: Sequence[int], ready: list[int]) -> None:
        for number in waiting:
            self._missing[number] -= 1
            if not self._missing[number]:
                heappush(ready, number)

    def _end(self, number: int, ready: list[int]) -> None:
        self.ended[number] = True
        self._release(self._ends[number], ready)

    def _post(self, number: int, ready: list[int]) -> None:
        """Take the first message that has arrived and agrees, or wait."""
        operation = self.operations[number]
        arrived = self._unexpected[operation.rank].get((operation.peer, operation.tag), deque())
        while arrived and arrived[0].taken:
            arrived.popleft()
        if arrived:
            self._take(number, arrived.popleft(), ready)
            return
        self._order[number] = len(self._order)
        self._posted[operation.rank].setdefault((operation.peer, operation.tag), deque()).append(number)

    def _arrive(self, message: SentMessage, ready: list[int]) -> None:
        """Give a message to the first receipt that waits for it, or keep it."""
        posted = self._posted[message.receiver]
        waiting = [queue for pattern in _patterns(message) if (queue := posted.get(pattern))]
        if waiting:
            number = min(waiting, key=lambda queue: self._order[queue[0]]).popleft()
            self._take(number, message, ready)
            return
        for pattern in _patterns(message):
            self._unexpected[message.receiver].setdefault(pattern, deque()).append(message)

    def _take(self, number: int, message: SentMessage, ready: list[int]) -> None:
        message.taken = True
        self.received[number] = message
        self._end(number, ready)

    def _cross(self, step: Step) -> list[SentMessage]:
        """Let every link carry its capacity; return what has crossed, in the order of the file."""
        crossed = []
        for link in list(self._queues):
            queue = self._queues[link]
            for _ in range(len(queue) if self.capacity is None else min(len(queue), self.capacity)):
                message = queue.popleft()
                message.step = step
                self.loads[link] += 1
                crossed.append(message)
            if not queue:
                del self._queues[link]
        crossed.sort(key=lambda message: message.send)
        self.crossings += crossed
        return crossed

    def unended(self) -> list[int]:
        """Return the operations that never end."""
        return [number for number, ended in enumerate(self.ended) if not ended]

    def unreceived(self) -> Iterator[tuple[Rank, Rank, int, int]]:
        """Yield (sender, receiver, tag, count) of messages that no receipt takes."""
        left = Counter(
            (each.sender, each.receiver, each.tag)
            for arrived in self._unexpected
            for each in arrived.get((ANY, ANY), ())
            if not each.taken
        )
        for (sender, receiver, tag), count in sorted(left.items()):
            yield sender, receiver, tag, count


def _patterns(message: SentMessage) -> Iterator[Pattern]:
    """Yield the pairs of source and tag that a receipt may have to take a message."""
    for sender in (message.sender, ANY):
        for tag in (message.tag, ANY):
            yield sender, tag
