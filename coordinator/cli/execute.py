"""The work of `run`, and the part that it shares with `serve`: run a plan and show the result."""

import contextlib
import socket
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coordinator.api.progress import on_stderr
from coordinator.cli.documents import print_json
from coordinator.cli.given import scenario_from, seconds_from
from coordinator.cli.output import PageFlags, RunOutput
from coordinator.history.run_index import REPORT
from coordinator.live.opening import WATCH_SECONDS, metrics_target, open_listener, watched_plan
from coordinator.planning.feasibility import needs_own_network, require_possible, tracking_exceeded, warning
from coordinator.planning.namespace import enter_own_network
from coordinator.planning.plan import Plan, make_plan
from emunode.errors import ScenarioError
from emunode.runtime import single_threaded_imports
from emunode.terminal import say

if TYPE_CHECKING:
    from coordinator.execution.branch import Origin
    from coordinator.execution.observer import RunObserver


def run_scenario(
    file: Path | None,
    flags: Any,
    join_seconds: str | None,
    page: PageFlags,
    output: RunOutput,
    branch: str | None = None,
) -> int:
    """Run the scenario in a file and flags, show the result and return the exit status; for the rest see `run_plan`.

    `branch` is RUN@STEP: the step of a stored run that the run continues.
    """
    timeout, port = _page_options(page)
    origin = None
    if branch is None:
        wanted = scenario_from(file, flags)
    else:
        from coordinator.cli.branch import branch_from  # noqa: PLC0415  # it imports the verification of runs

        origin, wanted = branch_from(branch, file, flags)
    plan = watched_plan(wanted) if page.watch else make_plan(wanted)
    if join_seconds is not None:
        if not plan.hosts:
            raise ScenarioError("join_seconds", join_seconds, "the memory driver has no hosts; leave it out")
        plan = replace(plan, join_seconds=seconds_from("join_seconds", join_seconds))
    require_possible(plan)
    if large := warning(plan):
        say(f"warning: {large}", err=True)
    # Before the process moves to a network of its own, out of reach of other programs.
    listener = open_listener(port) if page.watch else None
    metrics = None if output.metrics is None else metrics_target(output.metrics)
    if needs_own_network(plan):
        if plan.scenario.netns == "auto":
            say(
                f"{plan.topology.title}: {tracking_exceeded(plan)}; moving to a network namespace of its own",
                err=True,
            )
        enter_own_network()
    return run_plan(plan, output, None if listener is None else (listener, timeout), metrics, origin)


def _page_options(page: PageFlags) -> tuple[float, int]:
    """Return the seconds that a watched run may be paused, and the port of its page, 0 for a free port."""
    timeout, port = page.watch_timeout, page.watch_port
    for name, value in (("watch_timeout", timeout), ("watch_port", port)):
        if value is not None and not page.watch:
            raise ScenarioError(name, value, "only a run with --watch has a page; add it, or leave this out")
    if port is not None and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ScenarioError("watch_port", port, "expected a port from 1 to 65535")
    return WATCH_SECONDS if timeout is None else seconds_from("watch_timeout", timeout), int(port or 0)


def run_plan(
    plan: Plan,
    output: RunOutput,
    page: tuple[socket.socket, float] | None = None,
    metrics: socket.socket | Path | None = None,
    origin: "Origin | None" = None,
) -> int:
    """Run a plan, show the result and return the exit status.

    `page`: the socket that serves the page of the run, and the seconds that the run may be paused. `metrics`: the
    socket that serves metrics, or the file that they are written to. `origin`: the stored run that the run continues.
    """
    # Not before `enter_own_network`, as this needs a process with one thread: polars starts threads when it is
    # imported.
    with single_threaded_imports():
        from coordinator.cli.result import show_result  # noqa: PLC0415
        from coordinator.execution.branch import branch_folder  # noqa: PLC0415
        from coordinator.execution.observer import RunObserver  # noqa: PLC0415
        from coordinator.execution.run import run  # noqa: PLC0415
        from coordinator.execution.sinks import DirectorySink  # noqa: PLC0415

    with contextlib.ExitStack() as stack:
        watch = None
        if page is not None:
            from coordinator.live.watch import Watch  # noqa: PLC0415

            until = 0 if origin is None else origin.step
            watch = stack.enter_context(Watch(plan, page[0], timeout=page[1], until=until))
            say(f"{plan.topology.title}: watch it at {watch.url}", err=True, flush=True)
        observer = RunObserver(plan, None if watch is None else lambda: watch.plan)
        if isinstance(metrics, socket.socket):
            _serve_metrics(observer, metrics, stack)
        viewed = watch is None and not output.json and not output.quiet and sys.stderr.isatty()
        _show_progress(observer, stack, viewed=viewed, quiet=output.quiet)
        # Counting takes time only where the counts are wanted.
        observe = observer.count if viewed or metrics is not None else None
        accept = None if origin is None else origin.accept
        sink = DirectorySink(output.out)
        result = run(plan, sink, observer.progress, steering=watch, observe=observe, accept=accept)
        observer.conclude(result)
        number = 0
        while watch is not None and (origin := watch.concluded(result)):
            if not output.json:
                show_result(result.plan, result, every_claim=output.claims)
            number += 1
            sink = DirectorySink(branch_folder(output.out, number))
            observer.restart()
            result = run(watch.plan, sink, observer.progress, steering=watch, observe=observe, accept=origin.accept)
            observer.conclude(result)
    if output.json:
        print_json({**result.summary, "path": str(result.path)})
    else:
        show_result(result.plan, result, every_claim=output.claims)
    if isinstance(metrics, Path):
        _write_metrics(observer, metrics)
    if output.open and not result.report_error:
        _open(result.path / REPORT)
    return 130 if result.execution.interrupted else result.exit_status


def _show_progress(observer: "RunObserver", stack: contextlib.ExitStack, *, viewed: bool, quiet: bool) -> None:
    if viewed:
        from coordinator.cli.run_view import run_view  # noqa: PLC0415  # for terminals

        stack.enter_context(run_view(observer))
    elif not quiet:
        observer.forward = stack.enter_context(on_stderr(observer.plan.topology.title))


def _serve_metrics(observer: "RunObserver", listener: socket.socket, stack: contextlib.ExitStack) -> None:
    from coordinator.execution.run_metrics import metrics_text  # noqa: PLC0415  # as below: most runs have no metrics
    from coordinator.live.metrics import MetricsServer  # noqa: PLC0415

    server = stack.enter_context(MetricsServer(listener, lambda: metrics_text(observer)))
    say(f"{observer.plan.topology.title}: metrics at {server.url}", err=True, flush=True)


def _write_metrics(observer: "RunObserver", path: Path) -> None:
    from coordinator.execution.run_metrics import metrics_text  # noqa: PLC0415
    from coordinator.live.metrics import write_metrics  # noqa: PLC0415

    write_metrics(path, metrics_text(observer))


def _open(report: Path) -> None:
    from coordinator.cli.runs import open_page  # noqa: PLC0415  # rarely used

    problem = open_page(report)
    if problem is not None:
        say(f"{report}: not opened: {problem}", err=True)
