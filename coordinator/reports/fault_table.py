"""The table of the faults of a run: what each one is, in words, and the effect that it had."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import polars as pl

from coordinator.history.journal import table
from coordinator.reports.data import RunData
from coordinator.reports.numbers import show
from coordinator.results.reasons import unserved_words
from coordinator.scenario.durations import format_duration
from coordinator.theory.dependence.schedule import trace
from coordinator.theory.dependence.size import InexactError
from emunode.errors import EmulatorError
from emunode.terminal import plural

LISTED_FAULTS = 200
TRACED_NODES, TRACED_HOPS = 200, 4_000
"""The largest run without faults that is traced for a report: longer ones would take longer than all the rest of it."""
PACKET = ("step", "sender", "port")
REPAIRED_BY = {"crash": ("recover",), "down": ("up", "heal")}
"""The kinds that end a fault of this kind; any other fault of a link is ended by `heal`."""
REPAIRS = ("recover", "up", "heal")

PacketSource = Callable[[], pl.DataFrame | None]
"""Returns the packets of a run, or None if they are not known; it computes them on the first call."""


def fault_table(data: RunData) -> list[dict[str, str]]:
    """Describe every fault in words, one row each."""
    # One reading of the journal and one trace serve all faults.
    planned, sent = cache(lambda: _planned(data)), cache(lambda: _sent(data))
    return [
        {
            "kind": str(fault.get("kind", "?")),
            "where": str(fault.get("label", fault.get("rank", "?"))),
            "step": show(fault.get("step")),
            "words": "; ".join(_words(fault, data, planned, sent)),
        }
        for fault in data.faults[:LISTED_FAULTS]
    ]


def _words(fault: Mapping[str, Any], data: RunData, planned: PacketSource, sent: PacketSource) -> list[str]:
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
        words += _effects(fault, data, planned, sent)
    return words


def _effects(fault: Mapping[str, Any], data: RunData, planned: PacketSource, sent: PacketSource) -> list[str]:
    """Return the effects of a fault: packets lost or altered, packets that were never sent, and nodes that it cut off."""
    seen, unsent, cut = fault["seen"], _unsent(fault, planned, sent), _nodes_cut_off(fault, data)
    words = [] if seen is None else [f"first effect in step {show(seen)}"]
    if unsent:
        words.append(f"{plural(unsent, 'packet')} {'was' if unsent == 1 else 'were'} never sent")
    if cut:
        words.append(f"{plural(cut, 'node')} {unserved_words(data.summary)}")
    if words:
        return words
    if "sender" in fault:
        return ["it touched no packet"]
    return ["no effect observed" if planned() is None else "the node had nothing left to send"]


def _nodes_cut_off(fault: Mapping[str, Any], data: RunData) -> int:
    """Return the number of nodes whose reason in the summary is a fault of this kind at this place."""
    named = data.summary.get("cut_off")
    reasons = [node.get("because") for node in named if isinstance(node, dict)] if isinstance(named, list) else []
    return sum(str(reason).partition("@")[0] == f"{fault.get('kind')}:{fault.get('label')}" for reason in reasons)


def _unsent(fault: Mapping[str, Any], planned: PacketSource, sent: PacketSource) -> int:
    """Return the number of packets that a faulty node sends without faults, but did not send once its fault had begun.

    0 for faults of links, and where the packets without faults are not known.
    """
    rank, first, last = fault.get("rank"), fault.get("step"), fault.get("last")
    if not isinstance(rank, int) or not isinstance(first, int):
        return 0
    expected, found = planned(), sent()
    if expected is None or found is None:
        return 0
    last = last if isinstance(last, int) else int(expected["step"].max() or 0)  # type: ignore[arg-type]
    of_node = (pl.col("sender") == rank) & pl.col("step").is_between(first, last)
    left_out = expected.lazy().filter(of_node).join(found.lazy(), PACKET, "anti")
    return int(left_out.select(pl.len()).collect().item())


def _planned(data: RunData) -> pl.DataFrame | None:
    """Return the packets of a run without its faults; None for runs that are not traced."""
    plan = data.plan
    if plan is None or plan.spec.has_control or plan.topology.order > TRACED_NODES:
        return None
    try:
        return table(trace(plan.algorithm, plan.scenario.step_limit, TRACED_HOPS)[1]).select(PACKET).unique()
    except (EmulatorError, InexactError):
        return None


def _sent(data: RunData) -> pl.DataFrame | None:
    """Return the packets of faulty nodes in a run; None without a journal."""
    if data.hops is None:
        return None
    faulty = sorted({fault["rank"] for fault in data.faults if isinstance(fault.get("rank"), int)})
    return data.hops.filter(pl.col("sender").is_in(faulty)).select(PACKET).unique().collect()


def _last(fault: Mapping[str, Any], faults: Sequence[Mapping[str, Any]]) -> object:
    """Return the last active step of a fault: its own end, or the step before a recovery of the same node or
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
