"""Formats of schedule files: golden verdicts of all formats without buffers, and files that are refused."""

import json
import os
import random
import time
from pathlib import Path

import pytest

from coordinator.annexes.schedules import xml_elements
from coordinator.annexes.schedules.base import MOST_BYTES, FileVerdict, RefusedScheduleError
from coordinator.annexes.schedules.folder import judge_file
from coordinator.annexes.schedules.formats import goal
from coordinator.annexes.schedules.formats.forestcoll import split_path
from coordinator.annexes.schedules.registry import read_schedule, schedule_formats
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.topologies.table import TableTopology
from tests.annexes.schedules.support import FOLDER, refused_texts
from tests.helpers.support import golden_rows

SWITCHED = TableTopology("switched", ["0", "1", "2", "3", "sw"], [(rank, 4) for rank in range(4)], switches=[4])


def network(row: dict[str, str]) -> Topology | None:
    """Return the network of a row; None for a file of two ranks."""
    if row["file"] == "goal-wrong-cycle.goal":
        return None
    name = row["network"].partition(",")[0]
    if name.startswith("star of"):
        return SWITCHED
    return parse_topology("complete:3" if name == "complete" else name)


@pytest.mark.parametrize("row", golden_rows("schedules", "expected-others"), ids=lambda row: row["file"])
def test_golden_verdicts(row: dict[str, str]) -> None:
    found = judge_file(FOLDER / row["file"], network(row), None if row["file"].startswith("goal") else 1).judgement
    assert (found.verdict, found.reason) == (row["verdict"], row["reason"])
    for number, column in ((found.steps, "steps"), (found.largest_link_load, "largest_link_load")):
        assert row[column] in ("", str(number))


TECCL = (FOLDER / "teccl-allgather-ring-4.json").read_text()
GOAL = (FOLDER / "goal-broadcast-4.goal").read_text()
REFUSED = {
    **refused_texts("others"),
    "deep.json": ('{"7-Flows": ' + "[" * 5000 + "]" * 5000 + "}", "it has more than 32 levels"),
    "absent.goal": (GOAL[: GOAL.index("rank 3")], "rank 3 is missing: num_ranks is 4, 3 ranks exist"),
    "lines.goal": ("num_ranks 2" + "\n" * 4_000_001, "it has 4,000,001 lines; at most 4,000,000 are read"),
    "operations.goal": (
        "num_ranks 2\nrank 0 {\n" + "calc 1\n" * 501 + "}\nrank 1 {\n}\n",
        "it has more than 500 operations",
    ),
    "values.json": ('{"7-Flows": [' + "[]," * 2_000_000 + "1]}", "it has more than 2,000,000 values"),
    "many.json": ('{"7-Flows": [' + "1," * 500_000 + "1]}", "it has 500,001 flows; at most 500,000 are read"),
    "elements.xml": ("<Algo>" + "<tree/>" * 1000 + "</Algo>", "it has more than 1,000 elements"),
    "open.goal": (GOAL.rstrip()[:-1], "the file ends inside rank 3"),
}


WHOLE = (
    "allgather-ring-4-new-spelling.xml", "teccl-allgather-ring-4.json", "forest-allgather-ring-4.xml",
    "goal-broadcast-4.goal",
)  # fmt: skip
"""A small file of each format in one file."""


LOWERED = {
    "operations.goal": (goal, "MOST_OPERATIONS", 500_000),
    "elements.xml": (xml_elements, "XML_ELEMENTS", 1_000_000),
}
"""Bounds that are lowered to a thousandth: half a million operations take seconds."""


@pytest.mark.parametrize("name", REFUSED)
def test_refused_files(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if name in LOWERED:
        module, constant, bound = LOWERED[name]
        assert getattr(module, constant) == bound
        monkeypatch.setattr(module, constant, bound // 1000)
    text, reason = REFUSED[name]
    (tmp_path / name).write_bytes(text.encode("latin-1"))
    found = judge_file(tmp_path / name).judgement
    assert found.verdict is FileVerdict.REFUSED
    assert reason in found.reason


@pytest.mark.parametrize("name", WHOLE)
def test_every_cut_of_a_file_is_refused(name: str, tmp_path: Path) -> None:
    data = (FOLDER / name).read_bytes().strip()
    path = tmp_path / name
    path.write_bytes(data)
    assert judge_file(path).judgement.verdict is FileVerdict.HOLDS
    for end in reversed(range(len(data))):
        os.truncate(path, end)  # quicker than writing the file again
        assert judge_file(path).judgement.verdict is FileVerdict.REFUSED, end


@pytest.mark.parametrize(
    ("text", "suffix"),
    [
        ("<!---->" * 9000 + "<x/>", "xml"),
        ("<!--" * 9000, "xml"),
        ('<algo name="' + "a" * 20_000_000 + '"/>', "xml"),
        ("/*/" * 20_000, "goal"),
        ("num_ranks 2\n" + "/*" * 500_000, "goal"),
        ("num_ranks 2\n" + "//\n" * 500_000, "goal"),
        ("num_ranks 2\nrank 0 {\n" + "a" * 1_000_000, "goal"),
    ],
)
def test_comments_and_long_names_take_time_in_proportion(text: str, suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"hostile.{suffix}"
    path.write_text(text)
    began = time.process_time()
    assert judge_file(path).judgement.verdict is FileVerdict.REFUSED
    assert time.process_time() - began < 10


def test_files_beyond_the_bound_on_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "large.xml"
    with path.open("wb") as file:
        # A file with a hole takes no space.
        file.truncate(MOST_BYTES + 1)
    assert judge_file(path).judgement.reason == f"it has more than {MOST_BYTES} bytes"


def test_damaged_files_end_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "damaged"
    for name in (
        "teccl-allgather-ring-4.json",
        "forest-allgather-ring-4.xml",
        "goal-any-source.goal",
        "allreduce-ring-4.xml",
    ):
        data = (FOLDER / name).read_bytes()
        for seed in range(60):
            draw = random.Random(seed)
            damaged = bytearray(data)
            for _ in range(draw.randrange(1, 4)):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            path.write_bytes(damaged[: draw.choice([len(damaged), draw.randrange(len(damaged))])])
            assert judge_file(path).judgement.verdict in FileVerdict


def test_many_receipts_that_wait_take_no_quadratic_time(tmp_path: Path) -> None:
    count = 20_000
    receipts = "\n".join(f"recv 1b from 0 tag {tag}" for tag in range(count))
    sends = "\n".join(f"send 1b to 1 tag {tag}" for tag in reversed(range(count)))
    (tmp_path / "a.goal").write_text(f"num_ranks 2\nrank 0 {{\n{sends}\n}}\nrank 1 {{\n{receipts}\n}}\n")
    began = time.process_time()
    assert judge_file(tmp_path / "a.goal").judgement.verdict is FileVerdict.HOLDS
    assert time.process_time() - began < 10


def test_a_switch_copies_a_chunk_that_came_once(tmp_path: Path) -> None:
    """One chunk to the switch and two from it: no link carries two. Another chunk on the same way is a second one."""
    flows = [f"Chunk 0 from 0 traveled over 0->{target} in epoch 0 via switches 3" for target in (1, 2)]
    path = tmp_path / "switched.json"
    path.write_text(json.dumps({"7-Flows": flows, "8-Chunk paths": {}}))
    found = judge_file(path, None, 1).judgement
    assert (found.verdict, found.links, found.largest_link_load) == (FileVerdict.HOLDS, 3, 1)
    more = [flows[0], flows[1], *(each.replace("Chunk 0", "Chunk 1") for each in flows)]
    path.write_text(json.dumps({"7-Flows": more, "8-Chunk paths": {}}))
    found = judge_file(path, None, 1).judgement
    assert (found.verdict, found.reason) == (
        FileVerdict.VIOLATED, "epoch 0: 2 chunks on the link 0 to 3, which carries 1",
    )  # fmt: skip


def test_demands_that_are_met_later_than_the_file_says_are_wrong(tmp_path: Path) -> None:
    document = json.loads(TECCL)
    paths = "8-Chunk paths"
    document[paths] = {
        f"Demand at {there} for chunk 0 from 0 met by epoch {epoch}": [] for there, epoch in ((1, 0), (2, 1))
    }
    path = tmp_path / "demands.json"
    path.write_text(json.dumps(document))
    assert judge_file(path).judgement.verdict is FileVerdict.HOLDS
    document[paths] = {f"Demand at {there} for chunk 0 from 0 met by epoch 0": [] for there in (1, 2)}
    path.write_text(json.dumps(document))
    assert judge_file(path).judgement.reason == (
        "chunk 0 of 0 meets the demand of 2 in epoch 1, and epoch 0 is claimed"
    )


def test_a_demand_that_is_never_met_is_not_counted_as_met(tmp_path: Path) -> None:
    document = json.loads(TECCL)
    demands = [(1, 0, 0, 0), (2, 7, 0, 9), (0, 0, 0, 0)]
    document["8-Chunk paths"] = {
        f"Demand at {there} for chunk {chunk} from {origin} met by epoch {epoch}": []
        for there, chunk, origin, epoch in demands
    }
    path = tmp_path / "demands.json"
    path.write_text(json.dumps(document))
    found = judge_file(path).judgement
    assert found.reason == "2 never gets chunk 7 of 0 (1 of 3 are missing)"
    # The own chunk is there from the start.
    [claim] = [claim for claim in found.claims if claim.name.startswith("demands")]
    assert (claim.stated, claim.measured, claim.holds) == (3, 2, False)


def test_many_nodes_that_miss_many_chunks_are_counted(tmp_path: Path) -> None:
    count = 30_000
    flows = [f"Chunk 0 from {node} traveled over {node}->{(node + 1) % count} in epoch 0" for node in range(count)]
    (tmp_path / "wide.json").write_text(json.dumps({"1-Flows": flows}))
    found = judge_file(tmp_path / "wide.json").judgement
    # Each chunk comes to one node of all but its own.
    wanted = count * (count - 1)
    assert found.reason == f"2 never gets chunk 0 of 0 ({wanted - count} of {wanted} are missing)"


def test_names_with_commas_in_parentheses() -> None:
    assert list(split_path("(0, 'GPU', 1),sw,(1, 'GPU', 0)")) == ["(0, 'GPU', 1)", "sw", "(1, 'GPU', 0)"]


def test_link_to_a_device_is_refused() -> None:
    with pytest.raises(RefusedScheduleError, match="not a regular file"):
        read_schedule(Path("/dev/zero"))


def test_every_module_of_formats_has_one() -> None:
    assert list(schedule_formats()) == ["chakra", "forestcoll", "goal", "msccl", "mscclpp", "te-ccl"]
