"""Recursive doubling with whole messages: an allreduce by neighbours that exchange their partial results."""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial

from emunode.algorithms.base import Algorithm, Content, Dependence, Need
from emunode.algorithms.claims import Claim
from emunode.algorithms.classical.allgather import ONE_WAY
from emunode.algorithms.classical.places import natural_places
from emunode.algorithms.folding import FoldReceipt, PartialResult, in_fold_order
from emunode.algorithms.payload import Payloads
from emunode.algorithms.rule import LocalView, ResultPart, Rule
from emunode.model import ALL_RANKS, Collective, Duplex, PortModel, PortPacket, Rank, ScheduledSend, Segment, Step
from emunode.registry import register


@register
class RecursiveDoubling(Algorithm):
    """Recursive doubling: in step k neighbours over bit k exchange the folds of their groups of 2^k. One neighbour per step.

    Of p ranks p' = 2^floor(log2 p) take part. If p is not a power of two, the ranks 0 .. 2(p - p') - 1 form pairs: in a step
    before, the even rank sends its contribution to the odd one, and in a step after it receives the result. log2 p' steps,
    or 2 more, of whole messages: the fewest steps, and more bytes than `recursive-halving`. It needs links between the
    participants that differ in one bit, and within pairs: hypercubes, and complete networks for any p. A node knows its own
    rank. It survives no fault. Thakur, Rabenseifner and Gropp 2005, section 4.4.
    """

    needs = frozenset({Need.EVERY_NODE, Need.SPECIAL_LINKS})
    family = "any"
    name = "recursive-doubling"
    collective = Collective.ALLREDUCE
    dependence = Dependence.FIXED
    folds_all_arrivals = True
    adds_numbers = True
    port_models = (PortModel.EXCHANGE, *ONE_WAY)
    duplexes = (Duplex.FULL,)
    citation = "Thakur-Rabenseifner-Gropp 2005, recursive doubling"

    def validate(self) -> None:
        count = self.topology.order
        self.bits = count.bit_length() - 1
        """The logarithm of the number of participants."""
        self.pairs = count - (1 << self.bits)
        """The pairs whose odd rank alone takes part."""
        self.places = natural_places(self.topology)
        self.places.require(self._links(), self.name)
        super().validate()
        self.cut()

    def _links(self) -> Iterator[tuple[Rank, Rank]]:
        yield from ((2 * pair, 2 * pair + 1) for pair in range(self.pairs))
        for number in range(1 << self.bits):
            for bit in range(self.bits):
                yield self.participant(number), self.participant(number ^ 1 << bit)

    def participant(self, number: int) -> Rank:
        """Return the rank of a participant."""
        return 2 * number + 1 if number < self.pairs else number + self.pairs

    def number(self, rank: Rank) -> int | None:
        """Return the inverse of `participant`; None for the even rank of a pair."""
        if rank >= 2 * self.pairs:
            return rank - self.pairs
        return rank // 2 if rank % 2 else None

    @property
    def before(self) -> Step:
        """Steps before the exchanges."""
        return 1 if self.pairs else 0

    @property
    def block_owners(self) -> Sequence[Rank]:
        # One result that every participant folds for itself.
        return range(1)

    @property
    def result_folders(self) -> Sequence[Rank]:
        return [self.participant(number) for number in range(1 << self.bits)]

    @property
    def finishers(self) -> Sequence[Rank]:
        return range(1, 2 * self.pairs, 2)

    def segments_due(self, message: int, receiver: Rank = ALL_RANKS) -> int:
        if receiver == ALL_RANKS:
            return self.segments_per_message
        if self.number(receiver) is None:
            return 0
        return self.segments_per_message * (self.bits + (receiver < 2 * self.pairs))

    @cached_property
    def content(self) -> Content:
        return self._group_fold

    def _group_fold(self, origin: Rank, target: Rank, segment: int) -> bytes:
        """Return the fold of the group of `origin` before its exchange with `target`; of all ranks for ALL_RANKS."""
        mine, theirs = self.number(origin), self.number(target)
        if target == ALL_RANKS:
            ranks: Iterable[Rank] = self.topology.ranks()
        elif mine is None or theirs is None:
            ranks = [origin]
        else:
            size = 1 << max((mine ^ theirs).bit_length() - 1, 0)
            ranks = self._members(mine // size * size, size)
        if self.payloads.ordered:
            return self._fold_of_exchanges(origin, target, segment)
        every = [payload for rank in ranks for payload in self.contributions(rank, 0, segment)]
        return self.payloads.folded(every, 0, segment)

    def _fold_of_exchanges(self, origin: Rank, target: Rank, segment: int) -> bytes:
        """Return what `origin` has before its exchange with `target`, or in the end for ALL_RANKS, in the order of its
        additions.
        """
        mine = self.number(origin)
        if mine is None:
            return self.fold_at(origin, segment, ())
        theirs = None if target == ALL_RANKS else self.number(target)
        bits = self.bits if theirs is None else (mine ^ theirs).bit_length() - 1
        return self._fold_of_group(mine >> bits, bits, segment)

    def _fold_of_group(self, group: int, bits: int, segment: int) -> bytes:
        """Return the fold of 2^bits participants. All of them have the same bits: a + b is b + a."""
        if (group, bits, segment) not in self._group_folds:
            participant = self.participant(group << bits)
            if bits:
                halves = [self._fold_of_group(2 * group + half, bits - 1, segment) for half in range(2)]
                result = self.payloads.folded(halves, 0, segment)
            else:
                even = [participant - 1] if participant < 2 * self.pairs else []
                result = self.fold_at(participant, segment, [(rank, self.fold_at(rank, segment, ())) for rank in even])
            self._group_folds[group, bits, segment] = result
        return self._group_folds[group, bits, segment]

    def fold_receipts(self, rank: Rank) -> Iterator[FoldReceipt]:
        """Yield the partial results that a rank folds into its own."""
        number = self.number(rank)
        if number is None:
            return
        if rank < 2 * self.pairs:
            yield 1, rank - 1
        for bit in range(self.bits):
            yield self.before + bit + 1, self.participant(number ^ 1 << bit)

    def fold_at(self, rank: Rank, segment: int, arrived: Sequence[PartialResult]) -> bytes:
        """Return the fold of the own contribution of `rank` and of the partial results that have arrived there."""
        places = {origin: place for place, origin in enumerate(in_fold_order(self.fold_receipts(rank), rank))}
        own = [(rank, payload) for payload in self.contributions(rank, 0, segment)]
        operands = sorted([*own, *arrived], key=lambda each: (places.get(each[0], len(places)), each[0]))
        return self.payloads.folded([payload for _, payload in operands], 0, segment)

    def use_payloads(self, payloads: Payloads) -> None:
        super().use_payloads(payloads)
        self._group_folds: dict[tuple[int, int, int], bytes] = {}

    def _members(self, first: int, size: int) -> Iterator[Rank]:
        for number in range(first, first + size):
            rank = self.participant(number)
            yield rank
            if number < self.pairs:
                yield rank - 1

    def rule(self, view: LocalView) -> Rule:
        return ExchangeRule(self, view)

    def claims(self) -> list[Claim]:
        spec, segments = self.spec, self.spec.messages * self.segments_per_message
        steps = self.bits + 2 * self.before
        source = f"{self.citation}: floor(log2 p) steps, and two more if p is not a power of two"
        hops = ((self.bits << self.bits) + 2 * self.pairs) * segments
        claims = [
            Claim("steps", steps, "==", source),
            Claim("segments", hops, "==", f"{self.citation}: p' log2 p' whole messages, and two for each pair"),
            Claim("intact_deliveries", self.topology.order * spec.messages, "==", source),
            Claim("transfer_bytes", steps * spec.messages * spec.message_bytes, "==", source),
        ]
        return claims if spec.packet_limit else [*claims, Claim("startups", steps, "==", source)]


class ExchangeRule(Rule):
    """Fold everything that comes in, and send the fold of the moment in every scheduled step."""

    __slots__ = ("_algorithm", "_arrived", "_rank", "_received")

    def __init__(self, algorithm: RecursiveDoubling, view: LocalView) -> None:
        self._algorithm = algorithm
        self._rank = view.rank
        self._arrived: dict[int, list[PartialResult]] = {}
        self._received: dict[int, bytes] = {}

    def start(self) -> Iterator[ScheduledSend]:
        algorithm, me = self._algorithm, self._rank
        number = algorithm.number(me)
        if number is None:
            yield from self._to(1, me + 1, me + 1)
            return
        for bit in range(algorithm.bits):
            partner = algorithm.participant(number ^ 1 << bit)
            yield from self._to(algorithm.before + bit + 1, partner, partner)
        if me < 2 * algorithm.pairs:
            yield from self._to(algorithm.bits + 2, me - 1, ALL_RANKS)

    def _to(self, step: Step, rank: Rank, target: Rank) -> Iterator[ScheduledSend]:
        algorithm = self._algorithm
        port = algorithm.places.port(self._rank, rank)
        for segment in range(algorithm.spec.messages * algorithm.segments_per_message):
            # A callable: contributions that come in before the step are folded into it.
            yield step, port, partial(self._made, target, segment)

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        for _, segments in packets:
            for origin, target, _, index, payload in segments:
                if target != ALL_RANKS:
                    self._arrived.setdefault(index, []).append((origin, payload))
                else:
                    self._received.setdefault(index, payload)
        return ()

    def results(self) -> Iterator[ResultPart]:
        algorithm, me = self._algorithm, self._rank
        if algorithm.number(me) is None:
            yield from ((0, index, payload) for index, payload in self._received.items())
            return
        for index in range(algorithm.spec.messages * algorithm.segments_per_message):
            yield 0, index, algorithm.payloads.result(self._fold(index), 0, index)

    def _made(self, target: Rank, segment: int) -> Segment:
        folded = self._fold(segment)
        if target == ALL_RANKS:
            folded = self._algorithm.payloads.result(folded, 0, segment)
        return self._rank, target, 0, segment, folded

    def _fold(self, segment: int) -> bytes:
        """Return the fold of the own contribution and of everything that has come in."""
        return self._algorithm.fold_at(self._rank, segment, self._arrived.get(segment, ()))
