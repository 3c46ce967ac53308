"""The audit of small journals: impossible hops, faults of every kind, knowledge and port models."""

from collections.abc import Iterator

import pytest

from coordinator.results.metrics import measure
from tests.helpers.result_support import Row, hop, measured, table_of
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows


def rows_of(text: str) -> Iterator[Row]:
    """Read hops: step, sender, port, and where they matter outcome and segment; or all fields of a row."""
    for line in filter(None, text.split("; ")):
        words = [int(word) if word.lstrip("-").isdigit() else word for word in line.split()]
        yield tuple(words) if len(words) == 10 else hop(*words)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize("row", golden_rows("", "audited_hops"), ids=lambda row: row["history"])
def test_audit_counts_impossible_hops(row: dict[str, str]) -> None:
    journal = table_of([*rows_of(row["hops"])])
    assert measure(Case(row["scenario"]).plan, journal).metrics["illegal_hops"] == int(row["illegal"])


def test_fault_records_with_first_evidence() -> None:
    faults = ("crash:01@2", "loss:00>10:1@1-7", "byzantine:11@2")
    seen = measured([hop(1, 0, 1, "lost"), hop(4, 0, 0, "lost")], fault=faults)
    loss, crash, byzantine = seen.faults
    assert crash == {"kind": "crash", "step": 2, "rank": 1, "label": "01", "last": None, "seen": 4}
    assert loss == {
        "kind": "loss", "step": 1, "sender": 0, "port": 1, "label": "00>10", "rate": 1.0, "last": 7, "seen": 1,
    }  # fmt: skip
    assert byzantine["seen"] is None
