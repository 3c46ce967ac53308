"""The steps of one host: wake the ranks that have something to do, move their packets, count, report.

In a step the host puts new faults into force. Every rank with work reads, decides and sends. Then the host reports how
many packets went to each host. The coordinator opens the next step when the counts of all hosts agree. If the count of
arrivals grows after the report, it is reported again.

A packet carries its step, because it may arrive before the order for its step, and arrivals are filed by step. A packet
of step t is read in step t + 1. Two files, indexed by `step & 1`, are enough: when step t is open, packets of t and t +
1 can arrive, and the arrivals of t - 1 went into inboxes when t was opened.

A host gets the order for a step only if it has something to do in it: a rank is due, packets of the step before are
unread, or faults change. A packet of a step without an order moves the host into that step, and its arrival is reported.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice

import trio

from emunode.algorithms.base import Algorithm, LocalView, renew
from emunode.algorithms.registry import make_algorithm
from emunode.engine.node import Node
from emunode.engine.rank_set import RankSet
from emunode.engine.step import StepRunner
from emunode.errors import EmulatorError, FrameError, RunError
from emunode.faults.connections import Connections
from emunode.faults.kinds import FOREVER
from emunode.host.link_table import LinkTable
from emunode.host.orders import OpenStep
from emunode.host.parking import at_every_wake, parked_message
from emunode.model import CollectiveSpec, HopOutcome, Packet, PortPacket, Rank, Step
from emunode.net import wire

MOST_QUEUED = 2**14
"""Packets collected before they are written: see `LinkTable.flush`."""
FLUSH_BYTES = 4 * 2**20
"""Bytes of packets collected before they are written, and of journal rows before they are sent ahead of the report."""
ROWS_BYTES = FLUSH_BYTES // wire.ROW.size * wire.ROW.size
"""Whole rows of one message."""

StepArrivals = tuple[list[int], list[Packet]]
"""The arrivals of one step, in their order: the slots, and the packet at each."""


class StepEngine:
    """The ranks of one host in lock-step.

    Every rank is a trio task, parked between steps. `tell` sends a message to the coordinator, and `fail` reports an
    error to it. `on_other_frame` takes frames of streams that are no links.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        links: LinkTable,
        tell: Callable[..., None],
        fail: Callable[[Exception], None],
        on_other_frame: Callable[[int, bytes], None],
    ) -> None:
        self.algorithm = algorithm
        self._topology = algorithm.topology
        self._order = algorithm.topology.order
        self._links = links
        self._tell = tell
        self._tell_step = tell
        """Sends a message about the open step to the coordinator, or to the parent in the tree of control."""
        self._fail = fail
        self._on_other_frame = on_other_frame
        self._slots = links.slots
        self._tasks: dict[Rank, trio.lowlevel.Task] = {}
        self._parked = parked_message()
        self._arrivals: tuple[StepArrivals, StepArrivals] = (([], []), ([], []))
        self._queued = 0
        """Bytes of the frames that wait to be written.

        A frame that leaves by several ports counts once.
        """
        # A list and not a Counter: `_send` adds to it for every packet.
        self._sent = [0] * (max(links.peer_hosts, default=0) + 1)
        """Packets of this step by the host they went to."""
        self._received: Counter[int] = Counter()
        self._counted = 0
        """Arrivals of this step that are in `_received`."""
        self._unexplained: list[tuple[int, str]] = []
        """Links that ended since the last step began: slot, reason."""
        self._inbox: dict[Rank, list[PortPacket]] = {}
        self._step: Step = 0
        self._reported = False
        self._due: Step = 0
        """The step when a rank next sends without receiving anything first, as last reported. 0 for none."""
        self.working = 0
        """Ranks that are still to run in this step."""
        self._start_over()

    def _start_over(self) -> None:
        """Put all ranks and links into their initial state."""
        ranks = self._links.ranks
        self._runner = StepRunner(self.algorithm, RankSet(self.algorithm, ranks), ranks)
        self._faults = self._runner.faults
        self._connections = Connections(self._topology, self._faults)
        self._had_faults = False

    def reset(self, spec: CollectiveSpec) -> None:
        """Forget everything but the links.

        The next step is step 1 of `spec`.
        """
        before = self.algorithm.spec
        # Same network and schedule: the tables that the algorithm has computed are still right.
        if spec == before._replace(seed=spec.seed, knowledge=spec.knowledge):
            renew(self.algorithm, spec)
        else:
            self.algorithm = make_algorithm(self._topology, spec)
        self._step = 0
        self._due = 0
        self._reported = False
        for slots, packets in self._arrivals:
            slots.clear()
            packets.clear()
        self._unexplained.clear()
        self._start_over()

    def node(self, rank: Rank) -> Node:
        """Return the node of a rank of this host."""
        return self._runner.rank_set.node(rank)

    def create_node(self, view: LocalView) -> Node:
        """Return a node in its initial state.

        No step runs it.
        """
        return self._runner.rank_set.create_node(view)

    # --- tasks -----------------------------------------------------------------------------------------------------

    async def run_rank(self, rank: Rank, on_all_parked: Callable[[], None]) -> None:
        """Run the task of one rank.

        The last rank that is about to park calls `on_all_parked`.
        """
        self._tasks[rank] = trio.lowlevel.current_task()
        # The last rank to start: the host is ready once all its tasks are parked.
        if len(self._tasks) == len(self._links.ranks):
            on_all_parked()
        await at_every_wake(self._parked, partial(self.take_turn, rank))

    def take_turn(self, rank: Rank) -> None:
        """Run one step of one rank.

        The last rank of the step reports.
        """
        try:
            self.run_node(rank)
        except EmulatorError as error:
            self._fail(error)
        self.working -= 1
        if not self.working:
            # The report is sent by whichever rank happens to be the last of the step.
            self._report()

    # --- arrivals --------------------------------------------------------------------------------------------------

    def on_frame(self, fd: int, frame: bytes) -> None:
        """File a packet of a link under its step.

        Raises FrameError for a packet of a step that cannot be open.
        """
        slot = self._slots[fd]
        if slot < 0:
            self._on_other_frame(fd, frame)
            return
        # Decoded on arrival, although it is read in the next step: a malformed packet ends its own stream.
        step, packet = wire.decode_packet(frame, self._order)
        if not 0 <= step - self._step <= 1:
            self._skip_steps_before(step)
        # Two files suffice, one for even and one for odd steps: see the module's docstring.
        slots, packets = self._arrivals[step & 1]
        slots.append(slot)
        packets.append(packet)

    def _skip_steps_before(self, step: Step) -> None:
        """Leave out the steps before `step`, for which no order came.

        Raises FrameError if this host has something to do in one of them.
        """
        unread = self._arrivals[0][0] or self._arrivals[1][0]
        if not self._reported or step <= self._step or unread or 0 < self._due < step:
            raise FrameError(f"packet of step {step} in step {self._step}")
        self._enter_without_order(step - 1)

    def _enter_without_order(self, step: Step) -> None:
        """Go to a step in which the ranks of this host have nothing to do."""
        self._step = step
        self._counted = 0
        self._received.clear()
        self._tell_step = self._tell

    def link_ended(self, slot: int, why: str) -> None:
        """Note that a link ended by itself.

        The next step checks whether a fault explains it.
        """
        # Not an error yet: the poller may see the end before the order that explains it.
        self._unexplained.append((slot, why))

    def _take_inboxes(self, arrivals: StepArrivals) -> dict[Rank, list[PortPacket]]:
        """Return the arrivals of a step as an inbox for each rank, and forget them."""
        inboxes = self._inboxes(arrivals)
        for column in arrivals:
            column.clear()
        return inboxes

    def _inboxes(self, arrivals: StepArrivals) -> dict[Rank, list[PortPacket]]:
        """Return the arrivals of a step as an inbox for each rank."""
        inboxes: dict[Rank, list[PortPacket]] = {}
        if not arrivals[0]:  # most steps of a host with few active ranks
            return inboxes
        ranks, degree = self._links.ranks, self._links.degree
        for slot, packet in zip(*arrivals, strict=True):
            index, port = divmod(slot, degree)
            rank = ranks[index]
            inbox = inboxes.get(rank)
            if inbox is None:  # not setdefault: most ranks get one packet, and would make a list to throw away
                inboxes[rank] = [(port, packet)]
            else:
                inbox.append((port, packet))
        return inboxes

    # --- a step ----------------------------------------------------------------------------------------------------

    def open_step(self, order: OpenStep, tell: Callable[..., None] | None = None) -> None:
        """Begin a step: wake the ranks with work.

        The report comes at once if no rank has work, or if the step only drains. Messages about the step go to `tell`,
        by default to the coordinator.
        """
        self._tell_step = tell or self._tell
        self._step = step = order.step
        self._reported = False
        self._counted = 0
        if order.kind == "catch_up":
            self._links.forget_waves()
        self._sent = [0] * len(self._sent)
        # Packets of this step that were early are in its file already, and are counted with later ones.
        self._received.clear()
        # The arrivals of step - 1 are complete, because the coordinator has compared the counts.
        self._inbox = self._take_inboxes(self._arrivals[(step - 1) & 1])
        waking = self._inbox.keys() | self._runner.due.pop(step, ())
        # From the first fault on in every step: see `RankSet.apply_faults`.
        self._had_faults |= bool(order.faults)
        if self._had_faults:
            # Before ranks wake: a rank must not send on a link that closes in this step.
            waking = self._apply_faults(order, waking)
        self._check_ended_links()
        self.working = len(waking)
        if order.kind != "step" or not waking:
            self._report()
        # Ascending order is not needed for correctness; it makes logs of equal runs comparable.
        for rank in sorted(waking):
            self.wake(rank)

    def wake(self, rank: Rank) -> None:
        """Let a rank with work take its turn soon."""
        trio.lowlevel.reschedule(self._tasks[rank])

    def _apply_faults(self, order: OpenStep, waking: AbstractSet[Rank]) -> set[Rank]:
        """Put faults into force on ranks and links.

        Returns the ranks that wake in this step.
        """
        if order.kind != "step":  # sends scheduled for steps that this process does not run are discarded
            # A process that is about to be killed sends nothing more; a stopped process skips the steps that it missed.
            self._runner.forget_due(FOREVER if order.kind == "drain" else order.step)
        awake = self._runner.apply_faults(order.step, order.faults, waking, self._run_step)
        closing, _ = self._connections.update(order.step, order.faults)
        # Sorted, because a set has no order that two runs share, and logs would differ.
        self._links.close_links(sorted(closing))
        return awake

    def _check_ended_links(self) -> None:
        """Raise RunError if a link ended that no fault closes.

        The results of such a run cannot be trusted.
        """
        for slot, why in self._unexplained:
            # A fault at either end may close the stream before this host learns of the step of the fault.
            if self._connections.link(*self._links.end(slot)) not in self._connections.concerned:
                raise RunError(f"link {self._links.name(slot)} ended: {why}")
        self._unexplained.clear()

    def run_node(self, rank: Rank) -> None:
        """Run one step of one rank: read, decide, send."""
        outbox = self._run_step(rank)
        if self._faults.needs_filter:
            outbox = self._runner.through_faults(self._step, rank, outbox)
        if outbox:
            self._send(rank, outbox)
        rows = self._runner.rows
        # Ahead of the report, so that a step with millions of rows needs no frame beyond the limit.
        if len(rows) > FLUSH_BYTES:
            self._tell_step("rows", bytes(rows))
            rows.clear()

    def _run_step(self, rank: Rank) -> list[PortPacket]:
        """Let a rank read its inbox and decide; return its packets."""
        links = self._links
        # The rank's inbox is gone afterwards: a rank runs once per step.
        return self._runner.run(self._step, rank, self._inbox.pop(rank, []), links.peers, links.slot(rank, 0))

    def _send(self, rank: Rank, outbox: Sequence[PortPacket]) -> None:
        """Queue packets of a rank on its links.

        Packets whose link is down are lost.
        """
        # Hot path, once per rank and step: attributes are bound to locals, and a packet that leaves by several ports is
        # encoded once.
        links, step = self._links, self._step
        base = links.slot(rank, 0)
        descriptors, hosts, sent, queue = links.descriptors, links.peer_hosts, self._sent, links.queue
        previous: Packet | None = None
        frame = b""
        for port, packet in outbox:
            slot = base + port
            fd = descriptors[slot]
            if fd < 0:
                # Recorded, and not counted as sent: it will not be received, and the step would never end.
                wire.encode_losses(self._runner.rows, step, rank, port, links.peers[slot], packet, HopOutcome.LOST)
                continue
            # A rule that forwards hands the same segments to several ports; comparing them is cheap, since Python
            # compares the objects first.
            if packet != previous:
                previous, frame = packet, wire.encode_packet(step, packet)
                self._queued += len(frame)
            sent[hosts[slot]] += 1
            queue.append((fd, frame))
        if len(queue) > MOST_QUEUED or self._queued > FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Write all packets that were decided so far."""
        # Frames that were written, or dropped with their link: an estimate that decides when to write is enough.
        self._queued = 0
        self._links.flush()

    # --- reports ---------------------------------------------------------------------------------------------------

    def _report(self) -> None:
        """Report that every rank has finished its part of this step, with the counts and rows so far."""
        # First: the coordinator waits until as many packets are received as are reported here.
        self._flush()
        runner = self._runner
        if runner.altered_copies:
            self._tell_step("altered_copies", runner.altered_copies)
            runner.altered_copies.clear()
        self._reported = True
        # The coordinator skips steps when no host is due; 0 stands for none.
        self._due = due = min(runner.due) if runner.due else 0
        # Only hosts that got something: most ranks talk to few hosts, and the report of an idle step stays short.
        sent = {host: packets for host, packets in enumerate(self._sent) if packets} if any(self._sent) else {}
        self._tell_step("report", self._step, sent, self._count_received(), due, bytes(runner.rows))
        runner.rows.clear()

    def look(self, step: Step) -> None:
        """Tell the coordinator what has arrived in `step`, before it is read."""
        links, unread = self._links, self._inboxes(self._arrivals[step & 1])
        rows, altered = self._runner.look(step, unread, links.peers, lambda rank: links.slot(rank, 0))
        if altered:
            self._tell("altered_copies", altered)
        for at in range(0, len(rows), ROWS_BYTES):
            self._tell("rows", bytes(rows[at : at + ROWS_BYTES]))

    def report_late_arrivals(self) -> None:
        """Report arrivals that no report of a step will count, if there are any."""
        if not self._reported:
            return
        step = self._step
        # Two comparisons per poll, so waiting for late packets costs nothing.
        if len(self._arrivals[step & 1][0]) != self._counted:
            self._tell_step("received", step, self._count_received())
        elif self._arrivals[step + 1 & 1][0] and not self._expects_order(step + 1):
            # The coordinator sends no order for that step, and waits for its packets all the same.
            self._enter_without_order(step + 1)
            self._tell("received", step + 1, self._count_received())

    def _expects_order(self, step: Step) -> bool:
        """Return whether an order for the next step is certain to come.

        It is if a rank is due or packets are unread. Orders for faults come unexpected.
        """
        return self._counted > 0 or 0 < self._due <= step

    def _count_received(self) -> Mapping[int, int]:
        """Return the number of packets that arrived in this step so far, by the host that sent them."""
        slots, _ = self._arrivals[self._step & 1]
        if len(slots) > self._counted:
            # `islice` from the last count on: arrivals are counted once each.
            self._received.update(map(self._links.peer_hosts.__getitem__, islice(slots, self._counted, None)))
            self._counted = len(slots)
        return self._received
