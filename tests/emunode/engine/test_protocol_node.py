"""A node with a protocol, under the timed clock and in lock-step: arrivals, sends that are due, and alarms."""

import pytest

from emunode.algorithms.base import LocalView
from emunode.algorithms.registry import make_algorithm
from emunode.engine.protocol_node import ProtocolNode
from emunode.engine.step_times import StepTimes
from emunode.errors import RuleError
from emunode.model import Collective, CollectiveSpec, HopOutcome, Rank, Segment
from emunode.protocols.base import ControlKind, Protocol, control_segment
from emunode.topologies.registry import parse_topology

PATH = parse_topology("mesh:3")
ALGORITHM = make_algorithm(PATH, CollectiveSpec("mesh:3", Collective.BROADCAST, "bfs-tree", 0, segments=2))
STEPS = StepTimes([10, 20, 30])
"""Steps 1, 2, 3 and 4 begin at 0, 10, 30 and 60."""


class Alarm(Protocol):
    """A protocol that passes everything through, and has one alarm."""

    def __init__(self, alarm: int | None = None) -> None:
        super().__init__()
        self.time = alarm

    @property
    def alarm(self) -> int | None:
        return self.time

    def wake(self, now: int) -> None:
        assert self.time is not None
        assert now >= self.time
        self.time = None


def node_of(rank: Rank, starts: int = 0, alarm: int | None = None) -> ProtocolNode:
    """Return a rank of a broadcast of two segments along a path of three nodes."""
    rule = ALGORITHM.rule(LocalView(PATH, rank))
    node = ProtocolNode(rank, ALGORITHM, rule, Alarm(alarm), starts, STEPS)
    node.skip_to(starts)
    return node


def segment(number: int) -> Segment:
    """Return a segment of the message."""
    return (0, -1, 0, number, ALGORITHM.payloads.segment(0, -1, number))


def leaving(node: ProtocolNode, now: int) -> list[int]:
    """Return the numbers of the segments that may leave, which then leave."""
    found = list(node.ready(now))
    for port, each in found:
        node.sent(now, port, each)
    return [each[3] for _, each in found]


def test_sends_are_handed_over_when_their_steps_begin() -> None:
    node = node_of(0)
    assert node.alarm == 0
    node.submit_due(0)
    assert leaving(node, 0) == [0]
    assert node.alarm == 10
    node.submit_due(9)
    assert leaving(node, 9) == []
    node.submit_due(10)
    assert leaving(node, 10) == [1]
    assert node.alarm is None


def test_the_alarm_is_the_earlier_of_schedule_and_protocol() -> None:
    node = node_of(0, alarm=5)
    node.submit_due(0)
    assert node.alarm == 5
    node.wake(4)
    assert node.alarm == 5, "it is not due"
    node.wake(5)
    assert node.alarm == 10


@pytest.mark.parametrize(("starts", "sent"), [(1, [1]), (10, [1]), (11, [])])
def test_a_node_that_begins_later_misses_earlier_steps(starts: int, sent: list[int]) -> None:
    node = node_of(0, starts)
    node.submit_due(60)
    assert leaving(node, 60) == sent


def test_an_arrival_is_passed_on_in_the_order_of_arrivals() -> None:
    node = node_of(1)
    assert node.alarm is None
    (hops,) = node.receive(35, [(0, (segment(1),))])
    assert [(port, outcome) for port, outcome, _ in hops] == [(0, HopOutcome.FIRST)]
    node.submit_due(35)
    assert leaving(node, 35) == [1]
    (hops,) = node.receive(36, [(0, (segment(0),))])
    assert [outcome for _, outcome, _ in hops] == [HopOutcome.FIRST]
    node.submit_due(36)
    assert leaving(node, 36) == [0]


def test_control_segments_are_recorded_and_kept_from_the_rule() -> None:
    node = node_of(1)
    alive = control_segment(ControlKind.KEEP_ALIVE, 0, 1, 0)
    altered = (*control_segment(ControlKind.REQUEST, 0, 1, 0)[:4], bytes(8))
    for packet in ((alive,), (altered,)):
        (hops,) = node.receive(12, [(0, packet)])
        assert [hop.outcome for hop in hops] == [HopOutcome.CONTROL]
    node.submit_due(12)
    assert (leaving(node, 12), node.alarm) == ([], None)


def test_an_error_of_the_rule_names_rank_and_step(monkeypatch: pytest.MonkeyPatch) -> None:
    node = node_of(1)

    def fail(*_: object) -> None:
        raise KeyError("no such piece")

    monkeypatch.setattr(type(node._rule), "receive", staticmethod(fail))
    with pytest.raises(RuleError, match=r"bfs-tree at rank 1, step 3, line .*KeyError: 'no such piece'"):
        node.receive(30, [(0, (segment(0),))])


def test_a_step_of_lock_step_reads_wakes_and_sends() -> None:
    node = ProtocolNode(1, ALGORITHM, ALGORITHM.rule(LocalView(PATH, 1)), Alarm(4), 1)
    assert node.due == 4
    outbox, hops = node.step(2, [(1, (segment(0),))])
    assert [(port, outcome) for port, outcome, _ in hops] == [(1, HopOutcome.FIRST)]
    assert outbox == [(0, (segment(0),))]
    assert node.due == 4
    assert node.step(4, []) == ([], [])
    assert node.due is None


def test_a_send_beyond_the_capacity_waits_for_the_next_step() -> None:
    node = ProtocolNode(1, ALGORITHM, ALGORITHM.rule(LocalView(PATH, 1)), Alarm(), 1)
    assert ALGORITHM.link_capacity == 1
    assert node.step(3, [(1, (segment(0), segment(1)))])[0] == [(0, (segment(0),))]
    assert node.due == 4
    assert node.step(4, []) == ([(0, (segment(1),))], [])
    assert node.due is None
