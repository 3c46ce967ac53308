"""Agreement on failures, judged: what every node could know, what it decided, and what came of the collective.

The judge takes nothing from the protocol but what it has put into the journal: the packets in which nodes told others of
suspicions, and a report of every decision. From the faults and the detectors it computes who could suspect what and when,
and from the packets who could have heard of it. Healthy nodes that working links join have to decide the same, on everything
that any of them could know; nothing else may be decided on, and nothing twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import polars as pl

from coordinator.features.base import ResolvedRun
from coordinator.features.journals.decisions import News, Reported, part_after, reports_in
from coordinator.features.journals.detection import suspicions
from coordinator.features.journals.rows import IS_NEWS, IS_REPORT
from emunode.faults.effects import Interval, Stops
from emunode.faults.injector import Faults
from emunode.model import ALL_RANKS, CONTROL_TREE, Agreement, FaultKnowledge, Port, Rank, Step
from emunode.protocols.base import ControlKind
from emunode.protocols.survivors import RunEnd

LISTED: Final = 100
"""Most nodes and links that a record lists."""


@dataclass
class Verdicts:
    """The findings of the judge: numbers, and by decision the nodes that stand by it."""

    metrics: Mapping[str, int] = field(default_factory=dict)
    standing: dict[frozenset[News], list[Reported]] = field(default_factory=dict)


def judge_agreement(run: ResolvedRun, settings: Agreement, journal: pl.LazyFrame) -> Verdicts:
    """Judge all rows of a journal."""
    rows = journal.filter(IS_NEWS | IS_REPORT).collect(engine="streaming")
    # Until then nodes have noticed what happened in the run, whether or not anything is in the journal about it.
    last = run.settled_by(int(journal.select(pl.col("step").max()).collect(engine="streaming").item() or 0))
    suspected = _suspected(run, last)
    decisions = list(reports_in(rows.filter(IS_REPORT)))
    known, invented = _knowledge(rows.filter(IS_NEWS), suspected)
    by_rank: dict[Rank, list[Reported]] = {}
    for decision in decisions:
        by_rank.setdefault(decision.rank, []).append(decision)
    errors = invented + _unfounded(decisions, known) + _twice(run, by_rank)
    standing: dict[frozenset[News], list[Reported]] = {}
    for found in _components(run, last):
        component = [
            rank for rank in found if not _fails_first(run, last, rank, known.get(rank, {}), by_rank.get(rank, ()))
        ]
        errors += _disagreements(run, component, by_rank, known) if component else 0
        for rank in component:
            for decision in by_rank.get(rank, [])[-1:]:
                standing.setdefault(decision.news, []).append(decision)
    final = [decision for group in standing.values() for decision in group]
    ends = Counter(end for decision in final for end in decision.ends)
    packets = rows.filter(IS_NEWS)
    metrics = {
        "decisions": len({decision.news for decision in decisions}),
        "slowest_agreement_steps": max((decision.step - decision.cut for decision in final), default=0),
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
    """The decisions that stand at the end, as plain values, that of most nodes first."""
    groups = sorted(verdicts.standing.values(), key=lambda group: (-len(group), group[0].rank))
    return [_record(run, group) for group in groups]


def _record(run: ResolvedRun, group: Sequence[Reported]) -> dict[str, object]:
    """A decision, and how the collective ends for the nodes that stand by it."""
    label, topology, news = run.topology.label, run.topology, group[0].news
    links = _links(news)
    left = ((one, peer) for one in topology.ranks() for _, peer in topology.adjacent(one))
    kept = [link for link in left if (min(link), max(link)) not in links]
    parts = joined_groups(topology.ranks(), kept)
    lost = [rank for part in parts if group[0].rank not in part for rank in part]
    ends: dict[int, list[Rank]] = {}
    for decision in group:
        for end in decision.ends:
            ends.setdefault(end, []).append(decision.rank)
    return {
        "nodes": len(group),
        "step": max(decision.step for decision in group),
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


def _links(news: Iterable[News]) -> set[tuple[Rank, Rank]]:
    return {each.link for each in news if each.other != ALL_RANKS}


# --- what could be known -------------------------------------------------------------------------------------------------


def _suspected(run: ResolvedRun, last: Step) -> dict[Rank, set[News]]:
    """By rank, what it began to suspect by itself."""
    found: dict[tuple[Rank, Port], list[Step]] = {}
    stops = run.timeline.of(Stops)
    if run.spec.knowledge is FaultKnowledge.DETECT:
        for step, rank, port, suspected, _ in suspicions(run, last + 1)[0]:
            awake = _awake(stops.get(rank, ()), step)
            place = (rank, port)
            # A rank that crashes before it can act on it has told no other one.
            crashes = any(effect.forgets and step <= start <= awake for (start, _), effect in stops.get(rank, ()))
            if suspected and awake <= last and not crashes:
                found[place] = [*found.get(place, ()), awake]
            elif not suspected:
                # A rank that hung meanwhile has not noticed it.
                found[place] = [seen for seen in found.get(place, ()) if seen < awake]
    by_rank: dict[Rank, set[News]] = {}
    for (rank, port), steps in found.items():
        peer = run.topology.neighbour(rank, port)
        by_rank.setdefault(rank, set()).update(News.of(seen, rank, peer) for seen in steps)
    return by_rank


def _awake(stops: Iterable[tuple[Interval, Stops]], step: Step) -> Step:
    """Return the first step from `step` on in which a rank that stops like this does not hang."""
    for interval, effect in stops:
        if not effect.forgets and step in interval:
            step = interval.end
    return step


def _knowledge(
    rows: pl.DataFrame, suspected: Mapping[Rank, Iterable[News]]
) -> tuple[dict[Rank, dict[News, Step]], int]:
    """By rank, the step from which it can know each piece of news; and how often one was told by a rank that could not.

    A rank that reopens a decision is the cause of that news itself.
    """
    known: dict[Rank, dict[News, Step]] = {
        rank: {news: news.seen for news in all_news} for rank, all_news in suspected.items()
    }
    invented = 0
    told = rows.filter(pl.col("tree") != CONTROL_TREE + ControlKind.QUESTION).sort("step")
    columns = ("step", "sender", "receiver", "origin", "target", "segment", "outcome")
    for step, sender, receiver, origin, target, seen, outcome in told.select(columns).iter_rows():
        news = News.of(seen, origin, target)
        if target == ALL_RANKS and sender == origin and seen == step:
            known.setdefault(sender, {}).setdefault(news, step)
        if known.get(sender, {}).get(news, step + 1) > step:
            invented += 1
        elif outcome != "lost":
            known.setdefault(receiver, {}).setdefault(news, step + 1)
    return known, invented


# --- errors --------------------------------------------------------------------------------------------------------------


def _unfounded(decisions: Iterable[Reported], known: Mapping[Rank, Mapping[News, Step]]) -> int:
    """Decisions on something that their node could not know."""
    return sum(
        any(known.get(each.rank, {}).get(news, each.step + 1) > each.step for news in each.news) for each in decisions
    )


def _twice(run: ResolvedRun, by_rank: Mapping[Rank, Sequence[Reported]]) -> int:
    """Decisions that follow one about the same steps, or take back what had been decided.

    A node that has recovered from a crash does not remember what it had decided before.
    """
    return sum(
        after.cut <= before.cut or not before.news <= after.news
        for rank, decisions in by_rank.items()
        for before, after in pairwise(decisions)
        if not any(back == rank and before.step < step <= after.step for step, back in run.timeline.recoveries)
    )


def _revised(decisions: Sequence[Reported]) -> int:
    """Decisions of a node after which it learnt that they were incomplete."""
    return sum(
        any(news.seen <= before.cut and news not in before.news for news in after.news)
        for before, after in pairwise(decisions)
    )


def _disagreements(
    run: ResolvedRun,
    component: Sequence[Rank],
    by_rank: Mapping[Rank, Sequence[Reported]],
    known: Mapping[Rank, Mapping[News, Step]],
) -> int:
    """Nodes of a component that end with another decision than they should: on everything that any of them knew."""
    every = frozenset(news for rank in component for news in known.get(rank, {}))
    # A rank keeps to itself what it suspects of a link that others have already given up.
    required = {news.link for news in every}
    found = [by_rank[rank][-1] if rank in by_rank else None for rank in component]
    standing = Counter(None if each is None else each.news for each in found)
    common, _ = standing.most_common(1)[0]
    wrong = 0
    for decision in found:
        news = frozenset[News]() if decision is None else decision.news
        same = (None if decision is None else decision.news) == common
        wrong += (
            not same or {each.link for each in news} != required or not news <= every or not _ends_right(run, decision)
        )
    return wrong


def _fails_first(
    run: ResolvedRun, last: Step, rank: Rank, known: Iterable[News], decisions: Sequence[Reported]
) -> bool:
    """Whether a node fails after step `last`, before it is to decide on what it knows: then it need not."""
    agreement = run.spec.agreement
    assert agreement is not None
    pending = {news.seen for news in known} - {news.seen for decision in decisions for news in decision.news}
    if not pending:
        return False
    reopened = any(news.other == ALL_RANKS for news in known)
    due = max(pending) + (max(agreement.steps, run.topology.order - 1) if reopened else agreement.steps)
    return any(
        isinstance(effect, Stops) and last < interval.start <= due
        for interval, effect, _ in run.timeline.spells.get(rank, ())
    )


def _ends_right(run: ResolvedRun, decision: Reported | None) -> bool:
    """Whether the collective ends for a node as its decision says."""
    agreement = run.spec.agreement
    assert agreement is not None
    if decision is None or not agreement.shrink:
        return decision is None or not decision.ends
    part = part_after(run, decision)
    return decision.ends == ((part.end if decision.rank in part.ranks else RunEnd.EXCLUDED),)


def _components(run: ResolvedRun, last: Step) -> list[list[Rank]]:
    """The nodes that are healthy in the last step of a run, in groups that links join which work both ways."""
    faults = Faults(run.topology, run.spec.seed)
    for step in sorted({fault.step for fault in run.faults if fault.step <= last}):
        faults.apply(run.faults_at(step))
    topology = run.topology
    healthy = [rank for rank in topology.ranks() if not faults.silent(rank, last)]

    def works(rank: Rank, port: Port) -> bool:
        return not faults.is_down(last, rank, port) and not faults.is_down(last, *topology.end(rank, port))

    joined = ((rank, peer) for rank in healthy for port, peer in topology.adjacent(rank) if works(rank, port))
    return joined_groups(healthy, joined)


def joined_groups(ranks: Sequence[Rank], links: Iterable[tuple[Rank, Rank]]) -> list[list[Rank]]:
    """Ranks in groups that these links join; links to other ranks do not count."""
    leader = {rank: rank for rank in ranks}

    def find(rank: Rank) -> Rank:
        while leader[rank] != rank:
            leader[rank] = rank = leader[leader[rank]]
        return rank

    for one, other in links:
        if other in leader and one in leader:
            leader[find(one)] = find(other)
    groups: dict[Rank, list[Rank]] = {}
    for rank in ranks:
        groups.setdefault(find(rank), []).append(rank)
    return list(groups.values())
