"""`coordinator compare`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from coordinator.api.comparisons import compare
from coordinator.cli import render
from coordinator.cli.documents import print_json
from coordinator.cli.markup import escape
from coordinator.cli.output import OUTPUT, JsonFlag, RunArgument, as_command
from coordinator.cli.plugin_flags import PluginFlag
from coordinator.cli.verify import warn_unverified
from coordinator.reports.data import find_run
from coordinator.reports.tables import to_csv, to_markdown
from coordinator.scenario.plugins import load_plugins
from emunode.errors import ScenarioError
from emunode.terminal import say, visible


def compare_runs(
    *runs: RunArgument,
    plugin: PluginFlag = None,
    json: JsonFlag = False,
    markdown: Annotated[
        bool, Parameter(negative=(), show_default=False, group=OUTPUT, help="print a Markdown table")
    ] = False,
    csv: Annotated[
        bool, Parameter(negative=(), show_default=False, group=OUTPUT, help="print comma-separated values")
    ] = False,
    plot: Annotated[
        Path | None, Parameter(group=OUTPUT, help="draw the main metrics as bars: FILE.svg or FILE.png")
    ] = None,
    out: Annotated[
        Path | None, Parameter(group=OUTPUT, help="page of two runs: what differs, and both maps on one slider")
    ] = None,
) -> int:
    """Compare stored runs: scenarios, metrics and claims side by side.

    Examples:
      coordinator compare runs/star-4-broadcast-edt runs/star-4-broadcast-flood
      coordinator compare runs/star-4-broadcast-edt runs/star-4-broadcast-flood \\
          --out page.html
    """
    if json + markdown + csv > 1:
        raise ScenarioError("compare", "--json --markdown --csv", "one of them at a time")
    load_plugins(plugin or ())
    comparison = compare(*runs)
    warn_unverified(map(find_run, runs))
    rows = comparison.rows
    if plot is not None:
        comparison.plot().save(plot)
    if out is not None:
        comparison.save(out)
    if json:
        print_json(comparison.record)
    elif markdown or csv:
        say(to_markdown(rows) if markdown else to_csv(rows), end="")
    else:
        show_comparison(comparison.record, rows)
    return 0


def show_comparison(comparison: Mapping[str, Any], rows: Sequence[Mapping[str, object]]) -> None:
    """Print the differences between runs, and their metrics and claims side by side."""
    out = render.console()
    for name, notes in comparison["missing"].items():
        out.print(
            f"[yellow]{escape(_plain(name))} is incomplete[/]: {escape(_plain('; '.join(notes)))}", soft_wrap=True
        )
    same = "the same history, byte for byte" if comparison["same_history"] else "different histories"
    differs = ", ".join(comparison["differs"]) or "nothing"
    out.print(f"the scenarios differ in: {escape(_plain(differs))}; {same}", soft_wrap=True)
    # A line feed in a name of somebody else begins no line of its own.
    render.show_rows("compared", [{_plain(key): _plain(value) for key, value in row.items()} for row in rows])


def _plain(value: Any) -> Any:
    return visible(value, lines=False) if isinstance(value, str) else value


compare_command = as_command(compare_runs, "compare")
