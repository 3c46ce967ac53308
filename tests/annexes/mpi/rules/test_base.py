"""Every rule against the tables that Open MPI 5.0.11 produced, for 2 to 6 ranks."""

from collections.abc import Mapping

import pytest

from coordinator.annexes.mpi.rules.base import (
    MPI_ALGORITHMS,
    MpiAlgorithm,
    MpiCall,
    PairCount,
    RefusedCall,
    same_counts,
)
from tests.annexes.mpi.support import golden_tables

COLLECTIVES = list(dict.fromkeys(collective for collective, _ in MPI_ALGORITHMS))
NUMBERS: Mapping[tuple[str, int], MpiAlgorithm] = {
    (each.collective, each.number): each for each in MPI_ALGORITHMS.values()
}


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_table_of_a_forced_algorithm_follows_its_rule(collective: str) -> None:
    cases = 0
    for number, call, counts in golden_tables(collective):
        algorithm = NUMBERS.get((collective, number))
        if algorithm is not None and algorithm.parts is None:
            assert algorithm.counts(call) == counts, (algorithm.name, call)
            cases += 1
    assert cases >= 26


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_table_of_the_own_choice_is_that_of_a_known_rule(collective: str) -> None:
    chosen = [(call, counts) for number, call, counts in golden_tables(collective) if number == 0]
    assert chosen
    assert [call for call, counts in chosen if not same_counts(call, counts)] == []


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_golden_file_has_all_algorithms_of_its_collective(collective: str) -> None:
    found = {number for number, _, _ in golden_tables(collective)}
    declared = {each.number for each in MPI_ALGORITHMS.values() if each.collective == collective}
    assert found - {0} == declared


@pytest.mark.parametrize(
    ("collective", "name"), [("allreduce", "nonoverlapping"), ("reduce_scatter", "non-overlapping")]
)
def test_composed_algorithms_add_what_their_parts_send(collective: str, name: str) -> None:
    composed = MPI_ALGORITHMS[collective, name]
    assert composed.parts is not None
    own = {
        (part, call): counts
        for part in ("reduce", "bcast", "scatter", "gather")
        for number, call, counts in golden_tables(part)
        if number == 0
    }
    cases = 0
    for number, call, counts in golden_tables(collective):
        if number == composed.number and not call.segment:
            parts = [own[part.collective, part] for part in composed.parts(call)]
            assert composed.counts(call, parts) == counts
            cases += 1
    assert cases == 20


def test_the_ring_sends_two_rounds_to_the_right() -> None:
    ring = MPI_ALGORITHMS["allreduce", "ring"]
    counts = ring.counts(MpiCall("allreduce", 5, elements=5))
    assert counts == {(rank, (rank + 1) % 5): PairCount(8, 32) for rank in range(5)}


def test_the_ring_of_short_vectors_falls_back() -> None:
    ring = MPI_ALGORITHMS["allreduce", "ring"]
    assert ring.runs(MpiCall("allreduce", 5, elements=4)) == "recursive_doubling"
    assert ring.runs(MpiCall("allreduce", 5, elements=5)) == "ring"


@pytest.mark.parametrize("collective", ["allgather", "alltoall", "barrier"])
def test_two_proc_is_refused_for_three_ranks(collective: str) -> None:
    algorithm = MPI_ALGORITHMS[collective, "two_proc"]
    algorithm.counts(MpiCall(collective, 2, elements=1))
    with pytest.raises(RefusedCall):
        algorithm.counts(MpiCall(collective, 3, elements=1))
