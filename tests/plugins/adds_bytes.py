"""A reduce that adds the bytes of numbers with numpy, from the last rank to the first: no payload folds for it."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from emunode.algorithms.base import Algorithm, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.rule import ResultPart
from emunode.model import Collective, PortPacket, Rank, ScheduledSend, Step
from emunode.registry import register


@register
class AddsBytes(Algorithm):
    """Every rank sends its contribution to the root, which adds float32 numbers."""

    family = "complete"
    name = "adds-bytes"
    collective = Collective.REDUCE
    adds_numbers = True
    states_order = False
    citation = "a test"

    def validate(self) -> None:
        super().validate()
        self.cut()

    def rule(self, view: LocalView) -> Rule:
        return AddsBytesRule(self, view)

    def claims(self) -> list[Claim]:
        return [Claim("steps", 1, "==", self.citation), Claim("deliveries", self.spec.messages, "==", self.citation)]


class AddsBytesRule(Rule):
    """Send the own contribution, or add what comes in."""

    __slots__ = ("_algorithm", "_arrived", "_view")

    def __init__(self, algorithm: AddsBytes, view: LocalView) -> None:
        self._algorithm, self._view = algorithm, view
        self._arrived: dict[int, dict[Rank, bytes]] = {}

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._view.rank
        for port, peer, _ in algorithm.topology.ends(me):
            if peer == algorithm.spec.source:
                for index in range(algorithm.segments_per_message):
                    yield 1, port, (me, peer, 0, index, algorithm.payloads.segment(me, peer, index))

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        for _, segments in packets:
            for origin, _, _, index, payload in segments:
                self._arrived.setdefault(index, {})[origin] = payload
        return ()

    def results(self) -> Iterator[ResultPart]:
        me = self._view.rank
        for index, arrived in self._arrived.items():
            every = {**arrived, me: self._algorithm.payloads.segment(me, me, index)}
            first, *others = (np.frombuffer(every[rank], "<f4") for rank in sorted(every, reverse=True))
            for other in others:
                first = first + other
            yield me, index, first.tobytes()
