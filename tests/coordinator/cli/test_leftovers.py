"""Every driver and every command is killed in the middle: `clean` removes all that it has left, and nothing of others."""

import os
import shlex
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

import psutil
import pytest

from coordinator.cli.leftovers import leftovers
from coordinator.history.stored.left_behind import new_record, read_records
from emunode.state_folder import state_folder
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.cluster_support import MPIRUNS, needs_mpirun
from tests.helpers.command_line import Call, Running, free_port, fresh, wait_until
from tests.helpers.process_support import is_gone

FLOOD: Final = "--topology star:3 --collective broadcast --algorithm flood"
ENDLESS: Final = f"run {FLOOD} --messages 90000 --message-bytes 8"
SSH: Final = """\
#!/bin/sh
# The options of the driver and the name of the machine go; the rest is executed here.
while [ "$1" = -o ]; do shift 2; done
shift
exec sh -c "$*"
"""


class Killed(NamedTuple):
    """A command that is killed once it has created what a pattern finds."""

    line: str
    pattern: str
    variables: Mapping[str, str] = {}


KILLED: Final = {
    "memory": Killed(f"{ENDLESS} --driver memory", "work/runs/*/.partial-*/log.jsonl"),
    "memory, out": Killed(f"{ENDLESS} --driver memory --out ../far/away/there", "far/away/.partial-*"),
    "local": Killed(f"{ENDLESS} --driver local", "work/runs/*/.partial-*/log.jsonl"),
    "watched": Killed(f"{ENDLESS} --driver memory --watch --watch-port PORT", "work/runs/*/.partial-*"),
    "ssh": Killed(f"{ENDLESS} --driver ssh --host-file machines --ranks-per-host 3", "state/*/joins/run-*.json"),
    "serve": Killed(f"serve {FLOOD} --hosts 2 --listen 127.0.0.1:PORT", "work/token"),
    "serve in a job": Killed(
        f"serve {FLOOD} --hosts 2 --listen 127.0.0.1:PORT", "state/*/joins/77.json", {"SLURM_JOB_ID": "77"}
    ),
    "reproduce": Killed("reproduce johnsson-ho-graphs --n 4", "temporary/coordinator-reproduce-*"),
}
MPI: Final = Killed(f"{ENDLESS} --driver mpi --launcher MPIRUN --ranks-per-host 3", "state/*/joins/run-*.json")


@pytest.fixture
def home(
    empty_folder: Path,  # noqa: ARG001  # it comes first: this one has another working folder
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A folder with the working folder, the state folder, the temporary folder and a stand-in for ssh."""
    for name in ("work", "other", "temporary", "bin"):
        (tmp_path / name).mkdir()
    (tmp_path / "bin" / "ssh").write_text(SSH)
    (tmp_path / "bin" / "ssh").chmod(0o755)
    for name in ("work", "other"):
        (tmp_path / name / "machines").write_text("127.0.0.1 slots=6\n")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def everything(home: Path) -> set[str]:
    """Every path below a folder, except the folders that hold records, and what an mpirun leaves that is killed itself."""
    own = [path for path in home.rglob("*") if "/temporary/ompi." not in str(path)]
    return {str(path) for path in own if not (path.is_dir() and path.is_relative_to(home / "state"))}


def started(home: Path, killed: Killed, folder: str = "work") -> Running:
    """Start a command and wait until it has created what it leaves, or a record of what it shares with another one."""
    places = (killed.pattern.replace("work/", f"{folder}/"), "state/*/*.json")
    pattern = places[bool(list(home.glob("work/token")) and folder == "work")]
    before = set(home.glob(pattern))
    line = killed.line.replace("PORT", str(free_port())).replace("MPIRUN", (MPIRUNS or [""])[0])
    variables = {name: os.environ[name] for name in ("PATH", "XDG_STATE_HOME")} | {"TMPDIR": home / "temporary"}
    running = Running(
        home / folder, fresh([sys.executable, "-m", "coordinator", *shlex.split(line)]), **variables, **killed.variables
    )
    running.wait_for(lambda: {*home.glob(pattern)} - before, pattern)
    return running


def kill(running: Running) -> None:
    """Kill a coordinator, and its hosts: those that have not joined yet would wait for it for a minute."""
    tree = psutil.Process(running.process.pid).children(recursive=True)
    running.process.kill()
    running.process.wait()
    running.close()
    for process in tree:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    wait_until(lambda: all(map(is_gone, tree)), "the end of its hosts")


@needs_every_annex
@pytest.mark.parametrize("name", [*KILLED, pytest.param("mpi", marks=needs_mpirun)])
def test_everything_that_a_killed_command_leaves_is_removed(name: str, home: Path, call: Call) -> None:
    before = everything(home)
    kill(started(home, KILLED.get(name, MPI)))
    left = everything(home)
    assert left > before
    listed = call("clean --dry-run --json")
    assert (listed.status, everything(home)) == (0, left)
    removed = call("clean --json")
    assert removed.data == {"removed": listed.data["would_remove"], "elsewhere": 0}
    assert everything(home) == before
    assert call("clean --everywhere").out == "nothing to clean\n"


# --- what others have ------------------------------------------------------------------------------------------------


@needs_every_annex
@pytest.mark.parametrize("name", ["memory", "local", "ssh", "serve"])
def test_nothing_of_a_run_in_progress_is_removed(name: str, home: Path, call: Call) -> None:
    """One run is killed; two others go on, in the same folder and in another one."""
    case = KILLED[name]
    alive = [started(home, case, folder) for folder in ("work", "other")]
    kept = everything(home)
    kill(started(home, case))
    assert everything(home) > kept
    for line in ("clean", "clean --everywhere"):
        assert call(line).status == 0
        assert kept <= everything(home)
    for running in alive:
        assert running.process.poll() is None
        running.process.terminate()
        assert running.end().status == 130, running.err
        running.close()
    assert not list(home.glob("state/*/*.json"))
    assert not list(home.glob("state/*/joins/*"))
    assert not list(home.glob("*/token"))


@needs_every_annex
def test_other_folders_are_left_alone(home: Path, call: Call) -> None:
    before = everything(home)
    kill(started(home, KILLED["ssh"], "other"))
    left = everything(home)
    listed = f"{len(leftovers())} more in other folders"
    assert call("clean").out == f"nothing to clean\n{listed}: coordinator clean --everywhere --dry-run lists them\n"
    assert everything(home) == left
    assert call("clean --everywhere --json").data["elsewhere"] == 0
    assert everything(home) == before


@needs_every_annex
def test_what_was_started_on_another_machine_stays(home: Path, call: Call) -> None:
    kill(started(home, KILLED["ssh"]))
    left = everything(home)
    for record in read_records():
        record.remove()
        replace(record, machine="another").write()
    assert leftovers() == []
    assert call("clean --everywhere").status == 0
    assert everything(home) - {str(path) for path in state_folder().iterdir()} <= left


def test_a_changed_file_is_not_removed(home: Path, call: Call) -> None:
    """A user writes a token of his own where a killed `serve` has left one."""
    kill(started(home, KILLED["serve"]))
    token = home / "work" / "token"
    token.write_text("of a user\n")
    assert call("clean --everywhere").status == 0
    assert token.read_text() == "of a user\n"
    assert not read_records()


@pytest.mark.parametrize("path", ["precious", ".partial-1-precious"])
def test_a_record_does_not_name_any_file(path: str, home: Path, call: Call) -> None:
    precious = home / path
    precious.touch()
    record = new_record(files={str(precious): ""})
    replace(record, pid=2**22 + 1).write()
    assert call("clean --everywhere").out == "nothing to clean\n"
    assert precious.exists()


# --- Slurm that is not installed -------------------------------------------------------------------------------------


def test_a_run_without_slurm_leaves_no_record(home: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(home / "bin"))
    ended = call(f"run {FLOOD} --driver slurm")
    assert ended.status == 4
    assert "Slurm is not installed: no program srun on the path" in ended.err
    assert not read_records()


@pytest.mark.parametrize("missing", ["salloc", "scancel", "squeue", "scontrol"])
def test_every_program_of_slurm_is_looked_for(
    missing: str, home: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in {"srun", "salloc", "scancel", "squeue", "scontrol"} - {missing}:
        (home / "bin" / name).symlink_to("/bin/false")
    monkeypatch.setenv("PATH", str(home / "bin"))
    ended = call(f"run {FLOOD} --driver slurm")
    assert ended.status == 4
    assert f"Slurm is not installed: no program {missing} on the path" in ended.err
    assert not read_records()


@needs_every_annex
def test_a_missing_scancel_is_said_once(home: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    replace(new_record(run="abc", driver="slurm", objects=("testbench-abc",)), pid=2**22 + 1).write()
    monkeypatch.setenv("PATH", str(home / "bin"))
    listed = call("clean --dry-run")
    assert (listed.status, listed.out) == (0, "would remove job testbench-abc\n")
    first = call("clean")
    assert (first.status, first.out) == (4, "")
    assert (
        "no program scancel on the path; if the job still runs, this cancels it: scancel --name=testbench-abc"
        in first.err
    )
    again = call("clean --everywhere")
    assert (again.status, again.out, again.err) == (0, "nothing to clean\n", "")
