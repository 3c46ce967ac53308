"""Expected times of Johnsson and Ho's algorithms: broadcasts, start-ups, and the iPSC."""

from collections import Counter
from fractions import Fraction
from math import ceil

import numpy as np
import pytest

from emunode.model import Collective, PortModel
from tests.emunode.algorithms.hypercube.golden_support import (
    LARGEST_IS_SLOW,
    SIZES,
    Row,
    claimed,
    column,
)
from tests.helpers.hypercube_support import PORTS, golden, play, spec


@pytest.mark.parametrize("n", SIZES)
def test_broadcast_cycles(n: int) -> None:
    found = golden("broadcast_cycles", n=n)
    assert len(found) > 50
    for row in found:
        graph, ports = row["algorithm"], PORTS[row["port_model"]]
        segments = column(row, "P(packets") if graph in ("nRSBT", "nRBRG") else row["distinct_messages"]
        wanted = spec(n, Collective.BROADCAST, graph.lower(), ports, message_bytes=840, segments=int(segments))
        metrics = play(wanted).metrics
        assert "max_link_segments" in claimed(wanted)
        assert metrics["steps"] == int(row["cycles_measured"]), row
        assert metrics["segments"] == int(row["message_hops_measured"])
        assert metrics["max_link_segments"] == int(row["max_link_total_messages_measured"])
        assert metrics["max_link_segments_per_step"] == int(row["max_link_cycle_messages_measured"])


ELEMENT = 60
"""Bytes of an element, so that every part of a message is a whole number of bytes."""


@pytest.mark.exhaustive(one_in=4)
@pytest.mark.parametrize("n", SIZES)
def test_broadcast_time(n: int) -> None:
    """T = startups tau + transfer t_c. Where packets would be uneven, our equal ones transfer no more than the formula."""
    found = golden("broadcast_time", n=n)
    assert len(found) > 200
    for row in found:
        graph, size, packet = row["algorithm"], int(row["M_elements"]), int(row["B_elements"])
        ports = PORTS[row["ports"]]
        cut = n if graph in ("nRBRG", "nRSBT") or (graph == "nESBT" and row["ports"] == "n") else 1
        segments = ceil(Fraction(size, cut * packet)) * (cut if graph == "nESBT" else 1)
        if graph == "nRSBT" and row["ports"] == "one":
            segments = 1
        values = {"message_bytes": size * ELEMENT, "packet_limit": packet * ELEMENT, "segments": segments}
        metrics = play(spec(n, Collective.BROADCAST, graph.lower(), ports, **values)).metrics
        startups, steps = metrics["startups"], metrics["steps"]
        transfer = Fraction(metrics["transfer_bytes"], ELEMENT)
        formula = Fraction(column(row, "transfer_paper_formula"))
        if n == 2 and graph == "TCBT" and ports is PortModel.EXCHANGE:  # empty cycles count there
            startups = steps
            transfer = steps * Fraction(max(metrics["heaviest_link_bytes_per_step"]), ELEMENT)
            if row["divisible_case"] == "0":  # 3M - B is no bound for packets that are smaller than B
                formula = transfer
        assert startups == int(row["startups_paper_formula"]), row
        slack = Fraction(steps, ELEMENT)  # a packet is a whole number of bytes
        assert transfer == formula if row["divisible_case"] == "1" else transfer <= formula + slack, row


@pytest.mark.parametrize("row", golden("nesbt_async"), ids=lambda row: f"{row['n']}-{row['P']}")
def test_broadcast_without_a_clock(row: Row) -> None:
    """First come, first served, by the port of arrival alone; legal in the exchange model, as the nodes watch."""
    n, packets = int(row["n"]), int(row["P"])
    wanted = spec(n, Collective.BROADCAST, "nesbt-fifo", PortModel.EXCHANGE, message_bytes=840, segments=packets)
    assert play(wanted).metrics["steps"] == int(row["cycles_measured_fifo_order"])
    assert row["fifo_valid_in_exchange_model"] == row["also_valid_in_exchange_model"] == "1"


@pytest.mark.parametrize("row", golden("oneport_optimum_n2"), ids=lambda row: row["P"])
def test_best_broadcast_in_a_square(row: Row) -> None:
    """The best schedule of all over one port in Q_2 is one cycle faster than nESBT, and nESBT is one above the bound."""
    packets = int(row["P"])
    wanted = spec(2, Collective.BROADCAST, "nesbt", PortModel.EXCHANGE, message_bytes=60, segments=packets)
    assert play(wanted).metrics["steps"] == int(row["nESBT P+n"])
    assert int(row["nESBT P+n"]) == int(column(row, "exhaustive_optimum_cycles")) + 1 == packets + 2


# --- start-ups for every packet size ---------------------------------------------------------------------------------


@pytest.mark.parametrize("n", LARGEST_IS_SLOW)
def test_startups_for_every_packet_size(n: int) -> None:
    found = golden("startups_vs_packet_size", n=n)
    assert len(found) > 100
    played: dict[tuple[str, ...], tuple[int, ...]] = {}
    size = 120 * n
    seen: Counter[tuple[str, ...]] = Counter()
    for row in found:
        problem, graph, ports = row["problem"], row["algorithm"].partition("(")[0], PORTS[row["ports"]]
        key = (problem, row["algorithm"], row["ports"], row["M/B"])
        seen[key] += 1
        name = "sbntc" if graph == "SBnT" else graph.lower()  # the paper's SBnT has several paths from section 4 on
        if seen[key] == 2:
            name += "-rbf"  # the loads of concurrent postorder in turn
        limit = size / Fraction(row["M/B"])
        assert limit.denominator == 1
        wanted = spec(n, Collective(problem), name, ports, message_bytes=size, packet_limit=int(limit))
        if (problem, name, row["ports"]) not in played:
            played[problem, name, row["ports"]] = play(wanted).metrics["heaviest_link_bytes_per_step"]
        loads = played[problem, name, row["ports"]]
        startups = sum(-(-load // int(limit)) for load in loads)
        claims = claimed(wanted)
        assert startups == claims["startups"] == int(column(row, "startups_measured")), row
        assert sum(loads) == claims["transfer_bytes"] == size * Fraction(row["transfer_measured(M)"])


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row["n"], marks=[pytest.mark.slow] if int(row["n"]) > 10 else [])
        for row in golden("max_packet_exact_vs_asymptotic")
    ],
)
def test_largest_packets(row: Row) -> None:
    """The exact largest packets of a scatter, below the asymptotic ones that tables 9 and 14 print."""
    n = int(row["n"])
    columns = list(row.values())
    for name, exact, printed in (("sbt", *columns[1:3]), ("nrsbt", *columns[3:5])):
        wanted = spec(n, Collective.SCATTER, name, PortModel.ALL_PORT, message_bytes=n)
        largest = max(np.array(claimed(wanted)["heaviest_link_segments_per_step"]))
        assert Fraction(int(largest), 1 if name == "sbt" else n) == Fraction(exact) <= Fraction(printed)


@pytest.mark.exhaustive(one_in=9)
@pytest.mark.parametrize("row", golden("optima"), ids=lambda row: "-".join([*row.values()][:4]))
def test_optimum_complexity(row: Row) -> None:
    """Tables 8, 9, 12, 14, 16, 18 and 19, corrected, with the exact binomial coefficient where an asymptotic one is printed.

    With packets of B_opt a run costs T_min = transfer t_c + start-ups tau, and with smaller ones more.
    """
    n, collective, name, ports = int(row["n"]), row["problem"], row["algorithm"], PORTS[row["ports"]]
    best, transfer, startups = (Fraction(row[column]) for column in ("packet", "transfer", "startups"))
    size = 2 * n
    claims = claimed(spec(n, Collective(collective), name, ports, message_bytes=size))
    assert claims["transfer_bytes"] == transfer * size
    assert claims["startups"] == startups
    limit = Fraction(best * size)
    assert limit.denominator == 1
    of_size = [
        claimed(spec(n, Collective(collective), name, ports, message_bytes=size, packet_limit=int(packet)))["startups"]
        for packet in (limit, limit - 1)
    ]
    assert of_size[0] == startups
    assert isinstance(of_size[1], int)
    assert of_size[1] > startups
