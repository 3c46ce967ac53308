"""Faults that threaten messages: the damage to a copy on its path, and the places where further faults would strike it.

`ThreatenedMessages` is the one reader of all that a set of faults can do to messages with fixed paths. Smallest defeats,
worst sets, numbers of survivors and delivery ratios are functions of it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.scenario.model import Scenario
from coordinator.theory.dependence.message_paths import DueMessage, MessagePaths, MessageSegment, Path, PathHop
from coordinator.theory.dependence.outages import THROUGHOUT, Outages, outages_of
from coordinator.theory.dependence.size import InexactError
from coordinator.theory.least_faults import Copy, ThreatPlace
from emunode.algorithms.base import Algorithm, Dependence
from emunode.faults.effects import Alters, Choice, Effect, Interval, Loses, Place, Stops
from emunode.faults.kinds import Fault, NodeFault, stated_effects, states_effects
from emunode.faults.timeline import FaultTimeline
from emunode.model import FOLDING, FaultKnowledge, Rank
from emunode.topologies.base import Topology

Number = int | float | Fraction
STOPS, ALTERS = 1, 2
"""The damage to a copy on whose path a fault lies."""


def no_fixed_paths(algorithm: Algorithm, scenario: Scenario) -> str | None:
    """Return why the paths of copies may depend on faults, whatever protocols the nodes have; None if they do not."""
    if algorithm.collective in FOLDING:
        return f"a {algorithm.collective} folds contributions on the way"
    if scenario.fault_knowledge != FaultKnowledge.NONE:
        return "nodes that know of faults may take other paths"
    if algorithm.dependence is Dependence.FIXED:
        return None
    waits = algorithm.dependence in (Dependence.WAITING, Dependence.LISTED)
    return (
        f"the nodes of {algorithm.name} {'wait for other messages' if waits else 'choose at run time what they send'}"
    )


class ThreatPart(NamedTuple):
    """Faults of one kind in known steps, as they may be placed."""

    kind: str
    on_links: bool
    receives: bool
    """Whether a faulty node still receives copies, although it withholds or alters them."""
    weight: int
    window: Interval
    eligible: frozenset[ThreatPlace]


class PlacesOfHops(dict[PathHop, ThreatPlace | None]):
    """By hop, the place where a further fault of one part would strike its packet, or None; found on first use.

    On links the place is the link, elsewhere the sender, or with `at_receiver` the receiver.
    """

    def __init__(self, part: ThreatPart, *, at_receiver: bool = False) -> None:
        super().__init__()
        self._part = part
        self._at_receiver = at_receiver

    def __missing__(self, hop: PathHop) -> ThreatPlace | None:
        step, sender, _, receiver = hop
        place: ThreatPlace = receiver if self._at_receiver else sender
        if self._part.on_links:
            place = min(sender, receiver), max(sender, receiver)
        struck = place if step in self._part.window and place in self._part.eligible else None
        return self.setdefault(hop, struck)


@dataclass(frozen=True)
class Threats:
    """The faults of a scenario, and the parts of the fault sets that come on top of them."""

    outages: Outages
    byzantine: Mapping[Rank, Sequence[Interval]]
    parts: tuple[ThreatPart, ...]

    @property
    def faulty(self) -> frozenset[Rank]:
        """The nodes with a fault in the scenario; nothing is due to them."""
        return self.outages.faulty

    @cached_property
    def timed(self) -> bool:
        """Whether some fault strikes in some steps only, so that copies over the same links may have different fates."""
        intervals = [
            *(part.window for part in self.parts),
            *(each for found in self.byzantine.values() for each in found),
        ]
        return not self.outages.permanent or any(each != THROUGHOUT for each in intervals)

    def copy(self, path: Path) -> Copy:
        """Return a copy on this path under the given faults.

        It has their damage, and the places where further faults would affect it.
        """
        damage = 0
        for at, hop in enumerate(path if self.outages.places or self.byzantine else ()):
            # A stop is final. An alteration before it is lost with the copy, and no alteration can follow.
            if self.outages.blocks(*hop) is not None:
                damage = STOPS
            # The first sender is the origin, and nothing is due from a faulty origin: an alteration needs a relay.
            elif at and damage != STOPS and any(hop.step in each for each in self.byzantine.get(hop.sender, ())):
                damage = ALTERS
        places = []
        for part, sent, received in self._places:
            if not part.eligible:
                struck: set[ThreatPlace | None] = set()
            elif part.on_links:
                struck = set(map(sent.__getitem__, path))
            else:
                # The origin and the receiver of the copy are healthy, or nothing is due.
                struck = set(map(sent.__getitem__, path[1:]))
                if received is not None:
                    struck.update(map(received.__getitem__, path[:-1]))
            struck.discard(None)
            places.append(frozenset(struck))
        return Copy(damage, tuple(places))  # type: ignore[arg-type]  # None is discarded

    @cached_property
    def _places(self) -> list[tuple[ThreatPart, PlacesOfHops, PlacesOfHops | None]]:
        # Many paths share a hop. A node that is down also misses its arrivals; a byzantine node does harm when it sends.
        # A node that does not return is still down when it should pass on what it has missed.
        return [
            (
                part,
                PlacesOfHops(part),
                None if part.receives or part.window.is_endless else PlacesOfHops(part, at_receiver=True),
            )
            for part in self.parts
        ]


class ThreatenedMessages:
    """The messages that are due under threats, with the copies of their segments."""

    def __init__(self, paths: MessagePaths, threats: Threats) -> None:
        self.paths = paths
        self.threats = threats

    @cached_property
    def due(self) -> list[DueMessage]:
        """The messages between healthy nodes: none is due to a faulty node, nor from one."""
        return [message for message in self.paths.segments if self.threats.faulty.isdisjoint(message)]

    @cached_property
    def receivers(self) -> frozenset[Rank]:
        """The nodes that messages are due to."""
        return frozenset(message.receiver for message in self.due)

    def distinct(self, message: DueMessage) -> Mapping[tuple[Copy, ...], tuple[MessageSegment, Sequence[Path]]]:
        """Return the segments of a message whose copies can be affected differently."""
        first = self.paths.first_alike(tuple(self.paths.segments[message]), timed=self.threats.timed)
        by_copies: dict[tuple[Copy, ...], tuple[MessageSegment, Sequence[Path]]] = {}
        for segment in dict.fromkeys(first.values()):
            paths = list(self.paths.copies(segment, message.receiver).values())
            by_copies.setdefault(tuple(map(self.threats.copy, paths)), (segment, paths))
        return by_copies


def parts_of(fault_set: FaultSetSpec, places: FaultSites) -> tuple[ThreatPart, ...]:
    """Return the parts of a fault set. InexactError names a kind whose effect does not follow from paths alone."""
    parts = []
    for part in fault_set.parts:
        fault = part.fault()
        effect = _only_effect(fault)
        weight = _weight_of(effect, fault.place)
        # Threats differ by their kinds alone, so a kind with a value is refused, whatever its effect.
        if effect is None or weight is None or part.argument:
            hint = "" if states_effects(type(fault)) else f": {part.kind} does not define effects()"
            raise InexactError(f"the effect of {fault_set.name} does not follow from paths alone{hint}")
        # The places of a fault set exclude the source and the places of given faults.
        eligible = frozenset[ThreatPlace](places.links if part.on_links else places.nodes())
        parts.append(
            ThreatPart(part.kind, part.on_links, not isinstance(effect, Stops), weight, fault_set.window, eligible)
        )
    return tuple(parts)


def given_damage(
    faults: Iterable[Fault], faulty: Collection[Rank], topology: Topology, seed: int
) -> tuple[Outages, Mapping[Rank, Sequence[Interval]]]:
    """Return the outages that given faults amount to, and when ranks alter everything that they pass on.

    InexactError if a fault has another effect; `faulty` are the ranks with faults of their own.
    """
    byzantine: dict[Rank, list[Interval]] = {}
    others = []
    for fault in faults:
        # Nodes that alter copies are kept apart, because `outages_of` accepts only faults that stop.
        if isinstance(fault, NodeFault) and _weight_of(_only_effect(fault), fault.rank) == ALTERS:
            byzantine.setdefault(fault.rank, []).append(fault.interval)
        else:
            others.append(fault)
    timeline = FaultTimeline(others)
    outages = outages_of(timeline, faulty, topology, seed)
    if outages is None:
        hint = f": effects() is not defined by {', '.join(timeline.opaque)}" if timeline.opaque else ""
        raise InexactError(f"the effect of the faults of the scenario does not follow from paths alone{hint}")
    return outages, byzantine


def _only_effect(fault: Fault) -> Effect | None:
    """Return the only effect of a fault; None if it has several, or one for a part of its time."""
    effects = stated_effects(fault) or []
    # With a second effect, or an effect for a part of the time, the weight of the fault would depend on the step.
    return effects[0][2] if len(effects) == 1 and effects[0][1] == fault.interval else None


def _weight_of(effect: Effect | None, place: Place) -> int | None:
    """Return the damage of an effect to a copy on whose path it lies; None if it does not strike every copy there."""
    match effect:
        case None:
            return None
        case Alters(probability=1.0, choice=Choice.COPY):
            return ALTERS
        case _:
            # Random losses would spare some copies.
            return STOPS if passing(effect, place) == 0 else None


def passing(effect: Effect, place: Place) -> Number | None:
    """Return the probability that a packet passes a place under an effect, or None if the effect cannot be counted."""
    on_link = not isinstance(place, int)
    match effect:
        case Stops():
            return 0
        case Loses(probability=probability, choice=Choice.PACKET, packet=None) if on_link:
            # The whole numbers 0 and 1 keep a sum of fractions exact; one float would turn the whole sum into a float.
            return 1 - probability if probability < 1 else 0
        # A node that sends on no port is as good as stopped for the copies that it should forward, although it still
        # reads.
        case Loses(probability=probability, choice=Choice.PORT, packet=None) if not on_link and probability >= 1:
            return 0
    return None
