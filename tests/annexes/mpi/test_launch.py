"""Starts of mpirun: limits, output, and nothing left after an interrupt, a limit or a kill."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from coordinator.annexes.mpi import launch
from coordinator.annexes.mpi.launch import network_of, run_mpi
from coordinator.annexes.mpi.library import MpiLibrary
from coordinator.cli.leftovers import leftovers
from coordinator.history.run_directory import temporary_folder
from emunode.errors import RunError
from tests.annexes.mpi.support import needs_library, played_library, wrong_program
from tests.helpers.command_line import environment, wait_until

LIBRARY = MpiLibrary(Path("/bin/mpirun"), Path(sys.executable))


def shell(folder: Path, text: str, limit: float = 60.0) -> launch.MpiExit:
    """Run a shell command in place of mpirun."""
    return run_mpi(LIBRARY, ["/bin/sh", "-c", text], folder, "shared", limit, lambda: None)


def processes_of(folder: Path) -> list[psutil.Process]:
    """Return the processes whose command line names a folder."""
    return [
        process
        for process in psutil.process_iter(["cmdline"])
        if any(str(folder) in word for word in process.info["cmdline"] or ())
    ]


def test_status_and_reason_of_a_failed_start_are_given(tmp_path: Path) -> None:
    ended = shell(tmp_path, "echo ------; echo no slots; exit 3")
    assert (ended.status, ended.timed_out, ended.reason) == (3, False, "mpirun ended with status 3: no slots")


def test_long_output_is_read_and_its_end_is_kept(tmp_path: Path) -> None:
    ended = shell(tmp_path, "seq 100000; echo the end")
    assert ended.output.endswith("99999\n100000\nthe end\n")
    assert len(ended.output) == launch.TAIL_BYTES


def test_progress_moves_the_limit(tmp_path: Path) -> None:
    values = iter(range(10**9))
    text = "sleep 1; exit 5"
    ended = run_mpi(LIBRARY, ["/bin/sh", "-c", text], tmp_path, "shared", 0.2, lambda: next(values))
    assert (ended.status, ended.timed_out) == (5, False)


def test_a_silent_start_that_ignores_sigterm_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "LEAVE_SECONDS", 0.2)
    ended = shell(tmp_path, f"trap '' TERM; while :; do sleep 0.1; done # {tmp_path}", limit=4)
    assert (ended.status, ended.timed_out) == (-signal.SIGKILL, True)
    wait_until(lambda: not processes_of(tmp_path), "the shell ends")


def test_an_interrupt_leaves_no_process(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_mpi(LIBRARY, ["/bin/sh", "-c", f"sleep 3600 # {tmp_path}"], tmp_path, "shared", 60, interrupt)
    wait_until(lambda: not processes_of(tmp_path), "the shell ends")


def test_without_namespaces_open_ports_must_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "unavailable_reason", lambda: "no network namespace can be made here: EPERM")
    with pytest.raises(RunError, match=r"EPERM; with --open-ports .* mpirun listens on all addresses"):
        network_of(open_ports=False)
    assert network_of(open_ports=True) == "shared"


@pytest.mark.usefixtures("empty_folder")
def test_the_folder_of_a_start_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with temporary_folder() as folder:
        (folder / "file").touch()
        assert leftovers() == []
    assert list(tmp_path.iterdir()) == []


KILLED = """
from pathlib import Path
from coordinator.annexes.mpi.judge import JudgeSettings, judge
judge(JudgeSettings(["allreduce"], ["ring"], [3], mpirun={mpirun}, open_ports=True), program=Path({program!r}))
"""


def killed_judge(folder: Path, mpirun: str, program: Path) -> None:
    """Kill a judge while its ranks wait, and check that its processes end and that its folder is found."""
    temporary = folder / "temporary"
    temporary.mkdir()
    script = KILLED.format(mpirun=mpirun, program=str(program))
    process = subprocess.Popen([sys.executable, "-c", script], env=environment(TMPDIR=temporary), cwd=folder)
    try:
        files = temporary.rglob
        wait_until(lambda: any(path.read_text().count("\n") > 2 for path in files("rank-2.jsonl")), "a call begins")
        assert processes_of(temporary)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not processes_of(temporary), "mpirun and its ranks end")
    assert len(list(temporary.iterdir())) == 1


@pytest.mark.usefixtures("empty_folder")
def test_the_processes_of_a_killed_judge_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mpirun = played_library(tmp_path, "hang")
    killed_judge(tmp_path, f"Path({str(mpirun)!r})", Path("unused"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (left,) = leftovers()
    assert [Path(name).parent.name for name in left.remove()] == ["temporary"]
    assert list((tmp_path / "temporary").iterdir()) == []


@needs_library
def test_the_ranks_of_a_killed_judge_end(tmp_path: Path) -> None:
    program = wrong_program(tmp_path, "        import time\n        time.sleep(3600)")
    killed_judge(tmp_path, "None", program)
