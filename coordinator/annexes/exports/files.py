"""The files that `Run.export` and `Campaign.export` write."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from coordinator.annexes import annex_function
from coordinator.annexes.exports.animation import write_gif
from coordinator.annexes.exports.figures import figures_of_run, write_figures
from coordinator.annexes.exports.graph_formats import goal_of_run, graphml_of_run
from coordinator.annexes.exports.pgfplots import pgfplots as pgfplots_lines
from coordinator.annexes.exports.traces.registry import write_trace
from coordinator.planning.plan import Plan
from coordinator.reports.data import RunData
from coordinator.reports.pictures import Picture, write_lines
from coordinator.reports.tables import Row, to_csv
from emunode.errors import ScenarioError

WRITERS: Final[Mapping[str, Callable[[RunData, Path], Path]]] = {
    "graphml": lambda data, path: write_lines(path, graphml_of_run(data), "graphml"),
    "goal": lambda data, path: write_lines(path, goal_of_run(data), "goal"),
    "trace": write_trace,
    "figures": lambda data, path: write_figures(figures_of_run(data), path),
    "gif": write_gif,
}
"""The files of a run by kind; the other kinds are formats of schedules."""


def export_run(data: RunData, files: Mapping[str, Path]) -> dict[str, Path]:
    """Write files of a run, and return them by kind; ScenarioError if none is named or one cannot be written."""
    if not files:
        kinds = ", ".join(
            f"{kind}=FILE" for kind in ("gif", "goal", "graphml", "msccl", "forestcoll", "chakra", "trace")
        )
        raise ScenarioError("export", None, f"say what to write: {kinds} or figures=FOLDER")
    written = {kind: write(data, files[kind]) for kind, write in WRITERS.items() if kind in files}
    if schedules := {kind: path for kind, path in files.items() if kind not in WRITERS}:
        written |= {
            kind: each.path for kind, each in annex_function("schedule files")(plan_of(data), schedules).items()
        }
    return written


def plan_of(data: RunData) -> Plan:
    """Return the plan of a run. Raises ScenarioError (field `run`)."""
    if data.plan is None:
        reason = "; ".join(["its scenario is missing, invalid or too large", *data.notes])
        raise ScenarioError("run", str(data.path), reason)
    return data.plan


def export_campaign(
    curves: Sequence[Row],
    pictures: Mapping[str, Picture],
    *,
    pgfplots: Path | str | None,
    csv: Path | str | None,
    figures: Path | str | None,
) -> dict[str, Path]:
    """Write the curves of a campaign and its figures, and return the files by kind; ScenarioError as of `export_run`."""
    files: dict[str, Path] = {}
    if figures is not None:
        files["figures"] = write_figures(pictures, Path(figures))
    if pgfplots is not None:
        files["pgfplots"] = write_lines(Path(pgfplots), pgfplots_lines(curves), "pgfplots")
    if csv is not None:
        files["csv"] = write_lines(Path(csv), [to_csv(curves)], "csv")
    if not files:
        raise ScenarioError("export", None, "say what to write: pgfplots=FILE, csv=FILE or figures=FOLDER")
    return files
