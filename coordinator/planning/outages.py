"""From the faults of a plan to outages: what is out of service, and in which steps."""

from collections.abc import Collection, Iterable

from emunode.algorithms.losses import Interval, Outages
from emunode.faults.kinds import FOREVER, Crash, Down, Fault, Hang, Up
from emunode.model import Port, Rank


def outages_of(faults: Iterable[Fault], faulty: Collection[Rank]) -> Outages | None:
    """The outages that the faults amount to, or None if one of them does anything else.

    `faults` are in the order in which they take effect. Crashes for good, hangs and links that are down are outages; a node
    that recovers has lost its state, and what is lost, altered, repeated or delayed on a link is more than an outage.
    """
    nodes: dict[Rank, list[Interval]] = {}
    links: dict[tuple[Rank, Port], list[Interval]] = {}
    for fault in faults:
        match fault:
            case Crash(step=step, rank=rank):
                nodes.setdefault(rank, []).append((step, FOREVER))
            case Hang(step=step, rank=rank, last=last):
                nodes.setdefault(rank, []).append((step, last))
            case Down(step=step, sender=sender, port=port, last=last):
                links.setdefault((sender, port), []).append((step, last))
            case Up(step=step, sender=sender, port=port):
                there = links.get((sender, port), [])
                links[sender, port] = [(first, min(last, step - 1)) for first, last in there if first < step]
            case _ if fault.breaks:
                return None
    return Outages(nodes, {link: intervals for link, intervals in links.items() if intervals}, frozenset(faulty))
