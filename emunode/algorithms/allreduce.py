"""Allreduce in two phases: contributions are folded by one schedule, and the results are distributed by another.

The first phase is a reduce or a reduce-scatter. When it is over, every rank that owns a block of the result has the fold of
all contributions to it; the second phase, a broadcast or an allgather, distributes what these ranks have folded. Phase 2
begins in the step after the last step of phase 1.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cached_property, lru_cache, partial
from typing import ClassVar, Final

from emunode.algorithms.base import Algorithm, Content, Dependence
from emunode.algorithms.claims import Claim
from emunode.algorithms.folding import FoldingSchedule, PartialResult
from emunode.algorithms.payload import Payloads
from emunode.algorithms.rule import LocalView, ResultPart, Rule
from emunode.algorithms.traits import awaited_steps
from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS, Collective, CollectiveSpec, PortPacket, Rank, ScheduledSend, Segment, Step
from emunode.topologies.base import Topology
from emunode.trees.base import CACHE_ENTRIES

SUMS: Final = ("steps", "packets", "segments", "bytes", "startups", "transfer_bytes")
"""Metrics of a run in two phases that are sums over the phases."""
LISTS: Final = ("heaviest_link_segments_per_step", "heaviest_link_bytes_per_step")
"""Metrics with a value for each step."""


class Allreduce(Algorithm):
    """An allreduce by two other algorithms of the same network."""

    collective = Collective.ALLREDUCE
    adds_numbers = True
    up: ClassVar[type[Algorithm]]
    """Folds the contributions: a reduce or a reduce-scatter."""
    down: ClassVar[type[Algorithm]]
    """Distributes the results: a broadcast or an allgather."""

    def validate(self) -> None:
        spec = self.spec
        first = self.up(self.topology, _of_phase(self.up, spec))
        if not isinstance(first, FoldingSchedule):
            raise ScenarioError("algorithm", self.name, "its first phase does not fold by a schedule")
        self.first: FoldingSchedule = first
        self.second = self.down(self.topology, _of_phase(self.down, spec))
        fixed = self.first.dependence is Dependence.FIXED
        self.dependence = self.second.dependence if fixed else Dependence.UNSTATED
        super().validate()
        self.duplexes = tuple(mode for mode in self.first.duplexes if mode in self.second.duplexes)
        if self.first.segments_per_message != self.second.segments_per_message:
            raise ScenarioError("segments", spec.segments, f"{self.name} cuts messages differently in its two phases")
        self.segments_per_message = self.second.segments_per_message
        capacities = (self.first.link_capacity, self.second.link_capacity)
        self.link_capacity = None if None in capacities else max(filter(None, capacities))
        if self.first.final_step is None:
            raise ScenarioError("algorithm", self.name, "its first phase has no last step, so the second cannot begin")
        self.shift: Step = self.first.final_step
        """The last step of phase 1."""
        owners = self.block_owners
        # A range knows its members without listing them, however large the network is.
        self._owners: Container[Rank] = owners if isinstance(owners, range) else frozenset(owners)

    def use_payloads(self, payloads: Payloads) -> None:
        super().use_payloads(payloads)
        # A renewed algorithm has another seed.
        self.first.spec, self.second.spec = _of_phase(self.up, self.spec), _of_phase(self.down, self.spec)
        self.first.use_payloads(payloads)
        self.second.use_payloads(payloads)
        self._reference = lru_cache(CACHE_ENTRIES)(self.first.result)

    @classmethod
    def auto_segments(cls, topology: Topology, spec: CollectiveSpec, startup: float, per_byte: float) -> int:
        """Return the best number for the second phase: the first is the same schedule backwards."""
        return cls.down.auto_segments(topology, spec._replace(collective=cls.down.collective), startup, per_byte)

    @property
    def table_bytes(self) -> int:
        return self.first.table_bytes + self.second.table_bytes

    def compute_tables(self) -> None:
        self.first.compute_tables()
        self.second.compute_tables()

    def awaited_steps(self, step: Step) -> range:
        """Return the steps of all earlier stages of the second phase."""
        awaited = awaited_steps(self.second, step - self.shift) if step > self.shift else range(0)
        return range(awaited.start + self.shift, awaited.stop + self.shift)

    @cached_property
    def sources(self) -> Sequence[Rank]:
        return self.first.sources

    @property
    def block_owners(self) -> Sequence[Rank]:
        return self.first.block_owners

    def segments_due(self, message: int, receiver: Rank = ALL_RANKS) -> int:
        if receiver == ALL_RANKS:
            return self.segments_per_message
        return self.first.segments_due(message, receiver) if receiver in self._owners else 0

    @cached_property
    def content(self) -> Content:
        partial_result = self.first.content
        return lambda origin, target, segment: (
            self._reference(origin, segment) if target == ALL_RANKS else partial_result(origin, target, segment)
        )

    def rule(self, view: LocalView) -> Rule:
        return TwoPhaseRule(self, view)

    def claims(self) -> list[Claim]:
        ranks, spec = len(self.topology.data_ranks), self.spec
        blocks = len(self.block_owners)
        source = f"{self.citation}: folded, and then distributed"
        # In an order of all packets of one segment, the first rank that depends on all others has seen N - 1 of them, and
        # each of the other ranks needs one more.
        fewest = 2 * (ranks - 1) * blocks * spec.messages * self.segments_per_message
        return [
            *self._claims_of_both(),
            Claim("intact_deliveries", ranks * blocks * spec.messages, "==", source),
            Claim("segments", fewest, ">=", "2(N-1) packets per segment of the result: one-way gossip"),
        ]

    def _claims_of_both(self) -> Iterator[Claim]:
        """Yield the claims that follow from the claims of the two phases."""
        # Equal claims with several sources: the last one is the most specific.
        phases = [
            {(claim.name, claim.relation): claim for claim in phase.claims()} for phase in (self.first, self.second)
        ]
        for (name, relation), one in phases[0].items():
            two = phases[1].get((name, relation))
            # A lower bound of each phase is no bound on an allreduce, as it need not have two phases.
            if two is None or relation == ">=":
                continue
            source = one.source if one.source == two.source else f"{one.source}; then {two.source}"
            derived = one.derived or two.derived
            here, there = one.predicted, two.predicted
            if isinstance(here, tuple) or isinstance(there, tuple):
                if name in LISTS and isinstance(here, tuple) and isinstance(there, tuple):
                    yield Claim(name, here + there, relation, source, derived)
            elif name == "steps":
                yield Claim(name, self.shift + there, relation, source, derived)
            elif name in SUMS:
                yield Claim(name, here + there, relation, source, derived)
            elif name == "max_link_segments_per_step":
                yield Claim(name, max(here, there), relation, source, derived)
            elif name == "max_link_segments":
                # The busiest links of the two phases may differ.
                yield Claim(name, here + there, "<=", source, derived)


def _of_phase(entry: type[Algorithm], spec: CollectiveSpec) -> CollectiveSpec:
    """Return the job of one phase. It keeps its timetable whatever is known to be broken, so that no contribution is
    left out.
    """
    return spec._replace(collective=entry.collective, broken=())


class TwoPhaseRule(Rule):
    """The rules of both phases. This rank owns the part of the result that it folded in phase 1."""

    __slots__ = ("_algorithm", "_arrived", "_down", "_own", "_rank", "_received", "_up")

    def __init__(self, algorithm: Allreduce, view: LocalView) -> None:
        self._algorithm = algorithm
        self._rank = view.rank
        self._up, self._down = algorithm.first.rule(view), algorithm.second.rule(view)
        self._arrived: dict[int, list[PartialResult]] = {}
        """By segment, the partial results of the own block."""
        self._own: dict[int, tuple[int, bytes]] = {}
        """By segment, the own result, and how many partial results it contains."""
        self._received: dict[tuple[Rank, int], bytes] = {}
        """Where results are kept, the finished segments of other blocks."""

    def start(self) -> Iterator[ScheduledSend]:
        yield from self._up.start()
        for step, port, made in self._down.start():
            yield step + self._algorithm.shift, port, self._in_phase_2(made)

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        # The target of a segment tells the phases apart; both may meet in a step if faults delay packets.
        folded = [(port, tuple(each for each in packet if each[1] != ALL_RANKS)) for port, packet in packets]
        finished = [(port, tuple(each for each in packet if each[1] == ALL_RANKS)) for port, packet in packets]
        for _, packet in folded:
            for origin, target, _, index, payload in packet:
                if target == self._rank:
                    self._arrived.setdefault(index, []).append((origin, payload))
        if self._algorithm.spec.keeps_results:
            for _, packet in finished:
                for origin, _, _, index, payload in packet:
                    self._received.setdefault((origin, index), payload)
        shift = self._algorithm.shift
        sends = list(self._up.receive(step, [each for each in folded if each[1]]))
        later = self._down.receive(step - shift, [each for each in finished if each[1]])
        return sends + [(when + shift, port, self._in_phase_2(made)) for when, port, made in later]

    def _in_phase_2(self, made: Segment | Callable[[], Segment]) -> Segment | Callable[[], Segment]:
        """Return a send of phase 2; a function where the message may be the rank's own, because its result is not known
        yet.
        """
        return partial(self._finished, made) if callable(made) or made[0] == self._rank else made

    def _finished(self, made: Segment | Callable[[], Segment]) -> Segment:
        """Return a segment of phase 2, with the result in place of a message of this rank."""
        segment = made() if callable(made) else made
        origin, target, tree, index, _ = segment
        if origin != self._rank:
            return segment
        return origin, target, tree, index, self._result(index)

    def _result(self, index: int) -> bytes:
        """Return the result of a segment of the own block, from what has arrived so far."""
        arrived = self._arrived.get(index, ())
        count, result = self._own.get(index, (-1, b""))
        # It leaves over several links: folded again only if faults let partial results come in between.
        if count != len(arrived):
            result = self._algorithm.first.fold_at(self._rank, self._rank, index, arrived)
            self._own[index] = len(arrived), result
        return result

    def results(self) -> Iterator[ResultPart]:
        algorithm, me = self._algorithm, self._rank
        if me in algorithm.block_owners:
            for index in range(algorithm.spec.messages * algorithm.segments_per_message):
                yield me, index, self._result(index)
        for (owner, index), payload in self._received.items():
            if owner != me:
                yield owner, index, payload
