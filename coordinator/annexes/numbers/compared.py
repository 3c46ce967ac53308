"""Two results of real numbers: the elements that differ, and the first addition where their fold trees part."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from coordinator.annexes.numbers.fold_tree import FoldTree, parting_node, shortened
from coordinator.annexes.numbers.orders import FoldTrees, fold_trees
from coordinator.annexes.numbers.results import payloads_of
from emunode.algorithms.base import Algorithm
from emunode.errors import EmulatorError


def compared_results(
    one: NDArray[Any], other: NDArray[Any], first: Algorithm | None, second: Algorithm | None
) -> dict[str, Any]:
    """Return how many of the common elements differ in their bits at the lowest rank, the first one, and why.

    `one` and `other` have a row for each rank or one row; of vectors of different length the common part is compared.
    """
    count = min(one.shape[1], other.shape[1])
    found: dict[str, Any] = {"elements": count, "differing": None, "first": None, "text": "", "trees": None}
    if one.dtype != other.dtype:
        return {**found, "text": f"results: {one.dtype} against {other.dtype}, which have no bits in common"}
    size = one.dtype.itemsize
    differing = np.flatnonzero(one[0, :count].view(f"<u{size}") != other[0, :count].view(f"<u{size}"))
    found["differing"] = len(differing)
    trees = _parted(int(differing[0]) if len(differing) else 0, first, second)
    found["trees"] = trees
    if not len(differing):
        certified = trees is not None and len(trees) == 1
        because = "and their fold trees are equal there" if certified else "by these values only: no certificate"
        return {**found, "text": f"results: the bits of all {count:,} common elements are equal, {because}"}
    found["first"] = int(differing[0])
    share = 100 * len(differing) / count
    reason = f": {' against '.join(trees)}" if trees is not None and len(trees) == 2 else ""
    text = f"results: {len(differing):,} of {count:,} elements differ ({share:.1f} %), first element {differing[0]}"
    return {**found, "text": text + reason}


def _parted(element: int, first: Algorithm | None, second: Algorithm | None) -> list[str] | None:
    """Return the first additions where the trees of an element part, one text if they do not; None if unknown."""
    if first is None or second is None:
        return None
    try:
        one, other = _tree_at(element, first), _tree_at(element, second)
    # Too many trees to find: nothing is known of the reason.
    except EmulatorError:
        return None
    if one is None or other is None:
        return None
    nodes = parting_node(one, other)
    return [shortened(one.canonical)] if nodes is None else [shortened(node.canonical) for node in nodes]


def _tree_at(element: int, algorithm: Algorithm) -> FoldTree | None:
    """Return the tree of an element at the lowest rank that has it."""
    payloads, trees = payloads_of(algorithm), fold_trees(algorithm)
    return next(
        (tree for (_, owner, segment), tree in _by_rank(trees) if _holds(payloads.place(owner, segment), element)), None
    )


def _by_rank(trees: FoldTrees) -> list[tuple[tuple[int, int, int], FoldTree]]:
    return sorted(trees.trees.items(), key=lambda item: item[0])


def _holds(place: slice, element: int) -> bool:
    return bool(place.start <= element < place.stop)
