"""Structured events as JSON lines on standard error or in a file; never one event per packet (as costly as the packet)."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# Of the context, not of the process: runs in several threads have a log each.
_file: ContextVar[TextIO | None] = ContextVar("log", default=None)


def log(event: str, **fields: object) -> None:
    """Write one event with its fields, the time and the process id, in one call: lines of several processes do not mix."""
    # The process id is part of the cache key, because a forked child must not log under its parent's.
    _logger(_file.get() or sys.stderr, os.getpid()).info(event, **fields)


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
