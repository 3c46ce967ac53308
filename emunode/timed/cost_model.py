"""The timed clock: how long, and from when to when, a packet occupies a port. Pure arithmetic; every time is an argument.

Model. Every node runs on its own: it begins its step t as soon as all packets that the timetable has for it in earlier steps
have arrived; it does not wait for other nodes' steps. A packet occupies the port that sends it for startup x ceil(bytes /
packet limit) + per_byte x bytes; it is received at the end of that time. A packet for a busy port leaves when the port is
free. Over one port a node sends one packet at a time and receives one at a time; where it may only talk with one neighbour
(exchange, send-or-receive) a receipt also waits until the sends of earlier steps are over.

All times are whole nanoseconds of virtual time since the run began, and depend only on one another: a packet carries the
virtual time of its receipt, so a machine that is late does not shift later packets, and a plan has the same times on every
machine. With packets of one size the times are the same as in lock-step; otherwise no packet is later than in lock-step.
"""

from typing import NamedTuple

from emunode.model import Port, PortModel, Step

NANO = 1_000_000_000


class LinearCostModel(NamedTuple):
    """The cost of a packet: `startup` and `per_byte` in seconds; `packet_limit` in bytes, 0 for none."""

    startup: float
    per_byte: float
    packet_limit: int = 0

    def nanoseconds(self, size: int) -> int:
        """Return how long a packet of `size` bytes occupies its port, by the formula for the virtual time of a step."""
        # An empty packet costs no start-up, with a packet limit or without one.
        startups = -(-size // self.packet_limit) if self.packet_limit else min(size, 1)
        # Rounded once, to whole nanoseconds: sums are exact from here on, and equal on all machines.
        return round((self.startup * startups + self.per_byte * size) * NANO)


class PortOccupancy:
    """The times when the ports of one node become free. Calls have to come in the order of steps, departures first."""

    __slots__ = ("_alone", "_before", "_free", "_received", "_serial", "_step")

    def __init__(self, model: PortModel, degree: int) -> None:
        self._serial = model is not PortModel.ALL_PORT
        self._alone = model in (PortModel.EXCHANGE, PortModel.SEND_OR_RECEIVE)
        # One unit for all ports if the node can use only one of them at a time.
        self._free = [0] * (1 if self._serial else degree)
        self._received = 0
        self._step: Step = 0
        self._before = 0

    def depart(self, step: Step, port: Port, duration: int) -> int:
        """Return when a packet of `step` starts, and occupy its port.

        It starts when all packets of earlier steps have been received and the port is free.
        """
        start = self.earliest(step, port)
        # Until it has crossed: a port does not send the next packet while the last bytes of one are on the link.
        self._free[0 if self._serial else port] = start + duration
        return start

    def earliest(self, step: Step, port: Port) -> int:
        """Return the earliest time when a packet of `step` can start over `port`."""
        free = self._free[0 if self._serial else port]
        if self._alone and step != self._step:
            # What the port was busy with before this step: sends of the same step do not delay receipts of it.
            self._step, self._before = step, free
        # Never before the receipts of earlier steps: the step began with the last of them.
        return max(free, self._received)

    def occupy(self, port: Port, until: int) -> None:
        """Keep `port` busy until a time, with a packet whose start came from `earliest`."""
        self._free[0 if self._serial else port] = until

    @property
    def received(self) -> int:
        """The time of the last receipt; 0 before the first."""
        return self._received

    def wait_until(self, time: int) -> None:
        """Let nothing start before `time`, as if something had been received then."""
        self._received = max(self._received, time)

    def arrive(self, step: Step, deadline: int, duration: int) -> int:
        """Return the time of receipt of a packet of `step` that its sender has finished sending at `deadline`."""
        if self._serial:
            free = self._received
            if self._alone:
                # Departures of a step are computed before its arrivals. If this step had none, everything that kept the
                # port busy was of earlier steps.
                free = max(free, self._before if self._step == step else self._free[0])
            # Over one port receipts queue up: this one cannot end before the one before plus its own duration.
            deadline = max(deadline, free + duration)
        self._received = max(self._received, deadline)
        return deadline
