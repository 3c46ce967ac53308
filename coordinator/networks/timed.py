"""The coordinator's side of the timed clock with hosts: hand out the timetable, start the clock, collect records.

The coordinator sends nothing during the run, since there are no steps to open.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import product, starmap
from typing import TypeVar

import trio

from coordinator.history.timetable import PredictionInputs, Timetable
from coordinator.networks.admission import ConnectedHost
from coordinator.networks.base import Progress
from coordinator.networks.control_channel import STALL_SECONDS
from coordinator.networks.host_network import HostNetwork
from coordinator.networks.launchers.base import Launch
from coordinator.networks.messages import Finished, Heartbeat, HopTimes, HostReached, Message, Prepared
from coordinator.networks.timed_process_faults import TimedProcessFaults
from coordinator.planning.plan import Plan
from coordinator.scenario.model import costs_of
from emunode.engine.known_paths import faults_in_time
from emunode.engine.rank_set import AlteredCopy
from emunode.errors import EmulatorError
from emunode.faults.effects import ALWAYS
from emunode.host.placement import HostRanks
from emunode.model import Rank
from emunode.net.wire import NOTICE

Table = TypeVar("Table", bytes, tuple[bytes, bytes])

LEAD_SECONDS = 0.05
LEAD_SECONDS_PER_HOST = 0.0005
"""Time between sending the order to begin and the beginning, so that every host receives it early enough."""
TABLE_BYTES = 8 * 2**20
"""The largest part of a host's timetables in one order; longer timetables are split."""


def in_batches(ranks: HostRanks, tables: Mapping[Rank, Table], default: Table) -> Iterator[tuple[int, list[Table]]]:
    """Yield the tables of these ranks in parts of about TABLE_BYTES, each with the place of its first rank among them."""
    first, part, size = 0, list[Table](), 0
    for place, rank in enumerate(ranks):
        table = tables.get(rank, default)
        part.append(table)
        size += len(table) if isinstance(table, bytes) else sum(map(len, table))
        if size > TABLE_BYTES:
            yield first, part
            first, part, size = place + 1, [], 0
    if part:
        yield first, part


class TimedHostNetwork(HostNetwork):
    """Hosts under the timed clock. All of them must share CLOCK_MONOTONIC, so they run on one machine."""

    def __init__(self, plan: Plan, launch: Launch) -> None:
        super().__init__(plan, launch)
        self.times: list[bytes] = []
        self._ready: set[int] = set()
        self._finished: set[int] = set()
        self._process_faults: TimedProcessFaults | None = None
        self._placement = plan.placement

    @property
    def rows(self) -> list[bytes]:
        """The journal rows so far."""
        return self.barrier.rows

    @property
    def altered_copies(self) -> list[AlteredCopy]:
        """The altered copies so far."""
        return self.barrier.altered_copies

    async def run(self, timetable: Timetable, progress: Progress) -> None:
        """Run like `Timed.run`; raises RunError also when no host sends anything for STALL_SECONDS."""
        await self._hand_out(timetable)
        channel, hosts = self._channel, self._plan.hosts
        lead = LEAD_SECONDS + LEAD_SECONDS_PER_HOST * hosts
        begin = time.monotonic_ns() + round(lead * 1e9)
        channel.send_to_all(channel.in_order, "begin", begin)
        total = round(timetable.intended_seconds * 1000)
        problem: EmulatorError | None = None

        def after_messages() -> None:
            self.require_time()
            progress("milliseconds", min(total, (time.monotonic_ns() - begin) // 1_000_000), total)

        async with trio.open_nursery() as nursery:
            for task in self._process_faults.tasks(begin) if self._process_faults else ():
                nursery.start_soon(task)
            try:
                await channel.wait_until(
                    lambda: len(self._finished) == hosts,
                    "hosts to finish",
                    stall_seconds=STALL_SECONDS + (self._process_faults.longest_stop if self._process_faults else 0),
                    explain=self._unfinished,
                    progress=after_messages,
                )
            except EmulatorError as error:
                # Raised outside the nursery, which would wrap it.
                problem = error
                nursery.cancel_scope.cancel()
        if problem is not None:
            raise problem

    async def _hand_out(self, timetable: Timetable) -> None:
        """Send every host the receipts that its ranks wait for, and wait until all hosts are ready."""
        if timetable.inputs is not None:
            over = max(int(timetable.packets[end].max() or 0) for end in ("start", "end"))  # type: ignore[arg-type]
            self._hand_out_faults(timetable.inputs, over)
            if timetable.events is not None:
                by_events = (list(timetable.inputs.steps.durations), timetable.events.horizon)
                self._channel.send_to_all(self._channel.in_order, "by_events", *by_events)
        costs, last = costs_of(self._plan.scenario), timetable.steps
        if timetable.inputs is None:
            orders = {"timetable": timetable.receipts()}
        else:
            arrivals = {rank: times.tobytes() for rank, times in timetable.crossings.items()}
            notices = {rank: b"".join(starmap(NOTICE.pack, those)) for rank, those in timetable.notices.items()}
            orders, last = {"arrivals": arrivals, "notices": notices}, self._plan.scenario.step_limit
        for host, (name, receipts) in product(self._channel.in_order, orders.items()):
            for first, tables in in_batches(self._placement.ranks(host.index), receipts, b"") if receipts else ():
                self._channel.send(host, name, first, tables)
        for host in self._channel.in_order:
            self._channel.send(host, "prepare", *costs, last)
        await self._channel.wait_until(lambda: len(self._ready) == self._plan.hosts, "hosts to prepare")

    def _hand_out_faults(self, inputs: PredictionInputs, over: int) -> None:
        """Send every host all faults, since they concern its packets to other hosts too, and its fault-free timetable.

        `over` is the time of the last packet.
        """
        channel, faults = self._channel, faults_in_time(self._plan.algorithm, inputs.faults)
        self._process_faults = TimedProcessFaults(channel, self._launch, self._placement, faults, over)
        channel.send_to_all(channel.in_order, "timed_faults", [fault.record() for fault in inputs.faults])
        tables = inputs.packed()
        for host in channel.in_order:
            for first, some in in_batches(self._placement.ranks(host.index), tables, (b"", b"")):
                channel.send(host, "fault_free", first, some)
        self._process_faults.announce()

    def _unfinished(self) -> str:
        waiting = [str(host.index) for host in self._channel.in_order if host.index not in self._finished]
        return f"hosts that have not finished: {', '.join(waiting[:5])}"

    def _on_message(self, host: ConnectedHost, message: Message) -> None:
        match message:
            case Prepared():
                self._ready.add(host.index)
            case HopTimes(times):
                self.times.append(times)
            case Heartbeat():
                pass  # the content does not matter: any report postpones the deadline
            case HostReached(nanoseconds) if self._process_faults is not None:
                self._process_faults.on_reached(host, nanoseconds)
            case Finished():
                self._finished.add(host.index)
                if self._process_faults is not None:
                    self._process_faults.on_reached(host, ALWAYS)
            case _:
                super()._on_message(host, message)
