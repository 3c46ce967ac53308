"""The fold tree from results alone: a judge that trusts no schedule, for programs and libraries of any kind.

For ranks a < b let a contribute M, b contribute -M and all others e, where e is swallowed by M. The sum of P ranks is then
e (P - L) with L the leaves below the addition where a and b meet. Below that addition are exactly the ranks c with L(a,
c) <= L(a, b), so all pairs together determine the tree up to the order of operands.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from coordinator.annexes.numbers.fold_tree import FoldTree
from emunode.annexes.numbers.contributions import probe_numbers, probe_pairs
from emunode.annexes.numbers.float_types import FloatArray, FloatType
from emunode.errors import ScenarioError
from emunode.model import Rank, Rounding

Meetings = Mapping[tuple[Rank, Rank], int]
"""By pair of ranks, the lower first: the leaves below the addition where their contributions meet."""


def read_meetings(results: FloatArray, kind: FloatType, rounding: Rounding, ranks: Sequence[Rank]) -> Meetings:
    """Return what the results of a probe say, one element for each pair in lexicographic order.

    ScenarioError if no order of additions gives one of the results, or if there are more or fewer elements.
    """
    _, small = probe_numbers(kind, rounding)
    pairs = probe_pairs(ranks)
    if len(results) != len(pairs):
        raise ScenarioError("probe", len(results), f"one result for each of {len(pairs)} pairs of {len(ranks)} ranks")
    meetings = {}
    for pair, result in zip(pairs, kind.exact(results).tolist(), strict=True):
        below = len(ranks) - result / small
        # Also false for NaN and infinities.
        if not (2 <= below <= len(ranks) and below == int(below)):
            allowed = (
                f"a multiple of {small:g} from 0 to {small * (len(ranks) - 2):g}, if each contribution is added once"
            )
            raise ScenarioError("probe", result, f"the result of ranks {pair[0]} and {pair[1]} is not {allowed}")
        meetings[pair] = int(below)
    return meetings


def tree_of_meetings(meetings: Meetings, ranks: Sequence[Rank]) -> FoldTree:
    """Return the tree in canonical order of operands; ScenarioError if no tree has these meetings."""
    tree = _built(meetings, sorted(ranks))
    # The construction looks at one rank of each part only, so all other pairs are a check.
    if meetings_of(tree) != dict(meetings):
        raise ScenarioError("probe", sorted(ranks), "the results do not come from one order of additions")
    return tree


def probed_tree(results: FloatArray, kind: FloatType, rounding: Rounding, ranks: Sequence[Rank]) -> FoldTree:
    """Return the fold tree that the results of a probe reveal; ScenarioError if they reveal none."""
    return tree_of_meetings(read_meetings(results, kind, rounding, ranks), ranks)


def meetings_of(tree: FoldTree) -> dict[tuple[Rank, Rank], int]:
    """Return the meetings of all pairs of leaves of a tree, by brute force: what a probe of it reads."""
    found: dict[tuple[Rank, Rank], int] = {}
    pending = [tree]
    while pending:
        node = pending.pop()
        if node.parts is None:
            continue
        one, other = node.parts
        for a, _ in one.leaf_depths():
            for b, _ in other.leaf_depths():
                found[min(a, b), max(a, b)] = node.leaf_count
        pending += node.parts
    return found


def _built(meetings: Meetings, ranks: list[Rank]) -> FoldTree:
    """Return the tree of these ranks, ascending."""
    first = ranks[0]
    tree = FoldTree(first)
    met = {other: meetings[min(first, other), max(first, other)] for other in ranks[1:]}
    # On the way from the leaf `first` to the root, each addition brings in the ranks that meet it there.
    for below in sorted(set(met.values())):
        part = [rank for rank, count in met.items() if count == below]
        tree = FoldTree.of(tree, _built(meetings, part))
    return tree


def every_tree(ranks: Sequence[Rank]) -> list[FoldTree]:
    """Return all (2P - 3)!! trees of P ranks that differ in more than the order of operands; for small P."""
    if len(ranks) == 1:
        return [FoldTree(ranks[0])]
    first, rest = ranks[0], ranks[1:]
    found = []
    for size in range(len(rest)):
        for more in combinations(rest, size):
            other = [rank for rank in rest if rank not in more]
            found += [FoldTree.of(left, right) for left in every_tree([first, *more]) for right in every_tree(other)]
    return found
