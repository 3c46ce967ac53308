"""Classical schedules: steps, blocks and links are those of independent counts, and every result is right for any p.

Complete networks have all links; the links that an algorithm needs are tested by taking one away.
"""

from collections.abc import Iterable
from typing import Any

import pytest

from emunode.algorithms.base import ALGORITHMS, Algorithm
from emunode.algorithms.classical.circulant import base_block, receive_schedule, send_schedule, skips
from emunode.algorithms.classical.places import ring_places
from emunode.algorithms.conformance import check_algorithm, execute, measure
from emunode.algorithms.registry import make_algorithm
from emunode.errors import ScenarioError
from emunode.model import Collective, CollectiveSpec, PortModel, Rank
from emunode.topologies.base import Topology
from emunode.topologies.registry import parse_topology
from emunode.topologies.table import TableTopology
from tests.helpers.support import golden_rows, run_scenario

NAMES = {
    "binomial-broadcast": ("broadcast", "binomial"),
    "bruck-allgather": ("allgather", "bruck"),
    "bruck-alltoall": ("alltoall", "bruck"),
    "circulant-halving-allreduce": ("allreduce", "circulant-halving"),
    "recursive-doubling-allgather": ("allgather", "recursive-doubling"),
    "recursive-doubling-allreduce": ("allreduce", "recursive-doubling"),
    "recursive-halving-reduce-scatter": ("reduce-scatter", "recursive-halving"),
    "ring-allgather": ("allgather", "ring"),
    "ring-allreduce": ("allreduce", "ring"),
    "ring-reduce-scatter": ("reduce-scatter", "ring"),
}
"""Names in the table of counts: collective and algorithm."""
COUNTS = [row for row in golden_rows("any", "classical") if int(row["p"]) in (3, 4, 5, 6, 7, 8, 9, 12, 16, 31)]
CLASSICAL = [entry for entry in ALGORITHMS.values() if entry.__module__.startswith("emunode.algorithms.classical.")]
"""Every algorithm of this folder, and those that run it backwards or twice."""


def on_complete(count: int, collective: str, algorithm: str, port_model: str = "one-port", **job: int) -> Algorithm:
    """Return an algorithm on the complete network of `count` nodes."""
    topology = parse_topology(f"complete:{count}")
    spec = CollectiveSpec(topology.name, Collective(collective), algorithm, 0, PortModel(port_model))
    return make_algorithm(topology, spec._replace(**job))  # type: ignore[arg-type]


@pytest.mark.parametrize("row", COUNTS, ids=lambda row: f"{row['algorithm']}-{row['p']}")
def test_steps_and_blocks_are_those_of_the_table(row: dict[str, str]) -> None:
    algorithm = on_complete(int(row["p"]), *NAMES[row["algorithm"]])
    history = execute(algorithm)
    metrics = measure(algorithm, history)
    assert metrics["steps"] == int(row["steps"])
    if row["algorithm"] != "binomial-broadcast":
        # Blocks over the heaviest link of every step.
        assert metrics["transfer_bytes"] == int(row["blocks_sent_by_a_node"]) * algorithm.spec.message_bytes


@pytest.mark.exhaustive(one_in=3)
@pytest.mark.parametrize("entry", CLASSICAL, ids=lambda entry: f"{entry.collective}-{entry.name}")
@pytest.mark.parametrize("network", ["complete:5", "complete:8", "circulant:13:1,2,4,6", "hypercube:3", "ej:1+2"])
def test_every_variant_on_the_networks_that_have_the_links(network: str, entry: type[Algorithm]) -> None:
    topology = parse_topology(network)
    job = CollectiveSpec(topology.name, entry.collective, entry.name, 0, entry.port_models[0])
    if refusal := refusal_of(entry, topology, job):
        # Complete networks are refused for their number of nodes alone.
        assert not network.startswith("complete") or "power of two" in refusal
    else:
        check_algorithm(entry, topology)


def refusal_of(entry: type[Algorithm], topology: Topology, job: CollectiveSpec) -> str | None:
    """Return why an algorithm refuses a job, or None."""
    try:
        entry(topology, job)
    except ScenarioError as refusal:
        return str(refusal)
    return None


# --- circulant schedules -----------------------------------------------------------------------------------------------


def test_schedules_of_every_place_are_those_of_the_table() -> None:
    for row in golden_rows("any", "circulant-schedules"):
        place, sizes = int(row["place"]), skips(int(row["p"]))
        assert base_block(place, sizes) == int(row["base"])
        assert receive_schedule(place, sizes) == list(map(int, row["receive"].split()))
        assert send_schedule(place, sizes) == list(map(int, row["send"].split()))


@pytest.mark.parametrize("count", [25, 33, 64, 97, 200, 1025])
def test_schedules_are_valid_for_any_number_of_blocks(count: int) -> None:
    sizes = skips(count)
    q = len(sizes) - 1
    receives = [receive_schedule(place, sizes) for place in range(count)]
    for place in range(count):
        sends = send_schedule(place, sizes)
        # The receiver of round k expects what is sent.
        assert sends == [receives[(place + sizes[k]) % count][k] for k in range(q)]
        base = base_block(place, sizes)
        expected = set(range(-q, 0)) if not place else set(range(-q, 0)) - {base - q} | {base}
        assert set(receives[place]) == expected
        # What is sent has been received in an earlier round of the run, or is the base block of the run before.
        for k, block in enumerate(sends if place else ()):
            assert block == base - q or block in receives[place][:k]


@pytest.mark.parametrize(
    "row",
    [row for row in golden_rows("any", "circulant-rounds") if 3 <= int(row["p"]) <= 17 and int(row["blocks"]) <= 16],
    ids=lambda row: f"{row['p']}-{row['blocks']}",
)
def test_broadcast_of_blocks_takes_the_rounds_of_the_table(row: dict[str, str]) -> None:
    blocks = int(row["blocks"])
    for collective in ("broadcast", "reduce"):
        algorithm = on_complete(int(row["p"]), collective, "circulant", source=1, segments=blocks)
        history = execute(algorithm)
        assert max(hop.step for hop in history) == int(row["rounds"])
        assert len(history) == int(row["transmissions"])
        assert measure(algorithm, history)["intact_deliveries"] == (
            int(row["p"]) - 1 if collective == "broadcast" else 1
        )


# --- links -------------------------------------------------------------------------------------------------------------


def without_link(count: int, one: Rank, other: Rank) -> TableTopology:
    """Return a complete network without one link."""
    pairs: Iterable[tuple[Rank, Rank]] = ((a, b) for b in range(count) for a in range(b))
    return TableTopology(f"k{count}", list(map(str, range(count))), [pair for pair in pairs if pair != (one, other)])


@pytest.mark.parametrize(
    ("collective", "name", "link", "labels"),
    [
        ("allgather", "bruck", (3, 4), ("3", "4")),
        ("reduce-scatter", "recursive-halving", (2, 6), ("2", "6")),
        ("allreduce", "recursive-doubling", (2, 6), ("2", "6")),
        ("broadcast", "circulant", (0, 7), ("7", "0")),
        ("alltoall", "bruck", (1, 5), ("1", "5")),
        ("broadcast", "binomial", (1, 3), ("1", "3")),
    ],
)
def test_missing_link_is_named(collective: str, name: str, link: tuple[Rank, Rank], labels: tuple[str, str]) -> None:
    network = without_link(8, *link)
    spec = CollectiveSpec(network.name, Collective(collective), name, 0, PortModel.ONE_PORT)
    with pytest.raises(ScenarioError, match=f"{name} needs a link between {labels[0]} and {labels[1]}, which"):
        make_algorithm(network, spec)
    # A link that is not needed is not missed.
    if name == "binomial":
        make_algorithm(without_link(8, 4, 5), spec)


@pytest.mark.parametrize("name", ["star:4", "star:5", "hypercube:4", "ej:2+3", "torus:3x5", "mesh:3x4", "kautz:2,3"])
def test_ring_follows_links_of_the_network(name: str) -> None:
    topology = parse_topology(name)
    ranks = ring_places(topology).ranks
    assert sorted(ranks) == list(topology.ranks())
    assert all(peer in topology.neighbours(rank) for rank, peer in zip(ranks, [*ranks[1:], ranks[0]], strict=True))


def virtual_seconds(**values: Any) -> float:  # every field of a scenario has its own type
    found = run_scenario(**values).summary["virtual_seconds"]
    assert isinstance(found, float)
    return found


@pytest.mark.parametrize(("collective", "messages"), [("broadcast", 3), ("allreduce", 1)])
def test_automatic_blocks_take_the_least_time(collective: str, messages: int) -> None:
    """(mn - 1 + q)(startup + per_byte size / n), where n divides the size, and the same again for the second phase."""
    name = "circulant-rooted" if collective == "allreduce" else "circulant"
    seconds = {
        segments: virtual_seconds(
            topology="complete:13", collective=collective, algorithm=name, port_model="one-port", segments=segments,
            messages=messages, message_bytes=720, startup="100us", per_byte="1us",
        )
        for segments in ("auto", 1, 2, 3, 4, 5, 6, 8)
    }  # fmt: skip
    assert seconds["auto"] == min(seconds.values())
