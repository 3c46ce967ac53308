"""`coordinator check` for schedule files."""

from pathlib import Path
from shutil import copy

import pytest

from emunode.model import Collective
from tests.annexes.schedules.support import FOLDER
from tests.helpers.command_line import Call
from tests.helpers.scenarios import every_algorithm


def test_one_line_for_each_file(call: Call) -> None:
    ended = call("check", FOLDER / "allreduce-ring-4.xml", FOLDER / "wrong-swapped-receive.xml")
    assert ended.status == 1
    first, second, last = ended.out.splitlines()
    assert first.endswith("allreduce-ring-4.xml: holds: msccl allreduce, 4 ranks, 6 steps, 4 links, 24 chunks")
    assert second.endswith("2 of 16 chunks are wrong; gpu 2, o[0]: expected 0.0, found 1.0 (line 21)")
    assert last == "2 schedules: 1 holds, 1 violated"


@pytest.mark.parametrize(
    ("files", "status"),
    [
        (("allgather-ring-4", "wrong-delivered-twice"), 0),
        (("refused-type", "wrong-count"), 1),
        (("refused-type", "allgather-ring-4"), 2),
    ],
)
def test_status_of_a_folder(call: Call, tmp_path: Path, files: tuple[str, ...], status: int) -> None:
    for name in files:
        copy(FOLDER / f"{name}.xml", tmp_path)
    ended = call("check", tmp_path, "--json")
    assert ended.status == ended.data["exit_status"] == status
    assert [Path(each["file"]).stem for each in ended.data["schedules"]] == sorted(files)


def test_network_without_the_links(call: Call) -> None:
    ended = call("check", FOLDER / "allgather-ring-4.xml", "--topology", "hypercube:2")
    assert ended.status == 2
    assert "refused: gpu 1 sends to 2, and no link joins them (6 of 12 sends, 2 links)" in ended.out


def test_losses_of_thread_blocks_that_wait(call: Call) -> None:
    arguments = (FOLDER / "allgather-ring-4.xml", FOLDER / "wrong-deadlock-ring.xml", "--fault", "crash:1@2")
    ended = call("check", *arguments)
    # A file that is wrong without faults has no second line.
    [line] = [line for line in ended.out.splitlines() if line.startswith("  under")]
    lost, waits = "3 of 12 chunks are lost (gpu 2: o[0] o[3], gpu 3: o[0])", "2 thread blocks wait for ever"
    first = "first: gpu 2, tb 0, step 2 waits for a message from 1 on channel 0"
    assert line == f"  under crash:1@2: {lost}; {waits}; {first}"
    one, other = call("check", *arguments, "--json").data["schedules"]
    assert one["stalled"]["lost"] == {"2": ["o[0]", "o[3]"], "3": ["o[0]"]}
    assert "stalled" not in other


def test_files_state_numbers_of_themselves(call: Call) -> None:
    files = (
        "teccl-allgather-ring-4.json",
        "teccl-wrong-epochs.json",
        "forest-wrong-height.xml",
        "allgather-ring-4.xml",
        "forest-allgather-ring-4-two-trees.xml",
    )
    ended = call("check", *(FOLDER / name for name in files), "--claims")
    lines = ended.out.splitlines()
    for line in (
        "  states epochs: 2, measured 2: holds", "  states epochs: 1, measured 2: differs",
        "  states trees of the stated height: 4, measured 3: differs", "  states channels: 1, measured 1: holds",
        "  steps: 3, lower bound 2", "  chunks: 12, lower bound 12",
        "  chunks: 24, lower bound 12; for 2 segments of a message: at least 24",
    ):  # fmt: skip
        assert line in lines


@pytest.mark.parametrize("network", ["ring:4", "complete:4", "hypercube:3"])
@pytest.mark.parametrize("capacity", [(), ("--link-capacity", "1")])
def test_no_bound_exceeds_what_any_algorithm_or_file_reaches(
    network: str, capacity: tuple[str, ...], call: Call
) -> None:
    """Files cut messages into chunks in different ways; what binds as many chunks only is called so."""
    rows = call("check", FOLDER, "--topology", network, "--claims", "--json", *capacity).data["schedules"]
    bounded = [row for row in rows if row.get("bounds")]
    assert bounded
    for row in bounded:
        collective = Collective(row["collective"].replace("reducescatter", "reduce-scatter"))
        reached = [(each["steps"], each["chunks"]) for each in bounded if each["collective"] == row["collective"]]
        runs = [case.summary for case in every_algorithm(f"{network} {collective}")]
        reached += [(run["steps"], run["segments"]) for run in runs]
        steps, chunks = map(min, zip(*reached, strict=True))
        assert row["bounds"]["steps"] <= steps
        assert row["bounds"]["chunks"] <= chunks
        for each, pieces in row.get("bounds_of_pieces", {}).items():
            assert row["bounds"][each] < pieces["least"] <= row[each]
            assert "of a" in pieces["for"] or "packets of" in pieces["for"]


def test_files_are_counted(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A short path, which a table does not wrap.
    monkeypatch.chdir(tmp_path)
    for name in ("allgather-ring-4", "wrong-delivered-twice", "wrong-swapped-receive", "refused-type"):
        copy(FOLDER / f"{name}.xml", tmp_path)
    copy(FOLDER / "goal-broadcast-4.goal", tmp_path)
    ended = call("check", ".", "--brief")
    rows = [line.split()[-7:] for line in ended.out.splitlines() if line.startswith(" . ")]
    assert rows == [
        ["-", "1", "0", "0", "0", "1", "0"],
        ["goal", "1", "1", "0", "0", "0", "0"],
        ["msccl", "3", "1", "1", "1", "0", "0"],
    ]
    assert "1 violated: # of # chunks are wrong; gpu #, o[#]: expected #, found #; first: " in ended.out
    assert ended.out.splitlines()[-1] == "5 schedules: 3 holds, 1 violated, 1 refused"
    assert ended.status == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected one submission, or any number of schedules"),
        (
            ("allgather-ring-4.xml", "--within", "2"),
            "schedules take --topology, --link-capacity, --root, --fault, --brief, --claims and --json only",
        ),
        (("allgather-ring-4.xml", "--link-capacity", "0"), "expected the chunks that a link carries in a step"),
        (("allgather-ring-4.xml", "--brief", "--claims"), "it counts files by verdict and has no room for --claims"),
        (("allgather-ring-4.xml", "--brief", "--fault", "crash:0@1"), "has no room for --fault: leave one out"),
        (("mine.py", "--root", "1"), "only schedules take --link-capacity, --root, --fault, --brief and --claims"),
    ],
)
def test_wrong_flags(call: Call, arguments: tuple[str, ...], message: str) -> None:
    ended = call("check", *(FOLDER / each if each.endswith((".xml", ".py")) else each for each in arguments))
    assert ended.status == 2
    assert message in ended.err
