"""The coordinator's side of the timed clock: hand out what each node waits for, say when to begin, collect what hosts tell.

Nothing is said to anybody while the run goes on: there are no steps to open.
"""

import time
from collections.abc import Sequence
from typing import Protocol

import trio

from coordinator.history.timetable import Timetable, make_timetable
from coordinator.networks.base import Progress
from coordinator.networks.host_network import HostNetwork, HostState
from coordinator.networks.launchers.base import Launch
from coordinator.planning.plan import Plan
from emunode.engine.memory import MemoryEngine
from emunode.errors import FrameError
from emunode.timed.cost_model import LinearCostModel

LEAD_SECONDS = 0.05
LEAD_SECONDS_PER_HOST = 0.0005
"""From the order to begin to the beginning: time for every host to hear it."""
TABLE_BYTES = 8 * 2**20
"""Timetables of so many bytes go into one order."""


async def predict(plan: Plan, progress: Progress) -> Timetable:
    """Work the timetable of a plan out, by the in-memory engine; Ctrl-C can interrupt it at every step."""
    network, rows = MemoryEngine(plan.algorithm), []
    limit, step = plan.scenario.step_limit, 0
    while (network.busy or not step) and step <= limit:
        step += 1
        rows.append(network.step(step))
        progress("timetable", step, 0)
        await trio.lowlevel.checkpoint()
    return make_timetable(rows, plan.spec.port_model, plan.topology.degree, costs_of(plan), not network.busy)


def costs_of(plan: Plan) -> LinearCostModel:
    """What a packet costs in this scenario."""
    scenario = plan.scenario
    return LinearCostModel(scenario.startup, scenario.per_byte, scenario.packet_limit or 0)


class Timed(Protocol):
    """A network under the timed clock: brought up, run once as a whole, and taken down."""

    links_opened: int
    rows: list[bytes]
    """Journal rows told so far."""
    times: list[bytes]
    """Times of hops told so far (`wire.TIME`)."""

    async def open(self, progress: Progress) -> None:
        """Bring every node and link up; raises RunError when it cannot."""

    async def run(self, timetable: Timetable, progress: Progress) -> None:
        """Let every node run by itself, from beginning to end; raises RunError when the end does not come."""

    async def close(self) -> None:
        """Take everything down; safe after a failure at any point, and quick."""


class TimedMemoryNetwork:
    """The memory driver: there is no machine that could be late, so what is achieved is the timetable."""

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
    """Hosts under the timed clock; all of them must share CLOCK_MONOTONIC, that is, run on one machine."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        super().__init__(plan, launch)
        self.rows: list[bytes] = self._rows
        self.times: list[bytes] = []
        self._ready: set[int] = set()
        self._ended: set[int] = set()

    async def run(self, timetable: Timetable, progress: Progress) -> None:
        """As `Timed.run`; a host that is not heard of for STALL_SECONDS ends it."""
        await self._hand_out(timetable)
        hosts = self._plan.hosts
        self._ready.clear()
        lead = LEAD_SECONDS + LEAD_SECONDS_PER_HOST * hosts
        begin = time.monotonic_ns() + round(lead * 1e9)
        for state in self._hosts.values():
            self._send(state, "begin", begin)
        total = round(timetable.intended_seconds * 1000)

        def tell_progress() -> None:
            progress("milliseconds", min(total, (time.monotonic_ns() - begin) // 1_000_000), total)

        self._progress = tell_progress
        await self._until(lambda: len(self._ended) == hosts, "hosts to finish", explain=self._unfinished)

    async def _hand_out(self, timetable: Timetable) -> None:
        """Tell every host what its ranks wait for."""
        receipts, costs = timetable.receipts(), costs_of(self._plan)
        for index, state in sorted(self._hosts.items()):
            ranks = self._placement.ranks(index)
            tables: list[bytes] = []
            first = ranks[0]
            for rank in ranks:
                tables.append(receipts.get(rank, b""))
                if sum(map(len, tables)) > TABLE_BYTES:
                    self._send(state, "timetable", first, tables)
                    first, tables = rank + 1, []
            self._send(state, "timetable", first, tables)
            self._send(state, "prepare", *costs, timetable.steps)
        await self._until(lambda: len(self._ready) == self._plan.hosts, "hosts to prepare")

    def _unfinished(self) -> str:
        waiting = [str(index) for index in sorted(self._hosts) if index not in self._ended]
        return f"hosts not at their end: {', '.join(waiting[:5])}"

    def _on_news(self, index: int, state: HostState, name: str, fields: Sequence[object]) -> None:
        match name, *fields:
            case ("prepared",):
                self._ready.add(index)
            case "times", bytes(times):
                self.times.append(times)
            case ("heartbeat",):
                pass
            case ("finished",):
                self._ended.add(index)
            case _:
                raise FrameError(f"a message that is none: {name!r}")
