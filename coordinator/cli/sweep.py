"""`coordinator sweep`."""

import re
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from coordinator.api.console import on_stderr, say_wrapped
from coordinator.campaigns.sweep import METRICS, Sweep
from coordinator.campaigns.sweep import sweep as run_sweep
from coordinator.cli import render
from coordinator.cli.given import is_file_name, named_values, values_from
from coordinator.cli.options import make_flags
from coordinator.cli.output import OUTPUT, Command, as_command
from coordinator.cli.varied import varied_values
from coordinator.reports.sweep_report import columns_of
from emunode.errors import ScenarioError
from emunode.model import Collective
from emunode.terminal import print_json, say

AGAIN = "finished runs are kept, and the same command runs the others"
KEPT = "nothing is kept; with --out, finished runs are"
SWEEP = Group("Sweep", sort_key=-1)
SweepFlags: Any = Annotated[
    make_flags("SweepFlags", {"driver": "memory"}, without=("topology", "collective", "algorithm", "name")) | None,
    Parameter(name="*"),
]


@as_command
@dataclass
class SweepCommand(Command):
    """Run algorithms over networks and sizes, and draw a metric with its lower bound.

    A range stands for all its numbers, in the name of any family. Runs are in memory unless --driver is given. The folder
    of --out keeps finished runs: the same command resumes an interrupted sweep, and a larger one reuses them.

    Examples:
      coordinator sweep star:3..6 broadcast greedy-tree,edt --metric steps --out sweep
      coordinator sweep star:4 allreduce edt,bfs-tree --values float32 --vary segments=1..4 \\
          --metric distinct_results
    """

    words: Annotated[
        tuple[str, ...],
        Parameter(
            name="scenario",
            help="networks, collective and algorithms in this order, such as star:3..6 broadcast edt,greedy-tree",
        ),
    ] = ()
    _: KW_ONLY
    topology: Annotated[
        list[str] | None,
        Parameter(
            help="networks, with ranges as in star:3..6 (repeatable)",
            metavar="NAMES",
            group=SWEEP,
        ),
    ] = None
    algorithm: Annotated[
        list[str] | None,
        Parameter(help="algorithms, separated by commas (repeatable)", metavar="NAMES", group=SWEEP),
    ] = None
    collective: Annotated[
        str | None, Parameter(help=f"one of {', '.join(Collective)}; default: broadcast", group=SWEEP)
    ] = None
    metric: Annotated[
        str,
        Parameter(help=f"{', '.join(METRICS)}, or a metric that a feature or plug-in declares", group=SWEEP),
    ] = "steps"
    vary: Annotated[
        list[str] | None,
        Parameter(
            help="FIELD=VALUE,VALUE or FIELD=1..4: several values of another flag, and which of them change the bits of "
            "real numbers (repeatable)",
            metavar="FIELD=VALUES",
            group=SWEEP,
        ),
    ] = None
    flags: SweepFlags = None
    out: Annotated[
        Path | None, Parameter(group=OUTPUT, help="folder for table, chart and page; an interrupted sweep is resumed")
    ] = None

    def __call__(self) -> int:
        values: dict[str, Any] = values_from((), self.flags)
        topologies, collective, algorithms = self._named()
        with on_stderr("sweep", AGAIN if self.out else KEPT) as progress:
            varied = varied_values(self.vary or ())
            result = run_sweep(
                topologies,
                collective,
                algorithms,
                self.metric,
                vary=varied,
                out=self.out,
                progress=progress,
                warn=lambda text: say_wrapped(f"warning: {text}", err=True),
                **values,
            )
        if self.json:
            print_json(
                {
                    "out": self.out and str(self.out),
                    "metric": self.metric,
                    "rows": result.rows,
                    "left_out": result.left_out,
                    "finished": result.finished,
                    "different_bits": result.different_bits,
                }
            )
        else:
            _show(result, self.out)
        return result.exit_status if result.finished else 130

    def _named(self) -> tuple[list[str], str, list[str]]:
        """Return the networks, the collective and the algorithms of the words and their flags."""
        if self.words and is_file_name(self.words[0]):
            raise ScenarioError("scenario", self.words[0], "a sweep has no scenario file; name its networks")
        collectives = None if self.collective is None else [self.collective]
        flags = {"topology": self.topology, "collective": collectives, "algorithm": self.algorithm}
        given = {name: texts for name, texts in flags.items() if texts}
        given |= {name: [word] for name, word in named_values(self.words, given).items()}
        topologies = [
            name for text in given.get("topology", ()) for name in re.split(r",(?=[A-Za-z-]+:)", text) if name
        ]
        algorithms = [name for text in given.get("algorithm", ()) for name in text.split(",") if name]
        return topologies, given.get("collective", ["broadcast"])[0], algorithms


def _show(result: Sweep, out: Path | None) -> None:
    """Print the table, the omissions, and the folder."""
    columns = columns_of(result.rows)
    del columns["bottleneck"]
    varied = "varied" in columns
    if varied:
        # Bounds take the room of the settings, a few words.
        columns = {
            name: heading for name, heading in columns.items() if name not in ("nodes", "predicted", "bound", "ratio")
        }
    # Fold trees are single words, and longer than a column; they follow the table.
    columns.pop("difference", None)
    table = [{heading: row.get(name) for name, heading in columns.items()} for row in result.rows]
    # The name of a network tells its nodes, and `times the bound` compares with the bound; files and JSON have every column.
    render.show_rows(result.title, table, optional=[columns[name] for name in ("nodes", "bound") if name in columns])
    for line in result.different_bits:
        say(line)
    for row in result.rows:
        if difference := row.get("difference"):
            place = f"{row['algorithm']} on {row['topology']}, {row['varied']}"
            say(f"first difference of {place}: {difference}")
    for reason in result.left_out:
        say(f"left out: {reason}")
    if not result.finished:
        say(f"interrupted; {AGAIN if out else KEPT}")
    if out and result.rows:
        files = ", ".join(sorted(result.files))
        say(f"sweep: {out} ({files})")
