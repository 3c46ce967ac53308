"""How many faults an algorithm tolerates, from the smallest set that costs each receiver a message.

A set of faults leaves some healthy node without a message exactly if it defeats the copies of one message, so the smallest
defeat over all messages is the smallest set that defeats the algorithm; one fault less is always tolerated. Receivers that
a symmetry of the run maps to each other need the same number of faults, so one of each class is examined.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.theory.dependence.message_paths import DueMessage, MessagePaths, MessageSegment, Path
from coordinator.theory.least_faults import (
    MOST_CASES,
    Cases,
    Copy,
    FaultBudget,
    Strike,
    disjoint,
    is_lost,
    least_faults,
    struck,
)
from coordinator.theory.symmetry import Symmetry
from coordinator.theory.threats import ThreatenedMessages, Threats
from emunode.model import Rank
from emunode.topologies.base import Topology


@dataclass(frozen=True)
class MessageClass:
    """Messages that symmetries map to each other, and the fewest faults that defeat one of them."""

    message: DueMessage
    """The examined message."""
    members: Sequence[DueMessage]
    segment: MessageSegment
    """Origin, target and number of its weakest segment."""
    paths: Sequence[Path]
    """The paths of the copies of that segment."""
    copies: Sequence[Copy]
    least: tuple[Strike, ...] | None
    """A smallest set of faults that defeats the message; None if no number of faults does."""

    @property
    def argument(self) -> str:
        """`disjoint` if the paths have no place in common, else `search`."""
        return "disjoint" if disjoint(self.copies) else "search"


class Tolerance(ThreatenedMessages):
    """The smallest defeats under one kind of threat. Raises TooManyCasesError where the search for them takes too long."""

    def __init__(self, paths: MessagePaths, threats: Threats, symmetries: Iterable[Symmetry]) -> None:
        super().__init__(paths, threats)
        self.weights = tuple(part.weight for part in threats.parts)
        # Without any branching a segment takes two or three cases per copy, and every copy has a last hop of its own.
        self._cases = Cases(MOST_CASES + 4 * paths.hops)
        self._defeats: dict[FaultSetSpec, tuple[DueMessage, tuple[Strike, ...]] | None] = {}
        # A symmetry that moves the given faults would compare receivers with different faults on their paths.
        self.symmetries = [each for each in symmetries if keeps_faults(each, threats, paths.topology)]

    @cached_property
    def classes(self) -> list[MessageClass]:
        """All classes, the easiest to defeat first."""
        classes = [self._examined(members) for members in message_classes(self.due, self.symmetries)]
        # Equal sizes are ordered by the message, so that the same class comes first in every process.
        return sorted(classes, key=lambda each: (_size(each), each.message))

    @property
    def smallest(self) -> MessageClass | None:
        """A class that the fewest faults defeat; None if no number of faults defeats any."""
        return next((each for each in self.classes if each.least is not None), None)

    @property
    def tolerated(self) -> int | None:
        """The most faults that lose no message, wherever they are.

        None if any number does that, -1 if not even zero faults do.
        """
        smallest = self.smallest
        return None if smallest is None or smallest.least is None else len(smallest.least) - 1

    def _examined(self, members: Sequence[DueMessage]) -> MessageClass:
        message = members[0]
        weakest: MessageClass | None = None
        for copies, (segment, paths) in self.distinct(message).items():
            # One fault for each copy defeats a message if any number of faults does, so a larger budget finds nothing
            # more.
            unlimited = FaultBudget(self.weights, (len(copies),) * len(self.weights), len(copies))
            each = MessageClass(message, members, segment, paths, copies, least_faults(copies, unlimited, self._cases))
            # A message is lost with any of its segments, so the segment that the fewest faults defeat decides.
            if weakest is None or _size(each) < _size(weakest):
                weakest = each
        assert weakest is not None
        return weakest

    def defeat(self, fault_set: FaultSetSpec) -> tuple[DueMessage, tuple[Strike, ...]] | None:
        """Return a message, and faults within the numbers of a fault set that defeat it, or None."""
        if fault_set not in self._defeats:
            self._defeats[fault_set] = self._defeat(fault_set)
        return self._defeats[fault_set]

    def _defeat(self, fault_set: FaultSetSpec) -> tuple[DueMessage, tuple[Strike, ...]] | None:
        budget = FaultBudget(self.weights, tuple(part.count for part in fault_set.parts), fault_set.size)
        for each in self.classes:
            # Classes are sorted by the size of their smallest defeat, so no later one fits either.
            if _size(each) > fault_set.size:
                break
            for copies in self.distinct(each.message):
                strikes = least_faults(copies, budget, self._cases)
                if strikes is not None:
                    return each.message, strikes
        return None

    def filled(self, fault_set: FaultSetSpec, message: DueMessage, strikes: Sequence[Strike]) -> list[Strike] | None:
        """Return `strikes` and further faults, up to the numbers of a fault set, that still lose the message.

        None if no such faults are found. With faults that only stop copies there always are some, unless they leave no
        healthy receiver.
        """
        chosen, taken = list(strikes), {place for _, place in strikes}
        segments = list(self.distinct(message))
        used = {place for copies in segments for copy in copies for places in copy.places for place in places}
        for number, (part, term) in enumerate(zip(self.threats.parts, fault_set.parts, strict=True)):
            missing = term.count - sum(each == number for each, _ in chosen)
            # Places beside the paths first: stopping a copy that was altered would take a vote from the wrong value.
            spare = sorted(part.eligible - taken - set(message), key=lambda place: (place in used, place))
            chosen += [(number, place) for place in spare[:missing]]
            taken.update(spare[:missing])
            if missing > len(spare):
                return None
        for copies in segments:
            after = list(copies)
            for strike in chosen:
                after = struck(after, strike, self.weights)
            if is_lost(after):
                return chosen
        return None


def _size(examined: MessageClass) -> float:
    return float("inf") if examined.least is None else len(examined.least)


def message_classes(messages: Sequence[DueMessage], symmetries: Sequence[Symmetry]) -> list[list[DueMessage]]:
    """Return the messages in classes.

    Two messages are in one class if a symmetry that fixes every origin maps one to the other.
    """
    images = [symmetry.ranks.tolist() for symmetry in symmetries]
    # A dictionary is a set that keeps its order, so classes and their first members are the same every time.
    left, classes = dict.fromkeys(messages), []
    for message in messages:
        if message not in left:
            continue
        orbit = dict.fromkeys([message])
        del left[message]
        # The symmetries are a group: the images of one message are its whole class, and the images of these add
        # nothing.
        for each in list(orbit):
            for image in images:
                other = DueMessage(image[each.origin], image[each.receiver])
                if other in left:
                    del left[other]
                    orbit[other] = None
        classes.append(list(orbit))
    return classes


def keeps_faults(symmetry: Symmetry, threats: Threats, topology: Topology) -> bool:
    """Return whether a symmetry maps the given faults onto themselves."""
    image = symmetry.ranks.tolist()
    outages = threats.outages

    def nodes(renamed: Sequence[Rank]) -> set[object]:
        silent = {(renamed[rank], tuple(intervals)) for rank, intervals in outages.nodes.items()}
        return silent | {(renamed[rank], "byzantine", tuple(each)) for rank, each in threats.byzantine.items()}

    def links(renamed: Sequence[Rank]) -> set[object]:
        return {
            (renamed[sender], renamed[topology.neighbour(sender, port)], tuple(intervals))
            for (sender, port), intervals in outages.links.items()
        }

    same = range(len(image))
    # Places with their intervals: a fault may only be mapped onto a fault of the same kind in the same steps.
    return nodes(image) == nodes(same) and links(image) == links(same)
