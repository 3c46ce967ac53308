"""Messages that a schedule file lists: who sends how many bytes to whom, and the receipts that a send waits for.

Such a file does not say what messages contain, so their contents are made up, and only pairs, bytes, causality and
completion are judged. A send leaves in its step, or in the step after the last receipt that it waits for, if that is late.
A send that waits for a lost message never leaves.
"""

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from functools import cached_property, lru_cache, partial
from hashlib import shake_128
from typing import Final, NamedTuple

from emunode.algorithms.base import Crosses, Dependence, ListedMessage, LocalView, Rule
from emunode.algorithms.claims import Claim
from emunode.algorithms.payload import Payloads
from emunode.algorithms.traits import MessageSteps
from emunode.annexes.schedules.given_base import (
    MOST_GIVEN_HOPS,
    MOST_GIVEN_STEP,
    GivenAlgorithm,
    invalid_schedule,
    parse_text,
    whole_number,
)
from emunode.model import Collective, PortPacket, Rank, ScheduledSend, Step

MOST_MESSAGE_BYTES: Final = 2**25
"""Bytes of the largest message of a run."""
MOST_LISTED_BYTES: Final = 2**30
"""Bytes of all messages of a run."""
PARTS: Final = 8
"""Entries of an operation in the text."""


class OperationKind(IntEnum):
    """The kinds of operations of a rank."""

    COMPUTE = 0
    SEND = 1
    RECEIVE = 2


class GivenOperation(NamedTuple):
    """One operation of one rank. The numbers of operations are their places in the list."""

    kind: OperationKind
    rank: Rank
    peer: Rank
    """The rank at the other end of the message; the rank itself if it computes."""
    segment: int
    """The number of the message among all from its sender to its receiver; 0 if the rank computes."""
    step: Step
    """The step when the message crosses its link without faults; 0 if the rank computes."""
    size: int
    """Bytes of the message."""
    after: Sequence[int]
    """Operations of the same rank that must have ended."""
    after_start: Sequence[int]
    """Operations of the same rank that must have started."""

    @property
    def message(self) -> tuple[Rank, Rank, int]:
        """The message by origin, target and number."""
        ends = (self.rank, self.peer) if self.kind is OperationKind.SEND else (self.peer, self.rank)
        return *ends, self.segment


class GivenMessages(NamedTuple):
    """The operations of all ranks."""

    file: str
    """The name of the file, for sources of claims."""
    ranks: int
    stated_steps: Step
    """The most steps that the file says it takes; 0 if it does not say."""
    operations: Sequence[GivenOperation]

    @property
    def text(self) -> str:
        """The operations in the form that `parse_messages` reads."""
        return json.dumps(self._asdict(), separators=(",", ":"))

    @property
    def most_messages(self) -> int:
        """The most messages from one rank to another."""
        return 1 + max(each.segment for each in self.operations)

    @property
    def largest_bytes(self) -> int:
        """Bytes of the largest message, at least 1."""
        return max(1, *(each.size for each in self.operations))


def parse_messages(text: str) -> GivenMessages:
    """Return the operations in a text. Raises ScenarioError (field `schedule`)."""
    found = parse_text(text, GivenMessages._fields)
    ranks = whole_number(found["ranks"], "ranks", 2, 2**20)
    rows = found["operations"]
    if not isinstance(rows, list) or not all(isinstance(row, list) and len(row) == PARTS for row in rows):
        raise invalid_schedule(f"operations: a list with {PARTS} entries for each is expected")
    if len(rows) > MOST_GIVEN_HOPS:
        raise invalid_schedule(f"it has {len(rows):,} operations; at most {MOST_GIVEN_HOPS:,} are allowed")
    last = len(rows) - 1
    mosts = (len(OperationKind) - 1, ranks - 1, ranks - 1, len(rows), MOST_GIVEN_STEP, MOST_MESSAGE_BYTES)
    operations = []
    for row in rows:
        kind, rank, peer, segment, step, size = (
            whole_number(value, name, 0, most)
            for value, name, most in zip(row, GivenOperation._fields, mosts, strict=False)
        )
        after, after_start = _places(row[-2], last), _places(row[-1], last)
        operations.append(GivenOperation(OperationKind(kind), rank, peer, segment, step, size, after, after_start))
    return GivenMessages(
        found["file"], ranks, whole_number(found["stated_steps"], "stated_steps", 0, 2**31 - 1), operations
    )


def _places(value: object, last: int) -> Sequence[int]:
    if not isinstance(value, list):
        raise invalid_schedule("operations: a list of operations to wait for is expected")
    return tuple(whole_number(each, "after", 0, last) for each in value)


_parsed = lru_cache(4)(parse_messages)


class SendProgress:
    """The operations of some ranks that have started and ended so far."""

    __slots__ = ("_arrived", "_chained", "_ends", "_missing", "_operations", "_starts", "ended")

    def __init__(self, operations: Mapping[int, GivenOperation]) -> None:
        self._operations = operations
        self._missing = {number: len(each.after) + len(each.after_start) for number, each in operations.items()}
        self._ends: dict[int, list[int]] = {}
        self._starts: dict[int, list[int]] = {}
        self._arrived: set[int] = set()
        self.ended: set[int] = set()
        for number, each in operations.items():
            for other in each.after:
                self._ends.setdefault(other, []).append(number)
            for other in each.after_start:
                self._starts.setdefault(other, []).append(number)

    def begin(self) -> list[int]:
        """Start all operations that wait for nothing; return the sends among all that start, in order of numbers."""
        return self._follow([number for number, missing in self._missing.items() if not missing])

    def arrive(self, receipts: Iterable[int]) -> list[int]:
        """Note that the messages of receipts have arrived; return the sends that start, in order of numbers."""
        ended: list[int] = []
        for number in receipts:
            self._arrived.add(number)
            if not self._missing[number] and number not in self.ended:
                self.ended.add(number)
                ended.append(number)
        return self._follow([each for number in ended for each in self._released(self._ends, number)])

    def _follow(self, ready: list[int]) -> list[int]:
        sends = []
        while ready:
            number = ready.pop()
            ready += self._released(self._starts, number)
            kind = self._operations[number].kind
            if kind is OperationKind.RECEIVE and number not in self._arrived:
                continue
            if kind is OperationKind.SEND:
                sends.append(number)
            self.ended.add(number)
            ready += self._released(self._ends, number)
        return sorted(sends)

    def _released(self, waiting: Mapping[int, Sequence[int]], number: int) -> list[int]:
        """Return the operations whose last awaited operation was `number`."""
        found = []
        for other in waiting.get(number, ()):
            self._missing[other] -= 1
            if not self._missing[other]:
                found.append(other)
        return found


class ListedPayloads(Payloads):
    """Messages of the sizes that a file lists."""

    def __init__(
        self,
        sizes: Mapping[tuple[Rank, Rank, int], int],
        seed: int,
        message_bytes: int,
        segments_per_message: int,
        short: Container[Rank] = (),
    ) -> None:
        super().__init__(seed, message_bytes, segments_per_message, short)
        self._sizes = sizes

    def _segment(self, origin: Rank, target: Rank, segment: int) -> bytes:
        name = self.message_name(origin, target, segment)
        return shake_128(name.encode(), usedforsecurity=False).digest(self._sizes[origin, target, segment])


class GivenMessageExchange(GivenAlgorithm):
    """The messages of a schedule file that does not say what they contain.

    The claims are the messages, pairs and bytes that the file lists, and the steps that it takes as soon as possible.
    """

    collective = Collective.MESSAGES
    dependence = Dependence.LISTED
    unjudged = "contents not judged: the file does not carry them"

    def parsed(self, text: str) -> tuple[GivenMessages, int]:
        self.given = _parsed(text)
        self._require_operations()
        return self.given, self.given.most_messages

    def crossings(self) -> Iterable[tuple[Step, Rank, Rank]]:
        return ((each.step, each.rank, each.peer) for each in self._sends.values())

    @cached_property
    def _sends(self) -> Mapping[int, GivenOperation]:
        """The sends, by number."""
        kind = OperationKind.SEND
        return {number: each for number, each in enumerate(self.given.operations) if each.kind is kind}

    @cached_property
    def receipts(self) -> Mapping[tuple[Rank, Rank, int], int]:
        """By message, the number of its receipt."""
        kind = OperationKind.RECEIVE
        return {each.message: number for number, each in enumerate(self.given.operations) if each.kind is kind}

    @cached_property
    def operations_of(self) -> Mapping[Rank, Mapping[int, GivenOperation]]:
        """By rank, its operations by number."""
        found: dict[Rank, dict[int, GivenOperation]] = {}
        for number, each in enumerate(self.given.operations):
            found.setdefault(each.rank, {})[number] = each
        return found

    def _require_operations(self) -> None:
        """Refuse messages without one send and one receipt each, and sends that wait for later ones."""
        operations, sends = self.given.operations, self._sends
        sent = {each.message: number for number, each in sends.items()}
        if not sends or len(sent) != len(sends) or sent.keys() != self.receipts.keys():
            raise invalid_schedule("every message needs one send and one receipt")
        total = sum(each.size for each in sends.values())
        if total > MOST_LISTED_BYTES:
            raise invalid_schedule(f"its messages have {total:,} bytes; at most {MOST_LISTED_BYTES:,} are sent")
        for each in operations:
            if each.kind is not OperationKind.COMPUTE and (each.peer == each.rank or not each.step):
                raise invalid_schedule(f"rank {each.rank} has a message for itself, or one without a step")
            if any(operations[other].rank != each.rank for other in (*each.after, *each.after_start)):
                raise invalid_schedule(f"rank {each.rank} waits for an operation of another rank")
        for message, number in self.receipts.items():
            if operations[number].step != sends[sent[message]].step:
                raise invalid_schedule("a message is received in another step than it is sent in")
        steps = {each.message: each.step for each in sends.values()}
        if len(self._order) < len(operations) or self.early_messages(steps, steps):
            raise invalid_schedule("a message is sent before one that it waits for, or never")

    def make_payloads(self, kind: Callable[[int, int, int, Container[Rank]], Payloads] | None = None) -> Payloads:
        return super().make_payloads(kind or partial(ListedPayloads, {each[:3]: each.size for each in self.listed}))

    @cached_property
    def listed(self) -> Sequence[ListedMessage]:
        return [ListedMessage(*each.message, each.size) for each in self._sends.values()]

    @property
    def largest_segment_bytes(self) -> int:
        return self.given.largest_bytes

    @cached_property
    def sources(self) -> Sequence[Rank]:
        return sorted({each.rank for each in self._sends.values()})

    def rule(self, view: LocalView) -> Rule:
        return GivenMessageRule(self, view)

    # --- what is lost, and what is too early

    def lost_messages(self, crosses: Crosses) -> Iterator[ListedMessage]:
        progress, sends = SendProgress(dict(enumerate(self.given.operations))), self._sends
        started, arrived = progress.begin(), set[int]()
        # A message that arrives may let others leave, whatever their numbers are.
        while started:
            receipts = []
            for number in started:
                each = sends[number]
                if crosses(each.step, each.rank, self.ports[each.rank][each.peer], each.peer):
                    receipts.append(self.receipts[each.message])
                    arrived.add(number)
            started = progress.arrive(receipts)
        for number, each in sends.items():
            if number not in arrived:
                yield ListedMessage(*each.message, each.size)

    def early_messages(self, sent: MessageSteps, arrived: MessageSteps) -> Sequence[Step]:
        operations, never = self.given.operations, 2**62
        since: dict[int, tuple[Step, Step]] = {}
        """By operation, the steps of its start and its end."""
        for number in self._order:
            each = operations[number]
            ends, starts = (since[other][1] for other in each.after), (since[other][0] for other in each.after_start)
            start = max((*ends, *starts), default=0)
            arrives = arrived.get(each.message, never) if each.kind is OperationKind.RECEIVE else 0
            since[number] = start, max(start, arrives)
        return [
            step
            for number, each in self._sends.items()
            if (step := sent.get(each.message)) is not None and step <= since[number][0]
        ]

    @cached_property
    def _order(self) -> Sequence[int]:
        """The operations that can be put in an order, each after all that it waits for in its rank."""
        operations = self.given.operations
        missing = [len(each.after) + len(each.after_start) for each in operations]
        behind: dict[int, list[int]] = {}
        for number, each in enumerate(operations):
            for other in (*each.after, *each.after_start):
                behind.setdefault(other, []).append(number)
        order = [number for number, count in enumerate(missing) if not count]
        for number in order:
            for other in behind.get(number, ()):
                missing[other] -= 1
                if not missing[other]:
                    order.append(other)
        return order

    # --- claims

    def claims(self) -> list[Claim]:
        given, sends = self.given, self._sends.values()
        loads = Counter((each.rank, each.peer) for each in sends)
        claims = [
            Claim("steps", max(each.step for each in sends), "==", f"{given.file}: as soon as possible", derived=True),
            Claim("segments", len(sends), "==", f"{given.file}: its sends"),
            Claim("links_used", len(loads), "==", f"{given.file}: its pairs"),
            Claim("bytes", sum(each.size for each in sends), "==", f"{given.file}: the bytes of its sends"),
            Claim("intact_deliveries", len(sends), "==", f"{given.file}: every message is received"),
        ]
        if self.link_capacity is not None:
            most = -(-max(loads.values()) // self.link_capacity)
            claims.append(Claim("steps", most, ">=", f"{given.file}: the messages of its busiest link"))
        if given.stated_steps:
            claims.append(Claim("steps", given.stated_steps, "<=", f"{given.file} says so"))
        return claims


class GivenMessageRule(Rule):
    """Send each message in its step, or after the last receipt that it waits for."""

    __slots__ = ("_algorithm", "_progress", "_rank")

    def __init__(self, algorithm: GivenMessageExchange, view: LocalView) -> None:
        self._algorithm = algorithm
        self._rank = view.rank
        self._progress = SendProgress(algorithm.operations_of.get(view.rank, {}))

    def start(self) -> Iterator[ScheduledSend]:
        operations = self._algorithm.given.operations
        yield from self._sends(sorted(self._progress.begin(), key=lambda number: operations[number].step), 0)

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        receipts = self._algorithm.receipts
        arrived = [receipts[each[0], each[1], each[3]] for _, segments in packets for each in segments]
        return self._sends(self._progress.arrive(arrived), step)

    def _sends(self, numbers: Iterable[int], step: Step) -> Iterator[ScheduledSend]:
        """Yield sends that may leave after a step."""
        algorithm, me = self._algorithm, self._rank
        for number in numbers:
            each = algorithm.given.operations[number]
            payload = algorithm.payloads.segment(*each.message)
            when = max(each.step, step + 1)
            yield when, algorithm.ports[me][each.peer], (me, each.peer, 0, each.segment, payload)
