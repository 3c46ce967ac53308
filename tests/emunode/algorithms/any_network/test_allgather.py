"""Breadth-first broadcast: loads against golden numbers and enumeration, schedules, faults, refusals."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emunode.algorithms.any_network import last_hops
from emunode.algorithms.any_network.last_hops import least_load, phases, ports_of, share_out
from emunode.algorithms.base import Algorithm
from emunode.algorithms.conformance import check_claims, execute, measure
from emunode.algorithms.registry import find_algorithm, make_algorithm
from emunode.model import Collective, CollectiveSpec
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from tests.helpers.any_network_support import connected_graphs, golden_network, network_of_graph
from tests.helpers.support import examples, failures, golden_rows, run_scenario

CASES = golden_rows("any", "bfb")
STEPS = golden_rows("any", "allgather-steps")
CHUNKS = (1, 2, 3)


def network(row: Mapping[str, str]) -> Topology:
    return parse_topology(row["topology"]) if row["topology"] else golden_network(row["graph"])


def allgather(topology: Topology, name: str = "bfb", **values: object) -> Algorithm:
    spec = CollectiveSpec(topology.name, Collective.ALLGATHER, name, 0)
    return make_algorithm(topology, spec._replace(**values))  # type: ignore[arg-type]


# Loads.


@pytest.mark.parametrize("row", CASES, ids=lambda row: row["graph"])
def test_loads_of_every_phase(row: dict[str, str]) -> None:
    found = phases(network(row))
    assert list(map(str, found.loads)) == row["loads"].split()
    assert (len(found.loads), str(found.transfer)) == (int(row["T_L"]), row["T_B"])
    assert found.whole_chunks == int(row["chunks"])
    assert found.steps(1) == int(row["phased_steps_one_chunk"])
    assert found.steps(found.whole_chunks) == found.whole_chunks * found.transfer
    assert found.transfer >= Fraction(row["inverse_rate_optimum"] or row["degree_bound"])


@pytest.mark.parametrize("row", STEPS, ids=lambda row: f"{row['graph']}-{row['chunks']}")
def test_steps_and_bound(row: dict[str, str]) -> None:
    found, chunks = phases(golden_network(row["graph"])), int(row["chunks"])
    assert found.steps(chunks) == int(row["bfb_phased"])
    if row["bound_from"] != "cut":
        assert found.least_steps(chunks) == int(row["bound"])


def test_all_families_that_the_papers_study_meet_both_bounds() -> None:
    for name in ("star:6", "hypercube:9", "ej:3+4", "ej:1+2^3", "gaussian:4+5", "torus:5x5x5"):
        topology = parse_topology(name)
        loads = phases(topology).loads
        assert len(loads) == topology.diameter
        assert sum(loads) == Fraction(topology.order - 1, topology.degree)


def enumerated(classes: Mapping[int, Sequence[int]]) -> int:
    """Return the least load of the busiest port over all ways to choose a port for every block."""
    choices = [ports_of(mask) for mask, ranks in classes.items() for _ in ranks]
    return min((max(map(way.count, way)) for way in product(*choices)), default=0)


def test_every_connected_graph_of_at_most_six_nodes() -> None:
    seen: dict[str, int] = {}
    for graph in connected_graphs(6):
        topology = network_of_graph(graph)
        for receiver in topology.ranks():
            for classes in last_hops.last_hops(topology, receiver):
                key = str({mask: len(ranks) for mask, ranks in classes.items()})
                if key not in seen:
                    seen[key] = enumerated(classes)
                load = least_load(frozenset((mask, len(ranks)) for mask, ranks in classes.items()))
                assert ceil(load) == seen[key]
                for chunks in CHUNKS:
                    assert max(map(len, share_out(classes, chunks).values())) == ceil(chunks * load)
    assert len(seen) > 50


classes_of_blocks = st.dictionaries(st.integers(1, 63), st.integers(1, 9), min_size=1, max_size=8)


@given(classes=classes_of_blocks, chunks=st.integers(1, 4))
@settings(deadline=None, max_examples=examples(60))
def test_least_load_three_ways(classes: dict[int, int], chunks: int) -> None:
    counted = frozenset(classes.items())
    ports = sorted({port for mask in classes for port in ports_of(mask)})
    load = least_load(counted)
    assert load == last_hops._over_all_sets(counted, ports) == last_hops._by_cuts(counted, ports)
    dealt = share_out({mask: range(100 * mask, 100 * mask + count) for mask, count in classes.items()}, chunks)
    assert max(map(len, dealt.values())) == ceil(chunks * load)
    assert sum(map(len, dealt.values())) == chunks * sum(classes.values())
    for port, items in dealt.items():
        assert all(rank // 100 >> port & 1 for rank, _ in items)


# Schedules.


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("row", STEPS, ids=lambda row: f"{row['graph']}-{row['chunks']}")
def test_schedules_keep_their_claims(row: dict[str, str]) -> None:
    for name in ("bfb", "bfb-packed"):
        algorithm = allgather(golden_network(row["graph"]), name, segments=int(row["chunks"]))
        found = measure(algorithm, execute(algorithm))
        check_claims(algorithm, found)
        assert found["steps"] == (int(row["bfb_phased"]) if name == "bfb" else algorithm.topology.diameter)
        assert found["duplicates"] == 0


def test_schedules_of_small_graphs_keep_their_claims() -> None:
    for graph in connected_graphs(5):
        algorithm = allgather(network_of_graph(graph), segments=2)
        check_claims(algorithm, measure(algorithm, execute(algorithm)))


@pytest.mark.parametrize(("name", "segments", "steps"), [("star:4", 3, 23), ("hypercube:4", 4, 15), ("ccc:3", 3, 28)])
def test_automatic_segments_are_chosen_by_the_cost(name: str, segments: int, steps: int) -> None:
    whole = run_scenario(
        topology=name,
        collective="allgather",
        algorithm="bfb",
        segments="auto",
        startup="0s",
        message_bytes=12 * segments,
    )
    assert (whole.summary["steps"], failures(whole)) == (steps, [])
    short = run_scenario(
        topology=name,
        collective="allgather",
        algorithm="bfb",
        segments="auto",
        startup="1s",
        message_bytes=12 * segments,
    )
    assert short.summary["steps"] == phases(parse_topology(name)).steps(1)


def test_a_packet_per_phase_meets_both_bounds() -> None:
    result = run_scenario(
        topology="star:5", collective="allgather", algorithm="bfb-packed", segments="auto", message_bytes=64
    )
    assert failures(result) == []
    assert (result.summary["startups"], result.summary["transfer_bytes"]) == (6, 64 * 119 // 4)


def test_one_port_is_optimal_with_translations_only() -> None:
    result = run_scenario(topology="star:4", collective="allgather", algorithm="bfb", port_model="one-port", messages=2)
    assert (result.summary["steps"], failures(result)) == (46, [])


def test_switches_receive_only_what_they_pass_on() -> None:
    topology = parse_topology("fat-tree:4")
    algorithm = allgather(topology)
    history = execute(algorithm)
    passed_on = {(hop.sender, hop.segment[0]) for hop in history}
    received = [(hop.receiver, hop.segment[0]) for hop in history if topology.is_switch(hop.receiver)]
    assert received
    assert set(received) <= passed_on
    check_claims(algorithm, measure(algorithm, history))


# Backwards, and both ways.


def test_segments_auto_of_an_allreduce_fit_its_second_phase() -> None:
    topology = parse_topology("ccc:3")
    specs = [
        CollectiveSpec("ccc:3", Collective(each), "bfb", 0, message_bytes=720) for each in ("allreduce", "allgather")
    ]
    best = [find_algorithm(topology, spec).auto_segments(topology, spec, 1e-6, 1e-3) for spec in specs]
    assert best[0] == best[1] > 1
