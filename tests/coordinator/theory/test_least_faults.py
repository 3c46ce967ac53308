"""Smallest sets of faults that defeat the copies of a message, against every set."""

from itertools import combinations
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.theory.least_faults import (
    Cases,
    Copy,
    FaultBudget,
    TooManyCasesError,
    disjoint,
    is_lost,
    least_faults,
    struck,
)
from tests.helpers.support import examples

PLACES = range(6)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Copy], FaultBudget]:
    """Return up to four copies under faults of up to two parts, some of them damaged already."""
    parts = draw(st.integers(1, 2))
    places = st.frozensets(st.sampled_from(PLACES), max_size=4)
    copies = draw(
        st.lists(
            st.builds(Copy, st.sampled_from((0, 0, 0, 1, 2)), st.tuples(*[places] * parts)), min_size=1, max_size=4
        )
    )
    weights = draw(st.tuples(*[st.sampled_from((1, 2))] * parts))
    budget = FaultBudget(weights, draw(st.tuples(*[st.integers(0, 3)] * parts)), draw(st.integers(0, 4)))
    return copies, budget


def smallest_by_trying(copies: list[Copy], budget: FaultBudget) -> int | None:
    """Return the size of the smallest set within the budget that loses the message: c + 2 a >= x, over all sets."""
    strikes = [(part, place) for part in range(len(budget.weights)) for place in PLACES]
    for size in range(budget.total + 1):
        for chosen in combinations(strikes, size):
            places = [place for _, place in chosen]
            counts = [sum(part == each for part, _ in chosen) for each in range(len(budget.weights))]
            if len(set(places)) < size or any(count > most for count, most in zip(counts, budget.parts, strict=True)):
                continue
            damage = 0
            for copy in copies:
                hits = {budget.weights[part] for part, place in chosen if place in copy.places[part]}
                stopped, altered = copy.damage == 1 or 1 in hits, copy.damage == 2 or 2 in hits
                damage += 1 if stopped else 2 if altered else 0
            if damage >= len(copies):
                return size
    return None


@settings(max_examples=examples(300))
@given(situations())
def test_the_smallest_set_of_faults(situation: tuple[list[Copy], FaultBudget]) -> None:
    copies, budget = situation
    expected = smallest_by_trying(copies, budget)
    found = least_faults(copies, budget)
    assert (None if found is None else len(found)) == expected
    for strike in found or ():
        copies = struck(copies, strike, budget.weights)
    assert is_lost(copies) == (found is not None)


def test_disjoint_paths_need_a_fault_each() -> None:
    copies = [Copy(0, (frozenset({10 * at + step for step in range(9)}),)) for at in range(12)]
    assert disjoint(copies)
    stopping, altering = (least_faults(copies, FaultBudget((weight,), (12,), 12)) for weight in (1, 2))
    assert stopping is not None
    assert altering is not None
    assert (len(stopping), len(altering)) == (12, 6)
    assert least_faults(copies, FaultBudget((1,), (11,), 12)) is None
    # A path without inner nodes cannot be stopped by nodes.
    assert least_faults([*copies[1:], Copy(0, (frozenset(),))], FaultBudget((1,), (12,), 12)) is None


def test_searches_are_bounded() -> None:
    """The places of 60 paths are scattered: no fault meets many of them, and the search branches at every one."""
    draw = Random(1)
    copies = [Copy(0, (frozenset(draw.sample(range(60), 9)),)) for _ in range(60)]
    with pytest.raises(TooManyCasesError):
        least_faults(copies, FaultBudget((1,), (60,), 60), Cases(200))
