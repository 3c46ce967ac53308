"""The state of a run while it runs: its phase, its steps and its totals, for views and metrics."""

import time
from collections.abc import Callable, Sequence

from coordinator.execution.sinks import FinishedRun
from coordinator.history.counters import RunCounters
from coordinator.networks.base import Progress
from coordinator.planning.plan import Plan


class RunObserver:
    """Follows one run. Its attributes are written by the thread of the run and may be read by others.

    Give the run `progress` and, if its packets are to be counted, `count`. `current_plan` gives the plan of a watched
    run with the faults that were added so far.
    """

    def __init__(self, plan: Plan, current_plan: Callable[[], Plan] | None = None) -> None:
        self.plan = plan
        self.forward: Progress = lambda *_: None
        """Called with all progress, too."""
        self._current_plan = current_plan or (lambda: plan)
        self.restart()

    def restart(self) -> None:
        """Begin to follow a run: the first one, or a branch of the run that has ended."""
        self.counters = RunCounters(self.plan.placement if self.plan.hosts else None)
        self.phase = "setup"
        """`setup`, `running` or `finished`."""
        self.steps = 0
        self.faults = 0
        """Faults that have taken effect."""
        self.hosts = 0
        """Host processes that have joined."""
        self.links = 0
        """Links that are up; 0 in memory."""
        self.elapsed, self.total = 0, 0
        """Under the timed clock with hosts, milliseconds of the run, and how many the timetable has."""
        self.result: FinishedRun | None = None
        self._began = time.monotonic()
        self._seconds: float | None = None

    @property
    def seconds(self) -> float:
        """Time since the start, up to the end of the run."""
        return time.monotonic() - self._began if self._seconds is None else self._seconds

    def count(self, rows: Sequence[bytes | bytearray]) -> None:
        """Count the packets of journal rows."""
        self.counters.add(rows)

    def progress(self, phase: str, done: int, total: int) -> None:
        """Take note of progress, and pass it on."""
        match phase:
            case "hosts joined":
                self.hosts = done
            case "links up":
                self.links = done
            case "steps":
                self.phase = "running"
                self.steps = done
                self.faults += len(self._current_plan().faults_at(done))
            case "milliseconds":
                self.phase = "running"
                self.elapsed, self.total = done, total
        self.forward(phase, done, total)

    def conclude(self, result: FinishedRun) -> None:
        """Take note of the end of the run, and of the facts that only its judgement knows."""
        self._seconds = self.seconds
        self.phase, self.result = "finished", result
        self.steps, self.links = result.execution.steps, result.execution.links_opened
        if result.plan.scenario.clock == "timed":  # its faults are not reported by step
            self.faults = len(result.plan.judged.effective_faults)
