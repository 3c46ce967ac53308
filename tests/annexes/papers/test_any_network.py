"""Both bounds on an allgather: measured where runs are short, computed elsewhere, against golden numbers."""

from dataclasses import replace
from fractions import Fraction

import pytest

from coordinator.annexes.papers.any_network import both_bounds
from coordinator.annexes.papers.any_network.both_bounds import MOST_SEGMENTS, NETWORKS
from coordinator.annexes.papers.any_network.directed import directed_networks
from coordinator.annexes.papers.run_cache import RunCache
from coordinator.annexes.papers.tables import Table
from emunode.algorithms.any_network.last_hops import phases
from emunode.topologies.registry import parse_topology

DIRECTED = {
    "Kautz K(2,3)": (12, 2, "1 2 4"),
    "Kautz K(2,4)": (24, 2, "1 2 4 8"),
    "Kautz K(3,3)": (36, 3, "1 3 9"),
    "Kautz K(4,3)": (80, 4, "1 4 16"),
    "de Bruijn B(2,3)": (8, 1, "1 2 4"),
    "de Bruijn B(2,4)": (16, 1, "1 2 4 8"),
}
"""Order, least in-degree, and the load of every phase."""
MET = {"star", "hypercube", "ej", "gaussian", "torus"}
"""The families of the table that meet both bounds."""


def table(cache: RunCache, n: int, number: int) -> Table:
    section = list(both_bounds.build(replace(cache, sizes=[n])))[number]
    assert isinstance(section, Table)
    return section


@pytest.mark.parametrize("n", [3, 4])
def test_measured_times_are_the_computed_ones(run_cache: RunCache, n: int) -> None:
    found = table(run_cache, n, 0)
    assert set(found.statuses) == {"holds"}
    assert len(found.rows) == 2 * len(NETWORKS[n])
    for row in found.rows:
        assert row["measured"] == pytest.approx(row["predicted"])
        met = str(row["network"]).partition(":")[0] in MET
        assert row["both"] == ("yes" if met else "no")
        assert (row["ratio"] == 1) == (met or row["time"] == "T_L")


def test_runs_are_measured_up_to_three_million_transmissions() -> None:
    lengths = {}
    for name in NETWORKS[6]:
        topology = parse_topology(name)
        lengths[name] = phases(topology).whole_chunks * topology.order * (topology.order - 1)
    assert {name for name, length in lengths.items() if length > MOST_SEGMENTS} == {"star:7", "hypercube:10"}
    assert lengths["star:7"] == 6 * 5040 * 5039


def test_the_literature_meets_both_bounds_on_star_and_cube(run_cache: RunCache) -> None:
    rows = table(run_cache, 4, 1).rows
    met = {(row["network"], str(row["algorithm"]).partition(" (")[0]) for row in rows if row["both"] == "yes"}
    assert met == {
        ("star:4", "rotated trees"), ("star:4", "BFB"), ("hypercube:4", "nRSBT"), ("hypercube:4", "BFB"), ("ej:3+4", "BFB"),
    }  # fmt: skip
    (near,) = (row for row in rows if str(row["algorithm"]).startswith("NL, a level"))
    assert (near["T_L"], near["measured"]) == (4, 8)


def test_directed_networks_are_computed_only(run_cache: RunCache) -> None:
    for network in directed_networks():
        order, degree, loads = DIRECTED[network.title]
        assert (network.order, network.degree) == (order, degree)
        assert network.loads() == [Fraction(load) for load in loads.split()]
    found = table(run_cache, 3, 2)
    assert set(found.statuses) == {"evaluated"}
    assert len(found.rows) == 2 * len(DIRECTED)
