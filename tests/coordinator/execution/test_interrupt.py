"""A signal ends a run in memory between two steps, whether steps take place in threads or not."""

import os
import signal

import pytest

from coordinator.execution.run import run
from coordinator.execution.sinks import MemoryRun, MemorySink
from coordinator.networks import base
from emunode.stop_signals import STOP_SIGNALS
from tests.helpers.scenarios import Case

CASE = Case("ring:9 broadcast flood")


def stopped_run(number: signal.Signals, step: int) -> MemoryRun:
    def progress(phase: str, done: int, _total: int) -> None:
        if phase == "steps" and done == step:
            os.kill(os.getpid(), number)

    return run(CASE.plan, MemorySink(), progress)


@pytest.mark.parametrize("small_order", [base.SMALL_ORDER, 0], ids=["in turn", "in threads"])
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


def test_steps_in_threads_give_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SMALL_ORDER", 0)
    in_threads = run(CASE.plan, MemorySink())
    assert in_threads.summary["journal_hash"] == CASE.run.summary["journal_hash"]
    assert in_threads.execution.steps == CASE.run.execution.steps
