"""The path of every copy of every message, read from the hops of a fault-free run, and what faults do to it.

Where no node waits and none chooses its way, a copy arrives if and only if no hop of its path is blocked, whatever happens
elsewhere. So the hops of one run without faults decide every set of faults that begin and end at known steps.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from coordinator.dependence.outages import Outages
from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.scenario.model import Scenario
from coordinator.theory.least_faults import Copy, Place
from emunode.algorithms.base import Algorithm, Dependence
from emunode.engine.memory import MemoryEngine
from emunode.faults.byzantine import Byzantine, Equivocate, Silent
from emunode.faults.effects import ALWAYS, Interval
from emunode.faults.kinds import KINDS, Crash, Down, Fault, Hang
from emunode.model import ALL_RANKS, FOLDING, FaultKnowledge, Port, Rank, Step
from emunode.net.wire import ROW

MOST_HOPS = 2_000_000
"""Most hops of a fault-free run that is read."""
STOPS, ALTERS = 1, 2
WEIGHTS: Mapping[type[Fault], int] = {
    Crash: STOPS, Hang: STOPS, Down: STOPS, Silent: STOPS, Byzantine: ALTERS, Equivocate: ALTERS
}  # fmt: skip
"""The damage to a copy on whose path a fault lies, for the kinds that strike every copy there."""


class PathHop(NamedTuple):
    """One hop of a copy."""

    step: Step
    sender: Rank
    port: Port
    receiver: Rank


class Message(NamedTuple):
    """The messages that one rank is to receive from another, taken together."""

    origin: Rank
    receiver: Rank


Path = tuple[PathHop, ...]


def no_fixed_paths(algorithm: Algorithm, scenario: Scenario) -> str | None:
    """Why the paths of copies may depend on faults, or None if they do not."""
    if algorithm.collective in FOLDING:
        return f"a {algorithm.collective} folds contributions on the way"
    if scenario.fault_knowledge != FaultKnowledge.NONE:
        return "nodes that know of faults may take other paths"
    if scenario.reliable:
        return "reliable links send again what is lost"
    if scenario.repair is not None:
        return "nodes repair what is lost over other paths"
    if algorithm.dependence is Dependence.FIXED:
        return None
    waits = algorithm.dependence is Dependence.WAITING
    return (
        f"the nodes of {algorithm.name} {'wait for other messages' if waits else 'choose at run time what they send'}"
    )


class MessagePaths:
    """The paths of all copies of a run. Raises `ValueError` with the reason if they cannot be told apart."""

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = algorithm
        self.topology = algorithm.topology
        self._into: dict[tuple[Rank, Rank, int], dict[int, dict[Rank, PathHop]]] = {}
        engine, step, hops = MemoryEngine(algorithm), 0, 0
        while engine.busy:
            step += 1
            for crossed, sender, receiver, origin, target, segment, _, tree, port, _ in ROW.iter_unpack(
                engine.step(step)
            ):
                into = self._into.setdefault((origin, target, segment), {}).setdefault(tree, {})
                if receiver in into or receiver == origin:
                    raise ValueError("a copy reaches a node twice")
                into[receiver] = PathHop(crossed, sender, port, receiver)
                hops += 1
            if hops > MOST_HOPS:
                raise ValueError(f"it has more than {MOST_HOPS:,} hops")
        for message, pieces in self.segments.items():
            for piece in pieces:
                if not any(message.receiver in into for into in self._into[piece].values()):
                    raise ValueError("a node is not reached without faults")
        self.hops = hops

    @cached_property
    def segments(self) -> Mapping[Message, Sequence[tuple[Rank, Rank, int]]]:
        """For every message that is due without faults, its pieces."""
        found: dict[Message, list[tuple[Rank, Rank, int]]] = {}
        everyone = self.topology.data_ranks
        for origin, target, segment in sorted(self._into):
            for receiver in everyone if target == ALL_RANKS else [target]:
                if receiver != origin:
                    found.setdefault(Message(origin, receiver), []).append((origin, target, segment))
        return found

    def paths(self, piece: tuple[Rank, Rank, int], receiver: Rank) -> list[Path]:
        """The path of every copy of a piece to a receiver, by ascending tree."""
        found = []
        for _, into in sorted(self._into[piece].items()):
            hops: list[PathHop] = []
            here = receiver
            while here != piece[0]:
                if here not in into:
                    break
                hops.append(into[here])
                here = into[here].sender
            else:
                found.append(tuple(reversed(hops)))
        return found


class Part(NamedTuple):
    """Faults of one kind in known steps, as they may be placed."""

    kind: str
    on_links: bool
    receives: bool
    """Whether a faulty node still receives what it does not send on, or alters."""
    weight: int
    window: Interval
    eligible: frozenset[Place]


@dataclass(frozen=True)
class Threats:
    """The faults of a scenario, and the parts of the fault sets that come on top of them."""

    outages: Outages
    byzantine: Mapping[Rank, Sequence[Interval]]
    parts: tuple[Part, ...]

    @property
    def faulty(self) -> frozenset[Rank]:
        """The nodes with a fault in the scenario, to which nothing is due."""
        return self.outages.faulty

    def copy(self, path: Path) -> Copy:
        """The damage of the given faults to a copy on this path, and the places where further faults would affect it."""
        places: tuple[set[Place], ...] = tuple(set() for _ in self.parts)
        damage = 0
        for at, hop in enumerate(path):
            if self.outages.blocks(*hop) is not None:
                damage = STOPS
            elif at and damage != STOPS and _within(hop.step, self.byzantine.get(hop.sender, ())):
                damage = ALTERS
            # The origin and the receiver of the copy are healthy, or nothing is due.
            relays = ([hop.sender] if at else []), ([hop.receiver] if at < len(path) - 1 else [])
            for part, found in zip(self.parts, places, strict=True):
                if not part.window.start <= hop.step < part.window.end:
                    continue
                if part.on_links:
                    found.add((min(hop.sender, hop.receiver), max(hop.sender, hop.receiver)))
                else:
                    # A node that is down also misses what reaches it; a byzantine one does harm when it sends.
                    found.update(*(relays[:1] if part.receives else relays))
        return Copy(damage, tuple(part.eligible & found for part, found in zip(self.parts, places, strict=True)))


def parts_of(fault_set: FaultSetSpec, places: FaultSites) -> tuple[Part, ...] | None:
    """The parts of a fault set; None if the effect of a kind does not follow from paths alone."""
    first, dash, last = fault_set.when.partition("-")
    window = Interval(int(first), int(last) + 1 if dash else ALWAYS)
    found = []
    for part in fault_set.parts:
        weight = WEIGHTS.get(KINDS[part.kind])
        if weight is None or part.argument:
            return None
        eligible = frozenset[Place](places.links if part.on_links else places.nodes())
        receives = KINDS[part.kind] not in (Crash, Hang)
        found.append(Part(part.kind, part.on_links, receives, weight, window, eligible))
    return tuple(found)


def _within(step: Step, intervals: Sequence[Interval]) -> bool:
    return any(each.start <= step < each.end for each in intervals)
