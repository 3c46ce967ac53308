"""Ranks that run free under the timed clock without faults: the history of lock-step, and refused packets."""

from heapq import heappop, heappush
from random import Random

import pytest

from coordinator.history.lateness import judge_times
from coordinator.history.timetable import Timetable
from emunode.algorithms.base import Algorithm, LocalView
from emunode.engine.node import Node
from emunode.errors import FrameError
from emunode.model import Packet, PortModel
from emunode.net.wire import ROW, TIME, encode_rows
from emunode.timed.cost_model import LinearCostModel, PortOccupancy
from emunode.timed.fault_free_rank import FaultFreeRank
from emunode.timed.hosted_rank import RankProgress
from tests.emunode.timed.timetable_support import CASES, MS, algorithm_of, timetable_of


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


@pytest.mark.parametrize("case", CASES)
def test_free_nodes_make_the_history_of_lockstep(
    case: str,
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
    case = "hypercube:3 broadcast sbt segments=60"
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
