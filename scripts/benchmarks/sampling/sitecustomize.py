"""Sampling profiler of host processes. Python imports it at its start if this folder is in PYTHONPATH.

SIGUSR1 starts to sample, SIGUSR2 stops and writes `{"file:line": samples}` to BENCH_SAMPLES/PID.json. A timer of processor
time ticks, so a host that waits takes no samples; a tick during a system call counts for the line that called. Standard
library only.
"""

import json
import os
import signal
from collections import Counter
from pathlib import Path
from types import FrameType

FOLDER = Path(os.environ["BENCH_SAMPLES"])
SECONDS = 0.001
"""Wanted distance of samples; the kernel rounds it up to its tick."""
INSIDE = ("emunode/", "coordinator/", "trio/")
samples: Counter[str] = Counter()


def sample(_number: int, frame: FrameType | None) -> None:
    """Count the innermost line of the project or of trio, on whose behalf the standard library may run."""
    while frame is not None and not any(part in frame.f_code.co_filename for part in INSIDE):
        frame = frame.f_back
    if frame is not None:
        # Code that the compiler adds, such as the end of a `with` block, may have no line of its own.
        samples[f"{frame.f_code.co_filename}:{frame.f_lineno or frame.f_code.co_firstlineno}"] += 1


def start(*_: object) -> None:
    """Begin to sample."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS, SECONDS)


def stop(*_: object) -> None:
    """End, and leave the counts behind: written aside and renamed, so that no reader sees half of them."""
    signal.setitimer(signal.ITIMER_PROF, 0)
    path = FOLDER / f"{os.getpid()}.json"
    part = path.with_suffix(".part")
    part.write_text(json.dumps(samples), encoding="utf-8")
    part.rename(path)


for number, handler in ((signal.SIGPROF, sample), (signal.SIGUSR1, start), (signal.SIGUSR2, stop)):
    signal.signal(number, handler)
