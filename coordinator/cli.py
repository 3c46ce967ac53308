"""The command line: thin commands over the rest.

Exit status: 0 every claim holds, 1 one is violated, 2 the command or the scenario will not do, 3 undecided, 4 could not run
here, 130 interrupted.
"""

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TextIO

from cyclopts import App, CycloptsError, Parameter

from coordinator.commands.campaign import campaign
from coordinator.commands.certify import certify
from coordinator.commands.image import compose, image
from coordinator.flags import JsonFlag, ScenarioFlags, print_json, print_rows, scenario_from, seconds_from, values_from
from coordinator.scenario import make_scenario, scenario_from_environment
from emunode import __version__
from emunode.errors import EmulatorError, RuleError, ScenarioError
from emunode.process import forgo_privileges

if TYPE_CHECKING:
    from coordinator.papers.base import Reproduction, Section
    from coordinator.papers.costs import Cost
    from coordinator.plan import Plan

app = App(
    name="coordinator", version=__version__, help="Bring an interconnection network up, run a collective, judge it."
)
lister = App(name="list", help="What there is: topologies, algorithms, faults.")
app.command(lister)
app.command(campaign)
app.command(certify)
app.command(image)
app.command(compose)


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; the exit status. Being told to end (SIGTERM) is the same as Ctrl-C."""
    asked: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if frame is not None and frame.f_code.co_name == "__del__":  # an exception would be printed there, and lost
            threading.Timer(0.01, signal.raise_signal, (number,)).start()
        else:
            signal.default_int_handler(number, frame)

    before = [(number, signal.signal(number, interrupt)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        return _main(arguments)
    except BaseException:
        if asked:  # whatever a library on the way made of it
            return _complain(KeyboardInterrupt())
        raise
    finally:
        for number, handler in before:
            signal.signal(number, handler)


def _main(arguments: list[str] | None) -> int:
    try:
        status = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except (CycloptsError, EmulatorError, KeyboardInterrupt, OSError) as error:
        _give_up(sys.stdout)
        return _complain(error)
    return status if isinstance(status, int) else 0


def _complain(error: BaseException) -> int:
    """Say on standard error what is wrong; the exit status for it."""
    match error:
        case CycloptsError():
            message, status = f"{str(error).strip()}\n  see `coordinator --help`", 2
        case ScenarioError():
            message, status = str(error), 2
        case RuleError():
            message, status = f"the algorithm broke its own rules: {error}", 4
        case KeyboardInterrupt():
            message, status = "interrupted", 130
        case OSError():
            message, status = f"this machine refuses: {error}", 4
        case _:
            message, status = str(error), 4
    with contextlib.suppress(OSError):  # the status says it where nothing can be written
        print(f"coordinator: {message}", file=sys.stderr)
    _give_up(sys.stderr)
    return status


def _give_up(stream: TextIO) -> None:
    """What a stream cannot take is lost: the interpreter would try again as it ends, and exit with a status of its own."""
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError), Path(os.devnull).open("w") as nothing:
            os.dup2(nothing.fileno(), stream.fileno())


@app.command
def run(
    scenario: Path | None = None,
    *,
    flags: ScenarioFlags = None,
    join_seconds: Annotated[
        str | None,
        Parameter(help="how long to wait for the next host to join; default: 60s, and 2s per container more"),
    ] = None,
    out: Annotated[Path | None, Parameter(help="put the run directory exactly there")] = None,
    json: JsonFlag = False,
) -> int:
    """Run a scenario, from a file, from flags, or from a file with flags that override it."""
    from coordinator.launch.namespace import enter_own_network  # noqa: PLC0415
    from coordinator.plan import make_plan, require_possible  # noqa: PLC0415

    plan = make_plan(scenario_from(scenario, flags))
    if join_seconds is not None:
        if not plan.hosts:
            raise ScenarioError("join_seconds", join_seconds, "the memory driver has no hosts; leave it out")
        plan = replace(plan, join_seconds=seconds_from("join_seconds", join_seconds))
    require_possible(plan)
    if plan.scenario.netns:
        enter_own_network()
    return _run_plan(plan, out, json)


@app.command
def serve(
    scenario: Path | None = None,
    *,
    flags: ScenarioFlags = None,
    listen: Annotated[str, Parameter(help="ADDRESS:PORT at which hosts join")] = "127.0.0.1:7000",
    token_file: Annotated[Path, Parameter(help="what hosts must know; made if it is not there")] = Path("token"),
    hosts: Annotated[int | None, Parameter(help="how many to wait for; default: as --ranks-per-host says")] = None,
    join_seconds: Annotated[str, Parameter(help="how long to wait for the next host to join")] = "60s",
    out: Annotated[Path | None, Parameter(help="put the run directory exactly there")] = None,
    json: JsonFlag = False,
) -> int:
    """Wait for hosts that somebody else starts (`emunode --coordinator HOST:PORT`), then run a scenario with them.

    What neither file nor flags say of the scenario is taken from variables such as TESTBENCH_TOPOLOGY.
    """
    from coordinator.launch.base import Door  # noqa: PLC0415
    from coordinator.plan import make_plan, require_possible  # noqa: PLC0415

    forgo_privileges()
    address, _, port = listen.rpartition(":")
    if not address or not port.isdigit() or not 0 < int(port) < 65536:
        raise ScenarioError("listen", listen, "it is ADDRESS:PORT, such as 127.0.0.1:7000 or 0.0.0.0:7000")
    seconds = seconds_from("join_seconds", join_seconds)
    values = scenario_from_environment(os.environ) | values_from(scenario, flags)
    wanted = make_scenario(values | {"driver": "join"})
    plan = make_plan(wanted, hosts, Door(address, int(port), token_file, seconds))
    require_possible(plan)
    return _run_plan(plan, out, json)


def _run_plan(plan: "Plan", out: Path | None, as_json: bool) -> int:
    """Run a plan, show what came of it; the exit status."""
    from coordinator.console import progress_display, show_result  # noqa: PLC0415
    from coordinator.run import run as run_plan  # noqa: PLC0415  # not before: its libraries start threads

    with progress_display(plan.topology.title) as progress:
        result = run_plan(plan, out, progress)
    if as_json:
        print_json(result.summary)
    else:
        show_result(plan, result)
    return 130 if result.outcome.interrupted else result.exit_status


@app.command
def plan(scenario: Path | None = None, *, flags: ScenarioFlags = None, json: JsonFlag = False) -> int:
    """Say what a scenario will need and what theory predicts, without running it; exit status 4 if it cannot run here."""
    from coordinator.console import show_plan  # noqa: PLC0415
    from coordinator.plan import make_plan, require_possible  # noqa: PLC0415

    made = make_plan(scenario_from(scenario, flags))
    needs, claims = made.needs(), made.predictions()
    if json:
        print_json({**needs, "claims": claims})
    else:
        show_plan(made, needs, claims)
    require_possible(made)
    return 0


@lister.command(name="topologies")
def list_topologies(*, json: JsonFlag = False) -> None:
    """The networks, how they are written, and an example of each."""
    from emunode.topology.registry import descriptions, parse_topology  # noqa: PLC0415

    rows = [
        {
            "family": known.family,
            "form": known.form,
            "condition": known.condition,
            "example": known.example,
            **{key: value for key, value in parse_topology(known.example).facts().items() if key != "topology"},
        }
        for known in descriptions()
    ]
    print_rows("topologies", rows, json)


@lister.command(name="algorithms")
def list_algorithms(*, json: JsonFlag = False) -> None:
    """Every algorithm: where it runs, what it does, under which port models, and who published it."""
    from emunode.collective.registry import BY_FAMILY, algorithms  # noqa: PLC0415
    from emunode.model import Collective  # noqa: PLC0415

    rows = [
        {
            "topology": family,
            "collective": str(collective),
            "algorithm": name,
            "port_models": ", ".join(entry.port_models),
            "citation": entry.citation,
        }
        for family in BY_FAMILY
        for collective in Collective
        for name, entry in algorithms(family, collective).items()
    ]
    print_rows("algorithms", rows, json)


@lister.command(name="faults")
def list_faults(*, json: JsonFlag = False) -> None:
    """Every kind of fault and how it is written."""
    from coordinator.faults import forms  # noqa: PLC0415

    print_rows("faults", forms(), json)


@app.command
def verify(*runs: Path, json: JsonFlag = False) -> int:
    """Check stored runs: hash, tables, claims and verdict against the journal, and the journal against the rules.

    One line for each finding. Exit status 1 if a run does not verify. RUN is a run directory, or a folder of runs/.
    """
    from coordinator.report.data import find_run  # noqa: PLC0415
    from coordinator.verify import verify as check  # noqa: PLC0415

    if not runs:
        raise ScenarioError("run", None, "give one or more runs to verify")
    checked = [check(find_run(run)) for run in runs]
    if json:
        print_json([found.record() for found in checked])
    else:
        for found in checked:
            for finding in found.findings:
                print(f"{found.path}: {finding}")
            for note in found.unchecked:
                print(f"{found.path}: not checked: {note}")
            print(f"{found.path}: {'verified' if found.verified else 'does not verify'}")
    return 0 if all(found.verified for found in checked) else 1


def _warn_unverified(runs: "Sequence[Path]") -> None:
    """Say on standard error which of these runs do not verify."""
    from coordinator.verify import verify as check  # noqa: PLC0415

    for run in dict.fromkeys(runs):
        warning = check(run).warning()
        if warning:
            print(f"warning: {warning}", file=sys.stderr)


@app.command
def report(
    run: Path, *, out: Annotated[Path | None, Parameter(help="where to write it; default: in the run")] = None
) -> int:
    """Draw report.html of a run anew; RUN is a run directory, or a folder of runs/ for its latest run. Broken runs too."""
    from coordinator.report.data import find_run  # noqa: PLC0415
    from coordinator.report.html import write_report  # noqa: PLC0415

    try:
        print(write_report(find_run(run), out))
        _warn_unverified([find_run(run)])
    except OSError as error:
        raise ScenarioError("out", str(out or run), f"it cannot be written: {error.strerror}") from None
    return 0


@app.command(name="compare")
def compare_runs(
    *runs: Path,
    json: JsonFlag = False,
    markdown: Annotated[bool, Parameter(negative=(), help="print a Markdown table")] = False,
    csv: Annotated[bool, Parameter(negative=(), help="print comma-separated values")] = False,
    plot: Annotated[Path | None, Parameter(help="draw the main metrics as bars: FILE.svg or FILE.png")] = None,
) -> int:
    """Put runs side by side: what their scenarios differ in, what was measured, which claims hold."""
    from coordinator.report.compare import as_rows, compare, compare_figure, read_runs, write_figure  # noqa: PLC0415
    from coordinator.report.tables import to_csv, to_markdown  # noqa: PLC0415

    if json + markdown + csv > 1:
        raise ScenarioError("compare", "--json --markdown --csv", "one of them at a time")
    read = read_runs(runs)
    _warn_unverified([data.path for data in read.values()])
    comparison = compare(read)
    rows = as_rows(comparison)
    if plot is not None:
        write_figure(compare_figure(read), plot)
    if json:
        print_json(comparison)
    elif markdown or csv:
        print(to_markdown(rows) if markdown else to_csv(rows), end="")
    else:
        from coordinator.console import show_comparison  # noqa: PLC0415

        show_comparison(comparison, rows)
    return 0


@app.command
def export(
    run: Path | None = None,
    *,
    graphml: Annotated[Path | None, Parameter(help="write the network and its trees as GraphML")] = None,
    goal: Annotated[Path | None, Parameter(help="write the executed schedule of a run for LogGOPSim")] = None,
    topology: Annotated[str | None, Parameter(help="without a run: the network")] = None,
    collective: Annotated[str, Parameter(help="without a run: what the algorithm does")] = "broadcast",
    algorithm: Annotated[str | None, Parameter(help="without a run: whose trees")] = None,
    source: Annotated[str | None, Parameter(help="without a run: label of the root", allow_leading_hyphen=True)] = None,
) -> int:
    """Write a network, the trees of an algorithm or the schedule of a run for other programs."""
    from coordinator.report import export as writer  # noqa: PLC0415

    if graphml is None and goal is None:
        raise ScenarioError("export", None, "say what to write: --graphml FILE or --goal FILE")
    if (run is None) == (topology is None):
        raise ScenarioError("export", None, "give a run, or else --topology")
    if run is not None:
        from coordinator.report.data import find_run, read_run  # noqa: PLC0415

        data = read_run(find_run(run))
        _warn_unverified([data.path])
        if graphml:
            writer.write_lines(graphml, writer.graphml_of_run(data), "graphml")
        if goal:
            writer.write_lines(goal, writer.goal_of_run(data), "goal")
        return 0
    if goal or graphml is None:
        raise ScenarioError("goal", str(goal), "a schedule is what a run executed: give the run")
    writer.write_lines(graphml, writer.graphml_of_plan(topology or "", collective, algorithm, source), "graphml")
    return 0


@app.command
def doctor(*, json: JsonFlag = False) -> int:
    """Check what this machine offers: limits, loopback, disk, clock, containers, leftovers of runs that were killed."""
    from coordinator.doctor import examine  # noqa: PLC0415

    findings = examine()
    print_rows("doctor", [asdict(finding) for finding in findings], json)
    return 0 if all(finding.state != "problem" for finding in findings) else 4


@app.command
def clean(*, json: JsonFlag = False) -> None:
    """Remove what killed runs left behind: unfinished folders, containers, networks. Running runs are not touched."""
    import shutil  # noqa: PLC0415

    from coordinator.launch.records import orphans  # noqa: PLC0415
    from coordinator.rundir import abandoned  # noqa: PLC0415

    found = abandoned()
    swept: list[str] = []
    for record in orphans():
        from coordinator.launch.docker import sweep  # noqa: PLC0415

        swept += sweep(record)
    for path in found:
        if path.is_symlink():
            path.unlink()
        else:
            shutil.rmtree(path)
    if json:
        print_json({"removed": [*map(str, found), *swept]})
    else:
        print("\n".join(f"removed {it}" for it in (*found, *swept)) or "nothing to clean")


@app.command
def reproduce(
    name: str | None = None,
    *,
    all: Annotated[bool, Parameter(negative=(), help="every one of them")] = False,  # noqa: A002
    n: Annotated[int | None, Parameter(help="only this size of the network; default: every size of the tables")] = None,
    out: Annotated[
        Path | None, Parameter(help="folder for one page with tables and figures, and each table as CSV")
    ] = None,
    minutes: Annotated[float, Parameter(help="start no further run when this time is over")] = 60.0,
    json: JsonFlag = False,
) -> int:
    """Run what the tables and figures of a paper are about and print paper, prediction and measurement side by side.

    Without a name, say which reproductions there are, and how long each takes. Exit status 1 if a row is violated.
    """
    from coordinator.papers.costs import ALL, cost_of  # noqa: PLC0415
    from coordinator.papers.registry import REPRODUCTIONS, find_reproduction  # noqa: PLC0415

    if all and name is not None:
        raise ScenarioError("reproduce", name, "give a name or --all, not both")
    if not all and name is None:
        if n is not None or out is not None:
            raise ScenarioError(
                "reproduce", None, f"say what to reproduce: --all, or one of {', '.join(REPRODUCTIONS)}"
            )
        rows = [
            {
                "name": about.name,
                "paper": about.paper,
                "about": about.description,
                "takes": str(cost_of(about.name) or "?"),
            }
            for about in REPRODUCTIONS.values()
        ]
        print_rows("reproduce", rows, json)
        return 0
    if not minutes > 0:
        raise ScenarioError("minutes", minutes, "a number above 0")
    if all and n is not None:
        raise ScenarioError("n", n, "--all goes over every size; leave --n out, or name one reproduction")
    chosen = [find_reproduction(name)] if name is not None else list(REPRODUCTIONS.values())
    cost = cost_of(ALL if all else chosen[0].name, n)
    return _reproduce([(about, about.over(n)) for about in chosen], cost, out, minutes, as_json=json)


def _reproduce(
    chosen: "Sequence[tuple[Reproduction, Sequence[int]]]",
    cost: "Cost | None",
    out: Path | None,
    minutes: float,
    *,
    as_json: bool,
) -> int:
    """Carry them out one after the other, each table shown as soon as it is there; the exit status.

    What was done before an error or an interrupt is written all the same, as cut short.
    """
    from coordinator.claims import EXIT_STATUS  # noqa: PLC0415
    from coordinator.console import progress_display  # noqa: PLC0415
    from coordinator.papers.base import laboratory, verdict_of  # noqa: PLC0415
    from coordinator.papers.document import Reproduced, require_folder, write  # noqa: PLC0415
    from coordinator.papers.terminal import show_section, show_summary  # noqa: PLC0415

    if out is not None:
        require_folder(out)
    if cost is not None:
        print(f"reproduce: {cost} on two idle cores", file=sys.stderr)
    runs = cost.runs if cost is not None and not cost.at_most else 0
    began = time.monotonic()
    done: list[Reproduced] = []
    with (
        progress_display("reproduce") as progress,
        laboratory(progress, lambda: time.monotonic() > began + 60 * minutes, runs) as lab,
    ):
        for about, sizes in chosen:
            sections: list[Section] = []
            try:
                for section in about.build(replace(lab, sizes=sizes)):
                    sections.append(section)
                    if not as_json:
                        show_section(section)
            except (EmulatorError, KeyboardInterrupt):
                if out is not None:
                    write([*done, Reproduced(about, sections, finished=False)], out)
                raise
            done.append(Reproduced(about, sections))
    files = write(done, out) if out is not None else []
    if as_json:
        print_json([reproduced.record() for reproduced in done])
    else:
        show_summary(done, files, lab, time.monotonic() - began)
    return EXIT_STATUS[verdict_of(reproduced.verdict for reproduced in done)]
