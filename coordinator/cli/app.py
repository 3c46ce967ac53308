"""The command line: thin commands over the rest.

Exit status: 0 every claim holds; 1 what was judged is wrong, and nothing else; 2 a usage or scenario error; 3 undecided;
4 could not run here; 130 interrupted.
"""

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, TextIO

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError

from coordinator.cli.campaign import campaign
from coordinator.cli.certify import certify
from coordinator.cli.image import compose, image
from coordinator.cli.options import (
    JsonFlag,
    ScenarioFlags,
    print_json,
    print_rows,
    scenario_from,
    seconds_from,
    values_from,
    with_netns_value,
)
from coordinator.scenario.model import make_scenario, scenario_from_environment
from emunode import __version__
from emunode.errors import EmulatorError, RuleError, ScenarioError
from emunode.host.process import forgo_privileges

if TYPE_CHECKING:
    from coordinator.papers.base import Reproduction, Section
    from coordinator.papers.costs import Cost
    from coordinator.planning.plan import Plan

app = App(
    name="coordinator",
    version=__version__,
    help="Bring an interconnection network up, run a collective, judge it.",
    suppress_keyboard_interrupt=False,
)
lister = App(name="list", help="What there is: topologies, algorithms, faults.")
app.command(lister)
app.command(campaign)
app.command(certify)
app.command(image)
app.command(compose)


def main(arguments: list[str] | None = None) -> int:
    """Run a command line; the exit status. SIGTERM is handled as Ctrl-C is."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in given
    asked: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if _is_importing(frame):
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
        else:
            signal.default_int_handler(number, frame)

    def retry(_number: int, _frame: FrameType | None) -> None:
        signal.raise_signal(asked[-1])  # for the handler that is in place by now

    def unraisable(lost: "sys.UnraisableHookArgs") -> None:
        if asked and isinstance(lost.exc_value, KeyboardInterrupt):  # it came within a finalizer or a callback
            signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS)
        else:
            hook(lost)

    hook = sys.unraisablehook
    handlers = {signal.SIGINT: interrupt, signal.SIGTERM: interrupt, signal.SIGALRM: retry}
    before = {number: signal.getsignal(number) for number in handlers}
    try:
        sys.unraisablehook = unraisable
        for number, handler in handlers.items():
            signal.signal(number, handler)
        return _main(given, as_json, asked)
    except BaseException:
        if asked:
            return _complain(KeyboardInterrupt(), as_json)
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, previous in before.items():
            signal.signal(number, previous)
        sys.unraisablehook = hook


RETRY_SECONDS = 0.01
"""After this time, an interrupt that came at a bad moment is raised again."""


def _is_importing(frame: FrameType | None) -> bool:
    """Whether an exception raised here could leave a module half imported, or be taken for one of its own."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


def _main(arguments: list[str], as_json: bool, asked: list[int]) -> int:
    try:
        status = app(with_netns_value(arguments), exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except (Exception, BaseExceptionGroup, KeyboardInterrupt) as error:
        _give_up(sys.stdout)
        return _complain(KeyboardInterrupt() if asked else error, as_json)  # whatever a library on the way made of it
    return status if isinstance(status, int) else 0


def _complain(error: BaseException, as_json: bool) -> int:
    """Print an error on standard error, and with `--json` as JSON on standard output too; the exit status for it."""
    while isinstance(error, BaseExceptionGroup):  # tasks that failed together: the first one says why
        error = error.exceptions[0]
    message, status = _message(error)
    with contextlib.suppress(OSError):  # the status says it where nothing can be written
        if message.startswith(INTERNAL):
            traceback.print_exception(error)
        print(f"coordinator: {message}", file=sys.stderr)
        if as_json:
            print_json({"error": _error_record(error, message), "exit_status": status})
    _give_up(sys.stderr)
    _give_up(sys.stdout)
    return status


INTERNAL = "internal error: "


def _message(error: BaseException) -> tuple[str, int]:
    """What to print of an error, and the exit status for it."""
    status = 4
    match error:
        case CycloptsError():
            message, status = f"{_usage_message(error)}\n  see `coordinator --help`", 2
        case ScenarioError():
            message, status = str(error), 2
        case KeyboardInterrupt():
            message, status = "interrupted", 130
        case RuleError():
            message = f"algorithm error: {error}"
        case EmulatorError():
            message = str(error)
        case OSError():
            message = f"operating system error: {error}"
        case MemoryError():
            message = "out of memory"
        case _:
            message = f"{INTERNAL}{type(error).__name__}: {error}"
    return message, status


def _error_record(error: BaseException, message: str) -> dict[str, object]:
    """An error as plain values; what concerns a field has the field, its value and what is allowed."""
    record: dict[str, object] = {"kind": type(error).__name__, "message": message}
    if isinstance(error, ScenarioError):
        value = error.value if isinstance(error.value, str | int | float | None) else str(error.value)
        record |= {"field": error.field, "value": value, "allowed": error.allowed}
    return record


def _usage_message(error: CycloptsError) -> str:
    """The message of the command-line parser; it suggests whole flags for the beginning of one."""
    if isinstance(error, UnknownOptionError):
        given = error.token.keyword or error.token.value
        flags = [flag for argument in error.argument_collection for flag in argument.names if flag.startswith(given)]
        if flags:
            return f"Unknown option: {given}. Did you mean {' or '.join(flags)}?"
    return str(error).strip()


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
    from coordinator.planning.feasibility import needs_own_network, require_possible, tracking_exceeded  # noqa: PLC0415
    from coordinator.planning.namespace import enter_own_network  # noqa: PLC0415
    from coordinator.planning.plan import make_plan  # noqa: PLC0415

    plan = make_plan(scenario_from(scenario, flags))
    if join_seconds is not None:
        if not plan.hosts:
            raise ScenarioError("join_seconds", join_seconds, "the memory driver has no hosts; leave it out")
        plan = replace(plan, join_seconds=seconds_from("join_seconds", join_seconds))
    require_possible(plan)
    if needs_own_network(plan):
        if plan.scenario.netns == "auto":
            print(
                f"{plan.topology.title}: {tracking_exceeded(plan)}; moving to a network namespace of its own",
                file=sys.stderr,
            )
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
    from coordinator.planning.endpoint import JoinEndpoint  # noqa: PLC0415
    from coordinator.planning.feasibility import require_possible  # noqa: PLC0415
    from coordinator.planning.plan import make_plan  # noqa: PLC0415

    forgo_privileges()
    address, _, port = listen.rpartition(":")
    if not address or not port.isdigit() or not 0 < int(port) < 65536:
        raise ScenarioError("listen", listen, "it is ADDRESS:PORT, such as 127.0.0.1:7000 or 0.0.0.0:7000")
    seconds = seconds_from("join_seconds", join_seconds)
    values = scenario_from_environment(os.environ) | values_from(scenario, flags)
    wanted = make_scenario(values | {"driver": "join"})
    plan = make_plan(wanted, hosts, JoinEndpoint(address, int(port), token_file, seconds))
    require_possible(plan)
    return _run_plan(plan, out, json)


def _run_plan(plan: "Plan", out: Path | None, as_json: bool) -> int:
    """Run a plan, show what came of it; the exit status."""
    from coordinator.cli.render import progress_display, show_result  # noqa: PLC0415
    from coordinator.execution.run import run as run_plan  # noqa: PLC0415  # not before: its libraries start threads

    with progress_display(plan.topology.title) as progress:
        result = run_plan(plan, out, progress)
    if as_json:
        print_json({**result.summary, "path": str(result.path)})
    else:
        show_result(plan, result)
    return 130 if result.outcome.interrupted else result.exit_status


@app.command
def plan(scenario: Path | None = None, *, flags: ScenarioFlags = None, json: JsonFlag = False) -> int:
    """Print what a scenario needs and what theory predicts, without running it.

    Where this machine cannot run it, the whole plan is printed all the same, then the reason; the exit status is 4.
    """
    from coordinator.cli.render import show_plan  # noqa: PLC0415
    from coordinator.planning.feasibility import describe_needs, why_impossible  # noqa: PLC0415
    from coordinator.planning.plan import make_plan  # noqa: PLC0415

    made = make_plan(scenario_from(scenario, flags), estimate=True)
    needs, claims, reason = describe_needs(made), made.predictions(), why_impossible(made)
    if json:
        print_json({**needs, "claims": claims, "possible": reason is None, "impossible_because": reason})
    else:
        show_plan(made, needs, claims)
    if reason is not None:
        print(f"coordinator: {reason}", file=sys.stderr)
    return 0 if reason is None else 4


@lister.command(name="topologies")
def list_topologies(*, json: JsonFlag = False) -> None:
    """The networks, how they are written, and an example of each."""
    from emunode.topologies.registry import descriptions, parse_topology  # noqa: PLC0415

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
    from emunode.algorithms.registry import BY_FAMILY, algorithms  # noqa: PLC0415
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
    from coordinator.scenario.fault_syntax import forms  # noqa: PLC0415

    print_rows("faults", forms(), json)


@app.command
def verify(*runs: Path, json: JsonFlag = False) -> int:
    """Check stored runs: hash, tables, claims and verdict against the journal, and the journal against the rules.

    One line for each finding. Exit status 1 if a run does not verify. RUN is a run directory, or a folder of runs/.
    """
    from coordinator.execution.verify import verify as check  # noqa: PLC0415
    from coordinator.reports.data import find_run  # noqa: PLC0415

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
    from coordinator.execution.verify import verify as check  # noqa: PLC0415

    for run in dict.fromkeys(runs):
        warning = check(run).warning()
        if warning:
            print(f"warning: {warning}", file=sys.stderr)


@app.command
def report(
    run: Path,
    *,
    out: Annotated[Path | None, Parameter(help="where to write it; default: in the run")] = None,
    json: JsonFlag = False,
) -> int:
    """Draw report.html of a run anew; RUN is a run directory, or a folder of runs/ for its latest run. Broken runs too."""
    from coordinator.reports.data import find_run  # noqa: PLC0415
    from coordinator.reports.run_report import write_report  # noqa: PLC0415

    try:
        written = write_report(find_run(run), out)
        _warn_unverified([find_run(run)])
    except OSError as error:
        raise ScenarioError("out", str(out or run), f"it cannot be written: {error.strerror}") from None
    if json:
        print_json({"written": str(written)})
    else:
        print(written)
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
    from coordinator.reports.compare import as_rows, compare, compare_figure, read_runs, write_figure  # noqa: PLC0415
    from coordinator.reports.tables import to_csv, to_markdown  # noqa: PLC0415

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
        from coordinator.cli.render import show_comparison  # noqa: PLC0415

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
    json: JsonFlag = False,
) -> int:
    """Write a network, the trees of an algorithm or the schedule of a run for other programs."""
    from coordinator.reports import export as writer  # noqa: PLC0415

    if graphml is None and goal is None:
        raise ScenarioError("export", None, "say what to write: --graphml FILE or --goal FILE")
    if (run is None) == (topology is None):
        raise ScenarioError("export", None, "give a run, or else --topology")
    files: dict[str, Path] = {}
    if run is not None:
        from coordinator.reports.data import find_run, read_run  # noqa: PLC0415

        data = read_run(find_run(run))
        _warn_unverified([data.path])
        if graphml:
            files["graphml"] = writer.write_lines(graphml, writer.graphml_of_run(data), "graphml")
        if goal:
            files["goal"] = writer.write_lines(goal, writer.goal_of_run(data), "goal")
    elif goal or graphml is None:
        raise ScenarioError("goal", str(goal), "a schedule is what a run executed: give the run")
    else:
        lines = writer.graphml_of_plan(topology or "", collective, algorithm, source)
        files["graphml"] = writer.write_lines(graphml, lines, "graphml")
    if json:
        print_json({"written": {kind: str(path) for kind, path in files.items()}})
    else:
        for kind, path in files.items():
            print(f"wrote {kind}: {path}")
    return 0


@app.command
def doctor(*, json: JsonFlag = False) -> int:
    """Check what this machine offers: limits, loopback, disk, clock, containers, leftovers of runs that were killed."""
    from coordinator.maintenance.doctor import examine  # noqa: PLC0415

    findings = examine()
    print_rows("doctor", [asdict(finding) for finding in findings], json)
    return 0 if all(finding.state != "problem" for finding in findings) else 4


@app.command
def clean(*, json: JsonFlag = False) -> None:
    """Remove what killed runs left behind: unfinished folders, containers, networks. Running runs are not touched."""
    from coordinator.history.run_directory import remove_abandoned  # noqa: PLC0415
    from coordinator.networks.launchers.records import orphans  # noqa: PLC0415

    removed = [str(path) for path in remove_abandoned()]
    try:
        for record in orphans():
            from coordinator.networks.launchers.docker import sweep  # noqa: PLC0415

            removed += sweep(record)
    finally:  # an engine that does not answer keeps nothing else from being removed, and told
        if not json:
            print("\n".join(f"removed {it}" for it in removed) or "nothing to clean")
    if json:
        print_json({"removed": removed})


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
    from coordinator.cli.render import progress_display  # noqa: PLC0415
    from coordinator.cli.reproduce import show_section, show_summary  # noqa: PLC0415
    from coordinator.papers.document import Reproduced, require_folder, write  # noqa: PLC0415
    from coordinator.papers.run_cache import open_run_cache  # noqa: PLC0415
    from coordinator.papers.tables import verdict_of  # noqa: PLC0415
    from coordinator.results.claims import EXIT_STATUS  # noqa: PLC0415

    if out is not None:
        require_folder(out)
    if cost is not None:
        print(f"reproduce: {cost} on two idle cores", file=sys.stderr)
    runs = cost.runs if cost is not None and not cost.at_most else 0
    began = time.monotonic()
    done: list[Reproduced] = []
    with (
        progress_display("reproduce") as progress,
        open_run_cache(progress, lambda: time.monotonic() > began + 60 * minutes, runs) as cache,
    ):
        for about, sizes in chosen:
            sections: list[Section] = []
            try:
                for section in about.build(replace(cache, sizes=sizes)):
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
        show_summary(done, files, cache, time.monotonic() - began)
    return EXIT_STATUS[verdict_of(reproduced.verdict for reproduced in done)]
