"""`coordinator reproduce`."""

import time
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.markup import escape

from coordinator.annexes.papers.api import Reproductions, run_reproductions
from coordinator.annexes.papers.base import LEFT_OUT, Figure, Reproduction, Section
from coordinator.annexes.papers.costs import RunEstimate, cost_of, duration
from coordinator.annexes.papers.registry import REPRODUCTIONS, find_reproduction
from coordinator.annexes.papers.run_store import FOLDER
from coordinator.annexes.papers.tables import verdict_of
from coordinator.api.console import on_stderr
from coordinator.cli.output import OUTPUT, PluginCommand, as_command
from coordinator.cli.render import console, print_rows, show_rows, verdict_text
from coordinator.results.claims import EXIT_STATUS
from emunode.errors import EmulatorError, ScenarioError
from emunode.terminal import print_json, say


@as_command
@dataclass
class ReproduceCommand(PluginCommand):
    """Re-run a paper's experiments: published, predicted and measured values.

    Without NAME or --all, list the reproductions and how long each takes; with --list, what they leave out. The exit status
    is 1 if a row is violated.

    Examples:
      coordinator reproduce --list
      coordinator reproduce tseng-sheu-1997 --n 4 --out paper
    """

    name: Annotated[str | None, Parameter(help="reproduction to run; without it, they are listed")] = None
    _: KW_ONLY
    all: Annotated[bool, Parameter(help="run every reproduction")] = False
    n: Annotated[int | None, Parameter(help="only this size of the network; default: every size in the tables")] = None
    out: Annotated[
        Path | None,
        Parameter(
            group=OUTPUT,
            help="folder for one page with tables and figures, and each table as CSV; continues an interrupted call",
        ),
    ] = None
    list: Annotated[
        bool,
        Parameter(help="list the statements of the papers that are not reproduced"),
    ] = False
    minutes: Annotated[float, Parameter(help="start no further run after this time")] = 60.0

    def __call__(self) -> int:
        if self.list:
            if self.n is not None or self.out is not None:
                raise ScenarioError("list", None, "--list runs nothing; leave --n and --out out")
            listed = REPRODUCTIONS.values() if self.name is None else [find_reproduction(self.name)]
            rows = [
                {key: row[key] for key in ("reproduction", *LEFT_OUT)} for about in listed for row in about.left_out
            ]
            print_rows("not reproduced", rows, self.json)
            return 0
        if self.all and self.name is not None:
            raise ScenarioError("reproduce", self.name, "give a name or --all, not both")
        if not self.all and self.name is None:
            if self.n is not None or self.out is not None:
                raise ScenarioError("reproduce", None, f"give --all, or one of {', '.join(REPRODUCTIONS)}")
            print_rows("reproduce", [_summary(about) for about in REPRODUCTIONS.values()], self.json)
            return 0
        if not self.minutes > 0:
            raise ScenarioError("minutes", self.minutes, "a number above 0")
        if self.all and self.n is not None:
            raise ScenarioError("n", self.n, "--all covers every size; leave --n out, or name one reproduction")
        chosen = [find_reproduction(self.name)] if self.name is not None else [*REPRODUCTIONS.values()]
        return _reproduce([(about, about.over(self.n)) for about in chosen], self.out, self.minutes, as_json=self.json)


def _summary(about: Reproduction) -> dict[str, object]:
    return {
        "name": about.name,
        "paper": about.paper,
        "about": about.description,
        "takes": str(cost_of(about.name) or "?"),
    }


def _reproduce(
    chosen: Sequence[tuple[Reproduction, Sequence[int]]],
    out: Path | None,
    minutes: float,
    *,
    as_json: bool,
) -> int:
    """Run reproductions one after the other, show each table as soon as it is complete, and return the exit status."""
    began = time.monotonic()
    try:
        with on_stderr("reproduce", "" if out else "nothing is kept; with --out, finished runs are") as progress:
            done = run_reproductions(
                chosen, out, minutes, progress, (lambda _section: None) if as_json else show_section, show_estimate
            )
    except (EmulatorError, KeyboardInterrupt):
        if out is not None and (out / FOLDER).exists():
            say(f"reproduce: the same command continues with the runs in {out / FOLDER}", err=True)
        raise
    if as_json:
        print_json([reproduced.record() for reproduced in done.reproduced])
    else:
        show_summary(done, time.monotonic() - began)
    return EXIT_STATUS[verdict_of(reproduced.verdict for reproduced in done.reproduced)]


def show_estimate(estimate: RunEstimate | None) -> None:
    """Print the number of runs and their time before the first one starts."""
    found = (
        "the runs follow from results and cannot be counted" if estimate is None else f"{estimate} on two idle cores"
    )
    say(f"reproduce: {found}", err=True, flush=True)


def show_section(section: Section) -> None:
    """Print a table with its notes, or the title of a figure: only a page can show figures."""
    out = console()
    if isinstance(section, Figure):
        out.print(f"{escape(section.title)} [dim](a figure: --out DIR draws it)[/]\n")
        return
    show_rows(section.title, section.shown)
    for note in section.notes:
        say(f"  {note}")
    out.print()


def show_summary(done: Reproductions, seconds: float) -> None:
    """Print the verdict of each reproduction, the number of runs, and where the page and the tables are."""
    out = console()
    for reproduced in done.reproduced:
        out.print(f"{reproduced.reproduction.name}: {verdict_text(reproduced.verdict)}, {reproduced.counted}")
    kept = f" ({done.kept:,} kept from before)" if done.kept else ""
    say(f"{done.runs:,} runs{kept}, {done.shared:,} results used again; took {duration(seconds)}")
    if done.files:
        say(f"{done.files[0]}, and {len(done.files) - 1:,} tables as CSV beside it")
