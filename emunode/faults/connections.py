"""The connections that the faults in force have closed."""

from collections.abc import Iterable

from emunode.faults.injector import Faults
from emunode.faults.kinds import Crash, Fault, LinkFault, is_outage
from emunode.model import Port, Rank, Step
from emunode.topologies.base import Topology

LinkId = tuple[Rank, Port]
"""A link, named by its lower rank and the port there."""


class Connections:
    """The links that are closed. From the first step with faults on, call `update` in every step, after `Faults.apply`."""

    def __init__(self, topology: Topology, faults: Faults) -> None:
        self._topology = topology
        self._faults = faults
        self.concerned: set[LinkId] = set()
        """Links that any fault so far may have closed."""
        self.closed: set[LinkId] = set()

    def link(self, rank: Rank, port: Port) -> LinkId:
        """Return the name of the link with this end; both ends give the same name."""
        return min((rank, port), self._topology.end(rank, port))

    def update(self, step: Step, faults: Iterable[Fault]) -> tuple[set[LinkId], set[LinkId]]:
        """Note the faults that are due in `step`; returns the links that close now and the links that open again."""
        for fault in faults:
            match fault:
                case Crash(rank=rank):
                    # All links of the rank, because each has an end that is gone.
                    self.concerned.update(self.link(rank, port) for port in self._topology.ports(rank))
                case LinkFault(sender=sender, port=port) if is_outage(fault):
                    self.concerned.add(self.link(sender, port))
        before, self.closed = self.closed, {link for link in self.concerned if self._faults.is_closed(step, *link)}
        return self.closed - before, before - self.closed
