"""Symmetries are checked before they are used."""

from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import networkx
import numpy as np
import pytest

from coordinator.history.journal import Records
from coordinator.planning.plan import Plan, make_plan
from coordinator.results.metrics import count_trial
from coordinator.theory.symmetry import (
    Neighbourhood,
    candidates,
    keeps,
    searched_automorphisms,
    symmetries,
)
from emunode.algorithms.tree_collective import TreeCollective
from emunode.topologies.registry import parse_topology
from tests.helpers.mutation_support import history_of
from tests.helpers.scenarios import Case

KNOWN = [
    ("star:4", "edt", 3, 3),  # rotations of the symbols 2..n
    ("star:5", "edt", 4, 4),
    ("star:5", "edt", 3, 1),  # three of four trees are not carried onto three of them
    ("star:4", "greedy-tree", 1, 1),
    ("hypercube:4", "nesbt", 4, 4),  # rotations of bits
    ("hypercube:4", "sbt", 1, 1),
    ("ej:2+3", "independent-trees", 6, 6),  # units
    ("ej:2+3", "improved", 1, 6),
    ("ej:1+3", "independent-trees", 6, 6),
    ("ej:1+2^2", "independent-trees", 12, 72),  # units in each dimension, and the dimensions themselves
    ("star:4", "flood", 1, 1),  # no trees to check, so nothing is known
]


@pytest.mark.parametrize(("topology", "algorithm", "redundancy", "count"), KNOWN)
def test_number_of_symmetries(topology: str, algorithm: str, redundancy: int, count: int) -> None:
    plan = Case(f"{topology} broadcast {algorithm} x={redundancy}").plan
    found = symmetries(plan.algorithm)
    assert len(found) == count
    assert found[0].ports == tuple(range(plan.topology.degree))
    label = plan.topology.label(plan.topology.order - 1)
    assert (
        len(symmetries(Case(f"{topology} broadcast {algorithm} x={redundancy}", source=label).plan.algorithm)) == count
    )


@pytest.mark.parametrize(("topology", "algorithm", "redundancy"), [known[:3] for known in KNOWN])
def test_symmetry_is_an_automorphism_that_fixes_the_source(topology: str, algorithm: str, redundancy: int) -> None:
    network = parse_topology(topology)
    plan = Case(f"{topology} broadcast {algorithm} x={redundancy}", source=network.label(3)).plan
    for symmetry in symmetries(plan.algorithm):
        assert symmetry.ranks[3] == 3
        assert sorted(symmetry.ranks.tolist()) == list(network.ranks())
        for rank in network.ranks():
            for port in range(network.degree):
                assert symmetry.ports is not None
                image = network.neighbour(int(symmetry.ranks[rank]), symmetry.ports[port])
                assert symmetry.ranks[network.neighbour(rank, port)] == image


# Star, path from its middle, complete binary tree, and a wheel with a handle: the automorphisms that fix the hub.
IRREGULAR = [
    (networkx.star_graph(4), 24),
    (networkx.Graph([(0, 1), (1, 2), (0, 3), (3, 4)]), 2),
    (networkx.balanced_tree(2, 3), 128),
    (networkx.Graph([*networkx.wheel_graph(5).edges, (0, 5), (5, 6)]), 8),
]


@pytest.mark.skipif(find_spec("igraph") is None, reason="igraph, which searches automorphisms, is not installed")
@pytest.mark.parametrize(("graph", "count"), IRREGULAR)
def test_automorphisms_of_networks_without_translations(
    graph: "networkx.Graph[int]", count: int, tmp_path: Path
) -> None:
    file = tmp_path / "net.edges"
    file.write_text("".join(f"{one} {other}\n" for one, other in graph.edges))
    plan = Case(f"file:{file} broadcast bfs-tree", source="0").plan
    assert len(searched_automorphisms(plan.topology, plan.spec.source)) == count
    found = symmetries(plan.algorithm)
    # In these networks the breadth-first tree keeps every automorphism, since each rank has one way to the source.
    assert len(found) == (count if networkx.is_tree(graph) else 8)


def test_symmetries_form_a_group() -> None:
    found = symmetries(Case("ej:1+2^2 broadcast independent-trees x=12").plan.algorithm)
    images = {tuple(symmetry.ranks.tolist()) for symmetry in found}
    assert len(images) == len(found)
    for one, other in combinations(found[:12], 2):
        assert tuple(one.ranks[other.ranks].tolist()) in images


def test_non_automorphism_is_rejected() -> None:
    network = parse_topology("ej:2+3")
    around = Neighbourhood(network, 0)
    assert around.automorphism((0, 1, 2, 3, 4, 5)) is not None
    assert around.automorphism((1, 2, 3, 4, 5, 0)) is not None
    assert around.automorphism((1, 0, 2, 3, 4, 5)) is None  # 1 and rho exchanged, -1 and -rho not
    assert around.automorphism((0, 5, 4, 3, 2, 1)) is None  # conjugation does not keep the multiples of 2+3rho


def test_automorphism_that_changes_the_trees_is_rejected() -> None:
    """Every permutation of symbols is an automorphism of S_4; only rotations keep the edge-disjoint trees."""
    algorithm = Case("star:4 broadcast edt x=3").plan.algorithm
    assert isinstance(algorithm, TreeCollective)
    around = Neighbourhood(algorithm.topology, 0)
    found = [around.automorphism(ports) for ports in candidates(algorithm.topology)]
    assert len(found) == 6
    kept = [symmetry.ports for symmetry in found if symmetry is not None and keeps(symmetry, algorithm)]
    assert kept == [(0, 1, 2), (1, 2, 0), (2, 0, 1)]


def test_load_of_the_trees_is_compared() -> None:
    """Two messages over three trees: no rotation keeps the set of used trees."""
    assert len(symmetries(Case("star:4 broadcast edt", messages=2).plan.algorithm)) == 1
    assert len(symmetries(Case("star:4 broadcast edt", messages=3).plan.algorithm)) == 3  # messages change places
    assert len(symmetries(Case("star:4 broadcast edt", messages=1, redundancy=3).plan.algorithm)) == 3


def test_fault_and_its_image_have_the_same_effect() -> None:
    """All sets of an orbit have the same deliveries in the same steps."""
    plan = Case("star:4 broadcast edt x=3").plan
    for crashed in ([1, 2, 7], [3, 9, 22], [1, 5, 6]):
        seen = set()
        for symmetry in symmetries(plan.algorithm):
            specs = tuple(f"crash:{plan.topology.label(int(symmetry.ranks[rank]))}@3" for rank in crashed)
            records = history(plan, specs)
            counted = count_trial(make_plan(plan.scenario.model_copy(update={"fault": specs})), records)
            when = records["step"][np.argsort(records["step"])].tobytes()
            seen.add((counted.least_copies, len(counted.unserved), counted.metrics["lost"], when))
        assert len(seen) == 1


def history(plan: Plan, specs: tuple[str, ...]) -> Records:
    """The sorted journal of a run under faults."""
    return history_of(make_plan(plan.scenario.model_copy(update={"fault": specs})))
