"""`coordinator report`, and the pages that `coordinator open` shows."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.cli.output import OUTPUT, JsonFlag, PluginFlag, RunArgument, as_command
from coordinator.cli.verify import warn_unverified
from coordinator.execution.verification import contradictions_named
from coordinator.history.run_directory import RUNS
from coordinator.history.run_index import REPORT, read_runs, write_index
from coordinator.reports.data import find_run
from coordinator.reports.index_page import index_page
from coordinator.reports.run_report import write_report
from coordinator.scenario.plugins import load_plugins
from emunode.errors import ScenarioError
from emunode.terminal import print_json, say


@as_command
def report(
    run: RunArgument,
    *,
    out: Annotated[
        Path | None, Parameter(group=OUTPUT, help="file to write; default: report.html in the run directory")
    ] = None,
    plugin: PluginFlag = None,
    json: JsonFlag = False,
) -> int:
    """Draw the report of a stored run again.

    The run may be incomplete or damaged.

    Examples:
      coordinator report runs/star-4-broadcast-edt
      coordinator report runs/star-4-broadcast-edt/latest --out edt.html
    """
    load_plugins(plugin)
    path = find_run(run)
    try:
        with contradictions_named(path):
            written = write_report(path, out)
        warn_unverified([path])
    except OSError as error:
        raise ScenarioError("out", str(out or run), f"it cannot be written: {error.strerror}") from None
    if json:
        print_json({"written": str(written)})
    else:
        say(written, lines=False)
    return 0


def page_of_runs(run: Path | None) -> Path:
    """Write the page of all runs again; ScenarioError if a run is named, or without a folder of runs."""
    if run is not None:
        raise ScenarioError("index", str(run), "the index lists all runs; leave the run out")
    if not RUNS.is_dir():
        raise ScenarioError("index", str(RUNS), "there are no runs in this folder")
    return write_index(RUNS, index_page, fresh=True)


def page_of_run(run: Path | None) -> Path:
    """Return the report of a run, by default of the newest, drawn if it is missing. Raises ScenarioError."""
    if run is None:
        newest = next(iter(read_runs()), None)
        if newest is None:
            raise ScenarioError("run", str(RUNS), "there is no run in this folder; name one, or run a scenario first")
        run = RUNS / newest.path
    path = find_run(run)
    page = path / REPORT
    if not page.is_file():
        try:
            with contradictions_named(path):
                write_report(path)
        except OSError as error:
            raise ScenarioError("run", str(run), f"its report cannot be written: {error.strerror}") from None
    return page
