"""The fold trees that the results of a run with `--values probe` reveal, and where they contradict the timetable."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from numpy.typing import NDArray

from coordinator.annexes.numbers.bit_claims import BitClaim
from coordinator.annexes.numbers.fold_tree import FoldTree, describe_parting, shortened
from coordinator.annexes.numbers.orders import ContributionPlace, FoldTrees
from coordinator.annexes.numbers.probe import probed_tree
from coordinator.annexes.numbers.results import has_row_per_rank, payloads_of
from coordinator.history.result_array import ResultArray, is_missing
from emunode.algorithms.base import Algorithm
from emunode.annexes.numbers.float_types import FLOAT_TYPES, FloatArray
from emunode.errors import ScenarioError
from emunode.model import Collective, NumberSource, Rank


class Contradiction(NamedTuple):
    """A part of a result that no order of additions explains, or another order than that of the timetable."""

    place: ContributionPlace
    element: int
    """The first element of the part."""
    reason: str

    def describe(self, algorithm: Algorithm) -> str:
        """Name element, rank and reason."""
        return f"element {self.element} at {algorithm.topology.label(self.place[0])}: {self.reason}"


class ProbedResults(NamedTuple):
    """The reading of a probe."""

    trees: FoldTrees
    """The trees that the results reveal, of all parts with a readable tree."""
    contradictions: Sequence[Contradiction]


def read_probe(algorithm: Algorithm, results: ResultArray, stated: FoldTrees | None) -> ProbedResults:
    """Read the tree of every part of the results, and compare it with the tree that the timetable states, if any does.

    Parts with missing elements are left out: a result that lacks a contribution is judged as lost.
    """
    numbers, leaves = payloads_of(algorithm).kind, payloads_of(algorithm).contributions
    kind = FLOAT_TYPES[numbers.type]
    trees: dict[ContributionPlace, FoldTree] = {}
    contradictions = []
    # Ranks that copied a result have the same bits.
    known: dict[bytes, FoldTree | str] = {}
    for place, element, sums in _parts(algorithm, results):
        if is_missing(sums).any():
            continue
        key = sums.tobytes()
        if key not in known:
            try:
                known[key] = probed_tree(sums, kind, numbers.rounding, leaves)
            except ScenarioError as error:
                known[key] = error.allowed
        found = known[key]
        if isinstance(found, str):
            contradictions.append(Contradiction(place, element, found))
            continue
        trees[place] = found
        expected = None if stated is None else stated.trees.get(place)
        if expected is not None and expected.canonical != found.canonical:
            reason = f"results reveal {describe_parting(found, expected)} in the timetable"
            contradictions.append(Contradiction(place, element, reason))
    return ProbedResults(FoldTrees(trees, {}), contradictions)


def _parts(algorithm: Algorithm, results: ResultArray) -> Iterator[tuple[ContributionPlace, int, FloatArray]]:
    """Yield (place, first element, sums) of every part of the results at every rank that has it."""
    payloads, topology = payloads_of(algorithm), algorithm.topology
    segments = range(algorithm.spec.messages * algorithm.segments_per_message)
    for owner in algorithm.block_owners:
        holder = algorithm.spec.source if algorithm.collective is Collective.REDUCE else owner
        holders: Sequence[Rank] = topology.data_ranks if has_row_per_rank(algorithm) else [holder]
        for segment in segments:
            place = payloads.place(owner, segment)
            for row, rank in enumerate(holders):
                yield (rank, owner, segment), place.start, results.numbers[row, place]


def trees_of_results(algorithm: Algorithm, array: NDArray[Any] | None) -> FoldTrees | None:
    """Return the fold trees that the results of a probe reveal.

    None if the timetable states the trees already, or if the values are no probe.
    """
    if algorithm.traits.states_order or array is None or payloads_of(algorithm).kind.source is not NumberSource.PROBE:
        return None
    kind = payloads_of(algorithm).kind.type
    results = ResultArray(array.view(FLOAT_TYPES[kind].storage), kind)
    return read_probe(algorithm, results, None).trees


def probe_claim(algorithm: Algorithm, probed: ProbedResults) -> BitClaim:
    """Return the claim that orders of additions explain all results, with the first contradiction."""
    if probed.contradictions:
        because = probed.contradictions[0].describe(algorithm)
    else:
        trees = {tree.digest: tree.canonical for tree in probed.trees.trees.values()}
        first = shortened(next(iter(trees.values()), ""))
        because = f"the results reveal {first}" + (f" and {len(trees) - 1} more trees" if len(trees) > 1 else "")
    return BitClaim("results_reveal_their_order", None, not probed.contradictions, because)
