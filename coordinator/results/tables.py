"""The tables of a run directory: nodes, links, steps and faults."""

from array import array
from collections.abc import Mapping
from itertools import chain
from math import ceil
from typing import Final

import numpy as np
import polars as pl

from coordinator.features.base import ResolvedRun
from coordinator.history.timetable import Timetable, with_starts
from coordinator.results.deliveries import messages_due
from coordinator.results.queries import collect
from emunode.faults.effects import ALWAYS
from emunode.faults.kinds import FOREVER, Fault, LinkFault, NodeFault, kind_of, value_names
from emunode.host.placement import Placement
from emunode.timed.cost_model import NANO
from emunode.topologies.base import ABSENT, Topology

STEP_COLUMNS = (
    "step", "sending", "receiving", "active", "free", "packets", "segments", "bytes", "max_link_segments",
    "virtual_seconds",
)  # fmt: skip
HOST_TRAFFIC: Final = ("links_within_hosts", "links_across_hosts", "packets_within_hosts", "packets_across_hosts")
"""Keys of `summary.json` of runs with hosts. A network without a list of idle links has no counts of links."""
LISTED_LINKS = 2_000_000
"""Up to this many directed links, links.parquet lists idle links too."""


def startups(size: int, limit: int | None) -> int:
    """Return the start-ups that a link needs for `size` bytes in one step, each for at most `limit` bytes."""
    return ceil(size / limit) if limit else min(size, 1)


def packets_of(journal: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row per packet: everything that crossed a directed link in one step."""
    return journal.group_by("step", "sender", "port", "receiver").agg(
        segments=pl.len(), bytes=pl.col("bytes").cast(pl.Int64).sum()
    )


def used_links(packets: pl.LazyFrame) -> pl.LazyFrame:
    """Return one row per directed link that carried anything."""
    return (
        packets.group_by("sender", "port", "receiver")
        .agg(
            packets=pl.len(),
            segments=pl.col("segments").sum(),
            bytes=pl.col("bytes").sum(),
            busiest_step_segments=pl.col("segments").max(),
        )
        # `group_by` returns groups in any order, and the file has to be the same for the same run.
        .sort("sender", "port")
    )


def link_table(topology: Topology, used: pl.DataFrame) -> pl.DataFrame:
    """Return one row per directed link, idle ones included; only `used` ones in networks of more than LISTED_LINKS.

    Links that the topology does not have stay in the table.
    """
    # A table of all links of the largest networks would be longer than the journal.
    if 2 * topology.link_count > LISTED_LINKS:
        return used
    # An array of C integers: a list of Python ints takes several times as much memory.
    slots = array("i", chain.from_iterable(map(topology.neighbours, topology.ranks())))
    receivers = np.frombuffer(slots, dtype=np.int32)
    present = np.flatnonzero(receivers != ABSENT)
    every = pl.DataFrame(
        {
            "sender": (present // topology.degree).astype(np.int32),
            "port": (present % topology.degree).astype(np.int16),
            "receiver": receivers[present],
        }
    )
    by = every.columns
    # A full join keeps links that the topology does not have, for the audit to see.
    return every.join(used, by, "full", coalesce=True).fill_null(0).sort(by)


def step_table(plan: ResolvedRun, packets: pl.DataFrame, arrivals: pl.DataFrame) -> pl.LazyFrame:
    """Return one row per step, steps without packets included.

    The column `max_link_bytes`, the most on a link, is not part of the file.
    """
    # Steps without sends occur in runs with late or delayed packets, and must not shift the others.
    last = int(packets["step"].max() or 0)  # type: ignore[arg-type]
    table = pl.LazyFrame({"step": range(1, last + 1)}, schema={"step": pl.Int32})
    crossing, arriving = packets.lazy(), arrivals.lazy()
    traffic = crossing.group_by("step").agg(
        sending=pl.col("sender").n_unique(),
        packets=pl.len(),
        segments=pl.col("segments").sum(),
        bytes=pl.col("bytes").sum(),
        max_link_segments=pl.col("segments").max(),
        max_link_bytes=pl.col("bytes").max(),
    )
    receiving = arriving.group_by("step").agg(receiving=pl.col("receiver").n_unique())
    # A node that sends and receives in one step is active once.
    active = (
        pl.concat([crossing.select("step", rank="sender"), arriving.select("step", rank="receiver")])
        .group_by("step")
        .agg(active=pl.col("rank").n_unique())
    )
    for counts in (traffic, receiving, active):
        table = table.join(counts, "step", "left")
    # The link with the most bytes needs the most start-ups and the longest transfer, so it alone sets the time of its
    # step.
    size, limit = pl.col("max_link_bytes"), plan.scenario.packet_limit
    # As `startups`, which rounds up.
    begun = (size + limit - 1) // limit if limit else size.clip(upper_bound=1)
    return (
        table.fill_null(0)
        .with_columns(
            free=plan.topology.order - pl.col("active").cast(pl.Int64),
            virtual_seconds=begun * plan.scenario.startup + size * plan.scenario.per_byte,
        )
        .select(*STEP_COLUMNS, "max_link_bytes")
        .sort("step")
    )


def node_table(plan: ResolvedRun, arrivals: pl.DataFrame) -> pl.DataFrame:
    """Return one row per node: the segments it received, when, and the messages due to it."""
    topology, due = plan.topology, messages_due(plan)
    received = arrivals.group_by(rank="receiver").agg(
        received=pl.len(), first_step=pl.col("step").min(), last_step=pl.col("step").max()
    )
    table = pl.DataFrame({"rank": topology.ranks()}, schema={"rank": pl.Int32}).with_columns(
        label=pl.Series([topology.label(rank) for rank in topology.ranks()]),
        # `messages_due` can exceed 32 bits in all-to-all collectives of large networks.
        expected=pl.Series(due, dtype=pl.Int32 if due.max() < 2**31 else pl.Int64),
    )
    return (
        table.join(received, "rank", "left")
        .select(
            "rank",
            "label",
            pl.col("received").fill_null(0),
            "first_step",
            "last_step",
            "expected",
            state=pl.col("rank").replace_strict(dict(plan.judged.states), default="alive", return_dtype=pl.String),
        )
        .sort("rank")
    )


def fault_records(
    plan: ResolvedRun, journal: pl.LazyFrame, timetable: Timetable | None = None, rows: int | None = None
) -> list[dict[str, object]]:
    """Return the entries of faults.json: each fault with its first evidence.

    The evidence is a step. A fault with times has these too. `rows` is a bound on the length of the journal, if one is
    known.
    """
    if not plan.faults:
        return []
    ranks = [fault.rank for fault in plan.faults if isinstance(fault, NodeFault)]
    senders = [fault.sender for fault in plan.faults if isinstance(fault, LinkFault)]
    nearby = journal.filter(
        # Only hops next to a fault can be evidence of it.
        pl.col("receiver").is_in(ranks) | pl.col("sender").is_in(ranks) | pl.col("sender").is_in(senders)
    )
    if timetable is None or timetable.inputs is None:
        (hops,) = collect([nearby.select("step", "sender", "port", "receiver", "outcome").unique()], rows)
        return [
            _fault_record(plan, fault, hops.filter(pl.col("step").is_between(fault.step, fault.end)))
            for fault in plan.faults
        ]
    hops = with_starts(nearby, timetable).select("step", "sender", "port", "receiver", "outcome", "start").collect()
    records = []
    for fault, (start, end, _) in zip(plan.faults, timetable.inputs.faults, strict=True):
        # A packet that was in flight when the fault began left no more than its occupancy before.
        since = start - timetable.inputs.steps.longest
        evidence = hops.filter(pl.col("start").is_between(since, end, closed="none"))
        times = {"seconds": start / NANO, "until_seconds": end / NANO if end < ALWAYS else None}
        records.append(_fault_record(plan, fault, evidence) | times)
    return records


def _fault_record(plan: ResolvedRun, fault: Fault, hops: pl.DataFrame) -> dict[str, object]:
    """Return the entry of one fault.

    `hops` are the hops next to faults while this fault was in force; hops of other steps belong to other faults.
    """
    label = plan.topology.label
    record: dict[str, object] = {"kind": kind_of(fault), "step": fault.step}
    if isinstance(fault, NodeFault):
        record |= {"rank": fault.rank, "label": label(fault.rank)}
        # Each kind of fault names the end of a hop where it shows: a crashed node at receivers, a byzantine one at
        # senders.
        place = pl.col(fault.shown_as) == fault.rank
        if "start" in hops.columns and not fault.slows:
            # Under the timed clock a crash also cuts the packet that the node is sending: it is lost on its way.
            place |= (pl.col("sender") == fault.rank) & (pl.col("outcome") == "lost")
    else:
        assert isinstance(fault, LinkFault)
        receiver = plan.topology.neighbour(fault.sender, fault.port)
        record |= {"sender": fault.sender, "port": fault.port, "label": f"{label(fault.sender)}>{label(receiver)}"}
        place = (pl.col("sender") == fault.sender) & (pl.col("port") == fault.port)
    record |= {name: getattr(fault, name) for name in value_names(type(fault))}
    record["last"] = fault.end if fault.end < FOREVER else None
    evidence = hops.filter(place, pl.col("outcome").is_in(fault.evidence))
    return {**record, "seen": evidence["step"].min()}


def host_traffic(topology: Topology, placement: Placement, links: pl.DataFrame) -> Mapping[str, int]:
    """Count bidirectional links and packets within hosts and across hosts, given the table of directed links of a run."""
    hosts = np.array([placement.host(rank) for rank in topology.ranks()])
    across = hosts[links["sender"].to_numpy()] != hosts[links["receiver"].to_numpy()]
    packets = links["packets"].to_numpy()
    counted = {"packets_within_hosts": int(packets[~across].sum()), "packets_across_hosts": int(packets[across].sum())}
    if 2 * topology.link_count > LISTED_LINKS:
        return counted
    # The table has both directions of every link.
    crossing = int(across.sum()) // 2
    return {"links_within_hosts": topology.link_count - crossing, "links_across_hosts": crossing, **counted}
