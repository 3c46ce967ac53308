"""Numbers first, then claims, and the complete scenario and metrics at the end."""

from typing import Any

from markupsafe import Markup

from coordinator.reports.data import RunData
from coordinator.reports.numbers import describe_dropped, show, show_seconds
from coordinator.reports.pages import MARKS, fragment
from coordinator.reports.panels.base import Report
from coordinator.results.reasons import unjudged_word
from coordinator.scenario.command import portable_command

SHOWN_ELSEWHERE = {
    "claims", "dropped_claims", "verdict", "undecided_because", "reason", "unjudged", "faults", "cut_off", "cut_off_count",
    "agreement",
}  # fmt: skip


def tiles_panel(report: Report) -> Markup | None:
    """Render the most important numbers."""
    tiles = _tiles(report.data)
    return fragment("tiles", tiles=tiles) if tiles else None


def _tiles(data: RunData) -> list[tuple[str, str]]:
    tiles = []
    if data.topology:
        tiles.append((f"{data.topology.order:,}", "nodes"))
    for key, title in (("steps", "steps"), ("packets", "packets")):
        if data.get(key) is not None:
            tiles.append((show(data.get(key)), title))
    if isinstance(across := data.get("packets_across_hosts"), int):
        tiles.append((show(across), "packets across hosts"))
    if isinstance(final := data.get("final_delivery_ratio"), int | float):
        tiles.append((f"{final:.0%}", "delivered by the repetition"))
    intact, expected = data.get("intact_deliveries"), data.get("expected_deliveries")
    if isinstance(intact, int) and isinstance(expected, int):
        tiles.append((f"all {intact:,}" if intact == expected else f"{intact:,} of {expected:,}", "delivered intact"))
    if isinstance(virtual := data.get("virtual_seconds"), float):
        tiles.append((show_seconds(virtual), "virtual time"))
    if isinstance(wall := data.get("wall_seconds"), float):
        tiles.append((show_seconds(wall), "wall time"))
    return tiles


def claims_panel(report: Report) -> Markup:
    """Render each claim beside its measurement; derived claims are marked like on the terminal."""
    claims = _claims(report.data)
    dropped = describe_dropped(_records(report.data, "dropped_claims"), _records(report.data, "claims"))
    reasons = [f"{line[:1].upper()}{line[1:]}." for line in dropped]
    return fragment("claims", claims=claims, derived=any(claim["derived"] for claim in claims), dropped=reasons)


def _records(data: RunData, name: str) -> list[dict[str, Any]]:
    """Return the records of a list of the summary; anything else that a stored run may have there is left out."""
    records = data.get(name)
    return [each for each in records if isinstance(each, dict)] if isinstance(records, list) else []


def _claims(data: RunData) -> list[dict[str, object]]:
    rows = []
    for claim in _records(data, "claims"):
        relation = {"==": "", "<=": "≤ ", ">=": "≥ "}.get(str(claim.get("relation")), f"{claim.get('relation')} ")
        verdict = str(claim.get("verdict"))
        rows.append({
            "name": str(claim.get("name")).replace("_", " "),
            "predicted": f"{relation}{show(claim.get('predicted'))}",
            "measured": show(claim.get("measured")),
            "ratio": "" if claim.get("ratio") is None else show(claim["ratio"]),
            "derived": claim.get("derived") is True,
            "verdict": verdict,
            "word": unjudged_word(data.summary) if verdict == "undecided" else verdict,
            "mark": MARKS.get(verdict, "?"),
            "source": str(claim.get("source") or ""),
        })  # fmt: skip
    return rows


def details_panel(report: Report) -> Markup:
    """Render the whole scenario and all metrics."""
    data = report.data
    scenario = [(key.replace("_", " "), show(value)) for key, value in data.scenario.items() if value != []]
    metrics = [
        (key.replace("_", " "), show(value)) for key, value in data.measured.items() if key not in SHOWN_ELSEWHERE
    ]
    # A scenario that names files is repeated in the folder where it names them.
    command = portable_command(data.scenario) or "coordinator run scenario.toml"
    return fragment(
        "details", name=data.name, scenario=scenario, metrics=metrics, command=None if data.origin else command
    )
