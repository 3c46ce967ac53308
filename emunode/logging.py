"""Structured events as JSON lines on standard error or in a file; never one event per packet, which costs as much as it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

_files: list[TextIO | None] = [None]


def log(event: str, **fields: object) -> None:
    """Write one event with its fields, the time and the process id, in one call: lines of several processes do not mix."""
    # The process id is part of the cache key, because a forked child must not log under its parent's.
    _logger(_files[-1] or sys.stderr, os.getpid()).info(event, **fields)


@contextmanager
def logging_to(file: TextIO) -> Iterator[None]:
    """Write the events of this process to `file` instead of standard error within the context."""
    _files.append(file)
    try:
        yield
    finally:
        _files.pop()
        # A cached logger holds the file, which the caller closes.
        _logger.cache_clear()


@cache
def _logger(file: TextIO, pid: int) -> "FilteringBoundLogger":
    import structlog  # noqa: PLC0415  # imported with the first event: most processes log nothing, and it takes 0.2 s

    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(file),
        processors=[structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.processors.JSONRenderer()],
        pid=pid,
    )
    return logger
