"""A process of a crew: scenarios and trials on standard input, findings on standard output, a line of JSON each.

It ends when standard input does, and dies with who started it.
"""

import signal
import sys

import trio

from coordinator.campaigns.trial_runner import TrialRunner
from coordinator.campaigns.worker_pool import scenarios_of, trial_of, write_answer
from emunode.errors import EmulatorError
from emunode.host.process import collect_seldom, die_with_parent
from emunode.logging import logging_to


async def serve() -> None:
    """Run what is asked for until standard input ends."""
    asked, answers = trio.lowlevel.FdStream(0), trio.lowlevel.FdStream(1)
    runner: TrialRunner | None = None
    pending = b""
    try:
        while data := await asked.receive_some(65536):
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if runner is None:
                    runner = TrialRunner(scenarios_of(line), sys.stderr)
                    continue
                try:
                    answer = write_answer(await runner.trial(trial_of(line)))
                except EmulatorError as error:
                    answer = write_answer(error)
                await answers.send_all(answer)
    except trio.BrokenResourceError:
        return
    finally:
        if runner is not None:
            await runner.__aexit__()


if __name__ == "__main__":
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that it works for
    collect_seldom()
    with logging_to(sys.stderr):
        trio.run(serve)
