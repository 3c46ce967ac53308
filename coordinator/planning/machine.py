"""The limits of this machine, as far as they decide what can run on it."""

import os
import resource
from pathlib import Path
from typing import NamedTuple

import psutil

RESERVED_DESCRIPTORS = 64
"""Descriptors of a host or coordinator besides links: listener, control, poller, event loop, log, libraries."""


class Machine(NamedTuple):
    """The properties of a machine that decide the default number of hosts."""

    descriptor_limit: int
    cores: int


def this_machine() -> Machine:
    """The limits of this process on this machine."""
    return Machine(descriptor_limit(), len(os.sched_getaffinity(0)))


def descriptor_limit() -> int:
    """The soft limit of open files per process; children inherit it."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def available_memory() -> int:
    """Bytes that new processes can use without swapping."""
    available: int = psutil.virtual_memory().available
    return available


def tracked_connections() -> tuple[int, int] | None:
    """(in use, limit) of the packet filter in this network namespace; None if it does not track connections."""
    try:
        folder = Path("/proc/sys/net/netfilter")
        return int((folder / "nf_conntrack_count").read_text()), int((folder / "nf_conntrack_max").read_text())
    except OSError:
        return None


def system_files() -> tuple[int, int]:
    """(in use, limit) of the file table that all processes share."""
    used, _, most = Path("/proc/sys/fs/file-nr").read_text().split()
    return int(used), int(most)


def process_limit() -> int | None:
    """One more than the largest process id; None where the kernel does not publish it."""
    try:
        return int(Path("/proc/sys/kernel/pid_max").read_text())
    except OSError:
        return None
