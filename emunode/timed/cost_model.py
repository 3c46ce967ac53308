"""The timed clock: how long a packet occupies a port, and from when to when. Pure arithmetic; every time is an argument.

Model. Every node runs on its own: it begins its step t as soon as everything that the timetable brings it in earlier steps
is there, and no step waits for anybody else's. A packet occupies the port that sends it for startup x ceil(bytes / packet
limit) + per_byte x bytes; it is received when that time is over. What a node sends over a busy port leaves when the port is
free. Over one port a node sends one packet at a time and receives one at a time; where it may only talk with one neighbour
(exchange, send-or-receive) a receipt also waits until what was sent in earlier steps is out.

All times are whole nanoseconds of virtual time since the run began, and follow from one another alone: a packet carries the
virtual time at which it is received, so a machine that is late does not shift what comes after, and the same plan has the
same times everywhere. With packets of one size they are those of lock-step; otherwise no packet is later than there.
"""

from typing import NamedTuple

from emunode.model import Port, PortModel, Step

NANO = 1_000_000_000


class LinearCostModel(NamedTuple):
    """What a packet costs: `startup` and `per_byte` in seconds; `packet_limit` in bytes, 0 for none."""

    startup: float
    per_byte: float
    packet_limit: int = 0

    def nanoseconds(self, size: int) -> int:
        """Time for which a packet of `size` bytes occupies its port, as the virtual time of a step is reckoned."""
        startups = -(-size // self.packet_limit) if self.packet_limit else min(size, 1)
        return round((self.startup * startups + self.per_byte * size) * NANO)


class PortOccupancy:
    """The ports of one node: until when they are busy. Calls come in the order of steps; departures of a step first."""

    __slots__ = ("_alone", "_before", "_free", "_received", "_serial", "_step")

    def __init__(self, model: PortModel, degree: int) -> None:
        self._serial = model is not PortModel.ALL_PORT
        self._alone = model in (PortModel.EXCHANGE, PortModel.SEND_OR_RECEIVE)
        self._free = [0] * (1 if self._serial else degree)
        self._received = 0
        self._step: Step = 0
        self._before = 0

    def depart(self, step: Step, port: Port, duration: int) -> int:
        """When a packet of `step` starts over `port`: everything of earlier steps received, and the port free."""
        unit = 0 if self._serial else port
        free = self._free[unit]
        if self._alone and step != self._step:
            self._step, self._before = step, free
        start = max(free, self._received)
        self._free[unit] = start + duration
        return start

    def arrive(self, step: Step, deadline: int, duration: int) -> int:
        """When a packet of `step`, whose sender is done with it at `deadline`, is received."""
        if self._serial:
            free = self._received
            if self._alone:
                free = max(free, self._before if self._step == step else self._free[0])
            deadline = max(deadline, free + duration)
        self._received = max(self._received, deadline)
        return deadline
