"""report.html: everything about a run on one page that needs nothing but itself.

Every run directory holds one, so it has to be small and to cost little: figures are SVG written by hand and a hundred
lines of script move the slider. A star graph of 24 nodes takes 40 KB, one of 5,040 nodes 200 KB, and there is nothing to
load before the first thing is seen; a plotting library embedded in each report would be 4.5 MB and a second of start-up,
for charts that need no zoom. A content security policy in the page forbids it to fetch anything at all.

It is drawn from the files of the run directory only (`data.py`), so it can be drawn again at any time, and of a run that
broke.
"""

import json
import re
from collections.abc import Sequence
from functools import cache
from html import escape
from pathlib import Path

import polars as pl
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup

from coordinator.reports import network_svg as netmap
from coordinator.reports import plots
from coordinator.reports.data import RunData, read_run
from coordinator.reports.faults import CutOff, cut_off, fault_table
from coordinator.reports.network_svg import network_map, packets_of
from coordinator.reports.nodes import broken_nodes, giving
from coordinator.reports.tables import show
from coordinator.reports.votes import State, Votes, votes_of
from coordinator.results.tables import LISTED_LINKS

FOLDER = Path(__file__).parent / "templates"
ROWS_AT_ONCE = 2_000_000
"""Larger journals are only read when somebody asks for the report, not at the end of the run."""
BUSIEST = 10
MOST_PORTS = 30
MARKS = {"holds": "✓", "violated": "✗", "undecided": "?"}


def write_report(run: Path, out: Path | None = None, *, name: str | None = None, thorough: bool = True) -> Path:
    """Draw the report of the run directory `run` into `out` (default: report.html in it); return where it is.

    Not `thorough` leaves out what a very large journal would have to be read for. Raises OSError if `out` cannot be written.
    """
    data = read_run(run, name)
    target = out or run / "report.html"
    target.write_text(render(data, thorough=thorough), encoding="utf-8")
    return target


def render(data: RunData, *, thorough: bool = True) -> str:
    """The page."""
    hops = _hops(data, thorough)
    votes = None if hops is None else votes_of(data)
    picture = network_map(data, hops, votes)
    fault_steps = [fault["step"] for fault in data.faults if isinstance(fault.get("step"), int)]
    return template(FOLDER / "page.html.jinja").render(
        name=data.name,
        verdict=str(data.get("verdict") or "unfinished"),
        mark=MARKS.get(str(data.get("verdict")), "…"),
        because=data.get("undecided_because"),
        notes=data.notes,
        title=data.topology.title if data.topology else str(data.get("topology") or "unknown network"),
        heading=_heading(data),
        headline=_headline(data),
        tiles=_tiles(data),
        claims=_claims(data),
        scenario=[(key.replace("_", " "), show(value)) for key, value in data.scenario.items() if value != []],
        metrics=_metrics(data),
        faults=fault_table(data),
        cut_off=_cut_off(cut_off(data, votes), altered=votes is not None),
        idle_left_out=_idle_left_out(data),
        delivery=_safe(_delivery(data, hops, fault_steps, votes)),
        multiples=[_safe(chart) for chart in _multiples(data, fault_steps, votes)],
        picture=picture
        and {
            "svg": _safe(picture.svg),
            "legend": _safe(picture.legend),
            "frames": _count_frames(picture),
            "ramp": picture.ramp,
        },
        script_data=_json(picture.script) if picture else None,
        histogram=_safe(_histogram(data)),
        heat=_safe(_heat(data, hops)),
        busiest=_busiest(data),
        css=_safe(plots.CSS + plots.RESPONSIVE_CSS + netmap.CSS + (FOLDER / "page.css").read_text()),
        colours=_safe(plots.colour_variables()),
        js=_safe((FOLDER / "page.js").read_text()),
        scale=", ".join(plots.viridis(share / 8) for share in range(9)),
        scale_names=(picture and picture.scale) or _scale_names(data),
    )


@cache
def template(path: Path) -> Template:
    """The page that a file describes; what it is given is escaped."""
    environment = Environment(
        loader=FileSystemLoader(path.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(path.name)


def _safe(text: str | None) -> Markup | None:
    """Text that was made here and escaped what it took from files."""
    return None if text is None else Markup(text)


def _json(value: object) -> Markup:
    return Markup(json.dumps(value, separators=(",", ":")).replace("<", "\\u003c"))


def _hops(data: RunData, thorough: bool) -> pl.DataFrame | None:
    """Who sent what to whom in which step, where the network is small enough to show it or the journal to count it."""
    if data.journal is None:
        return None
    try:
        rows = data.get("journal_rows") or data.journal.select(pl.len()).collect().item()
        if not thorough and rows > ROWS_AT_ONCE:
            data.notes.append(
                f"the journal has {rows:,} rows; what has to be counted there is left out, `coordinator report` adds it"
            )
            return None
        return packets_of(data, data.journal)
    except (OSError, pl.exceptions.PolarsError) as error:
        data.notes.append(f"journal.parquet cannot be read: {str(error).splitlines()[0][:200]}")
        data.journal = None
        return None


def _count_frames(picture: netmap.NetworkMap) -> int:
    names = picture.script["names"]
    return len(names) if isinstance(names, list) else 0


# Words and numbers.


def _heading(data: RunData) -> Markup:
    return typeset(data.topology.title if data.topology else str(data.get("topology") or "unknown network"))


def typeset(title: str) -> Markup:
    """The name of a network with its indices low and its exponent high."""
    text = re.sub(r"_\{([^}]*)\}|_(\d+)", lambda found: f"<sub>{found[1] or found[2]}</sub>", escape(title))
    text = re.sub(r"\^\((\d+)\)", r"<sup>(\1)</sup>", text).replace("rho", "\N{GREEK SMALL LETTER RHO}")
    return Markup(text[:1].upper() + text[1:])


def _headline(data: RunData) -> str:
    """One sentence: what was run."""
    collective, algorithm = data.get("collective") or "a collective", data.get("algorithm") or "an unknown algorithm"
    source, where = data.get("source"), ""
    if source is not None and collective in ("broadcast", "scatter"):
        where = f" from {source}"
    elif source is not None and collective in ("gather", "reduce"):
        where = f" into {source}"
    driver = data.get("driver")
    by = {"memory": "in memory", "local": "over TCP on one machine"}.get(str(driver), f"driver {driver}")
    many = data.get("messages") or 1
    size = data.get("message_bytes")
    load = (
        f", {many:,} message{'s' * (many != 1)} of {size:,} bytes"
        if isinstance(size, int) and isinstance(many, int)
        else ""
    )
    return f"{collective}{where} by {algorithm}, {data.get('port_model') or 'unknown port model'}{load}, {by}"


def _tiles(data: RunData) -> list[tuple[str, str]]:
    """The numbers that come first."""
    tiles = []
    if data.topology:
        tiles.append((f"{data.topology.order:,}", "nodes"))
    for key, title in (("steps", "steps"), ("packets", "packets")):
        if data.get(key) is not None:
            tiles.append((show(data.get(key)), title))
    intact, expected = data.get("intact_deliveries"), data.get("expected_deliveries")
    if isinstance(intact, int) and isinstance(expected, int):
        tiles.append((f"all {intact:,}" if intact == expected else f"{intact:,} of {expected:,}", "delivered intact"))
    if isinstance(virtual := data.get("virtual_seconds"), float):
        tiles.append((_seconds(virtual), "virtual time"))
    if isinstance(wall := data.get("wall_seconds"), float):
        tiles.append((_seconds(wall), "wall time"))
    return tiles


def _seconds(value: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value * 1e6:.4g} µs"


def _claims(data: RunData) -> list[dict[str, str]]:
    rows = []
    claims = data.get("claims")
    for claim in claims if isinstance(claims, list) else ():
        if not isinstance(claim, dict):
            continue
        relation = {"==": "", "<=": "≤ ", ">=": "≥ "}.get(str(claim.get("relation")), f"{claim.get('relation')} ")
        verdict = str(claim.get("verdict"))
        rows.append({
            "name": str(claim.get("name")).replace("_", " "),
            "predicted": f"{relation}{show(claim.get('predicted'))}",
            "measured": show(claim.get("measured")),
            "ratio": "" if claim.get("ratio") is None else show(claim["ratio"]),
            "verdict": verdict,
            "mark": MARKS.get(verdict, "?"),
            "source": str(claim.get("source") or ""),
        })  # fmt: skip
    return rows


SHOWN_ELSEWHERE = {"claims", "verdict", "undecided_because", "faults", "cut_off", "cut_off_count"}


def _metrics(data: RunData) -> list[tuple[str, str]]:
    return [(key.replace("_", " "), show(value)) for key, value in data.measured.items() if key not in SHOWN_ELSEWHERE]


def _cut_off(lost: CutOff, *, altered: bool) -> dict[str, object] | None:
    """The nodes that something due did not reach, by the fault that did it."""
    if not lost.total:
        return None
    groups = [(because, ", ".join(labels)) for because, labels in lost.by_fault()]
    return {"count": f"{lost.total:,}", "groups": groups, "altered": altered, "more": lost.total - len(lost.nodes)}


def _scale_names(data: RunData) -> tuple[str, str]:
    steps = data.get("steps")
    return "step 1", f"step {steps:,}" if isinstance(steps, int) else "last step"


# Figures.


def _delivery(data: RunData, hops: pl.DataFrame | None, faults: Sequence[int], votes: Votes | None) -> str | None:
    """Share of the pieces that arrived, and of the nodes that were done, after every step."""
    lines: dict[str, tuple[str, Sequence[float]]] = {}
    steps = len(data.steps) if data.steps is not None else 0
    if hops is not None and len(hops):
        steps = max(steps, int(hops["step"].max()))  # type: ignore[arg-type]
    if votes is not None:
        lines = _vote_lines(votes, steps)
    elif hops is not None and len(hops):
        healthy = hops.filter(~pl.col("receiver").is_in(list(broken_nodes(data))))
        firsts = _by_step(healthy, "first", steps)
        total = sum(firsts)
        ratio = data.get("delivery_ratio")
        whole = total / ratio if isinstance(ratio, float) and 0 < ratio < 1 else total
        if whole:
            lines["pieces"] = ("blue", _cumulative(firsts, whole))
    if votes is None and data.nodes is not None and steps and not giving(data):
        due = data.nodes.filter(pl.col("expected") > 0)
        shares = _cumulative(_count_steps(due["last_step"].drop_nulls(), steps), max(1, len(due)))
        if "pieces" in lines and lines["pieces"][1] == shares:
            lines = {"everything": lines["pieces"]}
        else:
            lines["nodes, last piece"] = ("orange", shares)
    if not lines:
        return None
    return plots.responsive(lambda narrow: plots.step_lines("delivered after each step", lines, faults, narrow=narrow))


def _vote_lines(votes: Votes, steps: int) -> dict[str, tuple[str, Sequence[float]]]:
    """Messages that are complete and intact, and nodes that elected something else, as shares of what is due."""
    intact = votes.messages.filter(pl.col("intact"))["settled"]
    lines: dict[str, tuple[str, Sequence[float]]] = {
        "intact messages": ("green", _cumulative(_count_steps(intact, steps), max(1, votes.expected)))
    }
    for state, name, colour in ((State.WRONG, "nodes, wrong value", "red"), (State.SPLIT, "nodes, no majority", "sky")):
        settled = pl.Series(votes.settled[votes.due & (votes.state == state)])
        if len(settled):
            lines[name] = (colour, _cumulative(_count_steps(settled, steps), max(1, int(votes.due.sum()))))
    return lines


def _count_steps(values: pl.Series, steps: int) -> list[int]:
    """How often each step from 1 to `steps` occurs."""
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


MULTIPLES = (
    ("sending", "nodes that send", "blue"),
    ("receiving", "nodes that receive what is theirs", "green"),
    ("active", "nodes that do either", "orange"),
    ("free", "nodes that are free", "grey"),
    ("packets", "packets", "sky"),
    ("max_link_segments", "segments on the busiest link", "purple"),
)


def _multiples(data: RunData, faults: Sequence[int], votes: Votes | None) -> list[str]:
    if data.steps is None:
        return []
    titles = {"receiving": "nodes that get a first copy"} if votes else {}
    return [
        plots.step_bars(titles.get(column, title), data.steps[column].to_list(), colour, faults)
        for column, title, colour in MULTIPLES
    ]


def _histogram(data: RunData) -> str | None:
    """How many directed links carried how many segments; in at most twenty bars."""
    if data.links is None:
        return None
    counts = dict(data.links["segments"].value_counts().iter_rows())
    idle = data.order * (data.topology.degree if data.topology else 0) - len(data.links)
    if idle > 0:
        counts[0] = counts.get(0, 0) + idle
    most = max(counts, default=0)
    width = max(1, -(-most // 20))
    bars = [("0", counts.get(0, 0))]
    for low in range(1, most + 1, width):
        high = min(most, low + width - 1)
        name = f"{low:,}" if low == high else f"{low:,}-{high:,}"
        bars.append((name, sum(counts.get(load, 0) for load in range(low, high + 1))))
    return plots.histogram("Directed links by load", bars, "blue", "segments carried in the whole run")


def _idle_left_out(data: RunData) -> str | None:
    """What links.parquet does not list."""
    ends = data.order * (data.topology.degree if data.topology else 0)
    if ends <= LISTED_LINKS:
        return None
    return f"links.parquet lists no idle links: the network has {ends:,} directed links, more than {LISTED_LINKS:,}."


def _busiest(data: RunData) -> list[tuple[str, ...]]:
    """The links that carried most, with names where the network is known."""
    if data.links is None or not len(data.links):
        return []
    topology = data.topology
    used = data.links.filter(pl.col("packets") > 0)
    top = used.sort("segments", "sender", "port", descending=[True, False, False]).head(BUSIEST)
    rows = []
    for row in top.iter_rows(named=True):
        sender, receiver = row["sender"], row["receiver"]
        if topology:
            sender, receiver = topology.label(sender), topology.label(receiver)
        rows.append((f"{sender} → {receiver}", *(show(row[key]) for key in BUSIEST_COLUMNS)))
    return rows


BUSIEST_COLUMNS = ("port", "packets", "segments", "bytes", "busiest_step_segments")


def _heat(data: RunData, hops: pl.DataFrame | None) -> str | None:
    """Packets by port and step: which kind of link is used when."""
    if hops is None or data.topology is None or not len(hops) or data.topology.degree > MOST_PORTS:
        return None
    steps = int(hops["step"].max())  # type: ignore[arg-type]
    table = [[0] * steps for _ in range(data.topology.degree)]
    for step, port, packets in hops.group_by("step", "port").agg(pl.len()).iter_rows():
        table[port][step - 1] = packets
    names = [f"port {port}" for port in range(data.topology.degree)]
    return plots.responsive(
        lambda narrow: plots.heat_map("Packets by port and step", names, table, steps, narrow=narrow)
    )
