"""The effect of the faults in force on packets: is this packet lost, altered, repeated or delayed in this step?

The engine asks about every packet that leaves a rank. The answer depends only on the faults, the packet's place (step,
rank, port) and the seed, so both engines treat the same packets alike. Physical effects (closing a connection, stopping or
killing a process) belong to the engine and never change an answer.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from emunode.faults.byzantine import (
    ByzantineFault,
    Collusion,
    CommonKnowledge,
    CopyId,
    Sending,
    Treatment,
    treatment_by,
)
from emunode.faults.kinds import Crash, Fault, Hang, Heal, LinkFault, Recover, Up, is_outage, kind_of
from emunode.faults.transit import FaultRandom, LinkTransit, forge_apart, forge_segment
from emunode.model import CONTROL_TREE, Packet, Port, PortPacket, Rank, Segment, Step
from emunode.topologies.base import Topology

Crossing = tuple[Port, Packet, bool]
"""A packet that crosses a port in a step, and whether it arrives; if not, it is lost."""


class Faults:
    """The faults in force. Call `apply` at the beginning of each step with the faults that begin in it.

    `origin_is_author`: a byzantine rank does not alter segments that carry its own name. In a reduce such a segment is a
    fold of other ranks' values, so there it is false. `knows`: ranks know their broken links and neighbours, and send
    nothing there. `known`: what byzantine ranks know of the collective; without it, colluding ranks alter every copy.
    Delayed packets are kept here, by sender.
    """

    def __init__(
        self,
        topology: Topology,
        seed: int,
        *,
        origin_is_author: bool = True,
        knows: bool = False,
        known: CommonKnowledge | None = None,
    ) -> None:
        self.crashed: set[Rank] = set()
        self.needs_filter = False
        """True once packets have to pass `crossings`: after any fault but a crash, and after a crash if ranks know of it."""
        self.timing_affected = False
        """Whether a fault so far may have made a packet late."""
        self.payload_altered = False
        """Whether a fault so far may have altered payloads."""
        self.ends: set[Step] = set()
        """The steps just after the last steps of faults."""
        self._topology = topology
        self._seed = seed
        self._origin_is_author = origin_is_author
        self._knows = knows
        self._hung: dict[Rank, Step] = {}
        self._known = known
        self._byzantine: dict[Rank, list[ByzantineFault]] = {}
        self._collusions: dict[tuple[type[ByzantineFault], frozenset[Rank]], Collusion] = {}
        self._down: dict[tuple[Rank, Port], Step] = {}
        self._links: dict[tuple[Rank, Port], list[tuple[str, LinkFault, Step]]] = {}
        self._counts: dict[tuple[Rank, Port], dict[str, int]] = {}
        self._held: dict[Rank, dict[Step, list[PortPacket]]] = {}

    def apply(self, faults: Iterable[Fault]) -> None:
        """Put the faults that are due into force."""
        for fault in faults:
            # A rate of 0: the fault is on record, but never does anything.
            if isinstance(fault, LinkFault | ByzantineFault) and not (fault.breaks or isinstance(fault, Up)):
                continue
            self.needs_filter |= self._knows or not isinstance(fault, Crash)
            self.timing_affected |= fault.affects_timing
            self.payload_altered |= fault.alters_payload
            # `ends` are the steps when ranks may learn that something works again.
            self.ends.add(fault.end + 1)
            match fault:
                case Crash(rank=rank):
                    self.crashed.add(rank)
                    # A crash ends a hang: a recovered rank is not in the middle of one.
                    self._hung.pop(rank, None)
                    # Delayed packets are kept by their sender, and are lost with it.
                    self._held.pop(rank, None)
                case Recover(rank=rank):
                    self.crashed.discard(rank)
                case Hang(rank=rank, last=last):
                    # Two hangs overlap: the longer one decides.
                    self._hung[rank] = max(last, self._hung.get(rank, 0))
                case ByzantineFault(rank=rank):
                    self._byzantine.setdefault(rank, []).append(fault)
                case LinkFault(sender=sender, port=port) if is_outage(fault):
                    self._down[sender, port] = max(fault.end, self._down.get((sender, port), 0))
                case Up(sender=sender, port=port):
                    self._down.pop((sender, port), None)
                    if isinstance(fault, Heal):
                        # They stay in the list: the names of later faults count them.
                        on_link = self._links.get((sender, port), [])
                        on_link[:] = [(name, before, min(end, fault.step - 1)) for name, before, end in on_link]
                case LinkFault(sender=sender, port=port):
                    on_link = self._links.setdefault((sender, port), [])
                    # The name keys the fault's random numbers, so two faults of one kind on one link draw independently.
                    number = sum(type(fault) is type(other) for _, other, _ in on_link)
                    on_link.append((f"{kind_of(fault)} {number}", fault, fault.end))

    # --- the state of ranks and links ------------------------------------------------------------------------------

    def silent(self, rank: Rank, step: Step) -> bool:
        """Return whether `rank` is crashed or hangs in `step`: it sends nothing.

        In the first such step it still reads what arrived before.
        """
        return rank in self.crashed or self._hung.get(rank, 0) >= step

    def hung_until(self, rank: Rank) -> Step:
        """Return the last step of the hang of `rank`; 0 if it does not hang."""
        return self._hung.get(rank, 0)

    def byzantine(self, step: Step, rank: Rank) -> list[ByzantineFault]:
        """Return the faults of `rank` that alter or withhold its sends in `step`."""
        there = self._byzantine.get(rank)
        return [fault for fault in there if fault.step <= step <= fault.end] if there else []

    def treatment(
        self, faults: Iterable[ByzantineFault], step: Step, rank: Rank, port: Port, copy: CopyId
    ) -> Treatment:
        """Return the treatment of a copy that `rank`, with these faults, should send by `port` in `step`."""
        if copy[2] >= CONTROL_TREE:  # an author of control segments may withhold them
            faults = [fault for fault in faults if fault.withholds]
        sending = Sending(self._seed, step, rank, port, copy, lambda kind: self._collusion(kind, step))
        treatment = max((treatment_by(fault, sending) for fault in faults), default=Treatment.PASS_ON)
        # A source cannot forge its own segments.
        return Treatment.PASS_ON if treatment < Treatment.WITHHOLD and self._is_author(rank, copy) else treatment

    def _is_author(self, rank: Rank, copy: CopyId) -> bool:
        return (copy[0] == rank and self._origin_is_author) or copy[2] >= CONTROL_TREE

    def _collusion(self, kind: type[ByzantineFault], step: Step) -> Collusion:
        """Return the ranks with a fault of this kind in `step`, as one party."""
        ranks = frozenset(
            rank for rank in self._byzantine if any(isinstance(each, kind) for each in self.byzantine(step, rank))
        )
        # Kept: it remembers the votes that it has counted.
        found = self._collusions.get((kind, ranks))
        if found is None:
            found = self._collusions[kind, ranks] = Collusion(self._known, ranks)
        return found

    def is_down(self, step: Step, sender: Rank, port: Port) -> bool:
        """Return whether nothing crosses this direction of a link in `step`."""
        return self._down.get((sender, port), 0) >= step

    def is_closed(self, step: Step, rank: Rank, port: Port) -> bool:
        """Return whether the connection of a link is closed in `step`: one end has crashed, or both directions are
        down.
        """
        peer, its_port = self._topology.end(rank, port)
        if peer in self.crashed or rank in self.crashed:
            return True
        return self.is_down(step, rank, port) and self.is_down(step, peer, its_port)

    def is_dead(self, step: Step, sender: Rank, port: Port) -> bool:
        """Return whether no packet that `sender` sends by `port` in `step` can arrive."""
        return self.silent(self._topology.neighbour(sender, port), step) or self.is_down(step, sender, port)

    def live_ports(self, step: Step, rank: Rank) -> tuple[Port, ...]:
        """Return the ports that a rank uses if it knows the state of its own links and neighbours."""
        return tuple(port for port in self._topology.ports(rank) if not self.is_dead(step, rank, port))

    # --- packets ---------------------------------------------------------------------------------------------------

    def crossings(self, step: Step, rank: Rank, outbox: Iterable[PortPacket]) -> list[Crossing]:
        """Return the packets that cross the ports of `rank` in `step`, from `outbox` and delayed ones; by
        ascending port.
        """
        # Delayed packets that are due come first. Those that were due while the rank was silent are discarded.
        held = self._held.get(rank)
        crossing: list[PortPacket] = held.pop(step, []) if held else []
        if held:
            for missed in [due for due in held if due < step]:
                del held[missed]
        # Lost packets are reported apart, because they do not cross.
        lost: list[Crossing] = []
        byzantine = self.byzantine(step, rank)
        for port, segments in outbox:
            # The rank knows that nothing arrives there, and does not send.
            if self._knows and self.is_dead(step, rank, port):
                continue
            if byzantine:
                segments, withheld = self.treated(byzantine, step, rank, port, segments)  # noqa: PLW2901
                if withheld:
                    lost.append((port, withheld, False))
                if not segments:
                    continue
            transit = self.transit(step, rank, port, segments)
            # A delayed packet leaves now, and is lost if its receiver is dead now. All others are checked below, with the
            # delayed ones that cross in this step.
            if transit.lost or (transit.delay and self.is_dead(step, rank, port)):
                lost.append((port, segments, False))
                continue
            # A duplicate has twice the segments in one packet, since a port sends one packet per step.
            copies = transit.segments * transit.copies
            if transit.delay:
                self._held.setdefault(rank, {}).setdefault(step + transit.delay, []).append((port, copies))
            else:
                crossing.append((port, copies))
        # A port carries one packet per step, so packets that cross together are merged. The sort is stable: delayed
        # segments stay ahead of segments that leave now.
        crossing.sort(key=itemgetter(0))
        arriving = [
            (
                port,
                tuple(segment for _, segments in packets for segment in segments),
                not self.is_dead(step, rank, port),
            )
            for port, packets in groupby(crossing, itemgetter(0))
        ]
        # Rows by port, lost before arrived: the order of the journal does not depend on the fault that did it.
        return sorted([*lost, *arriving], key=itemgetter(0, 2)) if lost else arriving

    def transit(self, step: Step, rank: Rank, port: Port, segments: Packet) -> LinkTransit:
        """Return a packet that leaves `rank` by `port` in `step`, as the faults of its link change it."""
        random = FaultRandom(self._seed, step, rank, port)
        on_link = self._links.get((rank, port))
        transit = LinkTransit(segments, random, self._counts.setdefault((rank, port), {}) if on_link else {})
        for name, fault, end in on_link or ():
            if fault.step <= step <= end:
                # Faults act in the order of their beginnings, each on the result of the one before.
                transit.carry_out(name, fault.act)
        return transit

    def next_crossing(self, rank: Rank) -> Step | None:
        """Return the next step when a delayed packet of `rank` crosses, or None."""
        held = self._held.get(rank)
        return min(held) if held else None

    def treated(
        self, byzantine: list[ByzantineFault], step: Step, rank: Rank, port: Port, segments: Packet
    ) -> tuple[Packet, Packet]:
        """Return the segments of a packet as byzantine `rank` sends them, and the segments that it withholds."""
        sent, withheld = [], []
        for segment in segments:
            treatment = self.treatment(byzantine, step, rank, port, segment[:4])
            if treatment is Treatment.WITHHOLD:
                withheld.append(segment)
            elif treatment is Treatment.FORGE:
                sent.append(forge_segment(self._seed, segment, self._right(segment)))
            elif treatment is Treatment.FORGE_APART:
                sent.append(forge_apart(self._seed, segment, rank, port, self._right(segment)))
            else:
                sent.append(segment)
        return tuple(sent), tuple(withheld)

    def _right(self, segment: Segment) -> bytes | None:
        """Return the payload that its origin sent; None in a reduce, where only the receiver can know it."""
        if self._known is None or not self._origin_is_author:
            return None
        origin, target, _, index, _ = segment
        return self._known.content(origin, target, index)
