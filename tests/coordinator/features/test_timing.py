"""Times of packets that protocols count on, against the packets of runs under the timed clock."""

import pytest

from coordinator.features.timing import bound_on_packets, control_packet, longest_news, longest_packet
from tests.helpers.scenarios import Case

TIMED = "clock=timed startup=1ms per_byte=1us"
MILLISECOND = 1_000_000


def test_a_packet_takes_a_start_up_and_the_time_of_its_bytes() -> None:
    case = Case(f"hypercube:3 broadcast sbt {TIMED} message_bytes=500")
    assert longest_packet(case.scenario, case.plan.algorithm) == int(1.5 * MILLISECOND)
    assert bound_on_packets(case.scenario, case.plan.algorithm) == int(1.5 * MILLISECOND)
    assert MILLISECOND < control_packet(case.scenario) < int(1.1 * MILLISECOND)


@pytest.mark.parametrize(
    ("topology", "links", "nodes"), [("hypercube:3", 12, 8), ("star:4", 36, 24), ("mesh:2x3", 7, 6)]
)
def test_news_hold_every_link_and_every_node_once(topology: str, links: int, nodes: int) -> None:
    case = Case(f"{topology} broadcast bfs-tree {TIMED}")
    one = control_packet(case.scenario) - MILLISECOND
    assert longest_news(case.scenario, case.plan.topology) == MILLISECOND + (links + nodes) * one


@pytest.mark.parametrize(
    "line", ["star:3 allgather rotated-trees", "ej:1+2 allgather three-phase", "star:3 alltoall edt"]
)
def test_no_packet_of_a_run_exceeds_the_bound(line: str) -> None:
    case = Case(f"{line} {TIMED} messages=2")
    sizes = case.journal.group_by("step", "sender", "port").sum()["bytes"].to_list()
    longest = MILLISECOND + 1000 * max(sizes)
    assert longest <= bound_on_packets(case.scenario, case.plan.algorithm)
    known = longest_packet(case.scenario, case.plan.algorithm)
    assert known is None or longest <= known
