"""States of processes and of their connections, as /proc shows them."""

import subprocess
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import psutil


def ended_process() -> int:
    """Return the id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    return process.pid


def is_gone(process: psutil.Process) -> bool:
    """Return whether a process has ended; it may be a zombie of another parent."""
    with suppress(psutil.NoSuchProcess):
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    return True


def connection_counts(processes: Iterable[psutil.Process], least: int) -> dict[psutil.Process, int]:
    """Return by process the number of its open TCP connections; nothing while all have fewer than `least` sockets together.

    Reading the connections of a busy machine takes long, so they are read only then.
    """
    sockets = {process: _sockets_of(process) for process in processes}
    if sum(map(len, sockets.values())) < least:
        return {}
    opened = _open_connections()
    return {process: len(own & opened) for process, own in sockets.items()}


def _sockets_of(process: psutil.Process) -> set[str]:
    """Return the sockets of a process by their names in /proc."""
    found: set[str] = set()
    with suppress(OSError):
        for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
            with suppress(OSError):
                found.add(str(descriptor.readlink()))
    return {name for name in found if name.startswith("socket:")}


def _open_connections() -> set[str]:
    """Return the sockets of all open TCP connections of this machine."""
    rows = map(str.split, Path("/proc/net/tcp").read_text().splitlines())
    return {f"socket:[{row[9]}]" for row in rows if row[3] == "01"}
