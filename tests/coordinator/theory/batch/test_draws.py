"""Draws of campaigns: by number, nested, disjoint, uniform; and all sets as one enumeration by `itertools`."""

from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.scenario.fault_draws import FaultSites, set_number
from coordinator.scenario.fault_sets import parse_fault_sets
from coordinator.scenario.fault_syntax import parse_faults
from coordinator.theory.batch.draws import BLOCK, Draws, combinations_of
from emunode.errors import ScenarioError
from tests.helpers.scenarios import Case

SITES = FaultSites(Case("star:4 broadcast edt").plan.algorithm)


def draws_of(text: str, seed: int = 0, sites: FaultSites = SITES) -> Draws:
    """Return the draws of one description."""
    (fault_set,) = parse_fault_sets(text)
    return Draws(fault_set, sites, seed)


def sets_of(draws: Draws, numbers: range) -> list[set[tuple[str, int]]]:
    """For each number the (kind, place) pairs that it strikes."""
    found: list[set[tuple[str, int]]] = [set() for _ in numbers]
    for each in draws.struck(np.array(numbers)):
        for place, draw in zip(each.places.tolist(), each.draws.tolist(), strict=True):
            found[draw].add((each.term.kind, place))
    return found


@pytest.mark.parametrize(
    "text",
    ["nodes=2", "links=3", "nodes=2;byzantine=1", "cut:victim=2134;nodes=2;links=1", "roots:links=1", "busiest:nodes=3",
     "bernoulli:nodes=0.2;links=0.1", "nodes=23;links=36", "all:nodes=1;byzantine=2", "loss=2:0.5@2-4", "nodes=0"],
)  # fmt: skip
def test_one_draw_is_the_same_alone_and_among_others(text: str) -> None:
    draws, numbers = draws_of(text), range(BLOCK - 3, BLOCK + 4)
    if text.startswith("all"):
        numbers = range(7)
    together = sets_of(draws, numbers)
    for number, expected in zip(numbers, together, strict=True):
        specs = draws_of(text).specs(number)
        parse_faults(specs, SITES.topology)
        places = [SITES.named_in(spec).pop() for spec in specs]
        named = [at if isinstance(at, int) else SITES.links.index(at) for at in places]
        assert {(spec.partition(":")[0], at) for spec, at in zip(specs, named, strict=True)} == expected
        assert len(specs) == len(expected)


@pytest.mark.parametrize(
    ("fewer", "more"), [("nodes=2", "nodes=5"), ("links=1", "links=9"), ("nodes=2;byzantine=1", "nodes=4;byzantine=1")]
)
def test_more_faults_contain_fewer(fewer: str, more: str) -> None:
    numbers = range(100)
    for one, other in zip(sets_of(draws_of(fewer), numbers), sets_of(draws_of(more), numbers), strict=True):
        assert one < other


def test_another_seed_and_another_number_draw_other_faults() -> None:
    one, other = sets_of(draws_of("nodes=4"), range(200)), sets_of(draws_of("nodes=4", 1), range(200))
    assert sum(here == there for here, there in zip(one, other, strict=True)) < 3
    assert len({frozenset(each) for each in one}) > 195


def test_all_pairs_are_equally_likely() -> None:
    """Chi-square over the 253 pairs of nodes: 252 degrees of freedom, below 340 with a probability of 0.9998."""
    trials = 10 * BLOCK
    counts = Counter(frozenset(each) for each in sets_of(draws_of("nodes=2"), range(trials)))
    expected = trials / comb(23, 2)
    assert len(counts) == comb(23, 2)
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < 340


def test_independent_places_fail_with_their_probability() -> None:
    struck = {
        each.term.kind: len(each.places)
        for each in draws_of("bernoulli:nodes=0.2;byzantine=0.5").struck(np.arange(BLOCK))
    }
    assert struck["crash"] / (23 * BLOCK) == pytest.approx(0.2, abs=0.006)
    # A place that both hit goes to the first.
    assert struck["byzantine"] / (23 * BLOCK) == pytest.approx(0.4, abs=0.008)


@given(st.integers(0, 9), st.integers(0, 4))
def test_combinations_by_number(total: int, count: int) -> None:
    every = list(combinations(range(total), count))
    assert list(map(tuple, combinations_of(total, count, np.arange(len(every))).tolist())) == every


@pytest.mark.parametrize("text", ["all:nodes=2", "all:nodes=1;links=1;byzantine=2", "all:links=1;loss=1:0.5"])
def test_all_sets_are_those_of_the_enumeration(text: str) -> None:
    sites = FaultSites(Case("hypercube:3 broadcast sbt").plan.algorithm)
    draws = draws_of(text, sites=sites)
    numbers = range(0, 21 if text == "all:nodes=2" else 130, 3)
    for number, found in zip(numbers, sets_of(draws, numbers), strict=True):
        specs = set_number(draws.fault_set, sites, number)
        places = [sites.named_in(spec).pop() for spec in specs]
        assert found == {
            (spec.partition(":")[0], at if isinstance(at, int) else sites.links.index(at))
            for spec, at in zip(specs, places, strict=True)
        }


@pytest.mark.parametrize(("text", "words"), [("nodes=24", "only 23 may fail"), ("all:nodes=1", "no set number")])
def test_impossible_draws_are_refused(text: str, words: str) -> None:
    with pytest.raises(ScenarioError, match=words):
        draws_of(text).struck(np.array([23]))


def test_the_draws_of_this_version_stay_as_they_are() -> None:
    """A campaign that was begun earlier is resumed with the same faults: a change here needs another minor version."""
    assert draws_of("nodes=2;links=1").specs(5000) == ("crash:2431@1", "crash:4321@1", "down:1234~3214@1")
    assert draws_of("bernoulli:nodes=0.1").specs(7) == ("crash:2431@1",)
    assert draws_of("cut:victim=2134;nodes=1").specs(10**7) == ("crash:4132@1",)
