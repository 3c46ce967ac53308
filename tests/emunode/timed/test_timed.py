"""The arithmetic of the timed clock, and nodes that run free under it; no clock, no socket."""

from collections.abc import Iterator
from heapq import heappop, heappush
from random import Random

import polars as pl
import pytest

from coordinator.history.lateness import judge_times
from coordinator.history.timetable import Timetable, make_timetable
from emunode.algorithms.base import Algorithm, LocalView
from emunode.algorithms.registry import make_algorithm
from emunode.engine.memory import MemoryEngine
from emunode.engine.node import Node
from emunode.errors import FrameError
from emunode.model import Collective, CollectiveSpec, Packet, PortModel
from emunode.net.wire import ROW, TIME, encode_rows
from emunode.timed.cost_model import LinearCostModel, PortOccupancy
from emunode.timed.fault_free_rank import FaultFreeRank
from emunode.timed.hosted_rank import RankProgress
from emunode.topologies.registry import parse_topology

MS = 1_000_000


# --- costs and ports -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("costs", "size", "nanoseconds"),
    [
        (LinearCostModel(5e-3, 1e-6), 64, 5_064_000),
        (LinearCostModel(5e-3, 1e-6), 0, 0),
        (LinearCostModel(8e-3, 8e-7, 1024), 1024, 8_819_200),
        (LinearCostModel(8e-3, 8e-7, 1024), 1025, 16_820_000),
        (LinearCostModel(0.0, 1e-9), 7, 7),
        (LinearCostModel(1e-3, 0.0), 2**20, MS),
    ],
)
def test_cost_of_a_packet(costs: LinearCostModel, size: int, nanoseconds: int) -> None:
    assert costs.nanoseconds(size) == nanoseconds


def test_a_busy_port_sends_one_packet_after_the_other() -> None:
    ports = PortOccupancy(PortModel.ALL_PORT, 3)
    assert [ports.depart(1, port, 5) for port in range(3)] == [0, 0, 0]
    assert ports.depart(2, 1, 7) == 5
    assert ports.depart(3, 1, 1) == 12


def test_all_ports_receive_at_once_until_the_last_receipt() -> None:
    ports = PortOccupancy(PortModel.ALL_PORT, 3)
    assert [ports.arrive(1, deadline, 5) for deadline in (9, 5, 5)] == [9, 5, 5]
    assert ports.depart(2, 0, 5) == 9


def test_over_one_port_sends_and_receipts_follow_each_other() -> None:
    ports = PortOccupancy(PortModel.ONE_PORT, 3)
    assert ports.depart(1, 0, 5) == 0
    assert ports.arrive(1, 5, 5) == 5
    assert ports.depart(2, 1, 20) == 5
    assert ports.arrive(2, 8, 5) == 10, "its sender began at 3, when this node was still receiving"
    assert ports.arrive(3, 11, 5) == 15, "though it is sending until 25"
    assert ports.depart(4, 2, 5) == 25


@pytest.mark.parametrize("model", [PortModel.EXCHANGE, PortModel.SEND_OR_RECEIVE])
def test_single_neighbour_models_receive_after_earlier_sends(model: PortModel) -> None:
    ports = PortOccupancy(model, 3)
    assert ports.depart(1, 0, 20) == 0
    assert ports.arrive(2, 7, 5) == 25
    assert ports.depart(3, 1, 5) == 25


def test_an_exchange_goes_both_ways_at_once() -> None:
    ports = PortOccupancy(PortModel.EXCHANGE, 3)
    assert ports.depart(1, 0, 20) == 0
    assert ports.arrive(1, 20, 20) == 20
    assert ports.depart(2, 1, 20) == 20
    assert ports.arrive(2, 40, 20) == 40


# --- the timetable ---------------------------------------------------------------------------------------------------

CASES = [
    ("star:4", Collective.ALLGATHER, "hamiltonian-cycle", PortModel.ONE_PORT, {}),
    ("star:4", Collective.ALLGATHER, "rotated-trees", PortModel.ALL_PORT, {"segments": 2}),
    ("star:4", Collective.BROADCAST, "greedy-tree", PortModel.ALL_PORT, {"segments": 3}),
    ("star:4", Collective.REDUCE, "greedy-tree", PortModel.ALL_PORT, {"segments": 3}),
    ("hypercube:4", Collective.BROADCAST, "nesbt", PortModel.EXCHANGE, {"segments": 9}),
    ("hypercube:4", Collective.BROADCAST, "nesbt", PortModel.SEND_OR_RECEIVE, {"segments": 9}),
    ("hypercube:4", Collective.BROADCAST, "sbt", PortModel.ONE_PORT, {"segments": 5}),
    ("hypercube:4", Collective.SCATTER, "sbt", PortModel.ONE_PORT, {}),
    ("hypercube:4", Collective.GATHER, "sbnt", PortModel.ALL_PORT, {}),
    ("hypercube:3", Collective.ALLTOALL, "sbt", PortModel.ALL_PORT, {"message_bytes": 5}),
    ("ej:3+4", Collective.ALLGATHER, "three-phase", PortModel.ALL_PORT, {}),
    ("ej:3+4", Collective.BROADCAST, "flood", PortModel.ALL_PORT, {"segments": 2}),
]
IDS = [f"{name}-{collective}-{algorithm}-{ports}" for name, collective, algorithm, ports, _ in CASES]


def algorithm_of(case: tuple[str, Collective, str, PortModel, dict[str, int]]) -> Algorithm:
    name, collective, algorithm, ports, more = case
    topology = parse_topology(name)
    return make_algorithm(topology, CollectiveSpec(name, collective, algorithm, 0, ports, **more))  # type: ignore[arg-type]


def history(algorithm: Algorithm, limit: int = 10**6) -> tuple[list[bytearray], bool]:
    """Rows of lock-step, and whether that was all."""
    network, rows = MemoryEngine(algorithm), []
    for step in range(1, limit + 2):
        rows.append(network.step(step))
        if not network.busy:
            return rows, True
    return rows, False


def timetable_of(algorithm: Algorithm, costs: LinearCostModel, limit: int = 10**6) -> tuple[Timetable, list[bytearray]]:
    rows, complete = history(algorithm, limit)
    model, degree = algorithm.spec.port_model, algorithm.topology.degree
    return make_timetable(rows, model, degree, costs, complete), rows


def lockstep(timetable: Timetable, costs: LinearCostModel) -> int:
    """Virtual time of lock-step: the heaviest packets, step by step."""
    heaviest = timetable.packets.group_by("step").agg(pl.col("bytes").max())["bytes"]
    return sum(costs.nanoseconds(size) for size in heaviest)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_no_packet_is_later_than_in_lockstep(case: tuple[str, Collective, str, PortModel, dict[str, int]]) -> None:
    algorithm, costs = algorithm_of(case), LinearCostModel(1e-3, 1e-6, 50)
    timetable, _ = timetable_of(algorithm, costs)
    begins = {0: 0}
    for step, size in timetable.packets.group_by("step").agg(pl.col("bytes").max()).sort("step").iter_rows():
        begins[step] = max(begins.values()) + costs.nanoseconds(size)
    for step, end in timetable.packets.select("step", "end").iter_rows():
        assert end <= begins[step]
    if timetable.packets["bytes"].n_unique() == 1:
        assert timetable.packets["end"].max() == lockstep(timetable, costs)


def test_packets_of_one_size_take_the_time_of_lockstep() -> None:
    """P + n cycles of one packet each."""
    case = ("hypercube:5", Collective.BROADCAST, "nesbt", PortModel.EXCHANGE, {"segments": 20, "message_bytes": 20480})
    timetable, _ = timetable_of(algorithm_of(case), costs := LinearCostModel(8e-3, 8e-7, 1024))
    assert timetable.packets["end"].max() == 25 * costs.nanoseconds(1024)


# --- free nodes ------------------------------------------------------------------------------------------------------


class Messengers:
    """Free nodes whose packets travel in any order that respects their links: what is left of a network without a clock."""

    def __init__(self, algorithm: Algorithm, timetable: Timetable, costs: LinearCostModel, random: Random) -> None:
        self.topology = topology = algorithm.topology
        self.random = random
        receipts = {rank: memoryview(table).cast("I").tolist() for rank, table in timetable.receipts().items()}
        self.nodes = []
        for rank in topology.ranks():
            node = Node(rank, algorithm, algorithm.rule(LocalView(topology, rank)))
            ports = PortOccupancy(algorithm.spec.port_model, topology.degree)
            self.nodes.append(FaultFreeRank(node, ports, costs, receipts.get(rank, []), timetable.steps))
        self.rows = bytearray()
        self.times: list[bytes] = []
        self.crossing: list[tuple[float, int, int, int, int, int, Packet]] = []

    def run(self) -> None:
        for rank, node in enumerate(self.nodes):
            self._note(rank, node.advance())
        while self.crossing:
            _, rank, port, step, start, deadline, segments = heappop(self.crossing)
            receiver, back = self.topology.end(rank, port)
            self.times.append(TIME.pack(step, rank, port, 0, start, start))
            for whose, progress in (
                (rank, self.nodes[rank].departed()),
                (receiver, self.nodes[receiver].arrive(step, back, deadline, segments)),
            ):
                if progress is not None:
                    self._note(whose, progress)

    def _note(self, rank: int, progress: RankProgress) -> None:
        receipts, departures, judged, *_ = progress
        peers, reverse = self.topology.neighbours(rank), self.topology.reverse_ports(rank)
        for received, port, step, _ in receipts:
            self.times.append(TIME.pack(step, peers[port], reverse[port], 1, received, received))
        for start, deadline, port, step, segments in departures:
            heappush(self.crossing, (self.random.random(), rank, port, step, start, deadline, segments))
        for step, hops in judged:
            encode_rows(self.rows, step, rank, peers, 0, reverse, hops)


def sorted_rows(rows: bytes) -> list[tuple[int, ...]]:
    return sorted(ROW.iter_unpack(rows))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_free_nodes_make_the_history_of_lockstep(
    case: tuple[str, Collective, str, PortModel, dict[str, int]],
) -> None:
    """However the packets of different links overtake each other on the way."""
    algorithm, costs = algorithm_of(case), LinearCostModel(1e-3, 1e-6, 50)
    timetable, rows = timetable_of(algorithm, costs)
    for seed in range(3):
        messengers = Messengers(algorithm, timetable, costs, Random(seed))
        messengers.run()
        assert all(node.done for node in messengers.nodes)
        assert sorted_rows(bytes(messengers.rows)) == sorted_rows(b"".join(rows))
        judged = judge_times(timetable, messengers.times)
        assert judged.unexpected is None
        assert judged.metrics["intended_seconds"] == judged.metrics["achieved_seconds"]


def test_after_the_step_limit_nothing_is_sent() -> None:
    algorithm, costs = algorithm_of(CASES[0]), LinearCostModel(1e-3, 0.0)
    timetable, _ = timetable_of(algorithm, costs, limit=7)
    assert (timetable.complete, timetable.steps) == (False, 7)
    messengers = Messengers(algorithm, timetable, costs, Random(0))
    messengers.run()
    assert all(node.done for node in messengers.nodes)
    assert {row[0] for row in sorted_rows(bytes(messengers.rows))} == set(range(1, 8))


def test_a_source_does_not_make_all_packets_at_once() -> None:
    case = ("hypercube:3", Collective.BROADCAST, "sbt", PortModel.ALL_PORT, {"segments": 60})
    algorithm, costs = algorithm_of(case), LinearCostModel(1e-3, 0.0)
    timetable, _ = timetable_of(algorithm, costs)
    source = Messengers(algorithm, timetable, costs, Random(0)).nodes[0]
    assert len(source.advance()[1]) == 3
    assert source.departed() is None
    assert source.departed() is None
    progress = source.departed()
    assert progress is not None
    assert [(start, step) for start, _, _, step, _ in progress[1]] == [(MS, 2)] * 3


def packet() -> Packet:
    return ((0, -1, 0, 0, b"x" * 64),)


@pytest.mark.parametrize(
    ("steps", "complaint"), [([9], "waits for step 1"), ([1, 1], "waits for step"), ([0], "step 0")]
)
def test_a_packet_that_the_timetable_does_not_have_is_refused(steps: list[int], complaint: str) -> None:
    algorithm, costs = algorithm_of(CASES[2]), LinearCostModel(1e-3, 0.0)
    rule = algorithm.rule(LocalView(algorithm.topology, 1))
    node = FaultFreeRank(Node(1, algorithm, rule), PortOccupancy(PortModel.ALL_PORT, 3), costs, [1], 6)
    *fine, wrong = steps
    for step in fine:
        node.arrive(step, 0, MS, packet())
    with pytest.raises(FrameError, match=complaint):
        node.arrive(wrong, 0, MS, packet())


# --- what hosts tell -------------------------------------------------------------------------------------------------


def told(timetable: Timetable) -> Iterator[tuple[int, int, int, int, int, int]]:
    yield from TIME.iter_unpack(timetable.times())


@pytest.fixture(scope="module")
def ring() -> Timetable:
    return timetable_of(algorithm_of(CASES[0]), LinearCostModel(1e-3, 0.0))[0]


def test_punctual_times_have_no_lateness(ring: Timetable) -> None:
    judged = judge_times(ring, [ring.times()])
    assert judged.unexpected is None
    assert (
        judged.metrics["lateness_ratio"]
        == judged.metrics["worst_lateness_seconds"]
        == judged.metrics["early_hops"]
        == 0
    )
    assert judged.metrics["intended_seconds"] == pytest.approx(0.023)
    assert judged.metrics["packets_per_ms"] == pytest.approx(24)


def test_lateness_is_measured(ring: Timetable) -> None:
    """Everything a tenth of a millisecond late, the last receipt a whole one more."""
    times = [TIME.pack(*row[:5], row[5] + 100_000 + MS * (row[0] == 23 and row[3] == 1)) for row in told(ring)]
    metrics = judge_times(ring, times).metrics
    assert metrics["achieved_seconds"] == pytest.approx(0.0241)
    assert metrics["lateness_ratio"] == pytest.approx(1.1 / 23)
    assert metrics["worst_lateness_seconds"] == pytest.approx(1.1e-3)
    assert metrics["mean_lateness_seconds"] == pytest.approx(1e-4 + 1e-3 / 46)


def test_early_packets_are_counted(ring: Timetable) -> None:
    first, *rest = [TIME.pack(*row) for row in told(ring) if row[4]]
    row = TIME.unpack(first)
    metrics = judge_times(ring, [TIME.pack(*row[:5], row[5] - 1), *rest]).metrics
    assert metrics["early_hops"] == 1


def test_other_times_than_those_of_the_timetable_are_found(ring: Timetable) -> None:
    first, *rest = [TIME.pack(*row) for row in told(ring)]
    row = TIME.unpack(first)
    judged = judge_times(ring, [TIME.pack(*row[:4], row[4] + 1, row[5] + 1), *rest])
    assert judged.unexpected == "1 packets had other intended times than the timetable"


def test_packets_that_never_arrived_are_found(ring: Timetable) -> None:
    judged = judge_times(ring, [TIME.pack(*row) for row in told(ring) if not (row[0] == 23 and row[3] == 1)])
    assert judged.unexpected == "24 packets of 552 never arrived"
    assert judge_times(ring, []).metrics["achieved_seconds"] == 0
