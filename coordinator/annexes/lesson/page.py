"""The page of a lesson: the network, the run and its branches as data, and a script that shows them step by step."""

import gzip
import json
from base64 import b64encode
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from markupsafe import Markup

from coordinator.annexes.lesson.branches import FIELDS, FaultBranch, JournalRow, Lesson, last_step, lesson_of, rows_of
from coordinator.annexes.lesson.judged import judged_record
from coordinator.history.stored.writing import replace_file
from coordinator.networks.base import Progress
from coordinator.reports.data import RunData
from coordinator.reports.layout import layout_of, shapes_of
from coordinator.reports.link_paths import link_paths
from coordinator.reports.pages import MARKS, script, script_json, style, template, typeset
from coordinator.reports.run_report import headline
from coordinator.reports.scene.nodes import ALL_TO_ALL, GIVING
from coordinator.reports.scene.scene import Positions
from coordinator.reports.theme import colour_variables
from emunode.errors import ScenarioError
from emunode.faults.kinds import Fault, LinkFault, NodeFault
from emunode.model import ROOTLESS, HopOutcome
from emunode.topologies.base import Topology

MOST_BYTES: Final = 3_000_000
FOLDER: Final = Path(__file__).parent / "templates"


def write_lesson(data: RunData, path: Path, progress: Progress | None = None) -> Path:
    """Write the page of a stored run, and return its path.

    ScenarioError (field `run`) as of `lesson_of`, and (field `lesson`) for a page above MOST_BYTES or a file that cannot be
    written.
    """
    page = render(data, lesson_of(data, progress)).encode()
    if len(page) > MOST_BYTES:
        raise ScenarioError("lesson", str(path), f"the page has {len(page):,} bytes; at most {MOST_BYTES:,}")
    try:
        replace_file(path, page, named=True)
    except OSError as error:
        raise ScenarioError("lesson", str(path), f"cannot be written: {error.strerror}") from None
    return path


def render(data: RunData, lesson: Lesson) -> str:
    """Return the page as HTML."""
    title = lesson.finished.plan.topology.title
    packed = gzip.compress(json.dumps(record_of(lesson), separators=(",", ":")).encode(), mtime=0)
    return template(FOLDER / "lesson.html.jinja").render(
        title=title,
        heading=typeset(title),
        headline=headline(data),
        branches=len(lesson.branches),
        colours=Markup(colour_variables()),
        css=style((FOLDER / "lesson.css").read_text(encoding="utf-8")),
        picture=script_json(picture_of(lesson)),
        data=b64encode(packed).decode(),
        js=script(str(FOLDER)),
    )


def picture_of(lesson: Lesson) -> dict[str, object]:
    """Return the network and its drawing, and what the page calls things."""
    plan = lesson.finished.plan
    topology, layout = plan.topology, layout_of(plan.topology)
    rooted = plan.spec.collective not in ROOTLESS and not plan.spec.permutation
    return {
        "labels": [topology.label(rank) for rank in topology.ranks()],
        "x": np.round(layout.x, 1).tolist(),
        "y": np.round(layout.y, 1).tolist(),
        "radius": round(layout.radius, 2),
        "height": round(layout.height, 1),
        "links": _links(topology),
        "root": plan.spec.source if rooted else None,
        "giving": plan.spec.collective in GIVING,
        "pies": plan.spec.collective in ALL_TO_ALL,
        "colours": Positions(last_step(lesson.records), 1).colours,
        "marks": MARKS,
    }


def _links(topology: Topology) -> dict[str, object]:
    """Return every directed link: its ends, its port, its path and its arrowhead."""
    ends = [(rank, port, peer) for rank in topology.ranks() for port, peer, _ in topology.ends(rank)]
    senders, ports, receivers = np.array(ends, dtype=np.int64).T
    layout = layout_of(topology)
    paths, heads = link_paths(layout, shapes_of(topology, senders, ports, receivers), senders, receivers)
    return {"ends": ends, "paths": paths, "heads": heads}


def record_of(lesson: Lesson) -> dict[str, object]:
    """Return the journal and the judgement of the run, and for each branch what differs."""
    return {
        "fields": FIELDS,
        "outcomes": [outcome.name.lower() for outcome in HopOutcome],
        "firstOther": lesson.finished.plan.first_other_tree,
        "run": _columns([*rows_of(lesson.records)]),
        "judged": judged_record(lesson.finished),
        "faults": [_fault_record(fault, lesson.finished.plan.topology) for fault in lesson.finished.plan.faults],
        "places": [[place.fault, place.rank, place.peer] for place in lesson.places],
        "branches": [_branch_record(branch) for branch in lesson.branches],
        "refused": lesson.refused,
    }


def _fault_record(fault: Fault, topology: Topology) -> list[object]:
    """Return the text of a fault, its step, its node and, of a link, the other end."""
    if isinstance(fault, LinkFault):
        return [fault.text, fault.step, fault.sender, topology.neighbour(fault.sender, fault.port)]
    return [fault.text, fault.step, fault.rank if isinstance(fault, NodeFault) else None, None]


def _branch_record(branch: FaultBranch) -> dict[str, object]:
    """Return a branch with its changes as distances from one row to the next, which are small numbers."""
    numbers = [-1, *(number for number, _ in branch.changes)]
    gaps = [after - before for before, after in pairwise(numbers)]
    changes = [value for gap, (_, outcome) in zip(gaps, branch.changes, strict=True) for value in (gap, outcome)]
    return {
        "place": branch.place,
        "step": branch.step,
        "changes": changes,
        "added": _columns(branch.added),
        "judged": branch.judged,
    }


def _columns(rows: Sequence[JournalRow]) -> list[list[int]]:
    """Return rows as columns, which pack into fewer bytes; none for no rows."""
    return [list(column) for column in zip(*rows, strict=True)]
