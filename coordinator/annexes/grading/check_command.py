"""`coordinator check`: grade a submission."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from json import dumps
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter
from rich.markup import escape

from coordinator.annexes import annex_function
from coordinator.annexes.grading.confinement import MEBIBYTE, Limits
from coordinator.annexes.grading.grade import Grade, GradedPart, GradeOptions
from coordinator.annexes.grading.grade import grade as grade_file
from coordinator.annexes.grading.gradescope import results
from coordinator.annexes.grading.marks import MarkVerdict
from coordinator.api.console import on_stderr
from coordinator.cli import render
from coordinator.cli.output import OUTPUT, JsonFlag, PluginFlag, as_command
from coordinator.history.stored.writing import replace_file
from coordinator.scenario.plugins import load_plugins
from emunode.errors import ScenarioError
from emunode.model import PortModel
from emunode.terminal import print_json, say
from emunode.topologies.registry import parse_topology

REQUIREMENTS = Group("Requirements", sort_key=1)
SUBMISSIONS = (".py", ".csv")
SCHEDULES = Group("Schedules", sort_key=2)
LIMITS = Group("Limits", sort_key=3)
STATUS = {MarkVerdict.PASS: 0, MarkVerdict.FAIL: 1, MarkVerdict.UNDECIDED: 3}
STYLES = {"pass": "green", "fail": "bold red", "undecided": "yellow", "information": "dim"}


@Parameter(name="*", group=LIMITS)
@dataclass(frozen=True)
class LimitFlags:
    """The flags for limits and confinement of a submission."""

    answer_seconds: Annotated[float, Parameter(help="time for one answer")] = 10.0
    total_seconds: Annotated[float, Parameter(help="time for all checks")] = 300.0
    memory_megabytes: Annotated[int, Parameter(help="memory of one process")] = 1024
    require_confinement: Annotated[bool, Parameter(help="execute nothing unless all layers of confinement hold")] = (
        False
    )

    def checked(self) -> Limits:
        """Return the limits; ScenarioError for a value that is out of range."""
        for name, most in (("answer_seconds", 3600), ("total_seconds", 86400)):
            if not 0 < getattr(self, name) <= most:
                raise ScenarioError(name, getattr(self, name), f"expected a time above 0, up to {most} s")
        if not 128 <= self.memory_megabytes <= 1 << 20:
            raise ScenarioError("memory_megabytes", self.memory_megabytes, "expected 128 or more, up to 1048576")
        return Limits(self.answer_seconds, self.total_seconds, self.memory_megabytes * MEBIBYTE)


@Parameter(name="*", group=SCHEDULES)
@dataclass(frozen=True)
class ScheduleFlags:
    """The flags for schedules, which the annex of schedules reads by these names."""

    link_capacity: Annotated[
        int | None, Parameter(help="chunks that a link carries in a step; default: any number")
    ] = None
    root: Annotated[int, Parameter(help="rank of the root of a collective whose file names none")] = 0
    fault: Annotated[
        tuple[str, ...],
        Parameter(help="also say what is lost to this outage where thread blocks wait (repeatable)"),
    ] = ()
    brief: Annotated[bool, Parameter(help="count the files by format and verdict")] = False
    claims: Annotated[
        bool,
        Parameter(
            help="also print what files state of themselves, and the lower bounds of the network",
        ),
    ] = False


@Parameter(name="*")
@dataclass(frozen=True)
class CheckFlags:
    """The flags for submissions and schedules."""

    topology: Annotated[
        tuple[str, ...],
        Parameter(group=REQUIREMENTS, help="network to check on (repeatable); for an algorithm several small ones"),
    ] = ()
    port_model: Annotated[
        tuple[PortModel, ...],
        Parameter(group=REQUIREMENTS, help="required port model (repeatable); those that the algorithm declares"),
    ] = ()
    property: Annotated[
        tuple[str, ...],
        Parameter(
            group=REQUIREMENTS,
            help="required of trees (repeatable): arc-disjoint, edge-disjoint, independent, completely-independent",
        ),
    ] = ()
    within: Annotated[
        float | None, Parameter(group=REQUIREMENTS, help="most steps, as a multiple of the lower bound")
    ] = None
    schedules: ScheduleFlags = ScheduleFlags()
    limits: LimitFlags = LimitFlags()
    gradescope: Annotated[
        Path | None, Parameter(group=OUTPUT, metavar="FILE", help="also write the results.json that Gradescope reads")
    ] = None
    plugin: PluginFlag = None
    verbose: Annotated[
        bool,
        Parameter(
            negative=(), show_default=False, help="print every requirement and layer, also where all checks pass"
        ),
    ] = False
    json: JsonFlag = False

    def judge(self, files: Sequence[Path]) -> int:
        """Judge schedules; return the exit status."""
        if (
            self.port_model
            or self.property
            or self.within is not None
            or self.limits != LimitFlags()
            or self.gradescope
        ):
            raise ScenarioError(
                "check",
                str(files[0]),
                "schedules take --topology, --link-capacity, --root, --fault, --brief, --claims and --json only",
            )
        flags = asdict(self.schedules)
        status: int = annex_function("judge schedule files")(files, topology=self.topology, as_json=self.json, **flags)
        return status

    def grade(self, file: Path) -> int:
        """Grade a submission, and print and write the marks; return the exit status."""
        if self.schedules != ScheduleFlags():
            reason = "only schedules take --link-capacity, --root, --fault, --brief and --claims"
            raise ScenarioError("check", str(file), reason)
        options = self._options()
        if self.gradescope is not None and not self.gradescope.parent.is_dir():
            raise ScenarioError("gradescope", str(self.gradescope), "expected a file in a folder that exists")
        began = time.monotonic()
        with on_stderr("check", "no mark is kept; the same command begins again") as progress:
            found = grade_file(file, options, progress)
        if self.gradescope is not None:
            marks = results(found, time.monotonic() - began)
            replace_file(self.gradescope, dumps(marks, indent=2) + "\n", named=True)
        if self.json:
            print_json(found.record())
        else:
            _show(found, verbose=self.verbose)
        return STATUS[found.verdict]

    def _options(self) -> GradeOptions:
        if self.within is not None and not self.within >= 1:
            raise ScenarioError("within", self.within, "expected a multiple of the bound, 1 or more")
        return GradeOptions(
            [parse_topology(name) for name in self.topology],
            self.port_model,
            self.property,
            self.within,
            self.limits.checked(),
            self.limits.require_confinement,
        )


@as_command
def check(
    *files: Annotated[
        Path,
        Parameter(help="an algorithm, a network or trees in .py, trees in .csv, or schedules: files and folders"),
    ],
    flags: CheckFlags = CheckFlags(),
) -> int:
    """Grade a submission, an algorithm, a network or trees, or judge schedules from files.

    A file in Python registers an algorithm or a network with `emunode.registry.register`, or defines trees: a function
    parent(label, tree) that returns a label, a port or None, or a subclass of Trees. A file in CSV has the columns tree,
    label and parent. The submission runs in processes of their own, with limits, and a judge outside them carries its
    packets. Where all passes one line says so, and --verbose prints the details. The exit status is 0 if all requirements
    are met, 1 if one is not, 3 if time was short, and 4 if the submission could not be graded: it was ended or stopped from
    outside, or the machine had no memory left.

    Schedules are files that synthesisers write, such as MSCCL XML. Each gets one line with verdict, steps, links and chunks,
    on the links that it uses or on those of --topology; --brief prints one table of all files instead. With --fault, a
    second line names the chunks that a runtime loses to the outage if its thread blocks wait for lost messages. The exit
    status is 1 if one is wrong, else 2 if one is refused, else 3 if one is undecided.

    Examples:
      coordinator check mine.py --topology star:4 --port-model one-port --within 1.5 --json
      coordinator check schedules/ ring.xml --topology ring:8
    """
    # A plug-in may add a format.
    load_plugins(flags.plugin)
    if files and all(map(_is_schedule, files)):
        return flags.judge(files)
    if len(files) != 1:
        reason = "expected one submission, or any number of schedules"
        raise ScenarioError("check", str(next((file for file in files if not _is_schedule(file)), None)), reason)
    return flags.grade(*files)


def _is_schedule(file: Path) -> bool:
    """Return whether a file is not a submission but a schedule, or a folder of them."""
    return file.suffix not in SUBMISSIONS and bool(annex_function("recognise schedule files")(file))


def _show(found: Grade, *, verbose: bool) -> None:
    record: dict[str, Any] = found.record()
    if verbose or found.verdict is not MarkVerdict.PASS:
        _show_all(found, record)
    else:
        say(f"All checks passed: {record['points']} of {record['of']}")
    for layer, reason in found.protection.missing.items():
        say(f"not confined by: {layer} ({reason})")


def _show_all(found: Grade, record: Mapping[str, Any]) -> None:
    out = render.console()
    for subject in found.subjects:
        out.print(f"[bold]{escape(f'{subject.kind} {subject.name}')}[/]")
        if subject.networks:
            say(f"on {', '.join(subject.networks)}")
        _show_marks(subject)
    if found.printed:
        say(f"it printed: {found.printed!r}")
    style = STYLES[str(found.verdict)]
    out.print(
        f"{escape(found.file)}: [{style}]{found.verdict}[/], {record['points']} of {record['of']} points",
    )
    if found.protection:
        say(f"confined by: {', '.join(found.protection.held)}")


def _show_marks(subject: GradedPart) -> None:
    rows: Sequence[Sequence[str]] = [
        (
            mark.requirement,
            f"[{STYLES[mark.verdict]}]{mark.verdict}[/]",
            f"{mark.points} of 10" if mark.required else "",
            mark.counted,
            escape(mark.meaning),
        )
        for mark in subject.marks
    ]
    render.show_table(("requirement", "verdict", "points", "cases", "meaning"), rows)
    texts: dict[str, list[str]] = {}
    for mark in subject.marks:
        for text in mark.remarks:
            texts.setdefault(text, []).append(mark.requirement)
    # A reason that holds for several requirements is printed once.
    for text, requirements in texts.items():
        say(f"{', '.join(requirements)}: {text}")
