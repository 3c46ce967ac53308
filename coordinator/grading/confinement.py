"""Confinement of a process that runs a submission: the limits that it puts on itself before it reads the submission.

Three layers. Resource limits bound memory, processor time and open files. A filter of system calls (seccomp, on x86-64)
refuses new processes and programs, signals to others, sockets, and everything that changes a file. It cannot be removed, and
it holds for root too, where limits on processes do not. An audit hook turns the same attempts into an exception
that says what is not allowed, and keeps a list of them. Elsewhere than on x86-64 the filter is missing: `layers` says so.

This protects the machine of a teacher from mistakes and pranks. It is not a container: a submission may read files.
"""

import ctypes
import os
import platform
import resource
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from struct import pack
from typing import Final

from emunode import runtime as libc

MEBIBYTE: Final = 1 << 20
PR_SET_NO_NEW_PRIVS: Final = 38
PR_SET_SECCOMP: Final = 22
SECCOMP_MODE_FILTER: Final = 2
AUDIT_ARCH_X86_64: Final = 0xC000003E
X32_SYSTEM_CALL: Final = 0x40000000


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a submission's resources."""

    answer_seconds: float = 10.0
    """Real time for one answer, and processor time from the start to the end of a process."""
    total_seconds: float = 300.0
    """Real time of all checks together; what is left then is undecided."""
    memory_bytes: int = 1024 * MEBIBYTE
    """Address space."""
    output_bytes: int = 64 * 1024
    """The most that one process may print, in bytes."""
    answer_bytes: int = 32 * MEBIBYTE


def confine(limits: Limits) -> list[str]:
    """Confine this process until it ends; returns the list in which denied attempts are noted."""
    sys.dont_write_bytecode = True
    for kind, most in (
        (resource.RLIMIT_AS, limits.memory_bytes),
        (resource.RLIMIT_CPU, int(limits.total_seconds) + 1),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        resource.setrlimit(kind, (most, most))
    # An error to the writer in place of a signal that ends the process.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    if has_filter():
        _install_filter()
    denied: list[str] = []
    sys.addaudithook(_AuditHook(denied))
    return denied


def layers() -> list[str]:
    """The kinds of protection that work on this machine."""
    return ["resource limits", "audit hook", *(["system call filter"] if has_filter() else [])]


def has_filter() -> bool:
    """Whether the filter of system calls is written for this machine."""
    return platform.machine() == "x86_64" and sys.platform == "linux" and libc.has("prctl")


# --- the audit hook --------------------------------------------------------------------------------------------------

DENIED_EVENTS: Final = frozenset({
    "os.exec", "os.fork", "os.forkpty", "os.kill", "os.killpg", "os.posix_spawn", "os.spawn", "os.system", "os.remove",
    "os.rename", "os.rmdir", "os.mkdir", "os.link", "os.symlink", "os.truncate", "os.chmod", "os.chown",
    "subprocess.Popen", "pty.spawn", "signal.pthread_kill", "socket.__new__", "socket.connect", "socket.bind",
    "ctypes.dlsym", "ctypes.call_function", "resource.setrlimit", "resource.prlimit", "shutil.rmtree",
})  # fmt: skip


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


WRITE_FLAGS: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

# --- the filter of system calls --------------------------------------------------------------------------------------

# Numbers of x86-64; the kernel never changes them.
DENIED_CALLS: Final = {
    "kill": 62, "tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297, "pidfd_open": 434,
    "pidfd_send_signal": 424, "pidfd_getfd": 438, "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311,
    "fork": 57, "vfork": 58, "execve": 59, "execveat": 322, "unshare": 272, "setns": 308, "prlimit64": 302,
    "socket": 41, "connect": 42, "shmget": 29, "msgget": 68, "mq_open": 240, "bpf": 321, "keyctl": 250, "add_key": 248,
    "creat": 85, "truncate": 76, "ftruncate": 77, "rename": 82, "renameat": 264, "renameat2": 316, "mkdir": 83,
    "mkdirat": 258, "rmdir": 84, "link": 86, "linkat": 265, "unlink": 87, "unlinkat": 263, "symlink": 88,
    "symlinkat": 266, "chmod": 90, "fchmod": 91, "fchmodat": 268, "chown": 92, "fchown": 93, "lchown": 94,
    "fchownat": 260, "mknod": 133, "mknodat": 259, "utime": 132, "utimes": 235, "utimensat": 280, "setxattr": 188,
    "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "reboot": 169, "sethostname": 170,
    "settimeofday": 164, "clock_settime": 227, "init_module": 175, "finit_module": 313, "delete_module": 176,
    "kexec_load": 246, "setpriority": 141, "sched_setaffinity": 203, "setsid": 112, "setpgid": 109,
}  # fmt: skip
MISSING_CALLS: Final = {"clone3": 435, "openat2": 437, "io_uring_setup": 425, "memfd_create": 319}
"""Calls that answer as in an older kernel, so that the C library uses calls that the filter can look into."""
CLONE, OPEN, OPENAT = 56, 2, 257
CLONE_THREAD: Final = 0x10000

LOAD, JUMP_EQUAL, JUMP_SET, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
ALLOW: Final = 0x7FFF0000
DENY: Final = 0x00050000
EPERM, ENOSYS = 1, 38
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in the kernel's record of a call; an argument has eight bytes, the low four first."""


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


def _install_filter() -> None:
    code = b"".join(pack("HBBI", *instruction) for instruction in _instructions())
    buffer = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(code) // 8, ctypes.addressof(buffer))
    libc.require("prctl", PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.require("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0)


def _instructions() -> Iterator[tuple[int, int, int, int]]:
    """(code, jump if true, jump if false, operand): a program for the kernel's packet filter."""
    yield LOAD, 0, 0, ARCHITECTURE
    yield JUMP_EQUAL, 1, 0, AUDIT_ARCH_X86_64
    yield RETURN, 0, 0, DENY | EPERM
    yield LOAD, 0, 0, NUMBER
    # The x32 interface has other numbers for the same calls.
    yield JUMP_AT_LEAST, 0, 1, X32_SYSTEM_CALL
    yield RETURN, 0, 0, DENY | ENOSYS
    for number in DENIED_CALLS.values():
        yield JUMP_EQUAL, 0, 1, number
        yield RETURN, 0, 0, DENY | EPERM
    for number in MISSING_CALLS.values():
        yield JUMP_EQUAL, 0, 1, number
        yield RETURN, 0, 0, DENY | ENOSYS
    # A thread is allowed, a process is not; files may be opened to read.
    yield from _argument_test(CLONE, 0, CLONE_THREAD, allowed=True)
    yield from _argument_test(OPEN, 1, WRITE_FLAGS, allowed=False)
    yield from _argument_test(OPENAT, 2, WRITE_FLAGS, allowed=False)
    yield RETURN, 0, 0, ALLOW


def _argument_test(number: int, argument: int, bits: int, *, allowed: bool) -> Iterator[tuple[int, int, int, int]]:
    """For one call: allow it, or deny it, if an argument has any of these bits; the other way round if it has none."""
    yield JUMP_EQUAL, 0, 4, number
    yield LOAD, 0, 0, ARGUMENTS + 8 * argument
    yield JUMP_SET, 0, 1, bits
    yield RETURN, 0, 0, ALLOW if allowed else DENY | EPERM
    yield RETURN, 0, 0, DENY | EPERM if allowed else ALLOW
