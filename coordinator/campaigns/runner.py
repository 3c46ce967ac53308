"""Running trials, in this process or in a pool, with the time left, until they are done or interrupted."""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import TextIO

import trio

from coordinator.campaigns.trial_runner import Trial, TrialResult, TrialRunner, TrialSink
from coordinator.campaigns.worker_pool import WorkerPool
from coordinator.execution.drive import REFUSALS
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.networks.base import Progress
from coordinator.scenario.model import Scenario
from emunode.errors import RunError, ScenarioError
from emunode.logging import logging_to

MIN_POOLED_TRIALS = 300
"""Fewest trials that make starting worker processes pay off."""
SETTLING_SECONDS = 2.0
"""Before this time the rate is too uncertain to show the time left."""


class CampaignRunner:
    """Runs rounds of trials of some scenarios.

    It owns the event loop. `carry_out` may be called again until a call was interrupted.
    """

    def __init__(self, scenarios: Sequence[Scenario], workers: int, log: TextIO, progress: Progress) -> None:
        self._scenarios = scenarios
        self._workers = workers
        self._log = log
        self._progress = progress
        self.interrupted = False
        self.clock = Clock(0, progress)

    def carry_out(self, rounds: Callable[[], Iterable[Trial]], sink: TrialSink, total: int) -> None:
        """Run rounds of trials until `rounds` returns an empty one; `sink` receives each trial as it ends.

        `total` is the most trials there will be, for the time left. Raises EmulatorError if a trial cannot be run.
        """
        with InterruptGuard() as stop, logging_to(self._log):
            try:
                trio.run(self._carry_out, rounds, sink, total, stop)
            except REFUSALS as error:
                raise RunError(f"operating system error: {error}") from error
        self.interrupted = stop.requested

    async def _carry_out(
        self, rounds: Callable[[], Iterable[Trial]], sink: TrialSink, total: int, stop: InterruptGuard
    ) -> None:
        clock = self.clock = Clock(total, self._progress)

        def take(place: int, trial: Trial, result: TrialResult) -> None:
            sink(place, trial, result)
            clock.tick()

        with trio.CancelScope() as scope:
            stop.cancels(scope)
            async with self._trial_runner() as runner:
                while True:
                    trials = iter(rounds())
                    # Whether there are more trials is known only when one is drawn.
                    first = next(trials, None)
                    if first is None:
                        return
                    # The first trial is put back in front of the others.
                    await runner.run(chain([first], trials), take)

    def _trial_runner(self) -> TrialRunner | WorkerPool:
        if self._workers == 1:
            return TrialRunner(self._scenarios, self._log)
        return WorkerPool(self._scenarios, self._workers, self._log)


class Clock:
    """Counts trials and reports the time left at the rate so far. It starts when the first trial has ended."""

    def __init__(self, total: int, progress: Progress) -> None:
        self._total = total
        self._progress = progress
        self._began = 0.0
        self._last = 0.0
        self.done = 0

    @property
    def seconds(self) -> float:
        """Seconds from the end of the first trial to the end of the last."""
        return self._last - self._began

    @property
    def rate(self) -> float | None:
        """Trials per second; None before there are two."""
        # One less than trials: the clock starts at the end of the first, so that start-up does not count.
        return (self.done - 1) / self.seconds if self.seconds else None

    def tick(self) -> None:
        """Count a trial that ended, and show the time left once the rate has settled."""
        self._last = time.monotonic()
        # `or` keeps the first moment.
        self._began = self._began or self._last
        self.done += 1
        if self.rate and self.seconds > SETTLING_SECONDS:
            left = max(0, self._total - self.done) / self.rate
            self._progress(f"about {duration(left)} left, trials", self.done, self._total)


def duration(seconds: float) -> str:
    """Write a time for display: `8 s`, `3 min 20 s`, `2 h 5 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def check_workers(workers: int | None) -> None:
    """Refuse an invalid number of processes."""
    if workers is not None and not 1 <= workers <= 256:
        raise ScenarioError("workers", workers, "a number of processes from 1 to 256")


def worker_count(workers: int | None, scenarios: Sequence[Scenario], trials: int) -> int:
    """Return the number of processes that run trials.

    It is the number requested. By default it is one per core for many trials in memory, and one for others. Raises
    ScenarioError for an invalid number.
    """
    check_workers(workers)
    if workers is not None:
        return workers
    in_memory = all(scenario.driver == "memory" for scenario in scenarios)
    # Pools are for trials in memory: drivers with processes of their own use the cores already.
    return len(os.sched_getaffinity(0)) if in_memory and trials >= MIN_POOLED_TRIALS else 1
