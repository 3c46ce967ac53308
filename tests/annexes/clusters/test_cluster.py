"""The drivers ssh, mpi and slurm: the journal of memory, faults that hit one process, and nothing left after a kill."""

import json
import math
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path

import psutil
import pytest

from coordinator.annexes.clusters.cluster import parse_time_left, read_host_file
from coordinator.scenario.drivers import DRIVERS, join_defaults
from emunode.errors import ScenarioError
from emunode.state_folder import state_folder
from tests.helpers.cluster_support import MPIRUNS, needs, needs_mpirun, slurm_cluster, ssh_server
from tests.helpers.command_line import ROOT, SECONDS, Call, Running, Start, command, free_port, run_process, wait_until
from tests.helpers.process_support import connection_counts, is_gone
from tests.helpers.scenarios import Case

FAULTS = "fault=crash:1@2 fault=recover:1@4 fault=hang:2@3-4"
SCENARIO = "--topology ring:3 --collective broadcast --algorithm flood --ranks-per-host 1"
RUN = f"coordinator run {SCENARIO}"
ENDLESS = f"{RUN} --messages 90000 --message-bytes 8"
HOSTS = 3
CONNECTIONS = 3
"""Of each host of these runs: two links, and the one to the coordinator."""
SLURM = ("slurmctld", "slurmd", "srun", "salloc")
PHYSICAL = ["kill", "stop", "restart", "continue"]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    with slurm_cluster(tmp_path_factory.mktemp("slurm")) as variables:
        yield variables


@pytest.fixture(scope="module")
def ssh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with ssh_server(tmp_path_factory.mktemp("ssh")) as client:
        yield client


pytestmark = pytest.mark.usefixtures("empty_folder")  # each test has a state folder of its own for its join files


def processes_of(place: Path | str) -> list[psutil.Process]:
    """Return the processes whose command lines name a place, and all of their descendants."""
    parents: dict[int, int] = {}
    named: set[int] = set()
    for pid in psutil.pids():
        with suppress(OSError):
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            if str(place).encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                named.add(pid)
    found: list[psutil.Process] = []
    for pid in parents:
        ancestor = pid
        while ancestor in parents and ancestor not in named:
            ancestor = parents[ancestor]
        if ancestor in named:
            with suppress(psutil.NoSuchProcess):
                found.append(psutil.Process(pid))
    return [each for each in found if not is_gone(each)]


def state_of(folder: Path) -> str:
    """Return the state folder of a run in a folder; the commands of its starters name it."""
    return f"{folder}-state"


def judged(case: Case, out: Path) -> list[str]:
    """Hold a run on a cluster against the journal of memory; return the physical faults that it logged."""
    run = case.stored(out)
    memory = case.but(driver="memory", ranks_per_host="auto", launcher=None, host_file=None)
    assert run.summary["journal_hash"] == memory.summary["journal_hash"]
    assert not list((state_folder() / "joins").glob("*.json"))
    return [str(row["action"]) for row in log_rows(out) if row["event"] == "process fault"]


def log_rows(out: Path) -> list[dict[str, object]]:
    """Return the rows of the log of a run."""
    return [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]


@needs_mpirun
@pytest.mark.parametrize("mpirun", MPIRUNS or ["mpirun"])
def test_faults_hit_one_process_under_mpirun(mpirun: str, tmp_path: Path) -> None:
    case = Case(f"ring:3 broadcast flood messages=4 {FAULTS}", driver="mpi", ranks_per_host=1, launcher=mpirun)
    assert judged(case, tmp_path / "out") == PHYSICAL


@needs("sshd", "ssh", "ssh-keygen")
def test_faults_hit_one_process_over_ssh(ssh: str, tmp_path: Path) -> None:
    machines = tmp_path / "machines"
    machines.write_text("127.0.0.1 slots=3  # most of them\n\n127.0.0.1 slots=1\n")
    case = Case(f"ring:4 broadcast flood messages=4 {FAULTS}", driver="ssh", ranks_per_host=1, launcher=ssh)
    assert judged(case.but(host_file=str(machines)), tmp_path / "out") == PHYSICAL


@needs(*SLURM)
def test_faults_hit_one_process_under_slurm(
    slurm: Mapping[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in slurm.items():
        monkeypatch.setenv(name, value)
    case = Case(f"ring:4 broadcast flood messages=4 {FAULTS}", driver="slurm", ranks_per_host=1)
    case = case.but(launcher="srun --nodes=2 --job-name=own")
    assert judged(case, tmp_path / "out") == PHYSICAL
    assert {row["name"] for row in log_rows(tmp_path / "out") if row["event"] == "process fault"} <= {"n1", "n2"}
    assert not jobs(slurm)


def jobs(variables: Mapping[str, str]) -> str:
    """Return the jobs of Slurm that have not ended."""
    line = ["squeue", "--noheader", "--states=RUNNING,PENDING,SUSPENDED,CONFIGURING", "--format=%i"]
    done = subprocess.run(line, env={**os.environ, **variables}, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


@needs(*SLURM)
def test_hosts_in_a_step_join_by_themselves(slurm: Mapping[str, str], tmp_path: Path) -> None:
    """`coordinator serve` in a batch job, and `srun emunode` beside it, without an address or a token."""
    script = tmp_path / "job"
    scenario = "--topology ring:4 --collective broadcast --algorithm flood"
    script.write_text(
        "#!/bin/sh\n"
        f"{sys.executable} -m coordinator serve {scenario} --hosts 4 --listen 127.0.0.1:{free_port()} "
        f"--json --out {tmp_path}/out > {tmp_path}/json &\n"
        f"srun --overlap --mpi=none --ntasks=4 {sys.executable} -m emunode\n"
        "wait %1\n"
    )
    program = ["sbatch", "--wait", "--nodes=2", "--ntasks=4", f"--output={tmp_path}/job.log", script]
    ended = run_process(tmp_path, program, **slurm)
    assert ended.status == 0, (tmp_path / "job.log").read_text() + ended.err
    summary = json.loads((tmp_path / "json").read_text())
    assert summary["journal_hash"] == Case("ring:4 broadcast flood").summary["journal_hash"]


# --- kills -----------------------------------------------------------------------------------------------------------


def started(start: Start, tmp_path: Path, *flags: str, place: str = "", **variables: str) -> Running:
    """Start a run that takes minutes, and wait until its hosts have all links; its starters name `place`."""
    running = start(ENDLESS, "--out", tmp_path / "out", *flags, **variables)
    running.wait_for(lambda: len(linked_hosts(place or state_of(tmp_path))) == HOSTS, "all links")
    return running


def linked_hosts(place: str) -> list[psutil.Process]:
    """Return the hosts of a run on ring:3 that have a link to each of their neighbours, and one to the coordinator."""
    counts = connection_counts(processes_of(place), HOSTS * CONNECTIONS)
    return [host for host, count in counts.items() if count == CONNECTIONS]


@needs_mpirun
@pytest.mark.parametrize("victim", ["coordinator", "mpirun", "host"])
def test_a_kill_under_mpirun_leaves_no_process(victim: str, start: Start, tmp_path: Path) -> None:
    running = started(start, tmp_path, "--driver", "mpi", "--launcher", MPIRUNS[0])
    ours = processes_of(state_of(tmp_path))
    host = linked_hosts(state_of(tmp_path))[0]
    # The launcher may have become another program, such as `prterun`: it is the child of the coordinator above the hosts.
    mpirun = next(parent for parent in host.parents() if parent.ppid() == running.process.pid)
    pid = {"coordinator": running.process.pid, "mpirun": mpirun.pid, "host": host.pid}[victim]
    os.kill(pid, signal.SIGKILL)
    status = running.end().status
    assert status == (-signal.SIGKILL if victim == "coordinator" else 3)
    wait_until(lambda: all(map(is_gone, ours)), "the end of all processes")


@needs("sshd", "ssh", "ssh-keygen")
@pytest.mark.parametrize("victim", ["coordinator", "ssh", "host"])
def test_a_kill_over_ssh_leaves_no_process(victim: str, ssh: str, start: Start, tmp_path: Path) -> None:
    machines = tmp_path / "machines"
    machines.write_text("127.0.0.1 slots=2\n127.0.0.1\n")
    # The clients name a file of this folder, and so does the server, from which the hosts descend.
    folder = ssh.partition("UserKnownHostsFile=")[2].partition("/known")[0]
    server = next(each for each in processes_of(folder) if each.name() == "sshd")
    flags = ("--driver", "ssh", "--host-file", str(machines), "--launcher", ssh)
    running = started(start, tmp_path, *flags, place=folder)
    ours = [each for each in processes_of(folder) if each != server]
    client = next(each for each in ours if each.name() == "ssh")
    host = linked_hosts(folder)[0]
    pid = {"coordinator": running.process.pid, "ssh": client.pid, "host": host.pid}[victim]
    os.kill(pid, signal.SIGKILL)
    assert running.end().status == (-signal.SIGKILL if victim == "coordinator" else 3)
    wait_until(lambda: all(map(is_gone, ours)), "the end of all processes")
    assert not is_gone(server)


@needs(*SLURM)
def test_clean_cancels_the_job_of_a_killed_coordinator(slurm: Mapping[str, str], start: Start, tmp_path: Path) -> None:
    running = started(start, tmp_path, "--driver", "slurm", **slurm)
    assert jobs(slurm)
    os.kill(running.process.pid, signal.SIGKILL)
    running.end()
    cleaned = run_process(
        tmp_path,
        [sys.executable, "-m", "coordinator", "clean"],
        **slurm,
    )
    assert "removed job " in cleaned.out
    wait_until(lambda: not jobs(slurm), "the job has ended")
    wait_until(lambda: not processes_of(state_of(tmp_path)), "the hosts have ended")


@needs(*SLURM)
@pytest.mark.parametrize("inside", ["a step", "a batch job"])
def test_a_coordinator_killed_in_its_allocation_leaves_no_job(
    inside: str, slurm: Mapping[str, str], tmp_path: Path
) -> None:
    """Its hosts are another step of the same job. Slurm knows nothing of it, and they end by themselves."""
    run = [*command(ENDLESS), "--driver", "slurm", "--out", str(tmp_path / "out")]
    if inside == "a step":
        line = ["salloc", "--nodes=2", "--ntasks=4", "srun", "--mpi=none", "--ntasks=1", "--nodes=1", *run]
    else:
        script = tmp_path / "job"
        script.write_text(f"#!/bin/sh\nexec {shlex.join(run)}\n")
        line = ["sbatch", "--wait", "--nodes=2", "--ntasks=4", f"--output={tmp_path}/job.log", str(script)]
    with closing(Running(tmp_path, line, **slurm)) as running:
        running.wait_for(lambda: len(linked_hosts(state_of(tmp_path))) == HOSTS, "all links")
        ours = processes_of(tmp_path)
        coordinator = next(each for each in ours if each.cmdline()[:3] == command("coordinator"))
        assert jobs(slurm)
        coordinator.kill()
        assert running.end().status
        wait_until(lambda: all(map(is_gone, ours)), "the end of all processes")
        assert not jobs(slurm)
    cleaned = run_process(tmp_path, [sys.executable, "-m", "coordinator", "clean"], **slurm)
    assert "removed job " not in cleaned.out  # the allocation was not its own


@needs(*SLURM)
def test_an_interrupt_ends_a_run_under_slurm(slurm: Mapping[str, str], start: Start, tmp_path: Path) -> None:
    running = started(start, tmp_path, "--driver", "slurm", **slurm)
    began = time.monotonic()
    running.process.send_signal(signal.SIGINT)
    assert running.end().status == 130
    assert time.monotonic() < began + SECONDS
    assert not jobs(slurm)
    wait_until(lambda: not processes_of(state_of(tmp_path)), "the hosts have ended")


@needs(*SLURM)
@pytest.mark.parametrize("victim", ["task", "srun"])
def test_a_kill_under_slurm_leaves_no_job(victim: str, slurm: Mapping[str, str], start: Start, tmp_path: Path) -> None:
    running = started(start, tmp_path, "--driver", "slurm", **slurm)
    ours = processes_of(state_of(tmp_path))
    srun = next(process for process in ours if process.name() == "srun")
    task = linked_hosts(state_of(tmp_path))[0]
    os.kill({"task": task, "srun": srun}[victim].pid, signal.SIGKILL)
    ended = running.end()
    assert ended.status == 3, ended.err
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["verdict"] == "undecided"
    wait_until(lambda: not jobs(slurm), "the job has ended")
    wait_until(lambda: not processes_of(state_of(tmp_path)), "the hosts have ended")


@needs(*SLURM)
def test_a_killed_slurmd_leaves_no_job_and_no_process(start: Start, tmp_path: Path) -> None:
    """Its tasks go on without it; what ends them is the end of the run."""
    daemons: dict[str, subprocess.Popen[bytes]] = {}
    folder = tmp_path / "cluster"
    folder.mkdir()
    with slurm_cluster(folder, daemons) as variables:
        running = started(start, tmp_path, "--driver", "slurm", "--launcher", "srun --nodes=2", **variables)
        daemons["n2"].kill()
        daemons["n2"].wait()
        steps = folder.parent / "out" / "summary.json"
        assert not steps.exists(), "the run goes on"
        running.process.send_signal(signal.SIGINT)
        assert running.end().status == 130
        assert steps.exists()
        wait_until(lambda: not processes_of(state_of(tmp_path)), "the hosts have ended")
        assert not jobs(variables)


@needs(*SLURM)
def test_the_time_limit_of_a_job_ends_the_run_in_order(slurm: Mapping[str, str], start: Start, tmp_path: Path) -> None:
    """The limit is a minute, the least that Slurm knows, and the run would take several.

    All wait for a host that is stopped most of the time: the other tests need the processor.
    """
    running = started(start, tmp_path, "--driver", "slurm", "--launcher", "srun --time=1", **slurm)
    host = linked_hosts(state_of(tmp_path))[0]
    with suppress(psutil.NoSuchProcess):
        while running.process.poll() is None:
            host.suspend()
            time.sleep(1)
            host.resume()
            time.sleep(0.05)
    ended = running.end()
    assert ended.status == 3, ended.err
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["undecided_because"].startswith("the time limit of its job is near")
    assert summary["steps"] > 0
    assert summary["journal_rows"] > 0
    assert not jobs(slurm)
    assert not processes_of(state_of(tmp_path))


@needs(*SLURM)
def test_a_coordinator_in_a_step_uses_its_allocation(slurm: Mapping[str, str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    line = [*command(RUN), "--driver", "slurm", "--json", "--out", out]
    step = ["salloc", "--nodes=2", "--ntasks=4", "srun", "--mpi=none", "--ntasks=1", "--nodes=1", *line]
    ended = run_process(tmp_path, step, **slurm)
    assert ended.status == 0, ended.err
    assert ended.data["journal_hash"] == Case("ring:3 broadcast flood").summary["journal_hash"]
    wait_until(lambda: not jobs(slurm), "the allocation has ended")


@needs(*SLURM)
def test_a_second_coordinator_of_a_step_is_refused(slurm: Mapping[str, str], tmp_path: Path) -> None:
    line = [*command(RUN), "--driver", "slurm", "--out", tmp_path / "out"]
    ended = run_process(tmp_path, ["srun", "--mpi=none", "--ntasks=2", "--label", *line], **slurm)
    assert "this is task 1 of the 2 tasks of a step" in ended.err
    wait_until(lambda: not jobs(slurm), "the job has ended")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0:45", 45), ("59:00", 3540), ("2:00:01", 7201), ("1-00:00:10", 86410), ("UNLIMITED", math.inf), ("", math.inf)],
)
def test_the_time_that_is_left_is_read(text: str, seconds: float) -> None:
    assert parse_time_left(text) == seconds


# --- bad input -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "it names 0 machines"),
        ("a slots=0", "line 1: 'slots=0' is not slots=N"),
        ("a\nb cpus=2", "line 2: 'cpus=2' is not slots=N"),
        ("-oProxyCommand=x", "'-oProxyCommand=x' is no name of a machine"),
        ("a;b", "'a;b' is no name of a machine"),
    ],
)
def test_an_invalid_host_file_is_refused(text: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "machines"
    path.write_text(text)
    with pytest.raises(ScenarioError, match="host_file") as error:
        read_host_file(str(path))
    assert reason in str(error.value)


@pytest.mark.parametrize(
    ("flags", "status", "reason"),
    [
        ("--driver ssh", 2, "--host-file FILE"),
        ("--driver local --launcher srun", 2, "only the drivers ssh, mpi and slurm support it, not local"),
        ("--driver mpi --launcher no-such-mpirun", 4, "MPI is not installed: no program no-such-mpirun on the path"),
    ],
)
def test_launchers_without_what_they_need(flags: str, status: int, reason: str, call: Call) -> None:
    ended = call(f"run {SCENARIO} {flags}")
    assert (ended.status, reason in ended.err) == (status, True), ended.err


def test_the_page_and_the_help_state_the_wait_of_the_launchers(call: Call) -> None:
    seconds = {DRIVERS[name].join_seconds for name in ("ssh", "mpi", "slurm")}
    assert seconds == {120.0}
    assert "waits 120 s for its next host" in (ROOT / "docs/how-to/clusters.md").read_text()
    words = call("run --help").out.replace("│", "").split()
    assert join_defaults() in " ".join(words)
    assert join_defaults() == "local 30s; docker 60s and 2s per host; ssh, mpi, slurm 120s"
