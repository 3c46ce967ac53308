"""The results of ranks as one array: their digest and their errors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from math import fsum, inf, isfinite
from typing import Final

import numpy as np

from coordinator.history.result_array import ResultArray, is_missing
from emunode.algorithms.base import Algorithm
from emunode.annexes.numbers.float_types import FLOAT_TYPES, FloatArray
from emunode.annexes.numbers.payloads import NumberPayloads
from emunode.engine.rank_set import KeptResult
from emunode.errors import RunError
from emunode.model import Collective, NumberSource, Rank

MOST_TERMS: Final = 50_000
"""Most contributions that are added exactly: of longer vectors an even sample of the elements."""
SMALL, LARGE = 2.0**-900, 2.0**900
"""Between these, errors as floats neither vanish nor overflow."""


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
    """Return how many results are distinct, and how many elements are missing.

    If every result has all contributions, errors in units of u sum|x| are added.
    """
    missing = results.missing_elements
    whole = [row for row in results.distinct_rows if not is_missing(row).any()]
    metrics: dict[str, int | float] = {"distinct_results": len(whole), "missing_elements": missing}
    numbers = algorithm.spec.numbers
    if numbers is None or numbers.source is NumberSource.PROBE or missing or not complete:
        return metrics
    errors = list(_errors(algorithm, results))
    # Beyond the largest number there is no error to state, and the errors of the other sums would hide it.
    if errors and isfinite(max(errors)):
        metrics |= {"worst_error_units": max(errors), "mean_error_units": sum(errors) / len(errors)}
    return metrics


def _errors(algorithm: Algorithm, results: ResultArray) -> Iterator[float]:
    """Yield errors in units of u sum|x|, by exact sums, of an even sample of the elements; inf for an overflow."""
    payloads = payloads_of(algorithm)
    names = payloads.contributions
    kind = FLOAT_TYPES[results.type]
    count = results.numbers.shape[1]
    sample = range(0, count, max(1, -(-count * len(names) // MOST_TERMS)))
    contributions = [kind.exact(payloads.numbers(name, sample)).tolist() for name in names]
    rows = [kind.exact(row[sample.start : sample.stop : sample.step]) for row in results.distinct_rows]
    for place, terms in enumerate(zip(*contributions, strict=True)):
        if not all(map(isfinite, terms)):
            continue
        for row in rows:
            if any(terms):
                total = float(row[place])
                yield _error(terms, total) / kind.unit_roundoff if isfinite(total) else inf


def _error(terms: Sequence[float], total: float) -> float:
    """Return the distance of a total from the exact sum of the terms, as a share of the sum of their absolute values."""
    with suppress(OverflowError):
        size = fsum(map(abs, terms))
        if SMALL < size < LARGE:
            # Rounded once, as a rational would be.
            return abs(fsum((*terms, -total))) / size
    exact, whole = sum(map(Fraction, terms)), sum(map(abs, map(Fraction, terms)))
    return float(abs(Fraction(total) - exact) / whole)
