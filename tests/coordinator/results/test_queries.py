"""Queries over a journal: how many a short run makes, and that short and long journals are measured alike."""

import polars as pl
import pytest

import coordinator as tb
from coordinator.results.metrics import measure
from tests.helpers.scenarios import Case

MOST_QUERIES = 25


def test_a_short_run_in_memory_makes_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 0.2 ms, more than all else that happens in the run; there were 46."""
    made = []
    collect = pl.LazyFrame.collect

    def counted(frame: pl.LazyFrame, **options: object) -> object:
        made.append(options)
        return collect(frame, **options)  # type: ignore[call-overload]

    net = tb.network("star:4")
    net.broadcast("flood")
    monkeypatch.setattr(pl.LazyFrame, "collect", counted)
    assert net.broadcast("flood").ok
    assert 0 < len(made) <= MOST_QUERIES
    assert not [options for options in made if options.get("engine") == "streaming"]


@pytest.mark.parametrize(
    "case",
    [
        Case("star:4 broadcast edt redundancy=3 message_bytes=700", "byzantine:2134@2", "crash:4231@2"),
        Case("star:4 broadcast flood", "duplicate:1234~2134:1", "recover:4231@5", "crash:4231@2"),
        Case("star:4 broadcast greedy-tree port_model=one-port packet_limit=48 messages=3"),
    ],
    ids=str,
)
def test_short_and_long_journals_are_measured_alike(case: Case) -> None:
    plan, journal, altered = case.plan, case.journal, case.run.execution.altered_copies
    short, long = (measure(plan, journal.lazy(), altered, rows=rows) for rows in (len(journal), None))
    assert short.metrics == long.metrics
    assert short.tables.keys() == long.tables.keys()
    for name, table in short.tables.items():
        other = long.tables[name]
        assert (table is None and other is None) or (table is not None and other is not None and table.equals(other))
