"""Refusal of calls in a forked process whose tables would hang.

polars computes with threads that start with its first computation. A forked child does not have these threads: there,
the next computation waits for them for ever. `fork` is the default of multiprocessing on Linux up to Python 3.13.
"""

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import Final

from emunode.errors import RunError

THREADS: Final = Path("/proc/self/task")
POLARS_THREAD: Final = re.compile(r"polars-\d+")
REMEDY: Final = (
    "this process was forked after polars had started its threads, which it lacks here, so tables would hang; use threads, "
    'coordinator.map(..), or multiprocessing.get_context("spawn")'
)
_state = {"before": False, "forked": False}
"""Whether polars had started its threads when a fork began, and whether this process is the child of such a fork."""


def require_usable() -> None:
    """Raise RunError, with the remedy, in a forked process where polars would hang."""
    if _state["forked"]:
        raise RunError(REMEDY)


def _started() -> bool:
    """Return whether polars has threads in this process; where that cannot be seen, whether it is imported."""
    if "polars" not in sys.modules:
        return False
    names = []
    try:
        for thread in THREADS.iterdir():
            with contextlib.suppress(OSError):  # a thread that has just ended
                names.append((thread / "comm").read_text().strip())
    except OSError:
        return True
    return any(POLARS_THREAD.fullmatch(name) for name in names)


def _before() -> None:
    _state["before"] = _started()


def _in_child() -> None:
    _state["forked"] = _state["forked"] or _state["before"]


os.register_at_fork(before=_before, after_in_child=_in_child)
