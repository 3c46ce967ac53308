"""Namespaces for the processes of a submission: a root with nothing but Python's library, and processes of its own.

`enter` puts the calling process into them: root at once, a user without rights through a namespace of users, where it
has the rights to make the others. A layer that the kernel or the machine's settings refuse is reported; the rest is
done.
"""

import os
import signal
import socket
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from struct import pack
from typing import Final

from coordinator.annexes.grading.layers import Layer, Protection, failure
from emunode import runtime as libc

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x20000, 0x8000000, 0x10000000, 0x20000000, 0x40000000
NEW_TIME: Final = 0x80
AHEAD_SECONDS: Final = 123_456_789
NAMESPACES: Final = {
    Layer.ROOT: NEW_MOUNTS,
    Layer.PROCESSES: NEW_PROCESSES,
    Layer.NETWORK: NEW_NETWORK,
    Layer.IPC: NEW_IPC,
}
BIND, RECURSIVE, PRIVATE, DETACH = 4096, 16384, 1 << 18, 2
MOUNT_SETATTR: Final = 442
"""The same number on every architecture."""
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
ATTRIBUTES: Final = 0b111
"""Read-only, no set-user-id programs, no devices."""
NEW_ROOT: Final = Path("/proc")
"""Where the new root is put together: a folder that every machine has, without files of the new root."""
OWN_FOLDER: Final = Path("/submission")
"""The working directory of a submission, an empty folder."""
SERVER_STOPPED: Final = 71
"""The exit status when the server's process in the namespace was stopped from outside."""
PROBE_SECONDS: Final = 30.0


def library() -> list[Path]:
    """Return the folders and files that Python needs while it runs: its library, this program, and C libraries."""
    stdlib = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    # Other folders on the path may be anybody's: of these only the two packages of this program.
    found = [*stdlib, Path(__file__).parents[2], Path(libc.__file__).parent, Path("/etc/ld.so.cache")]
    found += [
        path
        for path in map(Path, sys.path)
        if path.name in ("site-packages", "dist-packages") or any(path.is_relative_to(each) for each in stdlib)
    ]
    # Modules that are imported later may need more libraries from the folder of the C library.
    found += [file.parent if file.name.startswith(("libc.so", "libc-", "ld-musl")) else file for file in _mapped()]
    paths = sorted({path.resolve() for path in found if path.exists()})
    return [path for path in paths if not any(path != other and path.is_relative_to(other) for other in paths)]


def _mapped() -> Iterator[Path]:
    """Yield the shared libraries that this process has loaded."""
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return
    for name in {fields[5] for line in lines if len(fields := line.split(maxsplit=5)) == 6}:
        if ".so" in Path(name).name and name.startswith("/"):
            yield Path(name)


def enter(wanted: Collection[Layer], readable: Iterable[Path], *, shifted: bool = False) -> Protection:
    """Put this process into namespaces; of `Layer.PROCESSES` only its next children are.

    With `shifted` their clock that counts from the start of the machine is ahead, where the kernel can do this. In the
    sealed root the files and folders of `readable` have their names, and nothing can be written.
    """
    found = Protection()
    layers = [layer for layer in NAMESPACES if layer in wanted]
    if layers and libc.in_child(_own_mounts_failure, PROBE_SECONDS):
        # A namespace of users without its table is a state without return, so a child tries first.
        reason = libc.in_child(_own_users_failure, PROBE_SECONDS).decode() or _own_users_failure().decode()
        if reason:
            return Protection(dict.fromkeys(layers, reason))
    for layer in layers:
        found[layer] = failure(lambda flag=NAMESPACES[layer]: libc.call("unshare", flag))  # type: ignore[misc]
    if shifted and layers:
        failure(_shift_clocks)
    if Layer.ROOT in found and found[Layer.ROOT] is None:
        found[Layer.ROOT] = failure(lambda: _seal(list(readable)))
    return found


def _own_mounts_failure() -> bytes:
    return (failure(lambda: libc.call("unshare", NEW_MOUNTS)) or "").encode()


def _own_users_failure() -> bytes:
    return (failure(_own_users) or "").encode()


def _own_users() -> None:
    """Enter a user namespace where this process keeps its user and group, and has all rights."""
    user, group = os.geteuid(), os.getegid()
    tables = {"setgroups": "deny", "uid_map": f"{user} {user} 1", "gid_map": f"{group} {group} 1"}
    libc.call("unshare", NEW_USER)
    for name, table in tables.items():
        try:
            Path("/proc/self", name).write_text(table)
        except OSError as error:
            raise OSError(error.errno, error.strerror, name) from None


def _shift_clocks() -> None:
    """Let the clocks of later children be ahead that a namespace can shift: all but the time of day."""
    libc.call("unshare", NEW_TIME)
    offsets = "".join(f"{clock} {AHEAD_SECONDS} 0\n" for clock in ("monotonic", "boottime"))
    Path("/proc/self/timens_offsets").write_text(offsets)


def _seal(readable: list[Path]) -> None:
    """Make a root of the given files and folders and an empty folder, all read-only, and enter it."""
    _mount(None, "/", None, RECURSIVE | PRIVATE)
    _mount("tmpfs", str(NEW_ROOT), "tmpfs", 0, b"size=1m,mode=755")
    before = os.umask(0o022)
    try:
        for path in readable:
            target = NEW_ROOT / path.relative_to("/")
            if path.is_dir():
                target.mkdir(parents=True, exist_ok=True)
            else:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
            _mount(str(path), str(target), None, BIND | RECURSIVE)
        for link in (Path("/lib"), Path("/lib64"), Path("/lib32")):
            if link.is_symlink():
                (NEW_ROOT / link.name).symlink_to(link.readlink())
        (NEW_ROOT / OWN_FOLDER.relative_to("/")).mkdir()
    finally:
        os.umask(before)
    record = pack("QQQQ", ATTRIBUTES, 0, 0, 0)
    libc.call_number(
        MOUNT_SETATTR, "mount_setattr", AT_FDCWD, str(NEW_ROOT).encode(), AT_RECURSIVE, record, len(record)
    )
    os.chdir(NEW_ROOT)
    libc.call("pivot_root", b".", b".")
    libc.call("umount2", b".", DETACH)
    os.chdir(OWN_FOLDER)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: bytes | None = None) -> None:
    texts = (None if text is None else text.encode() for text in (source, target, kind))
    origin, place, system = texts
    libc.call("mount", origin, place, system, flags, data)


def go_on_as_first_process(control: socket.socket) -> None:
    """Go on in the first process of the namespace of processes: all others end with it, and this one waits for it."""
    pid = os.fork()
    if not pid:
        libc.require("prctl", libc.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        return
    control.close()
    _, status = os.waitpid(pid, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        os.kill(pid, signal.SIGKILL)
        os._exit(SERVER_STOPPED)
    os._exit(0 if os.waitstatus_to_exitcode(status) == 0 else 1)
