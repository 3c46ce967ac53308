"""`coordinator export`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

from cyclopts import Group, Parameter

from coordinator.annexes import annex_function
from coordinator.annexes.exports.figures import figures_of_run, write_figures
from coordinator.annexes.exports.files import export_campaign, plan_of
from coordinator.annexes.exports.graph_formats import graphml_of_plan
from coordinator.api.contradictions import contradictions_named
from coordinator.api.runs import Run
from coordinator.campaigns.store import GRID, read_grid_file
from coordinator.cli.documents import print_json
from coordinator.cli.output import OUTPUT, JsonFlag, PluginFlag, RunArgument, as_command
from coordinator.cli.verify import warn_unverified
from coordinator.history.stored.reading import exists
from coordinator.planning.plan import Plan, make_plan
from coordinator.reports.campaign_report import pictures_of
from coordinator.reports.curves import read_curves, read_losses
from coordinator.reports.pictures import write_lines
from coordinator.scenario.model import make_scenario
from coordinator.scenario.networks import absolute_value
from coordinator.scenario.plugins import load_plugins
from emunode.errors import ScenarioError
from emunode.terminal import say

KINDS = (
    "--graphml, --goal, --msccl, --forestcoll, --chakra, --trace, --gif, --pgfplots or --csv FILE, or --figures FOLDER"
)
WITHOUT_RUN = Group("Without a run", sort_key=1)


def export(  # noqa: PLR0913  # its flags
    run: RunArgument | None = None,
    *,
    graphml: Annotated[Path | None, Parameter(group=OUTPUT, help="write the network and its trees as GraphML")] = None,
    goal: Annotated[
        Path | None,
        Parameter(group=OUTPUT, help="write a schedule in fixed steps, or what a run executed, as GOAL for LogGOPSim"),
    ] = None,
    trace: Annotated[
        Path | None,
        Parameter(
            group=OUTPUT,
            help="write the packets of a run as a trace: .pftrace for Perfetto, .json for it and chrome://tracing",
        ),
    ] = None,
    gif: Annotated[
        Path | None, Parameter(group=OUTPUT, help="write the map of a run, step by step, as an animated picture")
    ] = None,
    figures: Annotated[
        Path | None,
        Parameter(
            group=OUTPUT,
            help="write every chart and map of a run, or every curve of a campaign, into this folder: as SVG, PNG and LaTeX",
        ),
    ] = None,
    step: Annotated[
        int | None, Parameter(group=OUTPUT, help="step that the map of --figures shows; default: all")
    ] = None,
    msccl: Annotated[Path | None, Parameter(group=OUTPUT, help="write a schedule in fixed steps as MSCCL XML")] = None,
    forestcoll: Annotated[
        Path | None, Parameter(group=OUTPUT, help="write the trees of an allgather as ForestColl XML")
    ] = None,
    chakra: Annotated[
        Path | None,
        Parameter(group=OUTPUT, help="write a schedule in fixed steps as Chakra traces, FILE.0.et and so on"),
    ] = None,
    pgfplots: Annotated[
        Path | None, Parameter(group=OUTPUT, help="write the curves of a campaign as LaTeX for pgfplots")
    ] = None,
    csv: Annotated[Path | None, Parameter(group=OUTPUT, help="write the points of the curves of a campaign")] = None,
    topology: Annotated[str | None, Parameter(group=WITHOUT_RUN, help="network, such as star:4")] = None,
    collective: Annotated[str, Parameter(group=WITHOUT_RUN, help="collective of the algorithm")] = "broadcast",
    algorithm: Annotated[str | None, Parameter(group=WITHOUT_RUN, help="algorithm whose trees are written")] = None,
    source: Annotated[
        str | None, Parameter(group=WITHOUT_RUN, help="label of the root", allow_leading_hyphen=True)
    ] = None,
    plugin: PluginFlag = None,
    json: JsonFlag = False,
) -> int:
    """Write a network, its trees, a schedule or figures for papers and other programs.

    A trace and an animation need a run, curves the folder of a campaign in place of a run, figures a run or a campaign.
    GOAL of a run (RUN --goal FILE) has the packets that it sent, whatever the algorithm is; other schedules are written if
    their steps are fixed.

    Examples:
      coordinator export --topology hypercube:3 --algorithm nesbt --msccl nesbt.xml
      coordinator export runs/star-4-broadcast-edt --figures figures --step 3
    """
    if pgfplots or csv:
        if run is None or graphml or goal or trace or gif or topology or msccl or forestcoll or chakra or step:
            raise ScenarioError(
                "export", None, "--pgfplots and --csv take a campaign folder, and no other flag but --figures"
            )
        return _show(_of_campaign(run, pgfplots, csv, figures), {}, as_json=json)
    if figures is not None and run is not None and exists(run / GRID):
        if graphml or goal or trace or gif or msccl or forestcoll or chakra or step is not None:
            raise ScenarioError("export", None, "of a campaign there are --figures, --pgfplots and --csv")
        return _show(_of_campaign(run, None, None, figures), {}, as_json=json)
    # Of a run, GOAL has what the run executed.
    named = {"msccl": msccl, "forestcoll": forestcoll, "chakra": chakra, "goal": goal if run is None else None}
    schedules = {name: path for name, path in named.items() if path is not None}
    others = any(path is not None for path in (graphml, goal if run is not None else None, trace, gif, figures))
    if not schedules and not others:
        raise ScenarioError("export", None, f"say what to write: {KINDS}")
    if (run is None) == (topology is None):
        raise ScenarioError("export", None, "give a run, or else --topology")
    load_plugins(plugin)
    written = {}
    if schedules:
        plan = _schedule_plan(run, topology, collective, algorithm, source)
        written = annex_function("schedule files")(plan, schedules)
    if not others:
        return _show({name: each.path for name, each in written.items()}, _dropped(written), as_json=json)
    _refuse_without_run(run, gif=gif, trace=trace, figures=figures, step=step)
    if run is not None:
        files = _of_run(run, figures, step, {"gif": gif, "goal": goal, "graphml": graphml, "trace": trace})
    else:
        assert graphml is not None, "what needs a run is refused without one"
        lines = graphml_of_plan(topology or "", collective, algorithm, source)
        files = {"graphml": write_lines(graphml, lines, "graphml")}
    files |= {name: each.path for name, each in written.items()}
    return _show(files, _dropped(written), as_json=json)


def _refuse_without_run(
    run: Path | None, *, gif: Path | None, trace: Path | None, figures: Path | None, step: int | None
) -> None:
    if step is not None and figures is None:
        raise ScenarioError("step", step, "it says what the map of --figures shows; give --figures FOLDER too")
    if run is not None:
        return
    if gif:
        raise ScenarioError("gif", str(gif), "only a run has steps to show: give the run")
    if trace:
        raise ScenarioError("trace", str(trace), "only a run has packets with times: give the run")
    if figures:
        raise ScenarioError("figures", str(figures), "only a run or a campaign has figures: give its folder")


def _of_run(run: Path, figures: Path | None, step: int | None, others: Mapping[str, Path | None]) -> dict[str, Path]:
    """Write what is wanted of a stored run, and return the files by kind."""
    read = Run.read(run)
    warn_unverified([read.data.path])
    files: dict[str, Path] = {}
    if figures is not None:
        with contradictions_named(read.data.path):
            drawn = figures_of_run(read.data, step, _command(run, figures, step))
        files["figures"] = write_figures(drawn, figures)
    wanted = {kind: path for kind, path in others.items() if path is not None}
    return files | read.export(**wanted) if wanted else files


def _of_campaign(folder: Path, pgfplots: Path | None, csv: Path | None, figures: Path | None) -> dict[str, Path]:
    """Write what is wanted of the curves of a stored campaign."""
    if exists(folder / GRID):
        read_grid_file(folder)  # refuses what another version wrote
    rows = read_curves(folder)
    drawn = {} if figures is None else pictures_of(rows, read_losses(folder), _command(folder, figures, None))
    return export_campaign(rows, drawn, pgfplots=pgfplots, csv=csv, figures=figures)


def _command(run: Path, figures: Path, step: int | None) -> str:
    """Return the command that writes figures, for their files."""
    shown = "" if step is None else f" --step {step}"
    return f"coordinator export {quote(str(run))} --figures {quote(str(figures))}{shown}"


def _schedule_plan(
    run: Path | None, topology: str | None, collective: str, algorithm: str | None, source: str | None
) -> Plan:
    if run is None:
        return plan_of_algorithm(topology or "", collective, algorithm, source)
    warn_unverified([run])
    return plan_of(Run.read(run).data)


def plan_of_algorithm(topology: str, collective: str, algorithm: str | None, source: str | None) -> Plan:
    """Return the plan of an algorithm without a run. Raises ScenarioError."""
    values = {
        "topology": absolute_value("topology", topology, Path.cwd()),
        "collective": collective,
        "algorithm": algorithm,
    }
    given = {name: value for name, value in (*values.items(), ("source", source)) if value is not None}
    return make_plan(make_scenario({**given, "driver": "memory"}))


def _dropped(written: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return what each schedule file leaves out."""
    return {name: each.dropped for name, each in written.items() if each.dropped}


def _show(files: Mapping[str, Path], dropped: Mapping[str, Sequence[str]], *, as_json: bool) -> int:
    if as_json:
        left_out = {"left_out": {kind: list(each) for kind, each in dropped.items()}} if dropped else {}
        print_json({"written": {kind: str(path) for kind, path in files.items()}, **left_out})
        return 0
    for kind, path in files.items():
        say(f"wrote {kind}: {path}", lines=False)
        for each in dropped.get(kind, ()):
            say(f"  left out: {each}", lines=False)
    return 0


export_command = as_command(export)
