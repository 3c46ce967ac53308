"""Networks as objects: identity, links, graphs, labels that are numbers."""

from pathlib import Path
from typing import Any

import networkx
import numpy as np
import polars as pl
import pytest

import coordinator as tb
import emunode
from coordinator import aio


def test_equal_networks_are_equal_and_hash_alike() -> None:
    graph = networkx.petersen_graph()
    assert tb.network("star:4") == tb.network("star:4") != tb.network("star:5")
    assert tb.network("EJ:3+4") == tb.network("ej:3+4")
    assert tb.network(graph, name="p") == tb.network(graph, name="p")
    assert tb.network(graph, name="p") != tb.network(graph, name="q")
    assert tb.network(graph, name="p") != tb.network(networkx.cycle_graph(10), name="p")
    assert len({tb.network("star:4"), tb.network("star:4"), aio.network("star:4")}) == 1
    assert tb.network("star:4") != "star:4"


def test_a_plug_in_is_part_of_the_identity(tmp_path: Path) -> None:
    text = Path("docs/extend/topology.md").read_text().partition("```python")[2].partition("```")[0]
    plugin = tmp_path / "mine.py"
    plugin.write_text(text)
    assert tb.network("star:4", plugin=str(plugin)) != tb.network("star:4")


@pytest.mark.parametrize("name", ["star:4", "mesh:3x4", "fat-tree:4", "hypercube:3"])
def test_edges_and_graph_are_the_links_of_the_network(name: str) -> None:
    net = tb.network(name)
    graph = net.to_networkx()
    topology = net.topology
    labels = net.labels
    expected = {
        frozenset((labels[rank], labels[other])) for rank in topology.ranks() for _, other in topology.adjacent(rank)
    }
    assert {frozenset(edge) for edge in net.edges} == expected == {frozenset(edge) for edge in graph.edges}
    assert len(net.edges) == len(expected)
    assert [graph.nodes[label]["rank"] for label in labels] == list(topology.ranks())
    assert {label for label in graph if graph.nodes[label].get("switch")} == {
        label for rank, label in enumerate(labels) if topology.is_switch(rank)
    }
    for one, other in net.edges:
        port, its_port = graph.edges[one, other]["ports"]
        ranks = graph.nodes[one]["rank"], graph.nodes[other]["rank"]
        assert topology.end(ranks[0], port) == (ranks[1], its_port)


def test_a_graph_comes_back_as_the_same_network() -> None:
    graph = networkx.Graph(name="rack")
    graph.add_edge("a", "b", rate=10)
    graph.add_node("s", switch=True)
    graph.add_edge("b", "s")
    net = tb.network(graph)
    back = net.to_networkx()
    assert tb.network(back) == net
    assert back.edges["a", "b"]["rate"] == 10
    assert back.nodes["s"]["switch"] is True


def test_labels_may_be_whole_numbers() -> None:
    net = tb.network(networkx.petersen_graph(), name="petersen")
    assert net.broadcast("flood", source=3).summary["source"] == "3"
    numbers: dict[str, Any] = {"source": np.int64(3), "target": 7}
    assert net.unicast("minimal", **numbers).scenario["target"] == "7"
    assert (
        tb.network("star:4")
        .broadcast("flood", source=3142)
        .journal.equals(tb.network("star:4").broadcast("flood", source="3142").journal)
    )
    with pytest.raises(tb.ScenarioError, match="source"):
        net.broadcast("flood", source=True)


def test_the_version_is_that_of_the_package() -> None:
    assert tb.__version__ == emunode.__version__


def test_verdicts_have_one_type_and_read_as_text() -> None:
    net = tb.network("star:4")
    run = net.broadcast("edt", redundancy=2)
    campaign = tb.campaign(net, "broadcast", "edt", redundancy=2, faults="nodes=1", trials=3)
    certificate = tb.certify(net, "broadcast", "edt", redundancy=2, faults="nodes<=1")
    sweep = tb.sweep("star:3..4", "broadcast", "flood")
    for each in (run, campaign, certificate, sweep):
        assert type(each.verdict) is tb.Verdict
        assert (each.verdict, repr(each.verdict), f"{each.verdict}") == ("holds", "'holds'", "holds")
    assert "holds" in repr(run)


# --- rows and panels -------------------------------------------------------------------------------------------------


def test_a_row_is_flat_and_rows_make_a_table() -> None:
    net = tb.network("star:4")
    runs = [
        net.broadcast("edt", redundancy=3, faults=["crash:4231@2", "crash:3214@3"], startup="2ms"),
        net.broadcast("flood", clock="timed"),
        net.broadcast("greedy-tree", faults="crash:1234@1"),
    ]
    for run in runs:
        row = run.row()
        assert all(isinstance(value, str | int | float | bool | None) for value in row.values())
        assert {key: row[key] for key in ("steps", "segments", "verdict")} == {
            key: run.summary[key] for key in ("steps", "segments", "verdict")
        }
    table = pl.DataFrame([run.row() for run in runs], infer_schema_length=None)
    assert table["faults"].to_list() == ["crash:4231@2, crash:3214@3", "", "crash:1234@1"]
    assert table["startup"].to_list() == [0.002, 0.001, 0.001]
    assert table["verdict"].to_list() == ["holds", "holds", "undecided"]


def test_a_row_names_the_claims_that_are_violated(tmp_path: Path) -> None:
    run = tb.network("ej:1+2^2").allgather("three-phase-printed")
    violated = set(run.claims.filter(verdict="violated")["name"])
    assert violated
    assert set(str(run.row()["violated"]).split(", ")) == violated
    stored = tb.Run.read(run.save(tmp_path / "run"))
    times = ("name", "wall_seconds", "setup_seconds")
    assert {**stored.row(), **dict.fromkeys(times)} == {**run.row(), **dict.fromkeys(times)}


def test_one_panel_is_a_page_with_its_charts_as_pictures(tmp_path: Path) -> None:
    run = tb.network("star:4").broadcast("edt", redundancy=3, faults="crash:4231@2")
    panel = run.panel("steps")
    assert "delivered after each step" in panel.html
    assert "Busiest links" not in panel.html
    titles = [picture.title for picture in panel.pictures]
    assert "nodes that send" in titles
    assert len(titles) == len(set(titles))  # the forms for small screens are left out
    (sends,) = [picture for picture in panel.pictures if picture.title == "nodes that send"]
    assert sends.save(tmp_path / "sends.svg").read_text().startswith("<svg ")
    assert 'xmlns="http://www.w3.org/2000/svg"' in sends.svg
    assert "var(--" not in sends.svg
    assert {"network", "claims", "faults", "steps", "links"} <= set(run.panels)
    assert all(run.panel(name).html for name in run.panels)


def test_a_panel_that_is_not_there_is_refused() -> None:
    run = tb.network("star:4").broadcast("flood")
    with pytest.raises(tb.ScenarioError, match="invalid panel 'stepz': expected one of: tiles, network"):
        run.panel("stepz")
    with pytest.raises(tb.ScenarioError, match="invalid panel 'faults': it has nothing to show of this run"):
        run.panel("faults")
