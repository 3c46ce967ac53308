"""`coordinator judge traffic`, and traffic of programs."""

import json
from pathlib import Path

import pytest

from tests.annexes.mpi.support import needs_library, played_library
from tests.helpers.command_line import Call

RING = "source,target,messages,bytes\n" + "".join(f"{rank},{(rank + 1) % 5},8,1600\n" for rank in range(5))


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "dump.csv"
    path.write_text(RING)
    return path


def test_a_table_is_summed_up_and_nothing_is_judged(call: Call, table: Path) -> None:
    ended = call(f"judge traffic {table} --topology ring:5")
    assert ended.status == 0
    lines = [" ".join(line.split()) for line in ended.out.splitlines()]
    assert "all 5 40 8,000 0 to 1: 1,600 bytes" in lines
    assert "on ring:5, by one shortest path for each pair" in lines
    assert "all 1,600 8 40 8" in lines
    assert lines[-1] == "nothing was judged: --collective and --algorithm name a rule"


@pytest.mark.parametrize(("size", "status"), [(1000, 0), (1004, 1)])
def test_a_table_is_compared_with_a_rule(call: Call, table: Path, size: int, status: int) -> None:
    ended = call(f"judge traffic {table} --collective allreduce --algorithm ring --bytes {size} --json")
    assert ended.status == status
    assert ended.data["judged"]["verdict"] == ("violated" if status else "holds")


def test_a_judged_table_becomes_a_history(call: Call, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "history"
    assert call(f"judge traffic {table} --collective allreduce --algorithm ring --out {out}").status == 0
    assert json.loads((out / "summary.json").read_text())["verdict"] == "holds"
    assert len((out / "traffic.csv").read_text().splitlines()) == 6
    assert call(f"verify {out}").status == 0


def test_rows_of_other_collectives_are_never_judged_together(call: Call, tmp_path: Path) -> None:
    rows = [f"{line},{'Broadcast' if line.startswith('3') else 'AllReduce'}" for line in RING.splitlines()[1:]]
    (tmp_path / "dump.csv").write_text("\n".join(["source,target,messages,bytes,collective", *rows]))
    ended = call(f"judge traffic {tmp_path}/dump.csv --collective allreduce --algorithm ring")
    assert (ended.status, ended.out) == (2, "")
    assert "the file has several others: AllReduce, Broadcast" in ended.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--algorithm ring", "a rule needs both --collective and --algorithm"),
        ("--collective allreduce", "a rule needs both --collective and --algorithm"),
        ("--collective allreduce --algorithm other", "invalid algorithm 'other': one of basic_linear"),
        ("--collective scan --algorithm linear", "scan has no rules"),
        ("--collective all --algorithm ring", "invalid collective 'all': one collective"),
        ("--collective allgather,bcast --algorithm ring", "invalid collective 'allgather,bcast': one collective"),
        ("--ranks 3", "invalid ranks 3: above 4, the highest rank of dump.csv"),
        ("--topology ring:4", "a network with a node for each of 5 ranks"),
        ("--topology ring:5 --placement x", "invalid placement 'x'"),
    ],
)
def test_impossible_flags_are_refused_by_name(call: Call, table: Path, flags: str, message: str) -> None:
    ended = call(f"judge traffic {table} {flags}")
    assert (ended.status, ended.out) == (2, "")
    assert message in ended.err


def test_judged_calls_are_placed_on_a_network(call: Call, tmp_path: Path) -> None:
    library = played_library(tmp_path)
    command = (
        f"judge mpi --algorithm ring --ranks 5 --open-ports --mpirun {library} --topology ring:8 --out {tmp_path}/out"
    )
    ended = call(f"{command} --json")
    (placed,) = ended.data["placed"]
    assert (placed["algorithm"], placed["steps_at_least"], placed["busiest_link_bytes"]) == ("ring", 8, 1600)
    assert placed["collective"] == "allreduce"
    assert ended.data["runs"] == [f"{tmp_path}/out"]


PROGRAM = """
from mpi4py import MPI
from array import array
world = MPI.COMM_WORLD
right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
world.Sendrecv(array("i", range(3)), right, 1, array("i", range(3)), left, 1)
world.Barrier()
print("the program ran")
"""


@needs_library
def test_the_traffic_of_a_program_is_counted(call: Call, tmp_path: Path) -> None:
    program, out = tmp_path / "program.py", tmp_path / "out"
    program.write_text(PROGRAM)
    ended = call("judge", "mpi", "--ranks", "3", "--program", f"python {program}", "--out", str(out))
    assert ended.status == 0
    assert "point-to-point  3      3         36" in ended.out
    rows = (out / "traffic.csv").read_text().splitlines()
    assert rows[:2] == ["source,target,messages,bytes,collective", "0,1,1,12,point-to-point"]
    assert any(row.endswith(",collectives") for row in rows)
    assert call(f"verify {out}").status == 0


@needs_library
@pytest.mark.parametrize(
    ("program", "reason"),
    [
        ("true", "the program used no MPI, or another library"),
        ("/no/such/program", "mpirun ended with status 125"),
        ("sleep 3600", "the program did not end within 1 s"),
    ],
)
def test_a_program_without_traffic_is_undecided(call: Call, program: str, reason: str) -> None:
    ended = call(
        "judge", "mpi", "--ranks", "2", "--time-limit", "1s" if "sleep" in program else "60s", "--program", program
    )
    assert ended.status == 3
    assert reason in ended.out
