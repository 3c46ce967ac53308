"""Confinement of a process that runs a submission: layers that it puts on itself before it reads the submission.

The server of `worker` has entered namespaces and a sealed root (`sealed_root`). The process closes inherited
descriptors, limits its resources, becomes another user if it is root, gives up all capabilities, restricts itself to
Python's library (`landlock`) and to a list of system calls (`system_calls`). Not even root can undo this. An audit hook
turns attempts into exceptions that name the event; a submission can get around it, so its purpose is clear messages.

Every layer may be missing on a machine. `confine` names the layers in force, and why the others are missing.
"""

import contextlib
import os
import platform
import resource
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from struct import pack
from typing import Final

from coordinator.annexes.grading import landlock, system_calls
from coordinator.annexes.grading.layers import ALL_LAYERS, Layer, Protection, failure
from coordinator.annexes.grading.sealed_root import NEW_USER
from emunode import runtime as libc

MEBIBYTE: Final = 1 << 20
PR_SET_DUMPABLE, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 4, 24, 38, 47
PR_CAP_AMBIENT_CLEAR_ALL: Final = 4
CAPABILITY_VERSION: Final = 0x20080522
CAPABILITIES: Final = 64
PROCESSOR_GRACE: Final = 5
"""Seconds between SIGXCPU, to name the reason, and SIGKILL, for a submission that ignores the first."""
OTHER_USERS: Final = (1_900_000_000, 65534)
"""A number that no user has, then the usual one without rights, where the machine maps few numbers."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a submission's resources."""

    answer_seconds: float = 10.0
    """Real time for one answer, and processor time from the start to the end of a process."""
    total_seconds: float = 300.0
    """Real time of all checks together; later checks are undecided."""
    memory_bytes: int = 1024 * MEBIBYTE
    """Address space."""
    output_bytes: int = 64 * 1024
    """The most that one process may print, in bytes."""
    answer_bytes: int = 32 * MEBIBYTE

    @property
    def processor_seconds(self) -> int:
        """Processor time of one process."""
        return int(self.total_seconds) + 1


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Results of the server's probes, valid for all processes that it forks."""

    readable: Sequence[Path]
    """The files and folders that a submission may read."""
    namespaces: Protection
    other_user: int | None
    """The user that a process becomes; None without such a one."""
    no_other_user: str | None
    """The reason for None; None if the server is not root, so that there is nothing to change."""


def surroundings(wanted: Collection[Layer], readable: Sequence[Path], namespaces: Protection) -> Surroundings:
    """Find the user that a process of this server can change to."""
    if Layer.OTHER_USER not in wanted or os.geteuid():
        return Surroundings(readable, namespaces, None, None)
    reason = ""
    for user in OTHER_USERS:
        # In a child, since there is no way back.
        reason = libc.in_child(lambda user=user: _refusal(user, readable).encode(), 30.0).decode()  # type: ignore[misc]
        if not reason:
            return Surroundings(readable, namespaces, user, None)
    return Surroundings(readable, namespaces, None, reason)


def _refusal(user: int, readable: Sequence[Path]) -> str:
    """Change to `user`; return the reason why this fails, or the files that this user could not read."""

    def read_as_user() -> None:
        _become(user)
        for path in readable:
            _read_samples(path)

    return failure(read_as_user) or ""


def _read_samples(path: Path) -> None:
    """Open some files of a folder that modules may be imported from later."""
    files = [path] if path.is_file() else [each for each in sorted(path.iterdir()) if each.is_file()]
    for file in files[:20]:
        file.open("rb").close()


def _become(user: int) -> None:
    libc.call("setgroups", 0, None)
    libc.call("setresgid", user, user, user)
    libc.call("setresuid", user, user, user)


def confine(
    limits: Limits,
    surrounding: Surroundings,
    keep: Collection[int],
    wanted: Collection[Layer] = ALL_LAYERS,
    telling: int | None = None,
) -> tuple[Protection, list[str]]:
    """Confine this process until it ends; return the protections in force, and the list for the audit hook's notes of
    attempts.

    The process keeps only the descriptors `keep`. Over `telling`, which is closed, it hands on the listener of its filter.
    """
    sys.dont_write_bytecode = True
    parent = os.getppid()
    found = Protection(surrounding.namespaces)
    if surrounding.no_other_user is not None:
        found[Layer.OTHER_USER] = surrounding.no_other_user
    user = surrounding.other_user
    steps: list[tuple[Layer, Callable[[], object]]] = [
        (Layer.DESCRIPTORS, lambda: _close_others(keep)),
        (Layer.LIMITS, lambda: _limit(limits)),
        *([] if user is None else [(Layer.OTHER_USER, lambda: _become(user))]),
        # Without a table of users, so that it cannot make a namespace where it has rights again.
        (Layer.USER_NAMESPACE, lambda: libc.call("unshare", NEW_USER)),
        (Layer.CAPABILITIES, _drop_capabilities),
    ]
    last: list[tuple[Layer, Callable[[], object]]] = [
        (Layer.LANDLOCK, lambda: landlock.restrict(surrounding.readable)),
        (Layer.FILTER, lambda: _install_filter(telling)),
    ]
    _take(steps, wanted, found)
    # After the last change of its user and rights: such a change would reset the first two of these.
    libc.require("prctl", libc.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    libc.require("prctl", PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.require("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)
    _take(last, wanted, found)
    denied: list[str] = []
    if Layer.HOOK in wanted:
        sys.addaudithook(_AuditHook(denied))
        found[Layer.HOOK] = None
    return found, denied


def _take(steps: Sequence[tuple[Layer, Callable[[], object]]], wanted: Collection[Layer], found: Protection) -> None:
    for layer, step in steps:
        if layer in wanted:
            found[layer] = failure(step)


def _close_others(keep: Collection[int]) -> None:
    """Close all descriptors but the standard ones and `keep`."""
    edges = [2, *sorted(each for each in keep if each > 2), os.sysconf("SC_OPEN_MAX")]
    for low, high in pairwise(edges):
        os.closerange(low + 1, high)


def _limit(limits: Limits) -> None:
    seconds = limits.processor_seconds
    for kind, soft, hard in (
        (resource.RLIMIT_AS, limits.memory_bytes, limits.memory_bytes),
        (resource.RLIMIT_CPU, seconds, seconds + PROCESSOR_GRACE),
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_NOFILE, 64, 64),
    ):
        resource.setrlimit(kind, (soft, hard))
    # An error to the writer in place of a signal that ends the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)


def _drop_capabilities() -> None:
    """Give up all capabilities, also capabilities that a program could get back."""
    for number in range(CAPABILITIES):
        # The kernel has fewer; the rest is refused, as is the whole to a process that has no right to drop.
        with contextlib.suppress(OSError):
            libc.call("prctl", PR_CAPBSET_DROP, number, 0, 0, 0)
    with contextlib.suppress(OSError):
        libc.call("prctl", PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
    libc.call("capset", pack("=Ii", CAPABILITY_VERSION, 0), bytes(24))


def _install_filter(telling: int | None) -> None:
    kind = system_calls.architecture()
    if kind is None:
        raise OSError(0, f"there is no table of system calls for {platform.machine()}")
    system_calls.install(kind, telling)


# --- the audit hook --------------------------------------------------------------------------------------------------

DENIED_EVENTS: Final = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.posix_spawn", "os.spawn", "os.system", "os.remove",
    "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "subprocess.Popen", "pty.spawn", "signal.pthread_kill", "socket.__new__", "socket.connect", "socket.bind",
    "ctypes.dlsym", "ctypes.call_function", "resource.setrlimit", "resource.prlimit", "shutil.rmtree", "fcntl.fcntl",
    "fcntl.ioctl", "fcntl.flock", "fcntl.lockf", "os.setxattr", "os.removexattr", "os.chflags", "os.utime",
})  # fmt: skip
WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


class _AuditHook:
    """Refuses the events of `DENIED_EVENTS`, and opening a file to write."""

    __slots__ = ("_denied",)

    def __init__(self, denied: list[str]) -> None:
        self._denied = denied

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event in DENIED_EVENTS or (event == "open" and _writes(arguments)):
            name = event if event != "open" else f"open of {arguments[0]!r} to write"
            if len(self._denied) < 20:
                self._denied.append(name)
            raise PermissionError(f"a submission may not call {name}")


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(flags, int) and bool(flags & WRITE_FLAGS)
