"""The times when steps begin: nanoseconds, or in lock-step the steps themselves."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from emunode.model import Step


class StepTimes:
    """The beginnings of the steps of a run, from the duration of each and the beginning of step 1."""

    def __init__(self, durations: Sequence[int], first: int = 0) -> None:
        self.durations = durations
        self._begins = [*accumulate(durations, initial=first)]
        # At least 1, because `step_at` divides by it.
        self.longest = max(durations, default=0) or 1
        """The duration of the longest step, and of every step after the last one."""

    def begins(self, step: Step) -> int:
        """Return the beginning of a step."""
        last = len(self._begins)
        return self._begins[step - 1] if step <= last else self._begins[-1] + (step - last) * self.longest

    def step_at(self, time: int) -> Step:
        """Return the step that contains `time`; where one step ends and the next begins, the later step."""
        # Steps beyond the last one exist under faults; all are as long as the longest, so their number is a division.
        beyond = time - self._begins[-1]
        return bisect_right(self._begins, time) if beyond < 0 else len(self._begins) + beyond // self.longest


LOCK_STEP_TIMES: Final = StepTimes((), first=1)
"""In lock-step a step is its own time."""
