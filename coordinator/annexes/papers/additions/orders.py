"""The order of additions: rings, trees and recursive doubling on 24 nodes, and the share of bits that a size changes.

Predictions are closed forms: the tree of a chunk as a formula, evaluated on the generated numbers. Measurements are runs:
the trees by executing the rules, the bits as ranks end with them.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import numpy as np

from coordinator.annexes.numbers.fold_tree import FoldTree, fold_in_order
from coordinator.annexes.numbers.tree_picture import tree_picture
from coordinator.annexes.papers.base import Figure, Reproduction, Section
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import VERDICT, Table
from coordinator.results.claims import Verdict
from emunode.annexes.numbers.contributions import generated
from emunode.annexes.numbers.float_types import FLOAT32, FloatArray

RANKS: Final = 24
ELEMENTS: Final = 240
"""The elements of the shorter vector; the longer one has twice as many."""
SEED: Final = 1


def by_rank(count: int, chunk: int) -> FoldTree:
    """Return the fold by rank, for every chunk."""
    del chunk
    return fold_in_order([FoldTree(rank) for rank in range(count)])


def round_ring(count: int, chunk: int) -> FoldTree:
    """Return the fold round a ring that ends at the owner of a chunk, whose contribution counts as of the first step."""
    others = [FoldTree((chunk + distance) % count) for distance in range(1, count)]
    return FoldTree.of(FoldTree(chunk), fold_in_order(others))


def by_exchange(count: int, chunk: int) -> FoldTree:
    """Return the fold of pairs at distance 1, 2, 4, .., after surplus ranks were folded into their neighbours."""
    del chunk
    groups = 1 << count.bit_length() - 1
    surplus = count - groups
    parts = [FoldTree.of(FoldTree(2 * pair), FoldTree(2 * pair + 1)) for pair in range(surplus)]
    parts += [FoldTree(rank) for rank in range(2 * surplus, count)]
    while len(parts) > 1:
        parts = [FoldTree.of(*parts[pair : pair + 2]) for pair in range(0, len(parts), 2)]
    return parts[0]


class ReducingAlgorithm(NamedTuple):
    """An algorithm, with the closed form of its trees."""

    title: str
    network: str
    name: str
    port_model: str
    tree: Callable[[int, int], FoldTree]
    chunks: int
    """The chunks with trees of their own."""


ALGORITHMS: Final = (
    ReducingAlgorithm("through rank 0", f"complete:{RANKS}", "bfs-tree", "all-port", by_rank, 1),
    ReducingAlgorithm("all pairs", f"complete:{RANKS}", "bfb", "all-port", by_rank, RANKS),
    ReducingAlgorithm("ring", f"ring:{RANKS}", "ring", "one-port", round_ring, RANKS),
    ReducingAlgorithm("recursive doubling", f"complete:{RANKS}", "recursive-doubling", "exchange", by_exchange, 1),
)


def predicted(algorithm: ReducingAlgorithm, elements: int) -> FloatArray:
    """Return the results of an algorithm by its closed form."""
    vectors = [FLOAT32.rounded(generated(SEED, rank, range(elements))) for rank in range(RANKS)]
    size = elements // algorithm.chunks
    parts = [
        algorithm.tree(RANKS, chunk).evaluated(
            {rank: vector[size * chunk :][:size] for rank, vector in enumerate(vectors)}, FLOAT32.add
        )
        for chunk in range(algorithm.chunks)
    ]
    return np.concatenate(parts)


def _run(cache: RunCache, algorithm: ReducingAlgorithm, elements: int) -> CachedRun:
    return cache.run(
        algorithm.network, "allreduce", algorithm.name, port_model=algorithm.port_model, seed=SEED, values="float32",
        message_bytes=4 * elements,
    )  # fmt: skip


def _measured(run: CachedRun) -> FloatArray:
    """Return the results of the lowest rank."""
    results: FloatArray = np.load(run.path / "results.npy", allow_pickle=False)[0]
    return results


def _verdict(*, holds: bool) -> str:
    return str(Verdict.HOLDS if holds else Verdict.VIOLATED)


def _order_rows(cache: RunCache) -> Iterator[dict[str, object]]:
    for algorithm in ALGORITHMS:
        run = _run(cache, algorithm, ELEMENTS)
        trees = [algorithm.tree(RANKS, chunk) for chunk in range(algorithm.chunks)]
        different = len({tree.digest for tree in trees})
        depth, mean = max(tree.depth for tree in trees), sum(tree.mean_depth for tree in trees) / len(trees)
        found = int(run.number("distinct_trees")), int(run.number("tree_depth")), float(run.number("mean_tree_depth"))
        equal = np.array_equal(predicted(algorithm, ELEMENTS).view("<u4"), _measured(run).view("<u4"))
        yield {
            "algorithm": algorithm.title,
            "trees": different,
            "depth": depth,
            "mean": round(mean, 2),
            "measured": f"{found[0]}/{found[1]}/{found[2]:.2f}",
            "bits": "same" if equal else "other",
            "error": round(float(run.number("mean_error_units")), 3),
            VERDICT: _verdict(holds=equal and found == (different, depth, round(mean, 4))),
        }


def _changed(shorter: FloatArray, longer: FloatArray) -> float:
    """Return the percentage of the elements of the shorter vector that have other bits in the longer one."""
    return round(100 * float(np.mean(shorter.view("<u4") != longer[: len(shorter)].view("<u4"))), 1)


def _size_rows(cache: RunCache) -> Iterator[dict[str, object]]:
    for algorithm in ALGORITHMS:
        by_formula = _changed(predicted(algorithm, ELEMENTS), predicted(algorithm, 2 * ELEMENTS))
        runs = [_run(cache, algorithm, elements) for elements in (ELEMENTS, 2 * ELEMENTS)]
        measured = _changed(*map(_measured, runs))
        yield {
            "algorithm": algorithm.title,
            "predicted": by_formula,
            "measured": measured,
            VERDICT: _verdict(holds=by_formula == measured),
        }


def _pictures() -> Iterator[Figure]:
    for algorithm in ALGORITHMS[2:]:
        drawn = tree_picture(algorithm.tree(RANKS, 0), f"Order of the additions of {algorithm.title}, chunk 0")
        if drawn is not None:
            yield Figure(f"Fold tree: {algorithm.title}", drawn, "An addition stands above the two parts that it adds.")


def _build(cache: RunCache) -> Iterator[Section]:
    yield Table(f"Trees, their depth and mean depth on {RANKS} nodes; mean error in u sum|x|", _order_rows(cache))
    yield Table("Percent of float32 elements whose bits change if the vector is twice as long", _size_rows(cache))
    yield from _pictures()


REPRODUCTION = Reproduction(
    "additions",
    "The order of every addition",
    "N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002, chapter 4",
    "Fold trees and bits of allreduces of real numbers: all pairs, ring and recursive doubling on 24 nodes.",
    _build,
)
