"""The local part of an algorithm: the rule of one rank, and the view that the rule has of the network.

A rule has no clock, no socket and no access to the state of other ranks: it knows its own address, the arithmetic of the
topology, and what it received.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from emunode.model import PortPacket, Rank, ScheduledSend, Step
from emunode.topologies.base import Topology

ResultPart = tuple[Rank, int, bytes]
"""(owner of the block, segment, payload): a part of the result that a rank has at the end."""


class LocalView:
    """The view of a rule: its own rank, its address relative to a root, and its ports that are known to work.

    `live_ports` contains all ports unless the scenario lets ranks know the faults next to them; engines update it.

    >>> from emunode.topologies.hypercube import Hypercube
    >>> view = LocalView(Hypercube(3), 5)
    >>> view.rank, view.live_ports, view.relative(4)
    (5, range(0, 3), 1)
    """

    __slots__ = ("live_ports", "rank", "relative")

    def __init__(self, topology: Topology, rank: Rank) -> None:
        self.rank = rank
        self.live_ports: Sequence[int] = topology.ports(rank)
        self.relative: Callable[[Rank], Rank] = partial(topology.relative, rank)
        """The address of this rank under the translation that maps a given root to 0."""


class Rule(ABC):
    """The part of an algorithm that runs at one rank.

    >>> class Echo(Rule):
    ...     def receive(self, step, inbox):
    ...         return [(step + 1, port, segment) for port, packet in inbox for segment in packet]
    ...
    >>> Echo().receive(3, [(1, ((0, 5, 0, 0, b"data"),))])
    [(4, 1, (0, 5, 0, 0, b'data'))]
    """

    __slots__ = ()

    def start(self) -> Iterable[ScheduledSend]:
        """Return the sends that need no arrival, in order of steps. They are drawn lazily, so a long schedule costs no
        memory.
        """
        return ()

    @abstractmethod
    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        """Process all arrivals of `step`, ordered by port, and return sends for step + 1 or later."""

    def results(self) -> Iterable[ResultPart]:
        """Return the parts of the result of a reduction that this rank has; asked once, after the last step."""
        return ()
