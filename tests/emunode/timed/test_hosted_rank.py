"""Ranks with protocols on hosts: unknown packets, the step limit, and nodes that are created late."""

import pytest

from emunode.algorithms.registry import make_algorithm
from emunode.errors import FrameError
from emunode.faults.effects import ALWAYS
from emunode.faults.in_time import FaultsInTime
from emunode.model import Collective, CollectiveSpec, ReliableLinks
from emunode.timed.hosted_rank import HostedRank
from emunode.timed.memory_engine import TimedMemoryEngine
from emunode.timed.rank import TimedRank
from emunode.timed.step_times import StepTimes
from emunode.timed.through_protocol import RunTimes, ThroughProtocol
from emunode.topologies.registry import parse_topology
from tests.emunode.timed.protocol_support import EIGHTH, MS, STOP_AND_WAIT, data, predicted


def test_a_packet_that_is_not_in_the_list_is_refused() -> None:
    topology = parse_topology("mesh:2")
    algorithm = make_algorithm(
        topology, CollectiveSpec("mesh:2", Collective.BROADCAST, "bfs-tree", 0, reliable=STOP_AND_WAIT)
    )
    times = RunTimes(StepTimes([MS]), 100 * MS)
    rank = TimedRank(ThroughProtocol(1, algorithm, EIGHTH, FaultsInTime(topology, 0, ()), times))
    node = HostedRank(rank, [5 * MS], cutoff=times.cutoff)
    segment = (0, -1, 0, 0, algorithm.payloads.segment(0, -1, 0))
    with pytest.raises(FrameError, match="waits for one at 5000000"):
        node.arrive(1, 0, 4 * MS, (segment,))
    progress = node.arrive(1, 0, 5 * MS, (segment,))
    assert progress.receipts == [(5 * MS, 0, 1, 5 * MS)]
    assert len(progress.departures) == node.pending == 1, "its acknowledgement"
    assert node.done
    with pytest.raises(FrameError, match="waits for none"):
        node.arrive(2, 0, 6 * MS, (segment,))


def test_the_step_limit_ends_a_run_whose_time_outs_go_on() -> None:
    timetable = predicted("mesh:2", "crash:1@0s", ReliableLinks(2 * MS, 1000), limit=10)
    assert not timetable.complete
    assert data(timetable)["start"].max() == 8 * MS


def test_nodes_are_created_when_they_are_needed() -> None:
    topology = parse_topology("hypercube:20")
    spec = CollectiveSpec("hypercube:20", Collective.UNICAST, "minimal", 0, target=3, reliable=STOP_AND_WAIT)
    engine = TimedMemoryEngine(make_algorithm(topology, spec), (), EIGHTH, StepTimes([MS]), 100)
    for step in range(1, 20):
        engine.step(step)
    assert not engine.busy
    assert len(engine.packets) == 4
    assert engine.history.horizon == ALWAYS
