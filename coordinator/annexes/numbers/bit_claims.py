"""Claims on the bits of results: what fold trees certify for all data, and what the values of one run show.

Equal trees give equal bits. Equal values are no certificate: they may be equal by luck.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from coordinator.annexes.numbers.fold_tree import FoldTree, describe_parting, paired, shortened
from coordinator.annexes.numbers.orders import FoldTrees, contributions_of, fold_trees
from coordinator.annexes.numbers.results import gather, has_row_per_rank, payloads_of
from coordinator.history.result_array import ResultArray
from emunode.algorithms.base import Algorithm
from emunode.algorithms.conformance import executed
from emunode.algorithms.registry import find_algorithm, make_algorithm, with_blocks
from emunode.annexes.numbers.float_types import FLOAT_TYPES, FloatArray
from emunode.annexes.numbers.payloads import sent_type
from emunode.errors import EmulatorError
from emunode.model import Collective, NumberSource, Rank, RealNumbers
from emunode.topologies.registry import parse_topology

JOINING: Final = (1, 4)
"""Numbers of ranks of zeros that join a network."""
SEGMENTS: Final = (1, 2, 3)
"""Numbers of segments that are compared."""
MOST_PARTS: Final = 1500
"""Most parts of results at ranks in one variant of a run, and in all roots together, whose trees are found for a claim."""

MOST_MEASURED: Final = 2**20
"""Most numbers of all contributions that another network adds to measure a claim."""


class BitClaim(NamedTuple):
    """A claim on the bits of results: what the fold trees certify for all data, and what the values of this run show."""

    claim: str
    certified: bool | None
    """By trees, for all data; None if the trees are not known."""
    measured: bool | None
    """By values, for these data; None if one run does not show it."""
    because: str

    def record(self) -> dict[str, object]:
        """Return the claim as JSON values."""
        words = {True: "yes", False: "no", None: "-"}
        return {**self._asdict(), "certified": words[self.certified], "measured": words[self.measured]}


class UnequalRanks(NamedTuple):
    """The first element whose trees differ between ranks."""

    element: int
    first: Rank
    other: Rank
    one: FoldTree
    """The tree at `first`."""
    two: FoldTree
    """The tree at `other`."""

    def describe(self, label: Callable[[Rank], str]) -> str:
        """Name element, ranks and trees."""
        one, two = shortened(self.one.canonical), shortened(self.two.canonical)
        return f"element {self.element} is {two} at {label(self.other)}, and {one} at {label(self.first)}"


def first_unequal_ranks(algorithm: Algorithm, trees: FoldTrees) -> UnequalRanks | None:
    """Return the first element whose trees differ between ranks; None if all ranks have the same bits."""
    payloads = payloads_of(algorithm)
    return min(
        (
            UnequalRanks(payloads.place(*part).start, first, rank, one, two)
            for part, first, rank, one, two in trees.unequal_parts()
        ),
        key=lambda found: found.element,
        default=None,
    )


def bits_of(
    algorithm: Algorithm,
    results: ResultArray,
    trees: FoldTrees | None,
    further: Sequence[BitClaim] = (),
    *,
    undisturbed: bool = True,
    lost: bool = False,
) -> dict[str, object]:
    """Return what `summary.json` says of the bits: the hash of the results, and each claim with what shows it.

    `undisturbed` says that no fault took effect, and `lost` that faults may have kept contributions from results. `trees`
    are those of the timetable, or those that a probe has read from the results of an algorithm without one.
    """
    rows = [*_bit_claims(algorithm, results, trees)]
    if not undisturbed and not lost and trees is not None and algorithm.traits.states_order:
        rows.append(_after_repair(algorithm, results, trees))
    rows += further
    numbers = algorithm.spec.numbers
    assert numbers is not None
    return {
        "values": numbers.option,
        "rounding": str(numbers.rounding),
        "elements": results.numbers.shape[1],
        # A function: the digest of large results takes longer than their additions, and few readers ask for it.
        "results_hash": lambda: results.hash,
        **(
            {} if trees is None else {"tree_digests": trees.digests[:24], "mean_tree_depth": round(trees.mean_depth, 4)}
        ),
        "bits": [row.record() for row in rows],
    }


def _bit_claims(algorithm: Algorithm, results: ResultArray, trees: FoldTrees | None) -> Iterator[BitClaim]:
    equal = _first_unequal_value(algorithm, results)
    measured = None if results.missing_elements or not has_row_per_rank(algorithm) else not equal
    if trees is None:
        unknown = (
            "too many trees to compare"
            if algorithm.traits.states_order
            else "only a probe reveals the order of additions"
        )
        yield BitClaim("same_bits_on_all_ranks", None, measured, equal or unknown)
        return
    parted = first_unequal_ranks(algorithm, trees)
    if not algorithm.traits.states_order:
        # Another run may add in another order, so a probe refutes and does not certify.
        because = (
            "equal trees at all ranks in this run" if parted is None else parted.describe(algorithm.topology.label)
        )
        yield BitClaim("same_bits_on_all_ranks", None if parted is None else False, measured, because)
        return
    because = "equal trees at all ranks" if parted is None else parted.describe(algorithm.topology.label)
    yield BitClaim("same_bits_on_all_ranks", parted is None, measured, because if parted else equal or because)
    yield _independent_of_arrival(algorithm, trees)
    size = trees.same_over_parts
    yield BitClaim(
        "bits_independent_of_size", size, None,
        "one tree for all elements" if size else f"{len(trees.digests)} trees: the tree depends on the place in the vector",
    )  # fmt: skip
    yield _independent_of_segments(algorithm, trees)
    if algorithm.collective is Collective.REDUCE:
        yield _independent_of_root(algorithm, trees)
    if payloads_of(algorithm).kind.leaves:
        yield _independent_of_ranks(algorithm, trees, results)
    else:
        yield _independent_of_zero_ranks(algorithm, trees)


def _first_unequal_value(algorithm: Algorithm, results: ResultArray) -> str:
    """Return the first element that differs between ranks, in words; empty if none does."""
    if not has_row_per_rank(algorithm) or results.missing_elements or len(results.distinct_rows) == 1:
        return ""
    differing = np.argwhere((results.words != results.words[0]).T)
    if not len(differing):
        return ""
    element, row = map(int, differing[0])
    label = algorithm.topology.label
    ranks = algorithm.topology.data_ranks
    return f"element {element} of {label(ranks[row])} differs from {label(ranks[0])}"


# --- other arrivals


def _independent_of_arrival(algorithm: Algorithm, trees: FoldTrees) -> BitClaim:
    claim = partial(BitClaim, "bits_independent_of_arrival")
    if type(algorithm).__module__.startswith("emunode."):
        return claim(certified=True, measured=None, because="the timetable fixes the order of every addition")
    # A rule from elsewhere may take arrivals as they come, whatever it declares: it is tried.
    for place, other in fold_trees(algorithm, last_port_first=True).trees.items():
        if other.digest != trees.trees[place].digest:
            because = f"read by descending port: {describe_parting(trees.trees[place], other)}"
            return claim(certified=False, measured=None, because=because)
    return claim(certified=None, measured=None, because="a rule of a plug-in; the order of ports changes no tree")


# --- other numbers of segments, other roots, and further ranks


def _independent_of_segments(algorithm: Algorithm, trees: FoldTrees) -> BitClaim:
    """Compare the trees with other numbers of segments: the timetable may order the children of later ones otherwise."""
    claim = partial(BitClaim, "bits_independent_of_segments")
    if not trees.same_over_segments:
        return claim(certified=False, measured=None, because="the tree of an element depends on its segment")
    tried = [algorithm.spec.segments]
    for count in SEGMENTS:
        parts = count * algorithm.spec.messages * len(algorithm.block_owners) * algorithm.topology.order
        if count in tried or parts > MOST_PARTS:
            continue
        # The vector may be too short for that number.
        with suppress(EmulatorError):
            other = make_algorithm(algorithm.topology, algorithm.spec._replace(segments=count))
            difference = _first_difference(algorithm, trees, other, fold_trees(other))
            tried.append(count)
            if difference:
                return claim(certified=False, measured=None, because=f"{count} segments: {difference}")
    if len(tried) == 1:
        return claim(certified=None, measured=None, because="no other number of segments can be tried")
    numbers = ", ".join(map(str, sorted(tried)))
    return claim(certified=True, measured=None, because=f"one tree for an element, with {numbers} segments")


def _independent_of_root(algorithm: Algorithm, trees: FoldTrees) -> BitClaim:
    claim = partial(BitClaim, "bits_independent_of_root")
    roots = [rank for rank in algorithm.topology.data_ranks if rank != algorithm.spec.source]
    # Too many roots: the nearest ones may refute the claim, but do not prove it.
    tried = roots[: MOST_PARTS // (algorithm.topology.order * len(trees.by_part))]
    mine = {segment: tree for (_, _, segment), tree in trees.trees.items()}
    try:
        for root in tried:
            other = fold_trees(make_algorithm(algorithm.topology, algorithm.spec._replace(source=root)))
            for (_, _, segment), tree in other.trees.items():
                if tree.digest != mine[segment].digest:
                    label = algorithm.topology.label(root)
                    return claim(
                        certified=False, measured=None, because=f"root {label}: {describe_parting(mine[segment], tree)}"
                    )
    except EmulatorError as error:
        return claim(certified=None, measured=None, because=str(error))
    if len(tried) < len(roots):
        return claim(certified=None, measured=None, because=f"{len(roots):,} other roots are too many to try")
    return claim(certified=True, measured=None, because="one tree for all roots")


def _independent_of_zero_ranks(algorithm: Algorithm, trees: FoldTrees) -> BitClaim:
    """Compare the trees with the trees of larger networks, after the leaves of the further ranks are taken out."""
    claim = partial(BitClaim, "bits_independent_of_zero_ranks")
    tried = []
    for more in JOINING:
        larger = _enlarged(algorithm, more)
        if larger is None:
            continue
        with suppress(EmulatorError):
            difference = _first_difference(algorithm, trees, larger, fold_trees(larger))
            tried.append(more)
            if difference:
                return claim(certified=False, measured=None, because=f"{more} more: {difference}")
    if not tried:
        return claim(certified=None, measured=None, because="no network with a few more ranks is compared")
    because = f"{' or '.join(map(str, tried))} more ranks of +0 leave the trees: only a sum of -0 becomes +0"
    return claim(certified=True, measured=None, because=because)


def _enlarged(algorithm: Algorithm, more: int) -> Algorithm | None:
    """Return the algorithm on a network of the same family with a few further ranks; None where that is impossible."""
    topology = algorithm.topology
    count = topology.order
    # The number in the name is the number of ranks, as in `ring:8`.
    if topology.name != f"{topology.family}:{count}" or len(topology.data_ranks) != count:
        return None
    without_data = payloads_of(algorithm).kind._replace(source=NumberSource.GENERATED, data=b"")
    found = _on_network(algorithm, f"{topology.family}:{count + more}", without_data)
    return None if found is None or found.topology.order != count + more else found


def _on_network(algorithm: Algorithm, name: str, numbers: RealNumbers) -> Algorithm | None:
    """Return the algorithm on another network; None where that is impossible, or has too many parts."""
    spec = algorithm.spec
    try:
        topology = parse_topology(name)
        if topology.order**2 * spec.messages * algorithm.segments_per_message > MOST_PARTS:
            return None
        whole = spec._replace(
            topology=topology.name, message_bytes=spec.contributed_bytes, blocks=1, short_blocks=0,
            source=min(spec.source, topology.order - 1), numbers=numbers,
        )  # fmt: skip
        return make_algorithm(topology, with_blocks(find_algorithm(topology, whole), topology, whole))
    # The algorithm may need a power of two, or longer vectors.
    except EmulatorError:
        return None


# --- other numbers of ranks, with the same contributions


def _independent_of_ranks(algorithm: Algorithm, trees: FoldTrees, results: ResultArray) -> BitClaim:
    """Claim that the bits do not depend on the number of ranks.

    All trees must be the tree that follows from the number of contributions. Networks with other numbers of ranks and
    the same contributions must have the same trees and values.
    """
    claim = partial(BitClaim, "bits_independent_of_P")
    names = contributions_of(algorithm)
    parted, tried, equal = "", [], []
    for other in _with_other_ranks(algorithm):
        with suppress(EmulatorError):
            parted = parted or _parted_elsewhere(algorithm, trees, other)
            tried.append(other.topology.name)
            equal.append(_same_values(algorithm, results, other))
    measured = False if False in equal else True if True in equal else None
    if parted:
        return claim(certified=False, measured=measured, because=parted)
    alone = paired(names)
    if any(tree.digest != alone.digest for tree in trees.trees.values()):
        # Equal trees on a few networks are no certificate for all others.
        because = f"the trees are the same on {' and '.join(tried)}" if tried else "no other network is compared"
        return claim(certified=None, measured=measured, because=because)
    because = f"{len(names)} contributions make the tree, whatever the number of ranks"
    return claim(
        certified=True, measured=measured, because=f"{because}: as {' and '.join(tried)}" if tried else because
    )


def _with_other_ranks(algorithm: Algorithm) -> Iterator[Algorithm]:
    """Yield the algorithm on the next smaller and larger networks of its family, with the same contributions."""
    numbers = payloads_of(algorithm).kind
    family, _, number = algorithm.topology.name.partition(":")
    if not number.isdecimal():
        return
    for size in (int(number) - 1, int(number) + 1):
        other = _on_network(algorithm, f"{family}:{size}", numbers)
        if other is not None and 1 < len(other.topology.data_ranks) <= numbers.leaves:
            yield other


def _parted_elsewhere(algorithm: Algorithm, trees: FoldTrees, other: Algorithm) -> str:
    """Return the first element whose tree differs on another network, in words; empty if none does."""
    mine, theirs = _by_first_element(algorithm, trees), _by_first_element(other, fold_trees(other))
    # In each part of one network or the other, all elements have one tree.
    for element in sorted({*mine, *theirs}):
        (rank, tree), (further, another) = (
            each[max(first for first in each if first <= element)] for each in (mine, theirs)
        )
        if tree.digest != another.digest:
            return (
                f"element {element} at {algorithm.topology.label(rank)} is {shortened(tree.canonical)}, and at "
                f"{other.topology.label(further)} of {other.topology.name} {shortened(another.canonical)}"
            )
    return ""


def _by_first_element(algorithm: Algorithm, trees: FoldTrees) -> dict[int, tuple[Rank, FoldTree]]:
    """Return the lowest rank that has each part, and its tree, by the first element of the part."""
    payloads = payloads_of(algorithm)
    return {
        payloads.place(*part).start: min(holders, key=lambda each: each[0]) for part, holders in trees.by_part.items()
    }


def _same_values(algorithm: Algorithm, results: ResultArray, other: Algorithm) -> bool | None:
    """Return whether another network ends with the same bits by its own rules; None where that takes too long, or a result
    is missing.
    """
    if results.missing_elements or results.numbers.shape[1] * len(contributions_of(algorithm)) > MOST_MEASURED:
        return None
    found = gather(other, [(rank, *part) for rank, rule in enumerate(executed(other)[1]) for part in rule.results()])
    return {row.tobytes() for row in found.distinct_rows} == {row.tobytes() for row in results.distinct_rows}


def _first_difference(one: Algorithm, trees: FoldTrees, other: Algorithm, larger: FoldTrees) -> str:
    """Return where the trees of a larger network differ without its further ranks, in words; empty if nowhere."""
    count = payloads_of(one).kind.leaves or one.topology.order
    # Where all ranks have the same tree, one of them stands for all.
    ranks: Sequence[Rank | None] = (
        [None] if trees.trees_per_element == larger.trees_per_element == 1 else one.topology.data_ranks
    )
    known: set[tuple[str, str]] = set()
    for rank in ranks:
        mine, theirs = (_by_element(each, found, rank) for each, found in ((one, trees), (other, larger)))
        for start, stop, tree in mine:
            for first, last, further in theirs:
                if start >= last or first >= stop or (tree.digest, further.digest) in known:
                    continue
                left = without(further, count)
                if left is None or left.digest != tree.digest:
                    reason = "nothing is left" if left is None else describe_parting(tree, left)
                    return f"element {max(start, first)} is {reason}"
                known.add((tree.digest, further.digest))
    return ""


def _by_element(algorithm: Algorithm, trees: FoldTrees, rank: Rank | None) -> Sequence[tuple[int, int, FoldTree]]:
    """Return (first element, element behind the last, tree) of all parts that a rank has, or that any rank has."""
    payloads = payloads_of(algorithm)
    found = []
    for part, holders in trees.by_part.items():
        tree = holders[0][1] if rank is None else dict(holders).get(rank)
        if tree is not None:
            place = payloads.place(*part)
            found.append((place.start, place.stop, tree))
    return sorted(found, key=lambda each: each[0])


def without(tree: FoldTree, count: int) -> FoldTree | None:
    """Return a tree without its leaves from `count` on; None if no leaf is left."""

    def joined(left: FoldTree | None, right: FoldTree | None) -> FoldTree | None:
        return right if left is None else left if right is None else FoldTree.of(left, right)

    return tree.evaluated({rank: FoldTree(rank) if rank < count else None for rank, _ in tree.leaf_depths()}, joined)


# --- results by the trees


def results_by_trees(algorithm: Algorithm, trees: FoldTrees) -> ResultArray:
    """Return the results of ranks as the fold trees make them of the contributions, without any rule."""
    spec, payloads = algorithm.spec, payloads_of(algorithm)
    assert spec.numbers is not None
    kind, sent = FLOAT_TYPES[spec.numbers.type], sent_type(spec.numbers)
    ranks = algorithm.topology.data_ranks
    rows = {rank: row for row, rank in enumerate(ranks)} if has_row_per_rank(algorithm) else dict.fromkeys(ranks, 0)
    numbers = np.zeros((max(rows.values()) + 1, payloads.elements * spec.messages), kind.storage)
    for (owner, segment), holders in trees.by_part.items():
        leaves = {name: payloads.sent_numbers(name, owner, segment) for name in payloads.contributions}
        known: dict[str, FloatArray] = {}
        for rank, tree in holders:
            if tree.digest not in known:
                total = tree.evaluated(leaves, sent.add)
                known[tree.digest] = kind.rounded(sent.exact(total)) if sent is not kind else total
            numbers[rows[rank], payloads.place(owner, segment)] = known[tree.digest]
    return ResultArray(numbers, spec.numbers.type)


def _after_repair(algorithm: Algorithm, results: ResultArray, trees: FoldTrees) -> BitClaim:
    equal = results_by_trees(algorithm, trees).hash == results.hash
    because = "late partial results wait for their turn, so the trees are the same as without faults"
    return BitClaim("bits_after_repair_equal", certified=True, measured=equal, because=because)
