"""From the faults of a plan to outages: the steps in which nodes and links are out of service."""

from collections.abc import Collection, Iterable

from emunode.algorithms.losses import Interval, Outages
from emunode.faults.byzantine import SilentFault
from emunode.faults.kinds import FOREVER, Crash, Down, Fault, Hang, Up
from emunode.model import Port, Rank
from emunode.topologies.base import Topology


def outages_of(faults: Iterable[Fault], faulty: Collection[Rank], topology: Topology, seed: int) -> Outages | None:
    """The outages that the faults amount to, or None if a fault has another effect.

    `faults` are in the order in which they take effect. Crashes, hangs and links that are down are outages, and so is the
    silence of a node, of all the links over which it should send. A recovery is not, since the node has lost its state; nor
    is a fault that loses, alters, repeats or delays single packets.
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
                # A link that comes up again ends the outages that had begun by then.
                links[sender, port] = [(first, min(last, step - 1)) for first, last in there if first < step]
            case SilentFault() if (silent := silent_ports(fault, topology, seed)) is not None:
                for port in silent:
                    links.setdefault((fault.rank, port), []).append((fault.step, fault.end))
            case _ if fault.breaks:
                return None
    # A link whose outages were all undone is not out of service.
    return Outages(nodes, {link: intervals for link, intervals in links.items() if intervals}, frozenset(faulty))


def silent_ports(fault: SilentFault, topology: Topology, seed: int) -> list[Port] | None:
    """The ports by which a silent node sends nothing, or None if that differs from copy to copy."""
    silent = {port: fault.silent_at(seed, port) for port in topology.ports(fault.rank)}
    return None if None in silent.values() else [port for port, never in silent.items() if never]
