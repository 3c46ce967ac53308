"""Bytes of partial results, on links and held, on journals written by hand and of runs."""

import polars as pl
import pytest

from coordinator.annexes.numbers.partial_results import partial_result_metrics
from emunode.model import ALL_RANKS
from tests.helpers.scenarios import Case

SUM = Case("ring:4 reduce bfs-tree", values="float32")


def measured(*rows: tuple[int, int, int, int], case: Case = SUM) -> dict[str, int]:
    """Measure a journal of rows (step, sender, receiver, bytes) of partial results for rank 0."""
    columns = {"step": 0, "sender": 1, "receiver": 2, "bytes": 3}
    template = case.journal.head(1)
    frames = [
        template.with_columns(
            *(pl.lit(row[at]).cast(template.schema[name]).alias(name) for name, at in columns.items()),
            pl.lit(0).cast(template.schema["target"]).alias("target"),
        )
        for row in rows
    ]
    return partial_result_metrics(case.plan, pl.concat([template.clear(), *frames]).lazy())


def test_nothing_sent_is_nothing_held() -> None:
    assert measured() == {"partial_result_bytes": 0, "held_bytes": 0}


def test_a_rank_holds_what_arrived_until_it_sends() -> None:
    # Rank 1 holds 8 and 16 bytes, and sends their sum on in step 3; rank 0 keeps what it gets.
    rows = [(1, 2, 1, 8), (2, 3, 1, 16), (3, 1, 0, 16)]
    assert measured(*rows) == {"partial_result_bytes": 40, "held_bytes": 24}
    # Before the second arrives, the first is gone.
    assert measured((1, 2, 1, 8), (2, 1, 0, 8), (3, 3, 1, 16)) == {"partial_result_bytes": 32, "held_bytes": 16}


@pytest.mark.parametrize("messages", [1, 3])
def test_messages_to_all_are_no_partial_results(messages: int) -> None:
    case = Case("ring:4 broadcast bfs-tree", messages=messages)
    assert set(case.journal["target"]) == {ALL_RANKS}
    assert partial_result_metrics(case.plan, case.journal.lazy()) == {"partial_result_bytes": 0, "held_bytes": 0}
