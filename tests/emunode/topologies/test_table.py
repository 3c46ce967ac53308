"""Networks given by their links: the contract of a topology, the bytes for hosts, limits, and digests."""

import struct
import tracemalloc
import zlib
from typing import Any, Self

import networkx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.errors import FrameError, ScenarioError
from emunode.testing import check_topology
from emunode.topologies.base import ABSENT
from emunode.topologies.digest import network_sha256
from emunode.topologies.table import TableTopology, label_problem
from tests.helpers.support import examples


class Table(TableTopology):
    """A table whose name leads back to it, as the conformance suite asks of every network."""

    latest: "Table"

    @classmethod
    def parse(cls, parameters: str) -> Self:
        assert isinstance(cls.latest, cls)
        return cls.latest


def table_of(graph: Any, **more: Any) -> Table:
    Table.latest = Table("net", map(str, graph), sorted(graph.edges), **more)
    return Table.latest


GRAPHS = {
    "pair": networkx.path_graph(2),
    "path": networkx.path_graph(7),
    "ring": networkx.cycle_graph(9),
    "hub": networkx.star_graph(11),
    "complete": networkx.complete_graph(6),
    "petersen": networkx.petersen_graph(),
    "karate": networkx.karate_club_graph(),
    "random": networkx.gnm_random_graph(30, 70, seed=3),
    "tree": networkx.balanced_tree(2, 3),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_table_keeps_every_promise_of_a_topology(name: str) -> None:
    topology = table_of(GRAPHS[name])
    check_topology(topology)
    graph = GRAPHS[name]
    assert topology.diameter == networkx.diameter(graph)
    assert float(topology.average_distance) == pytest.approx(networkx.average_shortest_path_length(graph))
    assert topology.bipartite == networkx.is_bipartite(graph)
    assert topology.facts()["distances"] == "breadth-first search"


def test_ports_are_neighbours_in_ascending_order() -> None:
    topology = Table("net", "abcd", [(3, 1), (2, 0), (1, 0), (0, 3)])
    assert topology.neighbours(0) == (1, 2, 3)
    assert topology.neighbours(2) == (0, ABSENT, ABSENT)
    assert list(topology.ports(3)) == [0, 1]
    assert topology.end(0, 2) == (3, 0)
    assert list(topology.ends(3)) == [(0, 0, 2), (1, 1, 1)]
    assert topology.neighbour(2, 1) == ABSENT


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_the_order_of_links_does_not_matter(data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 1000))
    links = sorted(networkx.gnm_random_graph(12, 40, seed=seed).edges)
    shuffled = [data.draw(st.permutations(link)) for link in data.draw(st.permutations(links))]
    labels = [f"n{rank}" for rank in range(12)]
    one, other = TableTopology("net", labels, links), TableTopology("net", labels, [(a, b) for a, b in shuffled])
    assert network_sha256(one) == network_sha256(other)


def test_switches() -> None:
    topology = table_of(networkx.star_graph(3), switches=[0])
    assert [topology.is_switch(rank) for rank in topology.ranks()] == [True, False, False, False]


def test_a_hub_makes_no_other_rank_expensive() -> None:
    topology = table_of(networkx.star_graph(20_000))
    assert topology.distribution_from(5) == (1, 1, 19_999)
    assert sum(len(topology.ports(rank)) for rank in topology.ranks()) == 40_000


def test_memory_of_a_large_table() -> None:
    order = 6_000
    links = [(rank, (rank + jump) % order) for rank in range(order) for jump in (1, 7, 30)]
    labels = [str(rank) for rank in range(order)]
    tracemalloc.start()
    topology = TableTopology("net", labels, links)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held / topology.link_count < 40
    assert topology.eccentricity(0) == topology.eccentricity(order // 3)


@pytest.mark.parametrize(
    ("labels", "links", "message"),
    [
        ("a", [], "it has 1 node; a network has 2 to 1,000,000 nodes"),
        ("ab", [(0, 0), (0, 1)], "self-loop at 'a'"),
        ("ab", [(0, 1), (1, 0)], "parallel links: two links join 'a' and 'b'"),
        ("ab", [(0, 2)], "undeclared node"),
        ("ab", [(-1, 0)], "undeclared node"),
        ("abcde", [(0, 1), (2, 3), (3, 4)], "disconnected: 2 components of 3, 2 nodes; no path joins 'c' and 'a'"),
        ("aba", [(0, 1), (1, 2)], "two nodes have the same label 'a'"),
        ("a~", [(0, 1)], "label '~' contains the character '~'"),
    ],
)
def test_what_is_no_network(labels: str, links: list[tuple[int, int]], message: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        TableTopology("net", labels, links)
    assert message in str(caught.value)
    assert caught.value.field == "topology"


def test_a_name_does_not_lead_to_a_table() -> None:
    with pytest.raises(ScenarioError, match="give the file"):
        TableTopology.parse("net")


def test_a_label_that_is_not_there() -> None:
    with pytest.raises(ScenarioError, match="one of 0, 1, 2, "):
        table_of(GRAPHS["path"]).rank("7")


@pytest.mark.parametrize("character", "~>@:;=# \t\n\0\x7f\u00a0\u202e\ud800")
def test_characters_that_labels_must_not_have(character: str) -> None:
    assert label_problem(f"a{character}b") is not None


@pytest.mark.parametrize("label", ["2,0,1", "0110/2", "-2,1,3", "3.1.2", "+x", "Zürich", "x" * 100, "1,-2/0,3"])
def test_characters_that_labels_may_have(label: str) -> None:
    assert label_problem(label) is None


# --- bytes for hosts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", GRAPHS)
def test_bytes_return_the_same_network(name: str) -> None:
    topology = table_of(GRAPHS[name], switches=[1])
    again = TableTopology.from_bytes(topology.to_bytes())
    assert network_sha256(again) == network_sha256(topology)
    assert (again.name, again.title, again.switches) == (topology.name, topology.title, topology.switches)
    assert again.to_bytes() == topology.to_bytes()


@given(st.data())
@settings(max_examples=examples(300), deadline=None)
def test_damaged_bytes_are_refused_or_another_network(data: st.DataObject) -> None:
    whole = TableTopology("net", [f"n{rank}" for rank in range(9)], networkx.cycle_graph(9).edges).to_bytes()
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + data.draw(st.integers(0, 4)) :]
    try:
        topology = TableTopology.from_bytes(damaged)
    except FrameError:
        return
    assert damaged == whole or topology.to_bytes() != whole


def frame(order: int, links: int, switches: int, text: bytes, *numbers: int, text_bytes: int | None = None) -> bytes:
    size = len(text) if text_bytes is None else text_bytes
    header = struct.pack("<8sIIII", b"network1", order, links, switches, size)
    return header + zlib.compress(text + struct.pack(f"<{len(numbers)}I", *numbers))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes"),
        (frame(2, 1, 0, b"net\na\nb", 0, 1)[:20], "20 bytes"),
        (frame(2**31, 1, 0, b"net\na\nb", 0, 1), "its header says 2147483648 nodes"),
        (frame(2, 2**31, 0, b"net\na\nb", 0, 1), "2147483648 links"),
        (frame(2, 1, 3, b"net\na\nb", 0, 1), "3 switches"),
        (frame(2, 1, 0, b"net\na\nb", 0, 1, text_bytes=2**31), "2147483648 bytes of labels"),
        (frame(2, 1, 0, b"net\na\nb", 0), "its header says"),
        (frame(2, 1, 0, b"net\na\nb", 0, 1, 1), "its header says"),
        (frame(2, 1, 0, b"net\na\nb" + bytes(10**7), 0, 1, text_bytes=7), "its header says"),
        (frame(2, 1, 0, b"net\na\nb", 0, 1) + b"more", "its header says"),
        (frame(3, 1, 0, b"net\na\nb", 0, 1), "it has 2 labels"),
        (frame(2, 1, 0, b"net\n\xff\nb", 0, 1), "malformed network"),
        (frame(2, 1, 0, b"net\na\nb", 0, 2), "undeclared node"),
        (frame(2, 1, 0, b"net\na\nb", 1, 1), "self-loop"),
        (frame(2, 1, 0, b"net\na\na", 0, 1), "same label"),
        (frame(2, 1, 1, b"net\na\nb", 0, 1, 5), "switch 5"),
        (b"x" * 100, "malformed network"),
    ],
)
def test_malformed_bytes(data: bytes, message: str) -> None:
    with pytest.raises(FrameError, match=message):
        TableTopology.from_bytes(data)


def test_a_small_frame_cannot_take_much_memory() -> None:
    bomb = frame(2, 1, 0, b"net\na\nb" + bytes(10**7), 0, 1, text_bytes=7)
    tracemalloc.start()
    with pytest.raises(FrameError, match="header"):
        TableTopology.from_bytes(bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10**6


# --- digests -----------------------------------------------------------------------------------------------------------


def test_a_digest_depends_on_labels_links_and_order() -> None:
    base = network_sha256(Table("net", "abc", [(0, 1), (1, 2)]))
    assert network_sha256(Table("other", "abc", [(0, 1), (1, 2)])) == base
    assert network_sha256(Table("net", "abd", [(0, 1), (1, 2)])) != base
    assert network_sha256(Table("net", "abc", [(0, 1), (0, 2)])) != base
    assert network_sha256(Table("net", "bac", [(0, 1), (0, 2)])) != base
