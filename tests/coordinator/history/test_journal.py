"""The journal is sorted and has the same hash for any order of its rows, in one part or several."""

import random
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.history import journal as journal_module
from coordinator.history.journal import COLUMNS, OUTCOMES, SORT_KEY, Journal, first_difference
from emunode.model import HopOutcome
from emunode.net.wire import ROW

Row = tuple[int, ...]
"""step, sender, receiver, origin, target, segment, bytes, tree, port, outcome: as it comes over the wire"""

ROWS: st.SearchStrategy[list[Row]] = st.lists(
    st.tuples(
        st.integers(1, 6),
        st.integers(0, 5),
        st.just(7),  # the receiver, which sender and port settle
        st.integers(0, 5),
        st.integers(-1, 5),
        st.integers(0, 2**31 - 1),
        st.integers(0, 100),
        st.integers(0, 3),
        st.integers(0, 3),
        st.integers(0, len(HopOutcome) - 1),
    ),
    max_size=40,
)


def pack(rows: Sequence[Row]) -> bytes:
    """Return rows as hosts send them."""
    return b"".join(ROW.pack(*row) for row in rows)


def many(count: int = 500) -> list[Row]:
    """Return distinct rows of ten steps in random order."""
    rows: list[Row] = [
        (1 + number % 10, number % 7, number, 0, -1, number // 70, 64, 0, number % 3, 0) for number in range(count)
    ]
    random.Random(1).shuffle(rows)
    return rows


def write(folder: Path, blocks: Sequence[Sequence[Row]]) -> Journal:
    """Return a journal of blocks that were added before any step was settled."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Journal(folder)
    made.add([*map(pack, blocks)])
    made.close()
    return made


def settle_by_step(folder: Path, rows: Sequence[Row]) -> Journal:
    """Return an open journal that was settled step by step."""
    folder.mkdir(parents=True, exist_ok=True)
    made = Journal(folder)
    for step in range(1, 12):
        made.add([pack([row for row in rows if row[0] == step])])
        made.settle(step - 1)
    return made


def write_by_step(folder: Path, rows: Sequence[Row]) -> Journal:
    """Return a journal that is settled step by step."""
    made = settle_by_step(folder, rows)
    made.close()
    return made


def read(made: Journal) -> pl.DataFrame:
    """Return the rows, from the file if the journal has one."""
    return made.frame.collect()


def test_journal_is_sorted_and_complete(tmp_path: Path) -> None:
    rows = many()
    made = write(tmp_path, [rows])
    table = read(made)
    assert tuple(table.columns) == COLUMNS
    assert made.rows == len(table) == len(rows)
    assert table.equals(table.sort(SORT_KEY))
    columns = "step", "sender", "receiver", "origin", "target", "segment", "bytes", "tree", "port"
    assert sorted(table.select(columns).iter_rows()) == sorted(row[:-1] for row in rows)


def test_outcomes_have_their_names(tmp_path: Path) -> None:
    table = read(
        write(tmp_path, [[(1, rank, 0, 0, -1, 0, 1, 0, 0, outcome) for rank, outcome in enumerate(HopOutcome)]])
    )
    assert table["outcome"].to_list() == [
        "first",
        "duplicate",
        "relay",
        "lost",
        "corrupt",
        "control",
        "withheld",
        "report",
    ]


@settings(max_examples=30)
@given(ROWS, st.randoms(use_true_random=False), st.integers(1, 7))
def test_hash_is_independent_of_order_blocks_and_settling(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], chance: random.Random, size: int
) -> None:
    folder = tmp_path_factory.mktemp("journals")
    shuffled = chance.sample(rows, len(rows))
    blocks = [shuffled[start : start + size] for start in range(0, len(rows), size)]
    one, other, third = write(folder / "1", [rows]), write(folder / "2", blocks), write_by_step(folder / "3", rows)
    assert one.hash == other.hash == third.hash
    assert read(one).equals(read(other))
    assert read(one).equals(read(third))


def test_hash_covers_every_column(tmp_path: Path) -> None:
    row = (1, 2, 3, 4, 5, 6, 7, 8, 9, 0)
    changed = [tuple(value + (place == index) for place, value in enumerate(row)) for index in range(len(row))]
    hashes = {write(tmp_path / str(number), [[one]]).hash for number, one in enumerate([row, *changed])}
    assert len(hashes) == 1 + len(row)


def test_repeated_rows_are_kept(tmp_path: Path) -> None:
    row = (1, 2, 3, 4, 5, 6, 7, 8, 9, 0)
    assert write(tmp_path / "1", [[row]]).hash != write(tmp_path / "2", [[row], [row]]).hash


def test_many_parts_make_the_same_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = write_by_step(tmp_path / "whole", many())
    monkeypatch.setattr(journal_module, "SETTLE_BYTES", 40 * ROW.size)
    cut = settle_by_step(tmp_path / "parts", many())
    assert len(list((tmp_path / "parts").iterdir())) >= 9
    cut.close()
    assert cut.hash == whole.hash
    assert read(cut).equals(read(whole))


@pytest.mark.parametrize("settle_bytes", [0, 10 * ROW.size, 2**30])
def test_partial_files_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settle_bytes: int) -> None:
    monkeypatch.setattr(journal_module, "SETTLE_BYTES", settle_bytes)
    write_by_step(tmp_path, many())
    assert list(tmp_path.iterdir()) == [tmp_path / "journal.parquet"]


def test_empty_journal_can_be_read(tmp_path: Path) -> None:
    empty, full = write(tmp_path / "empty", []), write(tmp_path / "full", [many(10)])
    assert empty.rows == 0
    assert read(empty).is_empty()
    assert read(empty).schema == read(full).schema
    assert read(empty).schema["outcome"] == OUTCOMES
    assert empty.hash != full.hash
    assert empty.hash == write(tmp_path / "too", []).hash


def test_a_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "SETTLE_BYTES", 0)
    made = write_by_step(tmp_path / "a[b]*?", many(30))
    assert read(made).height == 30


@given(
    rows=ROWS,
    change=st.integers(0, 40),
    column=st.sampled_from(COLUMNS),
    cut=st.integers(0, 3),
    at_once=st.integers(1, 9),
)
def test_the_first_difference_of_two_journals(
    rows: list[Row], change: int, column: str, cut: int, at_once: int
) -> None:
    made = Journal()
    made.add([pack(rows)])
    made.close()
    one = made.frame.with_columns(pl.col("outcome").cast(pl.String)).collect()
    other = one.with_row_index().with_columns(
        pl.when(pl.col("index") == change)
        .then(pl.lit("other") if column == "outcome" else -7)
        .otherwise(column)
        .alias(column)
    )
    other = other.drop("index").head(max(0, len(one) - cut))
    both = one.rows(named=True), other.rows(named=True)
    expected = next((at for at, (left, right) in enumerate(zip_longest(*both)) if left != right), None)
    found = first_difference(made.frame, other.lazy(), at_once)
    if expected is None:
        assert found is None
    else:
        rows_there = [dict(side[expected]) if expected < len(side) else None for side in both]
        assert found == (expected + 1, *rows_there)
