"""Schedules that run backwards and fold: every rank sends its partial result to the rank that it would have received from.

In the forward schedule every rank receives every item of a root once. Backwards it folds, for every root, what comes in with
its own contribution, and sends the partial result once. So an algorithm that folds is data: `fold_sends`, the sends of one
rank, and `feeders`, the ranks from which a partial result comes in.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial

from emunode.algorithms.base import Algorithm, Content, Dependence, LocalView, Rule, Timing
from emunode.algorithms.payload import Payloads
from emunode.errors import RuleError
from emunode.model import ALL_RANKS, FOLDING, Port, PortPacket, Rank, ScheduledSend, Segment, Step
from emunode.trees.base import CACHE_ENTRIES

FoldSend = tuple[Step, Rank, int, int, Port]
"""(step, root, tree, segment, port): the send of one partial result."""


class FoldingSchedule(Algorithm):
    """An algorithm whose schedule may run backwards."""

    dependence = Dependence.FIXED

    def __init__(self, *arguments: object) -> None:
        self._folded: dict[tuple[Rank, Rank, int], int] = {}
        super().__init__(*arguments)  # type: ignore[arg-type]

    @abstractmethod
    def fold_sends(self, view: LocalView) -> Iterable[FoldSend]:
        """Return the partial results that one rank sends, in any order."""

    @abstractmethod
    def feeders(self, rank: Rank, root: Rank, segment: int) -> Sequence[Rank]:
        """Return the ranks whose partial results `rank` folds into its own for `root`."""

    def segments_due(self, message: int, receiver: Rank = ALL_RANKS) -> int:
        if not self.folds:
            return self.segments_per_message
        segments = range(message * self.segments_per_message, (message + 1) * self.segments_per_message)
        return sum(len(self.feeders(receiver, receiver, segment)) for segment in segments)

    @property
    def folds(self) -> bool:
        """Whether the schedule runs backwards and folds contributions."""
        return self.collective in FOLDING

    @property
    def tolerates_delay(self) -> bool:
        # Over reliable links partial results wait for their feeders: see `fold_rule`.
        return self.timing is not Timing.FIXED

    def fold_rule(self, view: LocalView) -> Rule:
        """Return the rule of one rank where the schedule folds."""
        return FoldRule(self, view) if self.spec.reliable is None else WaitingFoldRule(self, view)

    @cached_property
    def sources(self) -> Sequence[Rank]:
        # A switch has nothing to contribute, but it folds arrivals like every other node.
        return self.topology.ranks() if self.folds else super().sources

    def use_payloads(self, payloads: Payloads) -> None:
        super().use_payloads(payloads)
        self._folded = {}

    @cached_property
    def content(self) -> Content:
        return self._partial_result if self.folds else self.payloads.segment

    def _partial_result(self, origin: Rank, target: Rank, segment: int) -> bytes:
        """Return the partial result that `origin` sends towards `target` if nothing is missing."""
        folded = self._folded
        if len(folded) > CACHE_ENTRIES:
            folded.clear()
        reached = [origin]
        for rank in reached:
            if len(reached) > self.topology.order:
                raise RuleError(f"{self.name}: the feeders of rank {origin} form a cycle")
            # Those with nothing to wait for send first, so the folds of the feeders are known as a rule.
            if (target, rank, segment) not in folded:
                reached += self.feeders(rank, target, segment)
        for rank in reversed(reached):
            if (target, rank, segment) not in folded:
                total = self.contribution(rank, target, segment)
                for feeder in self.feeders(rank, target, segment):
                    total = self.payloads.fold(total, folded[target, feeder, segment], target, segment)
                folded[target, rank, segment] = total
        return folded[target, origin, segment].to_bytes(self.payloads.segment_bytes(target, segment))


class FoldRule(Rule):
    """Fold arrivals with the own contribution, and send the partial results at their scheduled steps."""

    __slots__ = ("_algorithm", "_partial", "_view")

    def __init__(self, algorithm: FoldingSchedule, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view
        self._partial: dict[tuple[Rank, int], int] = {}

    def start(self) -> Iterator[ScheduledSend]:
        for step, root, tree, segment, port in sorted(self._algorithm.fold_sends(self._view)):
            # A callable, because the partial result is not known before the others have sent theirs.
            yield step, port, partial(self._fold, root, tree, segment)

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        fold: Callable[[int, int, Rank, int], int] = self._algorithm.payloads.fold
        for _, segments in packets:
            for _, root, _, index, payload in segments:
                # Contributions come in any order before the own send, so each is folded as it arrives.
                before = self._partial.get((root, index), 0)
                self._partial[root, index] = fold(before, int.from_bytes(payload), root, index)
        return ()

    def _fold(self, root: Rank, tree: int, segment: int) -> Segment:
        """Return the own contribution combined with everything received so far."""
        me, algorithm = self._view.rank, self._algorithm
        # `pop`: the partial result is sent once, and is not needed afterwards.
        below = self._partial.pop((root, segment), 0)
        total = algorithm.payloads.fold(algorithm.contribution(me, root, segment), below, root, segment)
        return me, root, tree, segment, total.to_bytes(algorithm.payloads.segment_bytes(root, segment))


class WaitingFoldRule(FoldRule):
    """Send each partial result in its scheduled step, or as soon after it as the results of all feeders are there."""

    __slots__ = ("_awaited", "_sends")

    def __init__(self, algorithm: FoldingSchedule, view: LocalView) -> None:
        super().__init__(algorithm, view)
        self._sends = {
            (root, segment): (step, tree, port) for step, root, tree, segment, port in algorithm.fold_sends(view)
        }
        self._awaited = {
            (root, segment): len(algorithm.feeders(view.rank, root, segment)) for root, segment in self._sends
        }

    def start(self) -> Iterator[ScheduledSend]:
        yield from sorted(
            (self._send(place) for place, feeders in self._awaited.items() if not feeders), key=lambda send: send[0]
        )

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        super().receive(step, packets)
        for _, segments in packets:
            for _, root, _, index, _ in segments:
                # The root itself sends nothing.
                if (root, index) in self._awaited:
                    self._awaited[root, index] -= 1
                    if not self._awaited[root, index]:
                        scheduled, port, segment = self._send((root, index))
                        yield max(step + 1, scheduled), port, segment

    def _send(self, place: tuple[Rank, int]) -> ScheduledSend:
        step, tree, port = self._sends[place]
        root, segment = place
        return step, port, partial(self._fold, root, tree, segment)
