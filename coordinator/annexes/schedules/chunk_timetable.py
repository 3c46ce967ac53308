"""The timetable of a chunk program: its chunks by origin and number, and its sums by the rank that completes them.

Copies keep the name of their contribution. A sum runs where each rank sends its own contribution together with all partial
sums of the chunk that it has received: so do rings, trees, halving and doubling. Others are judged, and not run.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from coordinator.annexes.schedules.base import HopTimetable, RefusedScheduleError, TimedHop
from coordinator.annexes.schedules.chunk_program import CUT, ChunkProgram, Contribution
from coordinator.annexes.schedules.chunk_run import ChunkExecution
from emunode.model import ALL_RANKS, ROOTLESS, Collective, Rank, Step

NAMES: Final[Mapping[str, Collective]] = {"reducescatter": Collective.REDUCE_SCATTER}
ADDING: Final = frozenset({"allreduce", "reduce", "reducescatter"})


class _CrossingChunk(NamedTuple):
    """A chunk, or a sum of one, that crosses a link."""

    step: Step
    sender: Rank
    receiver: Rank
    members: frozenset[Contribution]


def chunk_timetable(run: ChunkExecution) -> HopTimetable:
    """Return the timetable of an execution that did what its collective defines. Raises RefusedScheduleError."""
    program = run.program
    collective = NAMES.get(program.collective) or Collective(program.collective)
    crossings = [
        _CrossingChunk(each.step, each.sender, each.receiver, run.sums.members(value))
        for each in run.crossings
        for value in each.values
    ]
    source = 0 if collective in ROOTLESS else program.root
    if program.collective in ADDING:
        return _Adding(program, crossings).timetable(collective, source)
    hops = [_copied(program, each) for each in crossings]
    return HopTimetable(collective, source, len(program.gpus), program.part, hops)


def _copied(program: ChunkProgram, crossing: _CrossingChunk) -> TimedHop:
    """Return the hop of a chunk of a collective without additions."""
    if len(crossing.members) != 1:
        raise _refused(crossing, "a sum, which its collective has no use for")
    [member] = crossing.members
    origin, chunk = divmod(member, program.chunks)
    target, number = ALL_RANKS, chunk
    if program.collective in ("alltoall", "scatter"):
        target, number = divmod(chunk, program.part)
    elif program.collective == "gather":
        target = program.root
    if target == origin:
        raise _refused(crossing, f"a chunk of {origin} that is for {origin} itself")
    return TimedHop(crossing.step, crossing.sender, crossing.receiver, origin, target, number)


def _refused(crossing: _CrossingChunk, what: str) -> RefusedScheduleError:
    reason = f"gpu {crossing.sender} sends {what} to {crossing.receiver} in step {crossing.step}"
    return RefusedScheduleError(f"{reason}; the file is judged, and not run")


class _Adding:
    """The sums of a program: the ranks that send each part of them, and where they are completed."""

    def __init__(self, program: ChunkProgram, crossings: Sequence[_CrossingChunk]) -> None:
        self._program = program
        self._ranks = len(program.gpus)
        self._crossings = crossings
        self._chunk = [self._chunk_of(each) for each in crossings]
        self._folders: dict[int, list[Rank]] = {}
        """By chunk, the ranks that complete its sum, in ascending order."""
        self._follow()

    def _chunk_of(self, crossing: _CrossingChunk) -> int:
        chunks = {member % self._program.chunks for member in crossing.members}
        if len(chunks) != 1:
            raise _refused(crossing, "a sum of different chunks")
        return chunks.pop()

    def _is_whole(self, crossing: _CrossingChunk) -> bool:
        return len(crossing.members) == self._ranks

    def _follow(self) -> None:
        """Refuse sums that are not of the own contribution and all partial sums that came in."""
        chunks = self._program.chunks
        held: dict[tuple[Rank, int], frozenset[Contribution]] = {}
        arrived: list[tuple[Rank, int, frozenset[Contribution]]] = []
        step = 0
        for crossing, chunk in zip(self._crossings, self._chunk, strict=True):
            if crossing.step > step:
                self._add(held, arrived)
                arrived, step = [], crossing.step
            key = crossing.sender, chunk
            has = held.get(key, frozenset({crossing.sender * chunks + chunk}))
            if self._is_whole(crossing):
                continue
            if crossing.members != has:
                raise _refused(crossing, "a sum without its own contribution, or without another that it has")
            arrived.append((crossing.receiver, chunk, crossing.members))
        self._add(held, arrived)
        for (rank, chunk), members in sorted(held.items()):
            if len(members) == self._ranks:
                self._folders.setdefault(chunk, []).append(rank)

    def _add(
        self,
        held: dict[tuple[Rank, int], frozenset[Contribution]],
        arrived: Sequence[tuple[Rank, int, frozenset[Contribution]]],
    ) -> None:
        for rank, chunk, members in arrived:
            before = held.get((rank, chunk), frozenset({rank * self._program.chunks + chunk}))
            if not before.isdisjoint(members):
                raise RefusedScheduleError(f"gpu {rank} adds a contribution to chunk {chunk} twice; not run")
            held[rank, chunk] = before | members

    def timetable(self, collective: Collective, source: Rank) -> HopTimetable:
        """Return the timetable. Raises RefusedScheduleError."""
        owner, number, folders, messages = self._owners(collective, source)
        target = self._targets(owner, folders)
        hops, sent = [], Counter[tuple[Rank, Rank, int]]()
        complete: dict[tuple[Rank, int], Rank] = {}
        for place, (crossing, chunk) in enumerate(zip(self._crossings, self._chunk, strict=True)):
            step, sender, receiver, _ = crossing
            if not self._is_whole(crossing):
                sent[sender, target[place], chunk] += 1
                hops.append(TimedHop(step, sender, receiver, sender, target[place], number[chunk]))
                continue
            if collective is not Collective.ALLREDUCE:
                raise _refused(crossing, "a sum that is complete already")
            origin = sender if sender in self._folders.get(chunk, ()) else complete[sender, chunk]
            complete.setdefault((receiver, chunk), origin)
            hops.append(TimedHop(step, sender, receiver, origin, ALL_RANKS, number[chunk]))
        if sent and max(sent.values()) > 1:
            sender, _, chunk = max(sent, key=lambda key: sent[key])
            raise RefusedScheduleError(f"gpu {sender} sends its part of the sum of chunk {chunk} twice; not run")
        return HopTimetable(collective, source, self._ranks, messages, hops, folders)

    def _owners(
        self, collective: Collective, source: Rank
    ) -> tuple[Mapping[int, Rank], Mapping[int, int], tuple[Rank, ...], int]:
        """Return who completes which sums.

        Four values: the rank that completes the sum of each chunk, the number of the chunk at that rank, the ranks that
        complete the whole vector if it is one block, and the number of chunks in a block.
        """
        program, chunks = self._program, range(self._program.chunks)
        if program.collective in CUT:
            return {c: c // program.part for c in chunks}, {c: c % program.part for c in chunks}, (), program.part
        if collective is Collective.REDUCE:
            return dict.fromkeys(chunks, source), {c: c for c in chunks}, (source,), len(chunks)
        sets = {tuple(self._folders.get(chunk, ())) for chunk in chunks}
        if len(sets) == 1 and (folders := sets.pop()):
            return dict.fromkeys(chunks, folders[0]), {c: c for c in chunks}, folders, len(chunks)
        owned: dict[Rank, list[int]] = defaultdict(list)
        for chunk, ranks in sorted(self._folders.items()):
            owned[ranks[0]].append(chunk)
            if len(ranks) > 1:
                raise RefusedScheduleError(
                    f"the sum of chunk {chunk} is complete at several gpus, others at one; not run"
                )
        counts = {len(owned[rank]) for rank in range(self._ranks)}
        if len(counts) != 1:
            raise RefusedScheduleError(
                f"gpus complete the sums of {min(counts)} to {max(counts)} chunks each; all must agree for a run"
            )
        owner = {chunk: rank for rank, each in owned.items() for chunk in each}
        number = {chunk: place for each in owned.values() for place, chunk in enumerate(each)}
        return owner, number, (), counts.pop()

    def _targets(self, owner: Mapping[int, Rank], folders: Sequence[Rank]) -> Mapping[int, Rank]:
        """Return, by the place of a crossing, the rank that completes the sum with what crosses."""
        if len(folders) < 2:
            return {place: owner[chunk] for place, chunk in enumerate(self._chunk)}
        found: dict[int, Rank] = {}
        later: dict[tuple[Rank, int], Rank] = {}
        for place in reversed(range(len(self._crossings))):
            crossing, chunk = self._crossings[place], self._chunk[place]
            if self._is_whole(crossing):
                continue
            receiver = crossing.receiver
            goal = receiver if receiver in folders else later.get((receiver, chunk), receiver)
            found[place] = later[crossing.sender, chunk] = goal
        return found
