"""What a trial did, counted at once from its packed journal rows: for campaigns, which run many small networks.

`measure` answers everything about one run, of any size, from Parquet; this answers what a campaign asks, in less than a
millisecond, by the same definitions. The tests hold the two against each other.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from coordinator.journal import RECORD, SORT_KEY
from coordinator.measure import Metric
from coordinator.plan import Plan
from emunode.model import EVERYBODY, Collective, Outcome, Rank

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


def tally(plan: Plan, records: Records) -> Tally:
    """Count a trial; `records` are all of its rows, sorted."""
    due = messages_due(plan)
    full, whole, least = _deliveries(plan, records, due)
    outcomes = np.bincount(records["outcome"], minlength=len(Outcome)).tolist()
    expected = int(due.sum())
    intact = int(whole.sum())
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
        "duplicates": outcomes[Outcome.DUPLICATE],
        "relays": outcomes[Outcome.RELAY],
        "lost": outcomes[Outcome.LOST],
        "corrupt": outcomes[Outcome.CORRUPT],
    }
    unserved = tuple(np.flatnonzero(whole < due).tolist())
    return Tally(metrics, unserved, least, blake2b(records.tobytes(), digest_size=16).hexdigest())


def messages_due(plan: Plan) -> Counts:
    """Messages due to each rank: none to one that crashes, and none from one where many are sources."""
    job, order, crashed = plan.job, plan.topology.order, list(plan.crashed)
    others = order - 1 - len(_silent(plan))
    match job.collective:
        case Collective.BROADCAST | Collective.SCATTER:
            due = np.full(order, job.messages)
            due[job.source] = 0
        case Collective.GATHER | Collective.REDUCE:
            due = np.zeros(order, dtype=np.int64)
            due[job.source] = job.messages * (others if job.collective is Collective.GATHER else 1)
        case _:
            due = np.full(order, others * job.messages)
    due[crashed] = 0
    return due


def _silent(plan: Plan) -> list[Rank]:
    many = plan.job.collective in (Collective.GATHER, Collective.ALLGATHER, Collective.ALLTOALL)
    return list(plan.crashed) if many else []


def _deliveries(plan: Plan, records: Records, due: Counts) -> tuple[Counts, Counts, int]:
    """Messages that each rank has, messages that it has intact, and the fewest copies of a piece due to a healthy rank."""
    order, pieces = plan.topology.order, plan.algorithm.pieces
    receiver, origin, target = records["receiver"], records["origin"], records["target"]
    arrived = (records["outcome"] <= Outcome.DUPLICATE) | (records["outcome"] == Outcome.CORRUPT)
    meant = arrived & ((target == EVERYBODY) | (target == receiver)) & (receiver != origin)
    gone = np.zeros(order, dtype=np.bool_)
    gone[list(plan.crashed)] = True
    silent = np.zeros(order, dtype=np.bool_)
    silent[_silent(plan)] = True
    meant &= ~gone[receiver] & ~silent[origin]
    receiver, origin, segment = receiver[meant], origin[meant], records["segment"][meant]
    right = records["outcome"][meant] != Outcome.CORRUPT
    piece_keys, piece_of = np.unique(_key(receiver, origin, segment), return_inverse=True)
    copies = np.bincount(piece_of, weights=right, minlength=len(piece_keys))
    at, who, number = _parts(piece_keys)
    if plan.job.collective is Collective.REDUCE:  # what counts is the sum
        who = np.zeros_like(at)
    keys, message_of = np.unique(_key(at, who, number // pieces), return_inverse=True)
    rank, _, message = _parts(keys)
    wanted = np.array([plan.algorithm.pieces_due(number) for number in range(plan.job.messages)])[message]
    full = np.bincount(message_of, minlength=len(keys)) == wanted
    whole = full & (np.bincount(message_of, weights=copies == 0, minlength=len(keys)) == 0)
    complete, intact = (np.bincount(rank[kept], minlength=order) for kept in (full, whole))
    least = int(copies.min(initial=2**31)) if (intact >= due).all() and len(copies) else 0
    return complete, intact, least


BITS = 21
"""Ranks, ports and segments of the networks that campaigns run fit in so many bits; `tally` is for those."""


def _key(*columns: NDArray[np.signedinteger]) -> Counts:
    """Three columns of small numbers as one."""
    key = columns[0].astype(np.int64)
    for column in columns[1:]:
        key = key << BITS | column
    return key


def _parts(keys: Counts) -> tuple[Counts, Counts, Counts]:
    mask = (1 << BITS) - 1
    return keys >> 2 * BITS, keys >> BITS & mask, keys & mask
