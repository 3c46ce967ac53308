"""`coordinator judge`: output, exit statuses and refusals, over a played library."""

from pathlib import Path

import pytest

from coordinator.annexes.mpi.commands import _numbers
from tests.annexes.mpi.support import played_library
from tests.helpers.command_line import Call


def test_a_judged_ring_is_one_line_for_each_number_of_ranks(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")  # lines are whole where no terminal sets a width
    library = played_library(tmp_path)
    ended = call(f"judge mpi --algorithm ring --ranks 2,5 --open-ports --mpirun {library}")
    assert ended.status == 0
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert lines[0].startswith("Played MPI 1, ")
    assert "allreduce, 1,000 bytes" in lines
    assert "ring 2 holds 4 2,000 1" in lines
    assert "ring 5 holds 40 8,000" in lines
    assert "1 same messages as rabenseifner: decides nothing between them" in lines
    relation = "allreduce ring against this bench: equal in totals (allreduce ring on complete:P)"
    assert relation in " ".join(lines)
    assert lines[-1] == "verdict: holds (holds 2)"
    assert all(len(line) <= 80 for line in ended.out.splitlines())


def test_settings_that_are_dropped_are_named(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_MCA_coll_tuned_priority", "3")
    line = f"judge mpi --algorithm ring --ranks 5 --open-ports --mpirun {played_library(tmp_path)}"
    assert "settings of the environment do not reach the library: OMPI_MCA_coll_tuned_priority" in call(line).err
    assert call(f"{line} --json").data["dropped_settings"] == ["OMPI_MCA_coll_tuned_priority"]


def test_a_violation_ends_with_status_one(call: Call, tmp_path: Path) -> None:
    library = played_library(tmp_path, "one more")
    ended = call(
        f"judge mpi --collective broadcast --algorithm binomial --ranks 5 --open-ports --mpirun {library} --json"
    )
    assert (ended.status, ended.data["verdict"]) == (1, "violated")
    (judged,) = ended.data["calls"]
    assert judged["reason"] == "rank 2 to 0: 1 message of 0 bytes, by the rule nothing"
    assert judged["pairs"][-1] == [2, 0, 1, 0]


def test_an_invalid_measurement_ends_with_status_three(call: Call, tmp_path: Path) -> None:
    library = played_library(tmp_path, "counts nothing")
    ended = call(f"judge mpi --collective barrier --ranks 2 --open-ports --mpirun {library}")
    assert ended.status == 3
    assert "the library counts no messages: pml_monitoring is off" in ended.out


RULE = """
from coordinator.annexes.mpi.rules.base import MessageList, MpiCall, algorithm


@algorithm("allreduce", 7, "allgather_reduce", "as basic_linear")
def allgather_reduce(call: MpiCall, messages: MessageList) -> None:
    for rank in range(1, call.ranks):
        messages.send(rank, 0, call.elements)
        messages.send(0, rank, call.elements)
"""


def test_a_plug_in_adds_the_rule_of_a_new_algorithm(call: Call, tmp_path: Path) -> None:
    flags = f"--ranks 3 --open-ports --mpirun {played_library(tmp_path, 'new')}"
    assert "no rule, not judged: allreduce allgather_reduce" in call(f"judge mpi --algorithm ring {flags}").out
    (tmp_path / "rule.py").write_text(RULE)
    ended = call(f"judge mpi --plugin {tmp_path}/rule.py --algorithm allgather_reduce {flags}")
    assert (ended.status, "no rule" in ended.out) == (0, False)
    assert "same messages as basic_linear: decides nothing between them" in ended.out


@pytest.mark.parametrize("text", ["2..4,7", "2-4,7", "2,3..4,7-7"])
def test_ranges_of_numbers_have_dots_or_a_dash(text: str) -> None:
    assert _numbers("ranks", text) == [2, 3, 4, 7]
