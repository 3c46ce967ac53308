"""Structured events as JSON lines on standard error or in a file; never one event per packet (as costly as the packet)."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Final, TextIO

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

MOST_REFUSALS: Final = 100
"""The refused connections that a log has in full."""
# Of the context, not of the process: runs in several threads have a log each.
_file: ContextVar[TextIO | None] = ContextVar("log", default=None)


def log(event: str, **fields: object) -> None:
    """Write one event with its fields, the time and the process id, in one call: lines of several processes do not mix."""
    # The process id is part of the cache key, because a forked child must not log under its parent's.
    _logger(_file.get() or sys.stderr, os.getpid()).info(event, **fields)


class RefusedConnections:
    """The refused connections of one listener: anybody can make them without end, so the log has the first ones only."""

    def __init__(self) -> None:
        self._count = 0

    def log(self, why: str) -> None:
        """Write one of the first refusals; of later ones one each time that their number has doubled, with the number."""
        self._count += 1
        if self._count <= MOST_REFUSALS:
            log("connection refused", why=why)
        elif self._count & (self._count - 1) == 0:
            log("connection refused", why=why, refused_so_far=self._count)


@contextmanager
def logging_to(file: TextIO) -> Iterator[None]:
    """Write events to `file` instead of standard error within the context, in the tasks and threads that it starts too."""
    before = _file.set(file)
    try:
        yield
    finally:
        _file.reset(before)
        # A cached logger holds the file, but the caller closes it.
        _logger.cache_clear()


def prepare_log() -> None:
    """Load the library of the log before lines are written in a hurry; it takes tens of milliseconds."""
    _logger(_file.get() or sys.stderr, os.getpid())


@cache
def _logger(file: TextIO, pid: int) -> "FilteringBoundLogger":
    import structlog  # noqa: PLC0415  # imported with the first event: most processes log nothing, and it takes 0.2 s

    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(file),
        processors=[structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.processors.JSONRenderer()],
        pid=pid,
    )
    return logger
