"""The audit: hops that contradict the communication model, the topology or the faults, whatever the algorithm.

Nodes and engines enforce these rules during a run; the audit checks the rules again on the journal alone. Contradictions
to the faults are in `causality`. After the first fault that can delay packets, receipts are not checked against the port
model, because late packets meet other packets.
"""

from collections.abc import Iterable

import polars as pl

from coordinator.features.base import Evidence, Feature, ResolvedRun
from coordinator.features.journals.rows import IS_CONTROL, SEGMENT, data_hops, hops_of
from coordinator.features.registry import FEATURES
from coordinator.history.timetable import Timetable
from coordinator.results.causality import NEVER, causality, joins, links_with
from coordinator.results.queries import at_receiver
from coordinator.results.timed_audit import unplanned, with_reads
from emunode.algorithms.base import Dependence
from emunode.algorithms.traits import ListsMessages, listed_messages
from emunode.faults.effects import Delays, Duplicates, Effect
from emunode.model import ALL_RANKS, PART_NAME_BYTES, Collective, Duplex, EvenParts, PortModel, Rank, Step
from emunode.topologies.base import switches

AUDITED_LINKS = 100_000
"""Most links that are looked up in the topology; of more links, an even sample is looked up."""
NO_RANK: Rank = -2
"""A target that no segment has."""


def broken_rules(
    plan: ResolvedRun,
    journal: pl.LazyFrame,
    packets: pl.DataFrame,
    timetable: Timetable | None = None,
    rows: int | None = None,
    *,
    cut_short: bool = False,
) -> list[pl.LazyFrame]:
    """List the impossible hops: one query for each rule, with a row for each hop that breaks it.

    `packets` are the packets that carried data; `timetable` is the timetable of a run under the timed clock; `rows` is a
    bound on the length of the journal, if one is known.
    `nonexistent_links` belongs to the audit as well. If a run under the timed clock was cut short, a host that died has
    lost the rows of its ranks: the sends of such a rank are not compared with its receipts.
    """
    copies, data = plan.algorithm.traits.copies_keep_trees, data_hops(plan, journal)
    crossing = hops_of(plan, journal).filter(pl.col("outcome") != "withheld")
    # Without faults and protocols every packet keeps its step, so steps say everything that times could say.
    times = timetable if timetable is not None and timetable.inputs is not None else None
    return [
        wrong_outcomes(plan, data, times),
        wrong_addresses(plan, data),
        *([_repeated(plan, data)] if copies else []),
        *causality(plan, crossing, times, rows),
        *([unplanned(crossing, times)] if times is not None else []),
        # Negative controls may move a copy to another tree, so there only its identity without the tree can be
        # followed.
        _sent_before_received(
            data, [*SEGMENT, "tree"] if copies else SEGMENT, reported_only=cut_short and timetable is not None
        ),
        port_model_violations(plan, journal, packets),
        *([_sent_too_early(plan, data)] if plan.algorithm.dependence is Dependence.LISTED and times is None else []),
        _strays(plan, journal),
        *(query for feature in plan.features for query in feature.violations(plan, Evidence(journal, times))),
    ]


def _sent_too_early(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return messages that left before a receipt that they wait for, according to the list of the algorithm."""
    assert isinstance(plan.algorithm, ListsMessages)
    steps = (
        journal.group_by(SEGMENT)
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
    """Return rows of features that this run does not have, and control segments of no feature."""
    # The literal is for runs without features: `any_horizontal` needs an argument.
    own = pl.any_horizontal(pl.lit(value=False), *_rows_of(plan, plan.features))
    absent = [feature for feature in FEATURES.values() if feature not in plan.features]
    others = pl.any_horizontal(IS_CONTROL, *_rows_of(plan, absent))
    # Two features may make the same kind of row, so a row of an active feature is legal even if an absent one makes it
    # too.
    return journal.filter(others & ~own).select("step")


def _rows_of(plan: ResolvedRun, features: Iterable[Feature]) -> list[pl.Expr]:
    """Return for each of these features the rows that no run without features has."""
    return [rows for feature in features if (rows := feature.rows(plan)) is not None]


def wrong_outcomes(plan: ResolvedRun, journal: pl.LazyFrame, times: Timetable | None = None) -> pl.LazyFrame:
    """Select arrivals with a wrong outcome.

    `relay` is for segments meant for other ranks. Of the other arrivals of a segment, exactly the earliest is `first`. A
    rank that recovers has lost its memory and sees a first copy again.
    """
    # Switches only forward, so even a message for all ranks is not meant for them.
    for_all = (pl.col("target") == ALL_RANKS) & ~pl.col("receiver").is_in(switches(plan.topology))
    meant = for_all | (pl.col("target") == pl.col("receiver"))
    # A rank never receives its own message as something new.
    back = pl.col("receiver") == pl.col("origin")
    first, duplicate, relay = (pl.col("outcome") == name for name in ("first", "duplicate", "relay"))
    wrong = journal.filter((first & (back | ~meant)) | (duplicate & ~meant) | (relay & meant))
    # A node that goes by arrivals need not read in the order of steps.
    dated = journal.with_columns(read=pl.col("step")) if times is None else with_reads(journal, times)
    when = pl.col("read")
    segments = (
        dated.filter(first | duplicate, ~back)
        # Grouped by life as well: after a recovery the rank has forgotten its earlier receipts.
        .group_by("receiver", _life(plan, times), *SEGMENT)
        .agg(firsts=first.sum(), began=when.filter(first).min(), earliest=when.min(), step=pl.col("step").min())
        # Of copies that arrive in one step any may be the first, so steps are compared, not rows.
        .filter((pl.col("firsts") != 1) | (pl.col("began") > pl.col("earliest")))
    )
    return pl.concat([wrong.select("step"), segments.select("step")])


def wrong_addresses(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return the segments that are not part of the collective: by origin, target, segment number or size."""
    if plan.spec.collective is Collective.MESSAGES:
        known = pl.DataFrame(
            listed_messages(plan.algorithm), dict.fromkeys([*SEGMENT, "bytes"], pl.Int32), orient="row"
        ).lazy()
        rows = journal.with_columns(pl.col(*SEGMENT, "bytes").cast(pl.Int32))
        # Each message crosses one link, from its origin to its target.
        direct = (pl.col("sender") == pl.col("origin")) & (pl.col("receiver") == pl.col("target"))
        strange = rows.join(known, on=[*SEGMENT, "bytes"], how="anti").select("step")
        return pl.concat([strange, rows.filter(~direct | (pl.col("tree") != 0)).select("step")])
    spec, algorithm, order = plan.spec, plan.algorithm, plan.topology.order
    origin, target, number = pl.col("origin"), pl.col("target"), pl.col("segment")
    from_one = spec.collective in (Collective.BROADCAST, Collective.SCATTER)
    # The target of a gather or a reduce contributes nothing that travels.
    from_source = (
        origin == spec.source if from_one else origin.is_between(0, order - 1) & (origin != spec.common_target)
    )
    personal = target.is_between(0, order - 1) & (target != origin)
    match spec.collective:
        case Collective.SCATTER | Collective.ALLTOALL:
            meant = personal
        case Collective.UNICAST:
            destinations = {rank: spec.destination(rank) for rank in algorithm.sources}
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
            meant = target == spec.common_target
    message = meant & _has_size(plan, origin, target, number)
    if algorithm.traits.ack_bytes:
        # An acknowledgement goes back over the link: its sender is the node that it names as its target.
        message |= (target == pl.col("sender")) & (pl.col("bytes") == algorithm.traits.ack_bytes)
    counted = number.is_between(0, spec.messages * algorithm.segments_per_message - 1)
    return journal.filter(~(from_source & message & counted & (pl.col("tree") >= 0))).select("step")


def _has_size(plan: ResolvedRun, origin: pl.Expr, target: pl.Expr, number: pl.Expr) -> pl.Expr:
    """Return whether a segment has the size of its place in the message, or in the block of the vector."""
    spec, parts = plan.spec, plan.algorithm.segments_per_message
    ranks = plan.topology.data_ranks
    # On its way to all a finished block is named by its origin, before that by its target.
    owner = pl.when(target == ALL_RANKS).then(origin).otherwise(target)
    whole, short = (
        pl.when(number % parts < cut.longer).then(cut.longest).otherwise(cut.shortest)
        for cut in (spec.cut(parts), EvenParts(spec.most_parts, parts, spec.element_bytes))
    )
    expected = pl.when(owner.is_in(list(ranks[len(ranks) - spec.short_blocks :]))).then(short).otherwise(whole)
    numbers = spec.numbers
    if numbers is None or not numbers.fixed_order:
        return pl.col("bytes") == expected
    # In the fixed order a partial result has a number of parts, each with its name.
    part, folded = expected + PART_NAME_BYTES, pl.col("bytes") == expected
    most = len(numbers.contributions(ranks))
    in_parts = (pl.col("bytes") % part == 0) & (pl.col("bytes") // part).is_between(1, most)
    return pl.when(target == ALL_RANKS).then(folded).otherwise(in_parts | folded)


def _repeated(plan: ResolvedRun, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return the copies that crossed a link twice in a step without a fault.

    Only faults that duplicate or delay packets may cause that. Downstream of a link that duplicates packets, a rank may
    send a copy once for every time that the copy arrived before.
    """
    copy = [*SEGMENT, "tree"]
    # No rank sends a copy twice over a port in one step by itself; only faults of links make a second one.
    again = journal.group_by("step", "sender", "port", *copy).agg(times=pl.len()).filter(pl.col("times") > 1)
    again = _except(plan, again, Delays, Duplicates)
    if Duplicates not in plan.judged.timeline.effects and not plan.judged.timeline.opaque:
        return again.select("step")
    # An acknowledgement is created by its sender, so there is no arrival to count it against.
    answered = (pl.col("sender") == pl.col("target")) if plan.algorithm.traits.ack_bytes else pl.lit(value=False)
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
        recoveries, when = plan.judged.timeline.recoveries, pl.col("step")
    # A packet of the step of a recovery is read by the new life already.
    revived = [((pl.col("receiver") == rank) & (when >= time)).cast(pl.Int32) for time, rank in recoveries]
    return (pl.sum_horizontal(revived) if revived else pl.lit(0)).alias("life")


def _sent_before_received(journal: pl.LazyFrame, copy: list[str], *, reported_only: bool = False) -> pl.LazyFrame:
    """Return the segments sent by a rank that neither created them nor received them in an earlier step.

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
    """Return packets that are too large, and ranks that used too many ports.

    The link capacity limits a packet, and the port model the ports of a step. Traffic that faults add is not counted:
    packets on links that delay or duplicate, and receipts after the first fault that affects timing. Over reliable
    links receipts are not checked, and acknowledgements take a port but no capacity.
    """
    spec, capacity = plan.spec, plan.algorithm.link_capacity
    sent = packets.lazy()
    # Without a capacity no packet is too large: no packet has as many segments as this number.
    too_large = _except(plan, sent.filter(pl.col("segments") > (capacity or 2**31)), Delays, Duplicates).select("step")
    if spec.port_model is PortModel.ALL_PORT and spec.duplex is Duplex.FULL:
        return too_large
    if spec.has_control:
        sent = journal.select("step", "sender", "port").unique()
    began = [fault.step for fault in plan.faults if fault.affects_timing and fault.breaks]
    # Control segments may meet other packets in any step; so may faults whose times do not coincide with steps.
    any_step = spec.has_control or (began and not plan.exact_steps)
    first_affected = 0 if any_step else min(began, default=NEVER)
    arrived = journal.filter(pl.col("outcome") != "lost", pl.col("step") < first_affected)
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
    return pl.concat([too_large, used.filter(crowded).select("step")])


def _except(plan: ResolvedRun, packets: pl.LazyFrame, *effects: type[Effect]) -> pl.LazyFrame:
    """Return the packets without those on links that have one of these effects."""
    links = links_with(plan, *effects)
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
        if not joins(plan.topology, sender, port, receiver)
    )
