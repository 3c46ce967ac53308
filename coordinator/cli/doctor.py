"""`coordinator doctor`: checks that this machine offers everything that runs need.

Each result states the finding and, if it falls short, the remedy.
"""

import os
import resource
import shutil
import socket
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from coordinator.cli.leftovers import Leftover, leftovers
from coordinator.cli.output import JsonFlag, as_command
from coordinator.cli.render import print_rows
from coordinator.history.run_directory import RUNS, stamp_of_now
from coordinator.planning.machine import (
    RESERVED_DESCRIPTORS,
    descriptor_limit,
    free_memory,
    system_files,
    tracked_connections,
)
from coordinator.planning.namespace import unavailable_reason
from emunode import runtime as libc
from emunode.errors import RunError

MANY_SOCKETS = 100_000
MANY_PROCESSES = 1024
FEW_PROCESSES = 32
ROOMY_BYTES = 2**30
TIGHT_BYTES = 64 * 2**20
"""A run of a few thousand nodes writes about this much."""


@dataclass(frozen=True)
class CheckResult:
    """The result of one check: `state` is `good`, `limit` (works within a bound) or `problem` (does not work)."""

    subject: str
    state: str
    seen: str
    remedy: str = ""


def examine() -> list[CheckResult]:
    """Run all checks, in the order of display."""
    looks: tuple[Callable[[], CheckResult], ...] = (
        _descriptors,
        _file_table,
        _processes,
        _loopback,
        _backlog,
        _tracking,
        _namespaces,
        _memory,
        _cores,
        _leftovers,
        _runs,
        _disk,
        _clock,
        _containers,
    )
    return [look() for look in looks]


def _descriptors() -> CheckResult:
    limit = descriptor_limit()
    room = limit - RESERVED_DESCRIPTORS
    seen = f"{limit:,} file descriptors per process: {max(room, 0):,} link ends per host"
    if room < 64:
        return CheckResult("descriptors", "problem", seen, "ulimit -n 4096")
    return CheckResult(
        "descriptors", "good" if limit >= 4096 else "limit", seen, "" if limit >= 4096 else "ulimit -n 20000"
    )


def _file_table() -> CheckResult:
    used, most = system_files()
    seen = f"{most - used:,} more files and sockets of all processes: {(most - used) // 2:,} links"
    if most - used < MANY_SOCKETS:
        return CheckResult("file table", "limit", seen, f"sysctl fs.file-max={used + 10 * MANY_SOCKETS}")
    return CheckResult("file table", "good", seen)


def _processes() -> CheckResult:
    if not libc.has("prctl"):
        return CheckResult("processes", "problem", "processes cannot be tied to the end of their parent", "use Linux")
    bounds = {"sysctl kernel.pid_max": _number("/proc/sys/kernel/pid_max")}
    if os.geteuid():
        bounds["ulimit -u"] = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    group = Path("/proc/self/cgroup").read_text().splitlines()[-1].rpartition(":")[2]
    bounds["pids.max of the control group"] = _number(f"/sys/fs/cgroup{group}/pids.max")
    known = {where: most for where, most in bounds.items() if most > 0}  # a missing or non-numeric limit is no bound
    where = min(known, key=known.__getitem__, default="")
    most = known.get(where, 2**31)
    seen = f"at most {most:,} processes ({where})" if where else "as many processes as there is memory for"
    if most < FEW_PROCESSES:
        return CheckResult("processes", "problem", seen, f"raise it: {where}")
    if most < MANY_PROCESSES:
        return CheckResult("processes", "limit", seen, f"--ranks-per-host, or raise it: {where}")
    return CheckResult("processes", "good", seen)


def _number(path: str) -> int:
    """Return the number in a file of the kernel; -1 if there is no such file, or no number in it."""
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return -1


def _loopback() -> CheckResult:
    try:
        with socket.create_server(("127.77.77.77", 0)) as listener:
            address = listener.getsockname()
            with socket.create_connection(address, 1, ("127.77.77.78", 0)):
                return CheckResult("loopback", "good", "every address of 127.0.0.0/8 can be bound and reached")
    except OSError as error:
        return CheckResult("loopback", "problem", str(error), "ip link set lo up")


def _backlog() -> CheckResult:
    backlog = _number("/proc/sys/net/core/somaxconn")
    if backlog < 0:
        return CheckResult("accept queue", "limit", "unknown", "mount /proc")
    state = "good" if backlog >= 1024 else "limit"
    return CheckResult(
        "accept queue", state, f"{backlog:,} connections", "" if state == "good" else "sysctl net.core.somaxconn=4096"
    )


def _tracking() -> CheckResult:
    tracked = tracked_connections()
    if tracked is None:
        return CheckResult("connection tracking", "good", "no packet filter tracks connections")
    seen = f"a packet filter tracks at most {tracked[1]:,} connections, {tracked[0]:,} now"
    return CheckResult(
        "connection tracking", "limit", seen, "larger runs move to a network namespace of their own (--netns auto)"
    )


def _namespaces() -> CheckResult:
    problem = unavailable_reason()
    if problem:
        return CheckResult("network namespaces", "limit", problem.partition(": ")[2] or problem)
    return CheckResult("network namespaces", "good", "can be made: --netns auto and always work")


def _memory() -> CheckResult:
    free = free_memory()
    return CheckResult("memory", "good" if free > 2**30 else "limit", f"{free / 2**30:.1f} GiB available")


def _cores() -> CheckResult:
    return CheckResult("cores", "good", f"{len(os.sched_getaffinity(0))}: as many host processes by default")


def _leftovers() -> CheckResult:
    found = [each for each in leftovers() if each.files or each.has_objects]
    here, elsewhere = (_counts([each for each in found if each.here == wanted]) for wanted in (True, False))
    seen = [f"{counts} {where}" for counts, where in ((here, "of this folder"), (elsewhere, "of others")) if counts]
    if not seen:
        return CheckResult("leftovers", "good", "none")
    remedy = "coordinator clean --everywhere" if elsewhere else "coordinator clean"
    return CheckResult("leftovers", "limit", f"of killed runs: {'; '.join(seen)}", remedy)


def _counts(found: Sequence[Leftover]) -> str:
    files, runs = sum(len(each.files) for each in found), sum(each.has_objects for each in found)
    return f"{files} files and folders, {runs} runs with containers or jobs" if found else ""


def _runs() -> CheckResult:
    try:
        here = Path.cwd()
    except OSError as error:
        return CheckResult("run directories", "problem", f"the working directory: {error.strerror}", "cd elsewhere")
    if os.access(RUNS if RUNS.exists() else here, os.W_OK):
        return CheckResult("run directories", "good", f"{here / RUNS} can be written")
    return CheckResult("run directories", "problem", f"{here / RUNS} cannot be written", "cd elsewhere, or --out DIR")


def _disk() -> CheckResult:
    free = shutil.disk_usage(RUNS if RUNS.exists() else ".").free
    seen, remedy = f"{free / 2**30:.1f} GiB free", "coordinator clean, remove old runs, or --out DIR"
    longest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if longest != resource.RLIM_INFINITY:
        seen, free = f"{seen}, {longest / 2**20:,.1f} MiB a file", min(free, longest)
        remedy = f"{remedy}; ulimit -f unlimited"
    if free < TIGHT_BYTES:
        return CheckResult("disk", "problem", seen, remedy)
    return CheckResult("disk", "limit", seen, remedy) if free < ROOMY_BYTES else CheckResult("disk", "good", seen)


def _clock() -> CheckResult:
    now = stamp_of_now()
    latest = (path / "latest" for path in (RUNS.iterdir() if RUNS.is_dir() else ()))
    newest = max((path.readlink().name for path in latest if path.is_symlink()), default="")
    if newest > now:
        seen = f"it is {now} and there is a run {newest}"
        return CheckResult("clock", "limit", seen, "set the clock: by it runs are named, and their names sorted")
    return CheckResult("clock", "good", f"{now}, after every run")


def _containers() -> CheckResult:
    try:
        from coordinator.networks.launchers.docker import IMAGE, find_image  # noqa: PLC0415  # its SDK is an extra

        return CheckResult("containers", "good", f"Docker {find_image()}, image {IMAGE}")
    except RunError as error:
        seen, _, remedy = str(error).partition("; ")
        return CheckResult(
            "containers", "limit", seen, remedy or "see docs/how-to/containers.md; the other drivers need none"
        )


@as_command
def doctor(*, json: JsonFlag = False) -> int:
    """Check what this machine offers: limits, loopback, disk, clock, containers.

    Each finding is good, a limit, or a problem with its remedy. The exit status is 4 if there is a problem.

    Examples:
      coordinator doctor
      coordinator doctor --json
    """
    findings = examine()
    print_rows("doctor", [asdict(finding) for finding in findings], json)
    return 0 if all(finding.state != "problem" for finding in findings) else 4
