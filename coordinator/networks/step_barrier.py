"""Steps by counting: open a step on all hosts, and wait until every packet that was sent has been received."""

from collections.abc import Mapping, Sequence

from coordinator.networks.admission import ConnectedHost
from coordinator.networks.base import StepResult
from coordinator.networks.control_channel import ControlChannel
from coordinator.networks.messages import Received, StepReport
from emunode.engine.rank_set import AlteredCopy
from emunode.faults.kinds import Fault, to_record
from emunode.host.orders import StepKind
from emunode.model import Step


class HostCounts:
    """The report of one host on the open step: packets sent and received by peer host, and its next step."""

    __slots__ = ("due", "received", "reported", "sent")

    def __init__(self) -> None:
        self.reported: Step = 0
        self.clear()

    def clear(self) -> None:
        """Forget the counts; the step that was last reported stays."""
        self.sent: Mapping[int, int] = {}
        self.received: Mapping[int, int] = {}
        self.due: Step = 0


class StepBarrier:
    """Opens steps on the hosts of `channel`. A step ends when all hosts reported it and no packet is in flight.

    The sum over all hosts of packets sent minus received is the number in flight: it is kept up to date as reports come in,
    so that the test for the end of a step takes constant time.
    """

    def __init__(self, channel: ControlChannel) -> None:
        self.rows: list[bytes] = []
        """Journal rows that no step result has taken yet."""
        self.altered_copies: list[AlteredCopy] = []
        """Altered copies that no step result has taken yet."""
        self._channel = channel
        self._counts: dict[int, HostCounts] = {}
        self._unreported = 0
        self._in_flight = 0

    def reset(self) -> None:
        """Start over, for another run on the same hosts."""
        self._counts.clear()
        self.rows.clear()
        self.altered_copies.clear()

    # --- steps -----------------------------------------------------------------------------------------------------

    async def step(self, step: Step, faults: Sequence[Fault]) -> StepResult:
        """Run one step on all active hosts."""
        self.order("step", step, faults, self._channel.active)
        await self._channel.wait_until(
            # Everything reported and nothing in flight: then no packet of this step can still arrive.
            lambda: not self._unreported and not self._in_flight,
            f"step {step} to end",
            explain=lambda: self._missing(step),
        )
        rows, self.rows = self.rows, []
        altered_copies, self.altered_copies = self.altered_copies, []
        alive = (counts for index, counts in self._counts.items() if self._channel.hosts[index].alive)
        # Packets that were sent are read in the next step, even if no rank is due to send in it.
        return StepResult(rows, any(counts.due or counts.sent for counts in alive), altered_copies)

    async def drain(self, step: Step, faults: Sequence[Fault], hosts: Sequence[ConnectedHost]) -> None:
        """Let hosts read the arrivals before `step`, before their processes are killed or stopped."""
        self.order("drain", step, faults, hosts)
        await self._channel.wait_until(
            # Only these hosts have orders, and the packets that they read have arrived in the step before.
            lambda: all(self._of(host).reported == step for host in hosts),
            "failing hosts to drain",
        )

    async def catch_up(self, step: Step, faults: Sequence[Fault], hosts: Sequence[ConnectedHost]) -> None:
        """Send faults up to `step` to hosts whose processes missed them."""
        self.order("catch_up", step, faults, hosts)
        await self._channel.wait_until(lambda: not self._unreported, "hosts to catch up")

    def order(self, kind: StepKind, step: Step, faults: Sequence[Fault], hosts: Sequence[ConnectedHost]) -> None:
        """Send a step order, and expect a report from each of these hosts."""
        for host in hosts:
            self._of(host).clear()
        # Counts start at zero in every step, so a packet of an earlier step cannot balance a missing one.
        self._unreported, self._in_flight = len(hosts), 0
        self._channel.send_to_all(hosts, kind, step, [to_record(fault) for fault in faults])

    def expect_nothing_of(self, host: ConnectedHost) -> None:
        """Forget the planned sends of a host, since its process is killed."""
        self._of(host).due = 0

    # --- reports ---------------------------------------------------------------------------------------------------

    def on_report(self, host: ConnectedHost, report: StepReport) -> None:
        """Take the report of a host on its step."""
        counts = self._of(host)
        counts.reported, counts.due, counts.sent = report.step, report.due, report.sent
        self._unreported -= 1
        self._in_flight += sum(report.sent.values())
        self._count_received(counts, report.received)
        if report.rows:
            self.rows.append(report.rows)

    def on_received(self, host: ConnectedHost, message: Received) -> None:
        """Take a newer count of received packets; a late one of an earlier step is ignored."""
        counts = self._of(host)
        # A count that was sent before the host received the order of this step belongs to the step before.
        if message.step == counts.reported:
            self._count_received(counts, message.received)

    def _count_received(self, counts: HostCounts, received: Mapping[int, int]) -> None:
        # The difference to the previous count: `received` is a running total of the step.
        self._in_flight -= sum(received.values()) - sum(counts.received.values())
        counts.received = received

    def _of(self, host: ConnectedHost) -> HostCounts:
        counts = self._counts.get(host.index)
        if counts is None:  # not setdefault, which would build counts at every call
            counts = self._counts[host.index] = HostCounts()
        return counts

    def _missing(self, step: Step) -> str:
        """Return the hosts without a report of `step`, and the packets that did not arrive, by pair of hosts."""
        hosts = [host for host in self._channel.in_order if host.alive]
        silent = [str(host.index) for host in hosts if self._of(host).reported != step]
        found = (
            [f"hosts without a report: {', '.join(silent[:5])}{', ..' if len(silent) > 5 else ''}"] if silent else []
        )
        for host in hosts:
            for peer, sent in sorted(self._of(host).sent.items()):
                other = self._channel.hosts.get(peer)
                # A dead host reports nothing that could be compared.
                if other is None or not other.alive:
                    continue
                got = self._of(other).received.get(host.index, 0)
                if got != sent:
                    found.append(f"host {host.index} sent {sent} packets to host {peer}, which received {got}")
        return "; ".join(found[:3])
