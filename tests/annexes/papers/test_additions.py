"""The reproduction of orders of additions: closed forms against runs, and against the recorded trees."""

from coordinator.annexes.papers.additions.orders import RANKS, by_exchange, by_rank, round_ring
from coordinator.annexes.papers.registry import find_reproduction
from coordinator.annexes.papers.run_cache import open_run_cache
from coordinator.annexes.papers.tables import Table
from tests.annexes.numbers.support import linear, recursive_doubling, ring


def test_closed_forms_agree_with_independent_ones() -> None:
    for count in (4, 5, 6, 8, 24):
        for chunk in range(count):
            assert by_rank(count, chunk).digest == linear(count, chunk).digest
            assert by_exchange(count, chunk).digest == recursive_doubling(count, chunk).digest
            # Addition is commutative: the own contribution on the left, or last.
            assert round_ring(count, chunk).digest == ring(count, (chunk + 1) % count).digest


def test_every_row_holds() -> None:
    with open_run_cache() as cache:
        tables = [each for each in find_reproduction("additions").sections(cache) if isinstance(each, Table)]
    orders, sizes = tables
    assert {status for table in tables for status in table.statuses} == {"holds"}
    assert [row["trees"] for row in orders.rows] == [1, 1, RANKS, 1]
    assert [row["measured"] for row in sizes.rows] == [0.0, 0.0, 67.9, 0.0]
