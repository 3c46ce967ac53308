"""The memory engine: all nodes of a network in one loop, without sockets, with the same journal.

The engine serves large networks and campaigns, and is the reference for runs over sockets. Nodes are created on first use. A
packet is handed over as the very tuple that its sender made. So it has to consist of numbers and bytes: no node can
change the state of another one through these.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from emunode.algorithms.base import Algorithm
from emunode.engine.rank_set import AlteredCopy, RankSet
from emunode.engine.step import StepRunner
from emunode.errors import RuleError
from emunode.faults.kinds import Fault
from emunode.model import HopOutcome, PortPacket, Rank, Step
from emunode.net.wire import encode_losses
from emunode.topologies.base import Topology

MOST_ENDS = 2**20
"""Link ends whose other ends are kept; they take about 100 bytes each."""


class OtherEnds(dict[int, Rank]):
    """The rank behind a link end, by rank x degree + port; looked up in the topology on first use."""

    def __init__(self, topology: Topology) -> None:
        super().__init__()
        self._topology = topology

    def __missing__(self, end: int) -> Rank:
        # The ends of recent steps are needed again: all others are forgotten, so that memory is bounded.
        if len(self) >= MOST_ENDS:
            self.clear()
        rank = self[end] = self._topology.neighbour(*divmod(end, self._topology.degree))
        return rank


# Kept between runs: a campaign has many on one network.
_other_ends = lru_cache(maxsize=1)(OtherEnds)


class MemoryEngine:
    """The nodes of one run. Call `step` for steps 1, 2, .. until `busy` is false."""

    def __init__(self, algorithm: Algorithm, rank_set: RankSet | None = None) -> None:
        self._topology = algorithm.topology
        ranks = self._topology.ranks()
        self._runner = StepRunner(algorithm, rank_set or RankSet(algorithm, ranks), ranks)
        self._faults = self._runner.faults
        self._had_faults = False
        self._degree = self._topology.degree
        self._other_ends = _other_ends(self._topology)
        self._arrived: dict[Rank, list[PortPacket]] = {}
        self._abandoned = False

    @property
    def busy(self) -> bool:
        """Whether packets are unread, or sends are scheduled."""
        return bool(self._arrived or self._runner.due)

    @property
    def altered_copies(self) -> list[AlteredCopy]:
        """The altered copies that arrived and were not taken yet."""
        return self._runner.altered_copies

    def take_altered_copies(self) -> list[AlteredCopy]:
        """Return the altered copies that arrived since the last call."""
        copies, self._runner.altered_copies = self._runner.altered_copies, []
        return copies

    def abandon(self) -> None:
        """Stop the step that another thread is running; its result is incomplete, and no step may follow."""
        # No lock: the loop of `_run_all` reads the flag before every rank, and one rank more does no harm.
        self._abandoned = True

    def step(self, step: Step, faults: Sequence[Fault] = ()) -> bytearray:
        """Run `step` with these new faults; returns journal rows: arrivals of step - 1 and losses of `step`."""
        runner = self._runner
        runner.rows = bytearray()
        # Swapped out first: packets of this step are read in the next one.
        arrived, self._arrived = self._arrived, {}
        waking = arrived.keys() | runner.due.pop(step, ())
        # From the first fault on, in every step: faults may end, and held packets may become due, in any later one.
        self._had_faults |= bool(faults)
        if self._had_faults:
            waking = runner.apply_faults(step, faults, waking, lambda rank: self._run(step, rank, arrived))
        # Ascending ranks fix the order of the journal rows; the other engine has to reproduce this order.
        self._run_all(step, sorted(waking), arrived)
        return runner.rows

    def look(self, step: Step) -> tuple[bytearray, list[AlteredCopy]]:
        """Return the rows and altered copies of the packets that `step` has sent, before they are read."""
        return self._runner.look(step, self._arrived, self._other_ends, lambda rank: rank * self._degree)

    def _run_all(self, step: Step, ranks: Sequence[Rank], arrived: Mapping[Rank, list[PortPacket]]) -> None:
        """Run one step of these ranks and send their packets."""
        filtered = self._faults.needs_filter
        for rank in ranks:
            if self._abandoned:
                break
            outbox = self._run(step, rank, arrived)
            self._send(step, rank, self._runner.through_faults(step, rank, outbox) if filtered else outbox)

    def _run(self, step: Step, rank: Rank, arrived: Mapping[Rank, list[PortPacket]]) -> list[PortPacket]:
        """Let a rank read and decide; RuleError if a packet is not plain data, so that nodes could share state."""
        inbox = arrived.get(rank) or []
        outbox = self._runner.run(step, rank, inbox, self._other_ends, rank * self._degree)
        for _, segments in outbox:
            for segment in segments:
                # Class tests, not isinstance: a subclass of bytes or tuple could carry an object that two nodes
                # share.
                if segment.__class__ is not tuple or segment[4].__class__ is not bytes:
                    raise RuleError(f"rank {rank}, step {step}: {segment!r} is not a plain tuple of numbers and bytes")
        return outbox

    def _send(self, step: Step, rank: Rank, outbox: Sequence[PortPacket]) -> None:
        """Hand packets to their receivers; packets to crashed ranks are lost."""
        # Hot path, once per active rank and step; plain form: `self._arrived[receiver].append(..)` on a defaultdict.
        crashed, arrived, other_ends = self._faults.crashed, self._arrived, self._other_ends
        reverse, base = self._runner.reverse_ports[rank], rank * self._degree
        for port, segments in outbox:
            receiver = other_ends[base + port]
            # Packets to ranks that crash in this very step are lost as well: faults take effect before any rank
            # sends.
            if crashed and receiver in crashed:
                encode_losses(self._runner.rows, step, rank, port, receiver, segments, HopOutcome.LOST)
            elif receiver in arrived:
                arrived[receiver].append((reverse[port], segments))
            else:
                arrived[receiver] = [(reverse[port], segments)]
