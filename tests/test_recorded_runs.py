"""Recorded runs have the same hash, verdict and claims as when they were recorded, in memory and over sockets."""

from pathlib import Path

import pytest

from emunode.algorithms.registry import registered
from emunode.faults.kinds import KINDS
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.recorded_runs import Record, permits_other_hashes, record_of, recorded

RECORDS = recorded()
CHUNKS = [RECORDS[start::100] for start in range(100)]
"""Each has runs from all parts of the file, so that a sample of the chunks meets all kinds of runs."""
OVER_SOCKETS = [record for record in RECORDS[::60] if "clock=timed" not in record["scenario"]]
"""Under the timed clock a busy machine is late, and then a verdict is undecided."""


def names_of(records: list[Record]) -> str:
    return str(records[0]["scenario"]).replace(" ", "-")


@needs_every_annex
def test_records_use_every_algorithm_and_kind_of_fault() -> None:
    lines = [record["scenario"] for record in RECORDS]
    used = {tuple(line.split()[1:3]) for line in lines}
    assert used >= {(str(entry.collective), entry.name) for _, entry in registered()}
    faults = {
        word.partition("=")[2].partition(":")[0] for line in lines for word in line.split() if word[:6] == "fault="
    }
    # A new kind has no records before the next time that runs are recorded.
    assert len(faults) >= 21
    assert faults <= set(KINDS)
    assert len(RECORDS) > 300
    for words in (
        "clock=timed",
        "reliable=true",
        "repair=",
        "on_failure=shrink",
        "on_failure=agree",
        "redundancy=2",
        "keep_alive=",
    ):
        assert any(words in line for line in lines), words


def test_a_changed_hash_needs_a_news_fragment(tmp_path: Path) -> None:
    (tmp_path / "speed.changed.md").write_text("Runs are faster.\n")
    assert not permits_other_hashes(tmp_path)
    (tmp_path / "hashes.changed.md").write_text("The journal hash of runs with delays changes.\n")
    assert permits_other_hashes(tmp_path)


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize("records", CHUNKS, ids=names_of)
def test_recorded_runs_are_the_same(records: list[Record]) -> None:
    assert [record_of(record["scenario"]) for record in records] == records


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("record", OVER_SOCKETS, ids=lambda record: record["scenario"].replace(" ", "-"))
def test_recorded_runs_are_the_same_over_sockets(record: Record) -> None:
    assert record_of(record["scenario"], driver="local") == record
