"""Faults that threaten messages: the damage to a copy on its path, and the places where further faults would strike it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from coordinator.dependence.message_paths import Path
from coordinator.dependence.outages import Outages, outages_of
from coordinator.dependence.size import InexactError
from coordinator.scenario.fault_draws import FaultSites
from coordinator.scenario.fault_sets import FaultSetSpec
from coordinator.scenario.model import Scenario
from coordinator.theory.least_faults import Copy, Place
from emunode.algorithms.base import Algorithm, Dependence
from emunode.faults.effects import Alters, Choice, Effect, Interval, Loses, Stops
from emunode.faults.kinds import Fault, NodeFault, states_effects
from emunode.faults.timeline import FaultTimeline
from emunode.model import FOLDING, FaultKnowledge, Rank
from emunode.topologies.base import Topology

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
    eligible: frozenset[Place]


@dataclass(frozen=True)
class Threats:
    """The faults of a scenario, and the parts of the fault sets that come on top of them."""

    outages: Outages
    byzantine: Mapping[Rank, Sequence[Interval]]
    parts: tuple[ThreatPart, ...]

    @property
    def faulty(self) -> frozenset[Rank]:
        """The nodes with a fault in the scenario, to which nothing is due."""
        return self.outages.faulty

    def copy(self, path: Path) -> Copy:
        """Return the damage of the given faults to a copy on this path, and the places where further faults would
        affect it.
        """
        places: tuple[set[Place], ...] = tuple(set() for _ in self.parts)
        damage = 0
        for at, hop in enumerate(path):
            # A stop is final. An alteration before it is lost with the copy, and no alteration can follow.
            if self.outages.blocks(*hop) is not None:
                damage = STOPS
            # The first sender is the origin, from which nothing is due if it is faulty: an alteration needs a relay.
            elif at and damage != STOPS and any(hop.step in each for each in self.byzantine.get(hop.sender, ())):
                damage = ALTERS
            # The origin and the receiver of the copy are healthy, or nothing is due.
            relays = ([hop.sender] if at else []), ([hop.receiver] if at < len(path) - 1 else [])
            for part, found in zip(self.parts, places, strict=True):
                if hop.step not in part.window:
                    continue
                if part.on_links:
                    found.add((min(hop.sender, hop.receiver), max(hop.sender, hop.receiver)))
                else:
                    # A node that is down also misses its arrivals; a byzantine node does harm when it sends.
                    found.update(*(relays[:1] if part.receives else relays))
        return Copy(damage, tuple(part.eligible & found for part, found in zip(self.parts, places, strict=True)))


def parts_of(fault_set: FaultSetSpec, places: FaultSites) -> tuple[ThreatPart, ...]:
    """Return the parts of a fault set. InexactError names a kind whose effect does not follow from paths alone."""
    found = []
    for part in fault_set.parts:
        fault = part.fault()
        effect = _only_effect(fault)
        weight = _weight_of(effect)
        # A kind with an argument, such as a rate, may spare some copies.
        if effect is None or weight is None or part.argument:
            hint = "" if states_effects(type(fault)) else f": {part.kind} does not define effects()"
            raise InexactError(f"the effect of {fault_set.name} does not follow from paths alone{hint}")
        # The places of a fault set exclude the source and the places of given faults.
        eligible = frozenset[Place](places.links if part.on_links else places.nodes())
        found.append(
            ThreatPart(part.kind, part.on_links, not isinstance(effect, Stops), weight, fault_set.window, eligible)
        )
    return tuple(found)


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
        if isinstance(fault, NodeFault) and _weight_of(_only_effect(fault)) == ALTERS:
            byzantine.setdefault(fault.rank, []).append(fault.interval)
        else:
            others.append(fault)
    outages = outages_of(others, faulty, topology, seed)
    if outages is None:
        mute = FaultTimeline(others).opaque
        hint = f": effects() is not defined by {', '.join(mute)}" if mute else ""
        raise InexactError(f"the effect of the faults of the scenario does not follow from paths alone{hint}")
    return outages, byzantine


def _only_effect(fault: Fault) -> Effect | None:
    """Return the effect of a fault, if it has one alone, all the time that the fault is in force."""
    effects = [*fault.effects()] if states_effects(type(fault)) else []
    # With a second effect, or an effect for a part of the time, the weight of the fault would depend on the step.
    return effects[0][2] if len(effects) == 1 and effects[0][1] == fault.interval else None


def _weight_of(effect: Effect | None) -> int | None:
    """Return the damage of an effect to a copy on whose path it lies; None if it does not strike every copy there."""
    match effect:
        # A node that sends on no port stops every copy that it should pass on; random losses would spare some.
        case Stops() | Loses(probability=1.0, choice=Choice.PORT, packet=None):
            return STOPS
        case Alters(probability=1.0, choice=Choice.COPY):
            return ALTERS
        case _:
            return None
