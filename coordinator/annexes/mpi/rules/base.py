"""A rule of an MPI algorithm: the messages and elements that each rank sends to each rank.

Rules are stated from the sources of Open MPI and held against tables that the library produced; no rule is derived from
an execution. An algorithm is declared by `@algorithm(..)` over the function that lists its messages; nothing else must be
changed for a new one.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Final, NamedTuple

from emunode.registry import Registry, register

ELEMENT_BYTES: Final = 4
"""Size of the elements of every call: 32-bit integers."""
CHECKED_RANKS: Final = (*range(2, 10), 12)
"""Numbers of ranks where all rules were held against the library."""


class PairCount(NamedTuple):
    """Messages from one rank to another."""

    messages: int
    bytes: int


PairCounts = Mapping[tuple[int, int], PairCount]
"""Messages of each (source, target) with at least one message; both are ranks of the whole world."""


@dataclass(frozen=True)
class MpiCall:
    """One call of a collective on all ranks.

    `elements` is the length of the vector (bcast, reduce, allreduce, reduce_scatter), or of the block of one rank (all
    others). `segment` is the segment size in bytes, 0 for no segments.
    """

    collective: str
    ranks: int
    root: int = 0
    elements: int = 0
    segment: int = 0
    commutative: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send: then no rank sends a message, and nothing is refused. No barrier is empty."""
        return not self.elements and self.collective != "barrier"

    @property
    def power(self) -> int:
        """The largest power of two that is at most the number of ranks."""
        return 1 << (self.ranks.bit_length() - 1)

    @property
    def excess(self) -> int:
        """Number of ranks above that power."""
        return self.ranks - self.power

    def rank(self, virtual: int) -> int:
        """Return the rank at distance `virtual` behind the root."""
        return (virtual + self.root) % self.ranks

    def pieces(self, elements: int | None = None) -> list[int]:
        """Return the lengths of the segments of a vector of `elements`, by default of the whole one."""
        whole = self.elements if elements is None else elements
        if not ELEMENT_BYTES <= self.segment < ELEMENT_BYTES * whole:
            return [whole]
        # The library rounds to the next whole element if more than half of one would be cut off.
        length = self.segment // ELEMENT_BYTES + (self.segment % ELEMENT_BYTES > ELEMENT_BYTES // 2)
        return [length] * (whole // length) + ([whole % length] if whole % length else [])

    def part(self, collective: str, elements: int) -> "MpiCall":
        """Return the call of another collective, from rank 0 and unsegmented, that a composed algorithm makes."""
        return replace(self, collective=collective, elements=elements, root=0, segment=0)


class RefusedCall(Exception):  # noqa: N818  # not an error of ours: the rule states that the library refuses
    """The library refuses this number of ranks, as the rule states."""


@dataclass
class MessageList:
    """Messages of one call, added up for each pair of ranks."""

    counts: dict[tuple[int, int], PairCount] = field(default_factory=dict)

    def send(self, source: int, target: int, elements: int, messages: int = 1) -> None:
        """Add `messages` messages that have `elements` elements together."""
        self.add((source, target), PairCount(messages, elements * ELEMENT_BYTES))

    def send_each(self, source: int, target: int, lengths: Iterable[int]) -> None:
        """Add a message for each length."""
        for length in lengths:
            self.send(source, target, length)

    def add(self, pair: tuple[int, int], count: PairCount) -> None:
        """Add messages of one pair."""
        before = self.counts.get(pair, PairCount(0, 0))
        self.counts[pair] = PairCount(before.messages + count.messages, before.bytes + count.bytes)


SendMessages = Callable[[MpiCall, MessageList], "str | None"]
"""Lists the messages of a call; returns the name of the algorithm that runs in place of the one asked for, or None."""
PartsOfCall = Callable[[MpiCall], Sequence[MpiCall]]
"""Returns the calls, with the library's own choice of algorithm, that a composed algorithm makes."""


@dataclass(frozen=True)
class MpiAlgorithm:
    """An algorithm of Open MPI: its name in the library, its rule, and what it does with the order of operations."""

    collective: str
    number: int
    name: str
    text: str
    send: SendMessages
    parts: PartsOfCall | None = None
    keeps_order: bool | None = None
    """Whether operations that do not commute are applied in rank order; None for a collective without operation."""

    def counts(self, call: MpiCall, parts: Sequence[PairCounts] = ()) -> PairCounts:
        """Return the messages of a call; RefusedCall if the library refuses it.

        `parts` are the measured messages of the calls that a composed algorithm makes.
        """
        messages = MessageList()
        if call.is_empty:
            return messages.counts
        self.send(call, messages)
        for counts in parts:
            for pair, count in counts.items():
                messages.add(pair, count)
        return messages.counts

    def runs(self, call: MpiCall) -> str:
        """Return the name of the algorithm that the library runs if this one is asked for."""
        return self.name if call.is_empty else self.send(call, MessageList()) or self.name


MPI_ALGORITHMS: Final[Registry[tuple[str, str], MpiAlgorithm]] = Registry(
    "MPI algorithm", MpiAlgorithm, lambda each: (each.collective, each.name), instances=True, scope=lambda key: key[0]
)
"""Every declared algorithm by collective and name."""

RULES: Final = "coordinator.annexes.mpi.rules"
MPI_ALGORITHMS.declare(
    (collective, f"{RULES}.{module}")
    for collective, module in (
        ("allgather", "allgather"),
        ("allreduce", "allreduce"),
        ("alltoall", "alltoall"),
        ("barrier", "barrier"),
        ("bcast", "bcast"),
        ("gather", "gather"),
        ("scatter", "gather"),
        ("reduce", "reduce"),
        ("reduce_scatter", "reduce_scatter"),
        ("reduce_scatter_block", "reduce_scatter"),
    )
)


def algorithm(
    collective: str,
    number: int,
    name: str,
    text: str,
    *,
    parts: PartsOfCall | None = None,
    keeps_order: bool | None = None,
) -> Callable[[SendMessages], SendMessages]:
    """Declare the decorated function as the rule of an algorithm, also in a plug-in.

    RegistrationError if there is a rule of this name.
    """

    def declare(send: SendMessages) -> SendMessages:
        register(MpiAlgorithm(collective, number, name, text, send, parts, keeps_order), send.__module__)
        return send

    return declare


def split(elements: int, parts: int) -> list[int]:
    """Return the lengths of `parts` parts of a vector, the first ones longer by one element."""
    return [elements // parts + (index < elements % parts) for index in range(parts)]


def distances(ranks: int) -> list[int]:
    """Return 1, 2, 4, .. below `ranks`."""
    return [1 << bit for bit in range((ranks - 1).bit_length())]


def same_counts(call: MpiCall, counts: PairCounts) -> list[str]:
    """Return the names of the algorithms whose rule states `counts` for a call; composed ones have no rule alone."""
    return [each.name for each in MPI_ALGORITHMS.values() if each.parts is None and _states(each, call, counts)]


def known_names(call: MpiCall, counts: PairCounts) -> list[str]:
    """Return the names of the algorithms that send `counts`, or else of compositions; `nothing` for an empty call."""
    return ["nothing"] if call.is_empty and not counts else same_counts(call, counts) or _compositions(call, counts)


def _compositions(call: MpiCall, counts: PairCounts) -> list[str]:
    """Return the composed algorithms that send `counts`, each with the algorithms of its parts: `a (reduce b, bcast c)`."""
    return [
        f"{each.name} ({', '.join(f'{part.collective} {part.name}' for part in made)})"
        for each in MPI_ALGORITHMS.values()
        if each.parts is not None and each.collective == call.collective
        for parts in [each.parts(call)]
        for made in product(*map(_algorithms_of, parts))
        if each.counts(call, [part.counts(of) for part, of in zip(made, parts, strict=True)]) == counts
    ]


def _algorithms_of(call: MpiCall) -> list[MpiAlgorithm]:
    """Return the algorithms that run a call themselves, by their rules."""
    return [each for each in MPI_ALGORITHMS.values() if each.parts is None and _runs(each, call)]


def _states(each: MpiAlgorithm, call: MpiCall, counts: PairCounts) -> bool:
    return _runs(each, call) and each.counts(call) == counts


def _runs(each: MpiAlgorithm, call: MpiCall) -> bool:
    if each.collective != call.collective:
        return False
    try:
        # An algorithm that falls back on another one is not a further candidate.
        return each.runs(call) == each.name
    except RefusedCall:
        return False
