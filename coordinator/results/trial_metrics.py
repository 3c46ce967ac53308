"""What a trial did, counted at once from its packed journal rows: for campaigns, which run many small networks.

`measure` answers everything about one run, of any size, from Parquet; this answers what a campaign asks, in less than a
millisecond, by the same definitions. The tests hold the two against each other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import polars as pl
from numpy.typing import NDArray

from coordinator.history.journal import COLUMNS, OUTCOMES, RECORD, SORT_KEY
from coordinator.planning.plan import Plan
from coordinator.results.metrics import Metric
from coordinator.results.voting import elect
from emunode.engine.rank_set import AlteredCopy
from emunode.model import ALL_RANKS, Collective, HopOutcome, Rank

Records = NDArray[np.void]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Tally:
    """The counts of one trial."""

    metrics: dict[str, Metric]
    """Of the names that `measure` gives, those that need no more than the deliveries and the traffic."""
    unserved: tuple[Rank, ...]
    """Healthy ranks that miss a message due to them, ascending."""
    least_copies: int
    """Fewest intact copies of a piece, over the pieces due to healthy ranks; 0 where one is missing."""
    journal_hash: str
    """As a run has it: over the sorted rows."""


def records_of(rows: Iterable[bytes | bytearray]) -> Records:
    """Packed rows as records, sorted as a journal is."""
    records = np.frombuffer(b"".join(rows), dtype=RECORD)
    return records[np.lexsort([records[name] for name in ("bytes", "outcome", *reversed(SORT_KEY))])]


def tally(plan: Plan, records: Records, altered_copies: Sequence[AlteredCopy] = ()) -> Tally:
    """Count a trial; `records` are all of its rows, sorted, and `altered_copies` the altered copies that arrived."""
    due = messages_due(plan)
    outcomes = np.bincount(records["outcome"], minlength=len(HopOutcome)).tolist()
    pieces, copies, right = (
        _elected(plan, records, altered_copies) if outcomes[HopOutcome.CORRUPT] else _arrived(plan, records)
    )
    full, whole = _complete(plan, pieces, right)
    expected, intact = int(due.sum()), int(whole.sum())
    packets = np.unique(_key(records["step"], records["sender"], records["port"]))
    metrics: dict[str, Metric] = {
        "steps": int(records["step"].max(initial=0)),
        "packets": len(packets),
        "segments": len(records),
        "bytes": int(records["bytes"].sum(dtype=np.int64)),
        "expected_deliveries": expected,
        "deliveries": int(full.sum()),
        "intact_deliveries": intact,
        "delivery_ratio": intact / expected if expected else 0.0,
        "duplicates": outcomes[HopOutcome.DUPLICATE],
        "relays": outcomes[HopOutcome.RELAY],
        "lost": outcomes[HopOutcome.LOST],
        "corrupt": outcomes[HopOutcome.CORRUPT],
    }
    least = int(copies.min(initial=NOTHING_DUE)) if intact == expected else 0
    unserved = tuple(np.flatnonzero(whole < due).tolist())
    return Tally(metrics, unserved, least, blake2b(records.tobytes(), digest_size=16).hexdigest())


def messages_due(plan: Plan) -> Counts:
    """Messages due to each rank: none to one with a fault of its own, and none from one where many are sources."""
    spec, order = plan.spec, plan.topology.order
    others = order - 1 - len(_silent(plan))
    match spec.collective:
        case Collective.BROADCAST | Collective.SCATTER:
            due = np.full(order, spec.messages)
            due[spec.source] = 0
        case Collective.GATHER | Collective.REDUCE:
            due = np.zeros(order, dtype=np.int64)
            due[spec.source] = spec.messages * (others if spec.collective is Collective.GATHER else 1)
        case _:
            due = np.full(order, others * spec.messages)
    due[list(plan.states)] = 0
    return due


def _silent(plan: Plan) -> list[Rank]:
    many = plan.spec.collective in (Collective.GATHER, Collective.ALLGATHER, Collective.ALLTOALL)
    return list(plan.states) if many else []


Pieces = tuple[Counts, Counts, NDArray[np.bool_]]
"""Keys of (receiver, origin, segment), ascending; intact copies of each; and whether it is right in the end."""


def _arrived(plan: Plan, records: Records) -> Pieces:
    """Pieces at ranks that they are meant for and that have no fault of their own, where nothing was altered."""
    receiver, origin, target = records["receiver"], records["origin"], records["target"]
    faulty = np.zeros(plan.topology.order, dtype=np.bool_)
    faulty[list(plan.states)] = True
    meant = (records["outcome"] <= HopOutcome.DUPLICATE) & ((target == ALL_RANKS) | (target == receiver))
    meant &= (receiver != origin) & ~faulty[receiver]
    keys, copies = np.unique(_key(receiver[meant], origin[meant], records["segment"][meant]), return_counts=True)
    return keys, copies, np.ones(len(keys), dtype=np.bool_)


def _elected(plan: Plan, records: Records, altered_copies: Sequence[AlteredCopy]) -> Pieces:
    """The same by the votes on them."""
    frame = pl.DataFrame({name: records[name] for name in COLUMNS})
    frame = frame.with_columns(pl.col("outcome").cast(pl.UInt8).cat.to(OUTCOMES))
    elections = elect(plan, frame.lazy(), altered_copies)
    keys = _key(*(elections[name].to_numpy() for name in ("receiver", "origin", "segment")))
    return keys, elections["right"].to_numpy().astype(np.int64), (elections["elected"] == "right").to_numpy()


def _complete(plan: Plan, pieces: Counts, right: NDArray[np.bool_]) -> tuple[Counts, Counts]:
    """Messages that each rank has, and messages that it has with every piece right."""
    order = plan.topology.order
    silent = np.zeros(order, dtype=np.bool_)
    silent[_silent(plan)] = True
    rank, origin, segment = _parts(pieces)
    heard = ~silent[origin]
    rank, origin, segment, right = rank[heard], origin[heard], segment[heard], right[heard]
    if plan.spec.collective is Collective.REDUCE:  # what counts is the sum
        origin = np.zeros_like(origin)
    keys, message_of = np.unique(
        _key(rank, origin, segment // plan.algorithm.segments_per_message), return_inverse=True
    )
    receiver, _, message = _parts(keys)
    wanted = np.array([plan.algorithm.segments_due(number) for number in range(plan.spec.messages)])[message]
    full = np.bincount(message_of, minlength=len(keys)) == wanted
    whole = full & (np.bincount(message_of, weights=~right, minlength=len(keys)) == 0)
    complete, intact = (np.bincount(receiver[kept], minlength=order) for kept in (full, whole))
    return complete, intact


BITS = 21
"""Ranks, ports and segments of the networks that campaigns run fit in so many bits; `tally` is for those."""
NOTHING_DUE = 2**31 - 1


def _key(*columns: NDArray[np.signedinteger]) -> Counts:
    """Three columns of small numbers as one."""
    key = columns[0].astype(np.int64)
    for column in columns[1:]:
        key = key << BITS | column
    return key


def _parts(keys: Counts) -> tuple[Counts, Counts, Counts]:
    mask = (1 << BITS) - 1
    return keys >> 2 * BITS, keys >> BITS & mask, keys & mask
