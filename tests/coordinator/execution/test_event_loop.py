"""Runs in memory without an event loop: a signal ends them between two steps, as it does within trio."""

import os
import signal

import pytest
import trio

from coordinator.execution.event_loop import DirectLoop
from coordinator.execution.run import run
from coordinator.execution.sinks import MemoryRun, MemorySink
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.networks import base
from emunode.errors import RunError
from emunode.stop_signals import STOP_SIGNALS
from tests.helpers.scenarios import Case

CASE = Case("ring:9 broadcast flood")


def stopped_run(number: signal.Signals, step: int) -> MemoryRun:
    def progress(phase: str, done: int, _total: int) -> None:
        if phase == "steps" and done == step:
            os.kill(os.getpid(), number)

    return run(CASE.plan, MemorySink(), progress)


@pytest.mark.parametrize("small_order", [base.SMALL_ORDER, 0], ids=["direct", "trio"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_a_run_between_two_steps(
    number: signal.Signals, small_order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "SMALL_ORDER", small_order)
    handlers = [signal.getsignal(each) for each in STOP_SIGNALS]
    stopped = stopped_run(number, 2)
    assert CASE.plan.algorithm.interrupted
    assert stopped.execution.interrupted
    assert stopped.execution.undecided == stopped.summary["undecided_because"] == "interrupted"
    assert stopped.execution.steps == 2 < CASE.run.execution.steps
    assert [signal.getsignal(each) for each in STOP_SIGNALS] == handlers


def test_both_loops_give_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SMALL_ORDER", 0)
    within_trio = run(CASE.plan, MemorySink())
    assert within_trio.summary["journal_hash"] == CASE.run.summary["journal_hash"]
    assert within_trio.execution.steps == CASE.run.execution.steps


def test_a_run_that_waits_is_refused_with_a_remedy() -> None:
    async def main() -> None:
        ended.append(False)
        try:
            await trio.lowlevel.checkpoint()
        finally:
            ended.append(True)

    ended: list[bool] = []
    with pytest.raises(RunError, match="start hosts"):
        DirectLoop(InterruptGuard()).execute(main)
    assert ended == [False, True]


def test_only_checkpoints_of_stoppable_work_notice_a_request() -> None:
    places: list[str] = []

    async def work() -> None:
        places.append("begun")
        await loop.checkpoint()
        places.append("beyond the checkpoint")

    async def main() -> None:
        await loop.until_stopped(work, lambda: places.append("stop"))
        await loop.shielded(work, 1.0)

    loop = DirectLoop(InterruptGuard())
    loop.stop.stop()
    loop.execute(main)
    assert places == ["stop", "begun", "begun", "beyond the checkpoint"]
