"""Lists of networks, algorithms and faults, and the algorithms that can run on a network."""

from contextlib import suppress
from itertools import product

import networkx
import pytest

import coordinator as tb
from coordinator.api.lists import accepted, is_tried, runnable
from emunode.algorithms.registry import algorithms, registered
from emunode.errors import ScenarioError
from emunode.model import Collective
from emunode.topologies.base import FAMILIES
from emunode.topologies.registry import parse_topology
from tests.helpers.command_line import Call
from tests.helpers.scenarios import Case


def test_the_lists_are_frames_with_a_row_for_each_entry() -> None:
    assert tb.topologies()["family"].to_list() == [family for family in FAMILIES if family != "file"]
    every = tb.algorithms()
    assert set(every.rows(named=True)[0]) == {
        "topology", "collective", "algorithm", "port_models", "duplexes", "schedule", "citation",
    }  # fmt: skip
    assert len(every) == len(dict.fromkeys(entry for _, entry in registered()))
    (flood,) = every.filter(algorithm="flood").rows(named=True)
    assert (flood["port_models"], flood["duplexes"]) == (["all-port"], ["full", "half"])
    assert {"fault", "block", "strategy"} == set(tb.faults()["use"])
    assert "crash" in tb.faults().filter(use="fault")["kind"]


@pytest.mark.parametrize("topology", ["mesh:3x3", "mesh:3x4", "star:4", "dragonfly:2,1", "fat-tree:4"])
def test_exactly_the_listed_algorithms_can_be_planned(topology: str, monkeypatch: pytest.MonkeyPatch) -> None:
    network = parse_topology(topology)
    # A network remembers the search for a Hamiltonian cycle.
    monkeypatch.setattr("coordinator.planning.plan.network_of", lambda _: network)
    listed = {(entry.collective, entry.name) for entry in runnable(network)}
    planned = set()
    for collective in Collective:
        for name, entry in algorithms(network.family, collective).items():
            for port_model, messages, duplex in product(entry.port_models, (1, network.degree), entry.duplexes):
                values = {
                    "topology": topology, "collective": collective, "algorithm": name, "port_model": port_model,
                    "messages": messages, "message_bytes": 100 * network.order, "duplex": duplex,
                }  # fmt: skip
                with suppress(ScenarioError):
                    _ = Case(values).plan
                    planned.add((collective, name))
                    break
    assert listed == planned


def test_a_network_without_a_hamiltonian_cycle_has_no_ring() -> None:
    # A mesh of 3 x 3 is bipartite with 5 and 4 nodes.
    assert "ring" not in tb.network("mesh:3x3").algorithms("allgather")
    assert "ring" in tb.network("mesh:3x4").algorithms("allgather")
    assert "ring" not in tb.network(networkx.star_graph(4), name="hub").algorithms()
    with pytest.raises(ScenarioError, match="invalid collective 'send': expected one of: broadcast"):
        tb.network("star:3").algorithms("send")


def test_large_networks_are_listed_without_a_look_at_all_of_them() -> None:
    network = parse_topology("hypercube:30")
    names = [entry.name for entry in runnable(network, "broadcast")]
    assert "flood" in names
    assert "edge-disjoint-trees" not in names  # it looks at all of 2^30 nodes
    assert not [entry for entry in runnable(parse_topology("star:7"), "alltoall") if is_tried(network, entry)]


def test_the_command_lists_what_runs_on_a_network(call: Call) -> None:
    rows = call("list algorithms --topology mesh:3x3 --json").data
    assert {row["topology"] for row in rows} == {"mesh"}
    assert not {"ring", "bruck", "recursive-doubling"} & {row["algorithm"] for row in rows}
    (row,) = [row for row in rows if (row["collective"], row["algorithm"]) == ("allgather", "bfb")]
    assert (row["port_models"], row["duplexes"]) == (["all-port", "one-port"], ["full"])
    text = call("list algorithms --topology mesh:3x3 --collective broadcast").out
    assert "algorithms on mesh:3x3" in text
    # One line for each algorithm: title, head, rule and a blank line are the rest.
    broadcasts = [row for row in rows if row["collective"] == "broadcast"]
    assert len(text.strip().splitlines()) == 3 + len(broadcasts)


def test_the_command_says_why_an_algorithm_cannot_run(call: Call) -> None:
    refused = call("list algorithms ring --topology mesh:3x3 --collective allgather")
    assert refused.status == 2
    assert "ring needs a link between" in refused.err
    assert "claims on mesh:3x4" in call("list algorithms ring --topology mesh:3x4 --collective allgather").out


def test_untried_algorithms_are_named_below_the_table(call: Call) -> None:
    text = call("list algorithms --topology star:7 --collective allgather").out
    assert "not tried here, because the network is large:" in text
    assert "bruck" in text.rpartition("not tried here")[2]


def test_an_accepted_algorithm_carries_its_setting() -> None:
    network = parse_topology("star:4")
    entry = algorithms("star", Collective.ALLTOALL)["replicated-balanced-tree"]
    assert accepted(network, entry).spec.messages == network.degree


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--algorithm disjoint-paths --permutation reversal", "permutation: disjoint-paths joins one source"),
        (
            "--algorithm minimal --permutation reversal --port-model one-port",
            "links, where segments meet; not one-port, full-duplex",
        ),
        ("--algorithm minimal --permutation reversal --duplex half", "permutation: minimal carries one only all-port"),
    ],
)
def test_a_permutation_that_does_not_fit_is_named(call: Call, line: str, reason: str) -> None:
    refused = call(f"plan --topology hypercube:3 --collective unicast {line}")
    assert refused.status == 2
    assert reason in refused.err
