"""The engine of the timed clock in memory: the step limit, ranks that are created late, and rows by steps."""

from emunode.algorithms.registry import make_algorithm
from emunode.engine.step_times import StepTimes
from emunode.faults.effects import ALWAYS
from emunode.model import Collective, CollectiveSpec, ReliableLinks
from emunode.timed.memory_engine import TimedMemoryEngine
from emunode.topologies.registry import parse_topology
from tests.emunode.timed.protocol_support import EIGHTH, MS, STOP_AND_WAIT, data, predicted


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


def test_a_step_does_what_lies_before_its_end() -> None:
    """Two segments down a path of three nodes, a millisecond each, and an eighth for an acknowledgement."""
    topology = parse_topology("mesh:3")
    spec = CollectiveSpec("mesh:3", Collective.BROADCAST, "bfs-tree", 0, message_bytes=64, reliable=STOP_AND_WAIT)
    engine = TimedMemoryEngine(make_algorithm(topology, spec), (), EIGHTH, StepTimes([MS]), 100)
    starts = []
    for step in range(1, 5):
        engine.step(step)
        starts.append([packet.start / MS for packet in engine.packets])
        assert all(packet.start < step * MS for packet in engine.packets)
    # The first segment, then its acknowledgement and the second link, then the acknowledgement of that.
    assert starts == [[0], [0, 1, 1], [0, 1, 1, 2], [0, 1, 1, 2]]
    assert not engine.busy
