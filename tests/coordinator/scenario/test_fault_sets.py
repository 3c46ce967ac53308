"""Fault sets: parsing, reproducible and nested draws, and runs repeated from drawn faults."""

import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import cache
from itertools import combinations, pairwise, permutations
from math import comb, exp
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coordinator.planning.plan import Plan, make_plan
from coordinator.scenario.fault_draws import FaultSites, draw, every_set, resolve, sample_numbers, set_count, set_number
from coordinator.scenario.fault_sets import FaultSetSpec, parse_fault_sets
from emunode.errors import ScenarioError
from emunode.faults.kinds import Crash
from emunode.topologies.base import Topology
from tests.helpers.scenarios import Case
from tests.helpers.support import golden_rows

EDT = "star:4 broadcast edt"


def drawn(text: str, number: int = 0, seed: int = 0, **values: object) -> tuple[str, ...]:
    """Return one draw of a description."""
    (fault_set,) = parse_fault_sets(text)
    return draw(fault_set, FaultSites(Case(EDT, **values).plan.algorithm) if values else sites(), seed, number)


@cache
def sites() -> FaultSites:
    """Return the places of a broadcast, planned once for thousands of draws."""
    return FaultSites(Case(EDT).plan.algorithm)


def in_cube(text: str, dimension: int = 3) -> tuple[FaultSetSpec, FaultSites]:
    """Return one fault set, and where faults may occur in a hypercube."""
    (fault_set,) = parse_fault_sets(text)
    return fault_set, FaultSites(Case(f"hypercube:{dimension} broadcast sbt").plan.algorithm)


def place(spec: str) -> str:
    """Return the node or link of a fault."""
    return spec.split(":")[1].partition("@")[0]


def labels(specs: Iterable[str]) -> set[str]:
    """Return the nodes and links of faults, without kind and step."""
    return {place(spec) for spec in specs}


def place_names(places: FaultSites) -> list[str]:
    """Return all nodes that may fail, and then all links."""
    label = places.topology.label
    return [*map(label, places.nodes()), *("~".join(map(label, link)) for link in places.links)]


def chi_square(counts: Iterable[float], expected: float) -> float:
    """Return the chi-square statistic of classes that are equally likely."""
    return sum((count - expected) ** 2 / expected for count in counts)


def chi_square_p(statistic: float, degrees: int) -> float:
    """Return the upper bound of the tail of the chi-square distribution (Chernoff), tight enough for p around 1e-6."""
    ratio = statistic / degrees
    return 1.0 if ratio <= 1 else (ratio * exp(1 - ratio)) ** (degrees / 2)


# --- descriptions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", golden_rows("", "fault_set_names"), ids=lambda row: row["text"])
def test_a_description_has_one_canonical_form(row: dict[str, str]) -> None:
    names = row["names"].split()
    fault_sets = parse_fault_sets(row["text"])
    assert [fault_set.name for fault_set in fault_sets] == names
    assert [parse_fault_sets(name) for name in names] == [[fault_set] for fault_set in fault_sets]


@pytest.mark.parametrize("row", golden_rows("", "refused_fault_sets", field="faults"), ids=lambda row: row["text"])
def test_invalid_description_is_refused(row: dict[str, str]) -> None:
    with pytest.raises(ScenarioError, match=row["message"]) as raised:
        parse_fault_sets(row["text"])
    assert raised.value.field == "faults"


# --- drawing -----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 40), st.integers(0, 10**6), st.integers(0, 22))
def test_draws_are_reproducible_and_nested(seed: int, number: int, count: int) -> None:
    shorter = drawn(f"nodes={count}", number, seed)
    longer = drawn(f"nodes={count + 1}", number, seed)
    assert shorter == drawn(f"nodes={count}", number, seed)
    assert longer[:count] == shorter
    assert len(set(longer)) == count + 1


def test_places_are_equally_likely() -> None:
    """A chi-square test of 23 classes: the fixed seed gives 23.2, and 1 in 1000 gives more than 48.3."""
    counts = Counter(drawn("nodes=1", number) for number in range(2300))
    assert len(counts) == 23
    assert chi_square(counts.values(), 100) < 48.3


# --- parts of one set --------------------------------------------------------------------------------------------------

NODE_KINDS = ("nodes", "hang", "byzantine")
LINK_KINDS = ("links", "corrupt", "duplicate", "loss")
ARGUMENTS = {"corrupt": ":1", "duplicate": ":1", "loss": ":0.5"}


def part(kind: str, amount: object) -> str:
    """Return a part with the value that its kind needs."""
    return f"{kind}={amount}{ARGUMENTS.get(kind, '')}"


PAIRS = [*combinations(NODE_KINDS, 2), *combinations(LINK_KINDS, 2), ("nodes", "links")]
CELLS: dict[tuple[str, ...], int] = (
    {("nodes", "links"): 84} | dict.fromkeys(combinations(NODE_KINDS, 2), 42) | {NODE_KINDS: 210}
)
"""The number of ways to place one fault of each kind in Q_3; 132 for two kinds of link faults."""


@pytest.mark.parametrize("kinds", [*PAIRS, NODE_KINDS], ids=" ".join)
def test_the_parts_of_a_draw_are_independent(kinds: tuple[str, ...]) -> None:
    """Chi-square over all (ordered) places in Q_3, 20 draws expected for each: p < 1e-6 would fail."""
    fault_set, places = in_cube(";".join(part(kind, 1) for kind in kinds))
    cells = set_count(parse_fault_sets(f"all:{fault_set.name}")[0], places)
    assert cells == CELLS.get(kinds, 132)
    counts = Counter(draw(fault_set, places, 7, number) for number in range(20 * cells))
    assert len(counts) == cells
    assert chi_square_p(chi_square(counts.values(), 20), cells - 1) > 1e-6


def test_the_test_finds_parts_that_share_their_random_numbers() -> None:
    """In version 0.1.0 the second part took the place with the same index among the remaining ones."""
    places = in_cube("nodes=1")[1].nodes()
    counts: Counter[tuple[int, int]] = Counter()
    for number in range(40 * 42):
        index = Random(f"7/{number}/nodes").randrange(7), Random(f"7/{number}/nodes").randrange(6)
        first = places[index[0]]
        counts[first, [place for place in places if place != first][index[1]]] += 1
    statistic = chi_square((counts[pair] for pair in permutations(places, 2)), 40)
    assert chi_square_p(statistic, 41) < 1e-6


@pytest.mark.parametrize("pair", [("nodes", "byzantine"), ("links", "corrupt")])
def test_the_parts_of_a_bernoulli_draw_are_independent(pair: tuple[str, str]) -> None:
    """Each place goes to the first part that hits it, so the second gets (1 - 0.3) x 0.4 of all places."""
    fault_set, places = in_cube("bernoulli:" + ";".join(map(part, pair, ("0.3", "0.4"))))
    names = [name for name in place_names(places) if ("~" in name) == (pair[0] == "links")]
    counts: Counter[tuple[str, str]] = Counter()  # the faults of one place, and of the next
    trials = 2000
    for number in range(trials):
        kind = {place(spec): spec.split(":")[0] for spec in draw(fault_set, places, 1, number)}
        for one, other in pairwise(names):
            counts[kind.get(one, "-"), kind.get(other, "-")] += 1
    kinds = {"crash": 0.3, "down": 0.3, "byzantine": 0.28, "corrupt": 0.28, "-": 0.42}
    total = trials * (len(names) - 1)
    statistic = sum(
        (count - total * kinds[one] * kinds[other]) ** 2 / (total * kinds[one] * kinds[other])
        for (one, other), count in counts.items()
    )
    assert len(counts) == 9
    assert chi_square_p(statistic, 8) > 1e-6


@given(
    st.integers(0, 10**6),
    st.tuples(*[st.integers(0, 7)] * 3),
    st.sampled_from([NODE_KINDS, ("links", "corrupt", "loss")]),
)
def test_mixed_draws_nest(number: int, counts: tuple[int, ...], kinds: tuple[str, ...]) -> None:
    """One more fault of any part keeps the faults drawn before."""
    small = set(drawn(";".join(map(part, kinds, counts)), number))
    assert len(small) == sum(counts)
    for at in range(3):
        more = [count + (at == index) for index, count in enumerate(counts)]
        assert small < set(drawn(";".join(map(part, kinds, more)), number))


@given(st.integers(0, 10**6), st.floats(0.001, 0.9), st.floats(0.001, 0.1))
def test_bernoulli_draws_nest(number: int, share: float, more: float) -> None:
    assert set(drawn(f"bernoulli:nodes={share}", number)) <= set(drawn(f"bernoulli:nodes={share + more}", number))


SINGLE_KIND = {
    "bernoulli:nodes=0.1": ("crash:3412@1",),
    "byzantine=2": ("byzantine:3241@1", "byzantine:2134@1"),
    "links=2": ("down:1234~2134@1", "down:2431~3421@1"),
    "nodes=1;links=1": ("crash:3241@1", "down:1234~2134@1"),
    "nodes=3": ("crash:3241@1", "crash:2134@1", "crash:4321@1"),
}
"""Draws of version 0.1.0 in S_4."""


@pytest.mark.parametrize("text", SINGLE_KIND)
def test_draws_of_a_single_kind_are_those_of_version_0_1_0(text: str) -> None:
    """Campaigns from before the correction of mixed draws can be resumed."""
    assert drawn(text, 5, 1) == SINGLE_KIND[text]


def test_algorithms_get_the_same_faults() -> None:
    for number in range(5):
        assert drawn("nodes=3;links=2", number) == drawn("nodes=3;links=2", number, algorithm="greedy-tree")


def test_source_is_chosen_only_on_request() -> None:
    assert labels(drawn("nodes=23")) == set(every_label(Case(EDT).plan)) - {"1234"}
    assert "1234" in labels(drawn("nodes=24;sources"))
    with pytest.raises(ScenarioError, match="needs 24 nodes, but only 23 may fail"):
        drawn("nodes=24")


def every_label(plan: Plan) -> list[str]:
    """Return all labels of a network."""
    topology: Topology = plan.topology
    return [topology.label(rank) for rank in topology.ranks()]


def test_every_node_may_be_chosen_if_all_are_sources() -> None:
    specs = drawn("nodes=24", algorithm="rotated-trees", collective="allgather")
    assert len(specs) == 24


def test_bernoulli_chooses_about_the_share() -> None:
    assert drawn("bernoulli:links=0") == ()
    assert len(drawn("bernoulli:links=1")) == 36
    sizes = [len(drawn("bernoulli:nodes=0.3", number)) for number in range(400)]
    assert 6.5 < sum(sizes) / len(sizes) < 7.3  # 6.9, and a standard error of 0.11


def test_a_cut_surrounds_its_victim() -> None:
    assert labels(drawn("cut:victim=3142;nodes=3")) == {"1342", "4132", "2143"}
    assert labels(drawn("cut:victim=3142;links=3")) == {"1342~3142", "3142~4132", "2143~3142"}
    with pytest.raises(ScenarioError, match="needs 4 nodes, but only 3 may fail"):
        drawn("cut:victim=3142;nodes=4")
    with pytest.raises(ScenarioError, match="unknown victim"):
        drawn("cut:victim=3141;nodes=1")


def test_roots_are_the_children_of_the_source() -> None:
    assert labels(drawn("roots:nodes=3", redundancy=3)) == {"2134", "3214", "4231"}
    assert labels(drawn("roots:links=3", redundancy=3)) == {"1234~2134", "1234~3214", "1234~4231"}


def test_busiest_places_carry_most_segments() -> None:
    """On the Gray code path of the square, every node but the last sends one segment."""
    chosen = drawn("busiest:nodes=2;links=2", topology="hypercube:2", algorithm="brg")
    assert labels(chosen) == {"01", "11", "00~01", "01~11"}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("nodes=2", 21),
        ("nodes=3;links=2", 35 * 66),
        ("crash=1;byzantine=1", 7 * 6),
        ("links=2;corrupt=1:1", 66 * 10),
        ("nodes=1;hang=2;byzantine=1", 7 * 15 * 4),
    ],
)
def test_a_set_by_its_number(text: str, count: int) -> None:
    """Every set once, in lexicographic order, with disjoint parts."""
    fault_set, places = in_cube(f"all:{text}")
    sets = list(every_set(fault_set, places))
    assert len(set(map(frozenset, sets))) == len(sets) == set_count(fault_set, places) == count
    assert [set_number(fault_set, places, number) for number in (0, count - 1)] == [sets[0], sets[-1]]
    assert [draw(fault_set, places, 0, number) for number in range(count)] == sets
    names = place_names(places)
    indices = [[names.index(place(spec)) for spec in specs] for specs in sets]
    assert indices == sorted(indices)
    assert all(len(set(chosen)) == len(chosen) for chosen in indices)
    with pytest.raises(ScenarioError, match=f"no set number {count}"):
        set_number(fault_set, places, count)


def test_a_sample_of_all_sets_is_random_and_nests() -> None:
    (fault_set,) = parse_fault_sets("all:links=2")
    places = FaultSites(Case(EDT).plan.algorithm)
    assert sample_numbers(fault_set, places, 0, 630) == range(630)
    large = sample_numbers(fault_set, places, 0, 600)
    assert len(set(large)) == 600
    assert max(large) < 630
    assert large[:50] == sample_numbers(fault_set, places, 0, 50) != sample_numbers(fault_set, places, 1, 50)
    counts = Counter(number * 6 // 630 for seed in range(100) for number in sample_numbers(fault_set, places, seed, 60))
    assert chi_square_p(chi_square(counts.values(), 1000), 5) > 1e-6


def test_a_sample_may_be_of_more_sets_than_a_sequence_holds() -> None:
    (fault_set,) = parse_fault_sets("all:links=18")
    places = FaultSites(Case("star:5 broadcast edt x=4").plan.algorithm)
    assert (set_count(fault_set, places) or 0) > sys.maxsize
    numbers = sample_numbers(fault_set, places, 0, 8)
    assert len(set(numbers)) == 8
    assert max(numbers) > sys.maxsize
    assert len(set_number(fault_set, places, max(numbers))) == 18


@pytest.mark.parametrize("how", ["", "bernoulli:", "roots:", "busiest:", "cut:victim=2134;", "all:"])
@pytest.mark.parametrize("broken", ["crash:3214@1", "byzantine:3214", "down:2134~3214@2-3", "loss:3214>1234:0.5"])
def test_broken_places_are_not_chosen(how: str, broken: str) -> None:
    (name,) = labels_of(broken)
    kinds = ("nodes", "links")
    amounts = ("1.0", "1.0") if how == "bernoulli:" else (1, 1)
    places = FaultSites(Case(EDT, redundancy=3).plan.algorithm, [broken])
    for kind, amount in zip(kinds, amounts, strict=True):
        (fault_set,) = parse_fault_sets(f"{how}{kind}={amount}")
        count = set_count(fault_set, places) or 200
        chosen = {label for number in range(count) for label in labels_of(*draw(fault_set, places, 0, number))}
        assert chosen
        assert name not in chosen


def labels_of(*specs: str) -> set[str]:
    """Return the places of faults, links with the lower rank first."""
    return {"~".join(sorted(re.split("[~>]", place(spec)))) for spec in specs}


def test_broken_places_are_not_counted() -> None:
    places = FaultSites(Case(EDT).plan.algorithm, ["crash:3214@1", "down:1234~2134@1"])
    counts = [
        set_count(parse_fault_sets(text)[0], places) for text in ("all:nodes=2", "all:links=2", "all:nodes=1;links=1")
    ]
    assert counts == [comb(22, 2), comb(35, 2), 22 * 35]


# --- in a scenario -----------------------------------------------------------------------------------------------------


def test_run_can_be_repeated_from_its_drawn_faults() -> None:
    plan = Case(EDT, fault=["random:nodes=2;links=1@2", "crash:2134@1", "random:nodes=20@1"], seed=5).plan
    specs = plan.scenario.fault
    assert len(specs) == 3 + 1 + 20
    assert len({fault.rank for fault in plan.faults if isinstance(fault, Crash)}) == 23
    assert not any(spec.startswith("random") for spec in specs)
    assert make_plan(plan.scenario).faults == plan.faults
    one, other = (Case(EDT, fault=["random:nodes=2@2"], seed=seed).plan.scenario.fault for seed in (5, 6))
    assert one != other


def test_taken_places_are_not_drawn_again() -> None:
    others = tuple(f"crash:{label}@1" for label in every_label(Case(EDT).plan) if label not in ("1234", "2134"))
    specs, *_ = resolve([*others, "random:nodes=1@1"], lambda: Case(EDT).plan.algorithm, 0)
    assert specs[-1] == "crash:2134@1"
    with pytest.raises(ScenarioError, match="needs 2 nodes, but only 1 may fail"):
        resolve([*others, "random:nodes=2@1"], lambda: Case(EDT).plan.algorithm, 0)


@pytest.mark.parametrize("row", golden_rows("", "refused_fault_sets", field="fault"), ids=lambda row: row["text"])
def test_invalid_fault_is_refused(row: dict[str, str]) -> None:
    with pytest.raises(ScenarioError, match=row["message"]) as raised:
        _ = Case(EDT, fault=[row["text"]]).plan
    assert (raised.value.field, raised.value.value) == ("fault", row["text"])


@pytest.mark.parametrize("rate", ["0", "0.0", "0e-300", "1.2e-16", "1"])
def test_the_smallest_rates_are_accepted(rate: str) -> None:
    for kind in ("loss", "corrupt", "duplicate"):
        assert len(Case(EDT, fault=[f"{kind}:1234~2134:{rate}"]).plan.faults) == 2
    assert drawn(f"bernoulli:nodes={rate}") == (() if float(rate) < 1 else drawn("bernoulli:nodes=1"))
