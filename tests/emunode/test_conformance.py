"""The conformance suites over every registered family and every tree class, and over a family with the least it may define.

A new family is covered by its registry line, a new tree class by its module: the lists below are derived. Only a tree
class whose constructor needs more than the network has an entry in `VARIANTS`.
"""

import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from inspect import isabstract
from pkgutil import walk_packages
from typing import Self

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import emunode.trees
from coordinator.history.journal import RECORD
from emunode.algorithms.base import Algorithm
from emunode.algorithms.breadth_first import BreadthFirstBroadcast
from emunode.algorithms.flooding import Flood
from emunode.annexes import is_installed
from emunode.engine.memory import MemoryEngine
from emunode.errors import ContractError, RegistrationError, RuleError, ScenarioError
from emunode.model import Collective, CollectiveSpec, HopOutcome, Port, Rank
from emunode.registry import register
from emunode.testing import check_topology, check_topology_at, check_trees, check_trees_at, to_networkx
from emunode.topologies.base import FAMILIES, SEARCH_LIMIT, CayleyTopology, Topology
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.hypercube import Hypercube
from emunode.topologies.registry import descriptions, large_examples, parse_topology, small_examples
from emunode.topologies.star import StarGraph
from emunode.trees.any_network.arborescences import arborescences
from emunode.trees.any_network.parents import ParentTrees, adjacency_of
from emunode.trees.base import Trees
from emunode.trees.breadth_first import BreadthFirstTree, GrownTree
from emunode.trees.eisenstein_jacobi import phased
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.reflected import TurnedBinomialTrees, reflections, rotations
from emunode.trees.partial import PartialTree
from emunode.trees.star.balanced import BalancedTree
from emunode.trees.star.greedy import GreedyTree
from emunode.trees.star.hamiltonian import RotatedPaths
from emunode.trees.star.necklace import NecklaceTree
from emunode.trees.star.rotation import RotatedTrees
from emunode.trees.statistics import arc_congestion, shared_rank

# --- topologies ------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive(one_in=2)
@pytest.mark.parametrize("name", small_examples())
def test_topology(name: str) -> None:
    topology = parse_topology(name)
    assert topology.name == name
    check_topology(topology)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("name", large_examples())
@given(st.data())
@settings(max_examples=8)
def test_topology_at_any_rank(name: str, data: st.DataObject) -> None:
    topology = parse_topology(name)
    ranks = st.integers(0, topology.order - 1)
    check_topology_at(topology, data.draw(ranks), data.draw(ranks))


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("name", [name for name in small_examples() if parse_topology(name).order < 70])
def test_topology_agrees_with_networkx(name: str) -> None:
    topology = parse_topology(name)
    graph = to_networkx(topology)
    assert graph.number_of_edges() == topology.link_count == len(list(topology.links()))
    assert networkx.is_bipartite(graph) == topology.bipartite
    assert networkx.diameter(graph) == topology.diameter
    assert float(topology.average_distance) == pytest.approx(networkx.average_shortest_path_length(graph))
    if topology.connectivity is not None:
        assert networkx.node_connectivity(graph) == topology.connectivity
    for one, other, ports in graph.edges(data=True):
        low, high = sorted((one, other))
        assert topology.neighbour(low, ports["lower_port"]) == high
        assert topology.neighbour(high, ports["upper_port"]) == low


def cache_sizes(owner: object) -> list[int]:
    """Return the maximum sizes of the caches among the attributes of `owner`."""
    return [value.cache_info().maxsize for value in vars(owner).values() if hasattr(value, "cache_info")]


@pytest.mark.parametrize("name", large_examples())
def test_large_topology_builds_no_table(name: str) -> None:
    tracemalloc.start()
    try:
        topology = parse_topology(name)
        for rank in range(0, topology.order, topology.order // 50):
            topology.neighbours(rank)
            topology.distance(rank, topology.order - 1)
            topology.rank(topology.label(rank))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000
    assert all(size <= 1 << 16 for size in cache_sizes(topology))


@pytest.mark.parametrize("family", descriptions())
def test_family_describes_itself(family: type[Topology]) -> None:
    assert FAMILIES[family.family] is family
    for name in (family.example, *family.small_examples, *family.large_examples):
        assert type(parse_topology(name)) is family
        assert parse_topology(name).name == name
    assert family.describe
    assert family.condition


# --- trees -----------------------------------------------------------------------------------------------------------

Make = Callable[[Topology], Sequence[Trees]]
PLANS = (
    phased.ONE_PHASE,
    phased.TWO_PHASES,
    phased.THREE_PHASES,
    phased.TWO_PHASES_BY_DIMENSION,
    phased.THREE_PHASES_BY_DIMENSION,
)
VARIANTS: dict[type[Trees], Make] = {
    BalancedTrees: lambda topology: [BalancedTrees(topology), BalancedTrees(topology, topology.degree)],
    GrayPaths: lambda topology: [GrayPaths(topology), GrayPaths(topology, topology.degree)],
    GrownTree: lambda topology: [GrownTree(topology, ())],
    PartialTree: lambda topology: [PartialTree(topology, parents_of(GrownTree(topology, ())))],
    ParentTrees: lambda topology: [ParentTrees(topology, arborescences(adjacency_of(topology)))],
    phased.PhasedTree: lambda topology: [phased.PhasedTree(topology, plan) for plan in PLANS],
    RotatedPaths: lambda topology: [RotatedPaths(topology, topology.degree + 1)],
    RotatedTrees: lambda topology: [RotatedTrees(star, GreedyTree(star)) for star in stars(topology)],
    TurnedBinomialTrees: lambda topology: [
        TurnedBinomialTrees(topology, [*rotations(topology.degree, topology.degree), *reflections(topology.degree, 2)])
    ],
}
if is_installed("emunode", "repair"):
    edges = import_module("emunode.annexes.repair.edges")
    # Some first units in either sense.
    VARIANTS[edges.CoordinateReduction] = lambda topology: (
        list(edges.orientations(topology))[::5] if isinstance(topology, EisensteinJacobi) else []
    )
NOT_SPANNING = {phased.PrintedTree}
"""The algorithm as printed: it does not reach every node of two and more dimensions."""
BUILDING_TABLES = {BalancedTree, GrownTree, NecklaceTree, ParentTrees, PartialTree, RotatedPaths}
"""Trees that every node computes as a table of the whole network."""


def parents_of(trees: Trees) -> dict[Rank, Port]:
    return {rank: trees.parent(rank, 0) for rank in range(1, trees.topology.order)}


def stars(topology: Topology) -> Iterator[StarGraph]:
    if not isinstance(topology, StarGraph):
        raise ScenarioError("topology", topology.name, "not a star graph")
    yield topology


def tree_classes() -> list[type[Trees]]:
    """Return every class of trees in the package that can be instantiated."""
    for module in walk_packages(emunode.trees.__path__, "emunode.trees."):
        import_module(module.name)
    found = Trees.__subclasses__()
    for known in found:
        found.extend(known.__subclasses__())
    return [known for known in found if known.__module__.startswith("emunode.") and not isabstract(known)]


def variants(known: type[Trees], topology: Topology) -> Sequence[Trees]:
    """Return the trees of one class on `topology`; none if they are not defined there, which must be a ScenarioError."""
    make: Make = VARIANTS.get(known, lambda topology: [known(topology)])
    try:
        return make(topology)
    except ScenarioError as error:
        if (error.field, error.value) != ("topology", topology.name):
            raise
        return ()


CLASSES = [known for known in tree_classes() if known not in NOT_SPANNING]
DEFINED = [
    (known, family)
    for known in CLASSES
    for family in descriptions()
    if variants(known, parse_topology(family.small_examples[0]))
]


def test_every_tree_class_is_defined_somewhere() -> None:
    assert {known for known, _ in DEFINED} == set(CLASSES)


@pytest.mark.exhaustive(one_in=8)
@pytest.mark.parametrize(
    ("known", "name"),
    [pytest.param(known, name, id=f"{known.__name__}-{name}") for known, f in DEFINED for name in f.small_examples],
)
def test_trees(known: type[Trees], name: str) -> None:
    for trees in variants(known, parse_topology(name)):
        check_trees(trees)


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize(
    ("known", "name"),
    [
        pytest.param(known, name, id=f"{known.__name__}-{name}")
        for known, family in DEFINED
        for name in family.large_examples
        if known not in BUILDING_TABLES
    ],
)
@given(st.data())
@settings(max_examples=10)
def test_trees_at_any_rank(known: type[Trees], name: str, data: st.DataObject) -> None:
    topology = parse_topology(name)
    for trees in variants(known, topology):
        rank = data.draw(st.integers(0, topology.order - 1))
        check_trees_at(trees, rank, data.draw(st.integers(0, trees.count - 1)))
        assert all(size <= 1 << 16 for size in cache_sizes(trees))


# --- a family with the least it may define ---------------------------------------------------------------------------


class Ring(CayleyTopology):
    """A cycle of N nodes: no distance formula, no algorithms or trees of its own."""

    family = "cycle"
    form = "cycle:N"
    condition = "N >= 3"
    example = "cycle:8"
    describe = "cycle of N nodes"
    small_examples = ("cycle:3", "cycle:4", "cycle:9")

    def __init__(self, order: int) -> None:
        self.name, self.title, self.order, self.degree = f"cycle:{order}", f"cycle of {order} nodes", order, 2

    @classmethod
    def parse(cls, parameters: str) -> Self:
        return cls(cls.parse_number(parameters))

    def label(self, rank: Rank) -> str:
        return str(rank)

    def rank(self, label: str) -> Rank:
        return int(label)

    def neighbour(self, rank: Rank, port: Port) -> Rank:
        return (rank + 1 - 2 * port) % self.order

    def reverse_port(self, port: Port) -> Port:
        return 1 - port

    def relative(self, rank: Rank, root: Rank) -> Rank:
        return (rank - root) % self.order

    def absolute(self, relative: Rank, root: Rank) -> Rank:
        return (relative + root) % self.order


@pytest.fixture
def ring() -> Iterator[type[Ring]]:
    register(Ring)
    yield Ring
    FAMILIES.remove(Ring)


def test_registered_family_is_parsed_and_conforms(ring: type[Ring]) -> None:
    for name in ring.small_examples:
        topology = parse_topology(name)
        assert isinstance(topology, ring)
        check_topology(topology)
        check_trees(BreadthFirstTree(topology))
        check_trees(GrownTree(topology, ()))
    assert ring in descriptions()


@pytest.mark.usefixtures("ring")
def test_family_without_distance_formula_uses_search() -> None:
    topology = parse_topology("cycle:9")
    assert not topology.has_distance_formula
    assert parse_topology("star:4").has_distance_formula
    assert (topology.facts()["diameter"], topology.facts()["distances"]) == (4, "breadth-first search")
    assert topology.distribution_from(0) == (1, 2, 2, 2, 2)
    assert not topology.bipartite
    with pytest.raises(ScenarioError, match=f"no distance formula.* limited to {SEARCH_LIMIT} nodes"):
        parse_topology(f"cycle:{SEARCH_LIMIT + 1}").weight(1)


@pytest.mark.parametrize("algorithm", [Flood, BreadthFirstBroadcast])
@pytest.mark.usefixtures("ring")
def test_broadcast_works_on_a_family_without_algorithms(
    algorithm: Callable[[Topology, CollectiveSpec], Algorithm],
) -> None:
    topology = parse_topology("cycle:9")
    spec = CollectiveSpec(topology.name, Collective.BROADCAST, "flood", source=2)
    engine, rows = MemoryEngine(algorithm(topology, spec)), bytearray()
    for step in range(1, topology.diameter + 3):
        rows += engine.step(step)
    assert not engine.busy
    hops = np.frombuffer(rows, dtype=RECORD)
    assert sorted(hops[hops["outcome"] == HopOutcome.FIRST]["receiver"]) == [rank for rank in range(9) if rank != 2]


# --- registration ----------------------------------------------------------------------------------------------------


def test_name_clash_is_refused(ring: type[Ring]) -> None:
    class Other(Ring):
        pass

    register(ring)  # the same class again changes nothing
    with pytest.raises(RegistrationError, match=r"Other is called 'cycle', a name already taken by .*Ring"):
        register(Other)


def test_missing_methods_and_attributes_are_refused() -> None:
    class Unfinished(CayleyTopology):
        family = "unfinished"

    with pytest.raises(RegistrationError, match=r"Unfinished does not define form, .* absolute, label, neighbour"):
        register(Unfinished)
    assert "unfinished" not in FAMILIES


def test_class_of_no_known_kind_is_refused() -> None:
    with pytest.raises(RegistrationError, match=r"int is not a subclass of .*Topology"):
        register(int)


# --- the suites themselves -------------------------------------------------------------------------------------------


class MisdirectedCube(Hypercube):
    """One wrong neighbour."""

    def neighbour(self, rank: int, port: int) -> int:
        return 5 if (rank, port) == (0, 0) else super().neighbour(rank, port)


class MisweighedCube(Hypercube):
    """One wrong distance."""

    def weight(self, relative: int) -> int:
        return super().weight(relative) + (relative == 7)


class TwistedCube(Hypercube):
    """A translation that exchanges two dimensions."""

    def relative(self, rank: int, root: int) -> int:
        address = rank ^ root
        return (address & ~3) | (address & 1) << 1 | (address & 2) >> 1

    def absolute(self, relative: int, root: int) -> int:
        return (relative & ~3 | (relative & 1) << 1 | (relative & 2) >> 1) ^ root


class OddCube(Hypercube):
    """Not bipartite, by its own account."""

    def __init__(self, n: int) -> None:
        super().__init__(n)
        self.bipartite = False


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (MisdirectedCube, "does not lead back"),
        (MisweighedCube, "weight"),
        (TwistedCube, "changes port"),
        (OddCube, "bipartite"),
    ],
)
def test_check_topology_rejects(broken: type[Hypercube], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        check_topology(broken(3))


class Rings(Trees):
    """Two Hamiltonian paths of Q_2 in opposite senses: arc-disjoint, and their root paths share no inner rank."""

    UP = ({1: 0, 3: 1, 2: 0}, {2: 1, 3: 0, 1: 1})

    def __init__(self) -> None:
        super().__init__(Hypercube(2), 2)

    def parent(self, rank: Rank, tree: int) -> Port:
        if not rank:
            raise ValueError("the root has no parent")
        return self.UP[tree][rank]


class Cyclic(Rings):
    """Ranks 1 and 3 are each other's parent."""

    UP = ({1: 1, 3: 1, 2: 1}, {1: 1, 3: 1, 2: 1})


class SharedChild(Rings):
    """The root claims a child twice."""

    def child_ports(self, rank: Rank, tree: int) -> tuple[Port, ...]:
        return super().child_ports(rank, tree) if rank else (0, 1)


class RootWithParent(Rings):
    def parent(self, rank: Rank, tree: int) -> Port:
        return super().parent(rank, tree) if rank else 0


class WrongHeight(Rings):
    def height(self, tree: int) -> int:
        return 2


class NotShortest(Rings):
    shortest = True


class Twins(Rings):
    """The same tree twice."""

    UP = ({1: 0, 3: 1, 2: 0}, {1: 0, 3: 1, 2: 0})


def test_check_trees_accepts_a_good_family() -> None:
    trees = Rings()
    check_trees(trees)
    assert arc_congestion(trees) == 1
    assert shared_rank(trees) is None


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Cyclic, "spans"),
        (SharedChild, "twice"),
        (RootWithParent, "the root, has a parent"),
        (WrongHeight, "has height 3, not 2"),
        (NotShortest, "on level 3, not 1"),
    ],
)
def test_check_trees_rejects(broken: type[Rings], message: str) -> None:
    with pytest.raises(ContractError, match=message):
        check_trees(broken())


def test_route_through_a_cycle_is_an_error() -> None:
    with pytest.raises(RuleError, match="cycle"):
        Cyclic().route(1, 0)


def test_shared_arcs_and_ranks_are_found() -> None:
    trees = Twins()
    assert arc_congestion(trees) == 2
    assert shared_rank(trees) == 2
