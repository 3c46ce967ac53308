"""Layouts computed from links, grids and circles, and pictures of networks."""

import re
import xml.etree.ElementTree as ET

import networkx
import numpy as np
import pytest

from coordinator.reports import computed_layout
from coordinator.reports.computed_layout import LARGEST_WITH_FORCES, computed_positions
from coordinator.reports.layout import COMPUTED, LAYOUTS, has_layout, layout_of, shapes_of
from coordinator.reports.network_picture import LARGEST_PICTURE, draw_network
from coordinator.scenario.network_files import from_networkx
from emunode.errors import ScenarioError
from emunode.topologies.registry import parse_topology
from emunode.topologies.table import TableTopology
from tests.coordinator.reports.conftest import distances_of

GRAPHS = {
    "pair": networkx.path_graph(2),
    "path": networkx.path_graph(30),
    "ring": networkx.cycle_graph(40),
    "hub": networkx.star_graph(30),
    "complete": networkx.complete_graph(8),
    "bipartite": networkx.complete_bipartite_graph(4, 9),
    "tree": networkx.balanced_tree(3, 4),
    "grid": networkx.convert_node_labels_to_integers(networkx.grid_2d_graph(6, 9)),
    "random": networkx.gnm_random_graph(150, 500, seed=2),
}


def network(name: str) -> TableTopology:
    return from_networkx(GRAPHS[name], name)


@pytest.mark.parametrize("name", GRAPHS)
def test_nodes_do_not_overlap(name: str) -> None:
    layout = layout_of(network(name))
    distances_of(layout)
    assert 2 * layout.radius > 5


@pytest.mark.parametrize("name", GRAPHS)
def test_the_layout_is_the_same_every_time(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    positions = computed_positions(network(name))
    assert computed_positions(network(name)) is positions  # kept by the digest of the links
    computed_layout._layouts.clear()
    assert np.array_equal(computed_positions(network(name)), positions)
    monkeypatch.setattr(computed_layout, "KEPT_LAYOUTS", 1)
    computed_positions(parse_topology("hypercube:3"))
    assert len(computed_layout._layouts) <= 2


def test_neighbours_are_closer_than_other_nodes() -> None:
    for name in ("path", "grid", "tree", "ring"):
        topology = network(name)
        x, y = computed_positions(topology).T
        distance = np.hypot(x[:, None] - x, y[:, None] - y)
        one, other = np.array([(one, other) for one, _, other, _ in topology.links()]).T
        assert distance[one, other].mean() < 0.6 * distance.mean()


def test_a_grid_is_drawn_as_a_grid() -> None:
    """The corners of the grid are the outermost nodes, and no two links cross."""
    topology = network("grid")
    points = computed_positions(topology)
    links = [(one, other) for one, _, other, _ in topology.links()]

    def side(a: int, b: int, c: int) -> float:
        return float(np.linalg.det(np.stack([points[b] - points[a], points[c] - points[a]])))

    crossings = [
        (one, other)
        for one in links
        for other in links
        if one < other
        and not set(one) & set(other)
        and side(*one, other[0]) * side(*one, other[1]) < 0
        and side(*other, one[0]) * side(*other, one[1]) < 0
    ]
    assert crossings == []


def test_a_large_network_has_distinct_positions() -> None:
    graph = networkx.random_regular_graph(4, 3 * LARGEST_WITH_FORCES, seed=1)
    layout = layout_of(from_networkx(graph, "large"))
    assert len(set(zip(layout.x.tolist(), layout.y.tolist(), strict=True))) == 3 * LARGEST_WITH_FORCES


def test_families_have_layouts_of_their_own() -> None:
    assert has_layout(parse_topology("star:4"))
    assert not has_layout(network("ring"))
    assert {"ring", "mesh", "torus"} <= LAYOUTS.keys()


@pytest.mark.parametrize("name", ["mesh:5", "mesh:4x6", "torus:4x6", "torus:2x3", "torus:7x2"])
def test_meshes_and_tori_are_grids(name: str) -> None:
    topology = parse_topology(name)
    layout = layout_of(topology)
    links = np.array([(one, port, other) for one, port, other, _ in topology.links()])
    one, port, other = links.T
    length = np.hypot(layout.x[one] - layout.x[other], layout.y[one] - layout.y[other])
    shapes = shapes_of(topology, one, port, other)
    wraps = np.hypot(shapes.wrap_x, shapes.wrap_y)
    assert set(wraps.tolist()) <= {0.0, 1.0}
    assert length[wraps == 0] == pytest.approx(layout.spacing)
    assert (length[wraps == 1] > 1.9 * layout.spacing).all()
    assert (wraps == 1).any() == name.startswith("torus")
    # A stub leaves the sender on the side that is away from the receiver.
    towards = (layout.x[other] - layout.x[one]) * shapes.wrap_x + (layout.y[other] - layout.y[one]) * shapes.wrap_y
    assert (towards[wraps == 1] < 0).all()


@pytest.mark.parametrize("name", ["mesh:2x3x3", "torus:4x4x4"])
def test_grids_of_three_dimensions_are_drawn_from_their_links(name: str) -> None:
    topology = parse_topology(name)
    assert layout_of(topology).x == pytest.approx(COMPUTED.place(topology).x)


# --- pictures ----------------------------------------------------------------------------------------------------------


def elements(svg: str, name: str) -> list[ET.Element]:
    return list(ET.fromstring(svg).iter(f"{{http://www.w3.org/2000/svg}}{name}"))


@pytest.mark.parametrize(
    "name", ["star:4", "hypercube:5", "ej:1+2^2", "torus:4x5", "mesh:2x3x3", "dragonfly:4,2", "slimfly:5", "ccc:3"]
)
def test_a_picture_shows_every_node_and_every_link(name: str) -> None:
    topology = parse_topology(name)
    svg = draw_network(topology)
    assert len(elements(svg, "circle")) == topology.order
    (path,) = elements(svg, "path")
    assert path.get("d", "").count("M") >= topology.link_count
    titles = [title.text for title in elements(svg, "title")]
    assert titles == [topology.title, *map(topology.label, topology.ranks())]


def test_switches_look_different() -> None:
    svg = draw_network(TableTopology("net", "abcd", [(0, 3), (1, 3), (2, 3)], switches=[3]))
    assert [circle.get("class") for circle in elements(svg, "circle")] == ["node", "node", "node", "switch"]


def test_labels_are_escaped() -> None:
    svg = draw_network(TableTopology("net", ["<b", "&amp", '"c'], [(0, 1), (1, 2)]))
    assert [title.text for title in elements(svg, "title")][1:] == ["<b", "&amp", '"c']
    assert not re.search(r"<b\b", svg)


def test_a_large_picture_has_dots_without_links() -> None:
    topology = from_networkx(networkx.cycle_graph(LARGEST_WITH_FORCES + 1), "ring")
    svg = draw_network(topology)
    assert len(elements(svg, "circle")) == topology.order
    assert elements(svg, "path") == []


def test_a_network_that_is_too_large_for_a_picture() -> None:
    with pytest.raises(ScenarioError, match=f"at most {LARGEST_PICTURE:,}"):
        draw_network(parse_topology("hypercube:40"))
