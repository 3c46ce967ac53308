"""Agreement on failures, judged: the possible knowledge of every node, its decisions, and the end of the collective.

The judge uses two things that the protocol has put into the journal: the packets with news of suspicions, and a report
of every decision. From the faults and the detectors the judge computes the links that each node could suspect, and
when; from the packets, the nodes that could have heard of it. Healthy nodes joined by working links have to decide the
same, on everything that any of them could know; they may decide on nothing else, and on nothing twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise
from typing import Final

import polars as pl

from coordinator.annexes.agreement.cases import Case, StepCase, TimedCase, joined_groups
from coordinator.annexes.agreement.decisions import LinkNews, Reported, part_after, reports_in
from coordinator.features.base import ResolvedRun
from coordinator.features.journals.rows import IS_NEWS, IS_REPORT
from coordinator.history.timetable import Timetable
from emunode.annexes.agreement.survivors import RunEnd
from emunode.model import ALL_RANKS, CONTROL_TREE, Agreement, Rank
from emunode.protocols.base import ControlKind
from emunode.timed.cost_model import NANO

LISTED: Final = 100
"""Most nodes and links that a record lists."""


@dataclass
class Verdicts:
    """The findings of the judge: numbers, and by decision the nodes that stand by it."""

    metrics: Mapping[str, int | float] = field(default_factory=dict)
    standing: dict[frozenset[LinkNews], list[Reported]] = field(default_factory=dict)


def judge_agreement(
    run: ResolvedRun, settings: Agreement, journal: pl.LazyFrame, timetable: Timetable | None = None
) -> Verdicts:
    """Judge all rows of a journal; `timetable` is the timetable of a run under the timed clock."""
    case: Case = StepCase(run, journal) if timetable is None else TimedCase(run, settings, timetable)
    rows = journal.filter(IS_NEWS | IS_REPORT).collect(engine="streaming")
    decisions = [replace(each, time=case.time_of(each)) for each in reports_in(rows.filter(IS_REPORT))]
    known, invented = _knowledge(case.dated(rows.filter(IS_NEWS)), case)
    # Reports come in the order of steps, so each list is in the order of decisions.
    by_rank: dict[Rank, list[Reported]] = {}
    for decision in decisions:
        by_rank.setdefault(decision.rank, []).append(decision)
    # Each kind of error is counted on its own, since one decision may be wrong in several ways.
    errors = invented + _unfounded(decisions, known) + _twice(case, by_rank)
    standing: dict[frozenset[LinkNews], list[Reported]] = {}
    for found in case.components():
        component = [
            rank for rank in found if not _fails_first(case, settings, rank, known.get(rank, {}), by_rank.get(rank, ()))
        ]
        errors += _disagreements(run, component, by_rank, known) if component else 0
        for rank in component:
            # A later decision of a node contains its earlier ones, so the last one stands.
            for decision in by_rank.get(rank, [])[-1:]:
                standing.setdefault(decision.news, []).append(decision)
    # Metrics of the end are about the nodes that are left; the decisions of nodes that failed since then do not count.
    final = [decision for group in standing.values() for decision in group]
    ends = Counter(end for decision in final for end in decision.ends)
    packets = rows.filter(IS_NEWS)
    metrics: dict[str, int | float] = {
        "decisions": len({decision.news for decision in decisions}),
        **case.slowest(final),
        "agreement_packets": packets.select("step", "sender", "port").n_unique(),
        "lost_agreement_packets": packets.filter(pl.col("outcome") == "lost")
        .select("step", "sender", "port")
        .n_unique(),
        "agreement_errors": errors,
        "revised_decisions": sum(map(_revised, by_rank.values())),
        "given_up_links": len({link for news in standing for link in _links(news)}),
    }
    if settings.shrink:
        metrics["excluded_nodes"] = ends[RunEnd.EXCLUDED]
        metrics["root_failed_nodes"] = ends[RunEnd.ROOT_FAILED]
    return Verdicts(metrics, standing)


def records_of(run: ResolvedRun, verdicts: Verdicts) -> list[dict[str, object]]:
    """Return the decisions that stand at the end as plain values, the decision of most nodes first."""
    groups = sorted(verdicts.standing.values(), key=lambda group: (-len(group), group[0].rank))
    return [_record(run, group) for group in groups]


def _record(run: ResolvedRun, group: Sequence[Reported]) -> dict[str, object]:
    """Return a decision, and how the collective ends for the nodes that stand by it."""
    label, topology, news = run.topology.label, run.topology, group[0].news
    links = _links(news)
    left = ((one, peer) for one in topology.ranks() for _, peer in topology.adjacent(one))
    # Nodes are lost not because they are suspected, but because no link that was kept leads to them.
    kept = [link for link in left if (min(link), max(link)) not in links]
    parts = joined_groups(topology.ranks(), kept)
    lost = [rank for part in parts if group[0].rank not in part for rank in part]
    # Nodes that stand by one decision may end differently: a node that the decision excludes ends with an error.
    ends: dict[int, list[Rank]] = {}
    for decision in group:
        for end in decision.ends:
            ends.setdefault(end, []).append(decision.rank)
    return {
        "nodes": len(group),
        "step": max(decision.step for decision in group),
        **({"seconds": max(decision.time for decision in group) / NANO} if run.goes_by_events else {}),
        # Steps, or rounds under the timed clock.
        "suspected_since": sorted({each.seen for each in news}),
        "links": [f"{label(one)}~{label(other)}" for one, other in sorted(links)[:LISTED]],
        "lost_nodes": [label(rank) for rank in sorted(lost)[:LISTED]],
        "ends": {
            RunEnd(end).name.lower().replace("_", "-"): {
                "nodes": len(ranks),
                **({} if end == RunEnd.REPEATED else {"labels": [label(rank) for rank in ranks[:LISTED]]}),
            }
            for end, ranks in sorted(ends.items())
        },
    }


def _links(news: Iterable[LinkNews]) -> set[tuple[Rank, Rank]]:
    return {each.link for each in news if each.other != ALL_RANKS}


# --- possible knowledge
# --------------------------------------------------------------------------------------------------


def _knowledge(rows: pl.DataFrame, case: Case) -> tuple[dict[Rank, dict[LinkNews, int]], int]:
    """Return for each rank since when it can know each piece of news, and how often a rank was notified too early.

    `rows` have the columns of `Case.dated`. A rank that reopens a decision is the cause of that news itself.
    """
    known: dict[Rank, dict[LinkNews, int]] = {rank: dict(all_news) for rank, all_news in case.suspected().items()}
    invented = 0
    # A question asks for news, and carries none. The packets are followed in the order of their departures.
    told = rows.filter(pl.col("tree") != CONTROL_TREE + ControlKind.QUESTION).sort("sent")
    under_way: list[tuple[int, int, Rank, LinkNews]] = []
    columns = ("sent", "known", "sender", "receiver", "origin", "target", "segment", "outcome")
    for number, row in enumerate(told.select(columns).iter_rows()):
        sent, arrives, sender, receiver, origin, target, seen, outcome = row
        # In the order of arrivals, since a packet may overtake an earlier one: the sender knows everything that arrived
        # by now.
        while under_way and under_way[0][0] <= sent:
            time, _, rank, news = heappop(under_way)
            known.setdefault(rank, {}).setdefault(news, time)
        news = LinkNews.of(seen, origin, target)
        # The rank itself is the cause of a reopening, so its own packet is the first evidence of it.
        if target == ALL_RANKS and sender == origin and case.is_of(seen, sent):
            known.setdefault(sender, {}).setdefault(news, sent)
        # News that the sender could not know are invented. They inform no other node, or one error would hide the next.
        if known.get(sender, {}).get(news, sent + 1) > sent:
            invented += 1
        elif outcome != "lost":
            # The number of the row orders packets that arrive at the same time, as the rows are.
            heappush(under_way, (arrives, number, receiver, news))
    for time, _, rank, news in sorted(under_way):
        known.setdefault(rank, {}).setdefault(news, time)
    return known, invented


# --- errors --------------------------------------------------------------------------------------------------------------


def _unfounded(decisions: Iterable[Reported], known: Mapping[Rank, Mapping[LinkNews, int]]) -> int:
    """Count decisions about faults that their node could not know."""
    return sum(
        # News that never reached the node count as later than the decision.
        any(known.get(each.rank, {}).get(news, each.time + 1) > each.time for news in each.news)
        for each in decisions
    )


def _twice(case: Case, by_rank: Mapping[Rank, Sequence[Reported]]) -> int:
    """Count decisions that repeat an earlier one about the same steps, or revoke an earlier decision.

    A node that has recovered from a crash does not remember its earlier decisions.
    """
    return sum(
        after.cut <= before.cut or not before.news <= after.news
        for rank, decisions in by_rank.items()
        for before, after in pairwise(decisions)
        if not any(back == rank and before.time < time <= after.time for time, back in case.recoveries)
    )


def _revised(decisions: Sequence[Reported]) -> int:
    """Count decisions of nodes that later learnt that the decision was incomplete."""
    return sum(
        any(news.seen <= before.cut and news not in before.news for news in after.news)
        for before, after in pairwise(decisions)
    )


def _disagreements(
    run: ResolvedRun,
    component: Sequence[Rank],
    by_rank: Mapping[Rank, Sequence[Reported]],
    known: Mapping[Rank, Mapping[LinkNews, int]],
) -> int:
    """Return the nodes of a component whose last decision differs from the right one: everything that any of the nodes
    knew.
    """
    every = frozenset(news for rank in component for news in known.get(rank, {}))
    # A rank does not tell others its suspicion of a link that is given up already, so links are compared, not news.
    required = {news.link for news in every}
    found = [by_rank[rank][-1] if rank in by_rank else None for rank in component]
    standing = Counter(None if each is None else each.news for each in found)
    # All have to decide the same, so any decision could be the reference. The most common one counts the fewest nodes
    # as wrong.
    common, _ = standing.most_common(1)[0]
    wrong = 0
    for decision in found:
        news = frozenset[LinkNews]() if decision is None else decision.news
        same = (None if decision is None else decision.news) == common
        wrong += (
            not same or {each.link for each in news} != required or not news <= every or not _ends_right(run, decision)
        )
    return wrong


def _fails_first(
    case: Case, settings: Agreement, rank: Rank, known: Iterable[LinkNews], decisions: Sequence[Reported]
) -> bool:
    """Report whether a node fails at the end, before its decision is due: then no decision is required."""
    # Steps of suspicions that the node has not decided on yet.
    pending = {news.seen for news in known} - {news.seen for decision in decisions for news in decision.news}
    if not pending:
        return False
    reopened = any(news.other == ALL_RANKS for news in known)
    # After a reopening, decisions wait for news along the longest possible path, through all nodes.
    slowest = case.run.topology.order - 1
    due = max(pending) + (max(settings.steps, slowest) if reopened else settings.steps)
    return case.fails(rank, due * settings.round)


def _ends_right(run: ResolvedRun, decision: Reported | None) -> bool:
    """Return whether the collective ends for a node in the way that its decision states."""
    agreement = run.spec.agreement
    assert agreement is not None
    # Without a decision, or without repetitions, no end of the collective has to be reported.
    if decision is None or not agreement.shrink:
        return decision is None or not decision.ends
    part = part_after(run, decision)
    return decision.ends == ((part.end if decision.rank in part.ranks else RunEnd.EXCLUDED),)
