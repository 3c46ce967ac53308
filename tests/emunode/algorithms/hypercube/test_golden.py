"""Every expected number of Johnsson and Ho's algorithms: measured in runs, and as the algorithms themselves claim it."""

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import ceil, comb

import numpy as np
import pytest

from emunode.algorithms.base import Algorithm
from emunode.algorithms.claims import Value
from emunode.algorithms.hypercube.schedule import CubeDissemination
from emunode.algorithms.registry import make_algorithm
from emunode.model import Collective, CollectiveSpec, PortModel, Rank
from tests.hypercube_support import PORTS, TREES, CubeRun, cube, golden, play, spec

Row = dict[str, str]
SIZES = [2, 3, 4, 5, 6]
LARGEST_IS_SLOW = [*SIZES[:-1], pytest.param(SIZES[-1], marks=pytest.mark.slow)]
PER_CYCLE = "per_cycle_max_measured"


def column(row: Row, prefix: str) -> str:
    """Return the value of the one column whose name begins so."""
    (name,) = (name for name in row if name.startswith(prefix))
    return row[name]


def predictions(algorithm: Algorithm) -> dict[str, Value]:
    """Return the claims of an algorithm with the relation `==`."""
    return {claim.name: claim.predicted for claim in algorithm.claims() if claim.relation == "=="}


def claimed(wanted: CollectiveSpec) -> dict[str, Value]:
    return predictions(make_algorithm(cube(wanted.topology), wanted))


def parts(graph: str, n: int) -> int:
    return TREES[graph] or n


# --- loads, cycle by cycle -------------------------------------------------------------------------------------------

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


@pytest.mark.parametrize("n", [*SIZES, 7])
def test_scatter_cycles(n: int) -> None:
    found = golden("scatter_cycles", n=n)
    assert len(found) == {2: 27, 3: 28, 4: 29, 5: 26, 6: 27, 7: 23}[n]
    for row in found:
        check_loads(row, *scatter_job(row, n))


@pytest.mark.parametrize("n", SIZES)
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


# --- broadcast -------------------------------------------------------------------------------------------------------


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
    """First come, first served, by the port of arrival alone; legal in the exchange model, which the nodes watch."""
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
    """The best schedule of all over one port in Q_2 is one cycle faster than nESBT, which is one above the bound."""
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


@pytest.mark.parametrize("row", golden("max_packet_exact_vs_asymptotic"), ids=lambda row: row["n"])
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


@pytest.mark.parametrize("n", SIZES)
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


@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_reversed_allgather_is_a_reduce_scatter(n: int) -> None:
    """No collective here, but the same timetable: backwards, every key ends with every contribution exactly once."""
    found = [row for row in golden("reverse_ops", n=n) if row["problem"] == "reduce-scatter"]
    assert len(found) == 7
    for row in found:
        ports = PORTS[row["port_model"]]
        wanted = spec(n, Collective.ALLGATHER, row["algorithm"].lower(), ports, message_bytes=n)
        algorithm = make_algorithm(cube(wanted.topology), wanted)
        assert isinstance(algorithm, CubeDissemination)
        crossings = sorted(
            (algorithm.last_step - algorithm.offset(rank, tree), tree, rank)
            for tree in range(algorithm.trees.count)
            for rank in range(1, 2**n)
        )
        assert crossings[-1][0] + 1 == int(row["cycles_measured"])
        assert len(crossings) * 2**n == int(row["hops_measured"])
        assert algorithm.trees.count * 2**n == int(row["distinct_messages"])
        # at relative addresses, one key stands for all: who has contributed to what a node holds for tree j
        held = {(tree, rank): Counter([rank]) for tree in range(algorithm.trees.count) for rank in range(2**n)}
        for _, tree, rank in crossings:
            parent = rank ^ 1 << algorithm.trees.parent(rank, tree)
            held[tree, parent] += held.pop((tree, rank))
        assert all(held[tree, 0] == Counter(range(2**n)) for tree in range(algorithm.trees.count))


# --- the hypercube computer ------------------------------------------------------------------------------------------


def milliseconds(size: int) -> float:
    """Return a hop in external packets of up to 16 KiB, each of which the operating system cuts into internal ones of 1
    KiB.
    """
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
