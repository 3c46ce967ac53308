"""Structured events of the shells, one JSON object a line on standard error or in a file; never one a packet."""

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
    """Write one event with its fields, the time and the process id: a line at once, so that those of others stay whole."""
    _logger(_files[-1] or sys.stderr, os.getpid()).info(event, **fields)


@contextmanager
def logging_to(file: TextIO) -> Iterator[None]:
    """Write the events of this process to `file` meanwhile, instead of to standard error."""
    _files.append(file)
    try:
        yield
    finally:
        _files.pop()
        _logger.cache_clear()


@cache
def _logger(file: TextIO, pid: int) -> "FilteringBoundLogger":
    import structlog  # noqa: PLC0415  # on the first event: a process with nothing to say is spared a fifth of a second

    logger: FilteringBoundLogger = structlog.wrap_logger(
        structlog.WriteLogger(file),
        processors=[structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.processors.JSONRenderer()],
        pid=pid,
    )
    return logger
