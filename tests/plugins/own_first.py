"""An allreduce in which every rank adds for itself, its own contribution first: each rank has other bits."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from emunode.algorithms.base import Algorithm, Content, Dependence, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.rule import ResultPart
from emunode.model import ALL_RANKS, Collective, Duplex, PortPacket, Rank, ScheduledSend, Segment, Step
from emunode.registry import register


@register
class OwnFirst(Algorithm):
    """Every rank sends its contribution to all others, and adds what comes in round the ring, from itself on."""

    family = "complete"
    name = "own-first"
    collective = Collective.ALLREDUCE
    dependence = Dependence.FIXED
    duplexes = (Duplex.FULL,)
    folds_all_arrivals = True
    adds_numbers = True
    citation = "a test"

    def validate(self) -> None:
        super().validate()
        self.cut()

    @property
    def numbers(self) -> range:
        """All segments."""
        return range(self.spec.messages * self.segments_per_message)

    @property
    def block_owners(self) -> Sequence[Rank]:
        return range(1)

    @property
    def result_folders(self) -> Sequence[Rank]:
        return self.topology.data_ranks

    @property
    def finishers(self) -> Sequence[Rank]:
        return ()

    def segments_due(self, message: int, receiver: Rank = ALL_RANKS) -> int:
        return self.segments_per_message * (1 if receiver == ALL_RANKS else self.topology.order - 1)

    @cached_property
    def content(self) -> Content:
        return lambda origin, _target, segment: self.contribution_of(origin, segment)

    def contribution_of(self, rank: Rank, segment: int) -> bytes:
        """Return what a rank sends."""
        return self.payloads.folded(self.contributions(rank, 0, segment), 0, segment)

    def rule(self, view: LocalView) -> Rule:
        return OwnFirstRule(self, view)

    def claims(self) -> list[Claim]:
        return [
            Claim("steps", 1, "==", self.citation),
            Claim("intact_deliveries", self.topology.order * self.spec.messages, "==", self.citation),
        ]


class OwnFirstRule(Rule):
    """Send the own contribution, and add what comes in."""

    __slots__ = ("_algorithm", "_arrived", "_view")

    def __init__(self, algorithm: OwnFirst, view: LocalView) -> None:
        self._algorithm, self._view = algorithm, view
        self._arrived: dict[tuple[int, Rank], bytes] = {}

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._view.rank
        for port, peer, _ in algorithm.topology.ends(me):
            for index in algorithm.numbers:
                segment: Segment = (me, peer, 0, index, algorithm.contribution_of(me, index))
                yield 1, port, segment

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        for _, segments in packets:
            for origin, _, _, index, payload in segments:
                self._arrived[index, origin] = payload
        return ()

    def results(self) -> Iterator[ResultPart]:
        algorithm, me, order = self._algorithm, self._view.rank, self._algorithm.topology.order
        for index in algorithm.numbers:
            others = [(me + distance) % order for distance in range(1, order)]
            arrived = [self._arrived[index, other] for other in others if (index, other) in self._arrived]
            operands = [*algorithm.contributions(me, 0, index), *arrived]
            yield 0, index, algorithm.payloads.result(algorithm.payloads.folded(operands, 0, index), 0, index)
