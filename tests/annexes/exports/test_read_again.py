"""Networks that are written as GraphML, and read again."""

from pathlib import Path

import pytest

from coordinator.annexes.exports.graph_formats import graphml_of_plan
from coordinator.reports.pictures import write_lines
from coordinator.scenario.network_files import read_network
from emunode.topologies.registry import parse_topology


@pytest.mark.parametrize("name", ["star:4", "hypercube:4", "ej:1+2", "ej:2+3"])
def test_a_family_written_to_a_file_comes_back(name: str, tmp_path: Path) -> None:
    topology = parse_topology(name)
    write_lines(tmp_path / "net.graphml", graphml_of_plan(name, "broadcast", None, None), "graphml")
    table = read_network(tmp_path / "net.graphml")
    assert [table.label(rank) for rank in table.ranks()] == [topology.label(rank) for rank in topology.ranks()]
    for rank in topology.ranks():
        assert list(table.neighbour_list(rank)) == sorted(topology.neighbours(rank))
