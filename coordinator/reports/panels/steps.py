"""Delivery and activity after each step."""

from collections.abc import Sequence

import polars as pl
from markupsafe import Markup

from coordinator.reports.chart import Chart, DrawChart, responsive
from coordinator.reports.charts import step_bars, step_lines
from coordinator.reports.data import RunData
from coordinator.reports.pages import fragment, markup
from coordinator.reports.panels.base import Report
from coordinator.reports.scene.nodes import broken_nodes, giving, lacking
from coordinator.reports.scene.votes import State, Votes, all_segments_due
from emunode.model import FOLDING

Lines = dict[str, tuple[str, Sequence[float]]]
"""Name -> colour, shares after each step."""
MULTIPLES = (
    ("sending", "nodes that send", "blue"),
    ("receiving", "nodes that receive segments due", "green"),
    ("active", "nodes that send or receive", "orange"),
    ("free", "idle nodes", "grey"),
    ("packets", "packets", "sky"),
    ("max_link_segments", "segments on the busiest link", "purple"),
)


def steps_panel(report: Report) -> Markup | None:
    """Render the shares delivered after each step, and small charts of the events in it."""
    draw, multiples = delivered_chart(report), step_charts(report)
    if draw is None and not multiples:
        return None
    delivery = None if draw is None else markup(responsive(draw))
    return fragment("steps", delivery=delivery, multiples=[Markup(chart.svg) for chart in multiples.values()])


def delivered_chart(report: Report) -> DrawChart | None:
    """Return the chart of the shares delivered after each step."""
    lines = _delivered(report)
    if not lines:
        return None
    return lambda narrow: step_lines("delivered after each step", lines, report.fault_steps, narrow=narrow)


def _delivered(report: Report) -> Lines:
    """Draw the shares of the segments that arrived and of the nodes that are done, or how votes ended."""
    data, hops = report.data, report.hops
    steps = len(data.steps) if data.steps is not None else 0
    if hops is not None and len(hops):
        steps = max(steps, int(hops["step"].max()))  # type: ignore[arg-type]
    if report.votes is not None:
        return _vote_lines(report.votes, steps)
    lines: Lines = {}
    if hops is not None and len(hops):
        healthy = hops.filter(~pl.col("receiver").is_in(list(broken_nodes(data))))
        firsts = _by_step(healthy, "first", steps)
        whole = _whole(data, sum(firsts))
        if whole:
            lines["segments"] = ("blue", _cumulative(firsts, whole))
    if data.nodes is not None and steps and not giving(data):
        due = data.nodes.filter(pl.col("expected") > 0)
        missing = lacking(data)
        done = data.nodes.filter((pl.col("expected") > 0) & ~pl.Series(missing)) if missing is not None else due
        shares = _cumulative(_count_steps(done["last_step"].drop_nulls(), steps), max(1, len(due)))
        if "segments" in lines and lines["segments"][1] == shares:
            return {"everything": lines["segments"]}
        lines["nodes done"] = ("orange", shares)
    return lines


def _whole(data: RunData, arrived: int) -> float:
    """Return the number of due segments, given the number that `arrived`; 0 if it is unknown."""
    if data.plan is not None and data.plan.spec.collective not in FOLDING:
        return max(arrived, all_segments_due(data.plan))
    ratio = data.get("delivery_ratio")
    if not isinstance(ratio, int | float) or not 0 <= ratio <= 1:
        return arrived
    return arrived / ratio if ratio else 0


def _vote_lines(votes: Votes, steps: int) -> Lines:
    """Complete and intact messages, and nodes that did not elect the right value, as shares of the due ones."""
    intact = votes.messages.filter(pl.col("intact"))["settled"]
    lines: Lines = {"intact messages": ("green", _cumulative(_count_steps(intact, steps), max(1, votes.expected)))}
    for state, name, colour in ((State.WRONG, "nodes, wrong value", "red"), (State.SPLIT, "nodes, no majority", "sky")):
        settled = pl.Series(votes.settled[votes.due & (votes.state == state)])
        if len(settled):
            lines[name] = (colour, _cumulative(_count_steps(settled, steps), max(1, int(votes.due.sum()))))
    return lines


def _count_steps(values: pl.Series, steps: int) -> list[int]:
    """Return the number of occurrences of each step from 1 to `steps`."""
    counts = [0] * steps
    for step, count in values.value_counts().iter_rows():
        if 1 <= step <= steps:
            counts[step - 1] += count
    return counts


def _by_step(hops: pl.DataFrame, column: str, steps: int) -> list[int]:
    counts = [0] * steps
    for step, count in hops.group_by("step").agg(pl.col(column).sum()).iter_rows():
        counts[step - 1] = count
    return counts


def _cumulative(values: Sequence[int], whole: float) -> list[float]:
    total, shares = 0, []
    for value in values:
        total += value
        shares.append(min(1.0, total / whole))
    return shares


def step_charts(report: Report) -> dict[str, Chart]:
    """Return the small charts by the column of steps.parquet that they draw."""
    table = report.data.steps
    if table is None:
        return {}
    titles = {"receiving": "nodes that receive a first copy"} if report.votes else {}
    return {
        column: step_bars(titles.get(column, title), table[column].to_list(), colour, report.fault_steps)
        for column, title, colour in MULTIPLES
        # Bars of one height say nothing.
        if len(table) == 1 or table[column].n_unique() > 1
    }
