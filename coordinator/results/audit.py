"""The audit: hops that contradict the communication model, the topology or the faults, whatever the algorithm.

Nodes and engines enforce these rules during a run; the audit checks the rules again on the journal alone. The outcomes
that faults allow follow from the same `Faults` object that the engines use, replayed over the packets that faults can
have affected. After the first fault that can delay packets, receipts are not checked against the port model, because
late packets meet other packets.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import polars as pl

from coordinator.features.base import Evidence, Feature, ResolvedRun
from coordinator.features.journals.rows import IS_CONTROL, data_hops, hops_of
from coordinator.features.registry import FEATURES
from coordinator.history.timetable import Timetable
from coordinator.results.deliveries import switches
from coordinator.results.queries import at_receiver
from coordinator.results.timed_audit import Possible, possible_outcomes, unplanned, with_reads
from emunode.algorithms.base import Dependence
from emunode.engine.known_paths import faults_by_steps
from emunode.faults.byzantine import Treatment
from emunode.faults.detection import StepDetection
from emunode.faults.effects import Delays, Duplicates, Effect, LinkEnd, Stops
from emunode.faults.injector import Faults
from emunode.faults.kinds import LinkFault, NodeFault
from emunode.faults.timeline import FaultTimeline
from emunode.model import ALL_RANKS, FOLDING, Collective, Duplex, Port, PortModel, Rank, Step
from emunode.topologies.base import ABSENT, Topology

PIECE = ["origin", "target", "segment"]
AUDITED_LINKS = 100_000
"""Most links that are looked up in the topology; of more links, an even sample is looked up."""
NEVER: Step = 2**31 - 1
NO_RANK: Rank = -2
"""A target that no segment has."""


def broken_rules(
    plan: ResolvedRun,
    journal: pl.LazyFrame,
    packets: pl.DataFrame,
    timetable: Timetable | None = None,
    *,
    cut_short: bool = False,
) -> list[pl.LazyFrame]:
    """List the impossible hops: one query for each rule, with a row for each hop that breaks it.

    `packets` are the packets that carried data; `timetable` is the timetable of a run under the timed clock.
    `nonexistent_links` belongs to the audit as well. If a run under the timed clock was cut short, a host that died has
    lost the rows of its ranks: the sends of such a rank are not compared with its receipts.
    """
    copies, data = plan.algorithm.copies_keep_trees, data_hops(plan, journal)
    crossing = hops_of(plan, journal).filter(pl.col("outcome") != "withheld")
    # Without faults and protocols every packet keeps its step, so steps say everything that times could say.
    times = timetable if timetable is not None and timetable.inputs is not None else None
    return [
        wrong_outcomes(plan, data, times),
        wrong_addresses(plan, data),
        *([_repeated(plan, data)] if copies else []),
        *_causality(plan, crossing, times),
        *([unplanned(crossing, times)] if times is not None else []),
        # Negative controls may move a copy to another tree, so there only its identity without the tree can be
        # followed.
        _sent_before_received(
            data, [*PIECE, "tree"] if copies else PIECE, reported_only=cut_short and timetable is not None
        ),
        port_model_violations(plan, journal, packets),
        *([_sent_too_early(plan, data)] if plan.algorithm.dependence is Dependence.LISTED and times is None else []),
        _strays(plan, journal),
        *(query for feature in plan.features for query in feature.violations(plan, Evidence(journal, times))),
    ]


def _sent_too_early(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return messages that left before a receipt that they wait for, according to the list of the algorithm."""
    steps = (
        journal.group_by(PIECE)
        .agg(pl.col("step").min(), arrived=pl.col("step").filter(pl.col("outcome") != "lost").min())
        .collect()
    )
    sent: dict[tuple[Rank, Rank, int], Step] = {}
    arrived: dict[tuple[Rank, Rank, int], Step] = {}
    for origin, target, number, step, arrival in steps.iter_rows():
        sent[origin, target, number] = step
        if arrival is not None:
            arrived[origin, target, number] = arrival
    return pl.LazyFrame({"step": list(plan.algorithm.early_messages(sent, arrived))}, {"step": pl.Int32})


def _strays(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return rows that only features make that this run does not have, and control segments of no feature."""
    # The literal is for runs without features: `any_horizontal` needs an argument.
    own = pl.any_horizontal(pl.lit(value=False), *_rows_of(plan, plan.features))
    absent = [feature for feature in FEATURES.values() if feature not in plan.features]
    others = pl.any_horizontal(IS_CONTROL, *_rows_of(plan, absent))
    # Two features may make the same kind of row, so a row of an active feature is legal even if an absent one makes it
    # too.
    return journal.filter(others & ~own).select("step")


def _rows_of(plan: ResolvedRun, features: Iterable[Feature]) -> list[pl.Expr]:
    """Return for each of these features the rows that only this feature makes."""
    return [rows for feature in features if (rows := feature.rows(plan)) is not None]


def _causality(plan: ResolvedRun, crossing: pl.LazyFrame, times: Timetable | None) -> list[pl.LazyFrame]:
    """Return the violations of causality by the rows that crossed links. Segments that nodes send to suspected
    neighbours too are judged apart.
    """
    if not plan.trees_to_suspects:
        return [causality_violations(plan, crossing, times)]
    anyway = pl.col("tree").is_in(sorted(plan.trees_to_suspects))
    # Faults see all packets in both cases, because they may count them.
    return [
        causality_violations(plan, crossing.filter(~anyway), times, crossing=crossing),
        causality_violations(_without_suspicions(plan), crossing.filter(anyway), times, crossing=crossing),
    ]


def _without_suspicions(plan: ResolvedRun) -> ResolvedRun:
    """Return a run under the same faults in which nodes withhold nothing."""
    return replace(plan, features=())


def _suspicions(plan: ResolvedRun) -> list[StepDetection]:
    """Return the suspicions by which nodes withhold packets, at the beginning of a run."""
    return [found for feature in plan.features if (found := feature.suspicions(plan)) is not None]


def wrong_outcomes(plan: ResolvedRun, journal: pl.LazyFrame, times: Timetable | None = None) -> pl.LazyFrame:
    """Select arrivals with a wrong outcome.

    `relay` is for segments meant for other ranks. Of the other arrivals of a piece, exactly the earliest is `first`. A rank
    that recovers has lost its memory and sees a first copy again.
    """
    # A rank never receives its own message as something new.
    # Switches only forward, so even a message for all ranks is not meant for them.
    for_all = (pl.col("target") == ALL_RANKS) & ~pl.col("receiver").is_in(switches(plan.topology))
    meant = for_all | (pl.col("target") == pl.col("receiver"))
    back = pl.col("receiver") == pl.col("origin")
    first, duplicate, relay = (pl.col("outcome") == name for name in ("first", "duplicate", "relay"))
    wrong = journal.filter((first & (back | ~meant)) | (duplicate & ~meant) | (relay & meant))
    # A node that goes by arrivals need not read in the order of steps.
    dated = journal.with_columns(read=pl.col("step")) if times is None else with_reads(journal, times)
    when = pl.col("read")
    pieces = (
        dated.filter(first | duplicate, ~back)
        # Grouped by life as well: after a recovery the rank has forgotten its earlier receipts.
        .group_by("receiver", _life(plan, times), *PIECE)
        .agg(firsts=first.sum(), began=when.filter(first).min(), earliest=when.min(), step=pl.col("step").min())
        # Of copies that arrive in one step any may be the first, so steps are compared, not rows.
        .filter((pl.col("firsts") != 1) | (pl.col("began") > pl.col("earliest")))
    )
    return pl.concat([wrong.select("step"), pieces.select("step")])


def wrong_addresses(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return the segments that are not part of the collective: by origin, target, segment number or size."""
    if plan.spec.collective is Collective.MESSAGES:
        known = pl.DataFrame(plan.algorithm.listed, dict.fromkeys([*PIECE, "bytes"], pl.Int32), orient="row").lazy()
        rows = journal.with_columns(pl.col(*PIECE, "bytes").cast(pl.Int32))
        # Each message crosses one link, from its origin to its target.
        there = (pl.col("sender") == pl.col("origin")) & (pl.col("receiver") == pl.col("target"))
        strange = rows.join(known, on=[*PIECE, "bytes"], how="anti").select("step")
        return pl.concat([strange, rows.filter(~there | (pl.col("tree") != 0)).select("step")])
    spec, algorithm, order = plan.spec, plan.algorithm, plan.topology.order
    origin, target, number = pl.col("origin"), pl.col("target"), pl.col("segment")
    from_one = spec.collective in (Collective.BROADCAST, Collective.SCATTER)
    # The target of a gather or a reduce contributes nothing that travels.
    made = origin == spec.source if from_one else origin.is_between(0, order - 1) & (origin != algorithm.target)
    personal = target.is_between(0, order - 1) & (target != origin)
    match spec.collective:
        case Collective.SCATTER | Collective.ALLTOALL:
            meant = personal
        case Collective.UNICAST:
            destinations = {rank: algorithm.destination(rank) for rank in algorithm.sources}
            meant = target == origin.replace_strict(destinations, default=NO_RANK, return_dtype=pl.Int32)
        case Collective.REDUCE_SCATTER:
            meant = personal & (origin == pl.col("sender"))
        case Collective.ALLREDUCE:
            # A rank sends partial results in its own name to a rank that folds the result; owners send the finished
            # results.
            finished = (target == ALL_RANKS) & origin.is_in(list(algorithm.finishers))
            owned = target.is_in(list(algorithm.result_folders))
            meant = finished | (personal & owned & (origin == pl.col("sender")))
        case _:
            meant = target == algorithm.target
    message = meant & _has_size(plan, origin, target, number)
    if algorithm.ack_bytes:
        # An acknowledgement goes back over the link: its sender is the node that it names as its target.
        message |= (target == pl.col("sender")) & (pl.col("bytes") == algorithm.ack_bytes)
    counted = number.is_between(0, spec.messages * algorithm.segments_per_message - 1)
    return journal.filter(~(made & message & counted & (pl.col("tree") >= 0))).select("step")


def _has_size(plan: ResolvedRun, origin: pl.Expr, target: pl.Expr, number: pl.Expr) -> pl.Expr:
    """Return whether a segment has the size of its place in the message, or in the block of the vector."""
    spec, parts = plan.spec, plan.algorithm.segments_per_message
    ranks = plan.topology.data_ranks
    # On its way to all a finished block is named by its origin, before that by its target.
    owner = pl.when(target == ALL_RANKS).then(origin).otherwise(target)
    unit = spec.element_bytes
    size = spec.message_bytes // unit - owner.is_in(list(ranks[len(ranks) - spec.short_blocks :])).cast(pl.Int32)
    # The first segments of a message are one element longer than the others, as many as the division leaves over.
    return pl.col("bytes") == unit * (size // parts + (number % parts < size % parts).cast(pl.Int32))


def _repeated(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return the copies that crossed a link more than once in one step although no fault duplicates or delays packets
    there.

    Downstream of a link that duplicates packets, a rank may send a copy once for every time that the copy arrived
    before.
    """
    copy = [*PIECE, "tree"]
    # No rank sends a copy twice over a port in one step by itself; only faults of links make a second one.
    again = journal.group_by("step", "sender", "port", *copy).agg(times=pl.len()).filter(pl.col("times") > 1)
    again = _except(plan, again, Delays, Duplicates)
    if Duplicates not in plan.timeline.effects and not plan.timeline.opaque:
        return again.select("step")
    # An acknowledgement is created by its sender, so there is no arrival to count it against.
    answered = (pl.col("sender") == pl.col("target")) if plan.algorithm.ack_bytes else pl.lit(value=False)
    arrived = journal.filter(pl.col("outcome") != "lost").select("receiver", *copy, arrived="step")
    return (
        again.filter(~answered)
        .join(arrived, how="left", left_on=["sender", *copy], right_on=["receiver", *copy])
        .group_by("step", "sender", "port", *copy, "times")
        .agg(received=(pl.col("arrived") < pl.col("step")).sum())
        # Downstream of a duplicating link a rank forwards each arrival, hence at most as many as it has received.
        .filter(pl.col("times") > pl.col("received"))
        .select("step")
    )


def _life(plan: ResolvedRun, times: Timetable | None) -> pl.Expr:
    """Count for each hop how often its receiver has recovered before it."""
    if times is not None and times.inputs is not None:
        recoveries, when = times.inputs.timeline.recoveries, pl.col("start")
    else:
        recoveries, when = plan.timeline.recoveries, pl.col("step")
    # A packet of the step of a recovery is read by the new life already.
    revived = [((pl.col("receiver") == rank) & (when >= time)).cast(pl.Int32) for time, rank in recoveries]
    return (pl.sum_horizontal(revived) if revived else pl.lit(0)).alias("life")


def causality_violations(
    plan: ResolvedRun, journal: pl.LazyFrame, times: Timetable | None = None, *, crossing: pl.LazyFrame | None = None
) -> pl.LazyFrame:
    """Return the hops that contradict the faults: sent by a silent rank, lost or altered without a fault, arrived
    despite one.

    `crossing` has the rows of all packets, if `journal` has only some of them: faults may count packets.
    """
    lost = pl.col("outcome") == "lost"
    # Without faults nothing may be lost or altered: one filter, no replay.
    if not plan.timeline:
        return journal.filter(lost | (pl.col("outcome") == "corrupt")).select("step")
    # Crashes alone follow from two columns; they are the most frequent faults of campaigns.
    if times is None and _only_crashes(plan.timeline) and not _suspicions(plan):
        return _after_crashes(plan, journal)
    # Withheld copies never left: they must be recorded as lost, and the faults of links have not seen them.
    everything = journal if crossing is None else crossing
    withheld = _withheld(plan, everything) if times is None else pl.DataFrame(schema=COPY)
    leaked = journal.join(withheld.lazy(), on=withheld.columns, how="semi").filter(~lost).select("step")
    journal = journal.join(withheld.lazy(), on=withheld.columns, how="anti")
    if times is not None and times.inputs is not None:
        # Under the timed clock a port may send several packets of one step, and the journal does not say which of them
        # carried a hop: a hop is legal if one of these packets explains it.
        both = _outcome_table(possible_outcomes(plan, times, times.inputs)).lazy().group_by("step", "sender", "port")
        possible = both.agg(pl.col("may_arrive", "may_be_lost", "may_be_altered").any())
    else:
        possible = _possible_outcomes(plan, everything.join(withheld.lazy(), on=withheld.columns, how="anti"))
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
    received = corrupt.group_by("receiver", *PIECE).agg(received=pl.col("step").min())
    unexplained = (
        corrupt.filter(~pl.col("may_be_altered"))
        .join(received, how="left", left_on=["sender", *PIECE], right_on=["receiver", *PIECE])
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
    if plan.trees_to_suspects:
        runs[True] = _without_suspicions(plan)
    tables = [_possible_outcomes(each, sent).with_columns(news=pl.lit(news)) for news, each in runs.items()]
    found = pl.concat(tables).select(*_POSSIBLE[:3], "news", *_POSSIBLE[3:]).collect()
    if not _suspicions(plan):
        places = {
            place for place, _, effect in plan.timeline if not isinstance(effect, Stops)
        } | plan.timeline.opaque_places
        drawn = [sender in places or (sender, port) in places for sender, port in found["sender", "port"].iter_rows()]
        found = found.filter(pl.Series(drawn, dtype=pl.Boolean))
    return found.unique().sort(pl.all()), withheld.unique().sort(pl.all())


COPY = {"step": pl.Int32, "sender": pl.Int32, "port": pl.Int16, **dict.fromkeys([*PIECE, "tree"], pl.Int32)}
"""The columns that identify a copy on a link."""


def _withheld(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.DataFrame:
    """Return the copies in the journal that byzantine nodes withheld.

    On a link that delays packets, such copies cannot be told apart from copies that left in an earlier step. There,
    only copies that are recorded as lost count.
    """
    ranks = {fault.rank for fault in plan.faults if isinstance(fault, NodeFault) and fault.withholds}
    if not ranks:
        return pl.DataFrame(schema=COPY)
    delayed = _links_with(plan, Delays)
    # The copies are sorted by step below, so every fault is applied once, when the first packet of its step comes.
    faults, due = faults_by_steps(plan.algorithm), list(reversed(plan.faults))
    knows = plan.spec.knows_neighbours
    sent = journal.filter(pl.col("sender").is_in(ranks)).select(*COPY, lost=pl.col("outcome") == "lost").unique()
    found = []
    for step, sender, port, origin, target, segment, tree, lost in sent.sort(*COPY).collect().iter_rows():
        while due and due[-1].step <= step:
            faults.apply([due.pop()])
        silent = faults.silent(sender, step) or (knows and faults.is_dead(step, sender, port))
        byzantine = faults.byzantine(step, sender)
        # A silent node sends nothing at all, which another rule judges.
        if silent or not byzantine or (not lost and (sender, port) in delayed):
            continue
        treatment = faults.treatment(byzantine, step, sender, port, (origin, target, tree, segment))
        if treatment is Treatment.WITHHOLD:
            found.append((step, sender, port, origin, target, segment, tree))
    return pl.DataFrame(found, schema=COPY, orient="row")


def _only_crashes(timeline: FaultTimeline) -> bool:
    """Return whether ranks crash and nothing else happens."""
    on_links = any(not isinstance(place, int) for place in timeline.stops)
    return timeline.is_lasting and timeline.ranks_only_crash and not on_links


def _after_crashes(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return the violations for crashes only, as one filter: crashed ranks send nothing, exactly the hops to them are
    lost, and no hop is altered.
    """
    lost = pl.col("outcome") == "lost"
    crashed = {rank: first.start for rank, (first, *_) in plan.timeline.stops.items()}
    # Ranks that do not crash get a step that never comes, so that one comparison is enough for all rows.
    sender_gone, receiver_gone = (
        pl.col("step") >= pl.col(end).replace_strict(crashed, default=NEVER, return_dtype=pl.Int64)
        for end in ("sender", "receiver")
    )
    # A crash alters nothing, but a partial sum that lacks the contributions of a crashed rank counts as corrupt.
    altered = (pl.col("outcome") == "corrupt") & (plan.spec.collective not in FOLDING)
    # Both directions: a hop to a crashed rank has to be lost, and no other hop may be lost.
    return journal.filter(sender_gone | (receiver_gone != lost) | altered).select("step")


def _possible_outcomes(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return the packets that faults can have affected, and whether they may have arrived, been lost or been altered."""
    ranks = [fault.rank for fault in plan.faults if isinstance(fault, NodeFault)]
    broken = [(fault.sender, fault.port) for fault in plan.faults if isinstance(fault, LinkFault)]
    if _suspicions(plan):
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
    rows = touched.unique().sort("step", "sender", "port").collect(engine="streaming")
    return _outcome_table(_replay(plan, rows)).lazy()


_POSSIBLE = ("step", "sender", "port", "may_arrive", "may_be_lost", "may_be_altered")


def _outcome_table(possible: Iterable[Possible]) -> pl.DataFrame:
    schema = dict(zip(_POSSIBLE, (pl.Int32, pl.Int32, pl.Int16, pl.Boolean, pl.Boolean, pl.Boolean), strict=True))
    return pl.DataFrame(list(possible), schema=schema, orient="row")


def _replay(plan: ResolvedRun, packets: pl.DataFrame) -> Iterator[Possible]:
    """Apply the faults step by step and look up each packet."""
    knows = plan.spec.knows_neighbours
    faults = Faults(plan.topology, plan.spec.seed)
    late, unstated = _late(plan, int(packets["step"].max() or 0)), plan.timeline.opaque_places  # type: ignore[arg-type]
    due = list(reversed(plan.faults))  # the next fault is the last item
    suspicions = _suspicions(plan)
    for step, sender, port, receiver in packets.iter_rows():
        begun = []
        # Faults take effect at the beginning of their step, before any packet of it.
        while due and due[-1].step <= step:
            begun.append(due.pop())
        faults.apply(begun)
        for detection in suspicions:
            detection.advance(step, begun)
        altered = any(fault.alters_payload for fault in faults.byzantine(step, sender))
        # Links that do not exist are counted by `nonexistent_links`. A packet that a fault may have delayed left in a step
        # that the journal does not tell.
        if not _joins(plan.topology, sender, port, receiver) or (sender, port) in unstated:
            yield step, sender, port, True, True, True
            continue
        dead = faults.is_dead(step, sender, port)
        # A rank that knows about a dead link sends nothing there; only earlier packets that a fault has delayed may
        # still come.
        withholds = (knows and dead) or any(detection.suspects(sender, port) for detection in suspicions)
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
    """Return for each delayed direction of a link: steps in which packets may cross or be lost, and whether any is
    altered.

    The k-th packet cannot be identified on a delayed link, so any packet may be the one that is dropped.
    """
    delayed = {place for place in plan.timeline.of(Delays) if not isinstance(place, int)}
    there = [fault for fault in plan.faults if isinstance(fault, LinkFault) and fault.place in delayed]
    # An injector of its own: looking at all steps in advance must not disturb the replay of the packets.
    chances = Faults(plan.topology, plan.spec.seed)
    # Draws of loss and delay depend on (seed, step, rank, port) alone, so they can be repeated without the packets.
    chances.apply(fault for fault in there if not fault.counts_packets)
    dropping = {fault.place for fault in there if fault.counts_packets}
    altering = {fault.place for fault in there if fault.alters_payload}
    forging = {fault.rank for fault in plan.faults if isinstance(fault, NodeFault) and fault.alters_payload}
    found = {}
    for link in sorted(delayed):
        transits = [(step, chances.transit(step, *link, ())) for step in range(1, steps + 1)]
        losses = {step for step, transit in transits if transit.lost or link in dropping}
        # Departure plus delay: the steps in which something may arrive over this link.
        crossings = {step + transit.delay for step, transit in transits if not transit.lost}
        found[link] = (crossings, losses, link[0] in forging or link in altering)
    return found


def _sent_before_received(journal: pl.LazyFrame, copy: list[str], *, reported_only: bool = False) -> pl.LazyFrame:
    """Return the pieces sent by a rank that neither created them nor received them in an earlier step.

    A segment is created by its origin, or by its target: an acknowledgement carries the address of the acknowledged
    segment. With `reported_only`, ranks without a receipt in the journal are left out.
    """
    # Lost copies were never received, so they explain no later send.
    arrived = journal.filter(pl.col("outcome") != "lost")
    received = arrived.group_by("receiver", *copy).agg(received=pl.col("step").min())
    if reported_only:
        # The rows of a rank may be lost with its host, so a rank without any receipt proves nothing.
        journal = journal.join(arrived.select("receiver"), how="semi", left_on="sender", right_on="receiver")
    return (
        # Sources and the targets of acknowledgements create their segments.
        journal.filter(pl.col("sender") != pl.col("origin"), pl.col("sender") != pl.col("target"))
        .join(received, how="left", left_on=["sender", *copy], right_on=["receiver", *copy])
        .filter(pl.col("received").is_null() | (pl.col("received") >= pl.col("step")))
        .select("step")
    )


def port_model_violations(plan: ResolvedRun, journal: pl.LazyFrame, packets: pl.DataFrame) -> pl.LazyFrame:
    """Return packets larger than the link capacity, and ranks that used more ports in a step than the port model
    allows.

    Traffic that faults add is not counted: packets on links that delay or duplicate, and receipts after the first fault
    that affects timing. Over reliable links receipts are not checked, and acknowledgements take a port but no capacity.
    """
    spec, capacity = plan.spec, plan.algorithm.link_capacity
    sent = packets.lazy()
    # Without a capacity no packet is too large: no packet has as many segments as this number.
    full = _except(plan, sent.filter(pl.col("segments") > (capacity or 2**31)), Delays, Duplicates).select("step")
    if spec.port_model is PortModel.ALL_PORT and spec.duplex is Duplex.FULL:
        return full
    if spec.has_control:
        sent = journal.select("step", "sender", "port").unique()
    began = [fault.step for fault in plan.faults if fault.affects_timing and fault.breaks]
    # Control segments may meet other packets in any step; so may faults whose times do not coincide with steps.
    any_step = spec.has_control or (began and not plan.exact_steps)
    timing_affected = 0 if any_step else min(began, default=NEVER)
    arrived = journal.filter(pl.col("outcome") != "lost", pl.col("step") < timing_affected)
    arrived = at_receiver(arrived, plan.topology).select("step", "port", rank="receiver", sent=False)
    sent = _except(plan, sent, Delays).select("step", "port", rank="sender", sent=True)
    used = (
        pl.concat([sent, arrived.unique()])
        .group_by("step", "rank")
        .agg(sends=pl.col("sent").sum(), receipts=(~pl.col("sent")).sum(), ports=pl.col("port").n_unique())
    )
    sends, receipts, ports = pl.col("sends"), pl.col("receipts"), pl.col("ports")
    crowded = {
        PortModel.ALL_PORT: pl.lit(value=False),
        PortModel.ONE_PORT: (sends > 1) | (receipts > 1),
        PortModel.EXCHANGE: ports > 1,
        PortModel.SEND_OR_RECEIVE: sends + receipts > 1,
    }[spec.port_model]
    if spec.duplex is Duplex.HALF:
        # A port that sends and receives in one step counts twice in the sum, and once among the ports.
        crowded |= sends + receipts > ports
    return pl.concat([full, used.filter(crowded).select("step")])


def _links_with(plan: ResolvedRun, *effects: type[Effect]) -> set[LinkEnd]:
    """Return the directions of links on which packets may meet one of these effects."""
    stated = {place for place, _, effect in plan.timeline if isinstance(effect, effects)}
    return {place for place in stated | plan.timeline.opaque_places if not isinstance(place, int)}


def _except(plan: ResolvedRun, packets: pl.LazyFrame, *effects: type[Effect]) -> pl.LazyFrame:
    """Return the packets without those on links that have one of these effects."""
    links = _links_with(plan, *effects)
    if not links:
        return packets
    table = pl.DataFrame(sorted(links), schema={"sender": pl.Int32, "port": pl.Int16}, orient="row")
    return packets.join(table.lazy(), on=["sender", "port"], how="anti")


def nonexistent_links(plan: ResolvedRun, links: pl.DataFrame) -> int:
    """Count the packets between ranks that no link of the topology joins at that port."""
    # Every k-th link of the sorted table, so that the sample has links of all parts of the network.
    every = 1 + len(links) // AUDITED_LINKS
    sample = (links[name][::every].to_list() for name in ("sender", "port", "receiver", "packets"))
    return sum(
        packets
        for sender, port, receiver, packets in zip(*sample, strict=True)
        if not _joins(plan.topology, sender, port, receiver)
    )


def _joins(topology: Topology, sender: Rank, port: Port, receiver: Rank) -> bool:
    """Return whether `port` of `sender` leads to `receiver`."""
    return 0 <= port < topology.degree and receiver != ABSENT and topology.neighbour(sender, port) == receiver
