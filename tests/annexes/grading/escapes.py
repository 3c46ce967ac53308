"""Escapes from a submission's process, and a program that tries them: `python escapes.py ORDER`, with an order in JSON.

Every escape is a function that returns if it succeeds, and raises OSError (or ends its process) if it is refused. For files
and signals its word is not enough: the program stays outside, and looks at the file and at the process to be hit. So
the same code is tried without confinement, where it has to succeed if the machine permits it at all.

The program makes the victims, becomes the user of the order, enters the namespaces of the order's layers, and forks one
process for each escape. This process confines itself by these layers as the process of a submission does.
"""

import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import platform
import resource
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from coordinator.annexes.grading import sealed_root
from coordinator.annexes.grading.confinement import Limits, confine, surroundings
from coordinator.annexes.grading.layers import Layer
from emunode import runtime as libc

X86: Final = platform.machine() == "x86_64"
NUMBERS: Final[dict[str, tuple[int | None, int | None]]] = {
    "add_key": (248, 217), "bpf": (321, 280), "capset": (126, 91), "chroot": (161, 51), "clone": (56, 220),
    "copy_file_range": (326, 285), "delete_module": (176, 106), "execveat": (322, 281), "fanotify_init": (300, 262),
    "fchmodat2": (452, 452), "fork": (57, None), "fsopen": (430, 430), "fspick": (433, 433), "futimesat": (261, None),
    "get_robust_list": (274, 100), "init_module": (175, 105), "inotify_add_watch": (254, 27), "inotify_init1": (294, 26),
    "io_uring_setup": (425, 425), "ioperm": (173, None), "iopl": (172, None), "ioprio_set": (251, 30), "kcmp": (312, 272),
    "kexec_load": (246, 104), "keyctl": (250, 219), "kill": (62, 129), "linkat": (265, 37), "memfd_create": (319, 279),
    "memfd_secret": (447, 447), "mincore": (27, 232), "modify_ldt": (154, None), "mount": (165, 40),
    "mount_setattr": (442, 442), "move_pages": (279, 239), "mq_open": (240, 180), "mq_unlink": (241, 181),
    "msgctl": (71, 187), "msgget": (68, 186),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "open_tree": (428, 428), "openat2": (437, 437),
    "perf_event_open": (298, 241), "personality": (135, 92), "pidfd_getfd": (438, 438), "pidfd_open": (434, 434),
    "pidfd_send_signal": (424, 424), "prctl": (157, 167), "prlimit64": (302, 261), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60), "reboot": (169, 142),
    "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240), "sched_getscheduler": (145, 120),
    "sched_setattr": (314, 274), "semctl": (66, 191), "semget": (64, 190), "sethostname": (170, 161), "setns": (308, 268),
    "shmat": (30, 196), "shmctl": (31, 195), "shmget": (29, 194), "swapon": (167, 224), "sync": (162, 81),
    "syslog": (103, 116),
    "tgkill": (234, 131), "timer_create": (222, 107), "tkill": (200, 130), "umount2": (166, 39), "unshare": (272, 97),
    "userfaultfd": (323, 282), "utime": (132, None), "vfork": (58, None), "vmsplice": (278, 75),
}  # fmt: skip
"""Numbers of system calls on x86-64 and arm64."""

FIRST_KEY: Final = 0x7E57
SECRET: Final = "a secret of the teacher"
ALL: Final = frozenset(Layer)


def raw(name: str, *arguments: int | bytes | None) -> int:
    """Make a system call by its number."""
    number = NUMBERS[name][0 if X86 else 1]
    if number is None:
        raise NotImplementedError(name)
    return libc.call_number(number, name, *arguments)


@dataclass
class Target:
    """One escape's victims: a folder with a file, and a process; and what its process has inherited."""

    folder: Path
    victim: int
    writable: int
    """A descriptor of the file that was inherited, open for reading and writing."""
    key: int
    address: int
    """Where the victim has `SECRET` in its memory, as every process that was forked from the same one."""
    port: int
    abstract: str

    @property
    def file(self) -> Path:
        """The file that is to stay as it is."""
        return self.folder / "file"

    def opened(self) -> int:
        """Return the file, open for reading."""
        return os.open(self.file, os.O_RDONLY)


@dataclass
class Escape:
    """One escape, and the layers that stop it when they are alone."""

    name: str
    attempt: Callable[[Target], object]
    stopped_by: frozenset[Layer]
    effect: str = "word"
    """How its success is seen: `word` of the process, the `file`, or the `victim`."""
    root_only: bool = False
    """Whether only root could do it without confinement."""
    optional: bool = False
    """Whether kernels exist that do not have it, so that it may fail without confinement too."""


ESCAPES: Final[list[Escape]] = []
FILTER: Final = frozenset({Layer.FILTER})
FILES: Final = FILTER | {Layer.ROOT, Layer.OTHER_USER}
"""For changes of attributes of files: Landlock does not know these."""
OPENS: Final = FILES | {Layer.LANDLOCK}
PLACES: Final = FILTER | {Layer.ROOT, Layer.LANDLOCK}
"""For files that all users may open."""
SIGNALS: Final = FILTER | {Layer.PROCESSES, Layer.LANDLOCK}
LOOKS: Final = FILTER | {Layer.PROCESSES}


def escape(
    *layers: Layer | frozenset[Layer], effect: str = "word", root_only: bool = False, optional: bool = False
) -> Callable[[Callable[[Target], object]], Callable[[Target], object]]:
    """Add a function to the list."""
    flat = frozenset(each for layer in layers for each in (layer if isinstance(layer, frozenset) else {layer}))

    def add(attempt: Callable[[Target], object]) -> Callable[[Target], object]:
        ESCAPES.append(Escape(attempt.__name__, attempt, flat, effect, root_only, optional))
        return attempt

    return add


# --- files: what is changed ------------------------------------------------------------------------------------------


@escape(OPENS, effect="file")
def open_to_write(at: Target) -> None:
    with at.file.open("w") as file:
        file.write("changed")


@escape(OPENS, effect="file")
def open_to_append(at: Target) -> None:
    with at.file.open("a") as file:
        file.write("changed")


@escape(OPENS, effect="file")
def create(at: Target) -> None:
    (at.folder / "new").touch()


@escape(OPENS, effect="file", optional=True)
def unnamed_file(at: Target) -> None:
    place = os.open(at.folder, os.O_TMPFILE | os.O_RDWR)
    raw("linkat", -100, f"/proc/self/fd/{place}".encode(), -100, bytes(at.folder / "new"), 0x400)


@escape(OPENS, effect="file", optional=True)
def open_by_openat2(at: Target) -> None:
    place = raw("openat2", -100, bytes(at.file), struct.pack("QQQ", os.O_WRONLY | os.O_TRUNC, 0, 0), 24)
    os.write(place, b"changed")


@escape(OPENS, effect="file")
def truncate(at: Target) -> None:
    os.truncate(at.file, 0)


@escape(Layer.DESCRIPTORS, effect="file")
def write_to_inherited(at: Target) -> None:
    os.write(at.writable, b"changed")


@escape(FILTER, Layer.DESCRIPTORS, effect="file")
def truncate_inherited(at: Target) -> None:
    os.ftruncate(at.writable, 0)


@escape(Layer.DESCRIPTORS, effect="file")
def map_inherited(at: Target) -> None:
    mmap.mmap(at.writable, 4)[:4] = b"XXXX"


@escape(OPENS, effect="file")
def rename(at: Target) -> None:
    at.file.rename(at.folder / "new")


@escape(OPENS, effect="file")
def link(at: Target) -> None:
    (at.folder / "new").hardlink_to(at.file)


@escape(OPENS, effect="file")
def symlink(at: Target) -> None:
    (at.folder / "new").symlink_to(at.file)


@escape(OPENS, effect="file")
def unlink(at: Target) -> None:
    at.file.unlink()


@escape(OPENS, effect="file")
def mkdir(at: Target) -> None:
    (at.folder / "new").mkdir()


@escape(OPENS, effect="file")
def rmdir(at: Target) -> None:
    (at.folder / "empty").rmdir()


@escape(OPENS, effect="file")
def mkfifo(at: Target) -> None:
    os.mkfifo(at.folder / "new")


@escape(OPENS, effect="file")
def bind_socket(at: Target) -> None:
    socket.socket(socket.AF_UNIX).bind(str(at.folder / "new"))


@escape(FILES, effect="file")
def chmod(at: Target) -> None:
    at.file.chmod(0o777)


@escape(OPENS, effect="file")
def fchmod(at: Target) -> None:
    os.fchmod(at.opened(), 0o777)


@escape(FILES, effect="file", optional=True)
def fchmodat2(at: Target) -> None:
    raw("fchmodat2", -100, bytes(at.file), 0o777, 0)


@escape(FILES, effect="file")
def chown(at: Target) -> None:
    os.chown(at.file, os.getuid(), os.getgid())


@escape(OPENS, effect="file")
def fchown(at: Target) -> None:
    os.fchown(at.opened(), os.getuid(), os.getgid())


@escape(FILES, effect="file")
def utimensat(at: Target) -> None:
    os.utime(at.file, (1, 1))


@escape(FILES, effect="file", optional=True)
def futimesat(at: Target) -> None:
    raw("futimesat", -100, bytes(at.file), struct.pack("4Q", 1, 0, 1, 0))


@escape(FILES, effect="file", optional=True)
def utime(at: Target) -> None:
    raw("utime", bytes(at.file), struct.pack("2Q", 1, 1))


@escape(FILES, effect="file", optional=True)
def setxattr(at: Target) -> None:
    os.setxattr(at.file, "user.mine", b"1")


@escape(OPENS, effect="file", optional=True)
def fsetxattr(at: Target) -> None:
    os.setxattr(at.opened(), "user.mine", b"1")


@escape(FILES, effect="file", optional=True)
def removexattr(at: Target) -> None:
    os.removexattr(at.file, "user.there")


@escape(OPENS, effect="file", optional=True)
def chattr(at: Target) -> None:
    fcntl.ioctl(at.opened(), 0x40086602, struct.pack("q", 0x40))


@escape(
    FILTER,
    Layer.OTHER_USER,
    Layer.USER_NAMESPACE,
    Layer.CAPABILITIES,
    Layer.ROOT,
    effect="file",
    root_only=True,
    optional=True,
)
def open_by_handle(at: Target) -> None:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    where = ctypes.create_string_buffer(4)
    raw("name_to_handle_at", -100, bytes(at.file), ctypes.addressof(handle), ctypes.addressof(where), 0)
    mount = os.open(at.folder, os.O_RDONLY)
    place = raw("open_by_handle_at", mount, ctypes.addressof(handle), os.O_RDWR)
    mmap.mmap(place, 4)[:4] = b"XXXX"


@escape(FILTER)
def sync(_: Target) -> None:
    raw("sync")


# --- files: what is read ---------------------------------------------------------------------------------------------


@escape(Layer.ROOT, Layer.LANDLOCK)
def read_a_file(at: Target) -> None:
    at.file.read_bytes()


@escape(Layer.ROOT, Layer.LANDLOCK, Layer.OTHER_USER)
def read_a_private_file(at: Target) -> None:
    (at.folder / "private").read_bytes()


@escape(Layer.ROOT, Layer.LANDLOCK)
def list_a_folder(at: Target) -> None:
    sorted(at.folder.iterdir())


@escape(Layer.ROOT)
def stat(at: Target) -> None:
    at.file.stat()


@escape(Layer.ROOT, Layer.FILTER)
def change_directory(at: Target) -> None:
    os.chdir(at.folder)


@escape(Layer.ROOT, Layer.LANDLOCK)
def read_passwords(_: Target) -> None:
    Path("/etc/passwd").read_bytes()


@escape(Layer.ROOT, Layer.LANDLOCK)
def read_sys(_: Target) -> None:
    sorted(Path("/sys/kernel").iterdir())


@escape(FILTER, Layer.ROOT)
def watch_a_folder(at: Target) -> None:
    raw("inotify_add_watch", raw("inotify_init1", 0), bytes(at.folder), 0xFFF)


@escape(Layer.FILTER)
def pages_in_memory(_: Target) -> None:
    memory = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    raw("mincore", address, 4096, bytes(8))


# --- signals ---------------------------------------------------------------------------------------------------------


@escape(SIGNALS, Layer.OTHER_USER, effect="victim")
def kill(at: Target) -> None:
    os.kill(at.victim, signal.SIGKILL)


@escape(SIGNALS, Layer.OTHER_USER, effect="victim")
def kill_a_group(at: Target) -> None:
    os.killpg(at.victim, signal.SIGKILL)


@escape(SIGNALS, Layer.OTHER_USER, effect="victim")
def tkill(at: Target) -> None:
    raw("tkill", at.victim, signal.SIGKILL)


@escape(SIGNALS, Layer.OTHER_USER, effect="victim")
def tgkill(at: Target) -> None:
    raw("tgkill", at.victim, at.victim, signal.SIGKILL)


def queued(number: int) -> bytes:
    """Return struct siginfo of a signal that a program queues."""
    return struct.pack("iiiiii", number, 0, -1, 0, os.getpid(), os.getuid()).ljust(128, b"\0")


@escape(SIGNALS, Layer.OTHER_USER, effect="victim")
def queue_a_signal(at: Target) -> None:
    raw("rt_sigqueueinfo", at.victim, signal.SIGKILL, queued(signal.SIGKILL))


@escape(SIGNALS, Layer.OTHER_USER, effect="victim")
def queue_a_signal_to_a_thread(at: Target) -> None:
    raw("rt_tgsigqueueinfo", at.victim, at.victim, signal.SIGKILL, queued(signal.SIGKILL))


@escape(SIGNALS, Layer.OTHER_USER, effect="victim", optional=True)
def signal_by_pidfd(at: Target) -> None:
    raw("pidfd_send_signal", raw("pidfd_open", at.victim, 0), signal.SIGKILL, None, 0)


@escape(SIGNALS, Layer.OTHER_USER, effect="victim")
def signal_by_owner_of_a_pipe(at: Target) -> None:
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETOWN, at.victim)
    fcntl.fcntl(read, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
    os.write(write, b"x")


@escape(SIGNALS, Layer.OTHER_USER, effect="victim")
def signal_by_owner_of_a_group(at: Target) -> None:
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETOWN, -at.victim)
    fcntl.fcntl(read, fcntl.F_SETSIG, signal.SIGTERM)
    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
    os.write(write, b"x")


@escape(SIGNALS, Layer.OTHER_USER, effect="victim")
def signal_by_extended_owner(at: Target) -> None:
    read, write = os.pipe()
    fcntl.fcntl(read, 15, struct.pack("ii", 1, at.victim))  # F_SETOWN_EX, F_OWNER_PID
    fcntl.ioctl(read, 0x5452, struct.pack("i", 1))  # FIOASYNC
    os.write(write, b"x")


@escape(SIGNALS, Layer.OTHER_USER, effect="victim")
def signal_by_owner_of_a_socket(at: Target) -> None:
    one, other = socket.socketpair()
    fcntl.ioctl(one, 0x8901, struct.pack("i", at.victim))  # FIOSETOWN
    fcntl.ioctl(one, 0x5452, struct.pack("i", 1))
    other.send(b"x")


@escape(FILTER)
def end_itself_by_kill(_: Target) -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(5)


@escape(FILTER)
def stop_itself(_: Target) -> None:
    # The signal 0 would prove nothing: the filter looks at the number.
    os.kill(os.getpid(), signal.SIGCONT)


@escape(FILTER)
def end_itself_by_timer(_: Target) -> None:
    event = struct.pack("qii", 0, signal.SIGKILL, 0).ljust(64, b"\0")
    raw("timer_create", 1, event, bytes(8))


@escape(FILTER)
def alarm(_: Target) -> None:
    signal.setitimer(signal.ITIMER_REAL, 1000)


# --- other processes -------------------------------------------------------------------------------------------------


@escape(LOOKS, Layer.LANDLOCK, Layer.OTHER_USER, Layer.USER_NAMESPACE, optional=True)
def trace(at: Target) -> None:
    raw("ptrace", 0x4206, at.victim, None, None)


def vector(address: int, size: int) -> bytes:
    return struct.pack("QQ", address, size)


@escape(LOOKS, Layer.LANDLOCK, Layer.OTHER_USER, Layer.USER_NAMESPACE, optional=True)
def read_memory(at: Target) -> None:
    buffer = ctypes.create_string_buffer(len(SECRET))
    here = vector(ctypes.addressof(buffer), len(SECRET))
    raw("process_vm_readv", at.victim, here, 1, vector(at.address, len(SECRET)), 1, 0)
    if buffer.raw != SECRET.encode():
        raise ProcessLookupError("another process")


@escape(LOOKS, Layer.LANDLOCK, Layer.OTHER_USER, Layer.USER_NAMESPACE, optional=True)
def write_memory(at: Target) -> None:
    buffer = ctypes.create_string_buffer(SECRET.encode())
    here = vector(ctypes.addressof(buffer), len(SECRET))
    raw("process_vm_writev", at.victim, here, 1, vector(at.address, len(SECRET)), 1, 0)


@escape(Layer.ROOT, Layer.LANDLOCK, Layer.OTHER_USER, Layer.USER_NAMESPACE, optional=True)
def read_memory_in_proc(at: Target) -> None:
    place = os.open(f"/proc/{at.victim}/mem", os.O_RDONLY)
    if os.pread(place, len(SECRET), at.address) != SECRET.encode():
        raise ProcessLookupError("another process")


@escape(OPENS, Layer.USER_NAMESPACE, optional=True)
def write_memory_in_proc(at: Target) -> None:
    place = os.open(f"/proc/{at.victim}/mem", os.O_RDWR)
    os.pwrite(place, SECRET.encode(), at.address)


@escape(Layer.ROOT, Layer.LANDLOCK, Layer.OTHER_USER, Layer.USER_NAMESPACE, optional=True)
def read_environment_in_proc(at: Target) -> None:
    Path(f"/proc/{at.victim}/environ").read_bytes()


@escape(Layer.ROOT, Layer.LANDLOCK)
def read_status_in_proc(at: Target) -> None:
    Path(f"/proc/{at.victim}/status").read_bytes()


@escape(OPENS)
def blame_in_proc(at: Target) -> None:
    Path(f"/proc/{at.victim}/oom_score_adj").write_text("1000")


@escape(LOOKS, optional=True)
def open_a_process(at: Target) -> None:
    raw("pidfd_open", at.victim, 0)


@escape(LOOKS, Layer.LANDLOCK, Layer.OTHER_USER, Layer.USER_NAMESPACE, optional=True)
def take_a_descriptor(at: Target) -> None:
    raw("pidfd_getfd", raw("pidfd_open", at.victim, 0), 0, 0)


@escape(LOOKS, Layer.OTHER_USER)
def set_scheduler(at: Target) -> None:
    os.sched_setscheduler(at.victim, os.SCHED_BATCH, os.sched_param(0))


@escape(LOOKS, Layer.OTHER_USER)
def set_scheduling_attributes(at: Target) -> None:
    raw("sched_setattr", at.victim, struct.pack("IIQiIQQQ", 48, 3, 0, _nicer(at.victim), 0, 0, 0, 0), 0)


def _nicer(process: int) -> int:
    """Return a niceness that any user may set, whatever the tests run at: one that is not lower."""
    return min(19, 1 + os.getpriority(os.PRIO_PROCESS, process))


@escape(LOOKS)
def get_scheduler(at: Target) -> None:
    raw("sched_getscheduler", at.victim)


@escape(LOOKS, Layer.OTHER_USER)
def set_affinity(at: Target) -> None:
    os.sched_setaffinity(at.victim, {0})


@escape(LOOKS, Layer.OTHER_USER)
def set_priority(at: Target) -> None:
    os.setpriority(os.PRIO_PROCESS, at.victim, _nicer(at.victim))


@escape(LOOKS, Layer.OTHER_USER, optional=True)
def set_io_priority(at: Target) -> None:
    raw("ioprio_set", 1, at.victim, (2 << 13) | 7)


@escape(LOOKS, Layer.OTHER_USER)
def set_limits(at: Target) -> None:
    resource.prlimit(at.victim, resource.RLIMIT_NOFILE, (10, 10))


@escape(LOOKS, Layer.OTHER_USER, Layer.USER_NAMESPACE, optional=True)
def see_pages(at: Target) -> None:
    page = struct.pack("Q", at.address & ~4095)
    raw("move_pages", at.victim, 1, page, None, bytes(4), 0)


@escape(LOOKS, Layer.LANDLOCK, Layer.OTHER_USER, Layer.USER_NAMESPACE, optional=True)
def compare_processes(at: Target) -> None:
    raw("kcmp", at.victim, at.victim, 1, 0, 0)


@escape(LOOKS, Layer.LANDLOCK, Layer.OTHER_USER, Layer.USER_NAMESPACE, optional=True)
def list_of_locks(at: Target) -> None:
    raw("get_robust_list", at.victim, bytes(8), bytes(8))


# --- what is shared on the machine -----------------------------------------------------------------------------------


@escape(FILTER, Layer.IPC, optional=True)
def shared_memory(at: Target) -> None:
    raw("shmat", raw("shmget", at.key, 0, 0), None, 0)


@escape(FILTER, Layer.IPC, optional=True)
def semaphores(at: Target) -> None:
    raw("semget", at.key, 0, 0)


@escape(FILTER, Layer.IPC, optional=True)
def message_queue(at: Target) -> None:
    raw("msgget", at.key, 0)


@escape(FILTER, optional=True)
def named_queue(at: Target) -> None:
    raw("mq_open", f"escape{at.key}".encode(), os.O_CREAT | os.O_RDWR, 0o600, None)


@escape(FILTER, optional=True)
def keys(_: Target) -> None:
    raw("add_key", b"user", b"escape", b"1", 1, -2)


@escape(FILTER, optional=True)
def key_rings(_: Target) -> None:
    raw("keyctl", 0, -3, 1)


@escape(FILTER, Layer.NETWORK)
def connect(at: Target) -> None:
    # As bytes: text would need a codec from a file.
    socket.socket().connect((b"127.0.0.1", at.port))


@escape(FILTER, Layer.NETWORK, Layer.LANDLOCK)
def connect_to_abstract_name(at: Target) -> None:
    socket.socket(socket.AF_UNIX).connect(f"\0{at.abstract}")


@escape(FILTER, Layer.ROOT)
def connect_to_named_socket(at: Target) -> None:
    socket.socket(socket.AF_UNIX).connect(str(at.folder / "socket"))


@escape(FILTER)
def any_socket(_: Target) -> None:
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


@escape(FILTER)
def netlink(_: Target) -> None:
    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)


@escape(FILTER)
def pair_of_sockets(_: Target) -> None:
    socket.socketpair()


@escape(PLACES, optional=True)
def terminal(_: Target) -> None:
    os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY)


# --- processes and programs of its own -------------------------------------------------------------------------------


@escape(FILTER)
def fork(_: Target) -> None:
    if not os.fork():
        os._exit(0)


@escape(FILTER, optional=True)
def fork_by_number(_: Target) -> None:
    if not raw("fork"):
        os._exit(0)


@escape(FILTER)
def clone(_: Target) -> None:
    if not raw("clone", signal.SIGCHLD, 0, 0, 0, 0):
        os._exit(0)


@escape(FILTER, optional=True)
def clone_into_namespace(_: Target) -> None:
    if not raw("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0):
        os._exit(0)


@escape(FILTER, optional=True)
def clone3(_: Target) -> None:
    if not libc.call_number(435, "clone3", struct.pack("11Q", 0, 0, 0, 0, signal.SIGCHLD, 0, 0, 0, 0, 0, 0), 88):
        os._exit(0)


@escape(PLACES)
def execute(_: Target) -> None:
    os.execv("/bin/true", ["true"])


@escape(FILTER, optional=True)
def execute_from_memory(_: Target) -> None:
    place = raw("memfd_create", b"x", 0)
    with contextlib.suppress(OSError):
        os.write(place, Path("/proc/self/exe").read_bytes())
    raw("execveat", place, b"", struct.pack("QQ", 0, 0), struct.pack("Q", 0), 0x1000)


@escape(FILTER, optional=True)
def memory_file(_: Target) -> None:
    raw("memfd_create", b"x", 0)


@escape(FILTER)
def new_session(_: Target) -> None:
    os.setsid()


@escape(FILTER)
def outlive_its_grader(_: Target) -> None:
    raw("prctl", 1, 0, 0, 0, 0)


@escape(FILTER)
def become_traceable(_: Target) -> None:
    raw("prctl", 4, 1, 0, 0, 0)


@escape(FILTER)
def adopt_processes(_: Target) -> None:
    raw("prctl", 36, 1, 0, 0, 0)


@escape(FILTER)
def another_personality(_: Target) -> None:
    raw("personality", 0x0040000)


@escape(FILTER)
def change_its_limits(_: Target) -> None:
    raw("prlimit64", 0, resource.RLIMIT_STACK, struct.pack("QQ", 1 << 22, 1 << 22), None)


# --- rights ----------------------------------------------------------------------------------------------------------


@escape(FILTER, optional=True)
def fault_handler(_: Target) -> None:
    raw("userfaultfd", 1)


@escape(FILTER, optional=True)
def io_uring(_: Target) -> None:
    raw("io_uring_setup", 1, bytes(120))


@escape(FILTER, Layer.OTHER_USER, Layer.USER_NAMESPACE, Layer.CAPABILITIES, root_only=True, optional=True)
def bpf(_: Target) -> None:
    raw("bpf", 0, struct.pack("5I", 2, 4, 4, 1, 0).ljust(128, b"\0"), 128)


@escape(FILTER, Layer.OTHER_USER, Layer.USER_NAMESPACE, Layer.CAPABILITIES, root_only=True, optional=True)
def performance_events(_: Target) -> None:
    raw("perf_event_open", struct.pack("IIQ", 1, 112, 0).ljust(112, b"\0"), -1, 0, -1, 0)


RIGHTS: Final = FILTER | {Layer.OTHER_USER, Layer.USER_NAMESPACE, Layer.CAPABILITIES}


@escape(FILTER, Layer.USER_NAMESPACE, optional=True)
def namespace_with_all_rights(_: Target) -> None:
    raw("unshare", 0x10000000)
    raw("unshare", 0x20000)


@escape(FILTER, Layer.OTHER_USER, Layer.CAPABILITIES, root_only=True)
def own_mounts(_: Target) -> None:
    raw("unshare", 0x20000)


@escape(RIGHTS, root_only=True, optional=True)
def join_a_namespace(_: Target) -> None:
    raw("setns", os.open("/proc/self/ns/uts", os.O_RDONLY), 0)


@escape(RIGHTS, Layer.ROOT, Layer.LANDLOCK, effect="file", root_only=True)
def mount(at: Target) -> None:
    raw("mount", b"tmpfs", bytes(at.folder), b"tmpfs", 0, None)


@escape(RIGHTS, Layer.LANDLOCK, root_only=True, optional=True)
def unmount(_: Target) -> None:
    raw("umount2", b"/dev/shm", 2)


@escape(RIGHTS, root_only=True, optional=True)
def open_a_file_system(_: Target) -> None:
    raw("fsopen", b"tmpfs", 0)


@escape(RIGHTS, root_only=True, optional=True)
def clone_a_tree(_: Target) -> None:
    raw("open_tree", -100, b"/", 1)


@escape(FILTER, optional=True)
def open_a_tree(_: Target) -> None:
    raw("open_tree", -100, b"/", 0)


@escape(RIGHTS, root_only=True, optional=True)
def reconfigure_a_file_system(_: Target) -> None:
    raw("fspick", -100, b"/", 0)


@escape(FILTER, Layer.OTHER_USER, Layer.CAPABILITIES, root_only=True)
def another_root(_: Target) -> None:
    raw("chroot", b"/")


@escape(RIGHTS, root_only=True)
def another_user(_: Target) -> None:
    os.setresuid(1, 1, 1)


@escape(RIGHTS, root_only=True)
def another_group(_: Target) -> None:
    os.setresgid(1, 1, 1)


@escape(RIGHTS, root_only=True)
def other_groups(_: Target) -> None:
    os.setgroups([1])


@escape(RIGHTS, root_only=True)
def name_of_the_host(_: Target) -> None:
    name = os.uname().nodename.encode()
    raw("sethostname", name, len(name))


@escape(FILTER, Layer.OTHER_USER, Layer.CAPABILITIES, root_only=True)
def take_capabilities(_: Target) -> None:
    raw("capset", struct.pack("Ii", 0x20080522, 0), struct.pack("6I", 1, 1, 0, 0, 0, 0))


@escape(RIGHTS, root_only=True, optional=True)
def kernel_messages(_: Target) -> None:
    raw("syslog", 10, None, 0)


@escape(FILTER, Layer.OTHER_USER, Layer.USER_NAMESPACE, Layer.CAPABILITIES, root_only=True, optional=True)
def watch_all_files(_: Target) -> None:
    raw("fanotify_init", 0, os.O_RDONLY)


@escape(RIGHTS, root_only=True, optional=True)
def ports_of_the_machine(_: Target) -> None:
    raw("ioperm", 0x80, 1, 1)


@escape(FILTER, optional=True)
def table_of_segments(_: Target) -> None:
    raw("modify_ldt", 0, bytes(64), 64)


def reaches(number: int, attempt: Callable[[], object]) -> None:
    """Make a call that is invalid on purpose: an error about its arguments shows that it was permitted."""
    try:
        attempt()
    except OSError as error:
        if error.errno != number:
            raise


@escape(RIGHTS, root_only=True)
def restart_the_machine(_: Target) -> None:
    reaches(22, lambda: raw("reboot", 1, 2, 3, None))


@escape(RIGHTS, root_only=True, optional=True)
def load_a_module(_: Target) -> None:
    reaches(8, lambda: raw("init_module", b"", 0, b""))


@escape(RIGHTS, root_only=True, optional=True)
def swap(_: Target) -> None:
    reaches(2, lambda: raw("swapon", b"", 0))


@escape(FILTER)
def move_pages_into_a_pipe(_: Target) -> None:
    write = os.pipe()[1]
    data = ctypes.create_string_buffer(b"x")
    raw("vmsplice", write, vector(ctypes.addressof(data), 1), 1, 0)


@escape(FILTER)
def copy_between_files(at: Target) -> None:
    _, write = os.pipe()
    os.sendfile(write, at.writable, 0, 1)


@escape(FILTER)
def send_a_descriptor(_: Target) -> None:
    read, write = os.pipe()
    channel = socket.socket(fileno=int(os.environ["ESCAPE_CHANNEL"]))
    socket.send_fds(channel, [b"x"], [read, write])


@escape(FILTER)
def lock_a_file(at: Target) -> None:
    fcntl.flock(at.opened(), fcntl.LOCK_SH)


def machine_code(code: bytes) -> Any:
    """Return a function of these instructions."""
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(code)
    ESCAPES_MEMORY.append(memory)
    return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))


ESCAPES_MEMORY: Final[list[mmap.mmap]] = []

if X86:

    @escape(FILTER, optional=True)
    def calls_of_32_bits(_: Target) -> None:
        # mov eax, 20 (getpid); int 0x80; ret
        if machine_code(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")() < 0:
            raise OSError(38, "no 32-bit calls")

    @escape(FILTER, optional=True)
    def calls_of_x32(_: Target) -> None:
        libc.call_number(0x40000000 | 39, "getpid of x32")


# --- the program -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Try the escapes of the order in the first argument, and print the results as JSON."""
    order = json.loads(sys.argv[1])
    chosen = [each for each in ESCAPES if each.name in order["escapes"]]
    layers = [Layer(name) for name in order["layers"]]
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    if not os.geteuid():
        # The machine keeps its mounts, whatever an escape does to them.
        libc.call("unshare", sealed_root.NEW_MOUNTS)
        libc.call("mount", None, b"/", None, sealed_root.RECURSIVE | sealed_root.PRIVATE, None)
    try:
        (folder / "library").mkdir()
        if order["user"]:
            os.chown(folder, order["user"], order["user"])
            os.setgroups([])
            os.setresgid(*[order["user"]] * 3)
            os.setresuid(*[order["user"]] * 3)
            # Without this the kernel would keep the user out of what belongs to this process.
            libc.call("prctl", 4, 1, 0, 0, 0)
        print(json.dumps(tried(chosen, layers, folder)))
    finally:
        shutil.rmtree(folder, ignore_errors=True)


SECRET_IN_MEMORY: Final = ctypes.create_string_buffer(SECRET.encode())


def tried(chosen: list[Escape], layers: list[Layer], folder: Path) -> dict[str, Any]:
    """Try escapes with these layers: the result of each, and the protection that held."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = stack.enter_context(socket.socket(socket.AF_UNIX))
        name = f"escapes-{os.getpid()}"
        abstract.bind(f"\0{name}")
        abstract.listen()
        key = stack.enter_context(shared_objects())
        shared_victim = stack.enter_context(sleeping())
        targets = {}
        for each in chosen:
            victim = stack.enter_context(sleeping()) if each.effect == "victim" else shared_victim
            place = prepared(folder / each.name)
            writable = os.open(place / "file", os.O_RDWR)
            address = ctypes.addressof(SECRET_IN_MEMORY)
            targets[each.name] = Target(place, victim, writable, key, address, listener.getsockname()[1], name)
            if each.name == "connect_to_named_socket":
                named = stack.enter_context(socket.socket(socket.AF_UNIX))
                named.bind(str(place / "socket"))
                named.listen()
        before = {each.name: seen(folder / each.name) for each in chosen if each.effect == "file"}
        said = words(chosen, targets, layers, [folder / "library"])
        results = said["results"]
        for each in chosen:
            if each.effect == "file" and results[each.name] != "unavailable":
                changed = seen(folder / each.name) != before[each.name]
                results[each.name] = "succeeded" if changed else f"no effect, {results[each.name]}"
            elif each.effect == "victim" and results[each.name] == "succeeded" and lives(targets[each.name].victim):
                results[each.name] = "no effect"
        return said


def prepared(place: Path) -> Path:
    """Make the folder of one escape."""
    place.mkdir()
    (place / "empty").mkdir()
    (place / "file").write_text("as it was")
    (place / "private").write_text(SECRET)
    (place / "private").chmod(0o600)
    with contextlib.suppress(OSError):  # a file system without attributes
        os.setxattr(place / "file", "user.there", b"1")
    return place


def seen(place: Path) -> list[Any]:
    """Return everything that an escape may change in its folder."""
    found: list[Any] = []
    for path in [place, *sorted(place.rglob("*"))]:
        state = path.lstat()
        content = path.read_text() if path.is_file() else ""
        found.append((str(path), state.st_mode, state.st_uid, state.st_nlink, state.st_ctime_ns, state.st_dev, content))
    return found


@contextlib.contextmanager
def sleeping() -> Iterator[int]:
    """Provide a process that does nothing, to be hit."""
    pid = os.fork()
    if not pid:
        os.setsid()
        while True:
            time.sleep(1000)
    try:
        yield pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def lives(pid: int) -> bool:
    """Return whether a process goes on; a signal takes effect when the process has its next turn."""
    for _ in range(100):
        if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
            return False
        time.sleep(0.005)
    return True


@contextlib.contextmanager
def shared_objects() -> Iterator[int]:
    """Provide shared memory, a semaphore and a queue under one key."""
    key = FIRST_KEY + os.getpid()
    memory, semaphore, queue = (
        raw("shmget", key, 4096, 0o1666),
        raw("semget", key, 1, 0o1666),
        raw("msgget", key, 0o1666),
    )
    try:
        yield key
    finally:
        raw("shmctl", memory, 0, None)
        raw("semctl", semaphore, 0, 0, None)
        raw("msgctl", queue, 0, None)
        with contextlib.suppress(OSError):
            raw("mq_unlink", f"escape{key}".encode())


def words(
    chosen: list[Escape], targets: dict[str, Target], layers: list[Layer], readable: list[Path]
) -> dict[str, Any]:
    """Try each escape in a process of its own, below a server in the namespaces; the words of these processes."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.close(read)
            control = socket.socket()
            namespaces = sealed_root.enter(layers, readable)
            if namespaces.holds(Layer.PROCESSES):
                sealed_root.go_on_as_first_process(control)
            around = surroundings(layers, readable, namespaces)
            results, protection = {}, {}
            for each in chosen:
                results[each.name], found = word(each, targets[each.name], layers, around)
                protection.update(found)
            os.write(write, json.dumps({"results": results, "protection": protection}).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        data = stream.read()
    os.waitpid(pid, 0)
    said: dict[str, Any] = json.loads(data)
    return said


def word(each: Escape, target: Target, layers: list[Layer], around: Any) -> tuple[str, dict[str, str | None]]:
    """Try one escape in a process of its own."""
    read, write = os.pipe()
    channel, other = socket.socketpair()
    pid = os.fork()
    if not pid:
        found: dict[str, str | None] = {}
        try:
            os.environ["ESCAPE_CHANNEL"] = str(channel.fileno())
            if layers:
                protection, _ = confine(Limits(memory_bytes=1 << 40), around, {write, channel.fileno()}, layers)
                found = {str(layer): reason for layer, reason in protection.items()}
            each.attempt(target)
            result = "succeeded"
        except NotImplementedError:
            result = "unavailable"
        except OSError as error:
            result = f"refused: {error}"
        except BaseException as error:  # a mistake of this program, which the test shows
            result = f"broken: {error!r}"
        os.write(write, json.dumps([result, found]).encode())
        os._exit(0)
    os.close(write)
    channel.close()
    other.close()
    with os.fdopen(read, "rb") as stream:
        data = stream.read()
    _, status = os.waitpid(pid, 0)
    if data:
        result, found = json.loads(data)
        return result, found
    # Another program in its place, or the end that it wanted, leaves no word.
    code = os.waitstatus_to_exitcode(status)
    return ("succeeded" if code in (0, -signal.SIGKILL) else f"ended with {code}"), {}


if __name__ == "__main__":
    main()
