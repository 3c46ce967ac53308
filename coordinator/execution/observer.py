"""The state of a run while it runs: its phase, its steps and its totals, for views and metrics."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from coordinator.execution.sinks import FinishedRun
from coordinator.history.journal import RECORD
from coordinator.networks.base import Progress
from coordinator.planning.plan import Plan
from emunode.host.placement import Placement
from emunode.model import CONTROL_TREE, HopOutcome

KEPT_STEPS: Final = 3
"""Rows of a packet come within this many steps: its losses in its own step, its arrivals in the next one."""
STEP_SHIFT, SENDER_SHIFT = 40, 16
"""A packet as one number: step, sender and port."""


class RunCounters:
    """Totals so far. Other threads may read them at any time; each is right at some moment of the last step.

    A packet is the traffic of one directed link in one step, and segments are counted once per hop, as in
    `summary.json`.
    """

    def __init__(self, placement: Placement | None) -> None:
        """Begin at 0; `placement` is the placement of the ranks on hosts, None in memory."""
        self.steps = 0
        """The last step with a packet."""
        self.packets = 0
        self.bytes = 0
        self.outcomes: list[int] = [0] * len(HopOutcome)
        """Segments, by HopOutcome."""
        self.packets_across_hosts = 0
        """Packets between ranks of different hosts."""
        self.received_by_host: NDArray[np.int64] = np.zeros(placement.hosts if placement else 0, dtype=np.int64)
        """Segments that arrived, by the host that runs the receiver."""
        self._host_of: NDArray[np.int32] = np.empty(0, dtype=np.int32)
        """The host of each rank; empty in memory."""
        if placement is not None:
            self._host_of = np.array([placement.host(rank) for rank in range(placement.order)], dtype=np.int32)
        self._recent: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        """The packets of recent steps, sorted, since their rows may come in several parts."""

    @property
    def segments(self) -> int:
        """Segments sent, once per hop."""
        return sum(self.outcomes)

    def add(self, blocks: Iterable[bytes | bytearray]) -> None:
        """Count packed rows, without the rows of acknowledgements and of segments that were not sent."""
        rows = np.frombuffer(b"".join(blocks), dtype=RECORD)
        rows = rows[(rows["tree"] < CONTROL_TREE) & (rows["outcome"] != HopOutcome.WITHHELD)]
        if not len(rows):
            return
        packets = (
            (rows["step"].astype(np.int64) << STEP_SHIFT)
            | (rows["sender"].astype(np.int64) << SENDER_SHIFT)
            | rows["port"].astype(np.int64)
        )
        if len(self._host_of):
            found, first = np.unique(packets, return_index=True)
            new = first[~np.isin(found, self._recent, assume_unique=True)]
            between = self._host_of[rows["sender"][new]] != self._host_of[rows["receiver"][new]]
            self.packets_across_hosts += int(between.sum())
        together = np.union1d(self._recent, packets)
        self.packets += len(together) - len(self._recent)
        self.steps = int(together[-1]) >> STEP_SHIFT
        self._recent = together[together >= (self.steps - KEPT_STEPS) << STEP_SHIFT]
        self.bytes += int(rows["bytes"].sum(dtype=np.int64))
        counts = np.bincount(rows["outcome"], minlength=len(self.outcomes)).tolist()
        self.outcomes = [before + count for before, count in zip(self.outcomes, counts, strict=True)]
        if len(self._host_of):
            arrived = rows["receiver"][rows["outcome"] != HopOutcome.LOST]
            self.received_by_host += np.bincount(self._host_of[arrived], minlength=len(self.received_by_host))


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
