"""`coordinator report`."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.api.contradictions import contradictions_named
from coordinator.cli.documents import print_json
from coordinator.cli.output import OUTPUT, JsonFlag, PluginFlag, RunArgument, as_command
from coordinator.cli.verify import warn_unverified
from coordinator.reports.data import find_run
from coordinator.reports.run_report import write_report
from coordinator.scenario.plugins import load_plugins
from emunode.errors import ScenarioError
from emunode.terminal import say


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
    load_plugins(plugin or ())
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


report_command = as_command(report)
