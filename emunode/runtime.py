"""Garbage collection, and C library functions that Python 3.11 does not expose, such as prctl, mallopt and unshare."""

import ctypes
import gc
import os

from emunode.errors import RunError

# None: the symbols of the process itself, whichever C library it was linked with.
_LIBC = ctypes.CDLL(None, use_errno=True)


def has(function: str) -> bool:
    """Whether this C library defines `function`: some are specific to glibc."""
    return hasattr(_LIBC, function)


def call(function: str, *arguments: object) -> int:
    """Call a function that returns a negative number on failure; raises OSError, which names the function."""
    result: int = getattr(_LIBC, function)(*arguments)
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), function)
    return result


def require(function: str, *arguments: object) -> int:
    """`call` a function that a run depends on; raises RunError on failure."""
    try:
        return call(function, *arguments)
    except OSError as error:
        raise RunError(f"{function} failed: {error.strerror}") from None


def collect_seldom() -> None:
    """Run the cyclic garbage collector rarely: a step creates thousands of records, none of them in a cycle."""
    # Objects that exist now are needed to the end of the process; the collector need not look at them again.
    gc.freeze()
    gc.enable()
    # Rarely, but not never: exceptions and closed streams do leave cycles behind.
    gc.set_threshold(50_000, 20, 20)
