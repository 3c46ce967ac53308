"""Files of operations without contents: GOAL, and Chakra traces. Pairs, bytes, causality and completion are judged."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final

from coordinator.annexes.schedules.base import (
    FileJudgement,
    FileVerdict,
    HopTimetable,
    RefusedScheduleError,
    ScheduleFile,
    TimedOperation,
)
from coordinator.annexes.schedules.message_run import MessageExecution, RankOperation
from emunode.model import Rank

UNJUDGED: Final = "contents not judged: the file does not carry them"


class MessageFile(ScheduleFile):
    """A file whose schedule is a graph of sends, receipts and computations of every rank."""

    place = "rank "
    word = "rank"
    """The word for what sends, in messages."""
    operations: Sequence[RankOperation]
    """The operations of all ranks, rank by rank."""
    ranks: int
    """The number of ranks."""

    @cached_property
    def execution(self) -> Callable[[int | None], MessageExecution]:
        """The execution for links of one capacity."""
        return lru_cache(2)(lambda capacity: MessageExecution(self.operations, self.ranks, capacity))

    @property
    def labels(self) -> Sequence[str]:
        return [str(rank) for rank in range(self.ranks)]

    def sends(self) -> Iterator[tuple[str, str]]:
        return ((str(each.rank), str(each.peer)) for each in self.operations if each.kind == "send")

    def require_sends(self) -> None:
        """Refuse a file without sends. Raises RefusedScheduleError."""
        if not any(each.kind == "send" for each in self.operations):
            raise RefusedScheduleError(f"no {self.word} sends: nothing to check")

    def counted(self, run: MessageExecution, notes: Sequence[str] = ()) -> FileJudgement:
        """Return a judgement that holds, with the numbers of an execution."""
        return FileJudgement(
            FileVerdict.HOLDS,
            collective=self.collective,
            ranks=self.ranks,
            steps=run.steps,
            links=len(run.loads),
            chunks=len(run.crossings),
            largest_link_load=max(run.loads.values(), default=0),
            notes=tuple(notes),
        )

    def timetable(self, capacity: int | None = None) -> HopTimetable:
        raise RefusedScheduleError("the file does not say what messages contain, so no chunk can be followed")

    def operations_in_steps(self, capacity: int | None = None) -> Sequence[TimedOperation] | None:
        run = self.execution(capacity)
        sent = {message.send: message for message in run.received.values()}
        counts, number_of = Counter[tuple[Rank, Rank]](), dict[int, int]()
        # Messages of a pair have numbers in the order of their crossing.
        for message in run.crossings:
            pair = message.sender, message.receiver
            number_of[message.send] = counts[pair]
            counts[pair] += 1
        found = []
        for number, each in enumerate(self.operations):
            peer, segment, step = each.rank, 0, 0
            if each.kind != "calc":
                message = sent[number] if each.kind == "send" else run.received[number]
                peer = message.receiver if each.kind == "send" else message.sender
                segment, step = number_of[message.send], message.step
            size = each.size * each.unit
            found.append(TimedOperation(each.kind, each.rank, peer, segment, step, size, each.after, each.after_start))
        return found
