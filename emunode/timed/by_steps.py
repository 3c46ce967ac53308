"""The policy of a rank that keeps the steps of its rule under the timed clock with faults.

Model. A rank has the steps of lock-step, and takes the same decision in each. It runs step t when each packet that its
timetable has for earlier steps has arrived, or is known not to come. No packet starts before its time in the fault-free
timetable. So

    start = max(port free, last receipt and last notice of earlier steps, fault-free start)

and faults make no packet earlier.

No rank knows beforehand which packets will come. A packet that has started and does not arrive in its step is noticed at
the end of its occupancy, even if it is cut on its way. A packet that never starts is noticed when its sender crashes or
passes the step. A hang without an end counts as a crash at its beginning. After any other hang, the sender passes the
steps that it has missed when it resumes.

A rank that has received everything in its timetable follows arrivals alone: they come no earlier than without faults. A
rank that lacks a packet reads the fault-free start off its own clock, which may drift. A rank that recovers begins with
a node in its initial state, and misses packets that should have started before. A packet of a step that the rank has
passed is read in the next step that runs. Only faults that delay packets make such packets. No clock, no socket.
"""

from collections.abc import Sequence
from itertools import accumulate
from operator import itemgetter
from typing import NamedTuple

from emunode.algorithms.base import Algorithm
from emunode.engine.node import Node
from emunode.engine.rank_set import make_rule
from emunode.faults.effects import ALWAYS
from emunode.faults.in_time import FaultsInTime
from emunode.model import Hop, Packet, Port, Rank, Step
from emunode.timed.cost_model import LinearCostModel, PortOccupancy
from emunode.timed.rank import Actions, Arrival, Incarnation, Policy
from emunode.timed.transmission import RankTimetable, packet_size, transmit

NEVER: Step = 2**62


class Crossed(NamedTuple):
    """A packet that has crossed and is not read yet."""

    time: int
    port: Port
    step: Step
    segments: Packet


class _Incarnation(Incarnation):
    """A node between its creation and its crash, with its ports."""

    def __init__(self, node: Node, ports: PortOccupancy, *arguments: object) -> None:
        super().__init__(*arguments)  # type: ignore[arg-type]
        self.node = node
        self.ports = ports
        self.has_received = False
        # Nothing starts before the recovery, whose ports have been idle since time 0.
        ports.wait_until(self.starts)


class BySteps(Policy):
    """The policy of a rank that reads the packets of a step when no further packet of that step can come."""

    def __init__(
        self,
        rank: Rank,
        algorithm: Algorithm,
        costs: LinearCostModel,
        faults: FaultsInTime,
        timetable: RankTimetable,
        last: Step,
    ) -> None:
        """Take the part of the rank in the fault-free timetable.

        Nothing of a step after `last` is sent.
        """
        super().__init__(rank, algorithm, costs, faults)
        self._last = last
        self._awaited = dict(timetable.receipts)
        """By step, the packets that may still come."""
        # Descending, so that the next step is popped off the end.
        self._open = sorted(self._awaited, reverse=True)
        """The steps with packets that may still come, and maybe steps that are complete."""
        self._starts = timetable.starts
        self._unsent: dict[Step, dict[Port, int]] = {}
        """(step, port) -> planned start of packets still possible."""
        for (step, port), start in timetable.starts.items():
            self._unsent.setdefault(step, {})[port] = start
        self._begins = {step: min(starts.values()) for step, starts in self._unsent.items()}
        """The first start of each step."""
        # A running minimum from the last step back: over several ports a later step may start first.
        descending = sorted(self._begins, reverse=True)
        soonest = list(accumulate((self._begins[step] for step in descending), min))
        self._planned = list(zip(descending, soonest, strict=True))
        """(step, earliest start) of the steps that have not run, the next one last.

        The start belongs to the step or to a later step, since a later step may start first over several ports.
        """
        self._filed: dict[Step, list[Crossed]] = {}
        self._passed: Step = 0
        """The last step that has run."""
        self._missing: Step = NEVER
        """The first step of a packet that does not come. From then on the clock of the rank decides when it goes on."""
        self._notices: dict[Step, int] = {}
        """By step, the time of the last notice of a packet that does not come."""
        self._noticed = 0
        """The time of the last notice of a step before the running one."""
        self._incarnations = [self._begin(starts, crashes) for starts, crashes in faults.incarnations(rank)]
        self._ends = self._ends_of_work()
        self._plan(self._next_step())

    def _begin(self, starts: int, crashes: int) -> _Incarnation:
        view = self._view(starts)
        node = Node(self.rank, self._algorithm, make_rule(self._algorithm, view, 1))
        if self._faults.timing_affected:
            # A late packet makes the sends that follow from it late: they wait for their ports, and break no port
            # model.
            node.enable_queueing()
        ports = PortOccupancy(self._algorithm.spec.port_model, self._topology.degree)
        return _Incarnation(node, ports, view, starts, crashes, self._faults.hangs(self.rank))

    def _ends_of_work(self) -> list[tuple[int, int]]:
        """Return when the rank stops working, and when it recovers.

        There is a pair for every crash and every hang without an end. The second time is ALWAYS if there is no recovery.
        """
        returns = [each.starts for each in self._incarnations[1:]] + [ALWAYS]
        crashes = [each.crashes for each in self._incarnations]
        endless = [(start, ALWAYS) for start, end in self._faults.hangs(self.rank) if end >= ALWAYS]
        ends = [(end, after) for end, after in zip(crashes, returns, strict=True) if end < ALWAYS]
        # In order of time: they are taken from the front, one by one.
        return sorted(ends + endless)

    def act(self, now: int, arrivals: Sequence[Arrival], missing: Sequence[Step], actions: Actions) -> None:
        for step in missing:
            self._resolve(step)
            # From here on arrivals no longer show when a step begins, and the clock of the rank decides (`_start`).
            self._missing = min(self._missing, step)
            self._notices[step] = now
        for port, step, packet in arrivals:
            self._resolve(step)
            # A packet of a step that has been read is read with the next arrivals.
            self._filed.setdefault(max(step, self._passed), []).append(Crossed(now, port, step, packet))
        # Several steps may be due at once, if nothing but a missing packet kept them.
        while (due := self._next_step()) is not None and due[1] <= now:
            self._run(due[0], now, actions)
        # After the sends of this time: at one instant, none starts at a node that fails.
        while self._ends and self._ends[0][0] <= now:
            self._give_up(now, self._ends.pop(0)[1], actions)
        self._plan(due)

    def _resolve(self, step: Step) -> None:
        """Note that a packet of a step has come, or does not come."""
        # A packet that faults have delayed may come for a step that is complete: no count falls below 0.
        if self._awaited.get(step, 0):
            self._awaited[step] -= 1

    def _next_step(self) -> tuple[Step, int] | None:
        """Return the next step with anything to do, and the earliest time when it may run.

        None if there is no such step, or if packets of earlier steps may still come.
        """
        awaited, planned = self._open, self._planned
        while awaited and not self._awaited[awaited[-1]]:
            awaited.pop()
        while planned and planned[-1][0] <= self._passed:
            planned.pop()
        step = planned[-1][0] if planned else NEVER
        if self._filed:
            step = min(step, min(self._filed) + 1)
        for incarnation in self._incarnations:
            due = incarnation.node.due
            # The step after the last one only reads.
            if due is not None and due < step and due <= self._last:
                step = due
        # Steps are complete in order, so the first that is not decides.
        if step == NEVER or (awaited and awaited[-1] < step):
            return None
        # Never before the fault-free start of the step, or of the next step with sends. The timetable or the clock of the
        # rank counts, whichever is earlier, since `_start` decides between them for each packet.
        return step, min(planned[-1][1], self._faults.clock(self.rank, planned[-1][1])) if planned else 0

    def _plan(self, due: tuple[Step, int] | None) -> None:
        time = None if due is None else due[1]
        if self._ends and self._unsent:
            end = self._ends[0][0]
            time = end if time is None else min(time, end)
        self.next_time = self.next_work = time

    # --- steps -----------------------------------------------------------------------------------------------------

    def _run(self, step: Step, now: int, actions: Actions) -> None:
        """Run a step.

        The packets of the step before are read, and the packets of this step are sent.
        """
        # Sorted, because the order of receipts over one port decides about their times; packets of one port keep theirs.
        crossed = sorted(self._filed.pop(step - 1, ()), key=itemgetter(0, 1))
        self._passed = step
        if self._notices:
            for earlier in [each for each in self._notices if each < step]:
                self._noticed = max(self._noticed, self._notices.pop(earlier))
        for incarnation in self._incarnations:
            # Sorted by time, so these are the first ones; the others are read by the node that recovers.
            came = [packet for packet in crossed if packet.time <= incarnation.crashes]
            crossed = crossed[len(came) :]
            if came or incarnation.node.due == step:
                self._run_node(incarnation, step, came, now, actions)
        # Packets of the timetable that this step has not sent: the neighbours wait for them, and learn that they do not
        # come.
        for port in sorted(self._unsent.pop(step, ())):
            actions.notices.append((self._passing_time(step, port, now), port, step))

    def _run_node(
        self, incarnation: _Incarnation, step: Step, came: Sequence[Crossed], now: int, actions: Actions
    ) -> None:
        inbox: dict[Port, Packet] = {}
        late = False
        for time, port, name, segments in came:
            duration = self._costs.nanoseconds(packet_size(segments))
            actions.receipts.append((incarnation.ports.arrive(step - 1, time, duration), port, name, time))
            # Arrivals by one port in one step are one packet for the rule, as in lock-step.
            inbox[port] = inbox.get(port, ()) + segments
            late |= name != step - 1
        incarnation.has_received |= bool(came)
        if late:
            incarnation.node.enable_queueing()
        if self._faults.knows:
            # Over one port the last receipt may end after `now`, and the step begins then.
            begins = max(incarnation.ports.received, self._noticed, self._begins.get(step, 0))
            incarnation.view.live_ports = self._faults.live_ports(self.rank, begins)
        outbox, hops = incarnation.node.step(step, list(inbox.items()))
        # Without a late packet all hops are of one step, and need no sorting.
        actions.judged.extend(_by_name(hops, came) if late else [(step - 1, hops)])
        if step <= self._last:
            for port, segments in outbox:
                self._send(incarnation, step, port, segments, now, actions)

    # --- packets ---------------------------------------------------------------------------------------------------

    def _start(self, incarnation: _Incarnation, step: Step, port: Port, now: int) -> int:
        """Return the time when a packet of a step can start."""
        start = max(incarnation.ports.earliest(step, port), self._noticed)
        intended = self._starts.get((step, port))
        if intended is None:
            # Faults have made this packet: no timetable holds it back.
            return max(start, now)
        by_clock = self._missing < step or incarnation.starts
        return max(start, self._faults.clock(self.rank, intended) if by_clock else intended)

    def _send(
        self, incarnation: _Incarnation, step: Step, port: Port, segments: Packet, now: int, actions: Actions
    ) -> None:
        """Let a packet start.

        It does not start if its sender is down or knows that it would not arrive. It may be lost.
        """
        faults, rank = self._faults, self.rank
        # A packet stays in `_unsent` if this returns early: `_run` gives notice of it when the step has passed.
        intended = self._starts.get((step, port))
        # A node that has received nothing yet follows its own schedule: sends of earlier times are missed.
        if intended is not None and intended < incarnation.starts and not incarnation.has_received:
            return
        start = self._start(incarnation, step, port, now)
        if start >= incarnation.crashes or faults.silent(rank, start):
            return
        if faults.knows and faults.is_dead(rank, port, start):
            return
        sent, lost, free = transmit(faults, self._costs, rank, step, port, segments, start)
        if free is not None:
            incarnation.ports.occupy(port, free)
        # A packet that is delayed beyond the last step is of no step of the run.
        actions.losses.extend(each for each in lost if each.step <= self._last)
        if sent is not None and sent.step <= self._last:
            actions.departures.append(sent)
        planned = self._unsent.get(step, {}).pop(port, None)
        # A lost or delayed packet is not one of this step any more. `free` is None if the sender withholds it: then it
        # never starts.
        if planned is not None and (sent is None or sent.step != step):
            actions.notices.append((start if free is None else free, port, step))

    def _passing_time(self, step: Step, port: Port, now: int) -> int:
        """Return the time when it is clear that a packet of the timetable does not start."""
        start = self._starts[step, port]
        for incarnation in self._incarnations:
            # The packet should have started before this node was created: the crash before that has told it.
            if start < incarnation.starts:
                return now
            start = max(start, self._start(incarnation, step, port, now))
            if start < incarnation.crashes:
                hang = next((each for each in incarnation.hangs if each.start <= start < each.end), None)
                if hang is not None:
                    # A hang without an end tells it like a crash; after any other hang the sender passes the step.
                    start = hang.start if hang.is_endless else hang.end
                return max(now, start)
        return max(now, self._incarnations[-1].crashes)

    def _give_up(self, now: int, until: int, actions: Actions) -> None:
        """Tell the neighbours at a crash which packets will not start.

        They do not start before the recovery at `until`, or at all.
        """
        # In order, as the notices are recorded and sent to hosts.
        for step, starts in sorted(self._unsent.items()):
            for port in sorted(port for port, start in starts.items() if start < until):
                del starts[port]
                actions.notices.append((now, port, step))
            if not starts:
                del self._unsent[step]


def _by_name(hops: Sequence[Hop], came: Sequence[Crossed]) -> list[tuple[Step, list[Hop]]]:
    """Return hops by the steps that name their packets.

    The hops are in order of ports.
    """
    by_step: dict[Step, list[Hop]] = {}
    # Hops come by port, and within a port in the order of its packets. So do the packets, as the sort keeps that order.
    left = iter(hops)
    for packet in sorted(came, key=itemgetter(1)):
        by_step.setdefault(packet.step, []).extend(next(left) for _ in packet.segments)
    return list(by_step.items())
