"""The limits of this machine, as far as they restrict runs."""

import os
import resource
from pathlib import Path
from typing import NamedTuple

from emunode.available_memory import available_memory, free_memory

__all__ = ["available_memory", "free_memory"]

RESERVED_DESCRIPTORS = 64
"""Descriptors of a host or coordinator besides links: listener, control, poller, event loop, log, libraries."""

PAGE = os.sysconf("SC_PAGE_SIZE")


class Machine(NamedTuple):
    """The properties of a machine that decide the default number of hosts."""

    descriptor_limit: int
    cores: int


def this_machine() -> Machine:
    """Return the limits of this process on this machine."""
    return Machine(descriptor_limit(), len(os.sched_getaffinity(0)))


def descriptor_limit() -> int:
    """Return the soft limit of open files per process; children inherit it."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def process_memory() -> int | None:
    """Return the bytes that this process may still allocate by its own limits (`ulimit -d`, `ulimit -v`); None without
    limits.
    """
    limits = {kind: resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_DATA, resource.RLIMIT_AS)}
    if set(limits.values()) == {resource.RLIM_INFINITY}:
        return None
    pages = [int(count) for count in Path("/proc/self/statm").read_text().split()]
    used = {resource.RLIMIT_AS: pages[0] * PAGE, resource.RLIMIT_DATA: pages[5] * PAGE}
    left: list[int] = [soft - used[kind] for kind, soft in limits.items() if soft != resource.RLIM_INFINITY]
    return min(left)


def tracked_connections() -> tuple[int, int] | None:
    """Return (in use, limit) of the packet filter in this network namespace; None if it does not track connections."""
    try:
        folder = Path("/proc/sys/net/netfilter")
        return int((folder / "nf_conntrack_count").read_text()), int((folder / "nf_conntrack_max").read_text())
    except OSError:
        return None


def system_files() -> tuple[int, int]:
    """Return (in use, limit) of the file table that all processes share."""
    used, _, most = Path("/proc/sys/fs/file-nr").read_text().split()
    return int(used), int(most)


def process_limit() -> int | None:
    """Return one more than the largest process id; None where the kernel does not publish it."""
    try:
        return int(Path("/proc/sys/kernel/pid_max").read_text())
    except OSError:
        return None
