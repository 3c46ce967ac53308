"""Tables of traffic from files: what is read, and what is refused with its line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.annexes.mpi.rules.base import PairCount
from coordinator.annexes.mpi.traffic import TrafficTable, read_profiles, read_traffic, summary_rows
from emunode.errors import ScenarioError


def table_of(folder: Path, text: str, ranks: int | None = None) -> TrafficTable:
    """Read a table with this content."""
    path = folder / "dump.csv"
    path.write_text(text)
    return read_traffic(path, ranks)


def test_rows_of_one_pair_and_collective_are_added_up(tmp_path: Path) -> None:
    table = table_of(
        tmp_path,
        "Bytes, source,target,messages,collective,rail\n8,0,1,1,allreduce,x\n4,0,1,2,allreduce,y\n0,3,0,1,barrier,\n\n",
    )
    assert table.ranks == 4
    assert table.tables == {"allreduce": {(0, 1): PairCount(3, 12)}, "barrier": {(3, 0): PairCount(1, 0)}}
    assert table.total == {(0, 1): PairCount(3, 12), (3, 0): PairCount(1, 0)}
    assert [row["heaviest pair"] for row in summary_rows(table)] == ["0 to 1: 12 bytes", "3 to 0: 0 bytes"]


def test_a_table_that_is_written_is_read_again(tmp_path: Path) -> None:
    table = TrafficTable(3, {'a "b", c': {(0, 2): PairCount(1, 5)}, "all": {(1, 0): PairCount(2, 0)}})
    assert table_of(tmp_path, "".join(table.csv())).tables == table.tables


def test_pairs_without_messages_are_left_out(tmp_path: Path) -> None:
    table = table_of(tmp_path, "source,target,messages,bytes\n0,1,0,0\n", ranks=5)
    assert (table.ranks, table.tables) == (5, {"all": {}})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "has no column source, target, messages, bytes"),
        ("source,target,bytes\n", "has no column messages"),
        ("source,target,messages,bytes\n0,1,1\n", "invalid traffic 'line 2': 3 values, expected 4"),
        ("source,target,messages,bytes\n0,0,1,1\n", "invalid traffic 'line 2': rank 0 sends to itself"),
        ("source,target,messages,bytes\n0,1,0,1\n", "1 bytes in no message"),
        ("source,target,messages,bytes\n0,1,-1,1\n", "messages '-1', expected a whole number"),
        ("source,target,messages,bytes\n0,5000,1,1\n", "target '5000', expected a whole number up to 4,095"),
        ("source,target,messages,bytes\n0,1,1,99999999999999999\n", "bytes '99999999999999999'"),
        ('source,target,messages,bytes\n"0,1', "it is no table in CSV"),
        ("source,target,messages,bytes\n0,\u0661,1,1\n", "target '\u0661'"),
    ],
)
def test_malformed_tables_are_refused_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        table_of(tmp_path, text)
    assert message in str(caught.value)


def test_files_that_are_no_table_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="the file cannot be read: No such file or directory"):
        read_traffic(tmp_path / "nothing.csv")
    with pytest.raises(ScenarioError, match="invalid ranks 1: above 1, the highest rank"):
        table_of(tmp_path, "source,target,messages,bytes\n0,1,1,1\n", ranks=1)


@given(st.text(alphabet='source,target\n01239"-', max_size=80))
def test_no_text_raises_anything_else(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    try:
        table = table_of(tmp_path_factory.mktemp("table"), "source,target,messages,bytes\n" + text)
    except ScenarioError:
        return
    assert all(0 <= rank < table.ranks for pair in table.total for rank in pair)


PROFILE = (
    "# POINT TO POINT\nE\t0\t1\t12 bytes\t2 msgs sent\t0,1\nI\t0\t2\t4 bytes\t1 msgs sent\t1\n# OSC\n# COLLECTIVES\n"
)


def test_profiles_tell_own_messages_from_collectives(tmp_path: Path) -> None:
    files = [tmp_path / f"{rank}.prof" for rank in range(3)]
    for rank, file in enumerate(files):
        file.write_text(PROFILE if rank == 0 else "# POINT TO POINT\n")
    table = read_profiles(files)
    assert table.tables == {"point-to-point": {(0, 1): PairCount(2, 12)}, "collectives": {(0, 2): PairCount(1, 4)}}


@pytest.mark.parametrize(
    "line", ["E\t0\t1", *(f"E\t{pair}\t1 bytes\t1 msgs sent" for pair in ("0\tx", "1\t0", "0\t9"))]
)
def test_profiles_that_monitoring_does_not_write_are_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "0.prof"
    file.write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"0\.prof"):
        read_profiles([file])
