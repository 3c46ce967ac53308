"""Timetables beside lock-step, and the lateness of packets that hosts report."""

from collections.abc import Iterator

import polars as pl
import pytest

from coordinator.history.lateness import judge_times
from coordinator.history.timetable import Timetable
from emunode.net.wire import TIME
from emunode.timed.cost_model import LinearCostModel
from tests.emunode.timed.timetable_support import CASES, MS, algorithm_of, timetable_of

# --- the timetable ---------------------------------------------------------------------------------------------------


def lockstep(timetable: Timetable, costs: LinearCostModel) -> int:
    """Virtual time of lock-step: the heaviest packets, step by step."""
    heaviest = timetable.packets.group_by("step").agg(pl.col("bytes").max())["bytes"]
    return sum(costs.nanoseconds(size) for size in heaviest)


@pytest.mark.parametrize("case", CASES)
def test_no_packet_is_later_than_in_lockstep(case: str) -> None:
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
    case = "hypercube:5 broadcast nesbt port_model=exchange segments=20 message_bytes=20480"
    timetable, _ = timetable_of(algorithm_of(case), costs := LinearCostModel(8e-3, 8e-7, 1024))
    assert timetable.packets["end"].max() == 25 * costs.nanoseconds(1024)


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
