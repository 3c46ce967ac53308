"""Contributions in files: every layout that numpy writes, limits before anything is read, and the way to hosts."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.lib.format import header_data_from_array_1_0, write_array_header_1_0

from coordinator.annexes.numbers import files as number_files
from coordinator.annexes.numbers.files import hold_contributions, read_contributions
from emunode.annexes.numbers.float_types import FLOAT_TYPES
from emunode.errors import RunError, ScenarioError
from emunode.model import MOST_ELEMENTS, NumberType
from tests.helpers.scenarios import Case

ROWS = np.random.default_rng(3).normal(size=(6, 50))
S_3 = "star:3 allreduce bfs-tree values=float32 seed=1"


def saved(folder: Path, array: np.ndarray) -> str:
    np.save(folder / "data.npy", array)
    return str(folder / "data.npy")


@pytest.mark.parametrize("kind", list(NumberType))
@pytest.mark.parametrize(
    "layout",
    [np.asarray, np.asfortranarray, lambda rows: rows.astype(">f8"), lambda rows: rows.astype("<f4")],
    ids=["by rows", "by columns", "big-endian", "single"],
)
def test_every_layout_is_rounded_once(
    layout: Callable[[np.ndarray], np.ndarray], kind: NumberType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(number_files, "CONVERTED", 7)
    array = layout(ROWS)
    expected = FLOAT_TYPES[kind].rounded(np.ascontiguousarray(array, "<f8")).tobytes()
    assert read_contributions(saved(tmp_path, array), kind, 6) == expected


def test_words_are_bfloat16_and_nan_is_canonical(tmp_path: Path) -> None:
    words = np.array([[0x3F80, 0x7F81], [0xFFFF, 0x8000]], "<u2")
    data = read_contributions(saved(tmp_path, words), NumberType.BFLOAT16, 2)
    assert np.frombuffer(data, "<u2").tolist() == [0x3F80, 0x7FC0, 0x7FC0, 0x8000]
    with pytest.raises(ScenarioError, match="an array of floats, not of uint16"):
        read_contributions(saved(tmp_path, words), NumberType.FLOAT16, 2)


def test_files_of_another_length_are_refused(tmp_path: Path) -> None:
    path = Path(saved(tmp_path, ROWS))
    whole = path.read_bytes()
    for content in (whole[:-1], whole + b"\0", whole[:20], b"\x93NUMPY\x09\x00", b""):
        path.write_bytes(content)
        with pytest.raises(ScenarioError, match="not an array of numbers"):
            read_contributions(str(path), NumberType.FLOAT32, 6)


def headed(folder: Path, elements: int) -> str:
    """Return a file whose head promises this many elements of six ranks."""
    path = folder / "data.npy"
    with path.open("wb") as file:
        write_array_header_1_0(file, header_data_from_array_1_0(np.zeros((0, 1), "<f4")) | {"shape": (6, elements)})
    return str(path)


def test_sizes_are_refused_by_the_head_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ScenarioError, match="at most 16,777,216 elements of a node, not 16,777,217"):
        read_contributions(headed(tmp_path, MOST_ELEMENTS + 1), NumberType.FLOAT32, 6)
    monkeypatch.setattr(number_files, "available_memory", lambda: 2**27)
    with pytest.raises(RunError, match=r"take 0.2 GiB as float32, and 0.1 GiB of memory are free; use fewer elements"):
        read_contributions(headed(tmp_path, 2**23), NumberType.FLOAT32, 6)
    monkeypatch.setattr(number_files, "MOST_DATA", 2**20)
    with pytest.raises(ScenarioError, match="at most 1,048,576 bytes as float32"):
        read_contributions(headed(tmp_path, 2**23), NumberType.FLOAT32, 6)


def test_a_plan_counts_the_data_in_all_processes(tmp_path: Path) -> None:
    from coordinator.planning.resources import memory_bytes

    rows = np.ones((6, 2**18), np.float32)
    for more, copies in ({"driver": "memory"}, 1), ({"driver": "local", "ranks_per_host": 2}, 7):
        own = Case(S_3, data=saved(tmp_path, rows), **more).plan
        generated = Case(S_3, message_bytes=4 * 2**18, **more).plan
        assert memory_bytes(own) - memory_bytes(generated) == copies * rows.nbytes


@pytest.mark.parametrize(
    ("faults", "more"),
    [([], {"clock": "steps"}), ([], {"clock": "timed"}), (["crash:231@2", "recover:231@4"], {"ranks_per_host": 1})],
    ids=["steps", "timed", "started again"],
)
def test_hosts_receive_the_data_in_parts(
    faults: list[str], more: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # 1,200 bytes in 13 frames.
    monkeypatch.setattr("coordinator.networks.link_waves.DATA_PART", 100)
    plain = {name: value for name, value in more.items() if name != "ranks_per_host"}
    case = Case(S_3, *faults, data=saved(tmp_path, ROWS), **plain)
    hosted = Case(S_3, *faults, data=saved(tmp_path, ROWS), driver="local", **more)
    assert hosted.summary["results_hash"] == case.summary["results_hash"]
    assert hosted.summary["journal_hash"] == case.summary["journal_hash"]


@pytest.mark.parametrize("kind", ["<f4", "<f8", "<f2", "<u2"])
def test_names_of_arrays_tell_all_bits_apart(kind: str) -> None:
    array = np.zeros((3, 100_001), kind)
    names = {hold_contributions(array)}
    for place in (0, 7, 50_000, -1):
        other = array.copy()
        other.view("u1")[-1, place] = 128
        names.add(hold_contributions(other))
    names |= {hold_contributions(array.reshape(1, -1)), hold_contributions(array.astype(">f8"))}
    assert len(names) == 7
    assert hold_contributions(array[:, ::-1]) in names


def test_equal_digests_of_other_arrays_get_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(number_files, "_fingerprint", lambda _: "same")
    one, other = (hold_contributions(np.full((2, 2), number)) for number in (1.0, 2.0))
    assert one != other
    assert hold_contributions(np.full((2, 2), 1.0)) == one
    assert np.frombuffer(read_contributions(other, NumberType.FLOAT64, 2)).tolist() == [2.0] * 4


def test_held_arrays_are_copies_and_old_ones_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.arange(6.0).reshape(2, 3)
    name = hold_contributions(array)
    array[:] = 0
    data = read_contributions(name, NumberType.FLOAT64, 2)
    assert isinstance(data, memoryview)
    assert data.readonly
    assert np.frombuffer(data).tolist() == [0, 1, 2, 3, 4, 5]
    monkeypatch.setattr(number_files, "MOST_HELD_BYTES", 64)
    newest = hold_contributions(np.ones((2, 3)))
    assert len(read_contributions(newest, NumberType.FLOAT64, 2)) == 48
    with pytest.raises(ScenarioError, match="does not hold the array, or holds it no longer"):
        read_contributions(name, NumberType.FLOAT64, 2)


def test_an_array_that_is_held_is_not_copied_again() -> None:
    array = np.arange(35.0, dtype="<f4").reshape(5, 7)
    name = hold_contributions(array)
    first = number_files._held[name]
    assert first is not array
    assert hold_contributions(array) == name
    assert number_files._held[name] is first
    # The last four bytes are no whole word of eight.
    array[-1, -1] += 1
    other = hold_contributions(array)
    assert other != name
    assert np.frombuffer(read_contributions(name, NumberType.FLOAT32, 5), "<f4")[-1] == 34
    assert np.frombuffer(read_contributions(other, NumberType.FLOAT32, 5), "<f4")[-1] == 35


def test_held_arrays_are_read_alike_each_time() -> None:
    array = np.ones((2, 3))
    plain = hold_contributions(array)
    array.view("<u8")[1, 1] = 0x7FF8_0000_0000_1234
    with_nan = hold_contributions(array)
    for name, kind, size in (
        (plain, NumberType.FLOAT64, 8),
        (with_nan, NumberType.FLOAT64, 8),
        (plain, NumberType.FLOAT32, 4),
    ):
        once, again = (bytes(read_contributions(name, kind, 2)) for _ in range(2))
        assert once == again
        assert len(once) == 6 * size
    words = np.frombuffer(read_contributions(with_nan, NumberType.FLOAT64, 2), "<u8")
    assert words[4] == 0x7FF8_0000_0000_0000


def test_arrays_of_objects_are_refused() -> None:
    with pytest.raises(ScenarioError, match="an array of floats, not of objects"):
        hold_contributions(np.array([[None, 1.0]]))
