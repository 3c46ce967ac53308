"""Time limits of long computations, which ask from time to time whether their time is over.

This module does not look at the clock: the caller, such as a command, gives a function that does.
"""

from collections.abc import Callable

Expired = Callable[[], bool]
"""Whether the time of a computation is over."""


class OutOfTimeError(Exception):
    """A computation was stopped because its time was over."""


def never() -> bool:
    """Return False: there is no time limit."""
    return False


def check_time(expired: Expired) -> None:
    """Raise OutOfTimeError if the time is over."""
    if expired():
        raise OutOfTimeError
