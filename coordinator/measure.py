"""What a run did, from its journal and its plan alone: the tables of the run directory and the metrics of the summary."""

from dataclasses import dataclass
from math import ceil

import polars as pl

from coordinator.plan import Plan
from emunode.model import EVERYBODY, Collective, Duplex, PortModel, Rank

PIECE = ["origin", "target", "segment"]
AUDITED_LINKS = 100_000
"""Links that are looked up in the topology; of more than that, an even sample."""
Metric = int | float | tuple[int, ...]


@dataclass(frozen=True)
class Measurement:
    """Tables by node, link and step, and the metrics that claims are held against."""

    nodes: pl.DataFrame
    links: pl.DataFrame
    steps: pl.DataFrame
    metrics: dict[str, Metric]


def measure(plan: Plan, journal: pl.LazyFrame) -> Measurement:
    """Measure a finished run. Nothing here knows what the algorithm meant to do."""
    packets = (
        journal.group_by("step", "sender", "port", "receiver")
        .agg(segments=pl.len(), bytes=pl.col("bytes").cast(pl.Int64).sum())
        .collect(engine="streaming")
    )
    arrivals = _arrivals(plan, journal)
    steps = _steps(plan, packets, arrivals)
    links = (
        packets.group_by("sender", "port", "receiver")
        .agg(
            packets=pl.len(),
            segments=pl.col("segments").sum(),
            bytes=pl.col("bytes").sum(),
            busiest_step_segments=pl.col("segments").max(),
        )
        .sort("sender", "port")
    )
    nodes = _nodes(plan, arrivals)
    outcomes = dict(journal.group_by("outcome").agg(pl.len()).collect(engine="streaming").iter_rows())
    complete = _complete(plan, arrivals)
    heaviest = _heaviest(packets)
    expected = int(nodes["expected"].sum())
    metrics: dict[str, Metric] = {
        "steps": len(steps),
        "packets": len(packets),
        "segments": int(packets["segments"].sum()),
        "bytes": int(packets["bytes"].sum()),
        "max_link_segments_per_step": int(links["busiest_step_segments"].max() or 0),  # type: ignore[arg-type]
        "max_link_segments": int(links["segments"].max() or 0),  # type: ignore[arg-type]
        "links_used": len(links),
        "expected_deliveries": expected,
        "deliveries": int(complete["delivered"].sum()),
        "intact_deliveries": int(complete["intact"].sum()),
        "delivery_ratio": int(complete["intact"].sum()) / expected if expected else 0.0,
        "duplicates": outcomes.get("duplicate", 0),
        "relays": outcomes.get("relay", 0),
        "lost": outcomes.get("lost", 0),
        "corrupt": outcomes.get("corrupt", 0),
        "illegal_hops": _illegal_hops(plan, journal, packets, links),
        "virtual_seconds": float(steps["virtual_seconds"].sum()),
        "startups": sum(_startups(size, plan.scenario.packet_limit) for size in heaviest["bytes"]),
        "transfer_bytes": sum(heaviest["bytes"]),
        "heaviest_link_segments_per_step": tuple(heaviest["segments"]),
        "heaviest_link_bytes_per_step": tuple(heaviest["bytes"]),
        "senders_per_step": tuple(steps["sending"]),
        "receivers_per_step": tuple(steps["receiving"][: _last_receipt(steps)]),
        "average_receive_step": _average_step(arrivals),
    }
    return Measurement(nodes, links, steps, metrics)


def _arrivals(plan: Plan, journal: pl.LazyFrame) -> pl.DataFrame:
    """Arrivals at ranks that the segment is meant for and that never crash: one row a piece and receiver."""
    return (
        journal.filter(
            pl.col("outcome").is_in(["first", "corrupt"]),
            (pl.col("target") == EVERYBODY) | (pl.col("target") == pl.col("receiver")),
            pl.col("receiver") != pl.col("origin"),
            ~pl.col("receiver").is_in(list(plan.crashed)),
        )
        .group_by("receiver", "origin", "segment")
        .agg(step=pl.col("step").min(), intact=(pl.col("outcome") == "first").any())
        .collect(engine="streaming")
    )


def _complete(plan: Plan, arrivals: pl.DataFrame) -> pl.DataFrame:
    """Messages due to a healthy rank of which it has every piece; in a reduce, every partial result of every piece."""
    algorithm = plan.algorithm
    arrivals = arrivals.filter(~pl.col("origin").is_in(_silent(plan)))
    numbers = range(plan.job.messages)
    due = pl.DataFrame(
        {"message": numbers, "due": [algorithm.pieces_due(number) for number in numbers]},
        schema={"message": pl.Int32, "due": pl.UInt32},
    )
    by = ["receiver"] if plan.job.collective is Collective.REDUCE else ["receiver", "origin"]
    return (
        arrivals.group_by(*by, message=pl.col("segment") // algorithm.pieces)
        .agg(got=pl.len(), intact=pl.col("intact").all())
        .join(due, "message")
        .with_columns(delivered=pl.col("got") == pl.col("due"))
        .with_columns(intact=pl.col("intact") & pl.col("delivered"))
    )


def _last_receipt(steps: pl.DataFrame) -> int:
    """The last step in which anybody received something new: flooding goes on for one more where cycles are odd."""
    return int(steps.filter(pl.col("receiving") > 0)["step"].max() or 0)  # type: ignore[arg-type]


def _average_step(arrivals: pl.DataFrame) -> float:
    """Mean over receivers of the step of their last arrival."""
    last = arrivals.group_by("receiver").agg(pl.col("step").max())["step"]
    return float(last.mean() or 0.0)  # type: ignore[arg-type]


def _startups(size: int, limit: int | None) -> int:
    """Start-ups that a link needs for `size` bytes in one step."""
    return ceil(size / limit) if limit else min(size, 1)


def _heaviest(packets: pl.DataFrame) -> pl.DataFrame:
    """Most segments and most bytes on one directed link, step by step; 0 in steps in which nothing is sent."""
    count = int(packets["step"].max() or 0)  # type: ignore[arg-type]
    most = packets.group_by("step").agg(pl.col("segments").max(), pl.col("bytes").max())
    every = pl.DataFrame({"step": range(1, count + 1)}, schema={"step": pl.Int32})
    return every.join(most, "step", "left").fill_null(0).sort("step")


def _steps(plan: Plan, packets: pl.DataFrame, arrivals: pl.DataFrame) -> pl.DataFrame:
    count = int(packets["step"].max() or 0)  # type: ignore[arg-type]
    scenario, order = plan.scenario, plan.topology.order
    limit = scenario.packet_limit

    def virtual(size: int) -> float:
        return scenario.startup * _startups(size, limit) + scenario.per_byte * size

    traffic = packets.group_by("step").agg(
        sending=pl.col("sender").n_unique(),
        packets=pl.len(),
        segments=pl.col("segments").sum(),
        bytes=pl.col("bytes").sum(),
        max_link_segments=pl.col("segments").max(),
        heaviest=pl.col("bytes").max(),
    )
    got = arrivals.group_by("step").agg(receiving=pl.col("receiver").n_unique())
    busy = (
        pl.concat([packets.select("step", rank="sender"), arrivals.select("step", rank="receiver")])
        .group_by("step")
        .agg(active=pl.col("rank").n_unique())
    )
    every = pl.DataFrame({"step": range(1, count + 1)}, schema={"step": pl.Int32})
    table = every.join(traffic, "step", "left").join(got, "step", "left").join(busy, "step", "left").fill_null(0)
    return (
        table.with_columns(
            free=order - pl.col("active").cast(pl.Int64),
            virtual_seconds=pl.col("heaviest").map_elements(virtual, return_dtype=pl.Float64),
        )
        .select(
            "step",
            "sending",
            "receiving",
            "active",
            "free",
            "packets",
            "segments",
            "bytes",
            "max_link_segments",
            "virtual_seconds",
        )
        .sort("step")
    )


def _nodes(plan: Plan, arrivals: pl.DataFrame) -> pl.DataFrame:
    topology = plan.topology
    received = arrivals.group_by(rank="receiver").agg(
        received=pl.len(), first_step=pl.col("step").min(), last_step=pl.col("step").max()
    )
    table = pl.DataFrame({"rank": topology.ranks()}, schema={"rank": pl.Int32}).with_columns(
        label=pl.Series([topology.label(rank) for rank in topology.ranks()]),
    )
    crashed = list(plan.crashed)
    return (
        table.join(received, "rank", "left")
        .with_columns(
            pl.col("received").fill_null(0),
            expected=_expected(plan),
            state=pl.when(pl.col("rank").is_in(crashed)).then(pl.lit("crashed")).otherwise(pl.lit("alive")),
        )
        .sort("rank")
    )


def _silent(plan: Plan) -> list[Rank]:
    """Crashed ranks whose messages are due to nobody: those of a collective in which many ranks have something to say."""
    many = plan.job.collective in (Collective.GATHER, Collective.ALLGATHER, Collective.ALLTOALL)
    return list(plan.crashed) if many else []


def _expected(plan: Plan) -> pl.Expr:
    """Messages due to each rank: none to one that crashes, and none from one where many are sources."""
    job, rank = plan.job, pl.col("rank")
    others = plan.topology.order - 1 - len(_silent(plan))
    match job.collective:
        case Collective.BROADCAST | Collective.SCATTER:
            due = pl.when(rank == job.source).then(0).otherwise(job.messages)
        case Collective.GATHER:
            due = pl.when(rank == job.source).then(others * job.messages).otherwise(0)
        case Collective.REDUCE:
            due = pl.when(rank == job.source).then(job.messages).otherwise(0)
        case Collective.ALLGATHER | Collective.ALLTOALL:
            due = pl.lit(others * job.messages)
    return pl.when(rank.is_in(list(plan.crashed))).then(0).otherwise(due)


# --- the audit: what no algorithm can have done ----------------------------------------------------------------------


def _illegal_hops(plan: Plan, journal: pl.LazyFrame, packets: pl.DataFrame, links: pl.DataFrame) -> int:
    """Hops that the communication model, the topology or the faults of the plan rule out, whatever the algorithm.

    Nodes and engines enforce all of this while a run goes on; here it is read off the journal once more. A hop counts
    once for every rule that it breaks.
    """
    rules = [_misnamed(journal), _untimely(plan, journal), _unheard(journal), _crowded(plan, journal, packets)]
    broken: int = sum(rule.select(pl.len()).collect(engine="streaming").item() for rule in rules)
    return broken + _astray(plan, links)


def _misnamed(journal: pl.LazyFrame) -> pl.LazyFrame:
    """Arrivals with a wrong outcome: `relay` is for others; of the rest, one of a piece is `first`, and none is earlier."""
    meant = (pl.col("target") == EVERYBODY) | (pl.col("target") == pl.col("receiver"))
    back = pl.col("receiver") == pl.col("origin")
    first, duplicate, relay = (pl.col("outcome") == name for name in ("first", "duplicate", "relay"))
    wrong = journal.filter((first & (back | ~meant)) | (duplicate & ~meant) | (relay & meant))
    pieces = (
        journal.filter(first | duplicate, ~back)
        .group_by("receiver", *PIECE)
        .agg(firsts=first.sum(), began=pl.col("step").filter(first).min(), step=pl.col("step").min())
        .filter((pl.col("firsts") != 1) | (pl.col("began") > pl.col("step")))
    )
    return pl.concat([wrong.select("step"), pieces.select("step")])


def _untimely(plan: Plan, journal: pl.LazyFrame) -> pl.LazyFrame:
    """Hops that do not fit the crashes: who crashed sends nothing, what it is sent is lost, and nothing else is.

    Without a crash nothing is corrupt either; with one, what is folded of half a tree is.
    """
    lost = pl.col("outcome") == "lost"
    if not plan.crashed:
        return journal.filter(lost | (pl.col("outcome") == "corrupt")).select("step")
    never = 2**31 - 1
    sender_gone, receiver_gone = (
        pl.col("step") >= pl.col(end).replace_strict(dict(plan.crashed), default=never, return_dtype=pl.Int64)
        for end in ("sender", "receiver")
    )
    return journal.filter(sender_gone | (receiver_gone != lost)).select("step")


def _unheard(journal: pl.LazyFrame) -> pl.LazyFrame:
    """Pieces that were sent by a rank that neither made them nor got them in an earlier step.

    Who makes a segment is its origin, or its target (an answer goes back under the name of what it answers).
    """
    arrived = journal.filter(pl.col("outcome") != "lost")
    heard = arrived.group_by("receiver", *PIECE).agg(heard=pl.col("step").min())
    return (
        journal.filter(pl.col("sender") != pl.col("origin"), pl.col("sender") != pl.col("target"))
        .join(heard, how="left", left_on=["sender", *PIECE], right_on=["receiver", *PIECE])
        .filter(pl.col("heard").is_null() | (pl.col("heard") >= pl.col("step")))
        .select("step")
    )


def _crowded(plan: Plan, journal: pl.LazyFrame, packets: pl.DataFrame) -> pl.LazyFrame:
    """Packets larger than a link takes, and ranks that used more ports in a step than the port model has."""
    job, capacity = plan.job, plan.algorithm.link_capacity
    full = packets.lazy().filter(pl.col("segments") > (capacity or 2**31)).select("step")
    if job.port_model is PortModel.ALL_PORT and job.duplex is Duplex.FULL:
        return full
    reverse = {port: plan.topology.reverse_port(port) for port in range(plan.topology.degree)}
    back = pl.col("port").replace_strict(reverse, default=-1, return_dtype=pl.Int16)
    arrived = journal.filter(pl.col("outcome") != "lost").select("step", back, rank="receiver", sent=False)
    used = (
        pl.concat([packets.lazy().select("step", "port", rank="sender", sent=True), arrived.unique()])
        .group_by("step", "rank")
        .agg(sends=pl.col("sent").sum(), receipts=(~pl.col("sent")).sum(), ports=pl.col("port").n_unique())
    )
    sends, receipts, ports = pl.col("sends"), pl.col("receipts"), pl.col("ports")
    crowded = {
        PortModel.ALL_PORT: pl.lit(value=False),
        PortModel.ONE_PORT: (sends > 1) | (receipts > 1),
        PortModel.EXCHANGE: ports > 1,
        PortModel.SEND_OR_RECEIVE: sends + receipts > 1,
    }[job.port_model]
    if job.duplex is Duplex.HALF:
        crowded |= sends + receipts > ports
    return pl.concat([full, used.filter(crowded).select("step")])


def _astray(plan: Plan, links: pl.DataFrame) -> int:
    """Packets between ranks that no link of the topology joins at that port."""
    topology = plan.topology
    sample = links.gather_every(1 + len(links) // AUDITED_LINKS).select("sender", "port", "receiver", "packets")
    return sum(
        packets
        for sender, port, receiver, packets in sample.iter_rows()
        if not 0 <= port < topology.degree or topology.neighbour(sender, port) != receiver
    )
