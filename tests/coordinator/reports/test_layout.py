"""Layouts of networks: distinct positions, links of length 1, blocks and cells."""

import numpy as np
import pytest
from numpy.typing import NDArray

from coordinator.reports.layout import cells_of, layout_of, shapes_of
from coordinator.reports.link_paths import link_paths
from emunode.topologies.registry import parse_topology, small_examples
from tests.coordinator.reports.conftest import distances_of


@pytest.mark.parametrize("name", [*small_examples(), "star:6", "hypercube:8", "ej:2+3^2", "ej:1+2^3"])
def test_nodes_do_not_overlap_and_hexagon_links_have_length_1(name: str) -> None:
    topology = parse_topology(name)
    layout = layout_of(topology)
    distance = distances_of(layout)
    links = np.array([(rank, port, other) for rank, port, other, _ in topology.links()])
    shapes = shapes_of(topology, links[:, 0], links[:, 1], links[:, 2])
    assert np.isfinite(shapes.bow).all()
    if topology.family == "ej" and "^" not in name:
        straight = shapes.wrap_x**2 + shapes.wrap_y**2 == 0
        assert distance[links[straight, 0], links[straight, 2]] == pytest.approx(layout.scale)


@pytest.mark.parametrize("name", small_examples())
def test_directions_of_a_link_are_drawn_apart(name: str) -> None:
    topology = parse_topology(name)
    layout = layout_of(topology)
    links = [*topology.links(), *((other, port, rank, _) for rank, _, other, port in topology.links())]
    senders, ports, receivers, _ = np.array(links).T
    shapes = shapes_of(topology, senders, ports, receivers)
    middles: dict[frozenset[int], list[NDArray[np.float64]]] = {}
    for *ends, path in zip(senders, receivers, link_paths(layout, shapes, senders, receivers)[0], strict=True):
        if "l" not in path:  # stubs of links that wrap around have no middle
            points = np.array(path.translate(str.maketrans("MLC", "   ")).split(), float)
            middles.setdefault(frozenset(ends), []).append(points.reshape(-1, 2).mean(axis=0))
    gaps = [np.linalg.norm(there - back) for there, back in middles.values()]
    assert min(gaps, default=np.inf) > 0.1 * layout.radius


@pytest.mark.parametrize("name", ["star:7", "star:8", "hypercube:15", "ej:3+4^3", "ej:60+61"])
def test_large_layouts_have_distinct_positions_and_few_cells(name: str) -> None:
    topology = parse_topology(name)
    layout = layout_of(topology)
    assert len(set(zip(layout.x.tolist(), layout.y.tolist(), strict=True))) == topology.order
    cells = cells_of(topology, layout, 5000)
    assert len(np.unique(cells)) <= 5000
    assert len(np.unique(cells)) > 500


def test_substars_are_drawn_as_blocks() -> None:
    topology = parse_topology("star:5")
    layout = layout_of(topology)
    for block in range(5):
        own = slice(24 * block, 24 * (block + 1))
        centre = layout.x[own].mean(), layout.y[own].mean()
        reach = np.hypot(layout.x - centre[0], layout.y - centre[1])
        assert reach[own].max() < np.delete(reach, np.r_[own]).min()
