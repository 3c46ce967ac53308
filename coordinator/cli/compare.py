"""`coordinator compare`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from cyclopts import Parameter
from rich.markup import escape

from coordinator.api.comparisons import compare
from coordinator.cli import render
from coordinator.cli.output import OUTPUT, JsonFlag, PluginFlag, RunArgument, as_command
from coordinator.cli.verify import warn_unverified
from coordinator.reports.compare import compared_rows
from coordinator.reports.data import find_run
from coordinator.reports.numbers import show
from coordinator.reports.tables import to_csv, to_markdown
from coordinator.scenario.plugins import load_plugins
from emunode.errors import ScenarioError
from emunode.terminal import print_json, say, visible


@Parameter(name="*", group=OUTPUT)
@dataclass(frozen=True)
class CompareOutput:
    """Flags of `compare` for its output and its files."""

    every: Annotated[
        bool,
        Parameter(
            name="--all",
            help="print equal metrics and all claims too; other formats always have them",
        ),
    ] = False
    json: JsonFlag = False
    markdown: Annotated[bool, Parameter(help="print a Markdown table")] = False
    csv: Annotated[bool, Parameter(help="print comma-separated values")] = False
    plot: Annotated[Path | None, Parameter(help="draw the main metrics as bars, .svg, .png, .pdf or .tex")] = None
    out: Annotated[Path | None, Parameter(help="page of the runs: what differs, and all maps on one slider")] = None


@as_command
def compare_runs(
    *runs: RunArgument,
    plugin: PluginFlag = None,
    output: CompareOutput = CompareOutput(),
) -> int:
    """Compare stored runs: what differs in their scenarios, metrics and claims.

    Examples:
      coordinator compare runs/star-4-broadcast-edt runs/star-4-broadcast-flood
      coordinator compare runs/star-4-broadcast-edt runs/star-4-broadcast-flood \\
          --out page.html
    """
    if output.json + output.markdown + output.csv > 1:
        raise ScenarioError("compare", "--json --markdown --csv", "one of them at a time")
    load_plugins(plugin)
    comparison = compare(*runs)
    warn_unverified(map(find_run, runs))
    rows = comparison.rows
    if output.plot is not None:
        command = f"coordinator compare {' '.join(quote(str(run)) for run in runs)} --plot {quote(str(output.plot))}"
        replace(comparison.plot(), about=("Compared", f"Made by: {command}")).save(output.plot)
    if output.out is not None:
        comparison.save(output.out)
    if output.json:
        print_json(comparison.record)
    elif output.markdown or output.csv:
        say(to_markdown(rows) if output.markdown else to_csv(rows), end="")
    else:
        show_comparison(comparison.record, rows if output.every else None)
    return 0


def show_comparison(comparison: Mapping[str, Any], rows: Sequence[Mapping[str, object]] | None = None) -> None:
    """Print how runs differ, or these rows about them."""
    out = render.console()
    for name, notes in comparison["missing"].items():
        out.print(f"[yellow]{escape(_plain(name))} is incomplete[/]: {escape(_plain('; '.join(notes)))}")
    for name, because in comparison["undecided"].items():
        out.print(f"[yellow]{escape(_plain(name))} is undecided[/]: {escape(_plain(because))}")
    same = "the same history, byte for byte" if comparison["same_history"] else "different histories"
    differs = ", ".join(comparison["differs"]) or "nothing"
    say(f"the scenarios differ in: {differs}; {same}", lines=False)
    shown = compared_rows(comparison) if rows is None else rows
    sources: dict[str, int] = {}
    # A line feed in a name of somebody else begins no line of its own.
    render.show_rows(
        "compared", [{_plain(key): _plain(value) for key, value in _cited(row, sources).items()} for row in shown]
    )
    for source, number in sources.items():
        say(f"{number:>3}  {source}", lines=False)
    if found := comparison.get("parting"):
        say(f"the runs first differ in step {found['step']}, in row {found['row']:,} of their journals:")
        for name, row in zip(comparison["runs"], found["rows"], strict=True):
            say(f"  {name}: {row or 'it has ended'}", lines=False)
        say(f"before that step {'; '.join(found['known'])}")
    if comparison["bits"] is not None:
        say(comparison["bits"]["text"], lines=False)
    if rows is None:
        say("--all prints equal metrics and all claims too")


def _cited(row: Mapping[str, object], sources: dict[str, int]) -> Mapping[str, object]:
    """Return a row for a terminal: names in words, and numbers in place of the sources of claims."""
    name, _, source = str(row["name"]).partition(" by ")
    words = name.removesuffix(" ==").replace("_", " ")
    if row["about"] == "claim":
        words = f"{words} ({sources.setdefault(source, len(sources) + 1)})"
    values = {key: show(value, 4) if isinstance(value, float) else value for key, value in row.items()}
    return {**values, "name": words}


def _plain(value: Any) -> Any:
    return visible(value, lines=False) if isinstance(value, str) else value
