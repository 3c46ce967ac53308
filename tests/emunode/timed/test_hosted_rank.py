"""Ranks with protocols on hosts: packets that are not in their lists."""

import pytest

from emunode.algorithms.registry import make_algorithm
from emunode.engine.step_times import StepTimes
from emunode.errors import FrameError
from emunode.faults.in_time import FaultsInTime
from emunode.model import Collective, CollectiveSpec
from emunode.timed.hosted_rank import HostedRank
from emunode.timed.rank import TimedRank
from emunode.timed.through_protocol import RunTimes, ThroughProtocol
from emunode.topologies.registry import parse_topology
from tests.emunode.timed.protocol_support import EIGHTH, MS, STOP_AND_WAIT


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
