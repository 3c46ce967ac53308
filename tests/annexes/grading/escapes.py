"""Escapes from a submission's process, and a program that tries them: `python escapes.py ORDER`, with an order in JSON.

Every escape is a line of `tests/golden/grading/escapes.csv`: most make one system call, the others are functions here. An
escape returns if it succeeds, and raises OSError (or ends its process) if it is refused. For files
and signals its word is not enough: the program stays outside, and looks at the file and at the process to be hit. So
the same code is tried without confinement, where it has to succeed if the machine permits it at all.

The program makes the victims, becomes the user of the order, enters the namespaces of the order's layers, and forks one
process for each escape. This process confines itself by these layers as the process of a submission does.
"""

import ast
import contextlib
import ctypes
import fcntl
import json
import mmap
import os
import platform
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from coordinator.annexes.grading import sealed_root
from coordinator.annexes.grading.confinement import Limits, confine, surroundings
from coordinator.annexes.grading.layers import Layer
from emunode import runtime as libc
from tests.helpers.support import golden_rows

COLUMN: Final = platform.machine()
NUMBERS: Final = {row["name"]: row.get(COLUMN) for row in golden_rows("grading", "system_calls")}
"""Numbers of system calls that the C library may not have; none where the machine has no such call."""

FIRST_KEY: Final = 0x7E57
SECRET: Final = "a secret of the teacher"


def raw(name: str, *arguments: int | bytes | None) -> int:
    """Make a system call by its number, or by the function of its name."""
    if name not in NUMBERS:
        return libc.call(name, *arguments)
    number = NUMBERS[name]
    if not number:
        raise NotImplementedError(name)
    return libc.call_number(int(number), name, *arguments)


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

    def value(self, name: str) -> int | bytes:
        """Return what a word in a call of the table stands for; most are files in the folder."""
        match name:
            case "victim" | "writable" | "key" | "address":
                number: int = getattr(self, name)
                return number
            case "page":
                return self.address & ~4095
            case "process":
                return os.getpid()
            case "user":
                return os.getuid()
            case "nicer":
                # Any user may set a niceness that is not lower, whatever the tests run at.
                return min(19, 1 + os.getpriority(os.PRIO_PROCESS, self.victim))
        return bytes(self.folder / name)


@dataclass
class Escape:
    """One escape, and the layers that stop it when they are alone."""

    name: str
    attempt: Callable[[Target], object]
    stopped_by: frozenset[Layer]
    effect: str
    """How its success is seen: `word` of the process, the `file`, or the `victim`."""
    root_only: bool
    """Whether only root could do it without confinement."""
    optional: bool
    """Whether kernels exist that do not have it, so that it may fail without confinement too."""


def evaluated(term: Any, at: Target) -> Any:
    """Make a call of the table, such as `('fchmod', ('open', 'file', 0), 511)`: a word stands for a value of the target."""
    if isinstance(term, str):
        return at.value(term)
    if not isinstance(term, tuple):
        return term
    name, *arguments = term
    match name:
        case "pack":
            return struct.pack(arguments[0], *(evaluated(each, at) for each in arguments[1:]))
        case "format":
            return arguments[0] % evaluated(arguments[1], at)
    return raw(name, *(evaluated(each, at) for each in arguments))


def make_call(call: str, permitted_error: str, at: Target) -> None:
    """Make a call of the table; one that is invalid on purpose shows by its error that it was permitted."""
    process = os.getpid()
    try:
        evaluated(ast.literal_eval(call), at)
    except OSError as error:
        if str(error.errno) != permitted_error:
            raise
    if os.getpid() != process:  # a copy of this process
        os._exit(0)


def unnamed_file(at: Target) -> None:
    place = os.open(at.folder, os.O_TMPFILE | os.O_RDWR)
    raw("linkat", -100, f"/proc/self/fd/{place}".encode(), -100, bytes(at.folder / "new"), 0x400)


def map_inherited(at: Target) -> None:
    mmap.mmap(at.writable, 4)[:4] = b"XXXX"


def bind_socket(at: Target) -> None:
    socket.socket(socket.AF_UNIX).bind(str(at.folder / "new"))


def open_by_handle(at: Target) -> None:
    handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
    where = ctypes.create_string_buffer(4)
    raw("name_to_handle_at", -100, bytes(at.folder / "file"), ctypes.addressof(handle), ctypes.addressof(where), 0)
    mount = os.open(at.folder, os.O_RDONLY)
    place = raw("open_by_handle_at", mount, ctypes.addressof(handle), os.O_RDWR)
    mmap.mmap(place, 4)[:4] = b"XXXX"


def pages_in_memory(_: Target) -> None:
    memory = mmap.mmap(-1, 4096)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    raw("mincore", address, 4096, bytes(8))


def signal_by_owner_of_a_pipe(at: Target) -> None:
    signal_by_owner(at.victim, signal.SIGKILL)


def signal_by_owner_of_a_group(at: Target) -> None:
    signal_by_owner(-at.victim, signal.SIGTERM)


def signal_by_owner(owner: int, number: int) -> None:
    read, write = os.pipe()
    fcntl.fcntl(read, fcntl.F_SETOWN, owner)
    fcntl.fcntl(read, fcntl.F_SETSIG, number)
    fcntl.fcntl(read, fcntl.F_SETFL, os.O_ASYNC)
    os.write(write, b"x")


def signal_by_extended_owner(at: Target) -> None:
    read, write = os.pipe()
    fcntl.fcntl(read, 15, struct.pack("ii", 1, at.victim))  # F_SETOWN_EX, F_OWNER_PID
    fcntl.ioctl(read, 0x5452, struct.pack("i", 1))  # FIOASYNC
    os.write(write, b"x")


def signal_by_owner_of_a_socket(at: Target) -> None:
    one, other = socket.socketpair()
    fcntl.ioctl(one, 0x8901, struct.pack("i", at.victim))  # FIOSETOWN
    fcntl.ioctl(one, 0x5452, struct.pack("i", 1))
    other.send(b"x")


def vector(address: int, size: int) -> bytes:
    return struct.pack("QQ", address, size)


def read_memory(at: Target) -> None:
    buffer = ctypes.create_string_buffer(len(SECRET))
    here = vector(ctypes.addressof(buffer), len(SECRET))
    raw("process_vm_readv", at.victim, here, 1, vector(at.address, len(SECRET)), 1, 0)
    if buffer.raw != SECRET.encode():
        raise ProcessLookupError("another process")


def read_memory_in_proc(at: Target) -> None:
    place = os.open(f"/proc/{at.victim}/mem", os.O_RDONLY)
    if os.pread(place, len(SECRET), at.address) != SECRET.encode():
        raise ProcessLookupError("another process")


def connect(at: Target) -> None:
    # As bytes: text would need a codec from a file.
    socket.socket().connect((b"127.0.0.1", at.port))


def connect_to_abstract_name(at: Target) -> None:
    socket.socket(socket.AF_UNIX).connect(f"\0{at.abstract}")


def connect_to_named_socket(at: Target) -> None:
    socket.socket(socket.AF_UNIX).connect(str(at.folder / "socket"))


def execute(_: Target) -> None:
    os.execv("/bin/true", ["true"])


def execute_from_memory(_: Target) -> None:
    place = raw("memfd_create", b"x", 0)
    with contextlib.suppress(OSError):
        os.write(place, Path("/proc/self/exe").read_bytes())
    raw("execveat", place, b"", struct.pack("QQ", 0, 0), struct.pack("Q", 0), 0x1000)


def namespace_with_all_rights(_: Target) -> None:
    raw("unshare", 0x10000000)
    raw("unshare", 0x20000)


def name_of_the_host(_: Target) -> None:
    name = os.uname().nodename.encode()
    raw("sethostname", name, len(name))


def move_pages_into_a_pipe(_: Target) -> None:
    write = os.pipe()[1]
    data = ctypes.create_string_buffer(b"x")
    raw("vmsplice", write, vector(ctypes.addressof(data), 1), 1, 0)


def copy_between_files(at: Target) -> None:
    _, write = os.pipe()
    os.sendfile(write, at.writable, 0, 1)


def send_a_descriptor(_: Target) -> None:
    read, write = os.pipe()
    channel = socket.socket(fileno=int(os.environ["ESCAPE_CHANNEL"]))
    socket.send_fds(channel, [b"x"], [read, write])


def calls_of_32_bits(_: Target) -> None:
    if COLUMN != "x86_64":
        raise NotImplementedError
    memory = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    memory.write(b"\xb8\x14\x00\x00\x00\xcd\x80\xc3")  # mov eax, 20 (getpid); int 0x80; ret
    if ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))() < 0:
        raise OSError(38, "no 32-bit calls")


FUNCTIONS: Final = {
    each.__name__: each
    for each in (
        unnamed_file, map_inherited, bind_socket, open_by_handle, pages_in_memory, signal_by_owner_of_a_pipe,
        signal_by_owner_of_a_group, signal_by_extended_owner, signal_by_owner_of_a_socket, read_memory,
        read_memory_in_proc, connect, connect_to_abstract_name, connect_to_named_socket, execute, execute_from_memory,
        namespace_with_all_rights, name_of_the_host, move_pages_into_a_pipe, copy_between_files, send_a_descriptor,
        calls_of_32_bits,
    )
}  # fmt: skip
"""Escapes of the table that are more than one call."""
ESCAPES: Final = [
    Escape(
        row["name"],
        FUNCTIONS.get(row["name"]) or partial(make_call, row["call"], row["permitted_error"]),
        frozenset(map(Layer, row["stopped_by"].split("; "))),
        row["effect"],
        "root" in row["needs"],
        "kernel" in row["needs"],
    )
    for row in golden_rows("grading", "escapes")
]


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
