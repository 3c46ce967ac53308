"""Fold trees of the usual algorithms by their closed forms, and the numbers that result: shares no code with a schedule."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce
from itertools import pairwise

import numpy as np

from coordinator.annexes.numbers.fold_tree import FoldTree
from coordinator.history.result_array import ResultArray
from emunode.annexes.numbers.contributions import generated
from emunode.annexes.numbers.float_types import FLOAT32, FLOAT_TYPES, FloatArray, FloatType
from emunode.model import Rounding
from tests.helpers.scenarios import Case

ELEMENTS = 240
"""The elements of the vectors of the golden results."""


def tree_of_text(text: str) -> FoldTree:
    """Return the tree of a text such as `((1+0)+2)`, its operands as they stand."""
    pending: list[list[FoldTree]] = [[]]
    for word in text.replace("(", " ( ").replace(")", " ) ").replace("+", " ").split():
        if word == "(":
            pending.append([])
        elif word == ")":
            left, right = pending.pop()
            pending[-1].append(FoldTree.of(left, right))
        else:
            pending[-1].append(FoldTree(int(word)))
    (tree,) = pending.pop()
    return tree


def chain(ranks: Sequence[int]) -> FoldTree:
    """Return the left-deep tree of these ranks."""
    return reduce(FoldTree.of, map(FoldTree, ranks))


def linear(count: int, chunk: int) -> FoldTree:
    """Return the fold by rank."""
    del chunk
    return chain(range(count))


def ring(count: int, chunk: int) -> FoldTree:
    """Return the fold round a ring that ends one rank before the number of the chunk."""
    return chain([(chunk + place) % count for place in range(count)])


def _by_pairs(count: int, *, farthest_first: bool) -> FoldTree:
    """Return the tree of pairs at distances 1, 2, 4, .. or the other way round, after superfluous ranks were folded."""
    groups = 1 << count.bit_length() - 1
    pairs = count - groups
    parts = [chain([2 * place, 2 * place + 1]) if place < pairs else FoldTree(place + pairs) for place in range(groups)]
    while len(parts) > 1:
        half = len(parts) // 2
        mates = (
            zip(parts[:half], parts[half:], strict=True)
            if farthest_first
            else zip(parts[::2], parts[1::2], strict=True)
        )
        parts = [FoldTree.of(*pair) for pair in mates]
    return parts[0]


def recursive_doubling(count: int, chunk: int) -> FoldTree:
    """Return the tree of exchanges at distance 1, 2, 4, .."""
    del chunk
    return _by_pairs(count, farthest_first=False)


def rabenseifner(count: int, chunk: int) -> FoldTree:
    """Return the tree of recursive halving: distance P/2 first."""
    del chunk
    return _by_pairs(count, farthest_first=True)


def binomial(count: int, chunk: int) -> FoldTree:
    """Return the tree of a reduce to rank 0: own first, then children at distance 1, 2, 4, .."""
    del chunk

    def below(rank: int) -> FoldTree:
        tree, distance = FoldTree(rank), 1
        while rank + distance < count and not rank & distance:
            tree = FoldTree.of(tree, below(rank + distance))
            distance *= 2
        return tree

    return below(0)


def circulant(count: int, chunk: int) -> FoldTree:
    """Return the tree of a reduce-scatter with skips count, ceil(count / 2), .., 1."""
    skips = [count]
    while skips[-1] > 1:
        skips.append(-(-skips[-1] // 2))
    # By rank, the trees of blocks: block i of rank r is the one of rank r + i.
    held = [[FoldTree(rank)] * count for rank in range(count)]
    for wide, narrow in pairwise(skips):
        # A rank sends its blocks narrow .. wide - 1 to the rank `narrow` further, where they are 0 .. wide - narrow - 1.
        held = [
            [
                FoldTree.of(held[rank][i], held[(rank - narrow) % count][i + narrow])
                if i < wide - narrow
                else held[rank][i]
                for i in range(count)
            ]
            for rank in range(count)
        ]
    return held[chunk][0]


TREES: dict[str, Callable[[int, int], FoldTree]] = {
    "linear": linear,
    "ring": ring,
    "recursive-doubling": recursive_doubling,
    "rabenseifner": rabenseifner,
    "binomial": binomial,
    "circulant": circulant,
}
"""By the name in the golden tables, the tree of a chunk of P chunks."""


def chunks(elements: int, count: int) -> Iterator[slice]:
    """Yield the slices of a vector in `count` chunks, the first ones one element longer."""
    size, longer = divmod(elements, count)
    start = 0
    for chunk in range(count):
        stop = start + size + (chunk < longer)
        yield slice(start, stop)
        start = stop


def evaluated(tree: FoldTree, contributions: Sequence[FloatArray], kind: FloatType) -> FloatArray:
    """Return the sum of contributions, by rank, in the order of a tree."""
    if tree.left is None or tree.right is None:
        return contributions[tree.least]
    return kind.add(evaluated(tree.left, contributions, kind), evaluated(tree.right, contributions, kind))


def reduced(name: str, count: int, kind: FloatType, rounding: Rounding, seed: int = 1) -> FloatArray:
    """Return the result of an algorithm for the generated numbers."""
    result = np.empty(ELEMENTS, kind.storage)
    for tree, places in _trees(name, count):
        sums = whole(tree, kind, rounding, seed)
        for place in places:
            result[place] = sums[place]
    return result


@cache
def _trees(name: str, count: int) -> list[tuple[FoldTree, list[slice]]]:
    """Return every tree of an algorithm once, with the places of its chunks."""
    trees = [TREES[name](count, chunk) for chunk in range(count)]
    found: dict[str, tuple[FoldTree, list[slice]]] = {}
    for tree, place in zip(trees, chunks(ELEMENTS, count), strict=True):
        found.setdefault(tree.text, (tree, []))[1].append(place)
    return list(found.values())


@cache
def _rounded(kind: FloatType, seed: int, rank: int) -> FloatArray:
    """Return the generated numbers of a rank, as a type has them."""
    return kind.rounded(generated(seed, rank, range(ELEMENTS)))


def whole(tree: FoldTree, kind: FloatType, rounding: Rounding, seed: int = 1) -> FloatArray:
    """Return the sums of the generated numbers by one tree for all elements."""
    vectors = [_rounded(kind, seed, rank) for rank in range(tree.leaf_count)]
    if rounding is Rounding.EACH:
        return evaluated(tree, vectors, kind)
    single = [FLOAT32.rounded(kind.exact(vector)) for vector in vectors]
    return kind.rounded(FLOAT32.exact(evaluated(tree, single, FLOAT32)))


def results_of(case: Case) -> ResultArray:
    """Return the results of a run that adds numbers."""
    results = case.run.conclusion.results
    assert results is not None
    return results


def kind_of(row: dict[str, str]) -> tuple[FloatType, Rounding]:
    """Return the type and the rounding of a row of the golden results."""
    return FLOAT_TYPES[row["values"]], Rounding(row["rounding"])
