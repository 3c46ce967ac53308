"""The fewest faults that cost a receiver a message: smallest hitting sets, with weights where votes are cast.

A message reaches its receiver in x copies, each on a path of its own. A place that fails *silently* (a crashed node, a dead
link) stops the copies whose paths contain it. A place that *alters* (a byzantine node) turns them into votes for one wrong
value. With c copies stopped and a altered, the right value has x - c - a of x - c votes, so the message is lost exactly if
c + 2 a >= x. Without alteration that is c = x: the faults meet every path, and the smallest such set is a smallest hitting
set. With disjoint paths every place meets one of them, and nothing has to be searched.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from emunode.model import Rank

ThreatPlace = Rank | tuple[Rank, Rank]
"""A node, or a link with the lower rank first."""
Strike = tuple[int, ThreatPlace]
"""A fault: the part of the fault set that it belongs to, and its place."""


MOST_CASES: Final = 500_000
"""Most cases of all searches for one tolerance, about: a minute or two."""


class TooManyCasesError(Exception):
    """A search that would take too long."""


class Cases:
    """The cases that searches may still go through."""

    def __init__(self, left: int) -> None:
        self._left = left

    def take(self) -> None:
        """Count one case; raises TooManyCasesError if it is one too many."""
        self._left -= 1
        if self._left < 0:
            raise TooManyCasesError


class Copy(NamedTuple):
    """One copy of a message, under the faults so far."""

    damage: int
    """0 if it arrives intact, 1 if it is stopped, 2 if it is altered."""
    places: tuple[frozenset[ThreatPlace], ...]
    """By part, the places whose failure affects it."""


class FaultBudget(NamedTuple):
    """The faults that an adversary may place."""

    weights: tuple[int, ...]
    """By part: 1 if its faults stop copies, 2 if they alter them."""
    parts: tuple[int, ...]
    """By part, the most faults."""
    total: int
    """The most faults of all parts together."""

    def less(self, part: int) -> "FaultBudget":
        """Return the rest after a fault of `part`."""
        # A fault takes from its own part and from the total; the total may be smaller than the sum of the parts.
        parts = (*self.parts[:part], self.parts[part] - 1, *self.parts[part + 1 :])
        return self._replace(parts=parts, total=self.total - 1)


def struck(copies: Sequence[Copy], strike: Strike, weights: Sequence[int]) -> list[Copy]:
    """Return the copies after one more fault: a stopped copy stays stopped, and an altered one can still be stopped."""
    part, place = strike
    return [
        copy._replace(damage=1 if weights[part] == 1 else copy.damage or 2) if place in copy.places[part] else copy
        for copy in copies
    ]


def is_lost(copies: Sequence[Copy]) -> bool:
    """Return whether the right value has no majority among the copies that arrive."""
    # The sum of damages is the c + 2 a of the module's docstring: 1 for each stopped copy, 2 for each altered one.
    return sum(copy.damage for copy in copies) >= len(copies)


def least_faults(copies: Sequence[Copy], budget: FaultBudget, cases: Cases | None = None) -> tuple[Strike, ...] | None:
    """Return a smallest set of faults within the budget that loses the message, or None.

    The set is empty if the message is lost under the given faults already. Raises TooManyCasesError beyond `cases` (default:
    MOST_CASES of its own).
    """
    cases = cases or Cases(MOST_CASES)
    # A fault for each copy is always enough, if any number is.
    for total in range(min(budget.total, len(copies)) + 1):
        strikes = _search(copies, budget._replace(total=total), (), range(len(copies)), cases)
        if strikes is not None:
            return strikes
    return None


def _search(
    copies: Sequence[Copy], budget: FaultBudget, chosen: tuple[Strike, ...], open_copies: Sequence[int], cases: Cases
) -> tuple[Strike, ...] | None:
    """Return `chosen` and further faults that lose the message. Copies that are not open stay as they are."""
    cases.take()
    if is_lost(copies):
        return chosen
    taken = {place for _, place in chosen}
    strikes = {at: list(_strikes(copies[at], budget, taken)) for at in open_copies if not copies[at].damage}
    # A copy that no affordable fault strikes stays as it is, and is closed for the whole branch.
    strikes = {at: affordable for at, affordable in strikes.items() if affordable}
    gains = Counter[Strike]()
    for affordable in strikes.values():
        for strike in affordable:
            gains[strike] += budget.weights[strike[0]]
    # Two bounds on the damage to come. Gains only shrink as faults are placed, so the budget never gains more than the
    # largest gains of now; and a copy takes no more damage than its strongest fault does.
    most_by_faults = _largest_gains(gains, budget)
    most_by_copies = sum(max(budget.weights[part] for part, _ in affordable) for affordable in strikes.values())
    if sum(copy.damage for copy in copies) + min(most_by_faults, most_by_copies) < len(copies):
        return None
    # Either some fault strikes this copy, or none does; the copy with the fewest places has the fewest cases.
    at = min(strikes, key=lambda position: (len(strikes[position]), position))
    # The most harmful fault first, since a defeat ends the search. Equal gains are ordered by the fault itself, so that
    # the result does not depend on the order of sets.
    for strike in sorted(strikes[at], key=lambda fault: (-gains[fault], fault)):
        after = struck(copies, strike, budget.weights)
        result = _search(after, budget.less(strike[0]), (*chosen, strike), list(strikes), cases)
        if result is not None:
            return result
    return _search(copies, budget, chosen, [other for other in strikes if other != at], cases)


def _largest_gains(gains: Counter[Strike], budget: FaultBudget) -> int:
    """Return the largest total gain that the faults allow.

    A part gives at most as many gains as it has faults; all parts together, at most the total number of faults.
    """
    by_part: list[list[int]] = [[] for _ in budget.parts]
    for (part, _), gain in gains.items():
        by_part[part].append(gain)
    allowed = (
        gain
        for gains_of, most in zip(by_part, budget.parts, strict=True)
        for gain in sorted(gains_of, reverse=True)[:most]
    )
    return sum(sorted(allowed, reverse=True)[: budget.total])


def _strikes(copy: Copy, budget: FaultBudget, taken: set[ThreatPlace]) -> Iterator[Strike]:
    """Yield the faults within the budget that affect a copy."""
    for part, places in enumerate(copy.places):
        if budget.parts[part]:
            # A place fails once: a second fault at a place would gain nothing.
            yield from ((part, place) for place in places if place not in taken)


def disjoint(copies: Sequence[Copy]) -> bool:
    """Return whether no place affects two copies."""
    return all(
        sum(map(len, places)) == len(frozenset().union(*places))
        for places in zip(*(copy.places for copy in copies), strict=True)
    )
