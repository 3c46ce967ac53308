"""The sets of a fault set, and the kinds of faults whose effect on a message follows from its paths."""

from collections.abc import Collection, Iterator, Mapping
from itertools import combinations, product
from typing import Final

from coordinator.annexes.proofs.checkers.check_certificate import EFFECTS
from coordinator.scenario.fault_sets import FaultSetSpec, FaultSetTerm
from coordinator.theory.least_faults import ThreatPlace
from emunode.faults.effects import Alters, Choice, Effect, Loses, Stops
from emunode.faults.kinds import KINDS, LinkFault, stated_effects, value_names
from emunode.model import Rank

_SAME: Final[Mapping[tuple[bool, Effect], str]] = {
    (True, Stops()): "down",
    (True, Loses()): "down",
    (False, Stops()): "hang",
    (False, Stops(forgets=True)): "crash",
    (False, Loses(choice=Choice.PORT)): "silent",
    (False, Alters(choice=Choice.COPY)): "equivocate",
    (False, Alters(choice=Choice.COPY, alike=True)): "byzantine",
}
"""By whether a fault is one of links, and its only effect: the kind that has it."""


def known_as(kind: str) -> str | None:
    """Return the kind in EFFECTS that has the effect that `kind` states; None without one."""
    if kind in EFFECTS or kind not in KINDS or value_names(KINDS[kind]):
        return kind if kind in EFFECTS else None
    fault = FaultSetTerm(kind).fault()
    effects = stated_effects(fault) or []
    if len(effects) != 1 or effects[0][:2] != (fault.place, fault.interval):
        return None
    return _SAME.get((isinstance(fault, LinkFault), effects[0][2]))


def every_set(
    fault_set: FaultSetSpec, nodes: Collection[Rank], links: Collection[tuple[Rank, Rank]]
) -> Iterator[list[tuple[int, ThreatPlace]]]:
    """Yield every set of a fault set over these places, as pairs of part and place."""
    choices = []
    for part in fault_set.parts:
        places: list[ThreatPlace] = [*sorted(links)] if part.on_links else [*sorted(nodes)]
        choices.append(combinations(places, part.count))
    for chosen in product(*choices):
        strikes = [(at, place) for at, taken in enumerate(chosen) for place in taken]
        if len({place for _, place in strikes}) == len(strikes):
            yield strikes
