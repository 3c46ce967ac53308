"""Does this machine offer what runs need? Each finding says what was seen and, where it falls short, the remedy."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

from coordinator.launch.namespace import why_not
from coordinator.plan import RESERVED_DESCRIPTORS, descriptor_limit, tracked_connections
from coordinator.rundir import abandoned


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
        _loopback,
        _backlog,
        _tracking,
        _namespaces,
        _memory,
        _cores,
        _leftovers,
        _runs,
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


def _loopback() -> Finding:
    try:
        with socket.create_server(("127.77.77.77", 0)) as listener:
            address = listener.getsockname()
            with socket.create_connection(address, 1, ("127.77.77.78", 0)):
                return Finding("loopback", "good", "every address of 127.0.0.0/8 can be bound and reached")
    except OSError as error:
        return Finding("loopback", "problem", str(error), "ip link set lo up")


def _backlog() -> Finding:
    try:
        backlog = int(Path("/proc/sys/net/core/somaxconn").read_text())
    except OSError:
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
    return Finding("connection tracking", "limit", seen, "coordinator run --netns, for a network of its own")


def _namespaces() -> Finding:
    problem = why_not()
    if problem:
        return Finding("network namespaces", "limit", problem.partition(": ")[2])
    return Finding("network namespaces", "good", "--netns works")


def _memory() -> Finding:
    free = psutil.virtual_memory().available
    return Finding("memory", "good" if free > 2**30 else "limit", f"{free / 2**30:.1f} GiB available")


def _cores() -> Finding:
    return Finding("cores", "good", f"{len(os.sched_getaffinity(0))}: as many host processes by default")


def _leftovers() -> Finding:
    found = abandoned()
    if found:
        return Finding("leftovers", "limit", f"{len(found)} folders of killed runs", "coordinator clean")
    return Finding("leftovers", "good", "none")


def _runs() -> Finding:
    here = Path.cwd()
    if os.access(here, os.W_OK):
        return Finding("run directories", "good", f"{here}/runs can be written")
    return Finding("run directories", "problem", f"{here} cannot be written", "cd elsewhere, or --out DIR")
