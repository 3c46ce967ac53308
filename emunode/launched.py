"""Hosts that Slurm or an MPI launcher starts: they read their place from the environment, and the run from a file.

A launcher counts only if all of its variables are present: an ssh session into a node of Slurm has half of them. Open MPI
5 has no `OMPI_MCA_orte_*`, so only variables that versions 4 and 5 share are read. `EMUNODE_LAUNCHER=none` turns all of
this off.
"""

import errno
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from emunode.errors import RunError
from emunode.state_folder import state_folder

OFF_SWITCH: Final = "EMUNODE_LAUNCHER"
"""Set to `none`, a process takes no place from its environment."""
JOIN_FILE: Final = "EMUNODE_JOIN_FILE"
"""The path of the join file. A path is no secret; the token is in the file, and never in the environment."""
JOINS: Final = "joins"
"""The folder of join files in the state folder."""
MOST_JOIN_BYTES: Final = 8192


class LauncherPlace(NamedTuple):
    """The place of a process among those that a launcher started."""

    launcher: str
    rank: int
    size: int
    node: str
    """The name of its node, as the launcher writes it; empty: the name of the machine."""
    job: str
    """The launcher's number of the job; empty if it has none."""


class Variables(NamedTuple):
    """The variables that tell a launched process its place."""

    launcher: str
    rank: str
    size: str
    others: tuple[str, ...]
    """Further variables that every process of this launcher has."""
    node: str = ""
    job: str = ""


LAUNCHERS: Final = (
    # mpirun inside an allocation of Slurm starts the processes, so it comes first.
    Variables("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", ("OMPI_COMM_WORLD_LOCAL_RANK",)),
    Variables("MPICH", "PMI_RANK", "PMI_SIZE", ("MPI_LOCALRANKID",)),
    # Only tasks of a step have the number of its tasks; the script of a batch job has not.
    Variables(
        "Slurm",
        "SLURM_PROCID",
        "SLURM_STEP_NUM_TASKS",
        ("SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_LOCALID", "SLURMD_NODENAME"),
        node="SLURMD_NODENAME",
        job="SLURM_JOB_ID",
    ),
)
"""To add a launcher, add its variables."""


def launcher_place(environment: Mapping[str, str]) -> LauncherPlace | None:
    """Return the place of this process by its environment; None if no launcher started it, or it is turned off.

    RunError if the variables of a launcher contradict each other.
    """
    if environment.get(OFF_SWITCH, "").lower() == "none":
        return None
    for each in LAUNCHERS:
        if not all(environment.get(name) for name in (each.rank, each.size, *each.others)):
            continue
        rank, size = environment[each.rank], environment[each.size]
        if not (rank.isdecimal() and size.isdecimal() and int(rank) < int(size)):
            raise RunError(
                f"{each.launcher}: {each.rank}={rank!r} is no place among {each.size}={size!r}; "
                f"{OFF_SWITCH}=none ignores both"
            )
        return LauncherPlace(
            each.launcher, int(rank), int(size), environment.get(each.node, ""), environment.get(each.job, "")
        )
    return None


def join_text(coordinator: str, token: bytes) -> str:
    """Return the content of a join file: the endpoint of the coordinator and the token, in one line."""
    return json.dumps({"coordinator": coordinator, "token": token.decode()}) + "\n"


def read_join_text(content: bytes) -> tuple[str, bytes]:
    """Return endpoint and token of a join file; ValueError if it is malformed or too long."""
    try:
        values = json.loads(content) if len(content) <= MOST_JOIN_BYTES else None
    except (ValueError, RecursionError):
        values = None
    match values:
        case {"coordinator": str(endpoint), "token": str(token)}:
            return endpoint, token.encode()
    raise ValueError("it is no join file")


class JoinFile(NamedTuple):
    """The file that leads hosts to their run: the endpoint of the coordinator and the token, readable by its owner only."""

    path: Path

    @property
    def unfinished(self) -> Path:
        """The file that takes the place of this one once it is written; `coordinator clean` knows such names."""
        return self.path.with_name(f".partial-{os.getpid()}-{self.path.name}")

    def write(self, coordinator: str, token: bytes) -> None:
        """Write the file, in place of one that an earlier run has left; RunError if that fails."""
        fresh = self.unfinished
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            fresh.unlink(missing_ok=True)
            with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(join_text(coordinator, token))
            # Hosts on other machines may read at any moment, so they see all of the file or none.
            fresh.rename(self.path)
        except OSError as error:
            raise RunError(f"cannot write the join file {self.path}: {error.strerror}") from None

    def read(self) -> tuple[str, bytes]:
        """Return endpoint and token.

        FileNotFoundError before the file exists; OSError or ValueError if it is no join file.
        """
        descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                raise OSError(errno.EPERM, "it is not a regular file of this user", str(self.path))
            content = file.read(MOST_JOIN_BYTES + 1)
        return read_join_text(content)

    def remove(self) -> None:
        """Remove the file: its run is over."""
        self.path.unlink(missing_ok=True)


def join_file_of(environment: Mapping[str, str], job: str) -> JoinFile | None:
    """Return the path of the join file; None if there is none to look for.

    It is the path in the environment, or the file of the job.
    """
    if path := environment.get(JOIN_FILE):
        return JoinFile(Path(path))
    return job_join_file(job) if job else None


def job_join_file(job: str) -> JoinFile:
    """Return the join file of a job of a scheduler, in the state folder that its nodes share."""
    return JoinFile(state_folder() / JOINS / f"{Path(job).name}.json")


def endpoint_of(text: str) -> tuple[str, int]:
    """Return address and port of HOST:PORT; ValueError if the text has another form."""
    address, _, port = text.rpartition(":")
    if not address or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"invalid value {text!r}: expected HOST:PORT, such as 127.0.0.1:7000")
    return address, int(port)
