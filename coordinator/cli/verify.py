"""`coordinator verify`, and the warning of other commands about runs that do not verify."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from coordinator.api.console import say_wrapped
from coordinator.api.verification import explained_state, inevitable_loss
from coordinator.api.verification import verify as verify_run
from coordinator.cli.output import JsonFlag, PluginFlag, ProgramFlag, RunArgument, as_command
from coordinator.scenario.plugins import load_plugins
from coordinator.scenario.programs import allow_program
from emunode.errors import ScenarioError
from emunode.terminal import print_json, say


@Parameter(name="*")
@dataclass(frozen=True)
class Questions:
    """Flags of `verify` for questions about a run."""

    explain: Annotated[
        str | None,
        Parameter(
            metavar="NODE@STEP",
            help="print the hops that the state of a node of these runs depends on when a step begins, and the faults "
            "that lost others",
        ),
    ] = None
    inevitable: Annotated[
        str | None,
        Parameter(
            metavar="NODE",
            help="print the first step so that a node misses messages although every fault that begins later is left out",
        ),
    ] = None

    def answers(self, run: Path) -> dict[str, list[str]]:
        """Return the lines that answer the questions about a run, by their keys in JSON."""
        explained = {} if self.explain is None else {"explained": explained_state(run, self.explain)}
        return (
            explained
            if self.inevitable is None
            else {**explained, "inevitable": [inevitable_loss(run, self.inevitable)]}
        )


@as_command
def verify(
    *runs: RunArgument,
    questions: Questions = Questions(),
    plugin: PluginFlag = None,
    program: ProgramFlag = None,
    json: JsonFlag = False,
) -> int:
    """Check stored runs, campaigns, sweeps and certificate files.

    Hash, tables, claims and verdict of a run are computed again from the journal. Of campaigns and sweeps, faults are drawn
    again, a sample is run again, and tables and pages are made again. Certificates are checked without the code that made
    them. Each finding is one line. The exit status is 1 if something does not verify, and 3 if it could not be checked
    completely.

    Examples:
      coordinator verify runs/star-4-broadcast-edt
      coordinator verify certificate.json --json
    """
    if not runs:
        raise ScenarioError("run", None, "give one or more runs to verify")
    load_plugins(plugin)
    if program is not None:
        allow_program(program)
    checked = [verify_run(run) for run in runs]
    asked = [questions.answers(run) for run in runs]
    if json:
        print_json([{**found.record(), **answers} for found, answers in zip(checked, asked, strict=True)])
    else:
        for found in checked:
            for line in (*found.findings, *(f"not checked: {note}" for note in found.unchecked), found.outcome):
                say(f"{found.path}: {line}", lines=False)
        for line in (line for answers in asked for lines in answers.values() for line in lines):
            say(line, lines=False)
    if not all(found.verified for found in checked):
        return 1
    return 3 if any(found.undecided for found in checked) else 0


def warn_unverified(runs: Iterable[Path]) -> None:
    """Name on standard error each of `runs` that does not verify."""
    for run in dict.fromkeys(runs):
        warning = verify_run(run).warning()
        if warning:
            say_wrapped(f"warning: {warning}", err=True, lines=False)
