"""Schedules that run backwards and fold: every rank sends its partial result to the rank that it would have received
from.

In the forward schedule every rank receives every item of a root once. Backwards it folds, for every root, what comes in
with its own contribution, and sends the partial result once. So an algorithm that folds is data. `fold_sends` are the
sends of one rank, and `fold_receipts` are the partial results that come in.

**Order.** Where payloads are real numbers, the bits of a result depend on the order of the additions. `fold_order` fixes
it for every rank, from the timetable without faults alone. So partial results that come early or late, over whichever
port, are added in the same order on every driver and under every clock.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial

from emunode.algorithms.base import Algorithm, Content, Dependence, Timing
from emunode.algorithms.payload import Payloads
from emunode.algorithms.rule import LocalView, ResultPart, Rule
from emunode.errors import RuleError
from emunode.model import ALL_RANKS, FOLDING, Port, PortPacket, Rank, ScheduledSend, Segment, Step
from emunode.trees.base import CACHE_ENTRIES

FoldSend = tuple[Step, Rank, int, int, Port]
"""(step, root, tree, segment, port): the send of one partial result."""
FoldReceipt = tuple[Step, Rank]
"""(step, rank of origin) of one partial result that comes in, by the timetable without faults."""
PartialResult = tuple[Rank, bytes]
"""(rank of origin, payload) of one partial result that has come in."""


def in_fold_order(receipts: Iterable[FoldReceipt], own: Rank | None) -> list[Rank]:
    """Return the order of a rank's folds: by scheduled step, then by rank of origin.

    Its own contribution counts as an arrival of the first of these steps. A switch has none: there `own` is None. The
    order is by rank and not by port, because a port depends on the numbering of the links of one node, and a partial
    result that is rerouted keeps its origin.
    """
    scheduled = list(receipts)
    if own is not None:
        scheduled.append((min((step for step, _ in scheduled), default=0), own))
    return [rank for _, rank in sorted(scheduled)]


class FoldingSchedule(Algorithm):
    """An algorithm whose schedule may run backwards."""

    dependence = Dependence.FIXED
    adds_numbers = True

    def __init__(self, *arguments: object) -> None:
        self._folded: dict[tuple[Rank, Rank, int], bytes] = {}
        super().__init__(*arguments)  # type: ignore[arg-type]

    @abstractmethod
    def fold_sends(self, view: LocalView) -> Iterable[FoldSend]:
        """Return the partial results that one rank sends, in any order."""

    @abstractmethod
    def fold_receipts(self, rank: Rank, root: Rank, segment: int) -> Iterable[FoldReceipt]:
        """Return the partial results that `rank` folds into its own for `root`, in any order."""

    def feeders(self, rank: Rank, root: Rank, segment: int) -> Sequence[Rank]:
        """Return the ranks whose partial results `rank` folds into its own for `root`."""
        return [origin for _, origin in self.fold_receipts(rank, root, segment)]

    def fold_order(self, rank: Rank, root: Rank, segment: int) -> list[Rank]:
        """Return the order of the folds at `rank`, as the origins of partial results and itself."""
        own = None if self.topology.is_switch(rank) else rank
        return in_fold_order(self.fold_receipts(rank, root, segment), own)

    def fold_at(self, rank: Rank, root: Rank, segment: int, arrived: Sequence[PartialResult]) -> bytes:
        """Return the fold of the own contribution of `rank` and of arrived partial results.

        The rule of a rank, the expected partial result and the expected result all fold here. A result that has come
        twice is folded twice, so that counts of contributions find it.
        """
        payloads, own = self.payloads, self.contributions(rank, root, segment)
        if not payloads.ordered:
            return payloads.folded([*own, *(payload for _, payload in arrived)], root, segment)
        order, known = self.fold_order(rank, root, segment), self._folded
        complete = len(arrived) == len(order) - len(own) and all(
            payload is known.get((root, origin, segment)) for origin, payload in arrived
        )
        if complete and (root, rank, segment) in known:
            return known[root, rank, segment]
        places = {origin: place for place, origin in enumerate(order)}
        # Sorting is stable, and an origin that the timetable does not know comes last, by rank.
        operands = sorted(
            [*((rank, payload) for payload in own), *arrived],
            key=lambda each: (places.get(each[0], len(places)), each[0]),
        )
        result = payloads.folded([payload for _, payload in operands], root, segment)
        if rank == root:
            result = payloads.result(result, root, segment)
        if complete:
            # Of the expected partial results, in this very form: so it is the expected one, and is added once for the rule
            # and the judge in one process.
            known[root, rank, segment] = result
        return result

    def segments_due(self, message: int, receiver: Rank = ALL_RANKS) -> int:
        if not self.folds:
            return self.segments_per_message
        segments = range(message * self.segments_per_message, (message + 1) * self.segments_per_message)
        return sum(len(self.feeders(receiver, receiver, segment)) for segment in segments)

    @property
    def folds(self) -> bool:
        """Whether the schedule runs backwards and folds contributions."""
        return self.collective in FOLDING

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
        """Return the partial result that `origin` sends towards `target` if nothing is missing.

        At the target itself this is the result.
        """
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
                arrived = [(feeder, folded[target, feeder, segment]) for feeder in self.feeders(rank, target, segment)]
                folded[target, rank, segment] = self.fold_at(rank, target, segment, arrived)
        return folded[target, origin, segment]

    def result(self, owner: Rank, segment: int) -> bytes:
        """Return the result of a segment of the block of `owner` if nothing is missing."""
        if self.payloads.ordered:
            return self._partial_result(owner, owner, segment)
        # Not through the schedule: a schedule that forgets a rank must not define what is right.
        ranks = self.topology.data_ranks
        every = [payload for rank in ranks for payload in self.contributions(rank, owner, segment)]
        return self.payloads.folded(every, owner, segment)


def tolerates_delay(algorithm: Algorithm) -> bool:
    """Report whether late packets lose no message.

    Packets are late over links that send lost packets again.
    """
    # Over reliable links the partial results of a schedule wait for their feeders: see `fold_rule`.
    waits = algorithm.collective not in FOLDING or isinstance(algorithm, FoldingSchedule)
    return waits and algorithm.timing is not Timing.FIXED


class FoldRule(Rule):
    """Fold arrivals with the own contribution, and send the partial results at their scheduled steps."""

    __slots__ = ("_algorithm", "_arrived", "_view")

    def __init__(self, algorithm: FoldingSchedule, view: LocalView) -> None:
        self._algorithm = algorithm
        self._view = view
        self._arrived: dict[tuple[Rank, int], list[PartialResult]] = {}

    def start(self) -> Iterator[ScheduledSend]:
        for step, root, tree, segment, port in sorted(self._algorithm.fold_sends(self._view)):
            # A callable, because the partial result is not known before the others have sent theirs.
            yield step, port, partial(self._fold, root, tree, segment)

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        for _, segments in packets:
            for origin, root, _, index, payload in segments:
                # Held back until the own send: partial results may come in another order than they are folded.
                self._arrived.setdefault((root, index), []).append((origin, payload))
        return ()

    def results(self) -> Iterator[ResultPart]:
        me, algorithm = self._view.rank, self._algorithm
        if me in algorithm.block_owners:
            for segment in range(algorithm.spec.messages * algorithm.segments_per_message):
                yield me, segment, algorithm.fold_at(me, me, segment, self._arrived.get((me, segment), ()))

    def _fold(self, root: Rank, tree: int, segment: int) -> Segment:
        """Return the own contribution combined with everything received so far."""
        me = self._view.rank
        # `pop`: the partial result is sent once, and is not needed afterwards.
        arrived = self._arrived.pop((root, segment), ())
        return me, root, tree, segment, self._algorithm.fold_at(me, root, segment, arrived)


class WaitingFoldRule(FoldRule):
    """Send each partial result in its scheduled step, or later.

    It is late if the results of some feeders are: then it leaves as soon as they are there.
    """

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
