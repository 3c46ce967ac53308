"""Expected results, against the definitions of the collectives, element by element."""

from collections.abc import Sequence

import pytest

from coordinator.annexes.mpi.arithmetic import contribution, digest_of, expected_results
from coordinator.annexes.mpi.judge import judged_collectives
from coordinator.annexes.mpi.program import lengths, value_of
from coordinator.annexes.mpi.rules.base import MpiCall


def by_definition(  # noqa: PLR0911  # one return for each collective
    collective: str, ranks: int, n: int, root: int
) -> Sequence[list[int] | None]:
    """Return the result of each rank, from the values that the measuring program contributes."""
    v, all_ranks, all_elements = value_of, range(ranks), range(n)
    starts = [sum(lengths(n, ranks)[:rank]) for rank in range(ranks + 1)]
    match collective:
        case "bcast":
            return [[v(root, i) for i in all_elements] for _ in all_ranks]
        case "scatter":
            return [[v(root, n * rank + i) for i in all_elements] for rank in all_ranks]
        case "gather":
            whole = [v(source, i) for source in all_ranks for i in all_elements]
            return [whole if rank == root else None for rank in all_ranks]
        case "allgather" | "allgatherv":
            return [[v(source, i) for source in all_ranks for i in all_elements] for _ in all_ranks]
        case "alltoall" | "alltoallv":
            return [[v(source, n * rank + i) for source in all_ranks for i in all_elements] for rank in all_ranks]
        case "reduce":
            total = [sum(v(source, i) for source in all_ranks) for i in all_elements]
            return [total if rank == root else None for rank in all_ranks]
        case "allreduce":
            return [[sum(v(source, i) for source in all_ranks) for i in all_elements] for _ in all_ranks]
        case "reduce_scatter":
            total = [sum(v(source, i) for source in all_ranks) for i in all_elements]
            return [total[starts[rank] : starts[rank + 1]] for rank in all_ranks]
        case "reduce_scatter_block":
            return [[sum(v(source, n * rank + i) for source in all_ranks) for i in all_elements] for rank in all_ranks]
        case "scan":
            return [[sum(v(source, i) for source in range(rank + 1)) for i in all_elements] for rank in all_ranks]
        case "exscan":
            return [
                [sum(v(source, i) for source in range(rank)) for i in all_elements] if rank else None
                for rank in all_ranks
            ]
    return [None] * ranks


@pytest.mark.parametrize("collective", judged_collectives())
@pytest.mark.parametrize(("ranks", "elements"), [(2, 1), (5, 3), (4, 11)])
def test_expected_results_are_those_of_the_definition(collective: str, ranks: int, elements: int) -> None:
    root = ranks - 1 if collective in ("bcast", "scatter", "gather", "reduce") else 0
    found = expected_results(MpiCall(collective, ranks, root, elements))
    assert [None if each is None else each.tolist() for each in found] == by_definition(
        collective, ranks, elements, root
    )


def test_values_differ_between_ranks_and_elements() -> None:
    values = [int(value) for rank in range(12) for value in contribution(rank, 100)]
    assert len(set(values)) == len(values)


def test_digests_are_over_little_endian_words() -> None:
    assert digest_of(contribution(0, 2)) == digest_of(contribution(0, 4)[:2])
    assert digest_of(contribution(0, 2)) != digest_of(contribution(1, 2))
