"""The fold trees of an algorithm as a table."""

from typing import Any

import polars as pl
from numpy.typing import NDArray

from coordinator.annexes.numbers.orders import FoldTrees, contributions_of, fold_trees
from coordinator.annexes.numbers.probed_results import trees_of_results
from emunode.algorithms.base import Algorithm


def addition_table(algorithm: Algorithm, trees: FoldTrees | None = None) -> pl.DataFrame:
    """Return one row per rank, owner of a block, and segment, with the tree of its elements; errors as `fold_trees`.

    `trees` take the place of the trees of the timetable.
    """
    payloads, unit = algorithm.payloads, algorithm.spec.element_bytes
    leaves = contributions_of(algorithm)
    complete: dict[str, bool] = {}
    rows = []
    for (rank, owner, segment), tree in (trees or fold_trees(algorithm)).trees.items():
        if tree.digest not in complete:
            complete[tree.digest] = tree.is_complete(leaves)
        rows.append(
            {
                "rank": rank,
                "owner": owner,
                "segment": segment,
                "first_element": payloads.first_element(owner, segment),
                "elements": payloads.segment_bytes(owner, segment) // unit,
                "depth": tree.depth,
                "mean_depth": tree.mean_depth,
                "complete": complete[tree.digest],
                "sha256": tree.digest,
                "tree": tree.canonical,
            }
        )
    return pl.DataFrame(rows)


def additions_of_run(algorithm: Algorithm, results: NDArray[Any] | None) -> pl.DataFrame:
    """Return the trees of a run as `addition_table`; of an algorithm that states none, those that its results reveal."""
    return addition_table(algorithm, trees_of_results(algorithm, results))
