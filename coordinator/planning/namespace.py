"""A network namespace for one run: its loopback has no packet filter, no tracked connections and all ports free.

The thread that later opens the listener and forks the hosts enters it before it opens anything else. The namespace ends
with its last process. A user without the right to create one creates a user namespace as well and maps the user to
itself; this needs a process with a single thread.
"""

import fcntl
import os
import socket
from pathlib import Path
from struct import Struct

from emunode import runtime as libc
from emunode.errors import RunError

CLONE_NEWNET = 0x40000000
CLONE_NEWUSER = 0x10000000
SIOCGIFFLAGS, SIOCSIFFLAGS = 0x8913, 0x8914
IFF_UP = 1
FLAGS = Struct("16sH14x")
"""struct ifreq: the name of an interface and its flags."""


def enter_own_network() -> None:
    """Move this thread, and every process it forks, into a new network with a loopback that is up.

    RunError if the system does not allow that.
    """
    user, group = os.getuid(), os.getgid()
    try:
        try:
            libc.call("unshare", CLONE_NEWNET)
        except PermissionError:
            # An unprivileged user may create a network namespace only inside a user namespace of its own.
            libc.call("unshare", CLONE_NEWUSER | CLONE_NEWNET)
            # The kernel wants setgroups denied before an unprivileged process may map its group.
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        _raise_loopback()
    except OSError as error:
        raise RunError(
            f"no network namespace can be made here: {error}; run as root, or allow unprivileged user namespaces"
        ) from None


def unavailable_reason() -> str | None:
    """Return the error that `enter_own_network` would raise, found by trying it in a child process; None if it works."""
    ours, its = os.pipe()
    # In a child, since a namespace cannot be left again.
    pid = os.fork()
    if not pid:
        status = 1
        try:
            enter_own_network()
            status = 0
        except BaseException as error:  # a forked child must not run its parent's code
            os.write(its, str(error).encode())
        finally:
            os._exit(status)
    # The parent's copy must be closed, or `read` would never see the end.
    os.close(its)
    with os.fdopen(ours) as answer:
        text = answer.read()
    os.waitpid(pid, 0)
    return text or None


def _raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as handle:
        name, flags = FLAGS.unpack(fcntl.ioctl(handle, SIOCGIFFLAGS, FLAGS.pack(b"lo", 0)))
        # A new namespace has a loopback that is down.
        fcntl.ioctl(handle, SIOCSIFFLAGS, FLAGS.pack(name, flags | IFF_UP))
