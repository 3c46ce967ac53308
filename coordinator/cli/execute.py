"""The common part of `run` and `serve`: run a plan and show the result."""

import contextlib
import socket
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.api.progress import on_stderr
from coordinator.cli.output import OUTPUT, print_json
from coordinator.planning.plan import Plan

OutFlag = Annotated[
    Path | None, Parameter(group=OUTPUT, help="run directory; default: runs/NAME/TIME-SEED, which is created")
]


def run_plan(plan: Plan, out: Path | None, as_json: bool, page: tuple[socket.socket, float] | None = None) -> int:
    """Run a plan, show the result and return the exit status.

    `page`: the socket at which the page of the run is served, and the seconds for which the run may be paused.
    """
    # Not before `enter_own_network`, which needs a process with one thread: polars starts threads when it is imported.
    from coordinator.cli.result import show_result  # noqa: PLC0415
    from coordinator.execution.run import run  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        watch = None
        if page is not None:
            from coordinator.live.watch import Watch  # noqa: PLC0415

            watch = stack.enter_context(Watch(plan, page[0], timeout=page[1]))
            print(f"{plan.topology.title}: watch it at {watch.url}", file=sys.stderr, flush=True)
        progress = stack.enter_context(on_stderr(plan.topology.title))
        result = run(plan, out, progress, steering=watch)
        if watch is not None:
            watch.concluded(result)
    if as_json:
        print_json({**result.summary, "path": str(result.path)})
    else:
        show_result(result.plan, result)
    return 130 if result.execution.interrupted else result.exit_status
