"""Schedules of hops: chunk c of source s crosses a link in a step; nothing is added, and cells have no place."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from coordinator.schedules.base import (
    FileJudgement,
    FileVerdict,
    HopTimetable,
    RefusedScheduleError,
    ScheduleFile,
    TimedHop,
)
from emunode.model import ALL_RANKS, Collective, Step


class ChunkHop(NamedTuple):
    """One chunk that crosses one link, with the names of nodes as in the file."""

    step: Step
    sender: str
    receiver: str
    origin: str
    chunk: int


class HopFile(ScheduleFile):
    """A file whose schedule is a list of hops in fixed steps."""

    hops: Sequence[ChunkHop]
    nodes: Sequence[str]
    """The names of the nodes that own chunks, in the order of ranks."""
    switches: frozenset[str] = frozenset()
    targets: Mapping[tuple[str, int], str] | None = None
    """By origin and chunk, the only destination; None if every chunk is for all nodes."""

    @property
    def labels(self) -> Sequence[str]:
        return [*self.nodes, *sorted_names(self.switches)]

    def sends(self) -> Iterable[tuple[str, str]]:
        return ((hop.sender, hop.receiver) for hop in self.hops)

    def counted(self, hops: Sequence[ChunkHop], crossings: Iterable[tuple[str, str]]) -> FileJudgement:
        """Return a judgement that holds, with the numbers of hops and of the links (sender, receiver) that they cross."""
        loads = Counter(crossings)
        return FileJudgement(
            FileVerdict.HOLDS,
            collective=self.collective,
            ranks=len(self.nodes),
            steps=max((hop.step for hop in hops), default=0),
            links=len(loads),
            chunks=len(hops),
            largest_link_load=max(loads.values(), default=0),
        )

    def numbers(self) -> Callable[[str, int], int]:
        """Return a function that numbers the chunks from one origin to one target; every pair must have as many.

        Raises RefusedScheduleError.
        """
        chunks: dict[tuple[str, str], list[int]] = {}
        known = {(hop.origin, hop.chunk) for hop in self.hops}
        for origin, chunk in sorted(known):
            target = "" if self.targets is None else self.targets.get((origin, chunk), "")
            chunks.setdefault((origin, target), []).append(chunk)
        counts = {len(each) for each in chunks.values()}
        if len(counts) > 1:
            raise RefusedScheduleError(
                f"nodes have {min(counts)} to {max(counts)} chunks for each target; all must agree"
            )
        place = {(origin, chunk): at for (origin, _), each in chunks.items() for at, chunk in enumerate(each)}
        self.messages = counts.pop()
        return lambda origin, chunk: place[origin, chunk]

    def timetable(self, capacity: int | None = None) -> HopTimetable:
        del capacity  # the steps are those of the file
        number = self.numbers()
        rank = {label: place for place, label in enumerate(self.labels)}
        collective = Collective.ALLGATHER if self.targets is None else Collective.ALLTOALL
        hops = [
            TimedHop(
                hop.step,
                rank[hop.sender],
                rank[hop.receiver],
                rank[hop.origin],
                ALL_RANKS if self.targets is None else rank[self.targets[hop.origin, hop.chunk]],
                number(hop.origin, hop.chunk),
            )
            for hop in self.hops
        ]
        return HopTimetable(collective, 0, len(self.labels), self.messages, hops)


def sorted_names(names: Iterable[str]) -> list[str]:
    """Return names in the order of their numbers, names that are no numbers last."""
    return sorted(set(names), key=lambda name: (not name.isdecimal(), int(name) if name.isdecimal() else 0, name))
