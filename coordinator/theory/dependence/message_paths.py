"""The path of every copy of every message, read from the hops of a run without faults.

Where no node waits and none chooses its way, a copy arrives if and only if no hop of its path is blocked, whatever happens
elsewhere. So these paths decide every set of faults that begin and end at known steps.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple
from weakref import WeakKeyDictionary

from coordinator.theory.dependence.size import MOST_STEPS, InexactError
from emunode.algorithms.base import Algorithm
from emunode.model import ALL_RANKS, Port, Rank, Step
from emunode.topologies.base import Topology

if TYPE_CHECKING:
    from coordinator.theory.dependence.schedule import Schedule

MOST_HOPS: Final = 2_000_000
"""Most hops of a run without faults whose paths are read."""


class PathHop(NamedTuple):
    """One hop of a copy."""

    step: Step
    sender: Rank
    port: Port
    receiver: Rank


Path = tuple[PathHop, ...]
MessageSegment = tuple[Rank, Rank, int]
"""A segment of a message: origin, target (or ALL_RANKS) and number."""


class DueMessage(NamedTuple):
    """The messages that one rank is to receive from another, taken together."""

    origin: Rank
    receiver: Rank


class MessagePaths:
    """The paths of all copies of a schedule. Raises InexactError if they cannot be told apart."""

    def __init__(self, schedule: "Schedule", topology: Topology) -> None:
        self.topology = topology
        self.hops = len(schedule)
        columns = (schedule.step, schedule.sender, schedule.port, schedule.receiver)
        self._hops = list(map(PathHop, *(column.tolist() for column in columns)))
        self._carried: list[int] = schedule.carried.tolist()
        names = (schedule.origin, schedule.target, schedule.segment, schedule.tree)
        self._last: dict[MessageSegment, dict[Rank, dict[int, int]]] = {}
        """By segment, receiver and tree, the last hop of the copy."""
        self._alike: dict[tuple[tuple[MessageSegment, ...], bool], Mapping[MessageSegment, MessageSegment]] = {}
        for hop, (origin, target, number, tree) in enumerate(zip(*(name.tolist() for name in names), strict=True)):
            receiver = self._hops[hop].receiver
            copies = self._last.setdefault((origin, target, number), {}).setdefault(receiver, {})
            # After a second arrival, or a return to its origin, the last hop no longer identifies the path of a copy.
            if tree in copies or receiver == origin:
                raise InexactError("a copy reaches a node twice")
            copies[tree] = hop

    @cached_property
    def segments(self) -> Mapping[DueMessage, Sequence[MessageSegment]]:
        """For every message that is due without faults, its segments."""
        segments: dict[DueMessage, list[MessageSegment]] = {}
        everyone = self.topology.data_ranks
        for segment in sorted(self._last):
            origin, target, _ = segment
            for receiver in everyone if target == ALL_RANKS else [target]:
                if receiver != origin:
                    segments.setdefault(DueMessage(origin, receiver), []).append(segment)
        return segments

    def require_all(self) -> None:
        """Raise InexactError if a message does not arrive without faults."""
        for message, segments in self.segments.items():
            if any(message.receiver not in self._last[segment] for segment in segments):
                raise InexactError("a node is not reached without faults")

    def first_alike(
        self, segments: tuple[MessageSegment, ...], *, timed: bool
    ) -> Mapping[MessageSegment, MessageSegment]:
        """Return for each segment the first one whose copies cross the same links.

        With `timed`, they also cross them in the same steps.
        """
        # One segment stands for all segments that every set of faults strikes alike, so that fewer paths are read.
        if len(segments) == 1:
            return {segments[0]: segments[0]}
        if (segments, timed) not in self._alike:
            first: dict[frozenset[frozenset[tuple[Rank, Port, Step]]], MessageSegment] = {}
            self._alike[segments, timed] = {
                segment: first.setdefault(self._crossed(segment, timed=timed), segment) for segment in segments
            }
        return self._alike[segments, timed]

    def _crossed(self, segment: MessageSegment, *, timed: bool) -> frozenset[frozenset[tuple[Rank, Port, Step]]]:
        """Return for each copy of a segment the links that it crosses to all its receivers."""
        by_tree: dict[int, set[tuple[Rank, Port, Step]]] = {}
        for copies in self._last.get(segment, {}).values():
            for tree, hop in copies.items():
                step, sender, port, _ = self._hops[hop]
                by_tree.setdefault(tree, set()).add((sender, port, step if timed else 0))
        return frozenset(map(frozenset, by_tree.values()))

    def copies(self, segment: MessageSegment, receiver: Rank) -> Mapping[int, Path]:
        """Return for each tree, ascending, the path of a copy of a segment to a receiver."""
        last = self._last.get(segment, {}).get(receiver, {})
        return {tree: self._path(last[tree]) for tree in sorted(last)}

    def _path(self, hop: int) -> Path:
        backwards = []
        while hop >= 0:
            backwards.append(self._hops[hop])
            # Backwards from the receiver: each hop knows the hop that brought its copy, and BEGIN ends the chain.
            hop = self._carried[hop]
        return tuple(reversed(backwards))


# Without the algorithm in a value, so that an entry goes with its algorithm.
_PATHS: Final[WeakKeyDictionary[Algorithm, MessagePaths]] = WeakKeyDictionary()


def paths_of(algorithm: Algorithm, most_hops: int = MOST_HOPS) -> MessagePaths:
    """Return the paths of an algorithm, traced once; InexactError if they are too many or cannot be told apart."""
    from coordinator.theory.dependence.schedule import plain_algorithm, trace  # noqa: PLC0415  # it imports numpy

    if algorithm not in _PATHS:
        plain = plain_algorithm(algorithm)
        _PATHS[algorithm] = MessagePaths(trace(plain, MOST_STEPS, most_hops)[0], algorithm.topology)
    return _PATHS[algorithm]
