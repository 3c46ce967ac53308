"""Process tuning: garbage collection, and calls of the C library that Python 3.11 does not offer."""

import ctypes
import gc
import os

from emunode.errors import RunError

_LIBC = ctypes.CDLL(None, use_errno=True)


def has(function: str) -> bool:
    """Whether this C library has a function."""
    return hasattr(_LIBC, function)


def call(function: str, *arguments: object) -> int:
    """What a function returns that answers less than 0 when it fails; raises OSError then, naming the function."""
    answer: int = getattr(_LIBC, function)(*arguments)
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), function)
    return answer


def require(function: str, *arguments: object) -> int:
    """`call`, of what a run cannot do without: raises RunError."""
    try:
        return call(function, *arguments)
    except OSError as error:
        raise RunError(f"{function} failed: {error.strerror}") from None


def collect_seldom() -> None:
    """Run the cyclic garbage collector rarely: a step creates thousands of records, none of them in a cycle."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(50_000, 20, 20)
