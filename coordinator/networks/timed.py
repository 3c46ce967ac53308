"""The coordinator's side of the timed clock: predict the timetable, hand it out, start the clock, collect records.

The coordinator sends nothing during the run, since there are no steps to open.
"""

import time
from typing import Protocol

import trio

from coordinator.history.timetable import Timetable, make_timetable
from coordinator.networks.admission import ConnectedHost
from coordinator.networks.base import Progress
from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.base import Launch
from coordinator.networks.messages import Finished, Heartbeat, Message, Prepared, Times
from coordinator.planning.plan import Plan
from emunode.engine.memory import MemoryEngine
from emunode.host.placement import Placement
from emunode.timed.cost_model import LinearCostModel

LEAD_SECONDS = 0.05
LEAD_SECONDS_PER_HOST = 0.0005
"""Time between sending the order to begin and the beginning, so that every host receives it early enough."""
TABLE_BYTES = 8 * 2**20
"""The size at which the timetables of a host are split over several orders."""


async def predict(plan: Plan, progress: Progress) -> Timetable:
    """Compute the timetable of a plan with the memory engine; cancellation is possible at every step."""
    network, rows = MemoryEngine(plan.algorithm), []
    limit, step = plan.scenario.step_limit, 0
    while (network.busy or not step) and step <= limit:
        step += 1
        rows.append(network.step(step))
        progress("timetable", step, 0)
        await trio.lowlevel.checkpoint()
    return make_timetable(rows, plan.spec.port_model, plan.topology.degree, costs_of(plan), not network.busy)


def costs_of(plan: Plan) -> LinearCostModel:
    """The cost of a packet in this scenario."""
    scenario = plan.scenario
    return LinearCostModel(scenario.startup, scenario.per_byte, scenario.packet_limit or 0)


class Timed(Protocol):
    """A network under the timed clock: open it, run it once, close it."""

    @property
    def links_opened(self) -> int:
        """The number of links that `open` brought up."""

    @property
    def rows(self) -> list[bytes]:
        """Journal rows so far."""

    times: list[bytes]
    """Times of hops so far (`wire.TIME`)."""

    async def open(self, progress: Progress) -> None:
        """Bring every node and link up; RunError if that fails."""

    async def run(self, timetable: Timetable, progress: Progress) -> None:
        """Run every node on its own to the end; RunError if it does not come."""

    async def close(self) -> None:
        """Take everything down; safe after a failure at any point, and fast."""


class TimedMemoryNetwork:
    """The memory driver: no machine can be late, so the achieved times are those of the timetable."""

    links_opened = 0

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.rows: list[bytes] = []
        self.times: list[bytes] = []

    async def open(self, progress: Progress) -> None:
        await trio.lowlevel.checkpoint()

    async def run(self, timetable: Timetable, progress: Progress) -> None:
        network = MemoryEngine(self._plan.algorithm)
        for step in range(1, timetable.steps + 2):
            self.rows.append(bytes(network.step(step)))
            progress("steps", step, timetable.steps)
            await trio.lowlevel.checkpoint()
        self.times.append(timetable.times())

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()


class TimedHostNetwork(HostNetwork):
    """Hosts under the timed clock. All of them must share CLOCK_MONOTONIC, so they run on one machine."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        super().__init__(plan, launch)
        self.times: list[bytes] = []
        self._ready: set[int] = set()
        self._finished: set[int] = set()

    @property
    def rows(self) -> list[bytes]:
        """The journal rows so far."""
        return self._barrier.rows

    async def run(self, timetable: Timetable, progress: Progress) -> None:
        """As `Timed.run`; RunError also when no host sends anything for STALL_SECONDS."""
        await self._hand_out(timetable)
        channel, hosts = self._channel, self._plan.hosts
        lead = LEAD_SECONDS + LEAD_SECONDS_PER_HOST * hosts
        begin = time.monotonic_ns() + round(lead * 1e9)
        channel.send_to_all(channel.in_order, "begin", begin)
        total = round(timetable.intended_seconds * 1000)
        await channel.wait_until(
            lambda: len(self._finished) == hosts,
            "hosts to finish",
            explain=self._unfinished,
            progress=lambda: progress("milliseconds", min(total, (time.monotonic_ns() - begin) // 1_000_000), total),
        )

    async def _hand_out(self, timetable: Timetable) -> None:
        """Send every host the receipts that its ranks wait for, and wait until all hosts are ready."""
        receipts, costs = timetable.receipts(), costs_of(self._plan)
        placement = Placement(self._plan.topology.order, self._plan.hosts)
        for host in self._channel.in_order:
            ranks = placement.ranks(host.index)
            tables: list[bytes] = []
            first = ranks[0]
            for rank in ranks:
                tables.append(receipts.get(rank, b""))
                if sum(map(len, tables)) > TABLE_BYTES:
                    self._channel.send(host, "timetable", first, tables)
                    first, tables = rank + 1, []
            self._channel.send(host, "timetable", first, tables)
            self._channel.send(host, "prepare", *costs, timetable.steps)
        await self._channel.wait_until(lambda: len(self._ready) == self._plan.hosts, "hosts to prepare")

    def _unfinished(self) -> str:
        waiting = [str(host.index) for host in self._channel.in_order if host.index not in self._finished]
        return f"hosts that have not finished: {', '.join(waiting[:5])}"

    def _on_message(self, host: ConnectedHost, message: Message) -> None:
        match message:
            case Prepared():
                self._ready.add(host.index)
            case Times(times):
                self.times.append(times)
            case Heartbeat():
                pass  # that it came is what counts: it postpones the deadline
            case Finished():
                self._finished.add(host.index)
            case _:
                super()._on_message(host, message)
