"""Physical faults under the timed clock: processes are killed and stopped when the virtual time of a fault has come.

The history is computed before the run, so these faults cannot change it. A process is killed once it has done all that its
ranks do in their lives, and not before the time of the crash; it is stopped once it has done all that comes before a hang.
The machine may be late with that; such lateness is measured like any other. Only faults that all ranks of a process
share are carried out in this way, and a process is not killed if one of its ranks recovers: the time to start a new one
and to dial its links would be lateness of every packet that follows.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Coroutine
from functools import partial
from typing import NamedTuple

import trio

from coordinator.networks.admission import ConnectedHost
from coordinator.networks.control_channel import ControlChannel
from coordinator.networks.launchers.base import Launch
from coordinator.networks.process_actions import ProcessActions, Sent
from emunode.errors import EmulatorError
from emunode.faults.effects import ALWAYS, Interval
from emunode.faults.in_time import FaultsInTime
from emunode.host.placement import HostRanks, Placement
from emunode.timed.cost_model import NANO

SHORTEST_STOP = 1_000_000
"""A process is not stopped for less than this, in nanoseconds: it would be late afterwards."""
Task = Callable[[], Coroutine[None, None, None]]


class ProcessFate(NamedTuple):
    """The faults of one host that its process suffers."""

    killed: int | None
    """The time of its crash in nanoseconds."""
    stopped: tuple[Interval, ...]

    @property
    def returns(self) -> list[Interval]:
        """The hangs that end."""
        return [interval for interval in self.stopped if interval.end < ALWAYS]


def fate_of(ranks: HostRanks, faults: FaultsInTime) -> ProcessFate:
    """Return the faults that all of these ranks share."""
    incarnations = {tuple(faults.incarnations(rank)) for rank in ranks}
    hangs = {tuple(faults.hangs(rank)) for rank in ranks}
    (_, crashes), *others = next(iter(incarnations))
    killed = crashes if len(incarnations) == 1 and not others and crashes < ALWAYS else None
    return ProcessFate(killed, next(iter(hangs)) if len(hangs) == 1 else ())


class TimedProcessFaults:
    """Carries out the faults of processes up to the time `over`; no packet starts or ends later."""

    def __init__(
        self, channel: ControlChannel, launch: Launch, placement: Placement, faults: FaultsInTime, over: int
    ) -> None:
        self._channel = channel
        self._over = over
        self._actions = ProcessActions(launch, expected=True)
        self._fates = {
            host.index: fate
            for host in (channel.in_order if launch.can_kill else ())
            if (fate := fate_of(placement.ranks(host.index), faults)) != ProcessFate(None, ())
        }
        self._events: dict[tuple[int, int], trio.Event] = defaultdict(trio.Event)
        """By host and time of a hang that it has reached; by host and ALWAYS once it has finished."""

    @property
    def longest_stop(self) -> float:
        """Seconds that a process may be silent, since it is stopped."""
        stops = [min(end, self._over) - start for fate in self._fates.values() for start, end in fate.returns]
        return max([0, *stops]) / NANO

    def announce(self) -> None:
        """Let hosts report when they have reached the hangs that stop them."""
        for index, fate in self._fates.items():
            if fate.returns:
                self._channel.send(self._channel.hosts[index], "stops", [start for start, _ in fate.returns])

    def on_reached(self, host: ConnectedHost, moment: int) -> None:
        """Note that a host has done everything before a hang at `moment`.

        ALWAYS: everything that it will ever do.
        """
        self._events[host.index, moment].set()

    def tasks(self, begin: int) -> list[Task]:
        """Return the tasks that carry out the faults of a run that began at `begin`, a reading of the monotonic clock."""
        found: list[Task] = []
        for index, (killed, stopped) in self._fates.items():
            host = self._channel.hosts[index]
            found += [partial(self._stop, host, begin, start, end) for start, end in stopped if start < self._over]
            if killed is not None and killed < self._over:
                found.append(partial(self._kill, host, begin, killed))
        return found

    async def _kill(self, host: ConnectedHost, begin: int, moment: int) -> None:
        await self._events[host.index, ALWAYS].wait()
        await _sleep_until(begin + moment)
        # Before the kill, so that its disconnection is not taken for a failure.
        host.end_expected = True
        await self._carry_out(self._actions.kill, host, moment)

    async def _stop(self, host: ConnectedHost, begin: int, start: int, end: int) -> None:
        await self._events[host.index, start if end < ALWAYS else ALWAYS].wait()
        await _sleep_until(begin + start)
        # After the last packet a stopped process would only keep the run from ending.
        until = min(end, self._over) if end < ALWAYS else ALWAYS
        if time.monotonic_ns() + SHORTEST_STOP > begin + until:
            return
        # Any step: a network that is closed kills processes that are stopped.
        host.paused_until = 1
        await self._carry_out(self._actions.stop, host, start)
        if end < ALWAYS:
            await _sleep_until(begin + until)
            host.paused_until = 0
            await self._carry_out(self._actions.resume, host, end)

    async def _carry_out(
        self, action: Callable[[ConnectedHost], Coroutine[None, None, Sent]], host: ConnectedHost, moment: int
    ) -> None:
        try:
            await self._actions.seen([await action(host)], {"seconds": moment / NANO})
        except EmulatorError as error:
            self._channel.fail(error)


async def _sleep_until(moment: int) -> None:
    await trio.sleep(max(0.0, (moment - time.monotonic_ns()) / NANO))
