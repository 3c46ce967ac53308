"""Steps by counting: open a step on the hosts with work, and wait until every packet that was sent has been received."""

from collections.abc import Mapping, Sequence

from coordinator.networks.admission import ConnectedHost
from coordinator.networks.base import StepResult, UnreadArrivals
from coordinator.networks.control_channel import ControlChannel
from coordinator.networks.control_tree import TREE_ORDERS
from coordinator.networks.messages import (
    AlteredCopies,
    HostHere,
    JournalRows,
    Message,
    Received,
    StepReport,
    SubtreeReceived,
)
from emunode.engine.rank_set import AlteredCopy
from emunode.errors import FrameError
from emunode.faults.kinds import Fault, to_record
from emunode.host.control_tree import SubtreeReport
from emunode.host.orders import StepKind
from emunode.model import Step


class HostCounts:
    """The counts of one host in the open step.

    They are packets sent and received, by peer host. Its next step is noted too.
    """

    __slots__ = ("due", "received", "reported", "sent")

    def __init__(self) -> None:
        self.reported: Step = 0
        """The step that was last reported."""
        self.due: Step = 0
        """The next step when the host sends without receiving anything first, as last reported; 0 for none."""
        self.clear()

    def clear(self) -> None:
        """Forget the packets of the open step."""
        self.sent: Mapping[int, int] = {}
        self.received: Mapping[int, int] = {}


class StepBarrier:
    """Opens steps on the hosts of `channel`, and waits until each has ended.

    A step ends when all hosts with work reported it and no packet is in flight. A host has work in a step if one of its
    ranks is due or has received packets in the step before. Other hosts get no order, and report only the packets that
    they receive. The number of packets in flight is the sum over all hosts of packets sent minus received. It is kept up
    to date as reports come in, so a step takes time for the hosts with work, not for all hosts. With `use_tree` a step
    of many hosts takes the tree of control (`coordinator.networks.control_tree`).
    """

    def __init__(self, channel: ControlChannel) -> None:
        self.rows: list[bytes] = []
        """Journal rows that no step result has taken yet."""
        self.altered_copies: list[AlteredCopy] = []
        """Altered copies that no step result has taken yet."""
        self._channel = channel
        self._counts: dict[int, HostCounts] = {}
        self._counted: set[int] = set()
        """Hosts with an order or with arrivals in the open step."""
        self._calendar: dict[Step, set[int]] = {}
        """By step, the hosts that are due in it."""
        self._receivers: set[int] = set()
        """Hosts that packets of the open step were sent to."""
        self._begun = False
        """Whether all hosts have had their first step.

        Only the reports of that step say when hosts are due.
        """
        self._tops: Sequence[int] = ()
        """The hosts at the top of the tree; empty without a tree."""
        self._tree_allowed = True
        self._through_tree = False
        """Whether the open step takes the tree."""
        self._here: set[int] = set()
        """Hosts that have answered since they were last asked whether they are there."""
        self._step: Step = 0
        self._unreported = 0
        self._in_flight = 0

    def reset(self) -> None:
        """Start over, for another run on the same hosts."""
        self._counts.clear()
        self._counted.clear()
        self._calendar.clear()
        self._receivers.clear()
        self._begun = False
        self._tree_allowed = True
        self.rows.clear()
        self.altered_copies.clear()

    # --- the tree --------------------------------------------------------------------------------------------------

    def use_tree(self, tops: Sequence[int]) -> None:
        """Order steps of many hosts through the tree with these hosts at its top."""
        self._tops = tops

    def leave_tree(self) -> None:
        """Order further steps directly.

        Called when a process in the tree is about to be killed or stopped.
        """
        self._tree_allowed = False

    # --- steps -----------------------------------------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        """Whether packets of the open step are unread, or a live host is due."""
        # Packets that were sent are read in the next step, even if no rank is due to send in it.
        hosts = self._channel.hosts
        return bool(self._receivers) or any(hosts[index].alive for due in self._calendar.values() for index in due)

    async def step(self, step: Step, faults: Sequence[Fault], *, everyone: bool = False) -> StepResult:
        """Run one step on the active hosts with work, or on all active hosts."""
        ordered = self.begin(step, faults, everyone=everyone)
        if not ordered:
            # Hosts that fail are noticed, and interrupts, however many steps without work there are.
            await self._channel.look()
        await self._channel.wait_until(
            # Everything reported and nothing in flight: then no packet of this step can still arrive.
            lambda: not self._unreported and not self._in_flight,
            f"step {step} to end",
            explain=lambda: self._missing(step),
            on_half_time=self._ask_who_is_here,
        )
        rows, altered_copies = self._take_rows()
        return StepResult(rows, self.busy, altered_copies)

    async def look(self, step: Step) -> UnreadArrivals:
        """Return what has arrived in a step that has ended, before hosts read it.

        A host that is stopped is left out.
        """
        asked = [self._channel.hosts[index] for index in sorted(self._receivers)]
        asked = [host for host in asked if host.active]
        self._here.clear()
        self._channel.send_to_all(asked, "look", step)
        await self._channel.wait_until(
            lambda: self._here.issuperset(host.index for host in asked), f"the arrivals of step {step}"
        )
        return UnreadArrivals(*self._take_rows())

    def _take_rows(self) -> tuple[list[bytes], list[AlteredCopy]]:
        """Return the rows and altered copies that have come in."""
        rows, self.rows = self.rows, []
        altered_copies, self.altered_copies = self.altered_copies, []
        return rows, altered_copies

    def begin(self, step: Step, faults: Sequence[Fault], *, everyone: bool = False) -> Sequence[ConnectedHost]:
        """Order a step of the active hosts with work, or of all active hosts.

        Returns these hosts.
        """
        due = self._calendar.get(step) or set()
        if everyone or not self._begun:
            hosts = self._channel.active
        else:
            found = (self._channel.hosts[index] for index in sorted(self._receivers | due))
            hosts = [host for host in found if host.active]
        self._begun = True
        self._receivers = set()
        if self._tree_allowed and self._tops and len(hosts) > TREE_ORDERS:
            return self._order_through_tree(step, faults)
        self.order("step", step, faults, hosts)
        return hosts

    def _order_through_tree(self, step: Step, faults: Sequence[Fault]) -> Sequence[ConnectedHost]:
        """Order a step of all hosts, and return them.

        In a tree every host passes orders on, so each of them gets the order.
        """
        hosts = self._channel.in_order
        self._clear_counts(hosts)
        # All hosts report when they are due, and only the hosts that are due are named.
        for index in [index for due in self._calendar.values() for index in due]:
            self._note_due(self._channel.hosts[index], 0)
        self._step, self._unreported, self._in_flight = step, len(hosts), 0
        self._through_tree = True
        tops = [self._channel.hosts[index] for index in self._tops]
        self._channel.send_to_all(tops, "tree_step", step, [to_record(fault) for fault in faults])
        return hosts

    async def drain(self, step: Step, faults: Sequence[Fault], hosts: Sequence[ConnectedHost]) -> None:
        """Let hosts read the arrivals before `step`.

        Their processes are about to be killed or stopped.
        """
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
        self._clear_counts(hosts)
        self._step, self._through_tree = step, False
        # Counts start at zero in every step, so a packet of an earlier step cannot balance a missing one.
        self._unreported, self._in_flight = len(hosts), 0
        self._channel.send_to_all(hosts, kind, step, [to_record(fault) for fault in faults])

    def _clear_counts(self, hosts: Sequence[ConnectedHost]) -> None:
        """Forget the packets of the last step, and count those of these hosts from now on."""
        for index in self._counted:
            self._of(self._channel.hosts[index]).clear()
        self._counted = {host.index for host in hosts}

    def expect_nothing_of(self, host: ConnectedHost) -> None:
        """Forget the planned sends of a host, since its process is killed."""
        self._note_due(host, 0)

    # --- reports ---------------------------------------------------------------------------------------------------

    def take(self, host: ConnectedHost, message: Message) -> bool:
        """Take a message of a host about the open step.

        Returns False for any other message.
        """
        match message:
            case StepReport():
                self.on_report(host, message)
            case Received():
                self.on_received(host, message)
            case SubtreeReport():
                self.on_subtree(host, message)
            case SubtreeReceived():
                self.on_subtree_received(message)
            case HostHere():
                self._here.add(host.index)
            case JournalRows(rows):
                self.rows.append(rows)
            case AlteredCopies(copies):
                self.altered_copies += copies
            case _:
                return False
        return True

    def on_report(self, host: ConnectedHost, report: StepReport) -> None:
        """Take the report of a host on its step."""
        counts = self._of(host)
        counts.reported, counts.sent = report.step, report.sent
        self._note_due(host, report.due)
        self._unreported -= 1
        if report.sent:
            self._in_flight += sum(report.sent.values())
            self._receivers.update(report.sent)
        self._count_received(counts, report.received)
        if report.rows:
            self.rows.append(report.rows)

    def on_received(self, host: ConnectedHost, message: Received) -> None:
        """Take a newer count of received packets.

        It may come from a host without an order. A late count of an earlier step is ignored. Raises FrameError for a
        step that has not begun.
        """
        if message.step > self._step:
            raise FrameError(f"packets of step {message.step} in step {self._step}")
        # Through the tree all hosts get the order, and count there what they received before it.
        if message.step == self._step and not self._through_tree:
            self._counted.add(host.index)
            self._count_received(self._of(host), message.received)

    def on_subtree(self, host: ConnectedHost, report: SubtreeReport) -> None:
        """Take a sum of reports: of `host` and of the hosts below it in the tree."""
        if not self._through_tree or report.step != self._step:
            raise FrameError(f"a report through the tree on step {report.step} in step {self._step}")
        self._of(host).reported = report.step
        self._unreported -= report.hosts
        self._in_flight += sum(report.sent.values()) - report.received
        self._receivers.update(report.sent)
        for index, due in report.due.items():
            self._note_due(self._channel.hosts[index], due)
        if report.rows:
            self.rows.append(report.rows)

    def on_subtree_received(self, message: SubtreeReceived) -> None:
        """Take the number of packets that a subtree has received since its report."""
        if self._through_tree and message.step == self._step:
            self._in_flight -= message.received

    def _count_received(self, counts: HostCounts, received: Mapping[int, int]) -> None:
        # The difference to the previous count: `received` is a running total of the step.
        self._in_flight -= sum(received.values()) - sum(counts.received.values())
        counts.received = received

    def _note_due(self, host: ConnectedHost, due: Step) -> None:
        """Note the step when a host is due next; 0 for none."""
        counts = self._of(host)
        if counts.due == due:
            return
        if counts.due:
            there = self._calendar[counts.due]
            there.discard(host.index)
            if not there:
                del self._calendar[counts.due]
        counts.due = due
        if due:
            self._calendar.setdefault(due, set()).add(host.index)

    def _of(self, host: ConnectedHost) -> HostCounts:
        counts = self._counts.get(host.index)
        if counts is None:  # not setdefault, which would build counts at every call
            counts = self._counts[host.index] = HostCounts()
        return counts

    def _missing(self, step: Step) -> str:
        """Return the hosts without a report of `step`, and the packets that did not arrive, by pair of hosts."""
        if self._through_tree:
            return self._missing_in_tree(step)
        hosts = [host for host in self._channel.in_order if host.alive]
        ordered = [host for host in hosts if host.index in self._counted and host.active]
        silent = [host.index for host in ordered if self._of(host).reported != step]
        found = [f"hosts without a report: {listed(silent)}"] if silent else []
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

    def _ask_who_is_here(self) -> None:
        """Ask all hosts to answer, if the tree does not tell whose report is missing."""
        if self._through_tree:
            self._here.clear()
            self._channel.send_to_all(self._channel.in_order, "are_you_there")

    def _missing_in_tree(self, step: Step) -> str:
        """Return the hosts that do not answer; else the hosts at the top without a report of `step`."""
        hosts = self._channel.in_order
        silent = [host.index for host in hosts if host.index not in self._here]
        if silent:
            return f"hosts that do not answer: {listed(silent)}"
        tops = [index for index in self._tops if self._of(self._channel.hosts[index]).reported != step]
        if tops:
            return f"no report from the hosts below: {listed(tops)}"
        return f"{self._in_flight} packets have not been received"


def listed(hosts: Sequence[int]) -> str:
    """Return the numbers of the first five hosts."""
    return f"{', '.join(map(str, hosts[:5]))}{', ..' if len(hosts) > 5 else ''}"
