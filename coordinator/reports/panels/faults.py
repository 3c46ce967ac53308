"""The faults of a run, and the nodes that they cut off."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from coordinator.history.run_directory import PROCESS_FAULT
from coordinator.history.stored.reading import parse_json, read_text
from coordinator.planning.placements.base import place
from coordinator.reports.data import RunData
from coordinator.reports.fault_table import LISTED_FAULTS
from coordinator.reports.numbers import show
from coordinator.reports.pages import fragment
from coordinator.reports.panels.base import Report
from coordinator.reports.scene.votes import State, Votes
from coordinator.results import cut_off as results
from coordinator.results.cut_off import LISTED_NODES, CutOff
from coordinator.results.reasons import unserved_words
from coordinator.scenario.durations import format_duration
from emunode.errors import ScenarioError
from emunode.terminal import first_of

NAMED = 3
"""Nodes of a host that are named."""


def faults_panel(report: Report) -> Markup | None:
    """Render the faults of the scenario in words."""
    faults = report.fault_rows
    searches = report.data.summary.get("fault_searches")
    listed = [str(search) for search in searches] if isinstance(searches, list) else []
    return fragment("faults", faults=faults, searches=listed, processes=process_table(report.data)) if faults else None


def process_table(data: RunData) -> list[dict[str, str]]:
    """Return one row for each time that the process of a host was killed, stopped, continued or restarted, from the
    log.
    """
    try:
        lines = read_text(data.path / "log.jsonl", follow=False).splitlines()
    except (OSError, ValueError):
        return []
    events = [event for line in lines if (event := _event(line)).get("event") == PROCESS_FAULT]
    return [_process_row(data, event) for event in events[:LISTED_FAULTS]]


def _event(line: str) -> Mapping[str, Any]:
    """Return the event of a line of the log; empty for any other text, since the file may have another author."""
    try:
        event = parse_json(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def _process_row(data: RunData, event: Mapping[str, Any]) -> dict[str, str]:
    host, seconds, after = event.get("host"), event.get("seconds"), event.get("seen_after_seconds")
    seen = str(event.get("seen", "?"))
    return {
        "action": f"{event.get('action', '?')} ({event.get('means', '?')})",
        "host": show(host),
        "nodes": _nodes_of(data, host),
        "pid": str(event.get("pid", "?")),
        "when": format_duration(seconds) if isinstance(seconds, float) else show(event.get("step")),
        "sent": str(event.get("sent", "?")),
        "seen": f"{seen} after {format_duration(after)}" if isinstance(after, float) else f"still {seen}",
    }


def _nodes_of(data: RunData, host: object) -> str:
    """Return the labels of the first nodes of a host, and the number of the others."""
    hosts = data.get("hosts")
    if data.topology is None or not isinstance(host, int) or not isinstance(hosts, int) or not 0 <= host < hosts:
        return "?"
    try:
        ranks = place(str(data.scenario.get("placement", "blocks")), data.topology, hosts).ranks(host)
    except ScenarioError:
        return "?"
    return first_of([*map(data.topology.label, ranks[:NAMED])], NAMED, len(ranks))


def cut_off_panel(report: Report) -> Markup | None:
    """Render the healthy nodes that did not receive everything, grouped by the fault that cut them off."""
    lost = cut_off(report.data, report.votes)
    if not lost.count:
        return None
    return fragment(
        "cut_off",
        count=f"{lost.count:,}",
        groups=_by_cause(lost.nodes),
        altered=report.votes is not None,
        words=unserved_words(report.data.summary).capitalize(),
        more=lost.count - len(lost.nodes),
    )


def cut_off(data: RunData, votes: Votes | None) -> CutOff:
    """Return the healthy nodes that did not receive everything, from the summary; for older runs, from their journal."""
    named, count = data.summary.get("cut_off"), data.summary.get("cut_off_count")
    if isinstance(named, list):
        nodes = [
            (str(node.get("label")), None if node.get("because") is None else str(node["because"]))
            for node in named
            if isinstance(node, dict)
        ]
        return CutOff(nodes, count if isinstance(count, int) else len(nodes))
    if data.get("intact_deliveries") == data.get("expected_deliveries") or data.plan is None:
        return CutOff((), 0)
    if votes is not None:
        ranks = np.flatnonzero(votes.due & (votes.state != State.RIGHT)).tolist()
        return CutOff([(data.plan.topology.label(rank), None) for rank in ranks[:LISTED_NODES]], len(ranks))
    return CutOff((), 0) if data.measurement is None else results.cut_off(data.plan, data.measurement)


def _by_cause(nodes: Sequence[tuple[str, str | None]]) -> list[tuple[str | None, list[str]]]:
    """Return the causes, each with the labels of its nodes."""
    groups: dict[str | None, list[str]] = {}
    for label, because in nodes:
        groups.setdefault(because, []).append(label)
    return list(groups.items())
