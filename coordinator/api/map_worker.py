"""A process of `coordinator.map`: reads scenarios from standard input, writes rows to standard output, as lines of JSON.

It ends when standard input is closed or its parent process dies.
"""

import gc

if __name__ == "__main__":
    gc.disable()  # until scenarios run: importing creates hundreds of thousands of objects, and all of them stay

import json
import os
import signal

from coordinator.api.runs import run_plan
from coordinator.campaigns.worker_pool import encode, read_greeting
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import make_scenario
from emunode.errors import EmulatorError
from emunode.host.process import die_with_parent
from emunode.runtime import collect_seldom, taken_streams


def answer(line: bytes) -> dict[str, object]:
    """Run the scenario in a line, and return its row, or the reason why the scenario did not run."""
    try:
        return {"row": run_plan(make_plan(make_scenario(json.loads(line))), None, False).row()}
    except EmulatorError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "this machine has too little memory for it"}


def serve() -> None:
    """Answer lines until standard input ends."""
    requests_end, answers_end = taken_streams()
    with os.fdopen(requests_end, "rb") as requests, os.fdopen(answers_end, "wb") as answers:
        read_greeting(requests.readline())
        for line in requests:
            answers.write(encode(answer(line)))
            answers.flush()


if __name__ == "__main__":
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    collect_seldom()
    serve()
