"""Expected times of Johnsson and Ho's algorithms: broadcasts, start-ups, and the iPSC."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import ceil, comb

import numpy as np
import pytest

from emunode.algorithms.hypercube.schedule import CubeDissemination
from emunode.algorithms.registry import make_algorithm
from emunode.model import Collective, PortModel, Rank
from tests.emunode.algorithms.hypercube.golden_support import (
    LARGEST_IS_SLOW,
    SIZES,
    Row,
    claimed,
    column,
)
from tests.hypercube_support import PORTS, cube, golden, play, spec


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
    assert int(row["cycles_measured_label_order"]) == served_by_label(n, packets)


def served_by_label(n: int, packets: int) -> int:
    """Return cycles in which nodes without a clock are done that send, of what they hold, the smallest label first."""
    wanted = spec(n, Collective.BROADCAST, "nesbt", PortModel.EXCHANGE, message_bytes=840, segments=packets)
    algorithm = make_algorithm(cube(wanted.topology), wanted)
    assert isinstance(algorithm, CubeDissemination)
    trees = algorithm.trees
    waiting: dict[Rank, list[tuple[int, Rank, int, int]]] = {rank: [] for rank in range(2**n)}

    def hold(rank: Rank, tree: int, number: int) -> None:
        for port in trees.children(rank, tree):
            child = rank ^ 1 << port
            waiting[rank].append((trees.label(child, tree) + n * number, child, tree, number))

    for packet in range(packets):
        hold(0, packet % n, packet // n)
    cycle = 0
    while any(waiting.values()):
        sent = {rank: min(held) for rank, held in waiting.items() if held}
        assert len({child for _, child, _, _ in sent.values()}) == len(sent), "two packets for one node"
        for rank, (_, child, _, _) in sent.items():
            assert child not in sent or sent[child][1] == rank, "more than one neighbour in a cycle"
        for rank, entry in sent.items():
            waiting[rank].remove(entry)
        for _, child, tree, number in sent.values():
            hold(child, tree, number)
        cycle += 1
    return cycle


@pytest.mark.parametrize("row", golden("oneport_optimum_n2"), ids=lambda row: row["P"])
def test_best_broadcast_in_a_square(row: Row) -> None:
    """The best schedule of all over one port in Q_2 is one cycle faster than nESBT, and nESBT is one above the bound."""
    packets = int(row["P"])
    assert best_in_a_square(packets) == int(column(row, "exhaustive_optimum_cycles"))
    wanted = spec(2, Collective.BROADCAST, "nesbt", PortModel.EXCHANGE, message_bytes=60, segments=packets)
    assert play(wanted).metrics["steps"] == int(row["nESBT P+n"])
    assert int(row["lower_bound P+n-1"]) == packets + 1


def best_in_a_square(packets: int) -> int:
    """Return the fewest cycles, by trying all; the state says of each packet which of the nodes 0..3 hold it, in no
    order.
    """
    matchings = [[(0, 1)], [(0, 2)], [(1, 3)], [(2, 3)], [(0, 1), (2, 3)], [(0, 2), (1, 3)]]
    states = {(1,) * packets}
    for cycle in range(1, 100):
        found = set()
        for state, matching in product(states, matchings):
            options = [None, *range(packets)]
            ways = [(sender, receiver) for one, other in matching for sender, receiver in ((one, other), (other, one))]
            for choice in product(options, repeat=len(ways)):
                after = list(state)
                for (sender, receiver), packet in zip(ways, choice, strict=True):
                    if packet is not None and state[packet] >> sender & 1:
                        after[packet] |= 1 << receiver
                found.add(tuple(sorted(after)))
        if (15,) * packets in found:
            return cycle
        states = {state for state in found if not any(_contains(other, state) for other in found if other != state)}
    raise AssertionError


def _contains(more: tuple[int, ...], less: tuple[int, ...]) -> bool:
    """Return whether `more` is at least as far, packet by packet in this order."""
    return all(one & other == other for one, other in zip(more, less, strict=True))


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


ONE, ALL = PortModel.EXCHANGE, PortModel.ALL_PORT


def middle(n: int) -> Fraction:
    """Return the largest level of the cube in parts of a message."""
    return Fraction(comb(n, n // 2), n)


Number = Fraction | int
Optimum = Callable[[int, Fraction], tuple[Number, Number, Number]]
TABLES: dict[tuple[str, str, PortModel], Optimum] = {
    # (collective, name, port model): B_opt and transfer in messages, start-ups; order N
    ("scatter", "sbt", ONE): lambda n, order: (order / 2, order - 1, n),
    ("scatter", "tcbt", ONE): lambda n, order: (order / 2, 2 * order - 2 * n - 1, 2 * n - 2),
    ("scatter", "nrsbt", ONE): lambda n, order: ((order - 1) / n, order - 1, 2 * n - 1),
    ("scatter", "nrbrg", ALL): lambda n, order: ((order - 1) / n, order * (order - 1) / (2 * n), order - 1),
    ("scatter", "sbt", ALL): lambda n, order: (comb(n - 1, (n - 1) // 2), order / 2, n),
    ("scatter", "tcbt", ALL): lambda n, order: (order / 4, 3 * order / 4 - 1, n),
    ("scatter", "nrsbt", ALL): lambda n, order: (middle(n), (order - 1) / n, n),
    ("scatter", "sbntc", ALL): lambda n, order: (middle(n), (order - 1) / n, n),
    ("allgather", "brg", ONE): lambda _, order: (1, order - 1, order - 1),
    ("allgather", "sbt", ONE): lambda n, order: (order / 2, order - 1, n),
    ("allgather", "nrsbt", ONE): lambda n, order: ((order - 1) / n, order - 1, 2 * n - 1),
    ("allgather", "nesbt", ONE): lambda n, order: ((order - 2) / n, order - 1, 2 * n),
    ("allgather", "sbntc", ONE): lambda n, order: ((order - 1) / n, order - 1, 2 * n - 1),
    ("allgather", "nrbrg", ALL): lambda n, order: (1 / Fraction(n), (order - 1) / n, order - 1),
    ("allgather", "sbt", ALL): lambda n, order: (comb(n - 1, (n - 1) // 2), order / 2, n),
    ("allgather", "nrsbt", ALL): lambda n, order: (middle(n), (order - 1) / n, n),
    ("allgather", "nesbt", ALL): lambda n, order: (middle(n), (order - 1) / n, n + 1),
    ("allgather", "sbntc", ALL): lambda n, order: (middle(n), (order - 1) / n, n),
    ("alltoall", "brg", ONE): lambda _, order: (order - 1, order * (order - 1) / 2, order - 1),
    ("alltoall", "sbt", ONE): lambda n, order: (order / 2, n * order / 2, n),
    ("alltoall", "nrsbt", ONE): lambda n, order: (order / 2, n * order / 2, 2 * n - 1),
    ("alltoall", "nesbt", ONE): lambda n, order: (
        (order * (n + 1) / 2 - 1) / n,
        n * order / 2 + order - 2,
        2 * n,
    ),  # errata
    ("alltoall", "sbntc", ONE): lambda n, order: (order / 2, n * order / 2, 2 * n - 1),
    ("alltoall", "nrbrg", ALL): lambda n, order: ((order - 1) / n, order * (order - 1) / (2 * n), order - 1),
    ("alltoall", "nrsbt", ALL): lambda n, order: (order / (2 * n), order / 2, n),  # named nESBT in table 19
    ("alltoall", "nrsbt-postorder", ALL): lambda n, order: ((order - 1) / n, order / 2, n),
    ("alltoall", "nesbt", ALL): lambda n, order: ((order - 1) / n, order / 2 + (order - 2) / n, n + 1),
    ("alltoall", "sbntc", ALL): lambda n, order: ((order - 1) / n, order / 2, n),
}
"""Tables 8, 9, 12, 14, 16, 18 and 19, corrected; exact where the paper prints the asymptotic binomial coefficient."""


@pytest.mark.exhaustive(one_in=9)
@pytest.mark.parametrize(("collective", "name", "ports"), TABLES, ids=str)
@pytest.mark.parametrize("n", range(3, 9))
def test_optimum_complexity(collective: str, name: str, ports: PortModel, n: int) -> None:
    """With packets of B_opt a run costs T_min = transfer t_c + start-ups tau, and with smaller ones more."""
    best, transfer, startups = TABLES[collective, name, ports](n, Fraction(2**n))
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


# --- the hypercube computer ------------------------------------------------------------------------------------------


def milliseconds(size: int) -> float:
    """Return a hop in external packets of up to 16 KiB; the operating system cuts each into internal ones of 1 KiB."""
    external, internal = ceil(size / 16384), ceil(size / 1024)
    return 8 * external + 6 * (internal - external) + 8 * size / 10**4


def test_predicted_broadcasts_of_the_ipsc() -> None:
    """Figures 16 and 17, as far as the text defines them: SBT against nESBT with packets of 1 KiB."""
    found = golden("ipsc_broadcast_prediction")
    assert len(found) == 50
    for row in found:
        n, packets = int(row["n"]), int(row["P=packets"])
        assert milliseconds(int(row["packet_bytes"])) == pytest.approx(float(row["ms_per_packet_and_hop"]))
        cycles = {}
        for key, name, ports in (
            ("SBT_cycles", "sbt", PortModel.EXCHANGE),
            ("nESBT_cycles_exchange", "nesbt", PortModel.EXCHANGE),
            ("nESBT_cycles_send_or_receive", "nesbt", PortModel.SEND_OR_RECEIVE),
        ):
            values = {"message_bytes": 1024 * packets, "segments": packets, "packet_limit": 1024}
            cycles[key] = claimed(spec(n, Collective.BROADCAST, name, ports, **values))["startups"]
            assert cycles[key] == int(row[key])
        speedup = cycles["SBT_cycles"] / cycles["nESBT_cycles_exchange"]  # type: ignore[operator]  # both are numbers
        assert speedup == pytest.approx(float(row["speedup_exchange"]), abs=1e-4)


def test_predicted_packet_sizes_of_the_ipsc() -> None:
    """Figure 15: SBT by the size of its external packets."""
    found = golden("ipsc_fig15_prediction")
    assert len(found) == 135
    for row in found:
        n, packet = int(row["n"]), int(row["external_packet_bytes"])
        total, packets = int(column(row, "total_bytes")), int(row["packets"])
        wanted = spec(n, Collective.BROADCAST, "sbt", PortModel.EXCHANGE, message_bytes=total, segments=packets)
        assert packets == ceil(total / packet)
        assert claimed(wanted)["steps"] == n * packets
        last = total - (packets - 1) * packet
        predicted = n * ((packets - 1) * milliseconds(packet) + milliseconds(last))
        assert predicted == pytest.approx(float(row["SBT_broadcast_ms_predicted"]), abs=0.01)


def test_predicted_scatters_and_allgathers_of_the_ipsc() -> None:
    """Figures 18 and 19."""
    found = golden("ipsc_other_prediction")
    assert len(found) == 20
    for row in found:
        n, size = int(row["n"]), int(row["M_bytes"])

        def time(collective: Collective, name: str, ports: PortModel, n: int = n, size: int = size) -> float:
            metrics = play(spec(n, collective, name, ports, message_bytes=size)).metrics
            return sum(milliseconds(load) for load in metrics["heaviest_link_bytes_per_step"])

        values = [float(value) for value in list(row.values())[2:]]
        both_ways = 2 * time(Collective.ALLGATHER, "brg-ring", PortModel.ALL_PORT)
        assert [
            time(Collective.ALLGATHER, "sbt", PortModel.EXCHANGE),
            time(Collective.ALLGATHER, "brg-ring", PortModel.ONE_PORT),
            both_ways,
            time(Collective.SCATTER, "sbt-gray", PortModel.EXCHANGE),
            time(Collective.SCATTER, "sbt", PortModel.EXCHANGE),
        ] == pytest.approx(values, abs=0.06)
