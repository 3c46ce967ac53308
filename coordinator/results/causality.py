"""Causality: hops that contradict the faults of a run, whatever the algorithm.

The outcomes that faults allow follow from the same `Faults` object that the engines use, replayed over the packets that
faults can have affected.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import polars as pl

from coordinator.features.base import ResolvedRun
from coordinator.features.detection import suspicions
from coordinator.features.journals.rows import SEGMENT, hops_of
from coordinator.history.timetable import Timetable
from coordinator.results.queries import collect
from coordinator.results.timed_audit import Possible, possible_outcomes
from emunode.engine.known_paths import faults_by_steps
from emunode.faults.byzantine import Treatment
from emunode.faults.effects import Delays, Effect, LinkEnd, Stops
from emunode.faults.injector import Faults
from emunode.faults.kinds import LinkFault, NodeFault
from emunode.faults.timeline import FaultTimeline
from emunode.model import FOLDING, Port, Rank, Step
from emunode.topologies.base import ABSENT, Topology

NEVER: Step = 2**31 - 1


def causality(
    plan: ResolvedRun, crossing: pl.LazyFrame, times: Timetable | None, rows: int | None = None
) -> list[pl.LazyFrame]:
    """Return the violations of causality by the rows that crossed links.

    Segments that nodes send to suspected neighbours as well are judged apart. `rows` is a bound on the number of rows,
    if one is known.
    """
    anyway = plan.news_trees
    if not anyway:
        return [causality_violations(plan, crossing, times, rows=rows)]
    of_news = pl.col("tree").is_in(sorted(anyway))
    # Faults see all packets in both cases, because they may count them.
    return [
        causality_violations(plan, crossing.filter(~of_news), times, rows=rows, crossing=crossing),
        causality_violations(_without_suspicions(plan), crossing.filter(of_news), times, rows=rows, crossing=crossing),
    ]


def _without_suspicions(plan: ResolvedRun) -> ResolvedRun:
    """Return a run under the same faults whose nodes withhold nothing."""
    return replace(plan, features=())


def causality_violations(
    plan: ResolvedRun,
    journal: pl.LazyFrame,
    times: Timetable | None = None,
    *,
    rows: int | None = None,
    crossing: pl.LazyFrame | None = None,
) -> pl.LazyFrame:
    """Return the hops that contradict the faults.

    They were sent by a silent rank, were lost or altered without a fault, or arrived despite one. `crossing` has the
    rows of all packets, if `journal` has only some of them: faults may count packets. `rows` is a bound on their
    number, if one is known.
    """
    lost = pl.col("outcome") == "lost"
    # Without faults nothing may be lost or altered: one filter, no replay.
    if not plan.judged.timeline:
        return journal.filter(lost | (pl.col("outcome") == "corrupt")).select("step")
    # Crashes alone follow from two columns; they are the most frequent faults of campaigns.
    if times is None and _only_crashes(plan.judged.timeline) and suspicions(plan) is None:
        return _after_crashes(plan, journal)
    # Withheld copies never left: they must be recorded as lost, and the faults of links have not seen them.
    everything = journal if crossing is None else crossing
    withheld = _withheld(plan, everything) if times is None else pl.DataFrame(schema=COPY)
    leaked = journal.join(withheld.lazy(), on=withheld.columns, how="semi").filter(~lost).select("step")
    journal = journal.join(withheld.lazy(), on=withheld.columns, how="anti")
    if times is not None and times.inputs is not None:
        # Under the timed clock a port may send several packets of one step, and the journal does not tell them apart: a
        # hop is legal if one of these packets explains it.
        both = _outcome_table(possible_outcomes(plan, times, times.inputs)).lazy().group_by("step", "sender", "port")
        possible = both.agg(pl.col("may_arrive", "may_be_lost", "may_be_altered").any())
    else:
        possible = _possible_outcomes(plan, everything.join(withheld.lazy(), on=withheld.columns, how="anti"), rows)
    judged = journal.join(possible, on=["step", "sender", "port"], how="left").with_columns(
        pl.col("may_arrive").fill_null(value=True),
        # Packets that no fault touches have no row here.
        pl.col("may_be_lost").fill_null(value=False),
        pl.col("may_be_altered").fill_null(value=False),
    )
    wrong = judged.filter((lost & ~pl.col("may_be_lost")) | (~lost & ~pl.col("may_arrive"))).select("step")
    wrong = pl.concat([wrong, leaked])
    if plan.spec.collective in FOLDING:  # a partial sum that lacks a subtree counts as corrupt as well
        return wrong
    corrupt = judged.filter(pl.col("outcome") == "corrupt")
    received = corrupt.group_by("receiver", *SEGMENT).agg(received=pl.col("step").min())
    unexplained = (
        corrupt.filter(~pl.col("may_be_altered"))
        .join(received, how="left", left_on=["sender", *SEGMENT], right_on=["receiver", *SEGMENT])
        # Altered bytes are passed on: a rank may send altered segments, but only after it has received them.
        .filter(pl.col("received").is_null() | (pl.col("received") >= pl.col("step")))
    )
    return pl.concat([wrong, unexplained.select("step")])


def drawn_effects(plan: ResolvedRun, journal: pl.LazyFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the effects of faults in lock-step that do not follow from the times and places of outages alone.

    The first table has a row for each packet that such a fault, or a detector, can have affected: step, sender, port, news
    (whether it is about segments that nodes send to suspected neighbours too), may_arrive, may_be_lost, may_be_altered.
    The second has the copies that byzantine nodes withheld, with the columns of `COPY`.
    """
    crossing = hops_of(plan, journal).filter(pl.col("outcome") != "withheld")
    withheld = _withheld(plan, crossing)
    sent = crossing.join(withheld.lazy(), on=withheld.columns, how="anti")
    runs = {False: plan}
    if plan.news_trees:
        runs[True] = _without_suspicions(plan)
    tables = [_possible_outcomes(each, sent).with_columns(news=pl.lit(news)) for news, each in runs.items()]
    touched = pl.concat(tables).select(*_POSSIBLE[:3], "news", *_POSSIBLE[3:]).collect()
    # A detector may hold back packets next to any fault, outages included, so with one all rows stay.
    if suspicions(plan) is None:
        places = {
            place for place, _, effect in plan.judged.timeline if not isinstance(effect, Stops)
        } | plan.judged.timeline.opaque_places
        drawn = [sender in places or (sender, port) in places for sender, port in touched["sender", "port"].iter_rows()]
        touched = touched.filter(pl.Series(drawn, dtype=pl.Boolean))
    return touched.unique().sort(pl.all()), withheld.unique().sort(pl.all())


COPY = {"step": pl.Int32, "sender": pl.Int32, "port": pl.Int16, **dict.fromkeys([*SEGMENT, "tree"], pl.Int32)}
"""The columns that identify a copy on a link."""


def _withheld(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.DataFrame:
    """Return the copies in the journal that byzantine nodes withheld.

    On a link that delays packets, such copies cannot be told apart from copies that left in an earlier step. There,
    only copies that are recorded as lost count.
    """
    ranks = {fault.rank for fault in plan.faults if isinstance(fault, NodeFault) and fault.withholds}
    if not ranks:
        return pl.DataFrame(schema=COPY)
    delayed = links_with(plan, Delays)
    # The copies are sorted by step below, so every fault is applied once, when the first packet of its step comes.
    faults, due = faults_by_steps(plan.algorithm), list(reversed(plan.faults))
    knows = plan.spec.knows_neighbours
    sent = journal.filter(pl.col("sender").is_in(ranks)).select(*COPY, lost=pl.col("outcome") == "lost").unique()
    withheld = []
    for step, sender, port, origin, target, segment, tree, lost in sent.sort(*COPY).collect().iter_rows():
        while due and due[-1].step <= step:
            faults.apply([due.pop()])
        silent = faults.silent(sender, step) or (knows and faults.is_dead(step, sender, port))
        byzantine = faults.byzantine(step, sender)
        # A silent node sends nothing at all; another rule judges that.
        if silent or not byzantine or (not lost and (sender, port) in delayed):
            continue
        treatment = faults.treatment(byzantine, step, sender, port, (origin, target, tree, segment))
        if treatment is Treatment.WITHHOLD:
            withheld.append((step, sender, port, origin, target, segment, tree))
    return pl.DataFrame(withheld, schema=COPY, orient="row")


def _only_crashes(timeline: FaultTimeline) -> bool:
    """Return whether ranks crash and nothing else happens."""
    on_links = any(not isinstance(place, int) for place in timeline.stops)
    return timeline.is_lasting and timeline.ranks_only_crash and not on_links


def _after_crashes(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return the violations under crashes alone, as one filter.

    Crashed ranks send nothing, exactly the hops to them are lost, and no hop is altered.
    """
    lost = pl.col("outcome") == "lost"
    crashed = {rank: first.start for rank, (first, *_) in plan.judged.timeline.stops.items()}
    # Ranks that do not crash get a step that never comes, so that one comparison is enough for all rows.
    sender_gone, receiver_gone = (
        pl.col("step") >= pl.col(end).replace_strict(crashed, default=NEVER, return_dtype=pl.Int64)
        for end in ("sender", "receiver")
    )
    # A crash alters nothing, but a partial sum that lacks the contributions of a crashed rank counts as corrupt.
    altered = (pl.col("outcome") == "corrupt") & (plan.spec.collective not in FOLDING)
    # Both directions: a hop to a crashed rank has to be lost, and no other hop may be lost.
    return journal.filter(sender_gone | (receiver_gone != lost) | altered).select("step")


def _possible_outcomes(plan: ResolvedRun, journal: pl.LazyFrame, rows: int | None = None) -> pl.LazyFrame:
    """Return the packets that faults can have affected, and whether they may have arrived, been lost or been altered."""
    ranks = [fault.rank for fault in plan.faults if isinstance(fault, NodeFault)]
    broken = [(fault.sender, fault.port) for fault in plan.faults if isinstance(fault, LinkFault)]
    if suspicions(plan) is not None:
        # A rank suspects the sender at the other end, and withholds its packets there.
        broken += [plan.topology.end(*link) for link in broken]
    links = pl.DataFrame(sorted(set(broken)), schema={"sender": pl.Int32, "port": pl.Int16}, orient="row")
    packets = journal.select("step", "sender", "port", "receiver").unique()
    touched = pl.concat(
        [
            packets.filter(pl.col("sender").is_in(ranks) | pl.col("receiver").is_in(ranks)),
            packets.join(links.lazy(), on=["sender", "port"], how="semi"),
        ]
    )
    (in_order,) = collect([touched.unique().sort("step", "sender", "port")], rows)
    return _outcome_table(_replay(plan, in_order)).lazy()


_POSSIBLE = ("step", "sender", "port", "may_arrive", "may_be_lost", "may_be_altered")


def _outcome_table(possible: Iterable[Possible]) -> pl.DataFrame:
    schema = dict(zip(_POSSIBLE, (pl.Int32, pl.Int32, pl.Int16, pl.Boolean, pl.Boolean, pl.Boolean), strict=True))
    return pl.DataFrame(list(possible), schema=schema, orient="row")


def _replay(plan: ResolvedRun, packets: pl.DataFrame) -> Iterator[Possible]:
    """Apply the faults step by step and look up each packet."""
    knows = plan.spec.knows_neighbours
    faults = Faults(plan.topology, plan.spec.seed)
    late, unstated = _late(plan, int(packets["step"].max() or 0)), plan.judged.timeline.opaque_places  # type: ignore[arg-type]
    due = list(reversed(plan.faults))  # the next fault is the last item
    detection = suspicions(plan)
    for step, sender, port, receiver in packets.iter_rows():
        begun = []
        # Faults take effect at the beginning of their step, before any packet of it.
        while due and due[-1].step <= step:
            begun.append(due.pop())
        faults.apply(begun)
        if detection is not None:
            detection.advance(step, begun)
        altered = any(fault.alters_payload for fault in faults.byzantine(step, sender))
        # Links that do not exist are counted by `nonexistent_links`. A packet that a fault may have delayed left in a step
        # that the journal does not tell.
        if not joins(plan.topology, sender, port, receiver) or (sender, port) in unstated:
            yield step, sender, port, True, True, True
            continue
        dead = faults.is_dead(step, sender, port)
        # A rank that knows about a dead link sends nothing there; only earlier packets that a fault has delayed may
        # still come.
        withholds = (knows and dead) or (detection is not None and detection.suspects(sender, port))
        # Drawn even where data is withheld: other segments may leave there, and faults may count them.
        transit = faults.transit(step, sender, port, ()) if (sender, port) not in late else None
        if faults.silent(sender, step) or (withholds and transit is not None):
            yield step, sender, port, False, False, altered
        elif transit is None:
            crossings, losses, altered_ever = late[sender, port]
            yield step, sender, port, not dead and step in crossings, dead or step in losses, altered_ever
        else:
            lost = dead or transit.lost
            yield step, sender, port, not lost, lost, altered or transit.altered


def _late(plan: ResolvedRun, steps: Step) -> Mapping[tuple[Rank, Port], tuple[set[Step], set[Step], bool]]:
    """Return the steps when packets may cross each delayed link, or be lost.

    A link is one direction. With the steps comes whether any packet on it is altered. Packets on a
    delayed link cannot be numbered, so a fault that drops the k-th may drop any of them.
    """
    delayed = {place for place in plan.judged.timeline.of(Delays) if not isinstance(place, int)}
    on_delayed = [fault for fault in plan.faults if isinstance(fault, LinkFault) and fault.place in delayed]
    # An injector of its own: looking at all steps in advance must not disturb the replay of the packets.
    chances = Faults(plan.topology, plan.spec.seed)
    # Draws of loss and delay depend on (seed, step, rank, port) alone, so they can be repeated without the packets.
    chances.apply(fault for fault in on_delayed if not fault.counts_packets)
    dropping = {fault.place for fault in on_delayed if fault.counts_packets}
    altering = {fault.place for fault in on_delayed if fault.alters_payload}
    forging = {fault.rank for fault in plan.faults if isinstance(fault, NodeFault) and fault.alters_payload}
    possible = {}
    for link in sorted(delayed):
        transits = [(step, chances.transit(step, *link, ())) for step in range(1, steps + 1)]
        losses = {step for step, transit in transits if transit.lost or link in dropping}
        # Departure plus delay: the steps when something may arrive over this link.
        crossings = {step + transit.delay for step, transit in transits if not transit.lost}
        possible[link] = (crossings, losses, link[0] in forging or link in altering)
    return possible


def links_with(plan: ResolvedRun, *effects: type[Effect]) -> set[LinkEnd]:
    """Return the directions of links where packets may meet one of these effects."""
    stated = {place for place, _, effect in plan.judged.timeline if isinstance(effect, effects)}
    return {place for place in stated | plan.judged.timeline.opaque_places if not isinstance(place, int)}


def joins(topology: Topology, sender: Rank, port: Port, receiver: Rank) -> bool:
    """Return whether `port` of `sender` leads to `receiver`."""
    return 0 <= port < topology.degree and receiver != ABSENT and topology.neighbour(sender, port) == receiver
