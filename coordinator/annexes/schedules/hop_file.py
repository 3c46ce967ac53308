"""Schedules of hops: chunk c of source s crosses a link in a step; nothing is added, and cells have no place."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from coordinator.annexes.schedules.base import (
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

    demands: Mapping[tuple[str, str, int], int] = MappingProxyType({})
    """By (node, origin, chunk) of a demand that the file lists, the number that it states; empty: each chunk everywhere."""

    def ways(self) -> Iterator[tuple[ChunkHop, Sequence[str]]]:
        """Yield each hop with the nodes on its way, switches included."""
        return ((hop, (hop.sender, hop.receiver)) for hop in self.hops)

    def at(self, step: Step) -> str:
        """Return a step in the words of the file."""
        return f"step {step}"

    def sends(self) -> Iterable[tuple[str, str]]:
        return (pair for _, pair in self.crossings())

    def crossings(self) -> Iterator[tuple[Step, tuple[str, str]]]:
        """Yield step and link of each chunk that crosses a link.

        Switches copy: a chunk that they pass on to many nodes crosses the links that these ways share once.
        """
        shared = set()
        for hop, way in self.ways():
            for pair in pairwise(way):
                if len(way) > 2:
                    key = hop.step, pair, hop.origin, hop.chunk
                    if key in shared:
                        continue
                    shared.add(key)
                yield hop.step, pair

    @cached_property
    def since(self) -> Mapping[tuple[str, str, int], Step]:
        """By (node, origin, chunk), the step when the chunk first comes to the node."""
        found: dict[tuple[str, str, int], Step] = {}
        for hop in self.hops:
            key = hop.receiver, hop.origin, hop.chunk
            found[key] = min(hop.step, found.get(key, hop.step))
        return found

    def judge(self, capacity: int | None = None) -> FileJudgement:
        """Return the judgement: causality, the load of links, demands, and chunks that come twice."""
        found = self._causality(self.counted(self.hops, self.sends()))
        if capacity is not None:
            found = self._load(found, capacity)
        return self._missing(found)

    def _causality(self, found: FileJudgement) -> FileJudgement:
        came = len({(hop.receiver, hop.origin, hop.chunk) for hop in self.hops if hop.receiver != hop.origin})
        redundant = len(self.hops) - came
        for hop in self.hops:
            if hop.sender != hop.origin and self.since.get((hop.sender, hop.origin, hop.chunk), hop.step) >= hop.step:
                what = f"{hop.sender} sends chunk {hop.chunk} of {hop.origin}, which it has not"
                found = found.violated(f"{self.at(hop.step)}: {what}")
        if redundant and found.verdict is FileVerdict.HOLDS:
            reason = f"{redundant} chunk{'s' * (redundant > 1)} came to a node that had it"
            found = replace(found, redundant=redundant, reason=reason)
        return found

    def _load(self, found: FileJudgement, capacity: int) -> FileJudgement:
        for (step, (sender, receiver)), load in sorted(Counter(self.crossings()).items()):
            if load > capacity:
                reason = f"{load} chunks on the link {sender} to {receiver}, which carries {capacity}"
                found = found.violated(f"{self.at(step)}: {reason}")
        return found

    def _missing(self, found: FileJudgement) -> FileJudgement:
        """Find demands that are never met: those of the file, or every chunk at every node."""
        place = {name: at for at, name in enumerate(self.nodes)}
        chunks = sorted({(hop.origin, hop.chunk) for hop in self.hops}, key=lambda each: (place[each[0]], each[1]))
        wanted: Iterable[tuple[str, str, int]] = self.demands or (
            (receiver, origin, chunk) for origin, chunk in chunks for receiver in self.nodes if receiver != origin
        )
        first = next((key for key in wanted if key not in self.since and key[0] != key[1]), None)
        if first is None:
            return found
        # Counted, and not listed: many nodes times many chunks need not fit into the memory.
        if self.demands:
            count, met = len(self.demands), sum(key in self.since or key[0] == key[1] for key in self.demands)
        else:
            count, met = len(chunks) * (len(place) - 1), sum(key[0] in place and key[0] != key[1] for key in self.since)
        receiver, origin, chunk = first
        return found.violated(f"{receiver} never gets chunk {chunk} of {origin} ({count - met} of {count} are missing)")

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
