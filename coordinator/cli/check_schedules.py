"""`coordinator check` for schedule files: one line for each."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from coordinator.cli import render
from coordinator.cli.documents import print_json
from coordinator.cli.markup import escape
from coordinator.scenario.networks import load_topology
from coordinator.schedules.base import FileVerdict
from coordinator.schedules.folder import JudgedFile, judge_file, schedule_paths, status_of
from emunode.errors import ScenarioError

STYLES: Mapping[FileVerdict, str] = {
    FileVerdict.HOLDS: "green", FileVerdict.VIOLATED: "bold red", FileVerdict.REFUSED: "red",
    FileVerdict.UNDECIDED: "yellow",
}  # fmt: skip


def check_schedules(
    paths: Iterable[Path], topologies: Sequence[str], capacity: int | None, root: int, *, as_json: bool
) -> int:
    """Judge schedule files and print one line for each; return the exit status."""
    if len(topologies) > 1:
        raise ScenarioError("topology", topologies[1], "schedules are checked on one network")
    if capacity is not None and capacity < 1:
        raise ScenarioError("link_capacity", capacity, "expected the chunks that a link carries in a step, 1 or more")
    topology = load_topology(topologies[0]) if topologies else None
    found = []
    for path in schedule_paths(paths):
        judged = judge_file(path, topology, capacity, root)
        found.append(judged)
        if not as_json:
            _show(judged)
    status = status_of(judged.judgement.verdict for judged in found)
    if as_json:
        print_json({"schedules": [judged.record() for judged in found], "exit_status": status})
    elif len(found) > 1:
        counts = Counter(judged.judgement.verdict for judged in found)
        words = ", ".join(f"{counts[verdict]} {verdict}" for verdict in FileVerdict if counts[verdict])
        render.console().print(f"{len(found)} schedules: {words}", soft_wrap=True)
    return status


def _show(judged: JudgedFile) -> None:
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
    render.console().print(f"{escape(str(judged.path))}: {verdict}: {escape(text)}", soft_wrap=True)
    for note in found.notes:
        render.console().print(f"  note: {escape(note)}", soft_wrap=True)
