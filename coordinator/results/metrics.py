"""What a run did, from its journal and its plan alone: the tables of the run directory and the metrics of the summary."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil

import numpy as np
import polars as pl

from coordinator.planning.plan import Plan
from coordinator.results.audit import illegal_hops
from coordinator.results.structure import structure_metrics
from coordinator.results.voting import elect
from emunode.engine.rank_set import AlteredCopy
from emunode.faults.kinds import FOREVER, Fault, LinkFault, NodeFault, kind_of
from emunode.model import ALL_RANKS, Collective, Rank
from emunode.topologies.base import Topology

LISTED_LINKS = 2_000_000
"""Up to this many directed links, links.parquet lists those that carried nothing too."""
Metric = int | float | tuple[int, ...]


@dataclass(frozen=True)
class Measurement:
    """Tables by node, link and step, and the metrics that claims are held against."""

    nodes: pl.DataFrame
    links: pl.DataFrame
    steps: pl.DataFrame
    metrics: dict[str, Metric]
    faults: list[dict[str, object]]
    """What was broken, when, and in which step it first showed."""
    elections: pl.DataFrame | None
    """Pieces of which altered copies came and copies were voted on; None where there was nothing to vote on."""
    cut_off: tuple[Rank, ...] = ()
    """Healthy ranks, ascending, that miss a message due to them; in a gather, healthy ranks whose messages do not all
    reach the target."""


def measure(plan: Plan, journal: pl.LazyFrame, altered_copies: Sequence[AlteredCopy] = ()) -> Measurement:
    """Measure a finished run. Nothing here knows what the algorithm meant to do.

    `altered_copies` are the altered copies that arrived, where the scenario has redundancy.
    """
    packets = (
        journal.group_by("step", "sender", "port", "receiver")
        .agg(segments=pl.len(), bytes=pl.col("bytes").cast(pl.Int64).sum())
        .collect(engine="streaming")
    )
    outcomes = dict(journal.group_by("outcome").agg(pl.len()).collect(engine="streaming").iter_rows())
    elections = elect(plan, journal, altered_copies) if outcomes.get("corrupt") else None
    arrivals = _arrivals(plan, journal) if elections is None else _elected(elections)
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
        **_votes(plan, arrivals, elections),
        "illegal_hops": illegal_hops(plan, journal, packets, links),
        "virtual_seconds": float(steps["virtual_seconds"].sum()),
        "startups": sum(startups(size, plan.scenario.packet_limit) for size in heaviest["bytes"]),
        "transfer_bytes": sum(heaviest["bytes"]),
        "heaviest_link_segments_per_step": tuple(heaviest["segments"]),
        "heaviest_link_bytes_per_step": tuple(heaviest["bytes"]),
        "senders_per_step": tuple(steps["sending"]),
        "receivers_per_step": tuple(steps["receiving"][: _last_receipt(steps)]),
        "average_receive_step": _average_step(arrivals),
        **structure_metrics(plan, journal),
    }
    contested = None
    if elections is not None and plan.spec.redundancy > 1:
        contested = elections.filter(pl.col("right") < pl.col("copies")).drop("step")
    every = _with_idle(plan.topology, links)
    return Measurement(nodes, every, steps, metrics, _broken(plan, journal), contested, _cut_off(plan, nodes, complete))


def _with_idle(topology: Topology, used: pl.DataFrame) -> pl.DataFrame:
    """Every directed link, those that carried nothing too; of very large networks, and astray, only what was used."""
    ends = topology.order * topology.degree
    if ends > LISTED_LINKS:
        return used
    receivers = array("i", chain.from_iterable(map(topology.neighbours, topology.ranks())))
    every = pl.DataFrame({"receiver": np.frombuffer(receivers, dtype=np.int32)}).select(
        sender=pl.int_range(ends, dtype=pl.Int32) // topology.degree,
        port=(pl.int_range(ends, dtype=pl.Int32) % topology.degree).cast(pl.Int16),
        receiver="receiver",
    )
    by = every.columns
    return every.join(used, by, "full", coalesce=True).fill_null(0).sort(by)


def _arrivals(plan: Plan, journal: pl.LazyFrame) -> pl.DataFrame:
    """Arrivals at ranks that the segment is meant for and that have no fault of their own: one row a piece and receiver."""
    return (
        journal.filter(
            pl.col("outcome") == "first",
            (pl.col("target") == ALL_RANKS) | (pl.col("target") == pl.col("receiver")),
            pl.col("receiver") != pl.col("origin"),
            ~pl.col("receiver").is_in(list(plan.states)),
        )
        .group_by("receiver", "origin", "segment")
        .agg(step=pl.col("step").min(), intact=pl.lit(value=True))
        .collect(engine="streaming")
    )


def _elected(elections: pl.DataFrame) -> pl.DataFrame:
    """The same where copies were altered: a piece is intact if the right one was elected."""
    return elections.select("receiver", "origin", "segment", "step", intact=pl.col("elected") == "right")


def _votes(plan: Plan, arrivals: pl.DataFrame, elections: pl.DataFrame | None) -> dict[str, Metric]:
    """How many pieces were elected rightly, wrongly, or not at all, where there is redundancy."""
    found: dict[str, int] = {}
    if plan.spec.redundancy > 1:
        found = {"right": len(arrivals)} if elections is None else dict(elections["elected"].value_counts().iter_rows())
    return {f"elected_{what}": found.get(what, 0) for what in ("right", "wrong", "none")}


def _broken(plan: Plan, journal: pl.LazyFrame) -> list[dict[str, object]]:
    """Every fault as it stands in faults.json."""
    if not plan.faults:
        return []
    ranks = [fault.rank for fault in plan.faults if isinstance(fault, NodeFault)]
    senders = [fault.sender for fault in plan.faults if isinstance(fault, LinkFault)]
    near = journal.filter(
        pl.col("receiver").is_in(ranks) | pl.col("sender").is_in(ranks) | pl.col("sender").is_in(senders)
    )
    hops = near.select("step", "sender", "port", "receiver", "outcome").unique().collect(engine="streaming")
    return [_record(plan, fault, hops) for fault in plan.faults]


def _record(plan: Plan, fault: Fault, hops: pl.DataFrame) -> dict[str, object]:
    label = plan.topology.label
    record: dict[str, object] = {"kind": kind_of(fault), "step": fault.step}
    if isinstance(fault, NodeFault):
        record |= {"rank": fault.rank, "label": label(fault.rank)}
        where = pl.col("sender" if fault.alters_payload else "receiver") == fault.rank
    else:
        assert isinstance(fault, LinkFault)
        there = plan.topology.neighbour(fault.sender, fault.port)
        record |= {"sender": fault.sender, "port": fault.port, "label": f"{label(fault.sender)}>{label(there)}"}
        where = (pl.col("sender") == fault.sender) & (pl.col("port") == fault.port)
    record |= {name: getattr(fault, name) for name in ("rate", "steps", "packet") if hasattr(fault, name)}
    record["last"] = fault.end if fault.end < FOREVER else None
    shown = hops.filter(
        where, pl.col("step").is_between(fault.step, fault.end), pl.col("outcome").is_in(fault.evidence)
    )
    return {**record, "seen": shown["step"].min()}


def _complete(plan: Plan, arrivals: pl.DataFrame) -> pl.DataFrame:
    """Messages due to a healthy rank of which it has every piece; in a reduce, every partial result of every piece."""
    algorithm = plan.algorithm
    arrivals = arrivals.filter(~pl.col("origin").is_in(_silent(plan)))
    numbers = range(plan.spec.messages)
    due = pl.DataFrame(
        {"message": numbers, "due": [algorithm.segments_due(number) for number in numbers]},
        schema={"message": pl.Int32, "due": pl.UInt32},
    )
    by = ["receiver"] if plan.spec.collective is Collective.REDUCE else ["receiver", "origin"]
    return (
        arrivals.group_by(*by, message=pl.col("segment") // algorithm.segments_per_message)
        .agg(got=pl.len(), intact=pl.col("intact").all())
        .join(due, "message")
        .with_columns(delivered=pl.col("got") == pl.col("due"))
        .with_columns(intact=pl.col("intact") & pl.col("delivered"))
    )


def _cut_off(plan: Plan, nodes: pl.DataFrame, complete: pl.DataFrame) -> tuple[Rank, ...]:
    """Ranks that miss messages due to them; in a gather, those whose messages the target misses."""
    spec = plan.spec
    by = "origin" if spec.collective is Collective.GATHER else "receiver"
    got = complete.group_by(rank=pl.col(by)).agg(got=pl.col("intact").sum().cast(pl.Int64))
    due = nodes.select("rank", "state", due=pl.col("expected").cast(pl.Int64))
    if spec.collective is Collective.GATHER:
        due = due.with_columns(due=pl.when(pl.col("rank") == spec.source).then(0).otherwise(spec.messages))
        due = due.filter(pl.col("state") == "alive", pl.lit(spec.source not in plan.states))
    short = due.join(got, "rank", "left").filter(pl.col("got").fill_null(0) < pl.col("due"))
    return tuple(short["rank"].sort())


def _last_receipt(steps: pl.DataFrame) -> int:
    """The last step in which anybody received something new: flooding goes on for one more where cycles are odd."""
    return int(steps.filter(pl.col("receiving") > 0)["step"].max() or 0)  # type: ignore[arg-type]


def _average_step(arrivals: pl.DataFrame) -> float:
    """Mean over receivers of the step of their last arrival."""
    last = arrivals.group_by("receiver").agg(pl.col("step").max())["step"]
    return float(last.mean() or 0.0)  # type: ignore[arg-type]


def startups(size: int, limit: int | None) -> int:
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
        return scenario.startup * startups(size, limit) + scenario.per_byte * size

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
    return (
        table.join(received, "rank", "left")
        .with_columns(
            pl.col("received").fill_null(0),
            expected=_expected(plan),
            state=pl.col("rank").replace_strict(dict(plan.states), default="alive", return_dtype=pl.String),
        )
        .sort("rank")
    )


def _silent(plan: Plan) -> list[Rank]:
    """Faulty ranks whose messages are due to nobody: those of a collective in which many ranks have something to say."""
    many = plan.spec.collective in (Collective.GATHER, Collective.ALLGATHER, Collective.ALLTOALL)
    return list(plan.states) if many else []


def _expected(plan: Plan) -> pl.Expr:
    """Messages due to each rank: none to one with a fault of its own, and none from one where many are sources.

    A rank that ever crashes, hangs or lies counts as faulty throughout: nothing is promised to it, even if it recovers.
    """
    spec, rank = plan.spec, pl.col("rank")
    others = plan.topology.order - 1 - len(_silent(plan))
    match spec.collective:
        case Collective.BROADCAST | Collective.SCATTER:
            due = pl.when(rank == spec.source).then(0).otherwise(spec.messages)
        case Collective.GATHER:
            due = pl.when(rank == spec.source).then(others * spec.messages).otherwise(0)
        case Collective.REDUCE:
            due = pl.when(rank == spec.source).then(spec.messages).otherwise(0)
        case Collective.ALLGATHER | Collective.ALLTOALL:
            due = pl.lit(others * spec.messages)
    return pl.when(rank.is_in(list(plan.states))).then(0).otherwise(due)
