"""Runs repeated in other surroundings: a local rule answers alike there.

A run is recorded in one process that asks the ranks in the order of their numbers. Then a process of another server gets the
same arrivals: its hash seed, random numbers, clocks and addresses differ, and it asks the ranks in the reverse order. A
further process gets the arrivals of one rank, and never has another rank. Both have to send the same in every step. What a
submission does to its own process changes nothing about that: the answers are compared here.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from coordinator.annexes.grading.answers import GivenSend, SubmissionAnswer
from coordinator.annexes.grading.refereed_run import RefereedRun
from coordinator.annexes.grading.submission import SubmissionEndedError, SubmissionProcess, SubmissionServer
from emunode.locality import sample_ranks
from emunode.model import Collective, Rank, Step
from emunode.topologies.base import Topology

SHOWN_HINTS: Final = 4


@dataclass(slots=True)
class RepeatedRuns:
    """Repeats the runs of an algorithm; `close` ends its processes."""

    server: SubmissionServer
    """A server with other surroundings than that of the runs."""
    key: Sequence[str]
    hints: list[str] = field(default_factory=list)
    """The calls of a clock and the like that were seen in the processes of the submission: no proof of anything."""
    refused_calls: list[str] = field(default_factory=list)
    _topology: Topology | None = None
    _processes: dict[Rank | None, SubmissionProcess] = field(default_factory=dict)
    """One for the whole network, under None, and one for every rank that is asked alone."""

    def problems(self, run: RefereedRun, number: int) -> Iterator[str]:
        """Yield how two repetitions of run `number` on its network differ from it; SubmissionEndedError if one ends."""
        if run.topology is not self._topology:
            self.close()
            self._topology = run.topology
        yield from self._compare(run, None, list(reversed(run.topology.ranks())), "in another process")
        ranks = sample_ranks(run.topology, run.spec.source)
        rank = ranks[number % len(ranks)]
        yield from self._compare(run, rank, [rank], f"{run.topology.label(rank)} alone")

    def close(self) -> None:
        """End all processes."""
        for process in self._processes.values():
            process.close()
        self._processes.clear()

    def _compare(self, run: RefereedRun, rank: Rank | None, ranks: list[Rank], where: str) -> Iterator[str]:
        try:
            process = self._processes.get(rank) or self._processes.setdefault(rank, self.server.process())
            problem = next(self._differences(process, run, ranks, alone=rank is not None), None)
            self.refused_calls += process.refused_calls()
        except SubmissionEndedError as error:
            if ended := self._processes.pop(rank, None):
                self.refused_calls += ended.refused_calls()
                ended.close()
            raise SubmissionEndedError(f"{where}: {error}") from None
        if problem:
            yield f"{where}: {problem}"

    def _differences(
        self, process: SubmissionProcess, run: RefereedRun, ranks: list[Rank], *, alone: bool
    ) -> Iterator[str]:
        spec = run.spec
        if (
            spec.collective in (Collective.BROADCAST, Collective.SCATTER, Collective.UNICAST)
            and spec.source not in ranks
        ):
            # Only the source has messages. Under another seed, a rank that computes them instead of receiving them sends
            # others.
            spec = spec._replace(seed=spec.seed + 1)
        place = {rank: number for number, rank in enumerate(ranks)}
        answer = process.ask("open", algorithm=list(self.key), spec=spec._asdict(), ranks=ranks, watch=alone)
        for step, (inbox, sends) in enumerate(run.turns, start=1):
            if answer.problem is not None:
                break
            arrivals = sorted((box for box in inbox if box[0] in place), key=lambda box: place[box[0]])
            answer = process.ask("step", step=step, inbox=arrivals)
            self._note(answer)
            if answer.problem is None:
                expected = sorted(send for send in sends if send[0] in place)
                found = sorted(answer.result.sends)
                if found != expected:
                    first = min(set(found) ^ set(expected) or {*found, *expected})
                    yield self._shown(run.topology, step, first[0], expected, found)
        if answer.problem is not None:
            yield f"it fails: {answer.problem}"
        elif answer.result.due is not None:
            yield f"it plans a send for step {answer.result.due}, when the run is over"

    def _note(self, answer: SubmissionAnswer[object]) -> None:
        self.hints += [hint for hint in answer.forbidden if hint not in self.hints][: SHOWN_HINTS - len(self.hints)]

    @staticmethod
    def _shown(
        topology: Topology, step: Step, rank: Rank, expected: Sequence[GivenSend], found: Sequence[GivenSend]
    ) -> str:
        before, after = ([port for sender, port, _ in sends if sender == rank] for sends in (expected, found))
        name = topology.label(rank) if rank in topology.ranks() else f"rank {rank}"
        return (
            f"in step {step} {name} sends on ports {before} in the network, and on {after} there, with the same arrivals"
            if before != after
            else f"in step {step} {name} sends other segments there, with the same arrivals"
        )
