"""Chakra traces: golden verdicts, cut files, embedded MSCCL texts, and hostile bytes."""

import gzip
import os
import random
from collections.abc import Callable
from pathlib import Path
from shutil import copy

import pytest

from coordinator.annexes.exports.protobuf import WireError, fields, read_varint, signed, unzigzag, whole_numbers
from coordinator.annexes.schedules import chakra_traces
from coordinator.annexes.schedules.base import FileVerdict
from coordinator.annexes.schedules.folder import judge_file, schedule_paths
from emunode.topologies.registry import parse_topology
from tests.helpers.support import GOLDEN, golden_rows

FOLDER = GOLDEN / "schedules" / "chakra"


@pytest.mark.parametrize("row", golden_rows("schedules/chakra", "expected-chakra"), ids=lambda row: row["file"])
def test_golden_verdicts(row: dict[str, str]) -> None:
    path = FOLDER / f"{row['file']}.0.et"
    found, one = judge_file(path).judgement, judge_file(path, None, 1).judgement
    assert (found.verdict, found.reason or "contents judged") == (row["verdict"], row["reason"])
    if row["steps_unlimited"]:
        numbers = map(str, (found.steps, one.steps, found.chunks, found.links))
        assert list(numbers) == [row[name] for name in ("steps_unlimited", "steps_capacity_1", "messages", "pairs")]
    ranks = int(row["ranks"] or 0)
    for network in (f"ring:{ranks}", f"hypercube:{ranks.bit_length() - 1}") if ranks > 2 else ():
        expected = row[f"verdict_on_{network.partition(':')[0]}"]
        assert judge_file(path, parse_topology(network)).judgement.verdict == expected


def copied(name: str, folder: Path, ranks: int = 4) -> Path:
    """Copy a set of files, and return the second one."""
    for rank in range(ranks):
        copy(FOLDER / f"{name}.{rank}.et", folder / f"a.{rank}.et")
    return folder / "a.1.et"


def test_every_cut_is_refused(tmp_path: Path) -> None:
    path = copied("broadcast-binomial-8", tmp_path, 8)
    assert judge_file(path).judgement.verdict is FileVerdict.HOLDS
    for end in reversed(range(path.stat().st_size)):
        os.truncate(path, end)  # quicker than writing the file again
        assert judge_file(path).judgement.verdict is FileVerdict.REFUSED


def test_damaged_bytes_end_in_one_line(tmp_path: Path) -> None:
    path = copied("allreduce-ring-4", tmp_path)
    data = path.read_bytes()
    for seed in range(150):
        draw = random.Random(seed)
        damaged = bytearray(data)
        for _ in range(draw.randrange(1, 4)):
            damaged[draw.randrange(len(damaged))] = draw.randrange(256)
        path.write_bytes(damaged)
        assert judge_file(path).judgement.verdict in FileVerdict


def test_compressed_files_are_read_with_a_bound(tmp_path: Path) -> None:
    path = copied("allreduce-ring-4", tmp_path)
    path.write_bytes(gzip.compress(path.read_bytes()))
    assert judge_file(path).judgement.verdict is FileVerdict.HOLDS
    path.write_bytes(gzip.compress(bytes(100 << 20), 1))
    assert "bytes unpacked" in judge_file(path).judgement.reason


def varint(number: int) -> bytes:
    """Return a number in the encoding of lengths."""
    found = bytearray()
    while number > 127:
        found.append(number & 127 | 128)
        number >>= 7
    return bytes([*found, number])


def part(key: int, data: bytes) -> bytes:
    """Return a field with a part."""
    return varint(key << 3 | 2) + varint(len(data)) + data


def message(data: bytes) -> bytes:
    """Return a message behind its length."""
    return varint(len(data)) + data


BUDGET = chakra_traces._Budget
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "length": (lambda: varint(2**31), "2147483648 bytes are announced, 0 are left"),
    "long-length": (lambda: b"\xff" * 11, "a number has more than 5 bytes"),
    "nodes": (
        lambda: message(b"") + b"".join(message(b"\x08" + varint(n)) for n in range(501)), "more than 500,000 nodes"
    ),
    "dependencies": (lambda: message(b"") + message(part(5, b"\x01" * 2_001)), "more than 2,000,000 dependencies"),
    "attributes": (
        lambda: message(b"") + message(b"".join(part(10, part(1, b"%d" % n)) for n in range(257))),
        "more than 256 attributes",
    ),
    "metadata": (lambda: message(b"".join(part(2, part(1, b"%d" % n)) for n in range(257))), "more than 256 attributes"),
    "long-number": (lambda: message(b"") + message(b"\x08" + b"\xff" * 11), "a number has more than 10 bytes"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_bytes_are_refused(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With budgets of a thousandth; another test has the budgets of a set."""
    monkeypatch.setattr(chakra_traces, "_Budget", lambda: BUDGET(500, 2_000))
    path = copied("allreduce-ring-4", tmp_path)
    content, reason = HOSTILE[name]
    path.write_bytes(content())
    found = judge_file(path).judgement
    assert found.verdict is FileVerdict.REFUSED
    assert reason in found.reason


def test_a_set_has_half_a_million_nodes_at_most(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One budget for all files of a set."""
    assert BUDGET() == BUDGET(500_000, 2_000_000)
    path = copied("allreduce-ring-4", tmp_path)
    nodes = sum(len(trace.nodes) for trace in chakra_traces.read_traces(path))
    for missing, verdict in ((0, FileVerdict.HOLDS), (1, FileVerdict.REFUSED)):
        monkeypatch.setattr(chakra_traces, "_Budget", lambda left=nodes - missing: BUDGET(left))
        assert judge_file(path).judgement.verdict is verdict


def test_a_set_has_one_line(tmp_path: Path) -> None:
    copied("allreduce-ring-4", tmp_path)
    assert [path.name for path in schedule_paths([tmp_path])] == ["a.0.et"]


def test_wire_format() -> None:
    assert list(fields(b"\x08\x96\x01\x12\x02hi")) == [(1, 0, 150), (2, 2, b"hi")]
    assert list(whole_numbers(2, b"\x03\x8e\x02")) == [3, 270]
    assert (signed(2**64 - 1), unzigzag(3), unzigzag(4)) == (-1, -2, 2)
    for data in (b"\x07\x00", b"\x0b", b"\x08", b"\x12\x05ab", b"\x08" + b"\xff" * 11):
        with pytest.raises(WireError):
            list(fields(data))


def with_attribute(first: Path, attribute: bytes) -> None:
    """Add an attribute to the metadata of a file, in place of an earlier one of its name."""
    data = first.read_bytes()
    size, place = read_varint(data, 0)
    first.write_bytes(message(data[place : place + size] + part(2, attribute)) + data[place + size :])


def test_a_root_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = copied("allreduce-ring-4", tmp_path).with_name("a.0.et")
    with_attribute(path, part(1, b"root") + part(29, b"first"))
    found = judge_file(path).judgement
    assert (found.verdict, found.reason) == (FileVerdict.REFUSED, "root is 'first', no whole number")


@pytest.mark.parametrize(
    ("name", "verdict", "reason"),
    [
        ("allreduce-ring-4", FileVerdict.HOLDS, "contents not judged: the file does not carry them"),
        (
            "wrong-missing-reduction",
            FileVerdict.VIOLATED,
            "input_file: 4 of 16 chunks are wrong; gpu 0, o[3]: expected ",
        ),
        ("allgather-ring-4", FileVerdict.VIOLATED, "the nodes are not those of input_file"),
        ("refused-type", FileVerdict.REFUSED, "is not known"),
    ],
)
def test_an_embedded_program_is_judged_too(name: str, verdict: FileVerdict, reason: str, tmp_path: Path) -> None:
    first = copied("allreduce-ring-4-plain", tmp_path).with_name("a.0.et")
    text = (GOLDEN / "schedules" / f"{name}.xml").read_bytes()
    # A further attribute of the metadata, as the public converter writes it.
    with_attribute(first, part(1, b"input_file") + part(29, text))
    found = judge_file(first).judgement
    assert (found.verdict, reason in found.reason) == (verdict, True), found.reason
