"""Figures 1 to 14 of Johnsson and Ho 1986, drawn from trees and runs, with the quantities that can be counted in them.

The pictures are not in the text of the report, so the figures are drawn from captions and text. Where these leave a choice,
the caption names it: the tree of figure 1, the names of the nodes of figure 4, the node of figure 9, the order of dimensions
of figure 14. The measured figures 15 to 19 have a separate reproduction.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import polars as pl

from coordinator.annexes.exports.paper_figures import (
    COLOURS,
    Arc,
    Branch,
    DrawingPart,
    block_panel,
    branch_of,
    network_panel,
    tree_arcs,
    tree_panel,
)
from coordinator.annexes.papers.base import Figure, Section, described
from coordinator.annexes.papers.figures import drawn
from coordinator.annexes.papers.johnsson_ho.common import ALL, MESSAGE_BYTES, ONE
from coordinator.annexes.papers.run_cache import CachedRun, RunCache
from coordinator.annexes.papers.tables import Table, compared, notes
from emunode.algorithms.claims import Value
from emunode.model import Port, Rank
from emunode.topologies.hypercube import Hypercube
from emunode.trees.base import Trees
from emunode.trees.hypercube.balanced import BalancedTrees
from emunode.trees.hypercube.binomial import BinomialTree
from emunode.trees.hypercube.gray import GrayPaths
from emunode.trees.hypercube.rotated import EdgeDisjointBinomialTrees, RotatedBinomialTrees
from emunode.trees.hypercube.two_rooted import TwoRootedTree

NOTES = notes("johnsson_ho", "figures")

Q3, Q4, Q5, Q6 = (Hypercube(n) for n in (3, 4, 5, 6))
NODE_9 = 0b001011
"""The node of figure 9. The text does not name it; this one has parents and children in several trees."""
SMALL = 330.0
"""Width of a 3-cube in a drawing of several."""


RUNS: Mapping[int, Mapping[str, object]] = {
    1: {"topology": Q3, "collective": "scatter", "algorithm": "sbt"},
    3: {"topology": Q4, "collective": "broadcast", "algorithm": "sbt"},
    4: {"topology": Q4, "collective": "broadcast", "algorithm": "tcbt"},
    5: {"topology": Q3, "collective": "broadcast", "algorithm": "nrsbt"},
    7: {"topology": Q3, "collective": "broadcast", "algorithm": "nesbt", "segments": 3},
    8: {"topology": Q4, "collective": "broadcast", "algorithm": "nesbt", "segments": 4},
    11: {"topology": Q5, "collective": "scatter", "algorithm": "sbnt"},
    12: {"topology": Q3, "collective": "broadcast", "algorithm": "nrsbt"},
    13: {"topology": Q3, "collective": "broadcast", "algorithm": "nesbt", "port_model": ONE, "segments": 3},
    14: {"topology": Q3, "collective": "alltoall", "algorithm": "sbt", "port_model": ONE},
}
"""The run of each figure that has one."""


def _run(cache: RunCache, figure: int) -> CachedRun:
    return cache.run(**{"port_model": ALL, "message_bytes": MESSAGE_BYTES, **RUNS[figure]})  # type: ignore[arg-type]


def _children(trees: Trees, tree: int) -> Callable[[Rank], Sequence[Port]]:
    return lambda rank: trees.children(rank, tree)


def _tree(title: str, trees: Trees, tree: int = 0, **more: object) -> DrawingPart:
    return tree_panel(title, branch_of(trees.topology, _children(trees, tree), **more))  # type: ignore[arg-type]


def _figure(number: int, panels: Sequence[DrawingPart]) -> Figure:
    return drawn("johnsson_ho", number, panels)


# --- the figures ---------------------------------------------------------------------------------------------------------


def on_the_way(trial: CachedRun) -> list[set[Rank]]:
    """Return the nodes whose data is on the links in each step."""
    moved = trial.journal().group_by("step").agg(pl.col("target").unique()).sort("step").collect()
    return [set(targets) for targets in moved["target"]]


def _figure_1(cache: RunCache) -> Figure:
    cycles = on_the_way(_run(cache, 1))
    panels = [
        _tree(f"cycle {cycle}", BinomialTree(Q3), steps=dict.fromkeys(targets, 1))
        for cycle, targets in enumerate(cycles)
    ]
    return _figure(1, panels)


def _figure_2() -> Figure:
    paths = GrayPaths(Q3, 3)
    panels = [
        network_panel(f"path {tree}", Q3, {COLOURS[tree]: tree_arcs(paths, tree)}, ringed=[0], width=SMALL)
        for tree in range(3)
    ]
    return _figure(2, panels)


def _figure_5(loads: Mapping[Arc, Fraction]) -> Figure:
    trees = RotatedBinomialTrees(Q3)
    panels = [_tree(f"SBT {tree}", trees, tree, link=str) for tree in range(3)]
    panels.append(
        network_panel(
            "together",
            Q3,
            {"blue": loads},
            ringed=[0],
            names={arc: f"{load.numerator}/{load.denominator}" for arc, load in loads.items()},
        )
    )
    return _figure(5, panels)


def sbt_of_nesbt(tree: int) -> Branch:
    """Draw tree j of nESBT in Q_3 before its edge to the source is reversed: an SBT rooted at e_j, the source a leaf."""
    trees, root = EdgeDisjointBinomialTrees(Q3), 1 << tree

    def children(rank: Rank) -> Sequence[Port]:
        if not rank:
            return ()
        return (*trees.children(rank, tree), *([tree] if rank == root else []))

    return branch_of(Q3, children, root=root)


def _figure_9() -> tuple[Figure, list[Port], list[Port]]:
    trees = EdgeDisjointBinomialTrees(Q6)
    up = [(tree, trees.parent(NODE_9, tree)) for tree in range(Q6.n)]
    down = [(tree, port) for tree in range(Q6.n) for port in trees.children(NODE_9, tree)]

    def panel(title: str, ports: list[tuple[int, Port]]) -> DrawingPart:
        below = tuple(Branch(f"tree {tree}", str(port), Q6.label(Q6.neighbour(NODE_9, port))) for tree, port in ports)
        return tree_panel(title, Branch(Q6.label(NODE_9), below=below), branch=54)

    figure = _figure(9, [panel("parents", up), panel("children", down)])
    return figure, [port for _, port in up], [port for _, port in down]


def _figure_10() -> tuple[Figure, bool]:
    trees, balanced = EdgeDisjointBinomialTrees(Q3), BalancedTrees(Q3)
    every = {arc for tree in range(3) for arc in tree_arcs(trees, tree)}
    inner = tree_arcs(balanced, 0)
    undirected = {frozenset((rank, Q3.neighbour(rank, port))) for rank, port in every}
    within = all(frozenset((rank, Q3.neighbour(rank, port))) in undirected for rank, port in inner)
    panel = network_panel("SBnT within nESBT", Q3, {"sky": every, "red": inner}, ringed=[0])
    return _figure(10, [panel]), within


def labelled(trial: CachedRun, tree: int) -> dict[tuple[Rank, Port], str]:
    """Return the cycle, from 0, when the first packet of a tree uses each link."""
    first = trial.journal().filter(pl.col("tree") == tree).group_by("sender", "port").agg(pl.col("step").min())
    return {(sender, port): str(step - 1) for sender, port, step in first.collect().iter_rows()}


def _scheduled(title: str, trees: Trees, trial: CachedRun, tree: int) -> DrawingPart:
    labels = labelled(trial, tree)

    def grow(rank: Rank, link: str) -> Branch:
        ports = trees.children(rank, tree)
        below = tuple(grow(trees.topology.neighbour(rank, port), labels[rank, port]) for port in ports)
        return Branch(trees.topology.label(rank), link, below=below)

    return tree_panel(title, grow(0, ""))


def blocks_after(trial: CachedRun, cycle: int) -> dict[tuple[Rank, Rank], Rank]:
    """Return the node that holds the block of each (origin, target) after `cycle` cycles."""
    held = {(origin, target): origin for origin in range(8) for target in range(8)}
    moved = (
        trial.journal().filter(pl.col("step") <= cycle).sort("step").select("origin", "target", "receiver").collect()
    )
    held.update({(origin, target): receiver for origin, target, receiver in moved.iter_rows()})
    return held


def _figure_14(trial: CachedRun) -> Figure:
    panels = []
    for cycle in range(4):
        held = blocks_after(trial, cycle)
        mine = [block for block, owner in held.items() if owner == 0]
        panels.append(block_panel(f"({cycle + 1})", 8, mine, lambda column, row: f"{column}>{row}"))
    return _figure(14, panels)


# --- counted quantities
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Checks:
    """Collects the rows of the last table."""

    rows: list[dict[str, object]] = field(default_factory=list)

    def __call__(
        self, number: int, what: str, paper: object, predicted: Value, measured: Value, *trials: CachedRun
    ) -> None:
        """Add a row: a statement about a figure, as printed, predicted and measured."""
        self.rows.append(compared(predicted, measured, *trials, paper=paper, figure=number, what=what))


def build(cache: RunCache) -> Iterator[Section]:
    """Yield the figures in order, then a table of their counted quantities."""
    for figure in RUNS:
        _run(cache, figure)
    if cache.rehearsing:
        return
    check = Checks()
    yield from _single_trees(cache, check)
    yield from _several_trees(cache, check)
    yield from _nodes_and_balance(cache, check)
    yield from _schedules(cache, check)
    yield Table("Figures 1 to 14: counted quantities", check.rows, NOTES["figures"])


def _single_trees(cache: RunCache, check: Checks) -> Iterator[Figure]:
    """Yield figures 1 to 4."""
    yield _figure_1(cache)
    trial = _run(cache, 1)
    levels = tuple(min(target.bit_count() for target in targets) for targets in on_the_way(trial))
    check(1, "lowest level on the way in cycles 0, 1, 2", "h - k", (3, 2, 1), levels, trial)

    yield _figure_2()
    paths = GrayPaths(Q3, 3)
    shared = [sum(arc in tree_arcs(paths, tree) for tree in range(3)) for arc in _arcs_of(Q3)]
    check(2, "edges that n - 1 paths share", "n", 3, shared.count(2))

    yield _figure(3, [_tree("", BinomialTree(Q4), link=str)])
    trial = _run(cache, 3)
    check(3, "nodes at levels 1 to 4", "C(n, l)", (4, 6, 4, 1), tuple(trial.series("receivers_per_step")), trial)

    yield _figure(4, [_tree("", TwoRootedTree(Q4), link=str)])
    trial = _run(cache, 4)
    printed = "2, 3 2^(l-2), N/4"
    check(4, "nodes at levels 1 to 4", printed, (2, 3, 6, 4), tuple(trial.series("receivers_per_step")), trial)


def _several_trees(cache: RunCache, check: Checks) -> Iterator[Figure]:
    """Yield figures 5 to 8."""
    trial = _run(cache, 5)
    used = trial.table("links").filter(pl.col("bytes") > 0)["sender", "port", "bytes"].iter_rows()
    loads = {(sender, port): Fraction(carried, MESSAGE_BYTES) for sender, port, carried in used}
    yield _figure_5(loads)
    away = [arc for arc in loads if not arc[0] >> arc[1] & 1]
    check(5, "edges used", "nN/2", 12, len(loads), trial)
    check(5, "edges used that lead away from the source", "nN/2", 12, len(away), trial)
    check(5, "sum of all weights", "N - 1", 7, float(sum(loads.values())), trial)

    panels = [tree_panel(f"SBT {tree}", sbt_of_nesbt(tree)) for tree in range(3)]
    yield _figure(6, panels)
    for tree in range(3):
        check(
            6, f"nodes at levels 0 to 3 of SBT {tree}", "C(n, l)", (1, 3, 3, 1), tuple(_level_sizes(sbt_of_nesbt(tree)))
        )

    trees = EdgeDisjointBinomialTrees(Q3)
    panels = [
        network_panel(f"ERSBT {tree}", Q3, {COLOURS[tree]: tree_arcs(trees, tree)}, ringed=[0], width=SMALL)
        for tree in range(3)
    ]
    yield _figure(7, panels)
    trees = EdgeDisjointBinomialTrees(Q4)
    panels = [_tree(f"ERSBT {tree}", trees, tree, link=str) for tree in range(4)]
    yield _figure(8, panels)
    for number, cube in ((7, Q3), (8, Q4)):
        trial = _run(cache, number)
        check(number, "trees on one directed edge", 1, 1, trial.number("max_link_segments"), trial)
        every = cube.n * (cube.order - 1)
        check(number, "directed edges used", "n(N - 1)", every, trial.number("links_used"), trial)


def _nodes_and_balance(cache: RunCache, check: Checks) -> Iterator[Figure]:
    """Yield figures 9 to 11."""
    figure, parents, children = _figure_9()
    yield figure
    check(9, "different dimensions to the parents", "n", 6, len(set(parents)))
    check(9, "different dimensions to the children", "n", 6, len(set(children)))

    figure, within = _figure_10()
    yield figure
    check(10, "SBnT lies within the undirected nESBT", "yes", True, within)

    panel = _tree("", BalancedTrees(Q5), link=str)
    yield _figure(11, [panel])
    trial = _run(cache, 11)
    ports = trial.table("links").filter(pl.col("sender") == 0).sort("port")["segments"].to_list()
    check(11, "nodes of the subtrees", "about (N-1)/n", (7, 6, 6, 6, 6), tuple(ports), trial)


def _schedules(cache: RunCache, check: Checks) -> Iterator[Figure]:
    """Yield figures 12 to 14."""
    trial, rotated = _run(cache, 12), RotatedBinomialTrees(Q3)
    panels = [_scheduled(f"SBT {tree}", rotated, trial, tree) for tree in range(3)]
    yield _figure(12, panels)
    labels = [(tree, port, int(label)) for tree in range(3) for (_, port), label in labelled(trial, tree).items()]
    right = all((label + tree) % 3 == port for tree, port, label in labels)
    check(12, "tree j uses dimension (j + i) mod n in cycle i", "yes", True, right, trial)
    check(12, "most trees on a link in one cycle", 1, 1, trial.number("max_link_segments_per_step"), trial)

    trial, disjoint = _run(cache, 13), EdgeDisjointBinomialTrees(Q3)
    panels = [_scheduled(f"ERSBT {tree}", disjoint, trial, tree) for tree in range(3)]
    yield _figure(13, panels)
    labels = [(tree, port, int(label)) for tree in range(3) for (_, port), label in labelled(trial, tree).items()]
    cycles = tuple(sorted({label for _, _, label in labels}))
    check(13, "cycles of the labels", "0 .. 2n - 1", (0, 1, 2, 3, 4, 5), cycles, trial)
    congruent = all(label % 3 == port for _, port, label in labels)
    check(13, "labels are congruent to dimensions modulo n", "yes", True, congruent, trial)

    trial = _run(cache, 14)
    yield _figure_14(trial)
    mine = [block for block, owner in blocks_after(trial, 3).items() if owner == 0]
    check(14, "blocks in P0 at the end", "N", 8, len(mine), trial)
    check(14, "blocks in P0 at the end that are for P0", "N", 8, sum(target == 0 for _, target in mine), trial)


def _arcs_of(cube: Hypercube) -> list[Arc]:
    return [(rank, port) for rank in cube.ranks() for port in range(cube.n)]


def _level_sizes(root: Branch) -> Iterator[int]:
    level = [root]
    while level:
        yield len(level)
        level = [below for node in level for below in node.below]


REPRODUCTION = described("johnsson_ho", "figures", build)
