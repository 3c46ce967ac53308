"""The result of a run as text."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.markup import escape

from coordinator.cli import render
from coordinator.cli.brief_result import show_brief
from coordinator.execution.sinks import RunResult
from coordinator.history.run_index import REPORT
from coordinator.planning.plan import Plan
from coordinator.reports.numbers import describe_branch, describe_dropped, describe_load, verdict_note
from coordinator.results.claims import Verdict
from coordinator.results.reasons import unjudged_word, unserved_words
from coordinator.results.tables import LISTED_LINKS
from coordinator.scenario.command import describe
from emunode.algorithms.traits import listed_messages
from emunode.model import ALL_RANKS, VECTOR
from emunode.terminal import first_of, plural, say

SHOWN_NODES = 12
"""Most nodes that are listed for one fault that cut nodes off."""


def show_result(plan: Plan, result: RunResult, *, every_claim: bool = False) -> None:
    """Print the scenario, the main metrics beside their claims, the effect of the faults, the verdict and the files.

    With `every_claim`, print each claim with its measurement and its source in place of the main metrics.
    """
    summary: dict[str, Any] = result.summary
    out = render.console()
    for line in _run_lines(plan, summary):
        out.print(line, wrap=out.is_terminal)
    if every_claim:
        word = unjudged_word(summary)
        records = [judgement.record() for judgement in result.judgements]
        render.show_claims(
            [{**each, "verdict": word} if each["verdict"] == Verdict.UNDECIDED else each for each in records]
        )
        for line in describe_dropped(summary.get("dropped_claims", ()), summary["claims"]):
            say(line)
    else:
        show_brief(result.judgements, summary)
    _show_counts(summary, every_claim=every_claim)
    for line in _notes(plan, summary):
        out.print(line, wrap=out.is_terminal)
    if result.report_error:
        out.print(f"[yellow]report.html was not drawn[/]: {escape(result.report_error)}")
    note = verdict_note(summary)
    explained = f" ({escape(note)})" if note else ""
    verdict = render.verdict_text(result.verdict)
    out.print(f"verdict: {verdict}{explained}   journal {summary['journal_hash']}", wrap=out.is_terminal)
    say(f"run directory: {result.path}")
    if result.index_error:
        out.print(f"[yellow]the index of runs was not updated[/]: {escape(result.index_error)}")
    if not result.report_error:
        page = result.path / REPORT
        # Terminals make an address a link.
        say(f"report: {page.resolve().as_uri() if out.is_terminal else page}")


def _show_counts(summary: Mapping[str, Any], *, every_claim: bool) -> None:
    """Print deliveries and packets, and the seconds that the run took."""
    if "network_read_seconds" in summary:
        say(f"read and checked the file of the network in {summary['network_read_seconds']:.2f} s")
    repetition = _repetition(summary)
    delivered = f"delivered {summary['intact_deliveries']:,} of {summary['expected_deliveries']:,} in "
    in_steps = f"{delivered}{plural(summary['steps'], 'step')} with " if every_claim or repetition else ""
    across = (
        f", {summary['packets_across_hosts']:,} of them across hosts" if summary.get("packets_across_hosts") else ""
    )
    say(
        f"{repetition}{in_steps}{plural(summary['packets'], 'packet')}{across}; "
        f"set up in {summary['setup_seconds']:.2f} s, ran in {summary['wall_seconds']:.2f} s"
    )


def _run_lines(plan: Plan, summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the collective, the algorithm, the network and the driver of a run."""
    spec = plan.spec
    across = f" ({summary['links_across_hosts']:,} across hosts)" if summary.get("links_across_hosts") else ""
    connections = f"{summary['links_opened']:,} TCP connections{across}, {plural(plan.hosts, 'host process', 'es')}"
    where = connections if plan.hosts else "in memory"
    yield f"[bold]{plan.topology.title}[/bold], {plan.topology.order:,} nodes, {where}"
    source = f" from {plan.topology.label(spec.source)}" if len(plan.algorithm.sources) == 1 else ""
    if spec.target != ALL_RANKS:
        source += f" to {plan.topology.label(spec.target)}"
    elif spec.permutation:
        source = (
            f" along {plan.scenario.permutation}"
            if len(str(plan.scenario.permutation)) < 40
            else " along a permutation"
        )
    faults = f", faults: {escape(', '.join(plan.scenario.fault))}" if plan.faults else ""
    settings = escape(describe(plan.scenario.model_dump()))
    load = describe_load(spec, listed_messages(plan.algorithm))
    yield f"{spec.collective}{source} by {settings}, {spec.port_model}, {load}{faults}"


def _notes(plan: Plan, summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the unreachable nodes, idle links that are not listed, and faults without effect."""
    yield from (escape(remark) for remark in plan.topology.remarks)
    yield from (escape(search) for search in plan.searches)
    if branch := describe_branch(summary):
        yield escape(branch)
    for feature in plan.features:
        yield from map(escape, feature.lines(plan, summary))
    yield from _missing(plan, summary)
    yield from _cut_off(summary)
    if 2 * plan.topology.link_count > LISTED_LINKS:
        yield f"links.parquet leaves out idle links, as the network has more than {LISTED_LINKS:,} directed links"
    if summary["without_effect"]:
        yield f"after the last step, so without effect: {escape(', '.join(map(str, summary['without_effect'])))}"


def _repetition(summary: Mapping[str, Any]) -> str:
    """Return the line of the repetition, the run that counts, and the first words of the line of the abandoned run.
    Empty without a repetition.
    """
    if summary.get("repetition_steps") is None:
        return ""
    return (
        f"repeated by {summary['repetition_order']:,} nodes: {plural(summary['repetition_steps'], 'step')}, "
        f"{plural(summary['repetition_packets'], 'packet')}, delivery ratio {summary['final_delivery_ratio']:g}\n"
        "first run, abandoned: "
    )


def _missing(plan: Plan, summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield the contributions that the result of a reduction lacks, if faults keep some contributions from it."""
    labels = summary.get("missing_contributions")
    if not labels:
        return
    count = len(plan.topology.data_ranks) - summary["least_contributions"]
    result = "the result with the fewest" if plan.spec.collective in VECTOR else "the result"
    if plan.algorithm.segments_per_message * plan.spec.messages > 1:
        # Segments of a result may lack different contributions, and this is the list of one of them.
        result = f"the segment with the fewest of {result.removesuffix(' with the fewest')}"
    cause = next((f", by {node['because']}" for node in summary["cut_off"] if node["because"]), "")
    yield escape(
        f"{result} has {summary['least_contributions']:,} of {len(plan.topology.data_ranks):,} contributions, without those "
        f"of {first_of(labels, SHOWN_NODES, count)}{cause}"
    )


def _cut_off(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield one line per fault that kept healthy nodes from something that was due to them."""
    groups: dict[str | None, list[str]] = {}
    # Of a reduction the contributions say it.
    for node in () if summary.get("missing_contributions") else summary.get("cut_off") or ():
        groups.setdefault(node["because"], []).append(node["label"])
    unlisted = summary.get("cut_off_count", 0) - sum(map(len, groups.values()))
    for number, (because, labels) in enumerate(groups.items(), 1):
        count = len(labels) + (unlisted if number == len(groups) else 0)
        cause = f" by {because}" if because else ""
        yield escape(
            f"{unserved_words(summary)}{cause}, {plural(count, 'node')}: {first_of(labels, SHOWN_NODES, count)}"
        )
