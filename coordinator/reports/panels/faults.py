"""The faults of a run, and the nodes that they cut off."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl
from markupsafe import Markup

from coordinator.dependence.schedule import trace
from coordinator.dependence.size import InexactError
from coordinator.history.journal import table
from coordinator.history.run_directory import PROCESS_FAULT
from coordinator.reports.data import RunData
from coordinator.reports.numbers import plural, show
from coordinator.reports.pages import fragment
from coordinator.reports.panels.base import Report
from coordinator.reports.scene.votes import State, Votes
from coordinator.results import cut_off as results
from coordinator.results.cut_off import LISTED_NODES, CutOff
from coordinator.scenario.durations import format_duration
from coordinator.stored.reading import parse_json, read_text
from emunode.errors import EmulatorError
from emunode.host.placement import Placement

LISTED_FAULTS = 200
TRACED_NODES, TRACED_HOPS = 200, 4_000
"""The largest run without faults that is traced for a report: longer ones would take longer than all the rest of it."""
NAMED = 3
"""Nodes of a host that are named."""
REPAIRED_BY = {"crash": ("recover",), "down": ("up", "heal")}
"""The kinds that end a fault of this kind; any other fault of a link is ended by `heal`."""
REPAIRS = ("recover", "up", "heal")


def faults_panel(report: Report) -> Markup | None:
    """Render the faults of the scenario in words."""
    faults = fault_table(report.data)
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
    ranks = Placement(data.topology.order, hosts).ranks(host)
    more = [f"{len(ranks) - NAMED:,} more"] if len(ranks) > NAMED else []
    return ", ".join([*map(data.topology.label, ranks[:NAMED]), *more])


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
        more=lost.count - len(lost.nodes),
    )


def fault_table(data: RunData) -> list[dict[str, str]]:
    """Describe every fault in words, one row each."""
    return [
        {
            "kind": str(fault.get("kind", "?")),
            "where": str(fault.get("label", fault.get("rank", "?"))),
            "step": show(fault.get("step")),
            "words": "; ".join(_words(fault, data)),
        }
        for fault in data.faults[:LISTED_FAULTS]
    ]


def _words(fault: Mapping[str, Any], data: RunData) -> list[str]:
    words = []
    if isinstance(fault.get("seconds"), float):
        until = fault.get("until_seconds")
        end = f" to {format_duration(until)}" if isinstance(until, float) else ""
        words.append(f"from {format_duration(fault['seconds'])}{end}")
    if fault.get("rate") is not None:
        words.append(f"with probability {show(fault['rate'])}")
    if fault.get("steps") is not None:
        words.append("by 1 step" if fault["steps"] == 1 else f"by {show(fault['steps'])} steps")
    if fault.get("packet") is not None:
        words.append(f"packet number {show(fault['packet'])}")
    words += [f"{name} {show(fault[name])}" for name in ("factor", "spread", "drift") if fault.get(name) is not None]
    if fault.get("kind") not in REPAIRS and "last" in fault and "seconds" not in fault:
        last = _last(fault, data.faults)
        words.append("until the end" if last is None else f"to the end of step {show(last)}")
    if "seen" in fault:
        words += _effects(fault, data)
    return words


def _effects(fault: Mapping[str, Any], data: RunData) -> list[str]:
    """Return the effects of a fault: packets lost or altered, packets that were never sent, and nodes that it cut off."""
    seen, unsent, cut = fault["seen"], _unsent(fault, data), _nodes_cut_off(fault, data)
    words = [] if seen is None else [f"first effect in step {show(seen)}"]
    if unsent:
        words.append(f"{plural(unsent, 'packet')} not sent that {'is' if unsent == 1 else 'are'} without faults")
    if cut:
        words.append(f"cut off {plural(cut, 'node')}")
    return words or ["no effect observed"]


def _nodes_cut_off(fault: Mapping[str, Any], data: RunData) -> int:
    """Return the number of nodes of which the summary names a fault of this kind at this place as the reason."""
    named = data.summary.get("cut_off")
    reasons = [node.get("because") for node in named if isinstance(node, dict)] if isinstance(named, list) else []
    return sum(str(reason).partition("@")[0] == f"{fault.get('kind')}:{fault.get('label')}" for reason in reasons)


def _unsent(fault: Mapping[str, Any], data: RunData) -> int:
    """Count the packets that a faulty node sends without faults, but did not send once its fault had begun.

    0 for faults of links, and if the run without faults is unknown.
    """
    rank, first, last = fault.get("rank"), fault.get("step"), fault.get("last")
    plan, hops = data.plan, data.hops
    if not isinstance(rank, int) or not isinstance(first, int) or plan is None or hops is None:
        return 0
    if plan.spec.has_control or plan.topology.order > TRACED_NODES:
        return 0
    try:
        planned = table(trace(plan.algorithm, plan.scenario.step_limit, TRACED_HOPS)[1])
    except (EmulatorError, InexactError):
        return 0
    last = last if isinstance(last, int) else int(planned["step"].max() or 0)  # type: ignore[arg-type]
    packet = ["step", "sender", "port"]
    of_node = (pl.col("sender") == rank) & pl.col("step").is_between(first, last)
    expected = planned.lazy().filter(of_node).select(packet).unique()
    sent = hops.filter(of_node).select(packet).unique()
    return int(expected.join(sent, packet, "anti").select(pl.len()).collect().item())


def _last(fault: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> object:
    """Return the last step in which a fault was active: its own end, or the step before a recovery of the same node or
    link.
    """
    place = ("rank",) if fault.get("kind") == "crash" else ("sender", "port")
    repairs = REPAIRED_BY.get(str(fault.get("kind")), ("heal",))
    ends = [
        other["step"] - 1
        for other in faults
        if other.get("kind") in repairs
        and all(other.get(key) == fault.get(key) for key in place)
        and isinstance(other.get("step"), int)
        and isinstance(fault.get("step"), int)
        and other["step"] > fault["step"]
    ]
    last = fault.get("last")
    return min([*ends, *([last] if isinstance(last, int) else [])], default=last)


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
