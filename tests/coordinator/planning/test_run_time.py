"""The time of a run without faults, against a run under the timed clock."""

import pytest

from coordinator.planning.run_time import run_time_of
from tests.scenarios import Case


@pytest.mark.parametrize("line", ["hypercube:3 broadcast sbt", "star:4 scatter balanced-tree", "ej:1+2 allgather bfb"])
def test_it_is_the_end_of_the_last_packet(line: str) -> None:
    case = Case(f"{line} clock=timed startup=1ms per_byte=10us")
    work_out = run_time_of(case.scenario)
    assert work_out is not None
    nanoseconds = work_out(case.plan.algorithm)
    assert nanoseconds == pytest.approx(float(case.summary["intended_seconds"]) * 1e9)


def test_a_broadcast_takes_its_steps_one_after_the_other() -> None:
    case = Case("hypercube:3 broadcast sbt clock=timed startup=2ms per_byte=0s")
    work_out = run_time_of(case.scenario)
    assert work_out is not None
    assert work_out(case.plan.algorithm) == 3 * 2_000_000


def test_lock_step_has_no_time() -> None:
    assert run_time_of(Case("hypercube:3 broadcast sbt").scenario) is None
