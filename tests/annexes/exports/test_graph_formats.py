"""Exports of runs, plans and networks: GraphML and GOAL."""

import re
from collections import Counter
from pathlib import Path

import networkx as nx
import polars as pl
import pytest

from emunode.topologies.registry import parse_topology
from emunode.topologies.star import StarGraph
from emunode.trees.star.edge_disjoint import EdgeDisjointTrees
from emunode.trees.statistics import arc_loads
from tests.helpers.command_line import Call, fields
from tests.helpers.report_runs import RUNS, STAR4, Runs


def test_graphml_of_a_run(runs: Runs, call: Call) -> None:
    assert call("export", runs(STAR4).path, "--graphml", "run.graphml").status == 0
    graph = nx.read_graphml("run.graphml")
    topology = parse_topology("star:4")
    assert graph.is_directed()
    assert (len(graph), graph.number_of_edges()) == (24, 72)
    for rank in topology.ranks():
        assert graph.nodes[topology.label(rank)]["rank"] == rank
        for port, other in enumerate(topology.neighbours(rank)):
            assert graph.edges[topology.label(rank), topology.label(other)]["port"] == port
    tree = [(one, other) for one, other, values in graph.edges(data=True) if values.get("trees") == "0"]
    assert nx.is_arborescence(nx.DiGraph(tree))
    assert len(tree) == 23
    assert all(values["packets"] == ("trees" in values) for _, _, values in graph.edges(data=True))
    assert graph.nodes["2134"]["first_step"] == 1


def test_graphml_of_a_plan(call: Call) -> None:
    assert call("export --topology star:4 --algorithm edt --source 3142 --graphml edt.graphml").status == 0
    graph, trees = nx.read_graphml("edt.graphml"), EdgeDisjointTrees(StarGraph(4))
    for tree in range(trees.count):
        arcs = [(a, b) for a, b, values in graph.edges(data=True) if str(tree) in values.get("trees", "").split()]
        assert nx.is_arborescence(nx.DiGraph(arcs))
        assert [node for node, degree in nx.DiGraph(arcs).in_degree() if not degree] == ["3142"]
    loads = sum(len(values.get("trees", "").split()) for _, _, values in graph.edges(data=True))
    assert loads == arc_loads(trees).total()


@pytest.mark.parametrize("scenario", RUNS)
def test_goal_matches_the_journal(runs: Runs, call: Call, scenario: str) -> None:
    run = runs(scenario)
    assert call("export", run.path, "--goal", "run.goal").status == 0
    order, sends, receipts = parse_goal(Path("run.goal").read_text())
    assert order == parse_topology(str(fields(scenario)["topology"])).order
    arrived = run.journal.filter(pl.col("outcome") != "lost")
    packets = arrived.group_by("step", "sender", "receiver").agg(pl.col("bytes").sum())
    wanted = Counter(packets.select("sender", "receiver", "step", "bytes").iter_rows())
    assert sends == receipts == wanted


OPERATION = re.compile(r"l(\d+): (send|recv) (\d+)b (to|from) (\d+) tag (\d+)")


def parse_goal(text: str) -> tuple[int, Counter[tuple[int, ...]], Counter[tuple[int, ...]]]:
    """Return order, sends and receipts, as (sender, receiver, step, bytes), of a schedule that has to be well-formed."""
    lines = [line for line in text.splitlines() if line and not line.startswith("//")]
    order = int(lines[0].removeprefix("num_ranks "))
    sends: Counter[tuple[int, ...]] = Counter()
    receipts: Counter[tuple[int, ...]] = Counter()
    rank = -1
    known: dict[str, int] = {}
    requires: dict[str, set[str]] = {}
    for line in lines[1:]:
        if line == f"rank {rank + 1} {{":
            rank, known, requires = rank + 1, {}, {}
        elif line == "}":
            check_order(known, requires)
        elif match := OPERATION.fullmatch(line):
            number, kind, size, _, other, tag = match.groups()
            assert f"l{number}" not in known
            known[f"l{number}"] = int(tag)
            ends = (rank, int(other)) if kind == "send" else (int(other), rank)
            (sends if kind == "send" else receipts)[(*ends, int(tag), int(size))] += 1
        elif " requires " in line:
            one, other = line.split(" requires ")
            assert {one, other} <= known.keys()
            requires.setdefault(one, set()).add(other)
        else:
            assert line == "l1: calc 0"
    assert rank == order - 1
    return order, sends, receipts


def check_order(steps: dict[str, int], requires: dict[str, set[str]]) -> None:
    """Check that operations of a step require exactly the operations of the previous active step."""
    for name, step in steps.items():
        before = max((other for other in steps.values() if other < step), default=0)
        assert requires.get(name, set()) == {other for other, when in steps.items() if when == before}
