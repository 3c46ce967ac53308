"""Spanning trees of Eisenstein-Jacobi networks: the papers' examples, measured tables, and walks over whole trees."""

from collections import Counter
from functools import partial
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.errors import ScenarioError
from emunode.model import Port, Rank
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.registry import parse_topology
from emunode.trees.base import levels
from emunode.trees.eisenstein_jacobi.independent import IndependentTrees
from emunode.trees.eisenstein_jacobi.phased import (
    ONE_PHASE,
    THREE_PHASES,
    THREE_PHASES_BY_DIMENSION,
    TWO_PHASES,
    TWO_PHASES_BY_DIMENSION,
    Load,
    PhasedTree,
    PhasePlan,
    PrintedTree,
)
from emunode.trees.eisenstein_jacobi.sectors import SectorTree
from tests.emunode.trees.hussain_printed import improved_broadcast
from tests.helpers.support import golden_rows

golden = partial(golden_rows, "ej")
PRINTED = "paper algorithms 3-4, own message restarts once per phase (intended reading)"
PLANS = {
    "repair P3: phase-sorted, 3 phases": THREE_PHASES,
    "repair P2: phase-sorted, 2 phases": TWO_PHASES,
    "repair D3: dimension rounds x 3 phases": THREE_PHASES_BY_DIMENSION,
    "repair D2: dimension rounds x 2 phases": TWO_PHASES_BY_DIMENSION,
    "full duplex, 1 phase": ONE_PHASE,
}
UNIT_NAMES = ("+1", "+rho", "+rho2", "-1", "-rho", "-rho2")
ALPHAS = [(a, b) for b in range(17) for a in range(b + 1) if a * a + a * b + b * b >= 7]


def network_of(line: dict[str, str]) -> EisensteinJacobi:
    return EisensteinJacobi(int(line["a"]), int(line["b"]), int(line.get("n", 1)))


SUMMARY = [line for line in golden("a2a_summary") if line["algorithm"] in PLANS or line["algorithm"] == PRINTED]
INDEPENDENT = golden("independent_trees")


def name_of(line: dict[str, str]) -> str:
    return f"{line.get('algorithm', 'trees')[:9]}-{line['a']}+{line['b']}^{line['n']}".replace(" ", "-")


def tree_of(line: dict[str, str]) -> PhasedTree:
    network = network_of(line)
    return PrintedTree(network) if line["algorithm"] == PRINTED else PhasedTree(network, PLANS[line["algorithm"]])


def walked_load(tree: PhasedTree) -> Load:
    """Return arcs by stage, step and port, by walking down the tree."""
    load: Load = Counter()
    for rank in levels(tree, 0):
        for port in tree.children(rank, 0):
            load[*tree.place(tree.network.neighbour(rank, port)), port] += 1
    return load


# --- the sector tree of the one-to-all broadcasts ---


@pytest.mark.parametrize(
    "name", ["ej:1+2", "ej:2+3", "ej:3+4", "ej:4+5", "ej:1+2^2", "ej:2+3^2", "ej:1+2^3", "ej:1+2^4"]
)
def test_sector_tree_is_the_printed_algorithm(name: str) -> None:
    network = parse_topology(name)
    assert isinstance(network, EisensteinJacobi)
    tree = SectorTree(network)
    served: dict[Rank, list[Port]] = {}
    last = 1
    for step, rank, port, child in improved_broadcast(network):
        assert last <= step == network.weight(rank) + 1
        assert child == network.neighbour(rank, port)
        served.setdefault(rank, []).append(port)
        last = step
    assert last == network.diameter
    assert all(list(tree.children(rank, 0)) == served.get(rank, []) for rank in network.ranks())


def test_printed_counters_need_neighbouring_a_and_b() -> None:
    with pytest.raises(ScenarioError, match=r"a \+ \(a\+1\) rho"):
        next(improved_broadcast(EisensteinJacobi(2, 4)))


# --- phased trees ---


def both_ways(tree: PhasedTree) -> int:
    """Return the number of (link, step) pairs with messages in both directions."""
    # Ports k and k + 3 are the two directions of a link; equal entries next to each other are one link used both ways.
    used = sorted((stage, step, port // 6, port % 3) for stage, step, port in tree.load)
    return tree.network.order * sum(one == other for one, other in pairwise(used))


@pytest.mark.parametrize("line", SUMMARY, ids=name_of)
def test_load_is_golden_and_equals_a_walk(line: dict[str, str]) -> None:
    """Every row of the measured all-to-all runs follows from one tree: its arcs are the load of every node."""
    tree = tree_of(line)
    network, load, ports = tree.network, tree.load, tree.segments_per_port()
    length = network.diameter // network.dimensions
    clock = length if tree.plan.by_dimension else network.diameter
    assert load == walked_load(tree)
    measured = {
        "allotted_steps": tree.stages * clock,
        "nodes": network.order,
        "want": network.order * (network.order - 1),
        "events": network.order * sum(tree.due),
        "missing": network.order * (network.order - 1 - sum(tree.due)),
        "last_step": max(stage * clock + step for stage, step, _ in load),
        "halfduplex_conflicts": both_ways(tree),
        "max_packets_per_link_step": max(load.values()),
        "frames": network.order * len(load),
        "max_packets_per_port": max(ports.values()),
        "min_packets_per_port": min(ports.values()),
    }
    assert {name: str(value) for name, value in measured.items()} == {name: line[name] for name in measured}
    assert line["dups"] == line["self_receipts"] == "0"
    if network.b == network.a + 1:
        assert tree.begins[-1] == measured["last_step"] == measured["allotted_steps"]
    else:
        assert tree.begins[-1] <= measured["last_step"]


@pytest.mark.parametrize(("a", "n"), [(1, 1), (2, 1), (3, 1), (4, 2), (3, 3), (1, 12)])
def test_receipts_due_in_closed_form(a: int, n: int) -> None:
    """P3 (1 + pc)^n - (1 + (p-1)c)^n with c = (N-1)/3; P2 (1 + D(D+2))^n - 1, then the rest; no walk over the network."""
    network = EisensteinJacobi(a, a + 1, n)
    third = (network.modulus - 1) // 3
    expected = tuple((1 + p * third) ** n - (1 + (p - 1) * third) ** n for p in (1, 2, 3))
    assert PhasedTree(network, THREE_PHASES).due == expected
    first = (1 + a * (a + 2)) ** n - 1
    assert PhasedTree(network, TWO_PHASES).due == (first, network.order - 1 - first)
    assert PrintedTree(network).due == ((1 + third) ** n - 1,) * 3


def test_load_of_one_dimension_is_golden() -> None:
    lines = golden("a2a_load_1D")
    for a in range(1, 6):
        for name, plan in (("paper/P3", THREE_PHASES), ("P2", TWO_PHASES)):
            tree = PhasedTree(EisensteinJacobi(a, a + 1), plan)
            expected = {
                (int(line["phase"]) - 1, int(line["step_in_phase"]), UNIT_NAMES.index(line["port"])): int(
                    line["messages_on_this_directed_link"]
                )
                for line in lines
                if line["algorithm"] == name and line["b"] == str(a + 1)
            }
            assert dict(tree.load) == expected


@pytest.mark.parametrize("plan", [THREE_PHASES, TWO_PHASES, THREE_PHASES_BY_DIMENSION, TWO_PHASES_BY_DIMENSION])
@pytest.mark.parametrize(("a", "b", "n"), [(1, 2, 1), (0, 4, 2), (3, 3, 2), (2, 5, 3), (3, 4, 3), (1, 2, 10)])
def test_no_phase_uses_a_link_both_ways(plan: PhasePlan, a: int, b: int, n: int) -> None:
    tree = PhasedTree(EisensteinJacobi(a, b, n), plan)
    assert both_ways(tree) == 0
    used = [{port for stage, _, port in tree.load if stage == one} for one in range(tree.stages)]
    assert all(tree.network.reverse_port(port) not in ports for ports in used for port in ports)


def test_full_duplex_uses_every_link_both_ways() -> None:
    """Facts of 3 + 4 rho: 333 link-steps, all 111 links in all three steps."""
    assert both_ways(PhasedTree(EisensteinJacobi(3, 4), ONE_PHASE)) == 333


@pytest.mark.parametrize(("a", "b", "n"), [(2, 3, 2), (1, 2, 3), (0, 4, 2), (3, 3, 1)])
def test_one_phase_is_the_sector_tree(a: int, b: int, n: int) -> None:
    network = EisensteinJacobi(a, b, n)
    phased, sectors = PhasedTree(network, ONE_PHASE), SectorTree(network)
    for rank in network.ranks():
        assert sorted(phased.children(rank, 0)) == sorted(sectors.children(rank, 0))
        assert phased.place(rank) == (0, network.weight(rank))


@pytest.mark.parametrize(("a", "n", "reached"), [(1, 1, 6), (1, 2, 24), (2, 2, 144), (1, 3, 78), (3, 3, 6588)])
def test_number_of_targets_of_the_printed_tree(a: int, n: int, reached: int) -> None:
    """3 (((N+2)/3)^n - 1) targets."""
    network = EisensteinJacobi(a, a + 1, n)
    tree = PrintedTree(network)
    assert sum(tree.due) == reached == 3 * (((network.modulus + 2) // 3) ** n - 1)
    if network.order > 1000:
        return
    found = levels(tree, 0)
    assert set(found) == {rank for rank in network.ranks() if tree.reaches(rank)}
    assert len(found) == reached + 1
    for rank in network.ranks():
        if rank not in found:
            with pytest.raises(ValueError, match="not reached"):
                tree.parent(rank, 0)


@given(st.sampled_from(ALPHAS), st.integers(1, 4), st.sampled_from([*PLANS.values()]), st.data())
def test_phased_trees_are_consistent_around_any_rank(
    alpha: tuple[int, int], dimensions: int, plan: PhasePlan, data: st.DataObject
) -> None:
    network = EisensteinJacobi(*alpha, dimensions)
    tree = PhasedTree(network, plan)
    rank = data.draw(st.integers(1, network.order - 1))
    port = tree.parent(rank, 0)
    parent = network.neighbour(rank, port)
    (stage, step), (before, earlier) = tree.place(rank), tree.place(parent)
    assert (stage, network.reverse_port(port)) in tree.phase_children(parent)
    assert step == (earlier + 1 if stage == before and parent else 1)
    assert 1 <= step <= tree.durations[stage]
    for later, down in tree.phase_children(rank):
        assert later >= stage
        assert tree.parent(network.neighbour(rank, down), 0) == network.reverse_port(down)


# --- independent trees ---


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("line", INDEPENDENT, ids=name_of)
def test_independent_trees_are_golden(line: dict[str, str]) -> None:
    """Heights, average levels and shared links. The parent arcs are disjoint, so the trees are arc-disjoint."""
    trees = IndependentTrees(network_of(line))
    network = trees.network
    assert (trees.count, network.order) == (int(line["trees"]), int(line["nodes"]))
    by_tree = [trees.levels(tree) for tree in range(trees.count)]
    heights = [max(found) for found in by_tree]
    assert (min(heights), max(heights)) == (int(line["min_depth"]), int(line["max_depth"]))
    assert heights == [trees.height(tree) for tree in range(trees.count)]
    averages = [sum(found) / (network.order - 1) for found in by_tree]
    expected = [float(line["min_avg_depth"]), float(line["max_avg_depth"])]
    assert [min(averages), max(averages)] == pytest.approx(expected, abs=5.1e-5)
    arcs = {(rank, port) for rank in range(1, network.order) for port in trees.parents(rank)}
    assert len(arcs) == trees.count * (network.order - 1)
    both = sum((network.neighbour(rank, port), network.reverse_port(port)) in arcs for rank, port in arcs)
    assert both == 2 * int(line["undirected_edges_shared_by_two_trees"])


@pytest.mark.exhaustive(one_in=6)
@pytest.mark.parametrize(("a", "b"), ALPHAS)
def test_heights_in_closed_form(a: int, b: int) -> None:
    """Every alpha with N >= 7 and b <= 16: six arc-disjoint trees whose height is that of the formula."""
    trees = IndependentTrees(EisensteinJacobi(a, b))
    assert {max(trees.levels(tree)) for tree in range(6)} == {trees.height(0)}
    arcs = {(rank, port) for rank in range(1, trees.network.order) for port in trees.parents(rank)}
    assert len(arcs) == 6 * (trees.network.order - 1)


@pytest.mark.parametrize("depth", range(1, 9))
def test_parents_of_the_simple_networks_in_closed_form(depth: int) -> None:
    """b = a + 1: by sector and axis alone, all six trees rotations of one another, of height 2D."""
    network = EisensteinJacobi(depth, depth + 1)
    trees = IndependentTrees(network)
    axis = (3, 2, 0, 5, 1, 4)
    for rank in range(1, network.order):
        j, _, q = network.sector(rank)
        expected = [(2 * j + 2 - t) % 6 if q else (axis[(t - j) % 6] + j) % 6 for t in range(6)]
        assert list(trees.parents(rank)) == expected
    assert trees.height(0) == 2 * depth


@given(st.sampled_from(ALPHAS), st.integers(1, 5), st.data())
def test_large_independent_trees_are_independent_at_any_rank(
    alpha: tuple[int, int], dimensions: int, data: st.DataObject
) -> None:
    trees = IndependentTrees(EisensteinJacobi(*alpha, dimensions))
    rank = data.draw(st.integers(1, trees.network.order - 1))
    paths = [trees.path(rank, tree) for tree in range(trees.count)]
    inner = [between for path in paths for between in path[1:-1]]
    assert len(inner) == len(set(inner))
    assert [trees.route(rank, tree)[0] for tree in range(trees.count)] == list(range(trees.count))
    assert len({trees.parent(rank, tree) for tree in range(trees.count)}) == trees.count
