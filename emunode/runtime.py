"""Garbage collection, and C library functions that Python 3.11 does not expose, such as prctl, mallopt and unshare."""

import atexit
import contextlib
import ctypes
import gc
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from emunode.errors import RunError

PR_SET_PDEATHSIG: Final = 1
CHUNK: Final = 1 << 16
LOOK_SECONDS: Final = 5.0
"""How often to look whether a silent process is stopped: several times in the 30 s that a host may be silent."""
OPENBLAS_THREADS: Final = "OPENBLAS_NUM_THREADS"
TOKEN_VARIABLE: Final = "EMUNODE_TOKEN"
MOST_TOKEN_BYTES: Final = 4096
"""The largest file of a token."""
"""The environment variable with the token of the run that a host joins."""

# None: the symbols of the process itself, whichever C library it was linked with.
_LIBC = ctypes.CDLL(None, use_errno=True)


def has(function: str) -> bool:
    """Return whether this C library defines `function`: some are specific to glibc."""
    return hasattr(_LIBC, function)


def call(function: str, *arguments: object) -> int:
    """Call a function that returns a negative number on failure; raises an OSError that names the function."""
    result: int = getattr(_LIBC, function)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), function)
    return result


def call_number(number: int, name: str, *arguments: int | bytes | None) -> int:
    """Make a system call that the C library has no function for; raises an OSError that names the call."""
    # Whole words: `syscall` has no prototype that tells how long an argument is.
    words = (ctypes.c_long(each) if isinstance(each, int) else each for each in arguments)
    _LIBC.syscall.restype = ctypes.c_long
    result: int = _LIBC.syscall(ctypes.c_long(number), *words)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), name)
    return result


def require(function: str, *arguments: object) -> int:
    """Call a function that a run depends on, as `call` does; RunError on failure."""
    try:
        return call(function, *arguments)
    except OSError as error:
        raise RunError(f"{function} failed: {error.strerror}") from None


def collect_seldom(allocations: int = 50_000) -> None:
    """Run the cyclic garbage collector rarely: a step creates thousands of records, none of them in a cycle.

    It runs when there are `allocations` more objects than after its last run.
    """
    # Objects that exist now are needed to the end of the process; the collector need not look at them again.
    gc.freeze()
    gc.enable()
    # Rarely, but not never: exceptions and closed streams do leave cycles behind.
    gc.set_threshold(allocations, 20, 20)


@contextlib.contextmanager
def single_threaded_imports() -> Iterator[None]:
    """Let OpenBLAS start no threads if numpy loads it within the block.

    OpenBLAS would start one thread per core and allocate the buffers of each; that takes as long as importing numpy.
    The variable is set only for the block, since programs that this process starts inherit it.
    """
    if OPENBLAS_THREADS in os.environ:
        yield
        return
    os.environ[OPENBLAS_THREADS] = "1"
    try:
        yield
    finally:
        del os.environ[OPENBLAS_THREADS]


@contextlib.contextmanager
def hold_interrupts() -> Iterator[None]:
    """Hold SIGINT back during the block, and raise it again at its end: for code that an exception would damage.

    Without effect outside the main thread, since no other thread receives exceptions from signals.
    """
    # A handler, not a mask: the kernel may give the signal to a thread of a library that does not mask it.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: received.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if previous is None else previous)
        if received:
            signal.raise_signal(signal.SIGINT)


def exit_at_once(status: int) -> NoReturn:
    """Run what is due at exit, write what is buffered, and end the process.

    Ending the interpreter would free every object one by one: a tenth of the time of a short run.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        # The command line has flushed both streams, and reported what it could not write.
        with contextlib.suppress(OSError):
            stream.flush()
    os._exit(status)


def taken_streams() -> tuple[int, int]:
    """Take standard input and standard output for messages between processes; returns a descriptor of each.

    Everything else that reads standard input finds nothing there, and everything else that is printed, by C libraries
    and child processes too, goes to standard error: the output of a plug-in is no message.
    """
    taken = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return taken


def is_stopped(pid: int) -> bool:
    """Report whether a child process is stopped, by SIGSTOP or a debugger; a process that has ended is not."""
    try:
        return os.waitid(os.P_PID, pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:  # another part of this program has waited for it
        return False


def in_child(work: Callable[[], bytes], seconds: float) -> bytes:
    """Return the result of `work` in a forked process: what it changes is lost with that process.

    Raises RunError if it fails, is stopped, or has no result within `seconds`. No process is left.
    """
    ours, its = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if not pid:
        _work(work, its, parent)
    os.close(its)
    try:
        return _read_all(ours, time.monotonic() + seconds, pid)
    finally:
        os.close(ours)
        # Without effect on a child that has ended: it keeps its number until it is waited for.
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _work(work: Callable[[], bytes], pipe: int, parent: int) -> None:
    """Write a zero and the result of `work`, or a one and the error; never returns."""
    try:
        call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        # The parent may have died before the request, and then the signal would never come.
        if os.getppid() == parent:
            try:
                result = b"\0" + work()
            except BaseException:  # any exception: a forked child must not continue in its parent's code
                result = b"\1" + traceback.format_exc().encode()
            with open(pipe, "wb") as stream:
                stream.write(result)
    finally:
        # `_exit`: no handlers or buffers of the parent may run in the child.
        os._exit(0)


def _read_all(pipe: int, deadline: float, pid: int) -> bytes:
    """Return the answer of `_work` in process `pid`, without its first byte."""
    answer = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise RunError("a child process did not answer in time")
        if not select.select([pipe], [], [], min(left, LOOK_SECONDS))[0]:
            if is_stopped(pid):
                raise RunError(f"a child process (process {pid}) is stopped")
            continue
        data = os.read(pipe, CHUNK)
        if not data:
            break
        answer += data
    if not answer:
        raise RunError("a child process ended without an answer")
    if answer[0]:
        raise RunError(f"a child process failed:\n{answer[1:].decode()}")
    return bytes(answer[1:])
