"""The `coordinator` process: standard streams, signals and exit status around the command line."""

import contextlib
import errno
import gc
import io
import os
import signal
import sys
from types import FrameType
from typing import Any, NoReturn, TextIO

from emunode.runtime import collect_seldom, exit_at_once
from emunode.stop_signals import STOP_SIGNALS

INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line of this process and exit with its status."""
    for number in STOP_SIGNALS:
        signal.signal(number, _leave)
    _keep_streams_open()
    # Importing creates hundreds of thousands of objects, and all of them stay: `collect_seldom` turns the collector on
    # again.
    gc.disable()
    # Pydantic would search the metadata of every installed package for plug-ins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Only here: until then the handlers above apply, and importing takes most of the time of a short command.
    from coordinator.cli.invoke import main as run_command_line  # noqa: PLC0415

    # A short run ends before: it creates 150,000 objects, mostly of modules that it imports only now.
    collect_seldom(200_000)
    status = INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):  # a second Ctrl-C, while the first was being handled
        status = run_command_line()
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # the status is known, and nothing is left to interrupt
    exit_at_once(status)


def _leave(_number: int, _frame: FrameType | None) -> None:
    """Exit at once: while the command line is imported, there is nothing to clean up."""
    with contextlib.suppress(OSError):
        os.write(2, b"coordinator: interrupted\n")
    os._exit(INTERRUPTED)


class PipeOutput(io.FileIO):
    """Standard output or standard error. It discards further text after its reader or its terminal has gone.

    `coordinator run .. | head -1` therefore ends with the status of the run.
    """

    def write(self, data: Any, /) -> int:
        """Write to the file descriptor, or to /dev/null once its reader or its terminal has gone."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno not in (errno.EPIPE, errno.EIO):
                raise
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return len(data)


def _keep_streams_open() -> None:
    """Let standard output and standard error outlive their readers, and open them if they are closed."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= 2:  # a closed stream: another file would get its number
        pass
    os.close(number)
    sys.stdout = _text(1, sys.stdout)
    sys.stderr = _text(2, sys.stderr)


def _text(number: int, like: TextIO | None) -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(PipeOutput(number, "w", closefd=False)),
        encoding=getattr(like, "encoding", None) or "utf-8",
        errors="backslashreplace" if number == 2 else getattr(like, "errors", None),
        line_buffering=number == 2 or os.isatty(number),
    )


if __name__ == "__main__":
    main()
