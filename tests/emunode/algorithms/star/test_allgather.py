"""Allgather on the star graph: rotated trees, Hamiltonian words, necklaces, and traversals of arc-disjoint trees."""

from functools import partial
from math import factorial

import polars as pl
import pytest

from emunode.algorithms.registry import make_algorithm
from emunode.algorithms.star.bounds import total_distance, unit_bounds
from emunode.algorithms.tree_collective import TreeCollective
from emunode.model import ALL_RANKS, Collective, CollectiveSpec, PortModel
from emunode.topologies.star import StarGraph
from tests.helpers.support import failures, golden_rows, run_journal, run_scenario

golden = partial(golden_rows, "star")
NAMES = {
    "rotated-trees": "all-port",
    "hamiltonian-cycle": "one-port",
    "rotated-hamiltonian": "all-port",
    "mbst": "all-port",
    "mbst-levels": "all-port",
    "edt-dfs": "all-port",
    "edt-dfs-ack": "all-port",
}
FIVE = pytest.param(5, marks=pytest.mark.slow)
LOST_BY_ACKNOWLEDGING = {3: (0, 0), 4: (49, 10), 5: (993, 98)}
"""(pairs of source and healthy node cut off by one faulty node, positions of it that cut off somebody)."""


def allgather(n: int, algorithm: str, **values: object) -> dict[str, object]:
    """Run an allgather; every claim must hold."""
    values = {"port_model": NAMES[algorithm], **values}
    result = run_scenario(None, topology=f"star:{n}", collective="allgather", algorithm=algorithm, **values)
    assert not failures(result)
    return result.summary


# Bounds.


def test_total_distance_in_closed_form() -> None:
    found = [row for row in golden("basics") if row["quantity"] == "t_n"]
    assert found
    for row in found:
        n = int(row["n"])
        star = StarGraph(n)
        assert total_distance(star) == int(row["paper"])
        harmonic = sum(factorial(n) // i for i in range(1, n + 1))
        assert total_distance(star) == factorial(n) * (n - 4) + 2 * factorial(n - 1) + harmonic


@pytest.mark.parametrize("problem", ["MNB", "SNS", "TE"])
def test_lower_bounds_are_golden(problem: str) -> None:
    collective = {"MNB": Collective.ALLGATHER, "SNS": Collective.SCATTER, "TE": Collective.ALLTOALL}[problem]
    quantities = {"time_SLA": PortModel.ONE_PORT, "time_MLA": PortModel.ALL_PORT}
    rows = [row for row in golden("tr_bounds") if row["problem"] == problem]
    assert rows
    for row in rows:
        star = StarGraph(int(row["n"]))
        model = quantities.get(row["quantity"], PortModel.ALL_PORT)
        spec = CollectiveSpec(star.name, collective, "any", 0, port_model=model)
        steps, segments = unit_bounds(star, spec, int(row["M"]))
        bound = segments if row["quantity"] == "transmissions" else steps
        assert bound.predicted == int(row["value"])
        assert bound.relation == ">="


# Algorithm 2 of Tseng and Sheu.


@pytest.mark.parametrize("n", [3, 4, 5])
def test_every_link_carries_the_same_in_every_step(n: int) -> None:
    result, journal = run_journal(
        topology=f"star:{n}", collective="allgather", algorithm="rotated-trees", message_bytes=60
    )
    assert not failures(result)
    star = StarGraph(n)
    loads = journal.group_by("step", "sender", "port").len()
    rows = [row for row in golden("alg2_link_load") if row["n"] == str(n)]
    assert len(rows) == star.diameter == loads["step"].max()
    for row in rows:
        found = loads.filter(pl.col("step") == int(row["step"]))["len"]
        assert len(found) == star.order * star.degree
        assert found.unique().to_list() == [int(row["segments_per_link_paper(=|D_t|)"])]


# Fragopoulou and Akl.


@pytest.mark.parametrize("n", [3, 4, 5, pytest.param(6, marks=pytest.mark.slow)])
def test_a_level_of_mbst_takes_one_packet(n: int) -> None:
    """Every node hears every other in the step of its distance, over shortest paths; loads are those counted by type."""
    result, journal = run_journal(
        topology=f"star:{n}", collective="allgather", algorithm="mbst-levels", message_bytes=4
    )
    assert not failures(result)
    star = StarGraph(n)
    pairs = journal.filter(outcome="first").group_by("origin", "receiver").agg(pl.col("step").unique())
    assert len(pairs) == star.order * (star.order - 1)
    for origin, receiver, steps in pairs.sample(2_000, seed=1).rows() if n > 5 else pairs.rows():
        assert steps == [star.weight(star.relative(receiver, origin))]
    packets = journal.group_by("step", "sender", "port").len()
    heaviest = packets.group_by("step").agg(pl.col("len").max()).sort("step")["len"].to_list()
    distances = {int(row["distance"]): int(row["nodes"]) for row in distance_rows(n)}
    assert heaviest == [-(-distances[t] // (n - 1)) for t in range(1, star.diameter + 1)]
    assert result.summary["startups"] == result.summary["steps"] == star.diameter
    by_type = packets.group_by("step", "port").agg(pl.col("len").n_unique())["len"]
    assert set(by_type) == {1}, "all links of a type carry the same in a step"


def distance_rows(n: int) -> list[dict[str, str]]:
    return [row for row in golden("distance_distribution") if row["n"] == str(n)]


def test_phases_of_rotated_hamiltonian() -> None:
    """A node that begins with the same symbol as the source is reached in phase 2, by rule 1."""
    _, journal = run_journal(topology="star:4", collective="allgather", algorithm="rotated-hamiltonian")
    star = StarGraph(4)
    for step, receiver, origin, sender, port in journal.select("step", "receiver", "origin", "sender", "port").rows():
        x, q, y = map(star.permutation, (receiver, origin, sender))
        assert (x[0] == q[0]) == (step > 6)
        if step > 6:
            assert q[0] == y[port + 1]
            assert q[3] == y[0]


@pytest.mark.slow
def test_s6_in_memory() -> None:
    """517,680 deliveries."""
    summary = allgather(6, "rotated-hamiltonian", message_bytes=8)
    assert summary["deliveries"] == 720 * 719
    assert summary["steps"] == 144


# Depth-first over arc-disjoint trees.


@pytest.mark.parametrize("n", [3, 4, 5])
def test_acknowledged_traversals_are_golden(n: int) -> None:
    (row,) = golden("edt_algorithms", n=n, algorithm="FT-MNB DFS with unit-time acks (literal)")
    result, journal = run_journal(
        topology=f"star:{n}", collective="allgather", algorithm="edt-dfs-ack", redundancy=n - 1
    )
    assert not failures(result)
    messages = journal.filter(pl.col("target") == ALL_RANKS)
    assert result.summary["steps"] == int(row["steps_measured"]) == 2 * (factorial(n) - 1)
    assert len(messages) == int(row["tx_measured"])
    assert messages["step"].max() == int(row["note"].rpartition(" ")[2])


def test_acknowledgements_are_in_the_journal_and_no_deliveries() -> None:
    result, journal = run_journal(topology="star:3", collective="allgather", algorithm="edt-dfs-ack")
    answers = journal.filter(pl.col("target") != ALL_RANKS)
    assert len(answers) == 30
    assert set(answers["bytes"]) == {1}
    assert set(answers["outcome"]) == {"relay"}
    assert answers["target"].equals(answers["sender"]), "an acknowledgement names its sender"
    assert result.summary["deliveries"] == 30
    assert result.summary["duplicates"] == 0


def test_nodes_are_served_in_preorder() -> None:
    """The step of the clock is the index in preorder."""
    for n in (3, 4):
        star = StarGraph(n)
        spec = CollectiveSpec(star.name, Collective.ALLGATHER, "edt-dfs", 0, redundancy=n - 1)
        algorithm = make_algorithm(star, spec)
        assert isinstance(algorithm, TreeCollective)
        for row in golden(f"edt_children_order_n{n}"):
            step = algorithm.offset(star.rank(row["node"]), int(row["tree"]) - 2)
            assert step == int(row["preorder_index(=step of clocked DFS)"])


@pytest.mark.parametrize("n", [4, FIVE])
def test_only_clocked_traversal_survives_a_crash(n: int) -> None:
    """One node dead from the start: by the clock the healthy hear all the healthy; waiting for answers they do not."""
    star = StarGraph(n)
    fault = [f"crash:{star.label(star.order - 1)}@1"]
    values = {"topology": star.name, "collective": "allgather", "redundancy": n - 1, "fault": fault}
    result = run_scenario(None, algorithm="edt-dfs", **values)
    assert not failures(result)
    assert result.summary["delivery_ratio"] == 1.0
    result = run_scenario(None, algorithm="edt-dfs-ack", **values)
    assert result.verdict == "undecided"
    expected = (star.order - 1) * (star.order - 2)
    assert result.summary["expected_deliveries"] == expected
    assert result.summary["intact_deliveries"] == expected - LOST_BY_ACKNOWLEDGING[n][0]
