"""The pool of worker processes: a worker that is stopped is noticed, and a slow one is left alone."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import trio

from coordinator.campaigns import worker_pool
from coordinator.campaigns.trial_runner import Trial, TrialResult
from coordinator.campaigns.worker_pool import WorkerPool
from coordinator.networks.control_channel import STALL_SECONDS
from coordinator.scenario.model import make_scenario
from coordinator.scenario.plugins import load_plugins
from emunode import runtime
from emunode.errors import RunError
from tests.helpers.support import forget_plugins

SCENARIO = make_scenario({"topology": "star:3", "driver": "memory", "collective": "broadcast", "algorithm": "edt"})
NOISY = """
import os, sys
from emunode.algorithms.flooding import Flood
from emunode.registry import register

@register
class Noisy(Flood):
    name = "noisy"

    def validate(self):
        super().validate()
        if sys.argv[0].endswith("worker.py"):
            assert sys.stdin.read() == ""
        print("printed", flush=True)
        os.system("echo by a child")
"""
TRIALS = [Trial(0, (), seed) for seed in range(200)]


def test_stopped_worker_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others cannot finish without it: its trials would be missing."""
    monkeypatch.setattr(worker_pool, "LOOK_SECONDS", 0.05)
    stopped: list[int] = []

    def stop_one(_place: int, _trial: Trial, _result: TrialResult) -> None:
        if not stopped:
            stopped.append(psutil.Process().children()[0].pid)
            os.kill(stopped[0], signal.SIGSTOP)

    async def run() -> None:
        with (tmp_path / "log").open("w") as log:
            async with WorkerPool([SCENARIO], 2, log) as pool:
                await pool.run(TRIALS, stop_one)

    with pytest.raises(RunError) as caught:
        trio.run(run)
    assert str(caught.value) == f"a worker process ({stopped[0]}) is stopped"
    assert psutil.Process().children() == []


def test_worker_that_is_stopped_for_a_moment_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each worker is seen stopped in every other look."""
    looks: list[int] = []
    monkeypatch.setattr(worker_pool, "LOOK_SECONDS", 0.01)

    def is_stopped(pid: int) -> bool:
        looks.append(pid)
        return looks.count(pid) % 2 == 0

    monkeypatch.setattr(worker_pool, "is_stopped", is_stopped)
    done: list[int] = []

    async def run() -> None:
        with (tmp_path / "log").open("w") as log:
            async with WorkerPool([SCENARIO], 2, log) as pool:
                await pool.run(TRIALS, lambda place, _, __: done.append(place))

    trio.run(run)
    assert sorted(done) == list(range(len(TRIALS)))
    assert len(looks) > 4


def test_stopped_processes_are_noticed_as_soon_as_hosts() -> None:
    """A process is seen stopped twice, in two looks, within the time that a host may be silent."""
    assert 3 * runtime.LOOK_SECONDS <= STALL_SECONDS


def test_stopped_child_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "LOOK_SECONDS", 0.05)

    def stop() -> bytes:
        os.kill(os.getpid(), signal.SIGSTOP)
        return b""

    with pytest.raises(RunError, match=r"a child process \(process \d+\) is stopped"):
        runtime.in_child(stop, 60)
    assert psutil.Process().children() == []


@pytest.mark.usefixtures("unloaded")
def test_the_output_of_a_plugin_is_no_answer(tmp_path: Path) -> None:
    """A plug-in prints, through a child process too, and reads standard input, though that is for trials."""
    plugin = tmp_path / "noisy.py"
    plugin.write_text(NOISY)
    scenario = SCENARIO.model_copy(update={"plugin": load_plugins([str(plugin)]), "algorithm": "noisy"})
    served: list[int] = []

    async def run() -> None:
        with (tmp_path / "log").open("w") as log:
            async with WorkerPool([scenario], 1, log) as pool:
                await pool.run(TRIALS[:20], lambda place, _, __: served.append(place))

    trio.run(run)
    assert sorted(served) == list(range(20))
    assert {"printed", "by a child"} <= {*(tmp_path / "log").read_text().split("\n")}


@pytest.fixture
def unloaded() -> Iterator[None]:
    forget_plugins()
    yield
    forget_plugins()
