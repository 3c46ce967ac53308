"""A worker process: reads scenarios and trials from standard input, writes results to standard output, as lines of JSON.

It ends when standard input is closed or its parent process dies.
"""

import gc

if __name__ == "__main__":
    gc.disable()  # until trials run: importing creates hundreds of thousands of objects, and all of them stay

import signal
import sys

import trio

from coordinator.campaigns.trial_runner import TrialRunner
from coordinator.campaigns.worker_pool import read_greeting, trial_of, write_answer
from emunode.errors import EmulatorError
from emunode.host.process import die_with_parent
from emunode.logging import logging_to
from emunode.runtime import collect_seldom, taken_streams


async def serve() -> None:
    """Run trials until standard input ends."""
    requests, answers = map(trio.lowlevel.FdStream, taken_streams())
    runner: TrialRunner | None = None
    pending = b""
    try:
        while data := await requests.receive_some(65536):
            # The last part has no newline yet: it waits for more.
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if runner is None:
                    runner = TrialRunner(read_greeting(line), sys.stderr)
                    # The first line holds the scenarios, every further one a trial.
                    continue
                try:
                    answer = write_answer(await runner.trial(trial_of(line)))
                except EmulatorError as error:
                    # An error is an answer too, so that the parent can raise it.
                    answer = write_answer(error)
                await answers.send_all(answer)
    except trio.BrokenResourceError:
        return
    finally:
        if runner is not None:
            await runner.__aexit__()


if __name__ == "__main__":
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    collect_seldom()
    with logging_to(sys.stderr):
        trio.run(serve)
