"""The results of ranks as one array: their digest, their errors, and what trees and values say about their bits."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from coordinator.additions.fold_tree import FoldTree, parting_node
from coordinator.additions.orders import FoldTrees
from emunode.algorithms.base import Algorithm
from emunode.algorithms.number_payloads import NumberPayloads
from emunode.engine.rank_set import KeptResult
from emunode.errors import RunError
from emunode.model import Collective, NumberSource, NumberType, Rank
from emunode.values.float_types import FLOAT_TYPES, FloatArray

MOST_TERMS: Final = 50_000
"""Most contributions that are added exactly: of longer vectors an even sample of the elements."""


class ResultArray(NamedTuple):
    """The results that ranks ended with."""

    numbers: FloatArray
    """Of shape (rows, elements): a row for each rank that owns data, or one row where each element is at one rank. A missing
    element has a word of ones, which is no number of any sum."""
    type: NumberType

    @property
    def words(self) -> NDArray[Any]:
        """The bits of the numbers."""
        return self.numbers.view(f"<u{self.numbers.dtype.itemsize}")

    @property
    def missing_elements(self) -> int:
        """The number of elements that ranks do not have."""
        if not self.numbers.strides[0]:
            return int(is_missing(self.numbers[0]).sum()) * len(self.numbers)
        return sum(int(is_missing(row).sum()) for row in self.numbers)

    @property
    def hash(self) -> str:
        """The SHA-256 of the bytes of all rows, the lowest rank first."""
        digest = sha256()
        for row in self.numbers:
            digest.update(np.ascontiguousarray(row).data)
        return digest.hexdigest()

    @property
    def distinct_rows(self) -> list[FloatArray]:
        """The rows with different bits: two NaN are equal here, and +0 and -0 are not."""
        if not self.numbers.strides[0]:
            return [self.numbers[0]]
        return list({sha256(np.ascontiguousarray(row).data).digest(): row for row in self.numbers}.values())


def is_missing(row: FloatArray) -> NDArray[np.bool_]:
    """Return whether each element of a row is missing."""
    words = row.view(f"<u{row.dtype.itemsize}")
    missing: NDArray[np.bool_] = words == ~np.zeros((), words.dtype)
    return missing


def payloads_of(algorithm: Algorithm) -> NumberPayloads:
    """Return the payloads of an algorithm whose messages are numbers."""
    payloads = algorithm.payloads
    assert isinstance(payloads, NumberPayloads)
    return payloads


def has_row_per_rank(algorithm: Algorithm) -> bool:
    """Return whether every rank ends with the whole vector."""
    return algorithm.collective is Collective.ALLREDUCE


def gather(algorithm: Algorithm, parts: Iterable[KeptResult]) -> ResultArray:
    """Return the results of ranks as an array; RunError for a part that does not exist in the run."""
    numbers, ranks = algorithm.spec.numbers, algorithm.topology.data_ranks
    assert numbers is not None
    parts = list(parts)
    if not has_row_per_rank(algorithm):
        return ResultArray(_rows(algorithm, parts, dict.fromkeys(ranks, 0), 1), numbers.type)
    first = {part[1:3]: part[3] for part in parts if part[0] == parts[0][0]}
    shared = len(parts) == len(ranks) * len(first) and all(part[3] is first.get(part[1:3]) for part in parts)
    if shared:
        # In memory ranks pass on the same objects: one row in place of one for each rank.
        one = _rows(algorithm, parts[: len(first)], dict.fromkeys(ranks, 0), 1)
        return ResultArray(np.broadcast_to(one, (len(ranks), one.shape[1])), numbers.type)
    places = {rank: row for row, rank in enumerate(ranks)}
    return ResultArray(_rows(algorithm, parts, places, len(ranks)), numbers.type)


def _rows(algorithm: Algorithm, parts: Sequence[KeptResult], rows: Mapping[Rank, int], count: int) -> FloatArray:
    """Return parts of results in `count` rows, each rank in its own; errors as `gather`."""
    payloads, owners = payloads_of(algorithm), frozenset(algorithm.block_owners)
    assert algorithm.spec.numbers is not None
    kind = FLOAT_TYPES[algorithm.spec.numbers.type]
    shape = (count, payloads.elements * algorithm.spec.messages)
    words = np.full(shape, ~np.zeros((), f"u{kind.item_bytes}"), f"<u{kind.item_bytes}")
    segments = algorithm.spec.messages * algorithm.segments_per_message
    for rank, owner, segment, payload in parts:
        known = rank in rows and owner in owners and segment < segments
        if not known or len(payload) != payloads.segment_bytes(owner, segment):
            raise RunError(
                f"rank {rank} reports a result of {len(payload)} bytes for segment {segment} of rank {owner}"
            )
        words[rows[rank], payloads.place(owner, segment)] = payloads.finished(payload).view(words.dtype)
    numbers: FloatArray = words.view(kind.storage)
    return numbers


def result_metrics(algorithm: Algorithm, results: ResultArray, *, complete: bool) -> dict[str, int | float]:
    """Return the numbers of distinct results and of missing elements; if no contribution is missing in any result,
    also errors in units of u sum|x|.
    """
    missing = results.missing_elements
    whole = [row for row in results.distinct_rows if not is_missing(row).any()]
    metrics: dict[str, int | float] = {"distinct_results": len(whole), "missing_elements": missing}
    numbers = algorithm.spec.numbers
    if numbers is None or numbers.source is NumberSource.PROBE or missing or not complete:
        return metrics
    errors = list(_errors(algorithm, results))
    if errors:
        metrics |= {"worst_error_units": max(errors), "mean_error_units": sum(errors) / len(errors)}
    return metrics


def _errors(algorithm: Algorithm, results: ResultArray) -> Iterator[float]:
    """Yield errors in units of u sum|x|, by exact rationals, of an even sample of the elements."""
    ranks, payloads = algorithm.topology.data_ranks, payloads_of(algorithm)
    kind = FLOAT_TYPES[results.type]
    count = results.numbers.shape[1]
    sample = range(0, count, max(1, -(-count * len(ranks) // MOST_TERMS)))
    contributions = [kind.exact(payloads.numbers(rank, sample)).tolist() for rank in ranks]
    rows = [kind.exact(row[sample.start : sample.stop : sample.step]) for row in results.distinct_rows]
    for place, terms in enumerate(zip(*contributions, strict=True)):
        if not np.isfinite(terms).all():
            continue
        exact, unit = sum(map(Fraction, terms)), sum(map(abs, map(Fraction, terms))) * Fraction(kind.unit_roundoff)
        for row in rows:
            if np.isfinite(row[place]) and unit:
                yield float(abs(Fraction(float(row[place])) - exact) / unit)


def bits_of(algorithm: Algorithm, results: ResultArray, trees: FoldTrees | None) -> dict[str, object]:
    """Return what `summary.json` says of the bits: the hash of the results, and each claim with what shows it."""
    rows = _bit_claims(algorithm, results, trees)
    numbers = algorithm.spec.numbers
    assert numbers is not None
    return {
        "values": str(numbers.type) if numbers.source is not NumberSource.PROBE else "probe",
        "rounding": str(numbers.rounding),
        "elements": results.numbers.shape[1],
        "results_hash": results.hash,
        **(
            {} if trees is None else {"tree_digests": trees.digests[:24], "mean_tree_depth": round(trees.mean_depth, 4)}
        ),
        "bits": [row.record() for row in rows],
    }


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


def _bit_claims(algorithm: Algorithm, results: ResultArray, trees: FoldTrees | None) -> Iterator[BitClaim]:
    equal = _first_unequal(algorithm, results)
    measured = None if results.missing_elements or not has_row_per_rank(algorithm) else not equal
    if trees is None:
        yield BitClaim("same_bits_on_all_ranks", None, measured, equal or "too many trees to compare")
        return
    parted = trees.unequal_ranks()
    because = "equal trees at all ranks" if parted is None else describe_parting(parted[2], parted[3])
    yield BitClaim("same_bits_on_all_ranks", parted is None, measured, equal or because)
    yield BitClaim("bits_independent_of_arrival", True, None, "the timetable fixes the order of every addition")
    size = trees.same_over_parts
    yield BitClaim(
        "bits_independent_of_size", size, None,
        "one tree for all elements" if size else f"{len(trees.digests)} trees: the tree depends on the place in the vector",
    )  # fmt: skip
    cut = trees.same_over_segments
    yield BitClaim(
        "bits_independent_of_segments", cut, None,
        "one tree for all segments of a block" if cut else "the tree of an element depends on its segment",
    )  # fmt: skip


def _first_unequal(algorithm: Algorithm, results: ResultArray) -> str:
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


def describe_parting(one: FoldTree, other: FoldTree) -> str:
    """Return the first addition at which two trees part, in words."""
    nodes = parting_node(one, other)
    if nodes is None:
        return "equal trees"
    return " against ".join(shortened(node.canonical) for node in nodes)


def shortened(text: str, most: int = 40) -> str:
    """Return the text of a tree, its middle left out if it is long."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]}..{text[-(most // 2 - 1) :]}"
