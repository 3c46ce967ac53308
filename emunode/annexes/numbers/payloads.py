"""Payloads that are real numbers: contributions as arrays, folded by addition in a given order.

Loaded only by runs with real numbers, since numpy takes a tenth of a second.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from struct import pack, unpack_from
from typing import Any, cast

from emunode.algorithms.payload import Payloads, block_owner
from emunode.annexes.numbers.contributions import generated, probe_contribution
from emunode.annexes.numbers.fixed_order import NOTHING, ROOT, FixedTree, TreeNode
from emunode.annexes.numbers.float_types import FLOAT_TYPES, FloatArray, FloatType, sum_in_order
from emunode.model import (
    PART_NAME_BYTES,
    CollectiveSpec,
    EvenParts,
    NumberSource,
    NumberType,
    Rank,
    RealNumbers,
    Rounding,
)


def sent_type(numbers: RealNumbers) -> FloatType:
    """Return the type of the numbers in messages: partial results that are rounded at the end travel as float32."""
    return FLOAT_TYPES[NumberType.FLOAT32 if numbers.rounding is Rounding.END else numbers.type]


class NumberPayloads(Payloads):
    """The vectors of one run. Elements count from 0 over the blocks of a message, and on over all messages."""

    ordered = True

    def __init__(
        self,
        spec: CollectiveSpec,
        ranks: Sequence[Rank],
        seed: int,
        message_bytes: int,
        segments_per_message: int,
        short: Container[Rank] = (),
    ) -> None:
        """Take the vectors of the ranks that own data, ascending; the other parameters are those of `Payloads`."""
        assert spec.numbers is not None
        self.kind = spec.numbers
        """The kind of the numbers: their type, rounding and source."""
        self._kind = FLOAT_TYPES[spec.numbers.type]
        self._sent = sent_type(spec.numbers)
        self.element_bytes = self._sent.item_bytes
        self._ranks = ranks
        self.elements = spec.contributed_bytes // self.element_bytes
        """Elements of the vector of each rank, in each message."""
        self._blocks = EvenParts(self.elements, spec.blocks)
        self.contributions = self.kind.contributions(ranks)
        """The contributions by name, ascending: where each rank has one, the ranks."""
        data = spec.numbers.data
        self._data = self._kind.read(data).reshape(len(self.contributions), -1) if data else None
        super().__init__(seed, message_bytes, segments_per_message, short)

    def block_start(self, owner: Rank) -> int:
        """Return the first element of the block of a rank in the vector."""
        return self._blocks.start(self._ranks.index(owner)) if self._blocks.parts > 1 else 0

    def place(self, owner: Rank, segment: int) -> slice:
        """Return the elements of a segment of the block of `owner`, over all messages."""
        start = segment // self.segments_per_message * self.elements
        start += self.block_start(owner) + self.first_element(owner, segment)
        return slice(start, start + self.segment_bytes(owner, segment) // self.element_bytes)

    def folded(self, operands: Sequence[bytes], owner: Rank, segment: int) -> bytes:
        if not operands:
            # The neutral element is -0: -0 + x is x for every x, where +0 would turn -0 into +0.
            return self._sent.negative_zeros(self.segment_bytes(owner, segment) // self.element_bytes).tobytes()
        if len(operands) == 1 and isinstance(operands[0], bytes):
            return operands[0]
        return sum_in_order(self._sent, map(self._sent.read, operands))

    def operand(self, rank: Rank, target: Rank, segment: int) -> bytes:
        # An array: a rank that adds needs no bytes of its own numbers, and a copy takes longer than an addition.
        return cast("bytes", self._operand(rank, target, segment))

    def finished(self, result: bytes) -> FloatArray:
        """Return the numbers of a result, rounded to the type of the contributions."""
        total = self._sent.read(result)
        return total if self._sent is self._kind else self._kind.rounded(self._sent.exact(total))

    def written(self, payload: bytes) -> list[float]:
        """Return the numbers of a payload, each exactly."""
        found: list[float] = self._sent.exact(self._sent.read(bytes(payload))).tolist()
        return found

    def payload_of(self, values: object, owner: Rank, segment: int) -> bytes:
        """Return numbers of a program as a payload, each rounded to the type.

        Raises ValueError unless there are as many numbers as the segment has.
        """
        count = self.segment_bytes(owner, segment) // self.element_bytes
        if (
            not isinstance(values, list)
            or len(values) != count
            or not all(type(each) in (int, float) for each in values)
        ):
            raise ValueError(f"values: a list of {count} numbers is expected, got {values!r:.60}")
        try:
            return self._sent.of(values).tobytes()
        except OverflowError:
            raise ValueError("values: a number is too large") from None

    def numbers(self, contribution: int, elements: range) -> FloatArray:
        """Return elements of a contribution, in the type of the contributions."""
        if self._data is not None:
            row: FloatArray = self._data[self.contributions.index(contribution)]
            return row[elements.start : elements.stop : elements.step]
        return self._kind.rounded(generated(self._seed, contribution, elements))

    def _segment(self, origin: Rank, target: Rank, segment: int) -> bytes:
        numbers = self._operand(origin, target, segment)
        # A view where the numbers are part of a constant array: copies of all leaves take as long as the additions.
        return numbers.tobytes() if numbers.flags.writeable else cast("bytes", numbers.data.cast("B"))

    def _operand(self, origin: Rank, target: Rank, segment: int) -> FloatArray:
        """Return the contribution of a rank; where it has several, their sum from the left."""
        owner, own = block_owner(origin, target), self.kind.contributions_of(origin, self._ranks)
        if len(own) == 1:
            return self.sent_numbers(own[0], owner, segment)
        return self._sent.read(sum_in_order(self._sent, (self.sent_numbers(each, owner, segment) for each in own)))

    def sent_numbers(self, contribution: int, owner: Rank, segment: int) -> FloatArray:
        """Return the elements of a contribution in a segment of the block of `owner`, in the type of messages."""
        place = self.place(owner, segment)
        if self.kind.source is NumberSource.PROBE:
            # Each segment has the elements of all pairs, because segments may be folded by different trees.
            probe = probe_contribution(self._kind, self.kind.rounding, self.contributions, contribution)
            numbers = self._kind.rounded(probe[: place.stop - place.start])
        else:
            numbers = self.numbers(contribution, range(place.start, place.stop))
        if self._sent is not self._kind:
            numbers = self._sent.rounded(self._kind.exact(numbers))
        return numbers


class FixedOrderPayloads(NumberPayloads):
    """Vectors that are folded in the fixed order. A partial result is its parts one after the other, by ascending
    contributions, and then the name of each in four bytes; a result has no name.
    """

    def __init__(self, spec: CollectiveSpec, ranks: Sequence[Rank], *arguments: Any) -> None:
        super().__init__(spec, ranks, *arguments)
        self._tree = FixedTree(len(self.contributions))

    def folded(self, operands: Sequence[bytes], owner: Rank, segment: int) -> bytes:
        parts = self._absorbed(operands, owner, segment)
        if parts.keys() == {ROOT}:
            return parts[ROOT].tobytes()
        if not parts:
            return self._nothing(owner, segment) + pack("<I", NOTHING)
        found = self._tree.in_order(parts)
        names = pack(f"<{len(found)}I", *(node for node, _ in found))
        return b"".join((*(numbers.tobytes() for _, numbers in found), names))

    def result(self, folded: bytes, owner: Rank, segment: int) -> bytes:
        if len(folded) == self.segment_bytes(owner, segment):
            return folded
        # Something is missing: the sum of what there is, by contribution.
        found = [numbers for _, numbers in self._tree.in_order(self._absorbed([folded], owner, segment))]
        return sum_in_order(self._sent, found) if found else self._nothing(owner, segment)

    def operand(self, rank: Rank, target: Rank, segment: int) -> bytes:
        # The parts themselves: a rank that adds needs no bytes of its own numbers.
        parts: dict[TreeNode, FloatArray] = {}
        for each in self.kind.contributions_of(rank, self._ranks):
            numbers = self.sent_numbers(each, block_owner(rank, target), segment)
            self._tree.absorb(parts, self._tree.leaf(self.contributions.index(each)), numbers, self._sent.add)
        return cast("bytes", parts)

    def _absorbed(self, operands: Sequence[bytes], owner: Rank, segment: int) -> dict[TreeNode, FloatArray]:
        """Return the parts of all operands, added wherever both halves of a node are there."""
        parts: dict[TreeNode, FloatArray] = {}
        for operand in operands:
            for node, numbers in self._parts(operand, owner, segment):
                self._tree.absorb(parts, node, numbers, self._sent.add)
        return parts

    def _nothing(self, owner: Rank, segment: int) -> bytes:
        """Return the numbers that leave every sum as it is."""
        return self._sent.negative_zeros(self.segment_bytes(owner, segment) // self.element_bytes).tobytes()

    def _parts(self, operand: bytes, owner: Rank, segment: int) -> Iterator[tuple[TreeNode, FloatArray]]:
        """Yield the parts of a partial result by their names; of an altered one, the parts that the tree has."""
        if isinstance(operand, Mapping):
            yield from operand.items()
            return
        size = self.segment_bytes(owner, segment)
        if len(operand) == size:
            yield ROOT, self._sent.read(operand)
            return
        count = len(operand) // (size + PART_NAME_BYTES)
        whole = memoryview(operand)
        for place, node in enumerate(unpack_from(f"<{count}I", operand, count * size)):
            if self._tree.is_node(node):
                yield node, self._sent.read(whole[place * size : (place + 1) * size])


def payloads_for(numbers: RealNumbers) -> type[NumberPayloads]:
    """Return the payloads of contributions that are real numbers."""
    return FixedOrderPayloads if numbers.fixed_order else NumberPayloads
