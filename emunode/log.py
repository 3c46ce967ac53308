"""Structured events of the shells, one JSON object a line on standard error; never one a packet."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def log(event: str, **fields: object) -> None:
    """Write one event with its fields, the time and the process id."""
    _logger().info(event, **fields)


@cache
def _logger() -> "FilteringBoundLogger":
    # imported on the first event: a process with nothing to say is spared a fifth of a second
    import os  # noqa: PLC0415
    import sys  # noqa: PLC0415

    import structlog  # noqa: PLC0415

    structlog.configure(
        processors=[structlog.processors.TimeStamper(fmt="iso", utc=True), structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logger: FilteringBoundLogger = structlog.get_logger(pid=os.getpid())
    return logger
