"""`coordinator list runs` and `coordinator open`: find stored runs, and show their reports."""

import os
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any, Final

from cyclopts import Parameter

from coordinator.api.console import say_wrapped
from coordinator.cli import render
from coordinator.cli.output import Command, JsonFlag, as_command
from coordinator.history.run_directory import RUNS
from coordinator.history.run_index import REPORT, RunEntry, read_runs
from coordinator.reports.numbers import show
from emunode.errors import ScenarioError
from emunode.terminal import plural, print_json, say

ORDERS: Final[Mapping[str, Callable[[RunEntry], Any]]] = {
    "time": lambda entry: entry.time,
    "run": lambda entry: entry.path,
    "delivered": lambda entry: (entry.delivered or 0) / entry.expected if entry.expected else -1,
    "steps": lambda entry: -1 if entry.steps is None else entry.steps,
    "packets": lambda entry: -1 if entry.packets is None else entry.packets,
    "faults": lambda entry: entry.fault_count,
    "seed": lambda entry: entry.seed,
    "verdict": lambda entry: entry.outcome,
}
"""Sort keys of runs, by the name of their column; runs without a number come first. The script of the page has the same."""
GROUPS: Final[Mapping[str, Callable[[RunEntry], str]]] = {
    "topology": lambda entry: entry.topology,
    "collective": lambda entry: entry.collective,
    "algorithm": lambda entry: entry.algorithm,
    "driver": lambda entry: entry.driver,
    "faults": lambda entry: entry.faults or "no fault",
    "verdict": lambda entry: entry.outcome,
}
"""Properties that the runs of a group share, by their name in `--group`."""


def matching(entries: Sequence[RunEntry], words: str) -> list[RunEntry]:
    """Return the entries that contain every word, in upper or lower case."""
    wanted = words.lower().split()
    return [entry for entry in entries if all(word in _text(entry) for word in wanted)]


def _text(entry: RunEntry) -> str:
    parts = (entry.path, entry.title, entry.driver, entry.clock, entry.faults, entry.outcome, f"seed {entry.seed}")
    return " ".join(parts).lower()


def sort_runs(entries: Sequence[RunEntry], order: str) -> list[RunEntry]:
    """Return the entries by one of ORDERS; equal ones stay in their order, and the newest come first."""
    return sorted(entries, key=ORDERS[order], reverse=order == "time")


def grouped(entries: Sequence[RunEntry], group: str) -> dict[str, list[RunEntry]]:
    """Return the entries by what they have in common, one of GROUPS, in the order of their first entries."""
    found: dict[str, list[RunEntry]] = {}
    for entry in entries:
        found.setdefault(GROUPS[group](entry), []).append(entry)
    return found


DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
"""Variables; one of them is set where a browser can show a page."""
LAST = 20
LEAST_ROOM = 26
"""Columns for the time and seed in the name of a run."""


@as_command
@dataclass
class RunsCommand(Command):
    """List the stored runs, newest first.

    Folders that hold no run, or a damaged one, are left out. A run of another minor version shows that version in place of
    a verdict. `coordinator open` shows one of the runs, and the page runs/index.html all of them.

    Examples:
      coordinator list runs --last 0 --json
      coordinator list runs --filter "star:4 crash" --sort steps --group algorithm
    """

    folder: Annotated[Path, Parameter(help="folder that holds runs")] = RUNS
    _: KW_ONLY
    last: Annotated[int, Parameter(metavar="N", help="show the first N runs; 0: all")] = LAST
    filter: Annotated[str, Parameter(metavar="WORDS", help="show runs that contain all of these words")] = ""
    sort: Annotated[str, Parameter(metavar="COLUMN", help=f"one of {', '.join(ORDERS)}")] = "time"
    group: Annotated[str | None, Parameter(metavar="KEY", help=f"one table for each {', '.join(GROUPS)}")] = None

    def __call__(self) -> None:
        if self.last < 0:
            raise ScenarioError("last", self.last, "expected a number of runs, or 0 for all")
        for name, value, known in (("sort", self.sort, ORDERS), ("group", self.group, GROUPS)):
            if value is not None and value not in known:
                raise ScenarioError(name, value, f"expected one of {', '.join(known)}")
        if self.folder != RUNS and not self.folder.is_dir():
            raise ScenarioError("folder", str(self.folder), "no such folder")
        stored = read_runs(self.folder)
        runs = sort_runs(matching(stored, self.filter), self.sort)
        shown = runs[: self.last or None]
        if self.json:
            print_json(
                [
                    {**asdict(run), "path": str(self.folder / run.path), "report": str(self.folder / run.path / REPORT)}
                    for run in shown
                ]
            )
            return
        for title, members in grouped(shown, self.group).items() if self.group else [("", shown)]:
            _show_runs(title, members)
        if not stored:
            say(f"no runs in {self.folder}")
        elif not runs:
            say(f"no runs that contain {self.filter!r}", lines=False)
        elif len(shown) < len(runs):
            noun = "older run" if self.sort == "time" else "more run"
            say(f"and {plural(len(runs) - len(shown), noun)}: --last 0 lists all")


def _show_runs(title: str, entries: Sequence[RunEntry]) -> None:
    """Print runs as a table, the names of runs in several lines if it is wider than the output."""
    rows: list[dict[str, object]] = [
        {
            "run": run.path,
            "delivered": run.deliveries or None,
            "steps": run.steps,
            "packets": run.packets,
            "faults": run.fault_count,
            "seed": run.seed,
            "verdict": f"{run.outcome}, {run.reason.removeprefix('undecided ')}" if run.reason else run.outcome,
        }
        for run in entries
    ]
    widths = {name: max(len(name), *(len(show(row[name])) for row in rows)) for name in rows[0]} if rows else {}
    # Each column has a space before and after it.
    room = render.console().columns - sum(width + 2 for name, width in widths.items() if name != "run") - 2
    for row in rows:
        # Lines may end at the hyphens and the slash of a name.
        folder, slash, stamp = str(row["run"]).rpartition("/")
        if len(str(row["run"])) > room >= LEAST_ROOM:
            row["run"] = "\n".join([*wrap(folder + slash, room), stamp])
    render.show_rows(title, rows)


@as_command
def open_run(
    run: Annotated[
        Path | None, Parameter(help="run directory, or a folder of runs/; default: the newest run in runs/")
    ] = None,
    *,
    index: Annotated[bool, Parameter(help="show the page of all runs, runs/index.html")] = False,
    json: JsonFlag = False,
) -> None:
    """Show the report of a run in the browser, and print its path.

    A report that is missing is drawn. With --index, the page of all runs is made again from their files. Where there is no
    browser or no display, only the path is printed.

    Examples:
      coordinator open
      coordinator open runs/star-4-broadcast-edt
    """
    from coordinator.cli.report import page_of_run, page_of_runs  # noqa: PLC0415  # polars, jinja: 0.4 s for `list runs`

    page = page_of_runs(run) if index else page_of_run(run)
    problem = open_page(page)
    if json:
        print_json({"page": str(page), "opened": problem is None})
        return
    say(page, lines=False)
    if problem is not None:
        say_wrapped(f"not opened: {problem}", err=True)


def open_page(page: Path | str) -> str | None:
    """Open a file or an address in the browser; return the reason if that is not possible.

    Without a display, `webbrowser` would start a browser for terminals, without the map and the slider. It is started
    only if the variable BROWSER names it.
    """
    if not any(map(os.environ.get, DISPLAYS)):
        return f"this machine has no display (none of {', '.join(DISPLAYS)} is set)"
    address = page if isinstance(page, str) else page.resolve().as_uri()
    return None if webbrowser.open(address) else "no browser could be started; BROWSER may name one"
