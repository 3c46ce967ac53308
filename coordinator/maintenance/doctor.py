"""Does this machine offer what runs need? Each finding says what was seen and, where it falls short, the remedy."""

import os
import resource
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from coordinator.history.run_directory import RUNS, abandoned, stamp_of_now
from coordinator.networks.launchers.namespace import why_not
from coordinator.networks.launchers.records import orphans
from coordinator.planning.plan import RESERVED_DESCRIPTORS, descriptor_limit, system_files, tracked_connections
from emunode import runtime as libc
from emunode.errors import RunError

MANY_SOCKETS = 100_000
MANY_PROCESSES = 1024
FEW_PROCESSES = 32
ROOMY_BYTES = 2**30
TIGHT_BYTES = 64 * 2**20
"""A run of a few thousand nodes writes some of it."""


@dataclass(frozen=True)
class Finding:
    """One thing looked at: `state` is `good`, `limit` (works, with a bound) or `problem` (does not)."""

    subject: str
    state: str
    seen: str
    remedy: str = ""


def examine() -> list[Finding]:
    """Look at everything."""
    looks: tuple[Callable[[], Finding], ...] = (
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


def _descriptors() -> Finding:
    limit = descriptor_limit()
    room = limit - RESERVED_DESCRIPTORS
    seen = f"{limit:,} file descriptors a process: {max(room, 0):,} link ends a host"
    if room < 64:
        return Finding("descriptors", "problem", seen, "ulimit -n 4096")
    return Finding(
        "descriptors", "good" if limit >= 4096 else "limit", seen, "" if limit >= 4096 else "ulimit -n 20000"
    )


def _file_table() -> Finding:
    used, most = system_files()
    seen = f"{most - used:,} more files and sockets of all processes: {(most - used) // 2:,} links"
    if most - used < MANY_SOCKETS:
        return Finding("file table", "limit", seen, f"sysctl fs.file-max={used + 10 * MANY_SOCKETS}")
    return Finding("file table", "good", seen)


def _processes() -> Finding:
    if not libc.has("prctl"):
        return Finding("processes", "problem", "a process cannot be made to end with its parent", "use Linux")
    bounds = {"sysctl kernel.pid_max": _number("/proc/sys/kernel/pid_max")}
    if os.geteuid():
        bounds["ulimit -u"] = resource.getrlimit(resource.RLIMIT_NPROC)[0]
    group = Path("/proc/self/cgroup").read_text().splitlines()[-1].rpartition(":")[2]
    bounds["pids.max of the control group"] = _number(f"/sys/fs/cgroup{group}/pids.max")
    known = {where: most for where, most in bounds.items() if most > 0}  # none, or no number: no bound
    where = min(known, key=known.__getitem__, default="")
    most = known.get(where, 2**31)
    seen = f"at most {most:,} processes ({where})" if where else "as many processes as there is memory for"
    if most < FEW_PROCESSES:
        return Finding("processes", "problem", seen, f"raise it: {where}")
    if most < MANY_PROCESSES:
        return Finding("processes", "limit", seen, f"--ranks-per-host, or raise it: {where}")
    return Finding("processes", "good", seen)


def _number(path: str) -> int:
    """What a file of the kernel says; -1 where there is none, or no number in it."""
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):
        return -1


def _loopback() -> Finding:
    try:
        with socket.create_server(("127.77.77.77", 0)) as listener:
            address = listener.getsockname()
            with socket.create_connection(address, 1, ("127.77.77.78", 0)):
                return Finding("loopback", "good", "every address of 127.0.0.0/8 can be bound and reached")
    except OSError as error:
        return Finding("loopback", "problem", str(error), "ip link set lo up")


def _backlog() -> Finding:
    backlog = _number("/proc/sys/net/core/somaxconn")
    if backlog < 0:
        return Finding("accept queue", "limit", "unknown", "mount /proc")
    state = "good" if backlog >= 1024 else "limit"
    return Finding(
        "accept queue", state, f"{backlog:,} connections", "" if state == "good" else "sysctl net.core.somaxconn=4096"
    )


def _tracking() -> Finding:
    tracked = tracked_connections()
    if tracked is None:
        return Finding("connection tracking", "good", "no packet filter tracks connections")
    seen = f"a packet filter tracks at most {tracked[1]:,} connections, {tracked[0]:,} now"
    return Finding(
        "connection tracking", "limit", seen, "larger runs move to a network namespace of their own (--netns auto)"
    )


def _namespaces() -> Finding:
    problem = why_not()
    if problem:
        return Finding("network namespaces", "limit", problem.partition(": ")[2] or problem)
    return Finding("network namespaces", "good", "can be made: --netns auto and always work")


def _memory() -> Finding:
    free = psutil.virtual_memory().available
    return Finding("memory", "good" if free > 2**30 else "limit", f"{free / 2**30:.1f} GiB available")


def _cores() -> Finding:
    return Finding("cores", "good", f"{len(os.sched_getaffinity(0))}: as many host processes by default")


def _leftovers() -> Finding:
    folders, containers = len(abandoned()), len(orphans())
    if folders or containers:
        seen = f"of killed runs: unfinished folders: {folders}, runs with containers: {containers}"
        return Finding("leftovers", "limit", seen, "coordinator clean")
    return Finding("leftovers", "good", "none")


def _runs() -> Finding:
    try:
        here = Path.cwd()
    except OSError as error:
        return Finding("run directories", "problem", f"the working directory: {error.strerror}", "cd elsewhere")
    if os.access(RUNS if RUNS.exists() else here, os.W_OK):
        return Finding("run directories", "good", f"{here / RUNS} can be written")
    return Finding("run directories", "problem", f"{here / RUNS} cannot be written", "cd elsewhere, or --out DIR")


def _disk() -> Finding:
    free = shutil.disk_usage(RUNS if RUNS.exists() else ".").free
    seen, remedy = f"{free / 2**30:.1f} GiB free", "coordinator clean, remove old runs, or --out DIR"
    longest = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    if longest != resource.RLIM_INFINITY:
        seen, free = f"{seen}, {longest / 2**20:,.1f} MiB a file", min(free, longest)
        remedy = f"{remedy}; ulimit -f unlimited"
    if free < TIGHT_BYTES:
        return Finding("disk", "problem", seen, remedy)
    return Finding("disk", "limit", seen, remedy) if free < ROOMY_BYTES else Finding("disk", "good", seen)


def _clock() -> Finding:
    now = stamp_of_now()
    latest = (path / "latest" for path in (RUNS.iterdir() if RUNS.is_dir() else ()))
    newest = max((path.readlink().name for path in latest if path.is_symlink()), default="")
    if newest > now:
        seen = f"it is {now} and there is a run {newest}"
        return Finding("clock", "limit", seen, "set the clock: by it runs are named, and their names sorted")
    return Finding("clock", "good", f"{now}, after every run")


def _containers() -> Finding:
    try:
        from coordinator.networks.launchers.docker import IMAGE, find_image  # noqa: PLC0415  # its SDK is an extra

        return Finding("containers", "good", f"Docker {find_image()}, image {IMAGE}")
    except RunError as error:
        seen, _, remedy = str(error).partition("; ")
        return Finding("containers", "limit", seen, remedy or "see docs/containers.md; the other drivers need none")
