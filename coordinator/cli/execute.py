"""The work that `run` and `serve` share: run a plan and show the result.

Only for a process that is in the network of its run (`enter_own_network`): polars starts threads when it is imported,
and a process with threads cannot move to another network.
"""

import contextlib
import socket
import sys
import threading
from pathlib import Path

from coordinator.api.console import on_stderr, say_wrapped
from coordinator.cli.output import RunOutput
from coordinator.cli.result import show_result
from coordinator.cli.run_view import run_view
from coordinator.cli.runs import open_page
from coordinator.execution.branch import Origin
from coordinator.execution.observer import RunObserver
from coordinator.execution.run import run
from coordinator.execution.run_metrics import metrics_text
from coordinator.execution.sinks import DirectorySink, RunResult
from coordinator.history.run_directory import branch_folder
from coordinator.history.run_index import REPORT
from coordinator.live.metrics import MetricsServer, write_metrics
from coordinator.live.watch import Watch
from coordinator.planning.plan import Plan
from emunode.terminal import print_json, say


def run_plan(
    plan: Plan,
    output: RunOutput,
    page: tuple[socket.socket, float, bool] | None = None,
    metrics: socket.socket | Path | None = None,
    origin: Origin | None = None,
) -> int:
    """Run a plan, show the result and return the exit status.

    `page`: the socket that serves the page of the run, the seconds that the run may be paused, and whether to open a browser
    if there is one. `metrics`: the
    socket that serves metrics, or the file that they are written to. `origin`: the stored run that the run continues.
    """
    with contextlib.ExitStack() as stack:
        watch = None if page is None else _watch(plan, *page, origin, stack)
        observer = RunObserver(plan, None if watch is None else lambda: watch.plan)
        if isinstance(metrics, socket.socket):
            _serve_metrics(observer, metrics, stack)
        result = _execute(observer, output.out, origin, watch, output, counted=metrics is not None)
        number = 0
        while watch is not None and (origin := _concluded(watch, result, output)):
            number += 1
            observer.restart()
            folder = branch_folder(output.out, number)
            result = _execute(observer, folder, origin, watch, output, counted=metrics is not None)
    if watch is None or output.json:
        _show(result, output)
    if isinstance(metrics, Path):
        write_metrics(metrics, metrics_text(observer))
    if output.open and not result.report_error:
        _open(result.path / REPORT)
    return 130 if result.execution.interrupted else result.exit_status


def _watch(
    plan: Plan,
    listener: socket.socket,
    timeout: float,
    opens: bool,
    origin: Origin | None,
    stack: contextlib.ExitStack,
) -> Watch:
    watch = stack.enter_context(Watch(plan, listener, timeout=timeout, until=0 if origin is None else origin.step))
    say(f"{plan.topology.title}: watch it at {watch.url}", err=True, flush=True)
    if opens:
        # In a thread: some browsers return when their last window is closed.
        threading.Thread(target=open_page, args=(watch.browser_url,), daemon=True).start()
    return watch


def _concluded(watch: Watch, result: RunResult, output: RunOutput) -> Origin | None:
    """Show the result of a run while its page stays open; of several runs as JSON, the last one is printed in the end."""
    if not output.json:
        _show(result, output)
    if watch.is_watched and not output.quiet:
        say("the page stays open for other runs until it is closed; or press Ctrl-C", err=True, flush=True)
    return watch.concluded(result)


def _execute(
    observer: RunObserver,
    folder: Path | None,
    origin: Origin | None,
    watch: Watch | None,
    output: RunOutput,
    *,
    counted: bool,
) -> RunResult:
    plan = observer.plan if watch is None else watch.plan
    accept = None if origin is None else origin.accept
    viewed = watch is None and not output.json and not output.quiet and sys.stderr.isatty()
    # Counting takes time only where the counts are wanted.
    observe = observer.count if counted or viewed else None
    with contextlib.ExitStack() as stack:
        _show_progress(observer, stack, viewed=viewed, quiet=output.quiet)
        result = run(plan, DirectorySink(folder), observer.progress, steering=watch, observe=observe, accept=accept)
        observer.conclude(result)
    return result


def _show(result: RunResult, output: RunOutput) -> None:
    if output.json:
        print_json({**result.summary, "path": str(result.path)})
    else:
        show_result(result.plan, result, every_claim=output.claims)


def _show_progress(observer: RunObserver, stack: contextlib.ExitStack, *, viewed: bool, quiet: bool) -> None:
    if viewed:
        stack.enter_context(run_view(observer))
    elif not quiet:
        observer.forward = stack.enter_context(on_stderr(observer.plan.topology.title))


def _serve_metrics(observer: RunObserver, listener: socket.socket, stack: contextlib.ExitStack) -> None:
    server = stack.enter_context(MetricsServer(listener, lambda: metrics_text(observer)))
    say(f"{observer.plan.topology.title}: metrics at {server.url}", err=True, flush=True)


def _open(report: Path) -> None:
    problem = open_page(report)
    if problem is not None:
        say_wrapped(f"{report}: not opened: {problem}", err=True)
