"""Fold trees: the order of the additions that make one element of a result. The bits of a sum depend on nothing else.

Leaves are contributions, by rank; an inner node is one addition, of what a rank has (left) and what comes in (right).
Addition is commutative bit by bit, so trees that differ only in the order of operands give equal bits: they have the
same canonical text, with the part with the smallest leaf on the left.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from hashlib import sha256
from typing import TypeVar

from emunode.model import Rank

Value = TypeVar("Value")


class FoldTree:
    """A leaf, or the addition of two trees. Trees are shared, so they do not change."""

    __slots__ = ("__dict__", "depth", "leaf_count", "least", "left", "right", "total_depth")

    def __init__(self, rank: Rank, left: "FoldTree | None" = None, right: "FoldTree | None" = None) -> None:
        """Make a leaf; `FoldTree.of` makes additions."""
        self.left, self.right = left, right
        self.least: Rank = rank
        """The smallest rank among the leaves."""
        self.leaf_count, self.depth, self.total_depth = 1, 0, 0
        if left is not None and right is not None:
            self.leaf_count = left.leaf_count + right.leaf_count
            self.depth = 1 + max(left.depth, right.depth)
            self.total_depth = left.total_depth + right.total_depth + self.leaf_count

    @classmethod
    def of(cls, left: "FoldTree", right: "FoldTree") -> "FoldTree":
        """Return the addition of two trees."""
        return cls(min(left.least, right.least), left, right)

    @property
    def mean_depth(self) -> float:
        """The additions above a leaf, on average over the leaves."""
        return self.total_depth / self.leaf_count

    @property
    def parts(self) -> "tuple[FoldTree, FoldTree] | None":
        """The operands of the addition in canonical order; None for a leaf."""
        if self.left is None or self.right is None:
            return None
        # A contribution that is folded twice may be the smallest leaf of both: then the operands keep their order.
        return (self.left, self.right) if self.left.least <= self.right.least else (self.right, self.left)

    def leaf_depths(self) -> Iterator[tuple[Rank, int]]:
        """Yield (rank, additions above it) of every leaf, in the order of the operands."""
        # Not recursive: the tree of a chain is as deep as it has ranks.
        pending = [(self, 0)]
        while pending:
            tree, depth = pending.pop()
            if tree.left is None or tree.right is None:
                yield tree.least, depth
            else:
                pending += ((tree.right, depth + 1), (tree.left, depth + 1))

    def is_complete(self, ranks: Iterable[Rank]) -> bool:
        """Report whether each of the ranks is a leaf exactly once, and no other rank is."""
        return sorted(rank for rank, _ in self.leaf_depths()) == sorted(ranks)

    def evaluated(self, leaves: Mapping[Rank, Value], add: Callable[[Value, Value], Value]) -> Value:
        """Return the sum of the values of the leaves, added in the order of the tree."""
        done: dict[FoldTree, Value] = {}
        pending = [self]
        while pending:
            node = pending[-1]
            if node.left is None or node.right is None:
                done[node] = leaves[node.least]
            elif node.left in done and node.right in done:
                done[node] = add(done[node.left], done[node.right])
            else:
                pending += [each for each in (node.left, node.right) if each not in done]
                continue
            pending.pop()
        return done[self]

    @property
    def text(self) -> str:
        """The tree with its operands as they are added, such as `((1+0)+2)`."""
        return "".join(self._written(canonical=False))

    @cached_property
    def canonical(self) -> str:
        """The text in canonical order of operands, such as `((0+1)+2)`: equal texts mean equal bits for all data."""
        return "".join(self._written(canonical=True))

    @cached_property
    def digest(self) -> str:
        """The SHA-256 of the canonical text, in hexadecimal."""
        return sha256(self.canonical.encode()).hexdigest()

    def _written(self, *, canonical: bool) -> Iterator[str]:
        pending: list[FoldTree | str] = [self]
        while pending:
            tree = pending.pop()
            if isinstance(tree, str):
                yield tree
                continue
            operands = tree.parts if canonical else (tree.left, tree.right)
            if operands is None or operands[0] is None or operands[1] is None:
                yield str(tree.least)
            else:
                pending += (")", operands[1], "+", operands[0], "(")

    def __repr__(self) -> str:
        """Show the tree as it is added; a large one by its size and digest."""
        if self.leaf_count <= 32:
            return f"FoldTree({self.text!r})"
        return f"<FoldTree of {self.leaf_count} contributions, depth {self.depth}, sha256 {self.digest[:12]}>"


def fold_in_order(operands: Sequence[FoldTree]) -> FoldTree:
    """Return the left-deep fold of at least one tree."""
    return reduce(FoldTree.of, operands)


def paired(leaves: Sequence[int]) -> FoldTree:
    """Return the tree that adds neighbours, then pairs of neighbours, and so on.

    It has at least one leaf. A node without a neighbour moves up alone.
    """
    trees = [FoldTree(leaf) for leaf in leaves]
    while len(trees) > 1:
        alone = trees[len(trees) // 2 * 2 :]
        trees = [*map(FoldTree.of, trees[::2], trees[1::2]), *alone]
    return trees[0]


def parting_node(one: FoldTree, other: FoldTree) -> tuple[FoldTree, FoldTree] | None:
    """Return the first nodes, from the roots down, where two trees add different parts; None for equal bits.

    Both nodes add the same contributions, in another way.
    """
    while True:
        if one.canonical == other.canonical:
            return None
        mine, theirs = one.parts, other.parts
        if mine is None or theirs is None:
            return one, other
        if _ranks(mine[0]) != _ranks(theirs[0]):
            return one, other
        # The parts add the same contributions: the difference lies within the first that differs.
        one, other = (mine[0], theirs[0]) if mine[0].canonical != theirs[0].canonical else (mine[1], theirs[1])


def _ranks(tree: FoldTree) -> list[Rank]:
    return sorted(rank for rank, _ in tree.leaf_depths())


def additions_at(tree: FoldTree, places: Mapping[FoldTree, Rank]) -> dict[Rank, int]:
    """Count the additions of a tree by their ranks; `places` has the rank of each addition."""
    counts: dict[Rank, int] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        if node.left is not None and node.right is not None:
            counts[places[node]] = counts.get(places[node], 0) + 1
            pending += (node.left, node.right)
    return counts


def describe_parting(one: FoldTree, other: FoldTree) -> str:
    """Return the first addition where two trees part, in words."""
    nodes = parting_node(one, other)
    if nodes is None:
        return "equal trees"
    return " against ".join(shortened(node.canonical) for node in nodes)


def shortened(text: str, most: int = 40) -> str:
    """Return the text of a tree, its middle left out if it is long."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]}..{text[-(most // 2 - 1) :]}"
