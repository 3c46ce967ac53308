"""The filter of system calls (seccomp) for a process that runs a submission: a list of allowed calls, with argument checks.

A call that is not on the list fails with EPERM, and Python raises PermissionError with the line of the submission; killing
the process would hide that line. Of those in `TOLD` the kernel tells the grader first (`attempts`): no library makes them
by itself. Calls with a fallback in C libraries fail with ENOSYS, as in an older kernel: their
arguments are in memory, where a filter cannot look. So do calls that are newer than this table. A call of another
architecture (also x32 and the 32-bit calls of x86-64) has other numbers, and kills the process.

The C library alone decides the calls that Python makes, so the list has the calls of glibc and of musl, old and new.
"""

import contextlib
import ctypes
import os
import platform
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import pack
from typing import Final

from emunode import runtime as libc

PR_SET_SECCOMP: Final = 22
SECCOMP_MODE_FILTER: Final = 2
SECCOMP: Final = (317, 277)
SECCOMP_SET_FILTER, NEW_LISTENER = 1, 1 << 3
EPERM, ENOSYS = 1, 38
X32_CALL: Final = 0x40000000
"""The bit in the number of a call of the x32 interface; such a call reports the architecture of x86-64."""

# --- conditions on arguments -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OneOf:
    """A condition: the argument is one of these values; of an `int` the kernel reads the low 32 bits only."""

    argument: int
    values: tuple[int, ...]
    wide: bool = False
    """Whether the kernel reads all 64 bits."""


@dataclass(frozen=True, slots=True)
class OnlyBits:
    """A condition: the argument has none but these bits."""

    argument: int
    bits: int
    wide: bool = False


@dataclass(frozen=True, slots=True)
class AllBits:
    """A condition: the argument has all of these bits; they are in the low 32 bits."""

    argument: int
    bits: int


Condition = OneOf | OnlyBits | AllBits
TELLING: Final = 200
"""The descriptor that a process hands its listener on over: above its limit of descriptors, so it cannot open it again."""
OWN_PROCESS: Final = -1
"""Stands for the number of the process that installs the filter."""

NULL: Final = (0,)
# O_CLOEXEC, O_NOFOLLOW, O_DIRECTORY, O_LARGEFILE, O_DIRECT, O_NONBLOCK, O_NOCTTY: the same set of bits on both.
READ_FLAGS: Final = 0o2000000 | 0o400000 | 0o200000 | 0o100000 | 0o40000 | 0o4000 | 0o400
THREAD_FLAGS: Final = 0x7D0F00
"""CLONE_VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, SETTLS, PARENT_SETTID, CHILD_CLEARTID, DETACHED."""
CLONE_THREAD: Final = 0x10000
F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_DUPFD_CLOEXEC = 0, 1, 2, 3, 4, 1030
STATUS_FLAGS: Final = 0o4000 | 0o2000 | 0o100000 | 0o400000 | 3
"""The flags that F_SETFL may set: O_NONBLOCK and O_APPEND, and flags that it ignores; not O_ASYNC: it sends signals."""
TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TCGETS2 = (
    0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A,
)  # fmt: skip
PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA = 3, 15, 16, 0x53564D41
SIGABRT: Final = 6
ADVICE: Final = (0, 1, 2, 3, 4, 8, 14, 15)
"""NORMAL to DONTNEED, FREE, HUGEPAGE and NOHUGEPAGE; not the advice that poisons pages or merges equal ones."""
QUERY_AND_PRIVATE_BARRIERS: Final = (0, 8, 16)

# Name: (number on x86-64, number on arm64); the kernel never changes them. None: the architecture does not have the call.
FREE_CALLS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    # Reading and writing open files.
    "read": (0, 63), "readv": (19, 65), "pread64": (17, 67), "preadv": (295, 69), "write": (1, 64), "writev": (20, 66),
    "close": (3, 57), "lseek": (8, 62), "dup": (32, 23), "dup2": (33, None), "dup3": (292, 24), "pipe": (22, None),
    "pipe2": (293, 59), "eventfd2": (290, 19), "poll": (7, None), "ppoll": (271, 73), "select": (23, None),
    "pselect6": (270, 72), "epoll_create1": (291, 20), "epoll_ctl": (233, 21), "epoll_wait": (232, None),
    "epoll_pwait": (281, 22), "recvfrom": (45, 207),
    # Looking at files.
    "fstat": (5, 80), "newfstatat": (262, 79), "stat": (4, None), "lstat": (6, None), "statx": (332, 291),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None),
    "readlinkat": (267, 78), "getdents": (78, None), "getdents64": (217, 61), "getcwd": (79, 17),
    # Its own memory.
    "mmap": (9, 222), "mprotect": (10, 226), "munmap": (11, 215), "mremap": (25, 216), "brk": (12, 214),
    # Its own threads and signal handlers.
    "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "sigaltstack": (131, 132),
    "restart_syscall": (219, 128), "futex": (202, 98), "set_robust_list": (273, 99), "set_tid_address": (218, 96),
    "rseq": (334, 293), "sched_yield": (24, 124), "getcpu": (309, 168), "exit": (60, 93), "exit_group": (231, 94),
    # The clock, random numbers, and the identity of the process.
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115), "nanosleep": (35, 101),
    "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153), "getrusage": (98, 165), "sysinfo": (99, 179),
    "uname": (63, 160), "getrandom": (318, 278), "getrlimit": (97, 163), "getpid": (39, 172), "gettid": (186, 178),
    "getppid": (110, 173), "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "getpgrp": (111, None), "getresuid": (118, 148), "getresgid": (120, 150), "getgroups": (115, 158),
}  # fmt: skip

CHECKED_CALLS: Final[Mapping[str, tuple[tuple[int | None, int | None], tuple[tuple[Condition, ...], ...], int]]] = {
    "open": ((2, None), ((OnlyBits(1, READ_FLAGS),),), EPERM),
    "openat": ((257, 56), ((OnlyBits(2, READ_FLAGS),),), EPERM),
    # Without an address: to the other end of a connection that exists.
    "sendmsg": ((46, 211), ((OneOf(0, (TELLING,)),),), EPERM),
    "sendto": ((44, 206), ((OnlyBits(3, 0x4040), OneOf(4, NULL, wide=True)),), EPERM),
    "fcntl": (
        (72, 25),
        (
            (OneOf(1, (F_DUPFD, F_GETFD, F_SETFD, F_GETFL, F_DUPFD_CLOEXEC)),),
            (OneOf(1, (F_SETFL,)), OnlyBits(2, STATUS_FLAGS, wide=True)),
        ),
        EPERM,
    ),
    "ioctl": ((16, 29), ((OneOf(1, (TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX, TCGETS2)),),), EPERM),
    "prctl": ((157, 167), ((OneOf(0, (PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_SET_VMA)),),), EPERM),
    "madvise": ((28, 233), ((OneOf(2, ADVICE),),), EPERM),
    "membarrier": ((324, 283), ((OneOf(0, QUERY_AND_PRIVATE_BARRIERS),),), EPERM),
    # A thread in its own namespaces; not a process.
    "clone": ((56, 220), ((AllBits(0, CLONE_THREAD), OnlyBits(0, THREAD_FLAGS, wide=True)),), EPERM),
    # `abort` of the C library. It may end itself in no way that looks as if somebody else had ended it.
    "kill": ((62, 129), ((OneOf(0, (OWN_PROCESS,)), OneOf(1, (SIGABRT,))),), EPERM),
    "tgkill": ((234, 131), ((OneOf(0, (OWN_PROCESS,)), OneOf(2, (SIGABRT,))),), EPERM),
    # Its own limits may be read, and not changed.
    "prlimit64": ((302, 261), ((OneOf(0, NULL), OneOf(2, NULL, wide=True)),), EPERM),
    # glibc asks about its own threads too, and accepts only ENOSYS as a reason to go on without an answer.
    "sched_getaffinity": ((204, 123), ((OneOf(0, (0, OWN_PROCESS)),),), ENOSYS),
}

TOLD_CALLS: Final[Mapping[str, tuple[int | None, int | None]]] = {
    # Processes and programs.
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "setsid": (112, 157), "setpgid": (109, 154),
    # Signals.
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424),
    "timer_create": (222, 107), "setitimer": (38, 103), "alarm": (37, None),
    # Sockets.
    "socket": (41, 198), "socketpair": (53, 199), "connect": (42, 203), "bind": (49, 200), "listen": (50, 201),
    "accept": (43, 202), "accept4": (288, 242), "sendmmsg": (307, 269), "io_uring_setup": (425, 425),
    # Changes of files.
    "creat": (85, None), "truncate": (76, 45), "ftruncate": (77, 46), "rename": (82, None), "renameat": (264, 38),
    "renameat2": (316, 276), "unlink": (87, None), "unlinkat": (263, 35), "rmdir": (84, None), "mkdir": (83, None),
    "mkdirat": (258, 34), "link": (86, None), "linkat": (265, 37), "symlink": (88, None), "symlinkat": (266, 36),
    "mknod": (133, None), "mknodat": (259, 33), "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53),
    "chown": (92, None), "fchown": (93, 55), "lchown": (94, None), "fchownat": (260, 54), "utimensat": (280, 88),
    # Rights, and what all processes share.
    "mount": (165, 40), "umount2": (166, 39), "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51),
    "pivot_root": (155, 41), "setuid": (105, 146), "setresuid": (117, 147), "capset": (126, 91), "seccomp": (317, 277),
    "setrlimit": (160, 164), "bpf": (321, 280), "keyctl": (250, 219), "add_key": (248, 217), "perf_event_open": (298, 241),
    "userfaultfd": (323, 282), "shmget": (29, 194), "msgget": (68, 186), "semget": (64, 190), "mq_open": (240, 180),
    "reboot": (169, 142), "sched_setaffinity": (203, 122),
}  # fmt: skip
"""Calls that are refused, and told: attempts to reach something outside the process."""
TOLD_ARGUMENTS: Final = ("open", "openat", "clone", "kill", "tgkill", "prlimit64")
"""Calls of `CHECKED_CALLS` whose refused arguments the kernel tells as well."""
OUTSIDE: Final = {"open": "open to write", "openat": "open to write", "clone": "fork"}
"""How an attempt is called, where not by its system call."""

MISSING_CALLS: Final[Mapping[str, int]] = {
    "clone3": 435, "openat2": 437, "close_range": 436, "epoll_pwait2": 441, "futex_waitv": 449,
}  # fmt: skip
"""Calls that answer as in an older kernel; the same numbers on both architectures."""
NEWEST_CALL: Final = 450
"""Calls after this one are not in the tables."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """One kind of processor: its code in the kernel's records, and its column in the tables."""

    name: str
    code: int
    column: int


ARCHITECTURES: Final = {
    each.name: each for each in (Architecture("x86_64", 0xC000003E, 0), Architecture("aarch64", 0xC00000B7, 1))
}


def architecture() -> Architecture | None:
    """Return the architecture of this interpreter, None if there is no table for it."""
    # A 32-bit interpreter on a 64-bit kernel makes other calls than the machine's name suggests.
    known = sys.platform == "linux" and sys.maxsize > 1 << 32 and sys.byteorder == "little"
    return ARCHITECTURES.get(platform.machine()) if known and libc.has("prctl") else None


def told_name(number: int) -> str:
    """Return the name of a refused call of this machine that the kernel told."""
    kind = architecture()
    numbers = {**TOLD_CALLS, **{name: CHECKED_CALLS[name][0] for name in TOLD_ARGUMENTS}}
    found = (name for name, columns in numbers.items() if kind and columns[kind.column] == number)
    name = next(found, f"system call {number}")
    return OUTSIDE.get(name, name)


def install(kind: Architecture, telling: int | None = None) -> None:
    """Install the filter in this process until it ends; raises OSError where the kernel has no filters.

    A listener for the calls in `TOLD_CALLS` goes to the other end of the connection `telling`, which is closed. It gets
    none where the kernel has no listeners, or this process has one already.
    """
    if telling is not None:
        with socket.socket(fileno=telling) as connection, contextlib.suppress(OSError):
            listener = _install(program(kind, os.getpid(), telling=True), telling=True)
            socket.send_fds(connection, [b"l"], [listener])
            os.close(listener)
            return
    _install(program(kind, os.getpid()), telling=False)


def _install(instructions: "Sequence[Instruction]", *, telling: bool) -> int:
    code = assemble(instructions)
    buffer = ctypes.create_string_buffer(code, len(code))
    record = _Program(len(code) // 8, ctypes.addressof(buffer))
    if not telling:
        return libc.call("prctl", PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(record), 0, 0)
    number = SECCOMP[0 if platform.machine() == "x86_64" else 1]
    return libc.call_number(number, "seccomp", SECCOMP_SET_FILTER, NEW_LISTENER, ctypes.addressof(record))


class _Program(ctypes.Structure):
    """struct sock_fprog."""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p))


# --- the program -----------------------------------------------------------------------------------------------------

LOAD, JUMP_EQUAL, JUMP_GREATER, JUMP_AT_LEAST, JUMP_SET, AND, RETURN = 0x20, 0x15, 0x25, 0x35, 0x45, 0x54, 0x06
ALLOW: Final = 0x7FFF0000
KILL: Final = 0x80000000
TELL: Final = 0x7FC00000
FAIL: Final = 0x00050000
"""Plus an error number: the call fails with it."""
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16
"""Offsets in the kernel's record of a call; an argument has eight bytes, the low four first."""
WORD: Final = 0xFFFFFFFF

Instruction = tuple[int, int, int, int]
"""(code, instructions to skip if true, instructions to skip if false, operand) of the kernel's packet filter."""


def assemble(instructions: Sequence[Instruction]) -> bytes:
    """Encode a program as the kernel reads it."""
    return b"".join(pack("HBBI", *each) for each in instructions)


def program(kind: Architecture, process: int, *, telling: bool = False) -> list[Instruction]:
    """Return the filter for an architecture and the process that it is installed in; `telling` if it has a listener."""
    return list(_program(kind, process, telling=telling))


def allowed_numbers(kind: Architecture) -> dict[int, str]:
    """Return the calls that are allowed, with some arguments at least: number to name."""
    numbers = {**FREE_CALLS, **{name: call[0] for name, call in CHECKED_CALLS.items()}}
    return {number: name for name, columns in numbers.items() if (number := columns[kind.column]) is not None}


def _program(kind: Architecture, process: int, *, telling: bool) -> Iterator[Instruction]:
    yield LOAD, 0, 0, ARCHITECTURE
    yield JUMP_EQUAL, 1, 0, kind.code
    yield RETURN, 0, 0, KILL
    yield LOAD, 0, 0, NUMBER
    yield JUMP_AT_LEAST, 0, 1, X32_CALL
    yield RETURN, 0, 0, KILL
    for columns in FREE_CALLS.values():
        yield from _call(columns[kind.column], [(RETURN, 0, 0, ALLOW)])
    for name, (columns, alternatives, error) in CHECKED_CALLS.items():
        refusal = TELL if telling and name in TOLD_ARGUMENTS else FAIL | error
        yield from _call(columns[kind.column], list(_checked(alternatives, refusal, process)))
    for columns in TOLD_CALLS.values() if telling else ():
        yield from _call(columns[kind.column], [(RETURN, 0, 0, TELL)])
    for missing in MISSING_CALLS.values():
        yield from _call(missing, [(RETURN, 0, 0, FAIL | ENOSYS)])
    yield JUMP_GREATER, 0, 1, NEWEST_CALL
    yield RETURN, 0, 0, FAIL | ENOSYS
    yield RETURN, 0, 0, FAIL | EPERM


def _call(number: int | None, block: list[Instruction]) -> Iterator[Instruction]:
    """Assemble a block for one number; the block ends with a decision."""
    if number is not None:
        yield JUMP_EQUAL, 0, len(block), number
        yield from block


def _checked(alternatives: tuple[tuple[Condition, ...], ...], refusal: int, process: int) -> Iterator[Instruction]:
    """Allow a call if all conditions of one alternative hold; otherwise decide `refusal`."""
    for conditions in alternatives:
        tests = [test for condition in conditions for test in _tests(condition, process)]
        for place, (code, if_true, if_false, operand) in enumerate(tests):
            # `FAILED` stands for the instruction after this alternative's decision.
            away = len(tests) - place
            yield code, _jump(if_true, away), _jump(if_false, away), operand
        yield RETURN, 0, 0, ALLOW
    yield RETURN, 0, 0, refusal


FAILED: Final = -1


def _jump(target: int, away: int) -> int:
    return away if target == FAILED else target


def _tests(condition: Condition, process: int) -> Iterator[Instruction]:
    """Assemble the test of one condition: jump to `FAILED`, or continue after the last instruction."""
    low = ARGUMENTS + 8 * condition.argument
    if not isinstance(condition, AllBits) and condition.wide:
        yield LOAD, 0, 0, low + 4
        yield JUMP_EQUAL, 0, FAILED, 0
    yield LOAD, 0, 0, low
    if isinstance(condition, AllBits):
        yield AND, 0, 0, condition.bits
        yield JUMP_EQUAL, 0, FAILED, condition.bits
    elif isinstance(condition, OnlyBits):
        yield JUMP_SET, FAILED, 0, WORD & ~condition.bits
    else:
        values = [process if value == OWN_PROCESS else value for value in condition.values]
        for place, value in enumerate(values):
            left = len(values) - 1 - place
            yield JUMP_EQUAL, left, 0 if left else FAILED, value & WORD
