"""The fold trees of an algorithm, by executing its rules with trees in place of numbers.

A rule never looks into a payload: it hands contributions and partial results to the payloads of the run to fold them.
So the same rules, given contributions that are leaves, leave at every rank the tree of each part of its result.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, NamedTuple, cast

from coordinator.annexes.numbers.fold_tree import FoldTree, fold_in_order
from emunode.algorithms.base import Algorithm
from emunode.algorithms.conformance import executed
from emunode.algorithms.payload import Payloads
from emunode.algorithms.registry import make_algorithm
from emunode.annexes.numbers.fixed_order import FixedTree, TreeNode
from emunode.errors import ScenarioError
from emunode.model import ALL_RANKS, NumberType, Rank, RealNumbers, Step

ContributionPlace = tuple[Rank, Rank, int]
"""(rank, owner of the block, segment): a part of the result at a rank."""
MOST_FOLDS: Final = 2_000_000
"""Most segments on links, by whose number the time to find the trees grows; it takes about 10 microseconds for each."""


class TreePayloads(Payloads):
    """Payloads that are fold trees: each contribution is a leaf, and a rank that has several adds them from the left."""

    ordered = True

    def __init__(self, numbers: RealNumbers, ranks: Sequence[Rank], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._numbers, self._ranks = numbers, ranks

    def folded(self, operands: Sequence[bytes], owner: Rank, segment: int) -> bytes:
        del owner, segment
        trees = [tree for tree in cast("Sequence[FoldTree | None]", operands) if tree is not None]
        # A switch at the end of a branch has nothing to add.
        return cast("bytes", fold_in_order(trees) if trees else None)

    def _segment(self, origin: Rank, target: Rank, segment: int) -> bytes:
        del target, segment
        return cast(
            "bytes", fold_in_order([FoldTree(each) for each in self._numbers.contributions_of(origin, self._ranks)])
        )


class FixedOrderTrees(TreePayloads):
    """Payloads that are the parts of partial results in the fixed order, each a fold tree by the name of its node."""

    def __init__(self, numbers: RealNumbers, ranks: Sequence[Rank], *arguments: Any) -> None:
        super().__init__(numbers, ranks, *arguments)
        names = numbers.contributions(ranks)
        self._tree = FixedTree(len(names))
        self._places = {name: place for place, name in enumerate(names)}

    def folded(self, operands: Sequence[bytes], owner: Rank, segment: int) -> bytes:
        del owner, segment
        parts: dict[TreeNode, FoldTree] = {}
        for operand in cast("Sequence[Mapping[TreeNode, FoldTree]]", operands):
            for node, tree in operand.items():
                self._tree.absorb(parts, node, tree, FoldTree.of)
        return cast("bytes", parts)

    def result(self, folded: bytes, owner: Rank, segment: int) -> bytes:
        # Without faults nothing is missing, so there is one part.
        del owner, segment
        return cast("bytes", next(iter(cast("Mapping[TreeNode, FoldTree]", folded).values())))

    def _segment(self, origin: Rank, target: Rank, segment: int) -> bytes:
        del target, segment
        parts: dict[TreeNode, FoldTree] = {}
        for each in self._numbers.contributions_of(origin, self._ranks):
            self._tree.absorb(parts, self._tree.leaf(self._places[each]), FoldTree(each), FoldTree.of)
        return cast("bytes", parts)


class SentResult(NamedTuple):
    """A partial result on one link, in a run without faults."""

    step: Step
    sender: Rank
    receiver: Rank
    target: Rank
    segment: int
    parts: int
    """The number of sums that make up the partial result on its way; more than 1 only in the fixed order."""
    complete: bool
    """Whether the partial result is the whole sum; the whole sum travels without a name."""


class FoldTrees:
    """The trees of all parts of a result at all ranks, and the rank where each addition happens."""

    def __init__(
        self, trees: dict[ContributionPlace, FoldTree], places: dict[FoldTree, Rank], sent: Sequence[SentResult] = ()
    ) -> None:
        self.trees = trees
        self.places = places
        self.sent = sent
        """The partial results on links, by step."""

    @cached_property
    def by_part(self) -> dict[tuple[Rank, int], list[tuple[Rank, FoldTree]]]:
        """By (owner, segment), the ranks that have this part of the result, and its tree at each of them."""
        found: dict[tuple[Rank, int], list[tuple[Rank, FoldTree]]] = {}
        for (rank, owner, segment), tree in self.trees.items():
            found.setdefault((owner, segment), []).append((rank, tree))
        return found

    @cached_property
    def digests(self) -> list[str]:
        """The digests of the distinct trees, in order of (rank, owner, segment)."""
        return list(dict.fromkeys(tree.digest for tree in self.trees.values()))

    @property
    def depth(self) -> int:
        """The depth of the deepest tree: the additions that one contribution passes through at most."""
        return max(tree.depth for tree in self.trees.values())

    @property
    def mean_depth(self) -> float:
        """The additions above a contribution, on average over all contributions and trees."""
        trees = self.trees.values()
        return sum(tree.total_depth for tree in trees) / sum(tree.leaf_count for tree in trees)

    def unequal_parts(self) -> Iterator[tuple[tuple[Rank, int], Rank, Rank, FoldTree, FoldTree]]:
        """Yield the parts of the result whose fold trees differ between ranks.

        A part is yielded as its (owner, segment), the first rank that has it, the first rank that differs from that
        one, and the trees of both. Nothing is yielded if all ranks have the same bits.
        """
        for part, (first, *others) in self.by_part.items():
            for rank, tree in others:
                if tree.digest != first[1].digest:
                    yield part, first[0], rank, first[1], tree
                    break

    @property
    def trees_per_element(self) -> int:
        """The most trees that one element has, over all ranks."""
        return max(len({tree.digest for _, tree in holders}) for holders in self.by_part.values())

    @property
    def same_over_segments(self) -> bool:
        """Whether each block has one tree for all of its segments, at each rank."""
        found: dict[tuple[Rank, Rank], set[str]] = {}
        for (rank, owner, _), tree in self.trees.items():
            found.setdefault((rank, owner), set()).add(tree.digest)
        return all(len(digests) == 1 for digests in found.values())

    @property
    def same_over_parts(self) -> bool:
        """Whether one tree makes all elements, whatever their block and segment, at each rank."""
        found: dict[Rank, set[str]] = {}
        for (rank, _, _), tree in self.trees.items():
            found.setdefault(rank, set()).add(tree.digest)
        # A reduce-scatter has one block at each rank: the blocks are compared with one another.
        return len(set().union(*found.values())) == 1 or (
            all(len(digests) == 1 for digests in found.values()) and len(self.by_part) < len(self.trees)
        )


def fold_trees(algorithm: Algorithm, *, last_port_first: bool = False) -> FoldTrees:
    """Return the trees of an algorithm that adds numbers, without faults; `last_port_first` as in `executed`.

    ScenarioError if it does not add numbers, or has more than `MOST_FOLDS` folds.
    """
    if not algorithm.traits.adds_numbers:
        raise ScenarioError("algorithm", algorithm.name, "it folds in no fixed order")
    if not algorithm.traits.states_order:
        raise ScenarioError(
            "algorithm",
            algorithm.name,
            "it does not state its order of additions; --values probe reads the order from results",
        )
    blocks = len(algorithm.block_owners) * algorithm.spec.messages * algorithm.segments_per_message
    folds = blocks * algorithm.topology.order
    if folds > MOST_FOLDS:
        raise ScenarioError("algorithm", algorithm.name, f"{folds:,} folds; trees are found of at most {MOST_FOLDS:,}")
    # Another algorithm object: the payloads of the run stay as they are.
    numbers, ranks = _numbers_of(algorithm), algorithm.topology.data_ranks
    # Without protocols, which the plain loop of rules does not execute, and without own data.
    bare = algorithm.spec.without_protocols()._replace(numbers=numbers._replace(data=b""))
    symbolic = make_algorithm(algorithm.topology, bare)
    kind = FixedOrderTrees if numbers.fixed_order else TreePayloads
    symbolic.use_payloads(symbolic.make_payloads(partial(kind, numbers, ranks)))
    count = len(numbers.contributions(ranks))
    history, rules = executed(symbolic, last_port_first=last_port_first)
    places: dict[FoldTree, Rank] = {}
    sent = []
    for step, sender, _, receiver, (origin, target, _, segment, payload) in history:
        if target == ALL_RANKS:
            continue
        found = list(_trees_in(payload))
        whole = len(found) == 1 and found[0].leaf_count >= count
        sent.append(SentResult(step, sender, receiver, target, segment, len(found), whole))
        for tree in found:
            # The origin of a partial result has made all additions that no rank has sent before.
            _place(tree, origin, places)
    trees: dict[ContributionPlace, FoldTree] = {}
    for rank, rule in enumerate(rules):
        if algorithm.topology.is_switch(rank):
            continue
        for owner, segment, payload in sorted(rule.results(), key=lambda part: part[:2]):
            tree = cast("FoldTree", payload)
            _place(tree, rank, places)
            trees[rank, owner, segment] = tree
    return FoldTrees(trees, places, sent)


def contributions_of(algorithm: Algorithm) -> Sequence[int]:
    """Return the leaves of a complete tree by name, ascending: the ranks that own data, if each has one contribution."""
    return _numbers_of(algorithm).contributions(algorithm.topology.data_ranks)


def _numbers_of(algorithm: Algorithm) -> RealNumbers:
    """Return the numbers that are added; float32 for a job with bytes, whose order of folds is the same."""
    return algorithm.spec.numbers or RealNumbers(NumberType.FLOAT32)


def _trees_in(payload: object) -> Iterator[FoldTree]:
    """Yield the trees of a partial result; none if it is the payload of a switch that has nothing to add."""
    if isinstance(payload, Mapping):
        yield from payload.values()
    elif isinstance(payload, FoldTree):
        yield payload


def _place(tree: FoldTree, rank: Rank, places: dict[FoldTree, Rank]) -> None:
    """Note `rank` as the place of all additions of a tree that have none yet."""
    pending = [tree]
    while pending:
        node = pending.pop()
        if node.left is not None and node.right is not None and node not in places:
            places[node] = rank
            pending += (node.left, node.right)
