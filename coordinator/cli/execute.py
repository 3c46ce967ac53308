"""The common part of `run` and `serve`: run a plan and show the result."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.api.progress import on_stderr
from coordinator.cli.output import OUTPUT, print_json
from coordinator.planning.plan import Plan

OutFlag = Annotated[
    Path | None, Parameter(group=OUTPUT, help="run directory; default: runs/NAME/TIME-SEED, which is created")
]


def run_plan(plan: Plan, out: Path | None, as_json: bool) -> int:
    """Run a plan, show the result and return the exit status."""
    # Not before `enter_own_network`, which needs a process with one thread: polars starts threads when it is imported.
    from coordinator.cli.result import show_result  # noqa: PLC0415
    from coordinator.execution.run import run  # noqa: PLC0415

    with on_stderr(plan.topology.title) as progress:
        result = run(plan, out, progress)
    if as_json:
        print_json({**result.summary, "path": str(result.path)})
    else:
        show_result(plan, result)
    return 130 if result.execution.interrupted else result.exit_status
