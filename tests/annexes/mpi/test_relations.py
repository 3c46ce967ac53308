"""The declared relations, against runs of this bench on complete networks."""

from collections import Counter
from collections.abc import Mapping

import polars as pl
import pytest

from coordinator.annexes.mpi.relations import RELATIONS, BenchRelation, relation_of
from coordinator.annexes.mpi.rules.base import ELEMENT_BYTES, MPI_ALGORITHMS, MpiCall, PairCount, PairCounts
from tests.helpers.scenarios import Case

RANKS = 8
VECTOR = 480
BLOCK = 60


def bench_counts(collective: str, algorithm: str) -> PairCounts:
    """Return packets and bytes of each pair of ranks of a run on the complete network."""
    size = VECTOR if collective in ("allreduce", "reduce-scatter", "broadcast", "reduce") else BLOCK
    case = Case(f"complete:{RANKS} {collective} {algorithm}", port_model="one-port", message_bytes=size)
    pairs = case.journal.group_by("sender", "receiver").agg(pl.col("step").n_unique(), pl.col("bytes").sum())
    return {(sender, receiver): PairCount(*count) for sender, receiver, *count in pairs.iter_rows()}


def library_counts(collective: str, name: str) -> PairCounts:
    """Return the messages that the rule of the library states for the same data."""
    size = VECTOR if collective in ("allreduce", "reduce_scatter", "bcast", "reduce") else BLOCK
    return MPI_ALGORITHMS[collective, name].counts(MpiCall(collective, RANKS, elements=size // ELEMENT_BYTES))


def mirrored(counts: PairCounts) -> PairCounts:
    """Return the counts after every rank q is renamed to -q."""
    return {((-source) % RANKS, (-target) % RANKS): count for (source, target), count in counts.items()}


def totals(counts: PairCounts) -> tuple[int, int]:
    """Return all messages and all bytes."""
    return sum(count.messages for count in counts.values()), sum(count.bytes for count in counts.values())


def bytes_by_distance(counts: PairCounts) -> Mapping[int, int]:
    """Return the bytes of all pairs whose ranks differ in each bit."""
    found: Counter[int] = Counter()
    for (source, target), count in counts.items():
        found[source ^ target] += count.bytes
    return found


@pytest.mark.parametrize("key", RELATIONS, ids=" ".join)
def test_each_relation_is_the_strongest_that_holds(key: tuple[str, str]) -> None:
    declared = RELATIONS[key]
    bench, library = bench_counts(declared.collective, declared.algorithm), library_counts(*key)
    assert totals(bench) == totals(library)
    if bench == library:
        found = BenchRelation.EQUAL
    elif mirrored(bench) == library:
        found = BenchRelation.MIRRORED
    elif {pair: count.messages for pair, count in bench.items()} == {
        pair: count.messages for pair, count in library.items()
    }:
        found = BenchRelation.REVERSED
        distances = bytes_by_distance(library)
        assert bytes_by_distance(bench) == {RANKS // 2 // distance: value for distance, value in distances.items()}
    else:
        found = BenchRelation.TOTALS
    assert found is declared.relation


def test_algorithms_without_a_counterpart_have_no_relation() -> None:
    assert relation_of("bcast", "chain") == ""
    assert relation_of("allreduce", "ring") == "equal in totals (allreduce ring on complete:P)"
