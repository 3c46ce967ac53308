"""Failure detection by silence: a rank suspects the neighbour behind a port after K intervals without a sign of life.

Every live rank gives a sign of life over every link in every interval. Under the lock-step clock an interval is a step,
and the sign costs nothing. It crosses a link in a step if a packet would, with the same random numbers, and faults that
count packets do not count it. A rank cannot tell a dead neighbour from a link that is down, so it suspects the *port*. A
link that is down in one direction makes its receiver suspect the sender.

A crash in step t is last heard at the end of step t - 1, suspected at the end of step t - 1 + K, and known to the rule
from step t + K on. Any sign clears the suspicion. With doubling, K doubles for that port each time a suspicion is
cleared. So a detector is wrong about a neighbour only finitely often (Chandra and Toueg 1996, eventually perfect).
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from emunode.faults.injector import Faults
from emunode.faults.kinds import Drop, Fault, LinkFault, NodeFault, Recover, in_order
from emunode.model import Detection, Port, Rank, Step
from emunode.topologies.base import Topology

LONGEST_WAIT: Final = 2**30
"""The most intervals that doubling leads to."""


class PortDetector:
    """The detector of one port.

    Times are whole numbers, and `interval` is the time between two signs.
    """

    __slots__ = ("_doubling", "_last", "intervals", "suspected")

    def __init__(self, detection: Detection, now: int) -> None:
        self.intervals = detection.after
        self.suspected = False
        self._doubling = detection.doubling
        self._last = now

    def heard(self, now: int) -> None:
        """Note a sign of life that ends at `now`."""
        if self.suspected and self._doubling:
            self.intervals = min(2 * self.intervals, LONGEST_WAIT)
        self.suspected = False
        self._last = now

    def deadline(self, interval: int) -> int:
        """Return the time when the port is suspected unless something is heard until then."""
        return self._last + self.intervals * interval

    def check(self, now: int, interval: int) -> None:
        """Suspect the port if its time has come, after all that is heard at `now`."""
        self.suspected = self.suspected or now >= self.deadline(interval)


class Suspicion(NamedTuple):
    """A change of mind about the neighbour behind `port`.

    From `step` on, `rank` suspects it, or does so no longer. `silent` tells whether that neighbour was silent, or the
    link from it down, when the rank changed its mind.
    """

    step: Step
    rank: Rank
    port: Port
    suspected: bool
    silent: bool


class StepDetection:
    """The detectors of `ranks` in lock-step.

    They depend on the faults and the seed, and not on the packets. Only ports next to a fault are watched: all others
    hear something in every step.
    """

    def __init__(self, topology: Topology, seed: int, detection: Detection, ranks: Sequence[Rank]) -> None:
        self._topology = topology
        self._detection = detection
        self._ranks = ranks
        self._faults = Faults(topology, seed)
        self._due: list[Fault] = []
        self._ended: Step = 0
        """The last step whose end has been processed."""
        self._ports: dict[tuple[Rank, Port], PortDetector] = {}
        self._delayed: dict[tuple[Rank, Port], set[Step]] = {}

    def suspects(self, rank: Rank, port: Port) -> bool:
        """Return whether a rank suspects the neighbour behind a port."""
        detector = self._ports.get((rank, port))
        return detector is not None and detector.suspected

    def live_ports(self, rank: Rank) -> tuple[Port, ...]:
        """Return the ports of a rank that it does not suspect."""
        return tuple(port for port in self._topology.ports(rank) if not self.suspects(rank, port))

    def silent_ports(self) -> set[tuple[Rank, Port]]:
        """Return the watched ports of live ranks that heard nothing in the last step.

        The neighbour was silent, or the link from it down.
        """
        step, silent = self._ended, self._faults.silent
        return {
            (rank, port) for rank, port in self._ports if not silent(rank, step) and self._is_silent(step, rank, port)
        }

    def advance(self, step: Step, faults: Iterable[Fault]) -> list[Suspicion]:
        """Go to the beginning of `step`, and return the changes since the last call.

        `faults` take effect in it, or took effect earlier and were not given yet.
        """
        # A sign of life is no packet, so it does not count where a fault loses the k-th one.
        self._due += (fault for fault in faults if not isinstance(fault, Drop))
        self._due = list(in_order(self._due))
        if not self._due and not self._ports:
            self._ended = max(self._ended, step - 1)
        changes: list[Suspicion] = []
        for ending in range(self._ended + 1, step):
            taking_effect = [fault for fault in self._due if fault.step <= ending]
            del self._due[: len(taking_effect)]
            self._apply(ending, taking_effect)
            changes += self._end(ending)
            self._ended = ending
        for fault in self._due:
            if isinstance(fault, Recover) and fault.step == step:
                self._forget(fault.rank, step)
        return changes

    def _apply(self, step: Step, faults: Sequence[Fault]) -> None:
        """Put faults into force, and watch the ports that they can concern."""
        self._faults.apply(faults)
        for fault in faults:
            if isinstance(fault, NodeFault):
                watched = [(peer, its_port) for _, peer, its_port in self._topology.ends(fault.rank)]
            elif isinstance(fault, LinkFault):
                watched = [self._topology.end(fault.sender, fault.port)]
            else:
                continue
            for rank, port in watched:
                if rank in self._ranks and (rank, port) not in self._ports:
                    self._ports[rank, port] = PortDetector(self._detection, step - 1)
            if isinstance(fault, Recover):
                self._forget(fault.rank, step)

    def _forget(self, rank: Rank, step: Step) -> None:
        """Let a rank that recovers in `step` wait for its neighbours from then on."""
        for port in self._topology.ports(rank):
            if (rank, port) in self._ports:
                self._ports[rank, port] = PortDetector(self._detection, step - 1)

    def _end(self, step: Step) -> list[Suspicion]:
        """Let every watched port hear the signs that cross in `step`, and then check its deadline."""
        changes = []
        for (rank, port), detector in self._ports.items():
            # Asked even for a rank that does not listen: the signs that cross in this step are no longer on their way.
            crosses = self._crosses(step, *self._topology.end(rank, port))
            # A rank that hangs neither hears nor suspects; a crashed rank will begin anew.
            if self._faults.silent(rank, step):
                continue
            before = detector.suspected
            if crosses:
                detector.heard(step)
            detector.check(step, 1)
            if detector.suspected is not before:
                changes.append(Suspicion(step + 1, rank, port, not before, self._is_silent(step, rank, port)))
        return changes

    def _crosses(self, step: Step, sender: Rank, port: Port) -> bool:
        """Return whether a sign of life of `sender` arrives over its `port` in `step`.

        It may be a sign of this step, or a delayed one.
        """
        faults, link = self._faults, (sender, port)
        arriving = self._delayed.setdefault(link, set())
        delayed = step in arriving
        arriving.discard(step)
        if faults.silent(sender, step):
            return False
        dead = faults.is_dead(step, sender, port)
        transit = faults.transit(step, sender, port, ())
        if not transit.lost and transit.delay and not dead:
            arriving.add(step + transit.delay)
        now = not transit.lost and not transit.delay
        return (now or delayed) and not dead

    def _is_silent(self, step: Step, rank: Rank, port: Port) -> bool:
        peer, its_port = self._topology.end(rank, port)
        return self._faults.silent(peer, step) or self._faults.is_down(step, peer, its_port)
