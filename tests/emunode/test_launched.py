"""Places of processes by the environments of real launchers, and join files."""

import os
import stat
import sys
from pathlib import Path

import pytest

from emunode.errors import RunError
from emunode.launched import (
    MOST_JOIN_BYTES,
    JoinFile,
    LauncherPlace,
    endpoint_of,
    join_file_of,
    launcher_place,
    read_join_text,
)
from tests.helpers.command_line import run_process

OPEN_MPI = {"OMPI_COMM_WORLD_RANK": "2", "OMPI_COMM_WORLD_SIZE": "4", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "3", "PMI_FD": "8", "MPI_LOCALRANKID": "1"}
SLURM = {
    "SLURM_PROCID": "3", "SLURM_STEP_NUM_TASKS": "5", "SLURM_JOB_ID": "17", "SLURM_STEP_ID": "0", "SLURM_LOCALID": "1",
    "SLURMD_NODENAME": "n2",
}  # fmt: skip


@pytest.mark.parametrize(
    ("variables", "place"),
    [
        (OPEN_MPI, LauncherPlace("Open MPI", 2, 4, "", "")),
        (MPICH, LauncherPlace("MPICH", 1, 3, "", "")),
        (SLURM, LauncherPlace("Slurm", 3, 5, "n2", "17")),
        # mpirun inside an allocation: its processes have the variables of both.
        (SLURM | OPEN_MPI, LauncherPlace("Open MPI", 2, 4, "", "")),
        ({}, None),
        (OPEN_MPI | {"EMUNODE_LAUNCHER": "none"}, None),
    ],
)
def test_the_place_is_read_from_the_environment(variables: dict[str, str], place: LauncherPlace | None) -> None:
    assert launcher_place(variables) == place


@pytest.mark.parametrize("variables", [OPEN_MPI, MPICH, SLURM])
def test_a_launcher_counts_only_with_all_variables(variables: dict[str, str]) -> None:
    for missing in variables.keys() - {"PMI_FD"}:
        assert launcher_place({name: value for name, value in variables.items() if name != missing}) is None


@pytest.mark.parametrize(("rank", "size"), [("4", "4"), ("-1", "4"), ("x", "4"), ("0", "x"), ("²", "4")])
def test_a_place_that_is_none_is_an_error(rank: str, size: str) -> None:
    with pytest.raises(RunError, match="is no place among"):
        launcher_place(OPEN_MPI | {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": size})


def test_a_join_file_is_for_its_owner_only(tmp_path: Path) -> None:
    file = JoinFile(tmp_path / "joins" / "x.json")
    with pytest.raises(FileNotFoundError):
        file.read()
    file.write("192.0.2.1:7000", b"secret")
    assert file.read() == ("192.0.2.1:7000", b"secret")
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert [each.name for each in file.path.parent.iterdir()] == ["x.json"]
    link = JoinFile(tmp_path / "link")
    link.path.symlink_to(file.path)
    with pytest.raises(OSError, match="symbolic links"):
        link.read()
    pipe = JoinFile(tmp_path / "pipe")
    os.mkfifo(pipe.path)
    with pytest.raises(OSError, match="regular file"):
        pipe.read()
    file.remove()
    file.remove()
    assert not file.path.exists()


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"coordinator": 1, "token": ""}', b"[" * 5000, b" " * MOST_JOIN_BYTES + b"{}"]
)
def test_a_malformed_join_file_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="no join file"):
        read_join_text(content)


@pytest.mark.parametrize("text", ["", "host", "host:", ":7", "host:0", "host:65536", "host:x", "host:²"])
def test_an_endpoint_has_a_host_and_a_port(text: str) -> None:
    with pytest.raises(ValueError, match="expected HOST:PORT"):
        endpoint_of(text)


def test_the_join_file_of_a_job_stays_in_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert join_file_of({}, "17") == JoinFile(Path("/state/collective-testbench/joins/17.json"))
    assert join_file_of({}, "../../17") == JoinFile(Path("/state/collective-testbench/joins/17.json"))
    assert join_file_of({"EMUNODE_JOIN_FILE": "/x"}, "17") == JoinFile(Path("/x"))
    assert join_file_of({}, "") is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("", "say which run to join"),
        ("--coordinator 127.0.0.1:7000 --join-file x", "leave out --coordinator"),
        ("--coordinator 127.0.0.1", "expected HOST:PORT"),
    ],
)
def test_a_host_that_knows_no_run_says_so(flags: str, words: str, tmp_path: Path) -> None:
    ended = run_process(tmp_path, [sys.executable, "-m", "emunode", *flags.split()])
    assert ended.status == 2
    assert words in ended.err


def test_a_host_waits_for_its_join_file(tmp_path: Path) -> None:
    program = [sys.executable, "-m", "emunode", "--join-file", tmp_path / "none", "--join-seconds", "0.3"]
    ended = run_process(tmp_path, program)
    assert ended.status == 4
    assert "timed out waiting for the join file" in ended.err
