"""The faults of a run, with the knowledge of its byzantine ranks: the paths of all copies.

Colluding ranks know each other and the rules of all ranks, so each works out for itself the votes that they win
together (`emunode.faults.byzantine`). It plays the rules without faults, for one origin at a time. Every host comes to
the same result, and none of it crosses a link.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from emunode.algorithms.base import Algorithm, Content, Dependence, LocalView, Rule
from emunode.engine.node import make_segment
from emunode.faults.byzantine import CopyId, CopyPath, SendPlace
from emunode.faults.in_time import FaultsInTime, TimedFault
from emunode.faults.injector import Faults
from emunode.model import ALL_RANKS, FOLDING, Collective, Port, Rank, Segment, Step

MOST_PATHS: Final = 2**17
"""Paths that are kept of one algorithm, about: some 50 MB."""
MOST_STEPS: Final = 2**18
"""Steps that are played of one segment. A rule that goes on is no collective, and its run ends at the step limit."""

# Without the algorithm in a value, so that an entry goes with its algorithm.
_PATHS: Final[WeakKeyDictionary[Algorithm, dict[tuple[Rank, int], list[CopyPath]]]] = WeakKeyDictionary()
"""By origin and segment."""


def faults_by_steps(algorithm: Algorithm) -> Faults:
    """Return the faults of a run in lock-step, none of them in force yet."""
    spec = algorithm.spec
    return Faults(
        algorithm.topology,
        spec.seed,
        # Where contributions are folded, a segment that carries a rank's own name is a fold of what others sent.
        origin_is_author=spec.collective not in FOLDING,
        knows=spec.knows_neighbours,
        known=KnownPaths(algorithm),
    )


def faults_in_time(algorithm: Algorithm, faults: Iterable[TimedFault]) -> FaultsInTime:
    """Return the faults of a run under the timed clock."""
    spec = algorithm.spec
    return FaultsInTime(
        algorithm.topology,
        spec.seed,
        faults,
        origin_is_author=spec.collective not in FOLDING,
        knows=spec.knows_neighbours,
        known=KnownPaths(algorithm),
    )


class KnownPaths:
    """The part of an algorithm that byzantine ranks know."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        spec = algorithm.spec
        self._segments = range(spec.messages * algorithm.segments_per_message)
        self._paths_each = algorithm.topology.order * spec.redundancy
        """Paths of one segment, at most."""

    @property
    def content(self) -> Content:
        """The right payload of (origin, target, segment), or None if it cannot be known yet."""
        return self._algorithm.content

    def paths(self, origin: Rank, segment: int) -> Sequence[CopyPath] | None:
        """Return the paths of all copies of a segment to all its receivers; None if no copies are voted on."""
        algorithm = self._algorithm
        if algorithm.spec.redundancy == 1:
            return None
        kept = _PATHS.setdefault(algorithm, {})
        if (origin, segment) not in kept:
            # All segments together, as long as they fit: a source makes its sends anew each time that it is played.
            fit = len(self._segments) * self._paths_each <= MOST_PATHS
            wanted = self._segments if fit else range(segment, segment + 1)
            if (len(kept) + len(wanted)) * self._paths_each > MOST_PATHS:
                kept.clear()
            kept.update({(origin, number): [] for number in wanted})
            for path in _paths(algorithm, origin, wanted):
                kept[origin, path.copy[3]].append(path)
        return kept[origin, segment]


def _paths(algorithm: Algorithm, origin: Rank, wanted: Container[int]) -> Iterator[CopyPath]:
    """Yield the paths of the copies of some segments to the ranks that are to receive them."""
    personal = algorithm.collective not in (Collective.BROADCAST, Collective.ALLGATHER)
    topology = algorithm.topology
    brought: dict[CopyId, dict[Rank, SendPlace]] = {}
    """By copy, the send that brings it to each rank first."""
    for send, sent in _sends_of(algorithm, origin, wanted):
        receiver = topology.neighbour(*send)
        # An acknowledgement has a target of its own in a broadcast.
        if sent[3] in wanted and personal == (sent[1] != ALL_RANKS) and receiver != origin:
            brought.setdefault(sent[:4], {}).setdefault(receiver, send)
    for copy, senders in brought.items():
        target = copy[1]
        for receiver in senders if target == ALL_RANKS else [target]:
            if receiver in senders and not topology.is_switch(receiver):
                sends = [senders[receiver]]
                while sends[-1][0] != origin:
                    sends.append(senders[sends[-1][0]])
                yield CopyPath(copy, receiver, sends[::-1])


def _sends_of(algorithm: Algorithm, origin: Rank, wanted: Container[int]) -> Iterator[tuple[SendPlace, Segment]]:
    """Yield all sends of the copies of some segments, by ascending step, in a run without any other packets."""
    # Rules of their own for every origin: a rule that has been played has the state of a run.
    topology, rules = algorithm.topology, dict[Rank, Rule]()
    # A rule that waits for answers starts later segments only after earlier ones.
    waits = algorithm.dependence is Dependence.UNSTATED
    due: dict[Step, list[tuple[Rank, Port, Segment | Callable[[], Segment]]]] = {}

    def rule_of(rank: Rank) -> Rule:
        if rank not in rules:
            rules[rank] = algorithm.rule(LocalView(topology, rank))
        return rules[rank]

    for step, port, content in rule_of(origin).start():
        segment = make_segment(content)
        if waits or segment[3] in wanted:
            due.setdefault(step, []).append((origin, port, segment))
    while due and (step := min(due)) <= MOST_STEPS:
        arrivals: dict[Rank, dict[Port, list[Segment]]] = {}
        for rank, port, content in due.pop(step):
            segment = make_segment(content)
            yield (rank, port), segment
            receiver, its_port = topology.end(rank, port)
            arrivals.setdefault(receiver, {}).setdefault(its_port, []).append(segment)
        for rank, by_port in arrivals.items():
            # By ascending port, as `Node.step` reads them: the rule has to decide here as it will in the run.
            packets = [(port, tuple(by_port[port])) for port in sorted(by_port)]
            for when, port, content in rule_of(rank).receive(step, packets):
                due.setdefault(when, []).append((rank, port, content))
