"""Numbers and values as people read them: one formatter for pages, tables and the terminal."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from coordinator.results.reasons import why_undecided
from emunode.algorithms.base import ListedMessage
from emunode.model import VECTOR, CollectiveSpec
from emunode.terminal import plural

MOST_ITEMS = 12


def verdict_note(summary: Mapping[str, Any]) -> str:
    """Explain a verdict: missing deliveries, and what is not judged.

    Deliveries may be missing although every claim holds. Empty if there is nothing to add.
    """
    return "; ".join(str(note) for note in (_deliveries_note(summary), summary.get("unjudged")) if note)


def _deliveries_note(summary: Mapping[str, Any]) -> str:
    if because := why_undecided(summary.get("reason"), summary.get("undecided_because")):
        return because
    intact, expected = summary.get("intact_deliveries"), summary.get("expected_deliveries")
    if summary.get("verdict") != "holds" or not isinstance(intact, int) or not isinstance(expected, int):
        return ""
    ratio = summary.get("final_delivery_ratio")
    if isinstance(ratio, int | float):
        served = "all of it" if ratio == 1 else f"{ratio:.1%} of it"
        return f"claims hold; the repetition served {served} on what the failures left"
    if intact >= expected:
        return ""
    foreseen = "" if intact else ", as predicted, which proves nothing about delivery"
    return f"claims hold; {intact:,} of {expected:,} delivered{foreseen}"


def describe_branch(summary: Mapping[str, Any]) -> str:
    """State the run that a run branches off from; empty for other runs."""
    name, step = summary.get("branch_of"), summary.get("branch_step")
    if not isinstance(name, str) or not isinstance(step, int):
        return ""
    return f"continues the run {name} after step {step} with other faults"


def describe_dropped(dropped: Iterable[Mapping[str, Any]], claims: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Name the metrics without a claim, and the reasons: a line for each reason. `claims` are the kept claims."""
    kept = {claim.get("name") for claim in claims}
    groups: dict[tuple[str, str], list[str]] = {}
    for claim in dropped:
        names = groups.setdefault((str(claim.get("because")), str(claim.get("assumes"))), [])
        name = str(claim.get("name")).replace("_", " ")
        if claim.get("name") not in kept and name not in names:
            names.append(name)
    for (because, assumes), names in groups.items():
        if names:
            yield f"no claim about {', '.join(names)}: that assumes that {assumes} ({because})"


def verdict_sentence(summary: Mapping[str, Any]) -> str:
    """Say the same as `verdict_note` as a sentence without its full stop, for pages."""
    note = verdict_note(summary)
    if summary.get("undecided_because"):
        return f"Undecided: {note}"
    return note[:1].upper() + note[1:]


def show(value: object, digits: int = 6, *, decimals: int | None = None) -> str:
    """Write a value as text: thousands separated, `digits` significant digits, long sequences cut.

    With `decimals`, fractions below one have exactly that many decimals, so that ratios line up in a column.
    """
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return _show_float(value, digits, decimals)
        case tuple() | list():
            shown = ", ".join(show(item, digits, decimals=decimals) for item in value[:MOST_ITEMS])
            return f"{shown}, .. ({len(value)})" if len(value) > MOST_ITEMS else shown
    return str(value)


def _show_float(value: float, digits: int, decimals: int | None) -> str:
    if value.is_integer() and abs(value) < 1e15:
        return f"{value:,.0f}"
    return f"{value:.{decimals}f}" if decimals is not None and abs(value) < 1 else f"{value:,.{digits}g}"


def abbreviate(value: float) -> str:
    """Write a number in the space of an axis tick: 5M for millions, 5G for thousands of millions."""
    for size, unit in ((1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{show(round(value / size, 3), 4)}{unit}"
    return show(round(value, 10), 4)


def show_seconds(value: float) -> str:
    """Write a duration in s, ms or µs."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{value / size:.4g} {unit}"
    return f"{value * 1e6:.4g} µs"


def describe_load(spec: CollectiveSpec, listed: Sequence[ListedMessage] = ()) -> str:
    """Describe the contribution of a rank: `1 message of 64 bytes`, `1 vector of 100 bytes in 24 blocks of 5 or 4 bytes`.

    Of messages that are `listed`, describe all together.
    """
    if listed:
        total = sum(each.size for each in listed)
        return f"{plural(len(listed), 'message')} of {plural(total, 'byte')} in all"
    size = plural(spec.contributed_bytes, "byte")
    if spec.collective not in VECTOR:
        return f"{plural(spec.messages, 'message')} of {size}"
    vectors = f"{plural(spec.messages, 'vector')} of {size}"
    if spec.blocks == 1:
        return vectors
    shorter = f" or {spec.least_message_bytes}" if spec.short_blocks else ""
    many = "s" if spec.message_bytes > 1 else ""
    return f"{vectors} in {spec.blocks:,} blocks of {spec.message_bytes:,}{shorter} byte{many}"
