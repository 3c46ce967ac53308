"""report.html: a run on one page that loads nothing.

Every run directory holds a report, so it must be small and cheap: figures are SVG text, and the script is 50 KB in a dozen
modules (`templates/report`). A star graph of 24 nodes takes 105 KB, one of 5,040 nodes 490 KB. A plotting library in each
report would take 4.5 MB and a second to start, for charts that need no zoom. A content security policy stops the page from
fetching anything.

A report is drawn from the files of the run directory only (`data.py`). It can therefore be drawn again at any time, and of
runs that were interrupted or damaged. This module only assembles the panels of `panels/registry.py`.
"""

from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from coordinator.history.run_index import REPORT, THUMBNAIL
from coordinator.history.stored.writing import replace_file
from coordinator.reports.data import RunData, read_run
from coordinator.reports.numbers import verdict_sentence
from coordinator.reports.pages import FOLDER, MARKS, script, script_json, style, template, typeset
from coordinator.reports.panels.base import DrawPanel, Report
from coordinator.reports.panels.faults import cut_off
from coordinator.reports.panels.registry import PANELS
from coordinator.reports.theme import RESPONSIVE_CSS, colour_variables, tree_colours
from coordinator.reports.thumbnail import thumbnail
from coordinator.scenario.command import describe
from emunode.model import VECTOR

DRIVERS = {"memory": "in memory", "local": "over TCP on one machine"}


def write_report(
    run: Path, out: Path | None = None, *, name: str | None = None, thorough: bool = True, own: bool = False
) -> Path:
    """Draw the report of the run directory `run` into `out` and return its path.

    By default, it is report.html in the run directory, with thumbnail.svg beside it. Without `thorough`, figures that
    require reading a very long journal are omitted. Raises OSError if a file cannot be written.
    """
    data = read_run(run, name, own=own)
    target = out or run / REPORT
    replace_file(target, render(data, thorough=thorough), named=out is not None)
    if out is None and (picture := thumbnail(data)) is not None:
        replace_file(run / THUMBNAIL, picture)
    return target


def render(data: RunData, *, thorough: bool = True, panels: Sequence[DrawPanel] | None = None) -> str:
    """Return the page as HTML, with these panels; by default, all."""
    report = Report(data, thorough=thorough)
    sections = [section for panel in panels or PANELS if (section := panel(report)) is not None]
    network = data.topology.title if data.topology else str(data.get("topology") or "unknown network")
    return template(FOLDER / "page.html.jinja").render(
        verdict=str(data.get("verdict") or "unfinished"),
        mark=MARKS.get(str(data.get("verdict")), "…"),
        because=verdict_sentence(data.summary),
        notes=data.notes,
        title=network,
        heading=typeset(network),
        headline=headline(data),
        panels=sections,
        script_data=script_json(_script_data(report)) if report.picture else None,
        css=style(RESPONSIVE_CSS, (FOLDER / "report" / "report.css").read_text(encoding="utf-8"), tree_colours()),
        colours=Markup(colour_variables()),
        js=script("report"),
    )


def _script_data(report: Report) -> dict[str, object]:
    """Return the frames of the map, and the data for questions about nodes."""
    assert report.picture is not None
    answers = None
    if report.nodes is not None:
        listed = dict(cut_off(report.data, report.votes).nodes)
        answers = report.nodes.record(report.fault_rows, listed)
    return {**report.picture.script, "answers": answers}


def headline(data: RunData) -> str:
    """Write the scenario in one sentence."""
    collective = data.get("collective") or "a collective"
    algorithm = describe({**data.scenario, "algorithm": data.get("algorithm")})
    source, where = data.get("source"), ""
    if collective == "unicast":
        where = f" from {source} to {data.get('target')}" if data.get("target") else " along a permutation"
    elif source is not None and collective in ("broadcast", "scatter"):
        where = f" from {source}"
    elif source is not None and collective in ("gather", "reduce"):
        where = f" into {source}"
    elif collective == "messages":
        where = " of a file"
    driver = data.get("driver")
    by = DRIVERS.get(str(driver), f"driver {driver}")
    many = data.get("messages") or 1
    size = data.get("message_bytes")
    unit = "vector" if str(collective) in VECTOR else "message"
    blocks = data.get("blocks")
    cut = f" in {blocks:,} blocks" if isinstance(blocks, int) and blocks > 1 else ""
    if collective == "messages":
        unit, cut = "message", " at most from one node to another"
    load = (
        f", {many:,} {unit}{'s' * (many != 1)} of {size:,} bytes{cut}"
        if isinstance(size, int) and isinstance(many, int)
        else ""
    )
    if data.origin:
        return f"{collective}{where} by {algorithm}{load}, measured elsewhere"
    return f"{collective}{where} by {algorithm}, {data.get('port_model') or 'unknown port model'}{load}, {by}"
