"""`coordinator export`."""

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, ClassVar

from cyclopts import Group, Parameter

from coordinator.annexes import annex_function, merged
from coordinator.annexes.exports.figures import figures_of_run, write_figures
from coordinator.annexes.exports.files import export_campaign, plan_of
from coordinator.annexes.exports.graph_formats import graphml_of_plan
from coordinator.api.runs import Run
from coordinator.campaigns.store import GRID, read_grid_file
from coordinator.cli.output import OUTPUT, PluginCommand, RunArgument, as_command
from coordinator.cli.verify import warn_unverified
from coordinator.execution.verification import contradictions_named
from coordinator.history.stored.reading import exists
from coordinator.planning.plan import Plan, make_plan
from coordinator.reports.campaign_report import pictures_of
from coordinator.reports.curves import read_curves, read_losses
from coordinator.reports.pictures import write_lines
from coordinator.scenario.model import make_scenario
from coordinator.scenario.networks import absolute_value
from emunode.errors import ScenarioError, did_you_mean
from emunode.terminal import print_json, say

BELOW: Mapping[str, tuple[str, str]] = {
    words.removeprefix("export "): each for words, each in merged("commands").items() if words.startswith("export ")
}
"""The commands that write one kind of file, by the kind."""
KINDS = ("graphml", "goal", "trace", "gif", "figures", "msccl", "forestcoll", "chakra", "pgfplots", "csv")
SCHEDULES = ("msccl", "forestcoll", "chakra")
CURVES = {"pgfplots", "csv"}
WITHOUT_RUN = Group("Without a run", sort_key=1)
NEED_RUN = {
    "gif": "only a run has steps to show: give the run",
    "trace": "only a run has packets with times: give the run",
    "figures": "only a run or a campaign has figures: give its folder",
}


@Parameter(name="*", group=WITHOUT_RUN)
@dataclass(frozen=True)
class AlgorithmFlags:
    """The algorithm on a network that is exported without a run."""

    collective: Annotated[str, Parameter(help="collective of the algorithm")] = "broadcast"
    algorithm: Annotated[str | None, Parameter(help="algorithm whose trees are written")] = None
    source: Annotated[str | None, Parameter(help="label of the root", allow_leading_hyphen=True)] = None


@dataclass
class ExportCommand(PluginCommand):
    """Write a network, its trees, a schedule or figures for papers and other programs.

    `coordinator export WHAT RUN FILE` writes one of them. The flags that name files do the same, for one version
    more. A trace and an animation need a run, curves the folder of a campaign in place of a run, figures a run
    or a campaign. GOAL of a run has the packets that it sent, whatever the algorithm is; other schedules are written if
    their steps are fixed.

    Examples:
      coordinator export msccl hypercube:3 nesbt.xml --algorithm nesbt
      coordinator export figures runs/star-4-broadcast-edt figures --step 3
    """

    run: Annotated[tuple[Path, ...], Parameter(help="run directory, or a folder of runs/ for its latest run")] = ()
    _: KW_ONLY
    graphml: Annotated[Path | None, Parameter(group=OUTPUT, help="write the network and its trees as GraphML")] = None
    goal: Annotated[
        Path | None,
        Parameter(group=OUTPUT, help="write a schedule in fixed steps, or what a run executed, as GOAL for LogGOPSim"),
    ] = None
    trace: Annotated[
        Path | None,
        Parameter(
            group=OUTPUT,
            help="write the packets of a run as a trace: .pftrace for Perfetto, .json for it and chrome://tracing",
        ),
    ] = None
    gif: Annotated[
        Path | None, Parameter(group=OUTPUT, help="write the map of a run, step by step, as an animated picture")
    ] = None
    figures: Annotated[
        Path | None,
        Parameter(
            group=OUTPUT,
            help="write every chart and map of a run, or every curve of a campaign, into this folder: as SVG, PNG and LaTeX",
        ),
    ] = None
    step: Annotated[int | None, Parameter(group=OUTPUT, help="step that the map of --figures shows; default: all")] = (
        None
    )
    msccl: Annotated[Path | None, Parameter(group=OUTPUT, help="write a schedule in fixed steps as MSCCL XML")] = None
    forestcoll: Annotated[
        Path | None, Parameter(group=OUTPUT, help="write the trees of an allgather as ForestColl XML")
    ] = None
    chakra: Annotated[
        Path | None,
        Parameter(group=OUTPUT, help="write a schedule in fixed steps as Chakra traces, FILE.0.et and so on"),
    ] = None
    pgfplots: Annotated[
        Path | None, Parameter(group=OUTPUT, help="write the curves of a campaign as LaTeX for pgfplots")
    ] = None
    csv: Annotated[Path | None, Parameter(group=OUTPUT, help="write the points of the curves of a campaign")] = None
    topology: Annotated[str | None, Parameter(group=WITHOUT_RUN, help="network, such as star:4")] = None
    about: AlgorithmFlags = AlgorithmFlags()

    def __call__(self) -> int:
        files = {kind: path for kind in KINDS if (path := getattr(self, kind)) is not None}
        if not files or len(self.run) > 1:
            asked = str(self.run[0]) if self.run else None
            kinds = f"`coordinator export WHAT RUN FILE` writes one of {', '.join(sorted(BELOW))}"
            raise ScenarioError("export", asked, did_you_mean(asked or "", BELOW) + kinds)
        return export_files(
            self.run[0] if self.run else None, files, self.topology, self.about, self.step, as_json=self.json
        )


@dataclass
class RunExport(PluginCommand):
    """A command that writes one file of a run, or of the folder of a campaign."""

    run: RunArgument
    file: Annotated[Path, Parameter(help="file to write, or folder for figures")]
    what: ClassVar[str]

    def __call__(self) -> int:
        return export_files(self.run, {self.what: self.file}, as_json=self.json)


@dataclass
class NetworkExport(RunExport):
    """A command that writes one file of a run, or of an algorithm on a network."""

    run: Annotated[Path, Parameter(help="run directory, or a network such as star:4")]
    _: KW_ONLY
    about: AlgorithmFlags = AlgorithmFlags()

    def __call__(self) -> int:
        run, topology = (self.run, None) if exists(self.run) or ":" not in str(self.run) else (None, str(self.run))
        return export_files(run, {self.what: self.file}, topology, self.about, as_json=self.json)


@as_command
@dataclass(kw_only=True)
class FiguresExport(RunExport):
    """Write every chart and map of a run, or every curve of a campaign: as SVG, PNG and LaTeX.

    Examples:
      coordinator export figures runs/star-4-broadcast-edt figures --step 3
      coordinator export figures campaign study-figures
    """

    what = "figures"

    step: Annotated[int | None, Parameter(group=OUTPUT, help="step that the map shows; default: all")] = None

    def __call__(self) -> int:
        return export_files(self.run, {self.what: self.file}, step=self.step, as_json=self.json)


@as_command
class GifExport(RunExport):
    """Write the map of a run, step by step, as an animated picture.

    Examples:
      coordinator export gif runs/star-4-broadcast-edt map.gif
      coordinator export gif runs/star-4-broadcast-edt/latest latest.gif
    """

    what = "gif"


@as_command
class TraceExport(RunExport):
    """Write the packets of a run as a trace: .pftrace for Perfetto, .json for it and chrome://tracing.

    Examples:
      coordinator export trace runs/star-4-broadcast-edt run.pftrace
      coordinator export trace runs/star-4-broadcast-edt run.json
    """

    what = "trace"


@as_command
class PgfplotsExport(RunExport):
    """Write the curves of a campaign as LaTeX for pgfplots.

    Examples:
      coordinator export pgfplots runs/campaigns/NAME curves.tex
      coordinator export pgfplots study curves.tex --json
    """

    what = "pgfplots"


@as_command
class CsvExport(RunExport):
    """Write the points of the curves of a campaign.

    Examples:
      coordinator export csv runs/campaigns/NAME curves.csv
      coordinator export csv study curves.csv --json
    """

    what = "csv"


@as_command
class GraphmlExport(NetworkExport):
    """Write a network and its trees as GraphML.

    Examples:
      coordinator export graphml runs/star-4-broadcast-edt edt.graphml
      coordinator export graphml star:4 star.graphml
    """

    what = "graphml"


@as_command
class GoalExport(NetworkExport):
    """Write a schedule in fixed steps, or what a run executed, as GOAL for LogGOPSim.

    Examples:
      coordinator export goal runs/star-4-broadcast-edt edt.goal
      coordinator export goal star:4 edt.goal --algorithm edt
    """

    what = "goal"


@as_command
class MscclExport(NetworkExport):
    """Write a schedule in fixed steps as MSCCL XML.

    Examples:
      coordinator export msccl runs/star-4-broadcast-edt edt.xml
      coordinator export msccl hypercube:3 nesbt.xml --algorithm nesbt
    """

    what = "msccl"


@as_command
class ForestcollExport(NetworkExport):
    """Write the trees of an allgather as ForestColl XML.

    Examples:
      coordinator export forestcoll runs/ring-4-allgather-ring ring.xml
      coordinator export forestcoll ring:4 ring.xml --collective allgather --algorithm ring
    """

    what = "forestcoll"


@as_command
class ChakraExport(NetworkExport):
    """Write a schedule in fixed steps as Chakra traces, FILE.0.et and so on.

    Examples:
      coordinator export chakra runs/star-4-broadcast-edt traces
      coordinator export chakra ring:4 traces --collective allgather --algorithm ring
    """

    what = "chakra"


def export_files(
    run: Path | None,
    files: Mapping[str, Path],
    topology: str | None = None,
    about: AlgorithmFlags = AlgorithmFlags(),
    step: int | None = None,
    *,
    as_json: bool,
) -> int:
    """Write files of a run, of a campaign, or of an algorithm on a network, and print their names.

    `files` has the file of each kind, or the folder for figures. Returns the exit status.
    """
    if files.keys() & CURVES or ("figures" in files and run is not None and exists(run / GRID)):
        if run is None or topology or step is not None or files.keys() - CURVES - {"figures"}:
            reason = "of a campaign there are --figures, --pgfplots and --csv"
            if files.keys() & CURVES:
                reason = "--pgfplots and --csv take a campaign folder, and no other flag but --figures"
            raise ScenarioError("export", None, reason)
        return _show(_of_campaign(run, files), {}, as_json=as_json)
    if (run is None) == (topology is None):
        raise ScenarioError("export", None, "give a run, or else --topology")
    if step is not None and "figures" not in files:
        raise ScenarioError("step", step, "it says what the map of --figures shows; give --figures FOLDER too")
    if refused := next((kind for kind in NEED_RUN if kind in files and run is None), None):
        raise ScenarioError(refused, str(files[refused]), NEED_RUN[refused])
    # Of a run, GOAL has what the run executed.
    schedules = {kind: files[kind] for kind in (*SCHEDULES, "goal") if kind in files and not (run and kind == "goal")}
    written = {}
    if schedules:
        written = annex_function("schedule files")(_schedule_plan(run, topology, about), schedules)
    others = {kind: path for kind, path in files.items() if kind not in schedules}
    if others and run is not None:
        made = _of_run(run, others, step)
    else:
        made = {kind: _graphml(path, topology, about) for kind, path in others.items()}
    made |= {kind: each.path for kind, each in written.items()}
    return _show(made, {kind: each.dropped for kind, each in written.items() if each.dropped}, as_json=as_json)


def _graphml(path: Path, topology: str | None, about: AlgorithmFlags) -> Path:
    lines = graphml_of_plan(topology or "", about.collective, about.algorithm, about.source)
    return write_lines(path, lines, "graphml")


def _of_run(run: Path, files: Mapping[str, Path], step: int | None) -> dict[str, Path]:
    """Write files of a stored run, and return them by kind."""
    read = Run.read(run)
    warn_unverified([read.data.path])
    others = {**files}
    made: dict[str, Path] = {}
    if figures := others.pop("figures", None):
        with contradictions_named(read.data.path):
            drawn = figures_of_run(read.data, step, _command(run, figures, step))
        made["figures"] = write_figures(drawn, figures)
    return made | read.export(**others) if others else made


def _of_campaign(folder: Path, files: Mapping[str, Path]) -> dict[str, Path]:
    """Write files of the curves of a stored campaign."""
    if exists(folder / GRID):
        read_grid_file(folder)  # refuses what another version wrote
    rows = read_curves(folder)
    figures = files.get("figures")
    drawn = {} if figures is None else pictures_of(rows, read_losses(folder), _command(folder, figures, None))
    return export_campaign(rows, drawn, pgfplots=files.get("pgfplots"), csv=files.get("csv"), figures=figures)


def _command(run: Path, figures: Path, step: int | None) -> str:
    """Return the command that writes figures, for their files."""
    shown = "" if step is None else f" --step {step}"
    return f"coordinator export figures {quote(str(run))} {quote(str(figures))}{shown}"


def _schedule_plan(run: Path | None, topology: str | None, about: AlgorithmFlags) -> Plan:
    if run is None:
        values = {"topology": absolute_value("topology", topology or "", Path.cwd()), **asdict(about)}
        given = {name: value for name, value in values.items() if value is not None}
        return make_plan(make_scenario({**given, "driver": "memory"}))
    warn_unverified([run])
    return plan_of(Run.read(run).data)


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


export_command = as_command(ExportCommand)

for what, (command, summary) in BELOW.items():
    export_command.command(command, name=what, help=summary)
