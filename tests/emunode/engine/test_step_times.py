"""The beginnings of steps in the virtual time of lock-step, against sums by hand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emunode.engine.step_times import LOCK_STEP_TIMES, StepTimes

DURATIONS = st.lists(st.integers(1, 9), max_size=8)


@given(DURATIONS, st.integers(1, 20))
def test_a_step_begins_when_all_earlier_steps_have_ended(durations: list[int], step: int) -> None:
    longest = max(durations, default=1)
    padded = [*durations, *[longest] * 20]
    assert StepTimes(durations).begins(step) == sum(padded[: step - 1])


@given(DURATIONS, st.integers(0, 120))
def test_a_time_lies_in_the_last_step_that_has_begun(durations: list[int], time: int) -> None:
    times = StepTimes(durations)
    step = times.step_at(time)
    assert times.begins(step) <= time < times.begins(step + 1)


@pytest.mark.parametrize(("durations", "longest"), [([], 1), ([0, 0], 1), ([3, 7, 2], 7)])
def test_the_longest_step_is_never_empty(durations: list[int], longest: int) -> None:
    assert StepTimes(durations).longest == longest


@pytest.mark.parametrize("step", [1, 2, 1000])
def test_in_lock_step_a_step_is_its_own_time(step: int) -> None:
    assert LOCK_STEP_TIMES.begins(step) == LOCK_STEP_TIMES.step_at(step) == step


@given(DURATIONS, st.integers(1, 20), st.integers(0, 9))
def test_steps_begin_later_with_the_first_one(durations: list[int], step: int, first: int) -> None:
    assert StepTimes(durations, first).begins(step) == StepTimes(durations).begins(step) + first
