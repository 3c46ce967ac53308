"""The common part of all ranks under the timed clock: incarnations, times of action, and costs without zeros."""

from collections.abc import Sequence

import pytest

from emunode.algorithms.base import LocalView
from emunode.faults.effects import ALWAYS, Interval
from emunode.faults.in_time import FaultsInTime
from emunode.timed.cost_model import LinearCostModel
from emunode.timed.rank import Actions, Arrival, EventPolicy, Incarnation, Policy, PositiveCosts, TimedRank
from emunode.topologies.registry import parse_topology
from tests.emunode.timed.test_faults_in_time import ONE_MS, made

VIEW = LocalView(parse_topology("hypercube:3"), 0)


def incarnation(starts: int, crashes: int, *hangs: tuple[int, int]) -> Incarnation:
    return Incarnation(VIEW, starts, crashes, [Interval(*hang) for hang in hangs])


def test_an_incarnation_keeps_its_own_hangs() -> None:
    node = incarnation(10, 50, (3, 7), (10, 12), (49, 60), (50, 55))
    assert node.hangs == [(10, 12), (49, 60)]


@pytest.mark.parametrize(
    ("now", "time", "bounded"),
    [(0, 5, 5), (0, 100, 20), (20, 100, 20), (25, 100, 25), (31, 100, 50), (31, 40, 40), (45, 40, 45)],
)
def test_a_receipt_comes_before_the_next_fault(now: int, time: int, bounded: int) -> None:
    """A hang from 20 to 30, and a crash at 50; no receipt lies before the present."""
    assert incarnation(0, 50, (20, 30)).before_fault(now, time) == bounded


@pytest.mark.parametrize(
    ("times", "now", "awake"),
    [
        ([], 0, None),
        ([7, 9], 0, 7),
        ([7, 9], 7, 8),
        ([7], 12, 13),
        ([20], 0, 20),
        ([25], 0, 30),
        ([30], 0, 30),
        ([50], 0, 50),
        ([51], 0, None),
        ([ALWAYS], 0, None),
        ([1], -1, 5),
    ],
)
def test_a_rank_acts_at_the_first_time_at_which_it_is_awake(times: Sequence[int], now: int, awake: int | None) -> None:
    """A node from 5 to 50 that hangs from 20 to 30; the present time never comes again."""
    assert EventPolicy._awake(incarnation(5, 50, (20, 30)), times, now) == awake


def test_a_node_without_a_crash_never_acts_at_the_end_of_time() -> None:
    assert EventPolicy._awake(incarnation(0, ALWAYS), [ALWAYS], 0) is None
    assert EventPolicy._awake(incarnation(0, ALWAYS, (20, ALWAYS)), [25], 0) is None


def test_a_packet_that_costs_nothing_takes_a_nanosecond() -> None:
    assert LinearCostModel(0.0, 0.0).nanoseconds(64) == 0
    assert PositiveCosts(0.0, 0.0).nanoseconds(64) == 1
    assert PositiveCosts(1e-3, 1e-6).nanoseconds(64) == LinearCostModel(1e-3, 1e-6).nanoseconds(64)


class Alternating(Policy):
    """A policy that acts twice, and records its calls."""

    next_work = next_time = 3

    def act(self, now: int, arrivals: Sequence[Arrival], missing: Sequence[int], actions: Actions) -> None:
        actions.receipts.extend((now, port, step, now) for port, step, _ in arrivals)
        self.next_work, self.next_time = None, 5 if now < 5 else None  # type: ignore[assignment]


def test_a_rank_asks_its_policy_for_its_next_times() -> None:
    algorithm = made("hypercube:3", "broadcast", "sbt")
    policy = Alternating(6, algorithm, ONE_MS, FaultsInTime(algorithm.topology, 0, ()))
    rank = TimedRank(policy)
    assert (rank.rank, rank.next_work, rank.next_time, rank.patience) == (6, 3, 3, 0)
    assert rank.act(3, [(1, 2, ())]).receipts == [(3, 1, 2, 3)]
    assert (rank.next_work, rank.next_time) == (None, 5)
    assert rank.act(5, []).receipts == []
    assert rank.next_time is None
