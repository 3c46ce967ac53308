"""Collectives over the independent trees of Eisenstein-Jacobi networks: costs, redundancy, faults."""

from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coordinator.execution.run import RunResult
from emunode.algorithms.eisenstein_jacobi.independent import IndependentScatter
from emunode.algorithms.registry import make_algorithm
from emunode.errors import ScenarioError
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.eisenstein_jacobi import EisensteinJacobi
from emunode.topologies.registry import parse_topology
from tests.support import failures, run_scenario

COLLECTIVES = ("broadcast", "reduce", "scatter", "gather")
NETWORKS = ("ej:1+2", "ej:2+3", "ej:0+3", "ej:2+2", "ej:3+3", "ej:2+4", "ej:1+2^2", "ej:0+3^2", "ej:1+2^3")


def independent(topology: str, collective: str, **values: object) -> RunResult:
    spec = {"topology": topology, "collective": collective, "algorithm": "independent-trees", "message_bytes": 96}
    return run_scenario(None, **{**spec, **values})


def routing(topology: str, **values: object) -> IndependentScatter:
    spec = CollectiveSpec(topology, Collective.SCATTER, "independent-trees", 0)
    made = make_algorithm(parse_topology(topology), spec._replace(**values))  # type: ignore[arg-type]
    assert isinstance(made, IndependentScatter)
    return made


@pytest.mark.parametrize("topology", NETWORKS)
@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_collective_on_every_kind_of_network(topology: str, collective: str) -> None:
    """From a source that is not 0; nodes enforce one segment a link and step."""
    network = parse_topology(topology)
    result = independent(topology, collective, source=network.label(network.order // 2))
    assert result.verdict == "holds", failures(result)
    assert result.summary["delivery_ratio"] == 1.0
    assert result.summary["max_link_segments_per_step"] == 1


@pytest.mark.parametrize(("topology", "height"), [("ej:2+3", 4), ("ej:2+3^2", 8), ("ej:3+4", 6), ("ej:0+4", 4)])
def test_six_parts_a_dimension_arrive_in_the_height_of_the_trees(topology: str, height: int) -> None:
    for segments in (1, 3) if topology == "ej:2+3" else (1,):
        for collective in ("broadcast", "reduce"):
            summary = independent(topology, collective, segments=segments).summary
            assert summary["steps"] == height + segments - 1
            assert summary["max_link_segments"] == segments


@pytest.mark.parametrize("topology", ["ej:1+2", "ej:2+3", "ej:3+3", "ej:1+2^2"])
@pytest.mark.parametrize("collective", ["scatter", "gather"])
def test_scatter_and_gather_keep_all_root_links_busy(topology: str, collective: str) -> None:
    """N^n - 1 steps for 6n pieces, which is 6n root links, one segment each in every step."""
    network = parse_topology(topology)
    for segments in (1, 2):
        summary = independent(topology, collective, segments=segments).summary
        assert summary["steps"] == summary["max_link_segments"] == (network.order - 1) * segments


@given(
    st.sampled_from(NETWORKS[:-1]),
    st.sampled_from(["scatter", "gather"]),
    st.integers(1, 2),
    st.integers(1, 2),
    st.data(),
)
@settings(max_examples=20)
def test_any_redundancy_keeps_its_claims(
    topology: str, collective: str, messages: int, segments: int, data: st.DataObject
) -> None:
    """Also with as many crashes as the redundancy tolerates, at any step: every healthy node is served."""
    network = parse_topology(topology)
    redundancy = data.draw(st.integers(1, network.degree))
    source = data.draw(st.integers(0, network.order - 1))
    others = st.integers(0, network.order - 1).filter(lambda rank: rank != source)
    crashes = data.draw(st.dictionaries(others, st.integers(1, 40), max_size=min(redundancy - 1, 3)))
    result = independent(
        topology,
        collective,
        source=network.label(source),
        messages=messages,
        segments=segments,
        redundancy=redundancy,
        fault=tuple(f"crash:{network.label(rank)}@{step}" for rank, step in sorted(crashes.items())),
    )
    assert result.verdict == "holds", failures(result)
    assert result.summary["delivery_ratio"] == 1.0


def test_copies_take_different_trees_and_load_them_alike() -> None:
    for redundancy in (2, 3, 5):
        made = routing("ej:2+3", redundancy=redundancy, segments=2)
        ways = Counter[int]()
        for target in range(1, made.topology.order):
            copies = made.copies_of(target)
            for segment in range(made.segments_per_message):
                mine = [(route_index, number) for route_index, number, carried in copies if carried == segment]
                assert len({route_index for route_index, _ in mine}) == redundancy
                assert all(made.number(target, route_index, segment) == number for route_index, number in mine)
            ways.update(route_index for route_index, _, _ in copies)
        assert len(ways) == 6
        assert max(ways.values()) - min(ways.values()) <= 1


def test_redundancy_makes_scatter_shorter_than_one_tree_would() -> None:
    """The root links need 18 x 2 / 6 = 6 steps; one more, because the last to leave are not all for neighbours."""
    result = independent("ej:2+3", "scatter", redundancy=2)
    assert result.verdict == "holds", failures(result)
    assert result.summary["steps"] == 7


# Faults.


def test_any_two_crashes_lose_no_healthy_node() -> None:
    """EJ_{2+3rho}, redundancy 3: all 153 pairs of crashed nodes."""
    network = EisensteinJacobi(2, 3)
    for pair in combinations(range(1, network.order), 2):
        crashes = tuple(f"crash:{network.label(rank)}@1" for rank in pair)
        result = independent("ej:2+3", "broadcast", redundancy=3, fault=crashes)
        assert result.verdict == "holds", (pair, failures(result))
        assert result.summary["intact_deliveries"] == 16


@pytest.mark.parametrize("collective", ["broadcast", "scatter", "gather"])
def test_five_crashes_around_a_node_leave_it_served(collective: str) -> None:
    """All neighbours of a node but one: the sixth tree."""
    network = EisensteinJacobi(3, 4)
    victim = network.rank("2,-1")
    for spared in network.neighbours(victim):
        crashes = tuple(
            f"crash:{network.label(rank)}@1" for rank in network.neighbours(victim) if rank not in (spared, 0)
        )
        result = independent("ej:3+4", collective, redundancy=6, fault=crashes)
        assert result.verdict == "holds", failures(result)
        assert result.summary["delivery_ratio"] == 1.0


def test_the_single_tree_loses_what_the_trees_keep() -> None:
    """Mean healthy nodes lost to one crash in EJ_{2+3rho}: 0.667 with the improved broadcast, 0 with two trees."""
    network = EisensteinJacobi(2, 3)
    lost = Counter[str]()
    for rank in range(1, network.order):
        crash = (f"crash:{network.label(rank)}@1",)
        one = run_scenario(topology="ej:2+3", collective="broadcast", algorithm="improved", fault=crash)
        two = independent("ej:2+3", "broadcast", redundancy=2, fault=crash)
        for name, result in (("improved", one), ("independent-trees", two)):
            lost[name] += 17 - int(str(result.summary["intact_deliveries"]))
    assert lost["improved"] / 18 == pytest.approx(0.667, abs=5e-4)
    assert lost["independent-trees"] == 0


# Sockets and bad input.


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_same_history_over_sockets(collective: str) -> None:
    redundancy = 1 if collective == "reduce" else 2
    values = {"source": "-1,0/0,1", "redundancy": redundancy, "driver": "local"}
    sockets = independent("ej:1+2^2", collective, **values)
    assert sockets.verdict == "holds", failures(sockets)
    memory = independent("ej:1+2^2", collective, **{**values, "driver": "memory"})
    assert sockets.summary["journal_hash"] == memory.summary["journal_hash"]


@pytest.mark.parametrize(
    ("collective", "values", "field"),
    [
        ("scatter", {"redundancy": 7}, "redundancy"),
        ("gather", {"duplex": "half"}, "duplex"),
        ("reduce", {"redundancy": 2}, "redundancy"),
        ("reduce", {"duplex": "half"}, "duplex"),
        ("scatter", {"message_bytes": 5}, "message_bytes"),
        ("broadcast", {"message_bytes": 5}, "message_bytes"),
        ("broadcast", {"message_bytes": 11, "segments": 2}, "segments"),
        ("scatter", {"port_model": "one-port"}, "port_model"),
    ],
)
def test_bad_input_is_named(collective: str, values: dict[str, object], field: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        independent("ej:2+3", collective, **values)
    assert caught.value.field == field
