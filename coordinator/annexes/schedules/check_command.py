"""`coordinator check` for schedule files: one line for each."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.markup import escape

from coordinator.annexes.schedules.api import bounds_of, stalled_by
from coordinator.annexes.schedules.base import FileVerdict, ScheduleFile
from coordinator.annexes.schedules.folder import JudgedFile, judge_file, schedule_paths, status_of
from coordinator.annexes.schedules.outages import StalledRun
from coordinator.annexes.schedules.scenario_values import network_of_links
from coordinator.cli import render
from coordinator.scenario.networks import load_topology
from emunode.algorithms.claims import Claim
from emunode.errors import ScenarioError
from emunode.terminal import plural, print_json, say
from emunode.topologies.base import Topology

VERDICTS: Final = ("holds", "holds, redundant", "violated", "refused", "undecided")
"""The columns of a table."""
NUMBER: Final = re.compile(r"\d+(\.\d+)?")
NAMES: Final = {"steps": "steps", "segments": "chunks"}
"""The words for metrics that have lower bounds."""
LONGEST_REASON: Final = 120
MOST_CELLS: Final = 8
"""Lost cells of a gpu that are printed."""
STYLES: Mapping[FileVerdict, str] = {
    FileVerdict.HOLDS: "green", FileVerdict.VIOLATED: "bold red", FileVerdict.REFUSED: "red",
    FileVerdict.UNDECIDED: "yellow",
}  # fmt: skip


@dataclass(frozen=True)
class ScheduleChecks:
    """The network, the limits and the faults that schedules are checked with, and the kind of output."""

    topology: Sequence[str] = ()
    link_capacity: int | None = None
    root: int = 0
    fault: Sequence[str] = ()
    """Outages to follow thread blocks under."""
    brief: bool = False
    claims: bool = False
    """Whether lower bounds of the network are computed, and printed with what the files state of themselves."""
    as_json: bool = False

    def __post_init__(self) -> None:
        if self.brief and (self.fault or self.claims):
            flag = "--fault" if self.fault else "--claims"
            raise ScenarioError("brief", None, f"it counts files by verdict and has no room for {flag}: leave one out")


def check_files(paths: Sequence[Path], **flags: Any) -> int:
    """Judge schedule files with the flags of `coordinator check`; return the exit status."""
    return check_schedules(paths, ScheduleChecks(**flags))


def check_schedules(paths: Sequence[Path], checks: ScheduleChecks) -> int:
    """Judge schedule files and print one line for each, or a table of all; return the exit status."""
    if len(checks.topology) > 1:
        raise ScenarioError("topology", checks.topology[1], "schedules are checked on one network")
    capacity = checks.link_capacity
    if capacity is not None and capacity < 1:
        raise ScenarioError("link_capacity", capacity, "expected the chunks that a link carries in a step, 1 or more")
    topology = load_topology(checks.topology[0]) if checks.topology else None
    rows, verdicts = [], []
    table: dict[tuple[str, str], Counter[str]] = {}
    reasons: dict[tuple[str, str], list[Path]] = {}
    for file in schedule_paths(paths):
        judged = judge_file(file, topology, capacity, checks.root)
        stalled = _stalled(judged, topology, checks) if checks.fault else None
        bounds = _bounds(judged, topology, checks) if checks.claims else None
        found = judged.judgement
        verdicts.append(found.verdict)
        if checks.as_json:
            further = {} if stalled is None else {"stalled": stalled.record()}
            rows.append({**judged.record(), **further, **({} if bounds is None else _record(bounds))})
        elif checks.brief:
            given = next(path for path in paths if path in (file, *file.parents))
            table.setdefault((str(given), judged.format), Counter())[found.words] += 1
            if found.verdict is not FileVerdict.HOLDS:
                # Numbers are left out of the reason, so that equal defects are counted together.
                kind = str(found.verdict), NUMBER.sub("#", found.reason)[:LONGEST_REASON]
                reasons.setdefault(kind, []).append(file)
        else:
            _show(judged, bounds, stalled, checks.fault)
    status = status_of(verdicts)
    if checks.as_json:
        print_json({"schedules": rows, "exit_status": status})
        return status
    if checks.brief:
        _show_table(table, reasons)
    if len(verdicts) > 1:
        counts = Counter(verdicts)
        words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in FileVerdict if counts[verdict])
        say(f"{len(verdicts)} schedules: {words}")
    return status


def _stalled(judged: JudgedFile, topology: Topology | None, checks: ScheduleChecks) -> StalledRun | None:
    """Return the losses of a file to the faults; None for a file that does not hold without them."""
    found = _on_network(judged, topology)
    if found is None:
        return None
    return stalled_by(*found, checks.fault, checks.link_capacity)


def _bounds(judged: JudgedFile, topology: Topology | None, checks: ScheduleChecks) -> Sequence[Claim]:
    """Return the lower bounds on steps and chunks for a file that holds; empty for others."""
    found = _on_network(judged, topology)
    if found is None:
        return ()
    return bounds_of(*found, checks.link_capacity)


def _record(bounds: Sequence[Claim]) -> dict[str, object]:
    """Return the bounds of every schedule as plain values, and what binds those with the chunks and packets of the file."""
    pieces = {NAMES[each.name]: {"least": each.predicted, "for": each.condition} for each in bounds if each.condition}
    return {
        "bounds": {NAMES[each.name]: each.bound for each in bounds},
        **({"bounds_of_pieces": pieces} if pieces else {}),
    }


def _on_network(judged: JudgedFile, topology: Topology | None) -> tuple[ScheduleFile, Topology] | None:
    """Return the schedule of a file that holds, with the network or else its own links; None for other files."""
    if judged.schedule is None or judged.judgement.verdict is not FileVerdict.HOLDS:
        return None
    return judged.schedule, topology or network_of_links(judged.schedule, judged.path.stem)


def _show_claims(judged: JudgedFile, bounds: Sequence[Claim]) -> None:
    """Print what a file states beside what its schedule has, and the lower bounds of the network."""
    for claim in judged.judgement.claims:
        verdict = "holds" if claim.holds else "differs"
        say(f"  states {claim.name}: {claim.stated:.6g}, measured {claim.measured:.6g}: {verdict}")
    for each in bounds:
        name = NAMES[each.name]
        pieces = f"; for {each.condition}: at least {each.predicted}" if each.condition else ""
        say(f"  {name}: {getattr(judged.judgement, name)}, lower bound {each.bound}{pieces}")


def _show_table(
    table: Mapping[tuple[str, str], Counter[str]], reasons: Mapping[tuple[str, str], Sequence[Path]]
) -> None:
    rows: list[dict[str, object]] = []
    for (folder, name), counts in sorted(table.items()):
        row: dict[str, object] = {"files": folder, "format": name or "-", "count": counts.total()}
        rows.append({**row, **{verdict: counts[verdict] for verdict in VERDICTS}})
    render.show_rows("Schedules", rows)
    out = render.console()
    for (verdict, reason), files in sorted(reasons.items(), key=lambda each: -len(each[1])):
        out.print(f"{len(files)} {verdict}: {escape(reason)}; first: {escape(str(files[0]))}")


def _show_stalled(stalled: StalledRun, faults: Sequence[str]) -> None:
    """Print what faults cost where thread blocks wait for lost messages."""
    lost = ", ".join(
        f"gpu {gpu}: "
        + " ".join(f"{buffer}[{at}]" for buffer, at in cells[:MOST_CELLS])
        + " .." * (len(cells) > MOST_CELLS)
        for gpu, cells in stalled.lost.items()
    )
    blocks = f"{plural(stalled.stalled, 'thread block')} wait{'s' * (stalled.stalled == 1)} for ever"
    text = f"under {' '.join(faults)}: {stalled.lost_count} of {stalled.expected} chunks are lost"
    text += f" ({lost})" if lost else ""
    text += f"; {blocks}; first: {stalled.first}" if stalled.stalled else ""
    say(f"  {text}")


def _show(
    judged: JudgedFile, bounds: Sequence[Claim] | None, stalled: StalledRun | None, faults: Sequence[str]
) -> None:
    """Print the verdict on a file, and what else was asked for."""
    found = judged.judgement
    facts = [f"{judged.format} {found.collective}".strip()]
    facts += [
        f"{count} {noun}{'s' * (count != 1)}"
        for count, noun in (
            (found.ranks, "rank"), (found.steps, "step"), (found.links, "link"), (found.chunks, "chunk"),
        )
        if count is not None
    ]  # fmt: skip
    at = f" (line {found.line})" if found.line is not None else ""
    reason = [f"{found.reason}{at}"] if found.reason else []
    # A refused file has no facts.
    text = "; ".join([*([", ".join(facts)] if found.steps is not None else []), *reason])
    verdict = f"[{STYLES[found.verdict]}]{found.words}[/]"
    render.console().print(f"{escape(str(judged.path))}: {verdict}: {escape(text)}")
    for note in found.notes:
        say(f"  note: {note}")
    if bounds is not None:
        _show_claims(judged, bounds)
    if stalled is not None:
        _show_stalled(stalled, faults)
