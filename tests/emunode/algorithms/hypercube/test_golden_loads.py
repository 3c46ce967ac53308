"""Expected loads of Johnsson and Ho's algorithms, cycle by cycle: measured in runs, and as the algorithms claim them."""

from fractions import Fraction

import pytest

from emunode.model import Collective, CollectiveSpec, PortModel
from tests.emunode.algorithms.hypercube.golden_support import (
    LARGEST_IS_SLOW,
    PER_CYCLE,
    SIZES,
    Row,
    claimed,
    column,
    parts,
)
from tests.helpers.hypercube_support import PORTS, TREES, CubeRun, golden, play, spec

SCATTERS = {
    "SBT-gray-postorder": "sbt-postorder",
    "SBT-gray": "sbt-gray",
    "SBT-halving": "sbt",
    "SBnT-cyclic rbf": "sbnt-cyclic",
    "SBnT-cyclic postorder": "sbnt-postorder",
}
ALLTOALLS = {"nRSBT post": "nrsbt-postorder", "nRSBT rbf": "nrsbt-rbf", "nRSBT rotated": "nrsbt"}


def scatter_job(row: Row, n: int) -> tuple[CollectiveSpec, int]:
    """Return the job of a row, and in how many segments its unit is cut."""
    graph, case, ports = row["algorithm"], row["case"], PORTS[row["port_model"]]
    name = SCATTERS.get(graph) or SCATTERS.get(f"{graph} {case.split()[-1]}", graph.lower())
    if "fifo" in case:
        name += "-fifo"
    values, unit = {"message_bytes": 12 * n}, 1
    if graph == "BRG":
        values["segments"] = int(case[2:-1])
    elif graph == "SBT-gray":
        values["packet_limit"] = 12 * n << int(case[4:-1])
    elif "fifo" not in case:
        unit = parts(graph, n) if graph in TREES else 1
    return spec(n, Collective.SCATTER, name, ports, **values), unit


def alltoall_job(row: Row, n: int) -> CollectiveSpec:
    graph, case = row["algorithm"], row["case"].split()[0]
    name = ALLTOALLS.get(f"{graph} {case}") or graph.lower() + ("-rbf" if case == "rbf" else "")
    return spec(n, Collective.ALLTOALL, name, PORTS[row["port_model"]], message_bytes=12 * n)


def allgather_job(row: Row, n: int) -> CollectiveSpec:
    name = row["algorithm"].lower() + ("-exchange" if row["case"].startswith("rotated") else "")
    return spec(n, Collective.ALLGATHER, name, PORTS[row["port_model"]], message_bytes=12 * n)


def check_loads(row: Row, wanted: CollectiveSpec, unit: int) -> CubeRun:
    """Return a run, and what its algorithm claims of it, against a row with the loads of every cycle."""
    run = play(wanted)
    assert {"heaviest_link_segments_per_step", "max_link_segments"} <= claimed(wanted).keys()
    series = run.metrics["heaviest_link_segments_per_step"]
    assert run.metrics["steps"] == int(row["cycles_measured"])
    assert Fraction(sum(series), unit) == Fraction(column(row, "transfer_measured"))
    assert Fraction(run.metrics["segments"], unit) == Fraction(column(row, "total_element_hops_measured"))
    assert Fraction(run.metrics["max_link_segments"], unit) == Fraction(column(row, "max_edge_load_measured"))
    assert Fraction(max(series), unit) == Fraction(column(row, "max_packet_measured"))
    if row[PER_CYCLE]:
        assert [Fraction(load, unit) for load in series] == [Fraction(load) for load in row[PER_CYCLE].split()]
    return run


@pytest.mark.parametrize("n", [*SIZES, pytest.param(7, marks=pytest.mark.slow)])
def test_scatter_cycles(n: int) -> None:
    found = golden("scatter_cycles", n=n)
    assert len(found) == {2: 27, 3: 28, 4: 29, 5: 26, 6: 27, 7: 23}[n]
    for row in found:
        check_loads(row, *scatter_job(row, n))


@pytest.mark.parametrize("n", LARGEST_IS_SLOW)
def test_allgather_cycles(n: int) -> None:
    found = golden("allgather_cycles", n=n)
    assert len(found) == (14 if n < 6 else 13)
    for row in found:
        run = check_loads(row, allgather_job(row, n), parts(row["algorithm"], n))
        assert run.links_of_a_dimension_are_alike(2**n) is (row["uniform_links_measured"] == "1")


@pytest.mark.parametrize("n", LARGEST_IS_SLOW)
def test_alltoall_cycles(n: int) -> None:
    found = golden("alltoall_cycles", n=n)
    assert len(found) == {2: 20, 3: 20, 4: 20, 5: 18, 6: 17}[n]
    for row in found:
        run = check_loads(row, alltoall_job(row, n), parts(row["algorithm"], n))
        assert run.links_of_a_dimension_are_alike(2**n) is (row["uniform_links_measured"] == "1")


# --- orders and reversals --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", SIZES)
def test_scatter_in_gray_code_port_order(n: int) -> None:
    """Descending relative destinations, ports by the transitions of the Gray code; from a source other than 0."""
    source = 2**n - 2
    hops = play(spec(n, Collective.SCATTER, "sbt-gray", PortModel.EXCHANGE, message_bytes=4, source=source)).hops
    sent, arrived = {}, {}
    for step, sender, port, receiver, (_, destination, *_) in hops:
        if sender == source:
            sent[step - 1] = port, destination ^ source
        if receiver == destination:
            arrived[destination ^ source] = step - 1
    for row in golden("sbt_oneport_scatter_order", n=n):
        target = int(row["relative_destination"])
        assert sent[int(row["cycle"])] == (int(column(row, "root_port")), target)
        assert arrived[target] == int(row["arrival_cycle"])
    assert len(sent) == 2**n - 1


GATHERS = {"SBT-gray B=M": "sbt-gray", "SBT-halving": "sbt"}


@pytest.mark.parametrize("n", LARGEST_IS_SLOW)
def test_reverse_operations(n: int) -> None:
    found = [row for row in golden("reverse_ops", n=n) if row["problem"] != "reduce-scatter"]
    assert len(found) == {2: 45, 6: 39}.get(n, 47)
    for row in found:
        graph, ports, distinct = row["algorithm"], PORTS[row["port_model"]], int(row["distinct_messages"])
        if row["problem"] == "gather":
            name, segments = GATHERS.get(graph, graph.split()[0].lower()), 1
            wanted = spec(n, Collective.GATHER, name, ports, message_bytes=12 * n)
        else:
            segments = distinct // n if graph == "nRSBT" else distinct
            wanted = spec(n, Collective.REDUCE, graph.lower(), ports, message_bytes=840, segments=segments)
        metrics = play(wanted).metrics
        assert metrics["steps"] == int(row["cycles_measured"]), row
        assert metrics["segments"] == int(row["hops_measured"])
