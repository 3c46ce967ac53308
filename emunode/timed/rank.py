"""A rank under the timed clock: event-driven, with a policy that decides when it reads and what it sends.

At one instant a rank first receives, then acts on time-outs, then suffers faults, then sends. The driver hands over the
packets that have crossed to the rank, and asks when the rank acts next if nothing arrives before. There are three policies:
`OnArrival` forwards packets as soon as they arrive, `BySteps` waits until no packet of earlier steps can come any more, and
`ThroughProtocol` lets a protocol and a failure detector decide. Runs without faults have a faster equivalent of `BySteps`,
`FaultFreeRank`, since there each rank knows that every packet comes. No clock, no socket.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from emunode.algorithms.base import Algorithm, LocalView
from emunode.faults.effects import ALWAYS, Interval
from emunode.faults.in_time import FaultsInTime
from emunode.model import Hop, Packet, Port, PortModel, Rank, Step
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.transmission import Departure

Arrival = tuple[Port, Step, Packet]
"""(port, step, segments) of a packet that has crossed."""
Receipt = tuple[int, Port, Step, int]
"""Time of receipt, port, step, and end of the crossing, of a packet that a rank has received."""
Notice = tuple[int, Port, Step]
"""From this time on, the neighbour behind the port knows that the packet of this step does not come."""


class TimedSuspicion(NamedTuple):
    """A change of mind about the neighbour behind `port`.

    From `time` on, `rank` suspects it, or does so no longer. `silent` tells whether that neighbour was silent, or the
    link from it down, at that time.
    """

    time: int
    rank: Rank
    port: Port
    suspected: bool
    silent: bool


class Actions(NamedTuple):
    """The actions of a rank at one time."""

    receipts: list[Receipt]
    departures: list[Departure]
    losses: list[Departure]
    withheld: list[Departure]
    """Packets that did not leave, since the rank suspects the neighbour."""
    judged: list[tuple[Step, list[Hop]]]
    """Hops with their step."""
    suspicions: list[TimedSuspicion]
    notices: list[Notice]
    reports: list[Departure]
    """Decisions of the node on failures, as packets to itself that no link carries."""


class Policy(ABC):
    """The policy of one rank: when it reads a packet, and what it sends when."""

    next_work: int | None = None
    """The next time when the rank does something if nothing arrives before.

    Signs of life and suspicions do not count.
    """
    next_time: int | None = None
    """The next time when the rank does anything."""

    def __init__(self, rank: Rank, algorithm: Algorithm, costs: LinearCostModel, faults: FaultsInTime) -> None:
        self.rank = rank
        self._algorithm = algorithm
        self._topology = algorithm.topology
        self._costs = costs
        self._faults = faults

    @property
    def patience(self) -> int:
        """The most intervals of silence before it suspects a port.

        0 without detection.
        """
        return 0

    @abstractmethod
    def act(self, now: int, arrivals: Sequence[Arrival], missing: Sequence[Step], actions: Actions) -> None:
        """Do everything that is due at `now`, and set the times when it acts next."""

    def _view(self, starts: int) -> LocalView:
        """Return the view of a node that is created at `starts`."""
        view = LocalView(self._topology, self.rank)
        if self._faults.knows:
            view.live_ports = self._faults.live_ports(self.rank, starts)
        return view


class TimedRank:
    """One rank under the timed clock.

    Call `act` whenever packets have crossed to it, and at `next_time`.
    """

    def __init__(self, policy: Policy) -> None:
        self.rank = policy.rank
        self._policy = policy
        self.next_work = policy.next_work
        """The next time when the rank does anything but give a sign of life, or suspect, if nothing arrives before."""
        self.next_time = policy.next_time
        """The next time when the rank does anything."""

    @property
    def patience(self) -> int:
        """The most intervals of silence before it suspects a port.

        0 without detection.
        """
        return self._policy.patience

    def act(self, now: int, arrivals: Sequence[Arrival], missing: Sequence[Step] = ()) -> Actions:
        """Receive packets that have crossed at `now`, do everything else that is due, and return the actions.

        Arrivals of one port come in the order of sending. `missing` are the steps of packets that, as the rank learns at
        `now`, do not come. Raises RuleError as `Node.step`.
        """
        actions, policy = Actions([], [], [], [], [], [], [], []), self._policy
        policy.act(now, arrivals, missing, actions)
        # Copies: drivers ask for these times more often than they change.
        self.next_work, self.next_time = policy.next_work, policy.next_time
        return actions


class Incarnation:
    """A node between its creation and its crash.

    A recovery begins another one.
    """

    def __init__(self, view: LocalView, starts: int, crashes: int, hangs: Iterable[Interval]) -> None:
        self.view = view
        self.starts = starts
        self.crashes = crashes
        # Hangs of other incarnations of the node do not concern this one.
        self.hangs = [each for each in hangs if starts <= each[0] < crashes]
        self.free: dict[Port, int] = {}
        """The time when each port becomes free; one entry for all ports over one port."""
        self.received = 0
        """Over one port, the time of the last receipt."""

    def before_fault(self, now: int, time: int) -> int:
        """Return `time`, or the next fault of the node after `now` if that is earlier.

        Packets are received before a fault.
        """
        return max(now, min([time, self.crashes, *(start for start, end in self.hangs if end > now)]))


class PositiveCosts(LinearCostModel):
    """A cost model whose packets take a nanosecond at least.

    So no packet is received at the time when it is sent.
    """

    def nanoseconds(self, size: int) -> int:
        return max(1, super().nanoseconds(size))


IncarnationType = TypeVar("IncarnationType", bound=Incarnation)


class EventPolicy(Policy, Generic[IncarnationType]):
    """Base class of the policies that read packets in the order of their times.

    The steps of the packets do not matter.
    """

    def __init__(self, rank: Rank, algorithm: Algorithm, costs: LinearCostModel, faults: FaultsInTime) -> None:
        # With costs of 0 a packet could be answered at the very time of its sending, and the order of ranks would
        # matter.
        super().__init__(rank, algorithm, PositiveCosts(*costs), faults)
        self._one_port = algorithm.spec.port_model is not PortModel.ALL_PORT
        self._capacity = algorithm.link_capacity
        # All of them at once: the faults of a run are known, so a recovery needs no event of its own.
        self._incarnations = [self._begin(starts, crashes) for starts, crashes in faults.incarnations(rank)]
        # A plan covers the times after its argument, and time 0 has to be among them.
        self._plan(-1)

    def act(self, now: int, arrivals: Sequence[Arrival], missing: Sequence[Step], actions: Actions) -> None:
        for incarnation in self._incarnations:
            # The time of the crash belongs to it: at one instant receipts come before faults.
            if incarnation.starts <= now <= incarnation.crashes:
                while incarnation.hangs and incarnation.hangs[0][1] <= now:
                    self._wake_up(incarnation, incarnation.hangs.pop(0)[1])
                self._read(incarnation, now, arrivals, actions)
                # A node that is created anew at the time of a crash has not received the packets of the node before it.
                arrivals = ()
                # At the beginning of a fault a rank still receives and acts on time-outs, but sends nothing.
                if not self._faults.silent(self.rank, now) and now < incarnation.crashes:
                    self._send(incarnation, now, actions)
        self._plan(now)

    @abstractmethod
    def _begin(self, starts: int, crashes: int) -> IncarnationType:
        """Return the incarnation from `starts` to `crashes`."""

    @abstractmethod
    def _wake_up(self, incarnation: IncarnationType, end: int) -> None:
        """Continue after a hang.

        Sends that would have started during it are missed.
        """

    @abstractmethod
    def _read(self, incarnation: IncarnationType, now: int, arrivals: Sequence[Arrival], actions: Actions) -> None:
        """Receive the packets that are there at `now`, and act on time-outs."""

    @abstractmethod
    def _send(self, incarnation: IncarnationType, now: int, actions: Actions) -> None:
        """Start a packet on every port that is free and has something to send."""

    @abstractmethod
    def _plan(self, now: int) -> None:
        """Set the times when this rank acts next."""

    def _unit(self, port: Port) -> Port:
        # Over one port all ports are one unit, busy or free as a whole.
        return 0 if self._one_port else port

    @staticmethod
    def _awake(incarnation: Incarnation, times: Sequence[int], now: int) -> int | None:
        """Return the first of these times when the node is awake.

        For a time within a hang, that is the end of the hang. None if there is none before a crash.
        """
        if not times:
            return None
        # Never `now` again: what is due at it has been done, and a rank that asked for it once more would stop the
        # clock.
        time = max(min(times), incarnation.starts, now + 1)
        for start, end in incarnation.hangs:
            # Not at the beginning of a hang: at one instant receipts and time-outs come before faults.
            if start < time < end:
                time = end
        return time if time <= incarnation.crashes and time < ALWAYS else None
