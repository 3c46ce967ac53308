"""MPI libraries as systems install them: their kinds, the file that mpi4py loads, and the probe of their own sums."""

import shutil
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from coordinator.annexes.mpi.installed import find_library
from coordinator.annexes.mpi.judge import JudgeSettings, judge
from coordinator.annexes.mpi.library import MpiLibrary, OpenMpi4
from coordinator.annexes.mpi.mpich import Mpich
from coordinator.annexes.mpi.records import MalformedReport, read_job_report
from coordinator.results.claims import Verdict
from tests.annexes.mpi.support import played_library
from tests.annexes.numbers.support import TREES

OPEN_MPI, MPICH = (shutil.which(f"mpirun.{name}") for name in ("openmpi", "mpich"))
PROBED = [
    # The superfluous rank of five takes another way in recursive doubling only.
    (OPEN_MPI, "allreduce", "recursive_doubling", "recursive-doubling", (4, 5)),
    (OPEN_MPI, "allreduce", "ring", "ring", (4,)),
    (OPEN_MPI, "reduce", "binomial", "binomial", (4,)),
    (MPICH, "allreduce", "recursive_doubling", "recursive-doubling", (5,)),
    (MPICH, "reduce", "binomial", "binomial", (4,)),
]
"""Program, collective, algorithm, the name of its closed form, and numbers of ranks."""


@pytest.mark.parametrize(("mpirun", "collective", "algorithm", "form", "numbers"), PROBED)
def test_the_sums_of_a_library_have_the_known_trees(
    mpirun: str | None, collective: str, algorithm: str, form: str, numbers: Sequence[int]
) -> None:
    if mpirun is None or find_spec("mpi4py") is None:
        pytest.skip("this MPI library is not installed")
    for ranks in numbers:
        settings = JudgeSettings([collective], [algorithm], [ranks], mpirun=Path(mpirun), order=True, open_ports=True)
        found = judge(settings)
        (order,) = found.orders
        assert order.same_bits is Verdict.HOLDS, order
        assert "probe" not in order.reasons
        assert set(order.trees) == {TREES[form](ranks, chunk).canonical for chunk in range(ranks)}
        (call,) = found.verdicts
        assert (call.verdict, call.wrong_result) == (Verdict.UNDECIDED, "")


def linked(folder: Path, program: str) -> Path:
    """Return an mpirun that leads to a program of this name."""
    (folder / program).touch()
    (folder / program).chmod(0o755)
    (path := folder / "mpirun").unlink(missing_ok=True)
    path.symlink_to(program)
    return path


def test_the_program_behind_mpirun_tells_the_kind(tmp_path: Path) -> None:
    # Both libraries may be in one folder.
    (tmp_path / "mpichversion").touch()
    for program, kind in (("orterun", OpenMpi4), ("prterun", MpiLibrary), ("mpiexec.hydra", Mpich), ("other", Mpich)):
        assert type(find_library(linked(tmp_path, program))) is kind


def test_a_library_of_another_name_is_linked_for_mpi4py(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib" / "x86_64").mkdir(parents=True)
    (tmp_path / "start").mkdir()
    file = tmp_path / "lib" / "x86_64" / "libmpich.so.12"
    file.touch()
    library = Mpich(tmp_path / "bin" / "mpirun", Path(sys.executable))
    assert library.file == file
    MpiLibrary.prepare(library, tmp_path / "start")
    assert (tmp_path / "start" / "libmpi.so.12").resolve() == file
    environment = library.environment(tmp_path / "start")
    assert environment["MPI4PY_LIBMPI"] == str(file)
    assert environment["LD_LIBRARY_PATH"].split(":")[0] == str(tmp_path / "start")
    # The wheel beside this Python is found by mpi4py itself.
    assert MpiLibrary(Path(sys.executable).parent / "mpirun", Path(sys.executable)).file is None


def test_results_are_judged_where_nothing_is_counted(tmp_path: Path) -> None:
    for flaw, verdict in (("uncounted", Verdict.UNDECIDED), ("uncounted wrong sum", Verdict.VIOLATED)):
        mpirun = played_library(tmp_path, flaw)
        found = judge(JudgeSettings(["allreduce"], ["ring"], [4], mpirun=mpirun, open_ports=True))
        (call,) = found.verdicts
        assert (call.verdict, call.messages) == (verdict, None)
        if verdict is Verdict.UNDECIDED:
            assert call.reason == "right results; this library counts no messages"


HEADING = '{"nonce":"n","rank":0,"ranks":1,"library":"x","names":{},"dynamic":1,"counted":%s}'
UNCOUNTED = {
    "no truth value": (HEADING % "3", '{"calibration":[]}'),
    "calibration": (HEADING % "false", '{"calibration":[[2],[12]]}'),
    "counts": (HEADING % "false", '{"calibration":[]}', '{"call":0}', '{"call":0,"messages":[0],"bytes":null}'),
}


@pytest.mark.parametrize("case", UNCOUNTED)
def test_counts_of_a_library_without_counters_are_malformed(case: str, tmp_path: Path) -> None:
    (tmp_path / "rank-0.jsonl").write_text("\n".join(UNCOUNTED[case]) + "\n")
    with pytest.raises(MalformedReport, match="count"):
        read_job_report(tmp_path, 1, "n")
