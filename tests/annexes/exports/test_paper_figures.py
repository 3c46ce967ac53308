"""Curves and drawings contain the values they are given."""

from xml.etree import ElementTree as ET

import pytest

from coordinator.annexes.exports.paper_figures import Branch, branch_of, drawing, network_panel, tree_arcs, tree_panel
from coordinator.reports.chart import Axis
from coordinator.reports.charts import curves
from emunode.topologies.registry import parse_topology
from emunode.topologies.star import StarGraph
from emunode.trees.star.greedy import GreedyTree

STAR = StarGraph(4)


def of_class(svg: str, name: str) -> list[ET.Element]:
    return [element for element in ET.fromstring(svg).iter() if element.get("class") == name]


# --- curves ----------------------------------------------------------------------------------------------------------


def test_points_are_marked_and_lines_are_drawn_except_for_dots() -> None:
    svg = curves("a < b", {"line": [(1, 10), (2, 20)], "dots": [(1, 11), (2, 19)]}, "n & m", "ms", dots=("dots",)).svg
    texts = [element.text for element in ET.fromstring(svg).iter() if element.tag in ("text", "title")]
    assert {"a < b", "n & m", "ms", "line: 1, 10", "line: 2, 20", "dots: 1, 11", "dots: 2, 19"} <= set(texts)
    assert len(of_class(svg, "line")) == 2  # the line, and its sample in the legend


def test_logarithmic_axis_omits_values_that_are_not_positive() -> None:
    svg = curves("t", {"a": [(0, 5), (1, 0), (10, 7)]}, "x", "y", log_x=True, log_y=True).svg
    assert "a: 10, 7" in svg
    assert "a: 0, 5" not in svg
    assert "a: 1, 0" not in svg
    assert ET.fromstring(curves("t", {}, "x", "y", log_x=True).svg) is not None
    assert ET.fromstring(curves("t", {"a": [(3, 3)]}, "x", "y").svg) is not None


@pytest.mark.parametrize(
    ("axis", "ticks"),
    [
        (Axis("", 0, 31, 0, 100), [0, 10, 20, 30]),
        (Axis("", 0, 0.9, 0, 100), [0, 0.2, 0.4, 0.6, 0.8]),
        (Axis("", 90, 1100, 0, 100, log=True), [100, 200, 500, 1000]),
        (Axis("", 0.9, 2e4, 0, 100, log=True), [1, 10, 100, 1000, 10000]),
        (Axis("", 6.1, 8, 0, 100, log=True), [6.5, 7, 7.5, 8]),
        (Axis("", 3, 5, 0, 100, only=(3, 4, 5)), [3, 4, 5]),
    ],
)
def test_ticks_are_round_and_within_the_axis(axis: Axis, ticks: list[float]) -> None:
    assert axis.ticks() == pytest.approx(ticks)
    assert all(0 <= axis.at(tick) <= 100 for tick in ticks)


# --- drawings --------------------------------------------------------------------------------------------------------


def test_a_network_with_a_tree_on_it() -> None:
    arcs = tree_arcs(GreedyTree(STAR), 0)
    assert len(arcs) == 23
    svg = drawing("S_4", [network_panel("L(1234)", STAR, {"blue": arcs}, ringed=[0], shades={0: 0.9})])
    (flow,), (dotted,) = of_class(svg, "flow"), of_class(svg, "dotted")
    assert str(flow.get("d")).count("M") == 23
    assert str(dotted.get("d")).count("M") == STAR.link_count == 36
    assert len(of_class(svg, "node")) == len(of_class(svg, "name")) == 24
    assert len(of_class(svg, "ring")) == 1


def test_upward_arcs_are_the_reversed_links_and_follow_the_root() -> None:
    trees, root = GreedyTree(STAR), STAR.rank("4123")
    down, up = tree_arcs(trees, 0, root), tree_arcs(trees, 0, root, upward=True)
    assert {(STAR.neighbour(rank, port), port) for rank, port in down} == set(up)
    assert root not in {rank for rank, _ in up}


@pytest.mark.parametrize("name", ["star:3", "hypercube:4", "ej:2+3", "ej:1+2^2"])
def test_every_network_can_be_drawn(name: str) -> None:
    topology = parse_topology(name)
    svg = drawing(name, [network_panel(name, topology, {"red": [(0, 0)], "green": []})] * 3)
    assert len(of_class(svg, "node")) == 3 * topology.order
    assert len(of_class(svg, "panel")) == 3


def test_tree_from_the_top_down() -> None:
    trees = GreedyTree(STAR)
    branch = branch_of(STAR, lambda rank: trees.children(rank, 0), link=lambda port: str(port + 2), steps={1: 1, 2: 4})
    svg = drawing("tree", [tree_panel("L", branch)])
    assert len(of_class(svg, "node")) == 24
    links = of_class(svg, "link")
    assert len(links) == len(of_class(svg, "branch")) == 23
    assert {link.text for link in links} == {"2", "3", "4"}
    assert f"{STAR.label(1)}, step 1" in svg
    boxes = [(float(str(node.get("x"))), float(str(node.get("y")))) for node in of_class(svg, "node")]
    assert len(set(boxes)) == 24


def test_one_node_is_a_tree() -> None:
    assert len(of_class(drawing("t", [tree_panel("alone", Branch("<1>", tip="a&b"))]), "node")) == 1
