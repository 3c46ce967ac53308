"""Networks from files: the golden inputs, bad files of every format, networkx graphs and network.json."""

import csv
import json
import os
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import networkx
import pytest

import coordinator
from coordinator.cli.invoke import main
from coordinator.scenario.model import make_scenario
from coordinator.scenario.network_files import (
    MAX_BYTES,
    from_networkx,
    network_document,
    network_name,
    read_network,
    write_network,
)
from coordinator.scenario.network_readers import READERS
from coordinator.scenario.networks import keep_network, load_topology, network_of
from emunode.errors import ScenarioError
from emunode.topologies.digest import network_sha256
from emunode.topologies.table import TableTopology
from tests.helpers.annex_support import needs_every_annex
from tests.helpers.support import GOLDEN

WORDS = {
    "too small": "a network has 2 to 1,000,000 nodes",
    "same label": "two nodes have the same label '1'",
    "label": "contains the character ' '",
    "networkx error": "",
}
"""The message where it does not repeat the reason of the golden table."""


def golden_cases() -> list[dict[str, str]]:
    with (GOLDEN / "networks" / "networks_files.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def written(folder: Path, suffix: str, content: str | bytes) -> Path:
    path = folder / f"net.{suffix}"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def refusal(path: Path, *, relabel: bool = False) -> str:
    with pytest.raises(ScenarioError) as caught:
        read_network(path, relabel=relabel)
    assert (caught.value.field, caught.value.value) == ("topology", str(path))
    return caught.value.allowed


@pytest.mark.parametrize("case", golden_cases(), ids=lambda case: case["case"])
def test_golden_inputs(case: dict[str, str], tmp_path: Path) -> None:
    path = written(tmp_path, case["format"], json.loads(case["content_json"]))
    if case["verdict"] == "refuse":
        assert WORDS.get(case["why"], case["why"]) in refusal(path)
        return
    topology = read_network(path)
    assert topology.name == "file:net"
    assert (topology.order, topology.link_count) == (int(case["order"]), int(case["links"]))
    assert network_sha256(topology) == case["network_sha256"]


def test_all_golden_inputs_are_there() -> None:
    cases = golden_cases()
    assert len(cases) == 44
    assert {f".{case['format']}" for case in cases} == set(READERS)


# --- bad files ---------------------------------------------------------------------------------------------------------

BOMB = (
    '<?xml version="1.0"?><!DOCTYPE lolz [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>'
    '<graphml><graph><node id="&b;"/></graph></graphml>'
)
GRAPHML = '<graphml>{keys}<graph edgedefault="undirected">{body}</graph></graphml>'
PAIR = '<node id="a"/><node id="b"/><edge source="a" target="b"/>'


def graphml(body: str, keys: str = "") -> str:
    return GRAPHML.format(keys=keys, body=body)


def node_link(*ids: object, **more: object) -> str:
    links = [{"source": one, "target": other} for one, other in pairwise(ids)]
    return json.dumps({"nodes": [{"id": node} for node in ids], "edges": links, **more})


MOST_OF_NS3 = "at most 1,000,000 nodes, 2,000,000 links, and no more switches than nodes"

BAD_FILES: dict[str, tuple[str, str | bytes, str]] = {
    "entity bomb": ("graphml", BOMB, "document type declaration"),
    "external entity": ("graphml", '<!DOCTYPE x SYSTEM "file:///etc/passwd"><graphml/>', "document type declaration"),
    "truncated xml": ("graphml", graphml(PAIR)[:-20], "not XML"),
    "no graph": ("graphml", "<graphml></graphml>", "no graphs"),
    "two graphs": ("graphml", f"<graphml><graph>{PAIR}</graph><graph/></graphml>", "2 graphs"),
    "nested graph": ("graphml", graphml('<node id="a"><graph/></node>'), "inside a node"),
    "node without id": ("graphml", graphml("<node/>"), "missing id"),
    "edge without target": ("graphml", graphml('<node id="a"/><edge source="a"/>'), "missing target"),
    "undeclared key": ("graphml", graphml('<node id="a"><data key="d0">1</data></node>'), "is not declared by a key"),
    "wrong value": (
        "graphml",
        graphml('<node id="a"><data key="k">x</data></node>', '<key id="k" for="node" attr.name="n" attr.type="int"/>'),
        "'x' of the attribute 'n' is not of type int",
    ),
    "mixed directions": (
        "graphml",
        graphml(PAIR + '<edge source="b" target="a" directed="true"/>'),
        "directed and undirected",
    ),
    "unknown direction": ("graphml", graphml(PAIR).replace("undirected", "both"), "unknown edgedefault 'both'"),
    "deep xml": ("graphml", "<a>" * 100_000, "not XML"),
    "utf-16": ("graphml", graphml(PAIR).encode("utf-16"), "not UTF-8"),
    "latin-1 edges": ("edges", "a Zürich\n".encode("latin-1"), "not UTF-8 text: byte 0xfc at offset 3"),
    "latin-1 json": ("json", '{"nodes": ["ü"]}'.encode("latin-1"), "not UTF-8"),
    "script label": ("json", node_link("a", "<script>"), "'<script>' contains the character '>'"),
    "formula label": ("edges", "a =cmd\n", "'=cmd' contains the character '='"),
    "zero byte": ("edges", "a b\0c\n", "contains the character '\\x00'"),
    "right-to-left label": ("json", node_link("a", "b\u202e"), "contains the character '\\u202e'"),
    "half a surrogate pair": ("json", node_link("a", "\ud800"), "contains the character '\\ud800'"),
    "empty label": ("json", node_link("a", ""), "empty label"),
    "long label": ("edges", f"a {'b' * 101}\n", "has 101 characters; at most 100"),
    "binary gml": ("gml", bytes(range(128)), "not GML"),
    "truncated gml": ("gml", "graph [ node [ id 1 ]", "not GML"),
    "gml number": ("gml", "graph 5", "not GML"),
    "gml node number": ("gml", "graph [ node 5 ]", "not GML"),
    "gml list id": ("gml", "graph [ node [ id [ x 1 ] ] ]", "not GML"),
    "deep gml": ("gml", "a [ " * 20_000, "not GML"),
    "gml of one long line": ("gml", "graph [ ?" + "x" * 100_000, "not GML: cannot tokenize"),
    "truncated json": ("json", node_link("a", "b")[:-5], "not JSON"),
    "deep json": ("json", "[" * 200_000, "nested too deeply"),
    "json list": ("json", "[1, 2]", "no list of nodes"),
    "json nodes": ("json", '{"nodes": 5, "edges": []}', "no list of nodes"),
    "json without links": ("json", '{"nodes": []}', "one list of links"),
    "json with both links": ("json", node_link("a", "b", links=[]), "one list of links"),
    "json node": ("json", '{"nodes": [5], "edges": []}', "node 0 is not an object"),
    "json list id": (
        "json",
        '{"nodes": [{"id": [[1], 1.5]}], "edges": []}',
        "expected text or a whole number, or a list",
    ),
    "json true id": ("json", '{"nodes": [{"id": true}], "edges": []}', "expected text or a whole number"),
    "json float id": ("json", node_link(1.0, 2.0), "expected text or a whole number"),
    "json huge number": ("json", '{"nodes": [{"id": ' + "9" * 5000 + '}], "edges": []}', ""),
    "json link without target": ("json", '{"nodes": [{"id": 1}], "edges": [{"source": 1}]}', "missing target"),
    "json directed": (
        "json",
        node_link("a", "b", "a", "c", directed=True).replace('{"id": "a"}, ', "", 1),
        "the arc from 'a' to 'c' has no reverse, while 2 arcs have",
    ),
    "huge graph6": ("g6", b"~~~~~~~~", "too many for graph6"),
    "graph6 without its number": ("g6", b"~??", "ends within the number of nodes"),
    "empty graph6": ("g6", b"", "no graphs"),
    "huge sparse6": ("s6", b":~~?~~~~~", "too many"),
    "long sparse6": ("s6", b":A" + b"_" * 1_000_000, "too many"),
    "sparse6 without colon": ("s6", b"IheA@GUAo", "begins with a colon"),
    "edge list of three nodes": ("edges", "a b c\n", "line 1: expected a weight or a dictionary"),
    "edge list with code": ("edges", "a b {'x': print(1)}\n", "line 1: expected a weight"),
    "edge list with nesting": ("edges", f"a b {{'x': {'[' * 900}\n", "line 1: expected a weight"),
    "edge list with a long dictionary": ("edges", f"a b {{'x': '{'y' * 1000}'}}\n", "line 1: expected a weight"),
    "ns-3, four words": ("topo", "4 0 1 4\n", "line 1 has 4 words"),
    "ns-3, empty": ("topo", "", "line 1 has 0 words"),
    "ns-3, huge counts": ("topo", "999999999 0 999999999\n", "do not fit"),
    "ns-3, more nodes than a number names": (
        "topo",
        "1000000000 0 1\n",
        "nodes: 1000000000 is too large; at most 999,999,999",
    ),
    "ns-3, more nodes than allowed": ("topo", "999999999 0 1\n", MOST_OF_NS3),
    "ns-3, more links than allowed": ("topo", "2 0 2000001\n", MOST_OF_NS3),
    "ns-3, a huge node": ("topo", "2 0 1\n0 1000000000 1Gbps 1us 0\n", "destination: 1000000000 is too large"),
    "ns-3, no number": ("topo", "4 0 -1\n", "links: expected a whole number, found '-1'"),
    "ns-3, unicode number": ("topo", "4 0 \u0663\n", "links: expected a whole number"),
    "ns-3, switches missing": ("topo", "4 2 0\n3", "switch: expected a whole number, found 'nothing'"),
    "ns-3, switch twice": ("topo", "4 2 0\n3 3\n", "listed twice"),
    "ns-3, no such switch": ("topo", "4 1 0\n4\n", "switch 4 is not a node"),
    "ns-3, no such node": ("topo", "2 0 1\n0 2 1Gbps 1ms 0\n", "undeclared node 2"),
    "ns-3, only switches": ("topo", "2 2 1\n0 1\n0 1 1Gbps 1ms 0\n", "every node is a switch"),
    "ns-3, one word too many": ("topo", "2 0 1\n0 1 1Gbps 1ms 0 7\n", "found 6"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_are_refused(name: str, tmp_path: Path) -> None:
    suffix, content, message = BAD_FILES[name]
    assert message in refusal(written(tmp_path, suffix, content))


@pytest.mark.parametrize("suffix", [suffix.removeprefix(".") for suffix in READERS])
def test_noise_is_refused(suffix: str, tmp_path: Path) -> None:
    noise = bytes((at * at * 7 + 3 * at) % 256 for at in range(4096))
    assert refusal(written(tmp_path, suffix, noise))
    assert refusal(written(tmp_path, suffix, b""))


@pytest.mark.parametrize("suffix", [suffix.removeprefix(".") for suffix in READERS])
def test_a_file_that_ends_early_is_refused_or_another_network(suffix: str, tmp_path: Path) -> None:
    case = next(case for case in golden_cases() if case["format"] == suffix and case["verdict"] == "accept")
    content = json.loads(case["content_json"]).rstrip("\n")
    path = written(tmp_path, suffix, content)
    whole = network_sha256(read_network(path))
    assert content.isascii()
    refused = 0
    for length in reversed(range(len(content))):
        os.truncate(path, length)  # quicker than writing the file again
        try:
            part = read_network(path)
        except ScenarioError:
            refused += 1
        else:
            assert network_sha256(part) != whole
    assert refused > 0


def test_unknown_suffix(tmp_path: Path) -> None:
    message = refusal(written(tmp_path, "csv", "a,b\n"))
    assert message == "unknown suffix '.csv'; the known ones are .graphml .gml .json .g6 .s6 .edges .topo"


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "No such file" in refusal(tmp_path / "none.edges")
    (tmp_path / "folder.edges").mkdir()
    assert "Is a directory" in refusal(tmp_path / "folder.edges")
    (tmp_path / "device.edges").symlink_to("/dev/zero")
    assert "not a regular file" in refusal(tmp_path / "device.edges")
    monkeypatch.setattr("coordinator.scenario.network_files.MAX_BYTES", 1 << 20)
    assert MAX_BYTES == 1 << 28
    assert "more than 1048576 bytes" in refusal(written(tmp_path, "edges", "#" * ((1 << 20) + 1)))


def test_too_many_nodes_and_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("coordinator.scenario.declared_network.MAX_NODES", 3)
    assert "more than 3 nodes" in refusal(written(tmp_path, "edges", "a b\nb c\nc d\n"))
    monkeypatch.setattr("coordinator.scenario.declared_network.MAX_LINKS", 2)
    assert "more than 2 links" in refusal(written(tmp_path, "edges", "a b\nb c\nc a\n"))


# --- what is read ------------------------------------------------------------------------------------------------------


def test_a_byte_order_mark_is_no_part_of_a_label(tmp_path: Path) -> None:
    for suffix, content in (("edges", "a b\n"), ("json", node_link("a", "b")), ("graphml", graphml(PAIR))):
        topology = read_network(written(tmp_path, suffix, b"\xef\xbb\xbf" + content.encode()))
        assert [topology.label(rank) for rank in topology.ranks()] == ["a", "b"]


@needs_every_annex
@pytest.mark.parametrize(
    ("labels", "remark"),
    [
        (("x", "x", "y"), "2 nodes have the label 'x'"),
        (("x", "y", None), "1 have no label"),
        ((None, None, None), None),
        (("x", "y", "z"), None),
    ],
)
def test_gml_says_why_nodes_are_called_by_their_ids(
    labels: tuple[str | None, ...], remark: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nodes = " ".join(f"node [ id {7 + i} " + (f'label "{text}" ]' if text else "]") for i, text in enumerate(labels))
    path = written(tmp_path, "gml", f"graph [ {nodes} edge [ source 7 target 8 ] edge [ source 8 target 9 ] ]")
    topology = read_network(path)
    assert topology.label(0) == ("x" if remark is None and labels[0] else "7")
    expected = [] if remark is None else [f"nodes are called by their ids, since {remark}"]
    assert list(topology.remarks) == expected
    assert main(["graph", str(path)]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "by their ids" in line] == expected


def test_a_path_without_the_family_is_explained_by_its_suffix() -> None:
    for name, words in (("net.graphml", "is named file:net.graphml"), ("a/net.xyz", "unknown suffix '.xyz'")):
        with pytest.raises(ScenarioError) as caught:
            load_topology(name)
        assert words in caught.value.allowed
        assert "pancake" not in caught.value.allowed


def test_relabel_calls_nodes_by_their_ranks(tmp_path: Path) -> None:
    path = written(tmp_path, "json", node_link("New York", "<script>", "=cmd", "\ud800"))
    assert (
        "contains the character ' '; rename it, or call every node by its rank (--relabel; in Python relabel=True)"
        in refusal(path)
    )
    topology = read_network(path, relabel=True)
    assert [topology.label(rank) for rank in topology.ranks()] == ["0", "1", "2", "3"]
    assert [topology.node_attributes[rank].get("original_label") for rank in range(3)] == [
        "New York",
        "<script>",
        "=cmd",
    ]
    assert not topology.node_attributes[3]


def test_relabel_tells_ids_of_one_text_apart(tmp_path: Path) -> None:
    assert read_network(written(tmp_path, "json", node_link(1, "1")), relabel=True).link_count == 1


MERGED = [
    ([{"weight": 2}, {"weight": 3}], {"weight": 5, "merged_links": 2}),
    ([{"rate": "100Gbps", "delay": "1us"}, {"rate": "2.5Gbps", "delay": "2us"}], {"rate": "102.5Gbps", "delay": "1us"}),
    ([{"rate": "100Gbps"}, {"rate": "10Mbps"}], {"rate": None}),
    ([{"capacity": 4, "fibre": "x"}, {"kind": "y"}], {"capacity": None, "fibre": "x", "kind": "y"}),
    (
        [{"LinkSpeedRaw": 1e9}, {"LinkSpeedRaw": 10e9}, {"LinkSpeedRaw": 1}],
        {"LinkSpeedRaw": 11e9 + 1, "merged_links": 3},
    ),
    ([{"bandwidth": True}, {"bandwidth": 1}], {"bandwidth": None}),
    ([{"weight": 2**62}, {"weight": 2**62}], {"weight": None, "merged_links": 2}),
]


@pytest.mark.parametrize(("links", "expected"), MERGED)
def test_parallel_links_merge_and_their_rates_add(
    links: list[dict[str, object]], expected: dict[str, object], tmp_path: Path
) -> None:
    ends = [("a", "b"), ("b", "a"), ("a", "b")]
    edges = [{"source": one, "target": other, **values} for (one, other), values in zip(ends, links, strict=False)]
    document = {
        "nodes": [{"id": node} for node in "abc"],
        "edges": [*edges, {"source": "b", "target": "c", "weight": 7}],
    }
    path = written(tmp_path, "json", json.dumps(document))
    assert "merge them (--merge-links; in Python merge_links=True), which adds their rates" in refusal(path)
    topology = read_network(path, merge_links=True)
    assert [(one, other) for one, _, other, _ in topology.links()] == [(0, 1), (1, 2)]
    assert {name: topology.link_attributes[0, 1].get(name) for name in expected} == expected
    assert topology.link_attributes[1, 2] == {"weight": 7}
    assert topology.remarks == (f"{len(links) + 1} links are merged into 2, one for each pair of nodes",)


GML_OF_PARALLEL_LINKS = """graph [ multigraph 1 node [ id 0 ] node [ id 1 ] node [ id 2 ]
edge [ source 0 target 1 weight 2 key 0 ] edge [ source 1 target 0 weight 3 key 1 ] edge [ source 1 target 2 key 0 ] ]"""
GRAPHML_OF_PARALLEL_LINKS = """<graphml><key id="w" for="edge" attr.name="weight" attr.type="int"/>
<graph edgedefault="undirected"><node id="0"/><node id="1"/><node id="2"/>
<edge source="0" target="1"><data key="w">2</data></edge><edge source="1" target="0"><data key="w">3</data></edge>
<edge source="1" target="2"/></graph></graphml>"""


@pytest.mark.parametrize(
    ("suffix", "content"),
    [
        ("edges", "0 1 2\n1 0 3\n1 2 4\n"),
        ("topo", "3 0 3\n0 1 2 1us 0\n1 0 3 1us 0\n1 2 4 1us 0\n"),
        ("gml", GML_OF_PARALLEL_LINKS),
        ("graphml", GRAPHML_OF_PARALLEL_LINKS),
        ("s6", ":B_n\n"),
    ],
)
def test_parallel_links_merge_in_every_format(suffix: str, content: str, tmp_path: Path) -> None:
    path = written(tmp_path, suffix, content)
    assert "--merge-links" in refusal(path)
    topology = read_network(path, merge_links=True)
    attributes = topology.link_attributes[0, 1]
    assert attributes["merged_links"] == 2
    if suffix != "s6":
        assert str(attributes["rate" if suffix == "topo" else "weight"]) in ("5", "5.0")


def test_arcs_of_one_direction_merge() -> None:
    graph = networkx.MultiDiGraph()
    graph.add_weighted_edges_from([(0, 1, 2), (0, 1, 3), (1, 0, 9), (1, 2, 4), (2, 1, 4)])
    topology = from_networkx(graph, merge_links=True)
    assert topology.link_count == 2
    assert topology.link_attributes == {(0, 1): {"weight": 5, "merged_links": 2}, (1, 2): {"weight": 4}}
    assert topology.remarks == ("5 arcs are merged into 4, one for each pair of nodes",)
    assert coordinator.network(graph, merge_links=True).topology.link_count == 2


def test_a_scenario_merges_links(tmp_path: Path) -> None:
    path = written(tmp_path, "edges", "a b\na b\nb c\n")
    scenario = make_scenario(
        {"topology": f"file:{path}", "collective": "broadcast", "algorithm": "flood", "merge_links": True}
    )
    topology = network_of(scenario)
    assert topology.link_count == 2
    kept = keep_network(topology, tmp_path)
    assert kept["merge_links"] is False


def test_attributes_are_kept_as_data(tmp_path: Path) -> None:
    document = {
        "nodes": [{"id": "a", "rack": 3, "where": {"nested": 1}}, {"id": "b", "load": float("inf")}],
        "edges": [{"source": "b", "target": "a", "rate": 2.5, "up": True}],
    }
    topology = read_network(written(tmp_path, "json", json.dumps(document)))
    assert topology.node_attributes == {0: {"rack": 3}}
    assert topology.link_attributes == {(0, 1): {"rate": 2.5, "up": True}}


def test_attributes_of_graphml_have_types_and_defaults(tmp_path: Path) -> None:
    keys = (
        '<key id="k0" for="node" attr.name="rack" attr.type="int"><default>7</default></key>'
        '<key id="k1" for="edge" attr.name="rate" attr.type="double"/>'
        '<key id="k2" for="edge" attr.name="up" attr.type="boolean"/>'
    )
    data = '<data key="k1">2.5</data><data key="k2">true</data>'
    nodes = '<node id="a"><data key="k0">1</data></node><node id="b"/>'
    topology = read_network(
        written(tmp_path, "graphml", graphml(f'<edge source="a" target="b">{data}</edge>{nodes}', keys))
    )
    assert topology.node_attributes == {0: {"rack": 1}, 1: {"rack": 7}}
    assert topology.link_attributes == {(0, 1): {"rate": 2.5, "up": True}}


def test_attributes_of_ns3_and_edge_lists(tmp_path: Path) -> None:
    topology = read_network(written(tmp_path, "topo", "2 0 1\n\n1 0 200Gbps 0.005ms 0\n"))
    assert topology.link_attributes == {(0, 1): {"rate": "200Gbps", "delay": "0.005ms", "error_rate": "0"}}
    topology = read_network(written(tmp_path, "edges", "% sym\na b 2.5\nb c {'rate': 3}  # core\n"))
    assert topology.link_attributes == {(0, 1): {"weight": 2.5}, (1, 2): {"rate": 3}}


def test_switches_of_ns3(tmp_path: Path) -> None:
    text = "5 2 1 1 4 A100\n3 4\n" + "".join(f"{a} {b} 1Gbps 1ms 0\n" for a, b in ((0, 3), (1, 3), (2, 4), (3, 4)))
    topology = read_network(written(tmp_path, "topo", text))
    assert [rank for rank in topology.ranks() if topology.is_switch(rank)] == [3, 4]
    again = read_network(written(tmp_path, "topo", text.replace("A100", "A100 8")))
    assert again.switches == topology.switches


def test_a_file_name_becomes_a_name(tmp_path: Path) -> None:
    path = tmp_path / "my <net> v1.2.edges"
    path.write_text("a b\n")
    assert read_network(path).name == "file:my-net-v1.2"
    assert network_name("..") == "network"
    assert network_name("ü" * 9) == "network"
    assert len(network_name("x" * 500)) == 60


# --- networkx ----------------------------------------------------------------------------------------------------------

WRITERS: dict[str, Callable[[Any, str], None]] = {
    "graphml": networkx.write_graphml_xml,
    "gml": networkx.write_gml,
    "g6": networkx.write_graph6,
    "s6": networkx.write_sparse6,
    "edges": networkx.write_edgelist,
}


@pytest.mark.parametrize("suffix", [*WRITERS, "json"])
@pytest.mark.parametrize("seed", range(6))
def test_files_of_networkx_are_read_as_it_reads_them(suffix: str, seed: int, tmp_path: Path) -> None:
    order = (2, 7, 30, 64, 65, 120)[seed]
    graph = networkx.gnm_random_graph(order, 3 * order, seed=seed) if seed else networkx.path_graph(2)
    assert networkx.is_connected(graph)
    path = tmp_path / f"net.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps(networkx.node_link_data(graph, edges="edges")))
    else:
        WRITERS[suffix](graph, str(path))
    topology = read_network(path)
    links = {frozenset((topology.label(one), topology.label(other))) for one, _, other, _ in topology.links()}
    assert links == {frozenset((str(one), str(other))) for one, other in graph.edges}
    if suffix != "edges":  # its ranks are in the order of appearance
        assert network_sha256(topology) == network_sha256(from_networkx(graph))


def test_a_networkx_graph_is_a_network() -> None:
    topology = from_networkx(networkx.karate_club_graph(), "karate")
    assert (topology.name, topology.order, topology.link_count) == ("file:karate", 34, 78)
    assert topology.node_attributes[0] == {"club": "Mr. Hi"}
    assert topology.link_attributes[0, 1] == {"weight": 4}


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        (networkx.MultiGraph([(0, 1), (1, 0)]), "parallel links"),
        (networkx.Graph([(0, 1), (1, 1)]), "self-loop at '1'"),
        (networkx.DiGraph([(0, 1), (1, 0), (1, 2)]), "has no reverse"),
        (networkx.MultiDiGraph([(0, 1), (0, 1), (1, 0)]), "parallel links"),
        (networkx.Graph([("a", "b"), ("c", "d"), ("d", "e")]), "components of 3, 2 nodes; no path joins 'c' and 'a'"),
        (networkx.Graph([(1, "1")]), "same label"),
        (networkx.Graph([((0, 1), (0, 2))]), "contains the character ' '"),
        (networkx.empty_graph(1), "1 node"),
    ],
)
def test_bad_graphs_are_refused(graph: Any, message: str) -> None:
    with pytest.raises(ScenarioError, match="topology") as caught:
        from_networkx(graph, "bad")
    assert message in caught.value.allowed
    assert caught.value.value == "file:bad"


# Each format writes the same names: tuples as text, or in JSON as lists.
@pytest.mark.parametrize("suffix", ["graphml", "gml", "json", "edges", "python"])
@pytest.mark.parametrize("nested", [False, True])
def test_names_that_are_tuples_are_read_by_every_reader(suffix: str, nested: bool, tmp_path: Path) -> None:
    graph = networkx.hypercube_graph(3)
    if nested:  # as `networkx.cartesian_product` calls nodes, with brackets and blanks within texts
        graph = networkx.relabel_nodes(graph, {node: (node, f"({node[0]} ") for node in graph})
    path = tmp_path / f"net.{suffix}"

    def read(relabel: bool) -> TableTopology:
        return from_networkx(graph, relabel=relabel) if suffix == "python" else read_network(path, relabel=relabel)

    if suffix == "json":
        path.write_text(json.dumps(networkx.node_link_data(graph)))
    elif suffix == "gml":
        networkx.write_gml(graph, path, stringizer=str)
    elif suffix != "python":
        WRITERS[suffix](graph, str(path))

    def written_as(name: object) -> str:  # networkx leaves out blanks in GML
        return str(name).replace(" ", "") if suffix == "gml" else str(name)

    topology = read(True)
    names = [written_as(topology.node_attributes[rank]["original_label"]) for rank in topology.ranks()]
    links = {frozenset((names[one], names[other])) for one, _, other, _ in topology.links()}
    assert links == {frozenset((written_as(one), written_as(other))) for one, other in graph.edges}
    assert [topology.label(rank) for rank in topology.ranks()] == list("01234567")
    if suffix == "gml" and not nested:
        assert read(False).label(0) == "(0,0,0)"
        return
    with pytest.raises(ScenarioError, match=r"contains the character ' '; rename it, or call .* its rank .--relabel"):
        read(False)


@pytest.mark.parametrize(
    ("line", "names", "rate"),
    [
        ("(0,1) (1,1) 2.5", ["(0,1)", "(1,1)"], 2.5),
        ("(x) (y", ["(x)", "(y"], None),
        ("() a)b", ["()", "a)b"], None),
        ("(a)b c 3", ["(a)b", "c"], 3),
    ],
)
def test_parentheses_without_blanks_are_names(line: str, names: list[str], rate: float | None, tmp_path: Path) -> None:
    topology = read_network(written(tmp_path, "edges", line))
    assert [topology.label(rank) for rank in topology.ranks()] == names
    assert topology.link_attributes == ({} if rate is None else {(0, 1): {"weight": rate}})


def drawn(*names: str) -> str:
    """Return a path as yEd saves it: arcs by default, names in the drawing only."""
    shape = (
        '<node id="n{}"><data key="d5"/><data key="d6"><y:ShapeNode><y:Geometry x="0"/><y:NodeLabel x="1">{}'
        "<y:LabelModel/></y:NodeLabel></y:ShapeNode></data></node>"
    )
    edges = "".join(f'<edge id="e{i}" source="n{i}" target="n{i + 1}"/>' for i in range(len(names) - 1))
    nodes = "".join(shape.format(*pair) for pair in enumerate(names))
    return (
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:y="http://www.yworks.com/xml/graphml">'
        '<key attr.name="description" attr.type="string" for="node" id="d5"/>'
        '<key for="node" id="d6" yfiles.type="nodegraphics"/>'
        f'<graph edgedefault="directed" id="G">{nodes}{edges}</graph></graphml>'
    )


ONE_WAY = "the graph is directed, but no arc has a reverse: links are taken as undirected"


@pytest.mark.parametrize(
    ("names", "labels", "remarks"),
    [
        (["core", "edge", "host"], ["core", "edge", "host"], [ONE_WAY]),
        (["core", "edge", "core"], ["n0", "n1", "n2"], ["by their ids, since 2 nodes have the label 'core'", ONE_WAY]),
        (["core", "", "host"], ["n0", "n1", "n2"], ["nodes are called by their ids, since 1 have no label", ONE_WAY]),
        (["", "", ""], ["n0", "n1", "n2"], [ONE_WAY]),
    ],
)
def test_drawings_of_yed(names: list[str], labels: list[str], remarks: list[str], tmp_path: Path) -> None:
    path = written(tmp_path, "graphml", drawn(*names))
    topology = read_network(path)
    assert [topology.label(rank) for rank in topology.ranks()] == labels
    assert [(one, other) for one, _, other, _ in topology.links()] == [(0, 1), (1, 2)]
    assert [wanted in remark for wanted, remark in zip(remarks, topology.remarks, strict=True)] == [True] * len(remarks)
    # networkx ignores the drawing, and agrees on nodes and arcs.
    assert list(networkx.read_graphml(path).edges) == [("n0", "n1"), ("n1", "n2")]


@pytest.mark.parametrize("suffix", ["graphml", "gml"])
def test_labels_of_the_topology_zoo_are_names(suffix: str, tmp_path: Path) -> None:
    graph = networkx.Graph([(0, 1), (1, 2)], Network="Zoo")
    networkx.set_node_attributes(graph, {0: "Bern", 1: "Genf", 2: "Chur"}, "label")
    path = tmp_path / f"zoo.{suffix}"
    # The writer of GML takes labels from the nodes themselves.
    WRITERS[suffix](
        networkx.relabel_nodes(graph, dict(graph.nodes(data="label"))) if suffix == "gml" else graph, str(path)
    )
    topology = read_network(path)
    assert [topology.label(rank) for rank in topology.ranks()] == ["Bern", "Genf", "Chur"]


@pytest.mark.parametrize("suffix", ["graphml", "gml", "json", "python"])
@pytest.mark.parametrize(
    ("arcs", "links", "words"),
    [
        ([(0, 1), (1, 2), (2, 0)], 3, ONE_WAY),
        ([(0, 1), (1, 0), (1, 2), (2, 1)], 2, None),
        ([(0, 1), (1, 0), (1, 2)], None, "the arc from '1' to '2' has no reverse, while 2 arcs have"),
        ([(0, 1), (1, 2), (2, 2)], None, "self-loop at '2'"),
    ],
)
def test_directed_graphs_are_read_alike(
    suffix: str, arcs: list[tuple[int, int]], links: int | None, words: str | None, tmp_path: Path
) -> None:
    graph: Any = networkx.DiGraph(arcs)
    path = tmp_path / f"net.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps(networkx.node_link_data(graph)))
    elif suffix != "python":
        WRITERS[suffix](graph, str(path))

    def read() -> TableTopology:
        return from_networkx(graph) if suffix == "python" else read_network(path)

    if links is None:
        with pytest.raises(ScenarioError) as caught:
            read()
        assert str(words) in caught.value.allowed
        return
    topology = read()
    assert topology.link_count == links == graph.to_undirected().number_of_edges()
    assert list(topology.remarks) == ([words] if words else [])


# --- network.json ------------------------------------------------------------------------------------------------------


@pytest.fixture
def network(tmp_path: Path) -> TableTopology:
    text = "4 1 3\n3\n" + "".join(f"{host} 3 1Gbps 1ms 0\n" for host in range(3))
    return read_network(written(tmp_path, "topo", text))


def test_network_json_returns_the_same_network(network: TableTopology, tmp_path: Path) -> None:
    path = tmp_path / "network.json"
    write_network(path, network)
    again = read_network(path)
    assert network_document(again) == network_document(network)
    assert (again.name, again.switches) == ("file:net", frozenset({3}))
    assert again.link_attributes[0, 3] == {"rate": "1Gbps", "delay": "1ms", "error_rate": "0"}


def test_network_json_is_canonical(tmp_path: Path) -> None:
    one = from_networkx(networkx.cycle_graph(5), "ring")
    other = TableTopology("ring", map(str, range(5)), [(4, 3), (2, 3), (0, 4), (2, 1), (1, 0)])
    for name, topology in (("one", one), ("other", other)):
        write_network(tmp_path / name, topology)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "other").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"links": [[0, 3], [1, 3], [1, 2]]}, "digest mismatch"),
        ({"labels": ["0", "1", "3", "2"]}, "digest mismatch"),
        ({"sha256": "0" * 64}, "digest mismatch"),
        ({"links": [[0, 3], [1, 3]]}, "disconnected"),
        ({"links": [[0, True], [1, 3], [2, 3]]}, "expected int, found True"),
        ({"links": 5}, "malformed"),
        ({"labels": [0, 1, 2, 3]}, "expected str, found 0"),
        ({"switches": [9]}, "switch 9 is not a node"),
        ({"node_attributes": [[0, {"a": [1]}]]}, "expected attributes"),
        ({"format": "network 2"}, "it has no list of nodes under 'nodes' (node-link JSON)"),
    ],
)
def test_a_changed_network_json_is_refused(
    change: dict[str, object], message: str, network: TableTopology, tmp_path: Path
) -> None:
    path = tmp_path / "network.json"
    path.write_text(json.dumps({**network_document(network), **change}))
    with pytest.raises(ScenarioError) as caught:
        read_network(path)
    assert message in caught.value.allowed
