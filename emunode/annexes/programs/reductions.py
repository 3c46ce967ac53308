"""Reductions by programs: a program sees the numbers of its rank and of arrivals, adds as it likes, and states its result.

The order of its additions is in no timetable. So partial results are not compared on arrival, and the result alone is
judged: by its error, and with `--values probe` by the fold tree that it reveals.
"""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast

from emunode.algorithms.base import Content, LocalView
from emunode.algorithms.claims import Claim, lower_bound
from emunode.algorithms.rule import ResultPart, Rule
from emunode.annexes.programs.program import (
    Identity,
    ProgramAlgorithm,
    ProgramAllgather,
    ProgramAlltoall,
    ProgramBroadcast,
    ProgramGather,
    ProgramRule,
    ProgramScatter,
)
from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS, Collective, CollectiveSpec, Packet, Port, Rank, ScheduledSend, Step

if TYPE_CHECKING:
    from emunode.annexes.numbers.payloads import NumberPayloads


class ProgramReduction(ProgramAlgorithm):
    """A reduction whose rule is a program that adds.

    The claims are that every node that is to have a result gets a part of it, not faster than the distances allow; the
    numbers of the results are judged beside them.
    """

    adds_numbers = True
    states_order = False

    def validate(self) -> None:
        super().validate()
        # Only numbers are kept to the end.
        if not self.spec.keeps_results:
            raise ScenarioError(
                "values", None, f"programs do not see bytes; for {self.collective} add --values float32, or probe"
            )

    def rule(self, view: LocalView) -> Rule:
        return ProgramReductionRule(self, view)

    @property
    def numbers(self) -> "NumberPayloads":
        """The vectors of the run."""
        return cast("NumberPayloads", self.payloads)

    @cached_property
    def content(self) -> Content:
        # The program alone knows what it has added.
        return lambda _origin, _target, _segment: None

    @abstractmethod
    def result_blocks(self, rank: Rank) -> Sequence[Rank]:
        """Return the owners of the blocks whose result `rank` is to state."""

    def may_relay(self, target: Rank) -> bool:
        """Return whether a rank may pass on segments of others for this target as they came."""
        return target == self.spec.common_target

    def claims(self) -> list[Claim]:
        topology, spec = self.topology, self.spec
        ranks = topology.data_ranks
        holders = [rank for rank in ranks if self.result_blocks(rank)]
        farthest = max(topology.distance(rank, holder) for holder in holders[:1] for rank in ranks)
        if len(holders) > 1:
            farthest = max(topology.eccentricity(holder) for holder in holders)
        return [
            Claim("deliveries", len(holders) * spec.messages, "==", f"definition of {self.collective}"),
            lower_bound("steps", farthest, "distance"),
        ]


class ProgramReduce(ProgramReduction):
    """A reduce by programs."""

    collective = Collective.REDUCE

    def targets(self, origin: Rank) -> Sequence[Rank]:
        return [] if origin == self.spec.source else [self.spec.source]

    def result_blocks(self, rank: Rank) -> Sequence[Rank]:
        return [rank] if rank == self.spec.source else []


class ProgramAllreduce(ProgramReduction):
    """An allreduce by programs: the vector is one block, and any rank may add it."""

    collective = Collective.ALLREDUCE

    @property
    def block_owners(self) -> Sequence[Rank]:
        return self.topology.data_ranks[:1]

    @property
    def result_folders(self) -> Sequence[Rank]:
        return self.topology.data_ranks

    @property
    def finishers(self) -> Sequence[Rank]:
        return self.topology.ranks()

    def targets(self, origin: Rank) -> Sequence[Rank]:
        return [ALL_RANKS, *(rank for rank in self.topology.data_ranks if rank != origin)]

    def result_blocks(self, rank: Rank) -> Sequence[Rank]:
        return [] if self.topology.is_switch(rank) else self.block_owners


class ProgramReduceScatter(ProgramReduction):
    """A reduce-scatter by programs: every rank states the result of its own block."""

    collective = Collective.REDUCE_SCATTER

    def targets(self, origin: Rank) -> Sequence[Rank]:
        return [rank for rank in self.topology.data_ranks if rank != origin]

    def result_blocks(self, rank: Rank) -> Sequence[Rank]:
        return [] if self.topology.is_switch(rank) else [rank]

    def may_relay(self, target: Rank) -> bool:
        return False


PROGRAMS: Final[dict[Collective, type[ProgramAlgorithm]]] = {
    entry.collective: entry
    for entry in (
        ProgramBroadcast, ProgramScatter, ProgramGather, ProgramAllgather, ProgramAlltoall,
        ProgramReduce, ProgramAllreduce, ProgramReduceScatter,
    )
}  # fmt: skip
"""By collective. They are not registered, so lists of algorithms leave them out: they need a program to run."""


def find_program(spec: CollectiveSpec) -> type[ProgramAlgorithm]:
    """Return the algorithm of programs for a collective; ScenarioError if programs cannot perform it."""
    if spec.collective not in PROGRAMS:
        raise ScenarioError("collective", str(spec.collective), f"programs can perform: {', '.join(PROGRAMS)}")
    return PROGRAMS[spec.collective]


class ProgramReductionRule(ProgramRule):
    """The rule of one rank whose program adds: its lines carry numbers, and its answers may state parts of the result."""

    __slots__ = ("_results",)
    may_answer = frozenset({"sends", "results"})
    form = '{"sends": [..]}, with "results": [..] if the answer states some'
    further_keys = frozenset({"values"})
    _algorithm: ProgramReduction

    def __init__(self, algorithm: ProgramReduction, view: LocalView) -> None:
        super().__init__(algorithm, view)
        self._results: dict[tuple[Rank, int], bytes] = {}

    def start(self) -> Sequence[ScheduledSend]:
        # A switch has nothing to contribute: its program starts when something arrives.
        return () if self._algorithm.topology.is_switch(self._view.rank) else self._ask(self._description(), 0)

    def results(self) -> Iterator[ResultPart]:
        for (owner, segment), payload in sorted(self._results.items()):
            yield owner, segment, payload

    def _description(self) -> dict[str, object]:
        algorithm, me = self._algorithm, self._view.rank
        numbers = algorithm.numbers
        contributions = [
            {"owner": owner, "segment": segment, "values": numbers.written(payload)}
            for owner in algorithm.block_owners
            for segment in range(algorithm.segment_count)
            for payload in algorithm.contributions(me, owner, segment)
        ]
        return {
            **super()._description(),
            "values": str(numbers.kind.type),
            "rounding": str(numbers.kind.rounding),
            "contributions": contributions,
        }

    def _arrival(self, port: Port, segments: Packet) -> dict[str, object]:
        values = [self._algorithm.numbers.written(segment[4]) for segment in segments]
        return {**super()._arrival(port, segments), "values": values}

    def _note(self, step: Step, answer: dict[str, Any], line: bytes) -> None:
        blocks, count = self._algorithm.result_blocks(self._view.rank), self._algorithm.segment_count
        for result in answer.get("results", ()):
            if not isinstance(result, dict) or result.keys() != {"owner", "segment", "values"}:
                raise self._wrong(step, f"expected a result with owner, segment and values, got {result!r:.100}", line)
            owner, segment = result["owner"], result["segment"]
            if type(owner) is not int or owner not in blocks:
                allowed = ", ".join(map(str, blocks)) or "none: this rank has no result"
                raise self._wrong(step, f"owner is {owner!r:.40}, expected {allowed}", line)
            if type(segment) is not int or not 0 <= segment < count:
                raise self._wrong(step, f"segment is {segment!r:.40}, expected 0 to {count - 1}", line)
            self._results[owner, segment] = self._written(step, result["values"], owner, segment, line)

    def _sent_payload(self, step: Step, identity: Identity, send: dict[str, Any], line: bytes) -> bytes | None:
        origin, target, _, number = identity
        algorithm = self._algorithm
        if origin != self._view.rank:
            if "values" in send:
                raise self._wrong(step, f"segment {list(identity)} is of rank {origin}: its values cannot change", line)
            return self._payload(identity) if algorithm.may_relay(target) else None
        if target not in algorithm.targets(origin) or not 0 <= number < algorithm.segment_count:
            return None
        if "values" not in send:
            raise self._wrong(step, f"segment {list(identity)} is sent without values", line)
        owner = target if target in algorithm.block_owners else algorithm.block_owners[0]
        return self._written(step, send["values"], owner, number, line)

    def _written(self, step: Step, values: object, owner: Rank, segment: int, line: bytes) -> bytes:
        """Return numbers of the program as the bytes of a segment."""
        try:
            return self._algorithm.numbers.payload_of(values, owner, segment)
        except ValueError as error:
            raise self._wrong(step, str(error), line) from None
