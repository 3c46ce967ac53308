"""Layouts of networks: distinct positions, links of length 1, blocks and cells."""

import numpy as np
import pytest

from coordinator.reports.layout import cells_of, layout_of, shapes_of
from emunode.topologies.registry import parse_topology, small_examples


@pytest.mark.parametrize("name", [*small_examples(), "star:6", "hypercube:8", "ej:2+3^2", "ej:1+2^3"])
def test_nodes_do_not_overlap_and_hexagon_links_have_length_1(name: str) -> None:
    topology = parse_topology(name)
    layout = layout_of(topology)
    for positions, size in ((layout.x, 1000), (layout.y, layout.height)):
        assert np.isfinite(positions).all()
        assert layout.radius < positions.min()
        assert positions.max() < size - layout.radius
    distance = np.hypot(layout.x[:, None] - layout.x, layout.y[:, None] - layout.y)
    np.fill_diagonal(distance, np.inf)
    assert distance.min() >= 0.999 * layout.spacing
    assert distance.min() > 2 * layout.radius
    links = np.array([(rank, port, other) for rank, port, other, _ in topology.links()])
    shapes = shapes_of(topology, links[:, 0], links[:, 1], links[:, 2])
    assert np.isfinite(shapes.bow).all()
    if topology.family == "ej" and "^" not in name:
        straight = shapes.wrap_x**2 + shapes.wrap_y**2 == 0
        assert distance[links[straight, 0], links[straight, 2]] == pytest.approx(layout.scale)


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
