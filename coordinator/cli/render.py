"""What a person sees: tables, and progress while links come up and steps go by."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from coordinator.execution.run import RunResult
from coordinator.networks.base import Progress
from coordinator.planning.plan import Plan
from coordinator.results.tables import LISTED_LINKS

if TYPE_CHECKING:
    from coordinator.campaigns.certify import Certificate
    from coordinator.campaigns.runner import Session

SHOWN_NODES = 12
"""Of the nodes that a fault cut off, on a terminal."""
SPARSE_SECONDS = 2.0
"""At most one progress line in this time where output is no terminal."""
STYLES = {"holds": "green", "violated": "bold red", "undecided": "yellow"}


def console() -> Console:
    """Standard output, as wide as a pipe needs it."""
    return Console(width=None if sys.stdout.isatty() else 150, highlight=False)


@contextmanager
def progress_display(title: str) -> Iterator[Progress]:
    """One line that moves on a terminal, a line now and then elsewhere; on standard error, gone when done."""
    errors = Console(stderr=True, highlight=False)
    if errors.is_terminal:
        with errors.status(title) as status:
            yield lambda phase, done, total: status.update(_line(title, phase, done, total))
        return
    spoke = time.monotonic()

    def sparse(phase: str, done: int, total: int) -> None:
        nonlocal spoke
        if time.monotonic() - spoke > SPARSE_SECONDS:
            spoke = time.monotonic()
            print(_line(title, phase, done, total), file=sys.stderr, flush=True)

    yield sparse


def _line(title: str, phase: str, done: int, total: int) -> str:
    return f"{title}: {phase} {done:,} of {total:,}" if total else f"{title}: {phase} {done:,}"


def show_result(plan: Plan, result: RunResult) -> None:
    """What was run, each claim beside its measurement, what was delivered, and where the rest is."""
    out = console()
    summary: dict[str, Any] = result.summary
    where = (
        "in memory"
        if not plan.hosts
        else f"{summary['links_opened']:,} TCP connections, {_plural(plan.hosts, 'host process', 'es')}"
    )
    out.print(f"[bold]{plan.topology.title}[/bold], {plan.topology.order:,} nodes, {where}")
    spec = plan.spec
    source = f" from {plan.topology.label(spec.source)}" if len(plan.algorithm.sources) == 1 else ""
    faults = f", faults: {', '.join(plan.scenario.fault)}" if plan.faults else ""
    out.print(
        f"{spec.collective}{source} by {spec.algorithm}, {spec.port_model}, "
        f"{_plural(spec.messages, 'message')} of {_plural(spec.message_bytes, 'byte')}{faults}"
    )
    table = make_table("claim", "predicted", "measured", "to bound", "verdict", "by")
    for judgement in result.judgements:
        claim = judgement.claim
        table.add_row(
            claim.name.replace("_", " ") + (" *" if claim.derived else ""),
            f"{'' if claim.relation == '==' else claim.relation + ' '}{_value(claim.predicted)}",
            _value(judgement.measured),
            "" if judgement.ratio is None else f"{judgement.ratio:.4g}",
            verdict_text(judgement.verdict),
            escape(claim.source),
        )
    if result.judgements:
        out.print(table)
    if any(judgement.claim.derived for judgement in result.judgements):
        out.print("* derived from the schedule that was run: see docs/explanation/claims.md")
    out.print(
        f"delivered {summary['intact_deliveries']:,} of {summary['expected_deliveries']:,} in "
        f"{_plural(summary['steps'], 'step')} with {_plural(summary['packets'], 'packet')}; "
        f"set up in {summary['setup_seconds']:.2f} s, ran in {summary['wall_seconds']:.2f} s"
    )
    for line in _cut_off(summary):
        out.print(line, soft_wrap=True)
    if plan.topology.order * plan.topology.degree > LISTED_LINKS:
        out.print(f"links.parquet leaves out idle links, as the network has more than {LISTED_LINKS:,} directed links")
    if summary["without_effect"]:
        late = escape(", ".join(map(str, summary["without_effect"])))
        out.print(f"after the last step, so without effect: {late}", soft_wrap=True)
    because = f" ({escape(str(summary['undecided_because']))})" if summary["undecided_because"] else ""
    out.print(f"verdict: {verdict_text(result.verdict)}{because}   journal {summary['journal_hash']}")
    out.print(f"run directory: {escape(str(result.path))}", soft_wrap=True)


def _cut_off(summary: Mapping[str, Any]) -> Iterator[str]:
    """Healthy nodes that miss something that was due, a line for each fault that cut nodes off."""
    groups: dict[str | None, list[str]] = {}
    for node in summary.get("cut_off") or ():
        groups.setdefault(node["because"], []).append(node["label"])
    unlisted = summary.get("cut_off_count", 0) - sum(map(len, groups.values()))
    what = "without the right value" if summary["corrupt"] else "cut off"
    for number, (because, labels) in enumerate(groups.items(), 1):
        count = len(labels) + (unlisted if number == len(groups) else 0)
        more = f" and {count - SHOWN_NODES:,} more" if count > SHOWN_NODES else ""
        cause = f" by {because}" if because else ""
        yield escape(f"{what}{cause}, {_plural(count, 'node')}: {', '.join(labels[:SHOWN_NODES])}{more}")


NAMES = {"topology", "collective", "algorithm", "family", "name", "kind", "subject", "claim", "verdict", "example"}
"""Columns of names, which a narrow terminal does not break."""


def make_table(*columns: str, title: str | None = None) -> Table:
    """A table that breaks long cells where it is narrow, and truncates none."""
    table = Table(title=escape(title) if title else None)
    for column in columns:
        table.add_column(escape(column.replace("_", " ")), overflow="fold", no_wrap=column in NAMES)
    return table


def show_plan(plan: Plan, needs: Mapping[str, object], claims: Sequence[Mapping[str, object]]) -> None:
    """What a run would need, and what is predicted of it."""
    out = console()
    out.print(
        f"[bold]{plan.topology.title}[/bold]: {plan.spec.collective} by {plan.spec.algorithm}, driver {plan.scenario.driver}"
    )
    table = make_table("needs", "amount")
    for name, amount in needs.items():
        shown = f"{amount / 2**20:,.0f} MiB" if name.endswith("_bytes") and isinstance(amount, int) else _value(amount)
        table.add_row(name.removesuffix("_bytes").replace("_", " "), shown)
    out.print(table)
    show_rows("claims", [{**claim, "predicted": _value(claim["predicted"])} for claim in claims])


def show_rows(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Records of one kind as a table, verdicts in their colours."""
    if not rows:
        return
    table = make_table(*rows[0], title=title)
    for row in rows:
        table.add_row(*(verdict_text(value) if key == "verdict" else _value(value) for key, value in row.items()))
    console().print(table)


def show_comparison(comparison: Mapping[str, Any], rows: Sequence[Mapping[str, object]]) -> None:
    """Runs side by side."""
    out = console()
    for name, notes in comparison["missing"].items():
        out.print(f"[yellow]{escape(name)} is not whole[/]: {escape('; '.join(notes))}", soft_wrap=True)
    same = "the same history, byte for byte" if comparison["same_history"] else "different histories"
    differs = ", ".join(comparison["differs"]) or "nothing"
    out.print(f"the scenarios differ in: {escape(differs)}; {same}", soft_wrap=True)
    show_rows("compared", rows)


def verdict_text(verdict: object) -> str:
    """A verdict in its colour."""
    style = STYLES.get(str(verdict))
    return f"[{style}]{verdict}[/]" if style else _value(verdict)


def show_campaign(
    folder: Path,
    rows: Sequence[Mapping[str, object]],
    left_out: Sequence[str],
    violations: Sequence[Mapping[str, Any]],
    session: "Session",
) -> None:
    """What a campaign found, by variant and point, and where the rest is."""
    out = console()
    label = next(iter(rows[0])) if rows else "algorithm"
    table = make_table(label, "faults", "trials", "delivery ratio", "guaranteed", "nodes lost", "theory", "verdict")
    for row in rows:
        verdict = f"{row['violated']} violated" if row["violated"] else "theory excluded" if row["finding"] else "holds"
        if row["undecided"]:
            verdict += f", {row['undecided']} undecided"
        table.add_row(
            escape(str(row[label])), escape(str(row["faults"])), _value(row["trials"]),
            _interval(row, "delivery_ratio", "ratio"), _interval(row, "guaranteed", "guaranteed"),
            _value(row["lost"]), _value(row["theory"]), verdict,
        )  # fmt: skip
    out.print(table)
    for reason in left_out:
        out.print(f"left out: {escape(reason)}", soft_wrap=True)
    for row in rows:
        where = escape(f"{row[label]} under {row['faults']}")
        if row["sets"] and row["trials"] < row["sets"]:  # type: ignore[operator]
            out.print(f"{where}: a random sample of {row['trials']:,} of its {row['sets']:,} sets", soft_wrap=True)
        if row["finding"]:
            out.print(f"[bold red]finding[/]: {where}: {escape(str(row['finding']))}", soft_wrap=True)
    for violation in violations:
        out.print(f"[bold red]violated[/]: {escape('; '.join(violation['claims']))}", soft_wrap=True)
        out.print(f"  repeat it with: {escape(violation['repeat'])}", soft_wrap=True)
    if session.rate:
        out.print(f"{_plural(session.trials, 'trial')} run, {session.rate:,.0f} in a second")
    if not session.finished:
        out.print("interrupted; what ended is kept, and the same command goes on with the rest")
    out.print(f"campaign: {escape(str(folder))} (campaign.html, table.csv, trials.parquet)", soft_wrap=True)


def _interval(row: Mapping[str, Any], column: str, prefix: str) -> str:
    value, low, high = row[column], row[f"{prefix}_low"], row[f"{prefix}_high"]
    if value is None:
        return "-"
    return f"{value:.5f}" if low == high else f"{value:.4f} ({low:.4f} to {high:.4f})"


def show_certificate(certificate: "Certificate", path: Path | None) -> None:
    """What was certified: levels, verdict, and a counterexample if there is one."""
    out, plan, verdict = console(), certificate.plan, certificate.verdict
    out.print(
        f"[bold]{plan.topology.title}[/bold]: {plan.spec.collective} by {plan.spec.algorithm}, redundancy "
        f"{plan.spec.redundancy}, driver {plan.scenario.driver}; {_plural(certificate.symmetries, 'symmetr', 'ies', 'y')} "
        "fix the source and keep the trees"
    )
    show_rows("sets of faults", [level.record() for level in certificate.levels])
    found = certificate.counterexample
    if found:
        out.print(f"counterexample: {escape(', '.join(found.faults) or 'nothing broken')}", soft_wrap=True)
        if found.unserved:
            out.print(f"  healthy and not served: {escape(', '.join(found.unserved))}", soft_wrap=True)
        if found.violated:
            out.print(f"  violated: {escape('; '.join(found.violated))}", soft_wrap=True)
    if path:
        out.print(f"  repeat it with: coordinator certify {escape(str(path))}", soft_wrap=True)
    if certificate.different is not None:
        out.print(f"other history than in memory under: {escape(', '.join(certificate.different))}", soft_wrap=True)
    covered, orbits = (sum(getattr(level, name) for level in certificate.levels) for name in ("covered", "orbits"))
    out.print(
        f"verdict: [{STYLES[verdict]}]{verdict}[/]   {_plural(covered, 'set')} of faults in {_plural(orbits, 'orbit')}, "
        "each one run"
        + (f"; {certificate.trials_per_second:,.0f} in a second" if certificate.trials_per_second else "")
    )


def _value(value: object) -> str:
    match value:
        case None:
            return "-"
        case bool() | str():
            return escape(str(value))
        case int():
            return f"{value:,}"
        case float():
            return f"{value:.6g}"
        case tuple() | list():
            shown = ", ".join(map(_value, value[:12]))
            return f"{shown}, .. ({len(value)})" if len(value) > 12 else shown
    return str(value)


def _plural(count: int, noun: str, ending: str = "s", singular: str = "") -> str:
    return f"{count:,} {noun}{singular if count == 1 else ending}"
