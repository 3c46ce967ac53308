"""Checked tables: short and long ones have the same values and the same refusals."""

from pathlib import Path

import polars as pl
import pytest

from coordinator.history.stored import tables
from coordinator.history.stored.reading import RefusedError
from coordinator.history.stored.tables import SHORT_ROWS, Column, open_table, read_table

COLUMNS = {"rank": Column("whole numbers", 0, 9), "load": Column("numbers", optional=True)}
GOOD = {"rank": [3, 1, 9], "load": [0.5, None, 2.0]}


@pytest.fixture(params=[0, SHORT_ROWS], ids=["long", "short"], autouse=True)
def _length(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "SHORT_ROWS", request.param)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "table.parquet"


@pytest.mark.parametrize("more", [{}, {"name": ["a", "b", "c"]}], ids=["numbers", "texts"])
def test_a_table_is_read_with_its_further_columns(file: Path, more: dict[str, list[str]]) -> None:
    expected = pl.DataFrame(GOOD | more)
    expected.write_parquet(file)
    assert open_table(file, COLUMNS, 3).collect().equals(expected)
    assert read_table(file, COLUMNS, 3).equals(expected)


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"rank": [3, 10, 9]}, RefusedError, "values of rank that are not within 0..9"),
        ({"rank": [3, None, 9]}, RefusedError, "rows with missing values of rank"),
        ({"rank": ["3", "1", "9"]}, RefusedError, "column rank is of type String; expected whole numbers"),
        ({"load": [0.5, None, float("inf")]}, RefusedError, "values of load that are not finite"),
        ({"rank": [1] * 4, "load": [1.0] * 4}, ValueError, "4 rows, and at most 3 are read"),
    ],
)
def test_a_table_with_other_values_is_refused(
    file: Path, values: dict[str, list[object]], error: type[ValueError], message: str
) -> None:
    pl.DataFrame(GOOD | values).write_parquet(file)
    for read in (open_table, read_table):
        with pytest.raises(error, match=f"^{message}$"):
            read(file, COLUMNS, 3)


def test_a_damaged_table_is_a_value_error(file: Path) -> None:
    pl.DataFrame(GOOD).write_parquet(file)
    content = bytearray(file.read_bytes())
    content[4:24] = b"\xff" * 20
    file.write_bytes(content)
    with pytest.raises(ValueError, match="File out of specification"):
        read_table(file, COLUMNS, 3)
