"""Losses where thread blocks wait for lost messages: against an independent interpreter, in random orders."""

from pathlib import Path

import pytest

import coordinator as tb
from coordinator.annexes.schedules.formats.msccl import msccl_file
from coordinator.annexes.schedules.outages import StepOutages
from coordinator.annexes.schedules.stalling import stalled_run
from emunode.errors import ScenarioError
from tests.annexes.schedules.support import FOLDER, RIGHT, RandomOutage, StallingGpus


@pytest.mark.parametrize("path", RIGHT, ids=lambda path: path.stem)
def test_random_outages_cost_what_waits_for_them(path: Path) -> None:
    program = msccl_file(path.read_bytes()).program
    harmful = 0
    for seed in range(25):
        outage = RandomOutage(seed, len(program.gpus))
        faulty = {outage.one} if outage.of_gpu else set()
        found = stalled_run(program, StepOutages(outage.stops, outage.blocks, [outage.after]), faulty)
        assert found.lost == StallingGpus(program, seed, outage).lost
        harmful += found.lost_count > 0
    assert harmful


def test_a_dead_gpu_stops_those_that_wait_for_it() -> None:
    schedule = tb.schedule(FOLDER / "allgather-ring-4.xml")
    found = schedule.stalled("crash:1@2")
    # 1 has sent its own chunk in step 1, and passes on neither the chunk of 0 nor the chunk of 3.
    assert found.lost == {2: [("o", 0), ("o", 3)], 3: [("o", 0)]}
    assert (found.expected, found.lost_count, found.stalled) == (12, 3, 2)
    assert found.first == "gpu 2, tb 0, step 2 waits for a message from 1 on channel 0"


def test_a_long_outage_takes_no_longer_than_a_short_one() -> None:
    schedule = tb.schedule(FOLDER / "allgather-ring-4.xml")
    # The gpu goes on after the outage, and no message was lost before it sent.
    short, long = (schedule.stalled(f"hang:1@1-{end}") for end in (9, 10**8))
    assert short == long


def test_a_timetable_loses_less_than_thread_blocks_that_wait() -> None:
    # The chunk of 0 is lost on its way to 1: by a timetable 1 passes on what comes later, here it waits for ever.
    schedule = tb.schedule(FOLDER / "allgather-ring-4.xml")
    summary = schedule.run(faults="down:0>1@1-1").data.summary
    assert summary["expected_deliveries"] - summary["intact_deliveries"] == 3
    assert schedule.stalled("down:0>1@1-1").lost_count == 6


def test_losses_are_refused_where_nothing_waits() -> None:
    with pytest.raises(ScenarioError, match="te-ccl has no thread blocks"):
        tb.schedule(FOLDER / "teccl-allgather-ring-4.json").stalled("crash:1@2")
    with pytest.raises(ScenarioError, match="under crash, hang, down and silence only"):
        tb.schedule(FOLDER / "allgather-ring-4.xml").stalled("loss:0~1:0.5")
