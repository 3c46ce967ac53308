"""MPICH, experimental: its command, its counting library, and verdicts without rules."""

import os
import shutil
from pathlib import Path

import pytest

from coordinator.annexes.mpi.installed import find_library
from coordinator.annexes.mpi.judge import JudgeSettings, judge
from coordinator.annexes.mpi.library import MpiLibrary
from coordinator.annexes.mpi.mpich import Mpich
from coordinator.annexes.mpi.verdicts import OWN_CHOICE
from coordinator.results.claims import Verdict
from emunode.errors import RunError
from tests.annexes.mpi.support import played_library

MPICH = os.environ.get("TESTBENCH_MPICH", "")
"""The mpiexec of an installed MPICH, for tests if it is named."""


def test_a_folder_with_mpichversion_is_an_mpich(tmp_path: Path) -> None:
    mpirun = played_library(tmp_path)
    assert type(find_library(mpirun)) is MpiLibrary
    (tmp_path / "mpichversion").touch()
    assert type(find_library(mpirun)) is Mpich


def test_its_algorithm_is_chosen_when_it_starts(tmp_path: Path) -> None:
    library = Mpich(Path("/opt/mpiexec"), Path("python"))
    command = " ".join(library.command(3, tmp_path, ["program"], library.choice("reduce_scatter", "pairwise")))
    assert command.startswith(f"/opt/mpiexec -n 3 -genv LD_PRELOAD {tmp_path}/spy.so -genv MPIR_CVAR_NOLOCAL 1")
    assert command.endswith("-genv MPIR_CVAR_REDUCE_SCATTER_INTRA_ALGORITHM pairwise program")
    assert library.choice("bcast", None) == {}


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_the_counting_library_compiles(tmp_path: Path) -> None:
    Mpich(Path("/opt/mpiexec"), Path("python")).prepare(tmp_path)
    assert b"spy_read" in (tmp_path / "spy.so").read_bytes()


def test_without_a_compiler_the_message_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RunError, match="needs gcc"):
        Mpich(Path("/opt/mpiexec"), Path("python")).prepare(tmp_path)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
@pytest.mark.parametrize(("flaw", "verdict"), [("", Verdict.UNDECIDED), ("wrong sum", Verdict.VIOLATED)])
def test_only_results_are_judged_without_rules(tmp_path: Path, flaw: str, verdict: Verdict) -> None:
    mpirun = played_library(tmp_path, flaw)
    (tmp_path / "mpichversion").touch()
    found = judge(JudgeSettings(["allreduce"], ["ring", OWN_CHOICE], [4], mpirun=mpirun, open_ports=True))
    assert [each.verdict for each in found.verdicts] == [verdict, verdict]
    if not flaw:
        assert found.verdicts[0].reason.endswith("right results, and the messages of ring of Open MPI 5")
        empty = judge(JudgeSettings(["allreduce"], [OWN_CHOICE], [4], [0], mpirun=mpirun, open_ports=True))
        assert empty.verdicts[0].reason.endswith("right results, and no message in an empty call")


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc")
def test_all_algorithms_are_those_of_the_library_itself(tmp_path: Path) -> None:
    mpirun = played_library(tmp_path, "new")
    (tmp_path / "mpichversion").touch()
    found = judge(JudgeSettings(["allreduce"], [], [4], mpirun=mpirun, open_ports=True))
    assert [each.algorithm for each in found.verdicts][-2:] == ["allgather_reduce", OWN_CHOICE]
    assert found.unknown == {}


@pytest.mark.skipif(not MPICH, reason="TESTBENCH_MPICH names no mpiexec")
def test_mpich_describes_its_algorithms() -> None:
    found = judge(JudgeSettings(["allreduce"], [], [3], mpirun=Path(MPICH), open_ports=True))
    assert {"recursive_doubling", "ring", "tree", OWN_CHOICE} <= {each.algorithm for each in found.verdicts}
    assert all(each.reason.startswith("experimental: no rules for this library; right") for each in found.verdicts)


@pytest.mark.skipif(not MPICH, reason="TESTBENCH_MPICH names no mpiexec")
def test_the_ring_of_mpich_sends_what_that_of_open_mpi_sends() -> None:
    found = judge(JudgeSettings(["allreduce"], ["ring"], [5], mpirun=Path(MPICH), open_ports=True))
    assert found.verdicts[0].reason.endswith("the messages of ring of Open MPI 5")
