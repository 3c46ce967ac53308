"""The fixed order: one fold tree for every chunk, whatever the schedule, so that no size, segment or owner changes a bit.

Ranks that own data, in ascending order, are added in pairs, pairs of pairs, and so on; a group without a partner goes up
alone. It is the tree of a binomial reduce to rank 0, of depth ceil(log2 p), and ranks of zeros that join at the end leave
it as it is. A partial result therefore travels as its *parts*: sums that are nodes of this tree, as few as possible. A rank
adds two parts as soon as it has both halves of a node, and keeps apart what has no partner yet. So every schedule keeps its
steps, packets and segments; bytes and memory are the price.

The tree is over contributions. Where each rank has one, another number of ranks has another tree. Where a fixed number of
contributions is shared by the ranks, each with a run of them, the tree depends on the number of contributions alone: any
number of ranks ends with the same bits.
"""

from collections.abc import Callable, MutableMapping
from typing import Final, TypeVar

TreeNode = int
"""A node of the tree by its place in a heap: the root is 1, the halves of node n are 2n and 2n + 1."""
Value = TypeVar("Value")
ROOT: Final[TreeNode] = 1
NOTHING: Final[TreeNode] = 0
"""Names the part of a rank that has nothing to add, such as a switch at the end of a branch."""


class FixedTree:
    """The tree over `count` contributions, numbered from 0."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.depth = (count - 1).bit_length()

    def leaf(self, place: int) -> TreeNode:
        """Return the highest node that holds this contribution alone."""
        return self._lifted((1 << self.depth) + place)

    def first(self, node: TreeNode) -> int:
        """Return the first contribution of a node."""
        return (node << self._level(node)) - (1 << self.depth)

    def is_node(self, node: TreeNode) -> bool:
        """Report whether there is such a node: corrupted messages name others."""
        return ROOT <= node < 2 << self.depth and self.first(node) < self.count

    def absorb(
        self,
        parts: MutableMapping[TreeNode, Value],
        node: TreeNode,
        value: Value,
        add: Callable[[Value, Value], Value],
    ) -> None:
        """Add a part to `parts`, and add up all halves that meet.

        A part that is there already is left out.
        """
        if any(_overlaps(node, other) for other in parts):
            return
        node = self._lifted(node)
        while node ^ 1 in parts:
            other = parts.pop(node ^ 1)
            # The lower ranks on the left; the bits are the same either way.
            value = add(other, value) if node & 1 else add(value, other)
            node = self._lifted(node >> 1)
        parts[node] = value

    def in_order(self, parts: MutableMapping[TreeNode, Value]) -> list[tuple[TreeNode, Value]]:
        """Return the parts by their first contributions."""
        return sorted(parts.items(), key=lambda part: self.first(part[0]))

    def _level(self, node: TreeNode) -> int:
        return self.depth + 1 - node.bit_length()

    def _lifted(self, node: TreeNode) -> TreeNode:
        """Return the highest node that holds the same contributions: a left half without a right one goes up alone."""
        while node > ROOT and not node & 1 and self.first(node | 1) >= self.count:
            node >>= 1
        return node


def _overlaps(one: TreeNode, other: TreeNode) -> bool:
    """Report whether one node lies below the other, or is the same."""
    apart = one.bit_length() - other.bit_length()
    return one >> apart == other if apart >= 0 else other >> -apart == one
