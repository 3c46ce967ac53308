"""Figures of networks against published and enumerated values, and against their definitions on small random graphs."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import chain, combinations
from math import comb
from types import FrameType
from typing import Any

import networkx
import pytest
from _pytest.mark import ParameterSet
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.annexes.invariants.base import (
    QUICK_WORK,
    Budget,
    InvariantNetwork,
    InvariantResult,
    InvariantValue,
    OverBudgetError,
)
from coordinator.annexes.invariants.conditional import _apart
from coordinator.annexes.invariants.diagnosability import PairSearch
from coordinator.annexes.invariants.evaluate import evaluate
from coordinator.annexes.invariants.node_sets import BLOCK, blocks, set_count, sizes, unpack
from coordinator.annexes.invariants.registry import INVARIANTS
from coordinator.annexes.invariants.separations import disconnecting, separations
from coordinator.annexes.invariants.survival import _bell_number, reliability
from coordinator.annexes.invariants.wide_diameter import DisjointPaths
from coordinator.scenario.network_files import from_networkx
from emunode.errors import ScenarioError
from emunode.topologies.registry import parse_topology
from tests.helpers.support import examples, golden_rows

TERMINALS = {
    "all": "all_terminal_reliability",
    "to a neighbour": "two_terminal_reliability:neighbour",
    "to a farthest node": "two_terminal_reliability:farthest",
}
LONG = {
    ("hypercube:5", "extra_connectivity:2"),
    ("hypercube:5", "good_neighbour_connectivity:1"),
    ("hypercube:5", "component_connectivity:3"),
    ("star:4", "extra_connectivity:7"),
    ("star:5", "extra_connectivity:1"),
    *((name, terminals) for name in ("star:4", "ej:2+3") for terminals in TERMINALS),
}
"""Cases that take seconds, or a minute; `pytest -m slow` of this file runs them."""


def cases(pairs: Iterable[tuple[Any, tuple[str, str]]]) -> list[ParameterSet]:
    """Test parameters with their names, the long ones marked."""
    return [
        pytest.param(case, id=" ".join(name), marks=pytest.mark.slow if name in LONG else ()) for case, name in pairs
    ]


def figure(network: str, name: str, work: float = 1e9) -> InvariantResult:
    """Return one figure of a network by name."""
    (found,) = evaluate(parse_topology(network), [name], work)
    return found


def text(value: InvariantValue) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else "none" if value is None else str(value)


# --- values of the literature, and of exhaustive enumeration by other programs -----------------------------------------


@pytest.mark.parametrize(
    "row", cases((row, (row["topology"], row["figure"])) for row in golden_rows("figures", "values"))
)
def test_known_values(row: dict[str, str]) -> None:
    found = figure(row["topology"], row["figure"])
    assert found.not_computed is None
    assert text(found.value) == row["value"]
    assert found.agrees is not False


@pytest.mark.parametrize("name", ["hypercube:3", "ej:1+2", "hypercube:4", "ej:2+3", "star:4", "hypercube:5"])
def test_what_node_faults_leave(name: str) -> None:
    network = InvariantNetwork(parse_topology(name))
    for row in golden_rows("figures", "node_faults"):
        failed, connected = int(row["failed_nodes"]), int(row["sets_rest_connected"])
        if row["network"] != name:
            continue
        assert disconnecting(network, failed, Budget(1e9)) == int(row["sets"]) - connected
        if name == "star:4" and failed > 6:
            continue  # counted by `test_all_of_what_node_faults_leave`
        _require_row(network, row)


@pytest.mark.slow
def test_all_of_what_node_faults_leave() -> None:
    network = InvariantNetwork(parse_topology("star:4"))
    for row in golden_rows("figures", "node_faults"):
        if row["network"] == "star:4":
            _require_row(network, row)


def _require_row(network: InvariantNetwork, row: dict[str, str]) -> None:
    found = separations(network, int(row["failed_nodes"]), Budget(1e9))
    assert (found.sets, found.connected) == (int(row["sets"]), int(row["sets_rest_connected"]))
    assert found.most_components == int(row["most_components"])
    assert min(nodes for nodes, sets in found.largest.items() if sets) == int(row["smallest_largest_component"])
    assert sum(found.largest.values()) == found.sets


RELIABILITIES = sorted({(row["network"], row["terminals"]) for row in golden_rows("figures", "link_reliability")})


@pytest.mark.parametrize("case", cases((case, case) for case in RELIABILITIES))
def test_link_reliability(case: tuple[str, str]) -> None:
    name, terminals = case
    asked = TERMINALS[terminals]
    if case == ("star:4", "to a farthest node"):
        asked = "two_terminal_reliability:1342"  # S_4 has farthest nodes of two kinds; the table has a three-cycle
    survived = figure(name, asked).value
    assert isinstance(survived, tuple)
    rows = [row for row in golden_rows("figures", "link_reliability") if (row["network"], row["terminals"]) == case]
    links = len(survived) - 1
    assert {links - failed: sets for failed, sets in enumerate(survived) if sets} == {
        int(row["working_links"]): int(row["sets_that_connect_them"]) for row in rows
    }


# --- definitions, on small random graphs -------------------------------------------------------------------------------


@st.composite
def small_graphs(draw: st.DrawFn, most: int = 7) -> Any:
    """Return a connected graph of 3 to `most` nodes."""
    order = draw(st.integers(3, most))
    graph = networkx.Graph()
    graph.add_nodes_from(range(order))
    graph.add_edges_from((node, draw(st.integers(0, node - 1))) for node in range(1, order))
    pairs = list(combinations(range(order), 2))
    graph.add_edges_from(draw(st.lists(st.sampled_from(pairs), max_size=len(pairs))))
    return graph


def network_of(graph: Any) -> InvariantNetwork:
    return InvariantNetwork(from_networkx(graph, "net"))


def compute(graph: Any, name: str, parameter: str = "") -> InvariantValue:
    return INVARIANTS[name].compute(network_of(graph), parameter, Budget(1e9))


def subsets(items: Sequence[Any], most: int | None = None) -> Iterator[tuple[Any, ...]]:
    last = len(items) if most is None else most
    return chain.from_iterable(combinations(items, size) for size in range(last + 1))


def rest_of(graph: Any, lost: Sequence[int]) -> Any:
    return graph.subgraph(set(graph) - set(lost))


def least_cut(graph: Any, wanted: Callable[[Any], bool]) -> int | None:
    """Return the size of a smallest set of nodes whose loss disconnects a graph so that the rest is as wanted."""
    cuts = (lost for lost in subsets(list(graph), len(graph) - 2))
    rests = ((len(lost), rest_of(graph, lost)) for lost in cuts)
    return next((size for size, rest in rests if not networkx.is_connected(rest) and wanted(rest)), None)


def component_sizes(graph: Any) -> list[int]:
    return sorted(map(len, networkx.connected_components(graph)))


@settings(max_examples=examples(50))
@given(small_graphs())
def test_conditional_connectivities_are_as_defined(graph: Any) -> None:
    for g in (0, 1, 2):
        extra = least_cut(graph, lambda rest, g=g: component_sizes(rest)[0] > g)  # type: ignore[misc]
        assert compute(graph, "extra_connectivity", str(g)) == extra
        good = least_cut(graph, lambda rest, g=g: min(dict(rest.degree).values()) >= g)  # type: ignore[misc]
        assert compute(graph, "good_neighbour_connectivity", str(g)) == good
    for r in (2, 3, 4):
        parts = least_cut(graph, lambda rest, r=r: len(component_sizes(rest)) >= r)  # type: ignore[misc]
        assert compute(graph, "component_connectivity", str(r)) == parts


@settings(max_examples=examples(60))
@given(small_graphs())
def test_what_is_left_is_as_defined(graph: Any) -> None:
    network = network_of(graph)
    residual = compute(graph, "node_residual")
    for size in range(len(graph)):
        left = [component_sizes(rest_of(graph, lost)) for lost in combinations(graph, size)]
        found = separations(network, size, Budget(1e9))
        assert found.most_components == max(map(len, left))
        assert min(found.largest) == min(each[-1] for each in left if each)
        connected = sum(len(each) == 1 for each in left)
        assert (found.sets, found.connected, residual[size]) == (comb(len(graph), size), connected, connected)  # type: ignore[index]


@settings(max_examples=examples(60))
@given(small_graphs(6))
def test_structure_connectivity_is_as_defined(graph: Any) -> None:
    structures = {"K1,1": networkx.path_graph(2), "K1,3": networkx.star_graph(3), "P4": networkx.path_graph(4)}
    for name, structure in {**structures, "C4": networkx.cycle_graph(4)}.items():
        matcher = networkx.isomorphism.GraphMatcher(graph, structure)
        copies = {frozenset(match) for match in matcher.subgraph_monomorphisms_iter()}
        least = None
        for chosen in subsets(sorted(copies, key=sorted), 4):
            rest = rest_of(graph, tuple(frozenset().union(*chosen)))
            if chosen and len(rest) and (len(rest) == 1 or not networkx.is_connected(rest)):
                least = len(chosen)
                break
        found = compute(graph, "structure_connectivity", name)
        assert found == least or (least is None and isinstance(found, int) and found > 4)


@given(small_graphs())
def test_diameters_are_as_defined(graph: Any) -> None:
    kappa = networkx.node_connectivity(graph)
    assert compute(graph, "vertex_connectivity") == kappa
    assert compute(graph, "edge_connectivity") == networkx.edge_connectivity(graph)
    assert compute(graph, "fault_diameter") == tuple(
        max(networkx.diameter(rest_of(graph, lost)) for lost in subsets(list(graph), faults)) for faults in range(kappa)
    )
    assert compute(graph, "wide_diameter") == tuple(
        max(_container(graph, one, other, width) for one, other in combinations(graph, 2))
        for width in range(1, kappa + 1)
    )


def _container(graph: Any, one: int, other: int, width: int) -> int:
    """Return the least length of the longest of `width` inner-disjoint paths, of all combinations of simple paths."""
    paths = sorted(networkx.all_simple_paths(graph, one, other), key=len)
    disjoint = (
        max(map(len, chosen)) - 1
        for chosen in combinations(paths, width)
        if all(not {*first[1:-1]} & {*second[1:-1]} for first, second in combinations(chosen, 2))
    )
    return min(disjoint)


@settings(max_examples=examples(40))
@given(small_graphs(6))
def test_diagnosability_is_as_defined(graph: Any) -> None:
    every = [frozenset(each) for each in subsets(list(graph))]
    conditional = [each for each in every if not any(set(graph[node]) <= each for node in graph)]
    for model, told_apart in (("pmc", _pmc), ("mm", _mm)):
        for name, sets in (("diagnosability", every), ("conditional_diagnosability", conditional)):
            confused = [
                max(len(one), len(other)) for one, other in combinations(sets, 2) if not told_apart(graph, one, other)
            ]
            least = min(confused, default=None)
            assert compute(graph, name, model) == (None if least is None else least - 1), (name, model)


def _pmc(graph: Any, one: frozenset[int], other: frozenset[int]) -> bool:
    """Return whether a test by a node outside both sets of a node in only one of them tells them apart."""
    return any(peer in one ^ other for node in set(graph) - one - other for peer in graph[node])


def _mm(graph: Any, one: frozenset[int], other: frozenset[int]) -> bool:
    """Return whether a comparison of two neighbours by a healthy node has different results: equal only if both are
    healthy.
    """
    healthy = set(graph) - one - other
    for node in healthy:
        for pair in combinations(graph[node], 2):
            # Results of two faulty nodes may agree or differ: they tell nothing, but differ from two healthy ones.
            if bool(one.intersection(pair)) != bool(other.intersection(pair)):
                return True
    return False


@settings(max_examples=examples(40))
@given(small_graphs(6), st.data())
def test_reliabilities_count_every_set_of_links(graph: Any, data: st.DataObject) -> None:
    if graph.number_of_edges() > 10:
        graph = networkx.minimum_spanning_tree(graph)
    target = data.draw(st.integers(1, len(graph) - 1))
    links = list(graph.edges)
    joined, whole = [0] * (len(links) + 1), [0] * (len(links) + 1)
    for failed in subsets(links):
        left = graph.copy()
        left.remove_edges_from(failed)
        whole[len(failed)] += networkx.is_connected(left)
        joined[len(failed)] += networkx.has_path(left, 0, target)
    assert compute(graph, "all_terminal_reliability") == tuple(whole)
    assert compute(graph, "two_terminal_reliability", str(target)) == tuple(joined)


# --- sets of nodes, budgets, names -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("order", "size"), [(5, 0), (5, 2), (6, 6), (20, 10), (40, 4)])
@pytest.mark.parametrize("with_first", [False, True])
def test_blocks_hold_every_set_once(order: int, size: int, with_first: bool) -> None:
    if with_first and not size:
        return
    seen = 0
    for block in blocks(order, size, with_first=with_first):
        assert block.sets <= BLOCK
        assert (sizes(block.members, block.sets) == size).all()
        assert not (block.members & block.others).any()
        assert (sizes(block.others, block.sets) == order - size).all()
        assert not with_first or unpack(block.members[0], block.sets).all()
        seen += block.sets
        if order < 8:
            columns = {tuple(column) for column in unpack(block.members, block.sets).T.tolist()}
            assert len(columns) == block.sets
    assert seen == set_count(order, size, with_first=with_first) == comb(order - with_first, size - with_first)


def test_what_is_asked_for_first_changes_nothing() -> None:
    """The budget of a figure does not depend on what other figures have computed before."""
    for name in ("star:4", "hypercube:5"):
        together = {(each.figure, each.parameter): each for each in evaluate(parse_topology(name), work=20_000)}
        for figure_name, parameter in reversed(together):
            asked = f"{figure_name}:{parameter}" if parameter else figure_name
            assert figure(name, asked, work=20_000) == together[figure_name, parameter]


def test_large_degrees_and_long_paths_exceed_no_depth() -> None:
    hub = from_networkx(networkx.star_graph(1_100), relabel=True)
    assert next(evaluate(hub, ["diagnosability:pmc"], 10_000)).not_computed == "it takes more than 10,000 units of work"
    # The faulty hub is confused with no fault: every leaf, as a tester, compares no two nodes.
    assert PairSearch(InvariantNetwork(hub), 1, Budget(1e6), compares=True, conditional=False).exists()
    path = InvariantNetwork(from_networkx(networkx.path_graph(1_100), relabel=True))
    paths = DisjointPaths(path, 0, 1_099, Budget(1e6))
    assert paths.exist(1, 1_099)
    assert not paths.exist(1, 1_098)
    assert sum(block.sets for block in blocks(1_300, 2, with_first=False)) == comb(1_300, 2)


def test_structures_keep_to_their_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.annexes.invariants.structure.SETS_BYTES", 103 * 1_000)
    (value,) = evaluate(parse_topology("star:4"), ["structure_connectivity:C6"], 1e9)
    assert value.value == 3
    (value,) = evaluate(parse_topology("star:5"), ["structure_connectivity:P4"], 1e9)
    assert value.not_computed is not None
    assert value.not_computed.endswith("sets of nodes would have to be kept")


def test_work_that_was_not_enough_once_is_not_done_again() -> None:
    network, tried = InvariantNetwork(parse_topology("star:4")), []

    def compute() -> int:
        tried.append(budget.limit)
        budget.spend(10)
        return 5

    for limit in (4, 4, 3, 9, 10, 4, 10):
        budget = Budget(limit)
        if limit == 10:
            assert network.keep("five", budget, compute) == 5
        else:
            with pytest.raises(OverBudgetError, match=f"more than {limit} units"):
                network.keep("five", budget, compute)
    assert tried == [4, 9, 10]


def test_large_networks_cost_nothing() -> None:
    for name in ("star:20", "hypercube:40", "hypercube:10", "star:6", "mesh:20x20"):
        for each in evaluate(parse_topology(name), work=1_000):
            assert each.not_computed or each.title == "diagnosability, pmc", each
    found = {each.title: each for each in evaluate(parse_topology("hypercube:40"))}
    assert found["extra connectivity, g = 2"].closed_form == 115
    assert found["extra connectivity, g = 2"].not_computed == "1,099,511,627,776 nodes are more than 4,096"
    assert found["extra connectivity, g = 2"].agrees is None


def test_what_is_known_of_a_figure_that_is_not_computed() -> None:
    assert str(figure("star:4", "component_connectivity:5", 20_000).not_computed).startswith("at least 7, or there is")
    assert str(figure("star:4", "conditional_diagnosability:mm", 20_000).not_computed).startswith(
        "at least 4; it takes"
    )
    assert str(figure("hypercube:5", "fault_diameter", 1_500).not_computed).startswith("5 5 5 for f = 0..2; it takes")
    assert figure("hypercube:5", "all_terminal_reliability").not_computed == (
        "the frontier of 13 nodes is wider than 12"
    )


@pytest.mark.parametrize("name", INVARIANTS)
def test_every_figure_keeps_to_its_budget(name: str) -> None:
    for parameter in INVARIANTS[name].usual:
        with pytest.raises(OverBudgetError):
            INVARIANTS[name].compute(InvariantNetwork(parse_topology("star:4")), parameter, Budget(0.1))


def test_closed_forms_end_where_they_are_wrong() -> None:
    assert figure("hypercube:4", "extra_connectivity:2").closed_form is None  # the formula gives 7, the value is 6
    assert figure("hypercube:3", "diagnosability:mm").closed_form is None  # 3, and 2
    assert figure("hypercube:4", "conditional_diagnosability:mm").closed_form is None  # 7, and 5
    assert figure("star:4", "fault_diameter").closed_form == 6  # D + 2, but D + 1 for n = 5


def test_survival_of_rare_failures() -> None:
    survived = figure("hypercube:3", "all_terminal_reliability")
    assert survived.survival is not None
    assert isinstance(survived.value, tuple)
    chances = [
        sets * Fraction(1, 100) ** failed * Fraction(99, 100) ** (12 - failed)
        for failed, sets in enumerate(survived.value)
    ]
    assert survived.survival[0.01] == pytest.approx(float(sum(chances)), rel=1e-14)
    assert reliability([1, 2, 1], 2, 0.3) == pytest.approx(1)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["kappa"], "one of vertex_connectivity, "),
        (["extra_connectivity:x"], "extra_connectivity:G with g from 0 to 9"),
        (["extra_connectivity:10"], "from 0 to 9"),
        (["component_connectivity:1"], "from 2 to 99"),
        (["structure_connectivity:K2,2"], "a star K1,1 .. K1,9"),
        (["diagnosability:bgm"], "pmc or mm"),
        (["fault_diameter:2"], "has no parameter"),
        (["two_terminal_reliability:1234"], "another node than rank 0"),
    ],
)
def test_what_is_no_figure_is_refused(names: list[str], message: str) -> None:
    with pytest.raises(ScenarioError, match="figure") as raised:
        evaluate(parse_topology("star:4"), names)
    assert message in str(raised.value)
    for work in (0, -1, float("nan"), 1e13):
        with pytest.raises(ScenarioError, match="work"):
            evaluate(parse_topology("star:4"), work=work)


def test_searches_that_cannot_end_get_a_part_of_the_budget() -> None:
    budget = Budget(1000)
    budget.spend(400)
    assert budget.for_search(600) is budget
    part = budget.for_search(601)
    assert 0 < part.limit < 600
    with pytest.raises(OverBudgetError, match="more than 1,000 units"):
        part.spend(600)
    assert budget.spent == 400


@pytest.mark.parametrize(
    ("network", "figure", "known"),
    [
        ("torus:3x3x2", "all_terminal_reliability", "it takes"),
        ("star:4", "two_terminal_reliability", "it takes"),
        ("hypercube:6", "extra_connectivity:3", "it takes"),
        ("star:4", "conditional_diagnosability:pmc", "at least 7; it takes"),
    ],
)
def test_work_in_vain_is_refused_early(network: str, figure: str, known: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spent = 0.0
    before = Budget.spend

    def spend(self: Budget, work: float) -> None:
        nonlocal spent
        spent += work
        before(self, work)

    monkeypatch.setattr(Budget, "spend", spend)
    (value, *_) = evaluate(parse_topology(network), [figure], QUICK_WORK)
    assert str(value.not_computed).startswith(known)
    assert spent < 0.6 * QUICK_WORK


def test_bell_numbers_count_partitions() -> None:
    def count(nodes: int, blocks: int = 0) -> int:
        # The next node joins a block, or begins one.
        return blocks * count(nodes - 1, blocks) + count(nodes - 1, blocks + 1) if nodes else 1

    assert [_bell_number(nodes) for nodes in range(1, 9)] == [count(nodes) for nodes in range(1, 9)]


HUNDRED_NODES = (
    *("slimfly:7", "dragonfly:6,3", "complete:100", "hamming:10x10", "kautz:3,4", "debruijn:3,4", "torus:10x10"),
    *(
        "nk-star:5,3",
        "arrangement:5,3",
        "star:5",
        "hypercube:7",
        "folded-hypercube:7",
        "circulant:100:1,7,9,30",
        "ccc:5",
    ),
)


@pytest.mark.parametrize("name", HUNDRED_NODES)
def test_work_is_counted_where_it_is_done(name: str) -> None:
    """Count calls, not time: no invariant may do much more than the work that it states."""
    limit, calls = 20_000, 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    values = evaluate(parse_topology(name), work=limit)
    more = True
    while more:
        before, calls = sys.getprofile(), 0
        sys.setprofile(count)
        try:
            found = next(values, None)
        finally:
            sys.setprofile(before)
        more = found is not None
        assert calls < 30 * limit, found


def test_pairs_of_sets_are_charged_before_they_are_compared() -> None:
    network = InvariantNetwork(parse_topology("slimfly:7"))
    compared = 0

    class Ends(list[int]):
        def __iter__(self) -> Iterator[int]:
            nonlocal compared
            compared += len(self)
            return super().__iter__()

    ends, budget = Ends([1 << 50] * 1000), Budget(5_000)
    with pytest.raises(OverBudgetError):
        list(_apart(network, [1] * 1_000_000, ends, budget))
    assert compared == 50_000


def test_a_wide_frontier_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = set[int]()

    def bell_number(nodes: int) -> int:
        asked.add(nodes)
        return 1

    monkeypatch.setattr("coordinator.annexes.invariants.survival._bell_number", bell_number)
    found = figure("hypercube:9", "all_terminal_reliability")
    assert found.value is None
    assert "is wider than 12" in str(found.not_computed)
    assert max(asked) == 13


@pytest.mark.parametrize("elements", [1, 10, 3000])
def test_survival_of_many_elements_is_no_overflow(elements: int) -> None:
    survived = [comb(elements, failed) for failed in range(elements + 1)]
    assert reliability(survived, elements, 0.05) == 1
    # All but the sets without a failure.
    assert reliability([0, *survived[1:]], elements, 0.05) == pytest.approx(1 - 0.95**elements)
