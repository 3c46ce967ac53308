"""A rank under the timed clock that goes by events, not by steps: its lives, and what it has in common with all others.

At one instant a rank first receives, then acts on time-outs, then suffers faults, then sends. It is given the packets that
have crossed to it, and says when it acts next if nothing arrives before. No clock, no socket.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from emunode.algorithms.base import Algorithm, LocalView
from emunode.faults.effects import ALWAYS, Interval
from emunode.faults.in_time import FaultsInTime
from emunode.model import Hop, Packet, Port, PortModel, Rank, Step
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.faulty_rank import Departure

EventArrival = tuple[Port, Step, Packet]
"""(port, step, segments) of a packet that has crossed."""


class TimedSuspicion(NamedTuple):
    """A change of mind: from `time` on, `rank` suspects the neighbour behind `port`, or does so no longer.

    `silent` tells whether that neighbour was silent, or the link from it down, at that time.
    """

    time: int
    rank: Rank
    port: Port
    suspected: bool
    silent: bool


class Actions(NamedTuple):
    """The actions of a rank at one time."""

    receipts: list[tuple[Port, Step, int]]
    """Port, step, and time at which it had crossed, of every packet that it has received."""
    departures: list[Departure]
    losses: list[Departure]
    withheld: list[Departure]
    """Packets that did not leave, since the rank suspects the neighbour."""
    judged: list[tuple[Step, list[Hop]]]
    suspicions: list[TimedSuspicion]


class PositiveCosts(LinearCostModel):
    """Every packet takes a nanosecond at least: so what is sent at one time is never received at the same time."""

    def nanoseconds(self, size: int) -> int:
        return max(1, super().nanoseconds(size))


class Life:
    """A node between its creation and its crash."""

    def __init__(self, view: LocalView, born: int, dies: int, hangs: Iterable[Interval]) -> None:
        self.view = view
        self.born = born
        self.dies = dies
        self.hangs = [each for each in hangs if born <= each[0] < dies]
        self.free: dict[Port, int] = {}
        """The time until which each port is busy; one entry for all ports over one port."""
        self.received = 0
        """Over one port, the time of the last receipt."""

    def before_fault(self, now: int, time: int) -> int:
        """`time`, or the next fault of the node after `now` if that comes first: what has crossed is received before it."""
        return max(now, min([time, self.dies, *(start for start, end in self.hangs if end > now)]))


LifeType = TypeVar("LifeType", bound=Life)


class ActingRank(ABC, Generic[LifeType]):
    """One rank. Call `act` at every time at which packets have crossed to it, and at `next_time`."""

    def __init__(self, rank: Rank, algorithm: Algorithm, costs: LinearCostModel, faults: FaultsInTime) -> None:
        self.rank = rank
        self._algorithm = algorithm
        self._topology = algorithm.topology
        self._costs = PositiveCosts(*costs)
        self._faults = faults
        self._one_port = algorithm.spec.port_model is not PortModel.ALL_PORT
        self._capacity = algorithm.link_capacity
        self._lives = [self._begin(born, dies) for born, dies in faults.lives(rank)]
        self.next_work: int | None = None
        """The next time at which it does anything but give a sign of life, or suspect, if nothing arrives before."""
        self.next_time: int | None = None
        """The next time at which it does anything."""
        self._plan(-1)

    @property
    def patience(self) -> int:
        """The most intervals of silence after which it suspects a port; 0 without detection."""
        return 0

    def act(self, now: int, arrivals: Sequence[EventArrival]) -> Actions:
        """Receive packets that have crossed at `now`, and do everything else that is due. RuleError as of `Node.step`.

        Arrivals of one port come in the order in which they were sent.
        """
        actions = Actions([], [], [], [], [], [])
        for life in self._lives:
            if life.born <= now <= life.dies:
                self._live(life, now, arrivals, actions)
                # A node that is created anew at the time of a crash has not received what the one before it has.
                arrivals = ()
        self._plan(now)
        return actions

    @abstractmethod
    def _begin(self, born: int, dies: int) -> LifeType:
        """A life from `born` to `dies`."""

    @abstractmethod
    def _live(self, life: LifeType, now: int, arrivals: Sequence[EventArrival], actions: Actions) -> None:
        """Do everything that is due in a life at `now`."""

    @abstractmethod
    def _plan(self, now: int) -> None:
        """Set the times at which this rank acts next."""

    def _unit(self, port: Port) -> Port:
        return 0 if self._one_port else port

    def _view(self, born: int) -> LocalView:
        """The view of a node that is created at `born`."""
        view = LocalView(self._topology, self.rank)
        if self._faults.knows:
            view.live_ports = self._faults.live_ports(self.rank, born)
        return view

    @staticmethod
    def _awake(life: Life, times: Sequence[int], now: int) -> int | None:
        """The first of these times, or the end of the hang that it falls into; None without one in this life."""
        if not times:
            return None
        time = max(min(times), life.born, now + 1)
        for start, end in life.hangs:
            if start < time < end:
                time = end
        return time if time <= life.dies and time < ALWAYS else None
