"""The price of an order of additions: bytes of partial results on links, and bytes that a rank holds, by the timetable.

The fixed order keeps all steps, packets and segments of an algorithm. Sums whose other half is elsewhere travel apart.
"""

from collections import defaultdict
from typing import NamedTuple

from coordinator.annexes.numbers.orders import FoldTrees, SentResult
from emunode.algorithms.base import Algorithm
from emunode.model import PART_NAME_BYTES, Rank, Step


class Price(NamedTuple):
    """Bytes of partial results in a run without faults."""

    on_links: int
    """On all links together."""
    folded: int
    """The same, if each partial result travelled as one sum."""
    held: int
    """Most bytes that one rank holds at a time, from their arrival until it sends its own partial result, or to the end."""
    largest_packet: int
    """Of one packet at most."""

    @property
    def text(self) -> str:
        """The price in words."""
        times = self.on_links / self.folded if self.folded else 1.0
        return (
            f"fixed order: {times:.2f} times the {self.folded:,} bytes of folded partial results, and no further step"
        )


def make_price(algorithm: Algorithm, trees: FoldTrees) -> Price:
    """Return the price of an algorithm whose partial results are known."""
    sizes = [_bytes(algorithm, each) for each in trees.sent]
    packets: defaultdict[tuple[Step, Rank, Rank], int] = defaultdict(int)
    for each, size in zip(trees.sent, sizes, strict=True):
        packets[each.step, each.sender, each.receiver] += size
    folded = sum(algorithm.payloads.segment_bytes(each.target, each.segment) for each in trees.sent)
    return Price(sum(sizes), folded, _most_held(trees, sizes), max(packets.values(), default=0))


def _bytes(algorithm: Algorithm, each: SentResult) -> int:
    size = algorithm.payloads.segment_bytes(each.target, each.segment)
    numbers = algorithm.spec.numbers
    in_parts = numbers is not None and numbers.fixed_order and not each.complete
    return max(1, each.parts) * (size + PART_NAME_BYTES) if in_parts else size


def _most_held(trees: FoldTrees, sizes: list[int]) -> int:
    """Return the most bytes that a rank holds in a step, by following each rank from step to step."""
    leaving = {(each.sender, each.target, each.segment): each.step for each in trees.sent}
    changed: defaultdict[Rank, dict[Step, int]] = defaultdict(lambda: defaultdict(int))
    for each, size in zip(trees.sent, sizes, strict=True):
        changed[each.receiver][each.step + 1] += size
        gone = leaving.get((each.receiver, each.target, each.segment), 0)
        if gone > each.step:
            changed[each.receiver][gone + 1] -= size
    most = 0
    for changes in changed.values():
        held = 0
        for step in sorted(changes):
            held += changes[step]
            most = max(most, held)
    return most
