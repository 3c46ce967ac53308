"""Rules that plan around known faults: every number of the tables, and what every repaired tree has to be."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.algorithms.registry import make_algorithm
from emunode.algorithms.tree_collective import TreeCollective
from emunode.annexes.repair.components import BrokenLinks
from emunode.annexes.repair.re_root import valid_sources
from emunode.annexes.repair.rules import RepairedBroadcast
from emunode.engine.memory import MemoryEngine
from emunode.errors import ScenarioError
from emunode.faults.kinds import Crash
from emunode.model import Collective, CollectiveSpec, FaultKnowledge, Port, Rank, Repair
from emunode.net.wire import ROW
from emunode.play import play
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.trees.base import Trees
from tests.helpers.support import golden_rows


def slow_if(cases: Iterable[Any], slow: Callable[[Any], bool]) -> list[Any]:
    """Return the cases as parameter sets; those that take many seconds are marked."""
    several = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [
        pytest.param(*case, marks=pytest.mark.slow if slow(case if len(case) > 1 else case[0]) else ())
        for case in several
    ]


def ends_of(topology: Topology, dead: Iterable[Rank]) -> tuple[tuple[Rank, Port], ...]:
    """Return every direction of every link of some nodes."""
    ends = [(end, topology.end(*end)) for rank in dead for end in ((rank, port) for port in topology.ports(rank))]
    return tuple(sorted({each for both in ends for each in both}))


def repaired(
    topology: Topology, name: str, rule: str, broken: tuple[tuple[Rank, Port], ...], source: Rank = 0
) -> TreeCollective:
    spec = CollectiveSpec(topology.name, Collective.BROADCAST, name, source, repair=Repair(rule))
    algorithm = make_algorithm(topology, spec._replace(knowledge=FaultKnowledge.ALL, broken=broken))
    assert isinstance(algorithm, TreeCollective)
    return algorithm


@cache
def links_between(topology: Topology) -> Sequence[tuple[Rank, Rank]]:
    return [(rank, peer) for rank, _, peer, _ in topology.links()]


def healthy(topology: Topology, broken: Iterable[tuple[Rank, Port]]) -> "nx.Graph[Rank]":
    """Return the network without broken links."""
    graph: nx.Graph[Rank] = nx.Graph(links_between(topology))
    graph.remove_edges_from([(rank, topology.neighbour(rank, port)) for rank, port in broken])
    return graph


def links_of(trees: Trees, ranks: Iterable[Rank]) -> "nx.Graph[Rank]":
    """Return the links of a tree at some ranks of which it has the parents, the root left out."""
    graph: nx.Graph[Rank] = nx.Graph()
    graph.add_node(0)
    graph.add_edges_from((rank, trees.topology.neighbour(rank, trees.parent(rank, 0))) for rank in ranks if rank)
    return graph


def last_step(algorithm: TreeCollective, dead: Iterable[Rank]) -> int:
    """Return the last step with an arrival, in a run in memory; no packet is lost."""
    rows = play(MemoryEngine(algorithm), [Crash(1, rank) for rank in dead])
    found = list(ROW.iter_unpack(b"".join(rows)))
    assert len(found) == len(algorithm.reached)
    return max(int(row[0]) for row in found)


# --- re-rooting --------------------------------------------------------------------------------------------------------

RE_ROOTED = {row["network"]: row for row in golden_rows("repair", "re_root")}
"""By network, the fewest and most valid sources of two faults, placements of three faults without any, one fault being node
0, and placements of two faults by the steps of relocation and broadcast.
"""
TREES = {"ej": "improved", "gaussian": "bfs-tree"}


def placements(text: str) -> dict[int, int]:
    """Return `2:66 3:84` as numbers of placements by steps."""
    return {int(steps): int(count) for steps, count in (each.split(":") for each in text.split())}


def tree_name(network: str) -> str:
    return TREES[network.partition(":")[0]]


@pytest.mark.parametrize("network", RE_ROOTED)
def test_two_faults_have_a_node_that_is_far_from_both(network: str) -> None:
    topology = parse_topology(network)
    least, most, without = map(int, [*RE_ROOTED[network].values()][1:4])
    pairs = [valid_sources(BrokenLinks(topology, ends_of(topology, (0, rank)))) for rank in range(1, topology.order)]
    assert (min(map(len, pairs)), max(map(len, pairs))) == (least, most)
    others = [set(sources) for sources in pairs]
    assert sum(not one & other for one, other in combinations(others, 2)) == without


def test_three_faults_without_such_a_node_are_not_repaired() -> None:
    topology = parse_topology("gaussian:3+4")
    dead = [topology.rank(label) for label in ("1,0", "3,0", "-1,0")]
    algorithm = repaired(topology, "bfs-tree", "re-root", ends_of(topology, dead))
    assert not isinstance(algorithm, RepairedBroadcast)


@pytest.mark.parametrize("network", slow_if(RE_ROOTED, lambda network: "5+6" in network or "4+5" in network))
def test_re_rooting_takes_the_published_steps(network: str) -> None:
    """All placements of two faults; no path of the repaired tree touches one, and the bound of two diameters holds."""
    topology = parse_topology(network)
    steps: Counter[int] = Counter()
    for number, dead in enumerate(combinations(range(1, topology.order), 2)):
        algorithm = repaired(topology, tree_name(network), "re-root", ends_of(topology, dead))
        assert algorithm.reached == set(topology.ranks()) - {0, *dead}
        steps[algorithm.last_step] += 1
        # The engine agrees with the height of the tree.
        if number % 37 == 0:
            assert last_step(algorithm, dead) == algorithm.last_step
    assert steps == placements(RE_ROOTED[network]["placements_by_steps"])
    assert max(steps) <= 2 * topology.diameter


# --- fewest links ------------------------------------------------------------------------------------------------------

EDGES = {(row["network"], int(row["faults"])): row for row in golden_rows("repair", "edges")}
"""By network and number of faults, placements by the depth of the repaired tree, and by the largest distance from the source
in what is left: no tree is less deep.
"""


@pytest.mark.parametrize(("network", "faults"), slow_if(EDGES, lambda case: "3+4" in case[0] and case[1] == 2))
def test_the_fewest_links_give_the_published_depths(network: str, faults: int) -> None:
    topology = parse_topology(network)
    depths: Counter[int] = Counter()
    least: Counter[int] = Counter()
    for number, dead in enumerate(combinations(range(1, topology.order), faults)):
        broken = ends_of(topology, dead)
        algorithm = repaired(topology, tree_name(network), "edges", broken)
        assert_keeps_components(algorithm, dead)
        depths[algorithm.last_step] += 1
        least[nx.eccentricity(healthy(topology, broken).subgraph({0, *algorithm.reached}), 0)] += 1
        if number % 37 == 0:
            assert last_step(algorithm, dead) == algorithm.last_step
    assert depths == placements(EDGES[network, faults]["placements_by_depth"])
    assert least == placements(EDGES[network, faults]["placements_by_distance"])
    more = faults if topology.family == "ej" else 2
    assert max(depths) <= topology.diameter + more


def assert_keeps_components(algorithm: TreeCollective, dead: Iterable[Rank]) -> None:
    """A tree of all that is connected, which has every link of c components of the tree that it keeps, and c - 1 others."""
    assert isinstance(algorithm, RepairedBroadcast)
    topology, kept = algorithm.rooted, algorithm.repaired.kept
    assert kept is not None
    relative = [(topology.relative(rank, algorithm.spec.source), port) for rank, port in algorithm.spec.broken]
    graph = healthy(topology, relative)
    connected = nx.node_connected_component(graph, 0)
    assert algorithm.reached == connected - {0}
    tree = links_of(algorithm.repaired.tree, algorithm.reached)
    assert nx.is_tree(tree)
    before = links_of(kept, range(1, topology.order))
    before.remove_edges_from([edge for edge in before.edges if edge not in graph.edges])
    before = before.subgraph(connected)
    assert set(map(frozenset, before.edges)) <= set(map(frozenset, tree.edges)) <= set(map(frozenset, graph.edges))
    components = nx.number_connected_components(before)
    assert tree.number_of_edges() - before.number_of_edges() == components - 1 == algorithm.repaired.components - 1
    assert not set(algorithm.reached) & {topology.relative(rank, algorithm.spec.source) for rank in dead}


# --- a spanning tree on any network ------------------------------------------------------------------------------------

ANYWHERE = (
    ("hypercube:4", "sbt"), ("star:4", "greedy-tree"), ("ej:1+3", "iterative"), ("mesh:3x4", "bfs-tree"),
    ("petersen:5,2", "bfs-tree"), ("fat-tree:4", "bfs-tree"),
)  # fmt: skip


@given(data=st.data())
def test_a_spanning_tree_joins_all_that_is_connected(data: st.DataObject) -> None:
    """Any nodes and directed links may be broken, from any source."""
    network, name = data.draw(st.sampled_from(ANYWHERE))
    topology = parse_topology(network)
    source = data.draw(st.sampled_from(list(topology.data_ranks)))
    dead = data.draw(st.sets(st.sampled_from([rank for rank in topology.ranks() if rank != source]), max_size=5))
    links = st.sampled_from([(rank, port) for rank in topology.ranks() for port in topology.ports(rank)])
    broken = {*ends_of(topology, dead), *data.draw(st.sets(links, max_size=6))}
    algorithm = repaired(topology, name, "spanning-tree", tuple(sorted(broken)), source)
    if broken:
        assert_keeps_components(algorithm, dead)
    else:
        assert not isinstance(algorithm, RepairedBroadcast)


@pytest.mark.parametrize("rule", ["re-root", "edges"])
def test_rules_for_nodes_refuse_broken_links(rule: str) -> None:
    topology = parse_topology("ej:2+3")
    with pytest.raises(ScenarioError, match="nodes that crash or hang, not links"):
        repaired(topology, "improved", rule, ((0, 1),))


def test_the_tree_is_the_same_from_every_source() -> None:
    """Translations carry a repair along."""
    topology = parse_topology("gaussian:2+3")
    steps = set()
    for source in topology.ranks():
        dead: Sequence[Rank] = [topology.absolute(rank, source) for rank in (1, 2)]
        algorithm = repaired(topology, "bfs-tree", "edges", ends_of(topology, dead), source)
        steps.add((last_step(algorithm, dead), algorithm.repaired.tree.height(0)))  # type: ignore[attr-defined]
    assert len(steps) == 1
