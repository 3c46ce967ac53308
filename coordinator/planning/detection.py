"""Claims about runs in which nodes detect faults by silence."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Claim
from emunode.algorithms.losses import Interval, Outages
from emunode.faults.byzantine import ByzantineFault
from emunode.faults.kinds import (
    FOREVER,
    KINDS,
    Corrupt,
    Crash,
    Delay,
    Down,
    Drop,
    Duplicate,
    Fault,
    Hang,
    Loss,
    Recover,
    Up,
)
from emunode.model import Detection, Port, Rank
from emunode.topologies.base import Topology

SOURCE = "detection by silence"
BYZANTINE: Final = frozenset(kind for kind in KINDS.values() if issubclass(kind, ByzantineFault))
HARMLESS: Final = BYZANTINE | {Corrupt, Drop, Duplicate}
"""Kinds of faults that leave the signs of life alone."""


def detection_claims(detection: Detection, faults: Sequence[Fault]) -> Iterator[Claim]:
    """Claims about the detectors: perfect where every live neighbour is heard in time, and then as fast as K."""
    kinds = {type(fault) for fault in faults if fault.breaks} - HARMLESS
    delays: Counter[tuple[Rank, Port]] = Counter()
    for fault in faults:
        if isinstance(fault, Delay):
            delays[fault.sender, fault.port] += fault.steps
    returning = any(
        isinstance(fault, Recover | Up) or (isinstance(fault, Hang | Down) and fault.end < FOREVER) for fault in faults
    )
    # Signs of life come at most 1 + delay steps apart, unless something returns and the first sign is still under way.
    in_time = not delays or (1 + max(delays.values()) <= detection.after and not returning)
    if kinds <= {Crash, Hang, Recover, Down, Up, Delay} and in_time:
        yield Claim("false_suspicions", 0, "==", f"{SOURCE}: perfect, K >= 1 + delay")
    # A sign under way puts the detection off, as does a rank that hangs, or has just recovered.
    if kinds <= {Crash, Down, Loss} and not detection.doubling:
        yield Claim("slowest_detection_steps", detection.after, "<=", f"{SOURCE}: K steps")


def claims_with_outages(topology: Topology, algorithm: Algorithm, outages: Outages) -> list[Claim]:
    """Claims about the deliveries: nodes withhold what would be lost, and more if a link works in one direction or again."""
    links = dict(outages.links)
    for (sender, port), intervals in outages.links.items():
        links.setdefault(topology.end(sender, port), intervals)
    both = Outages(outages.nodes, links, outages.faulty)
    lasting = all(_lasts(intervals) for intervals in (*both.nodes.values(), *both.links.values()))
    if lasting and len(links) == len(outages.links):
        return algorithm.claims_with_outages(outages)
    return [
        replace(claim, relation=">=") if (claim.name, claim.relation) == ("intact_deliveries", "==") else claim
        for claim in algorithm.claims_with_outages(both.always())
    ]


def _lasts(intervals: Iterable[Interval]) -> bool:
    return any(last >= FOREVER for _, last in intervals)
