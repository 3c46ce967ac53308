"""The end of a run: the reason that came first is the one that is told."""

import os
import signal
from collections.abc import Sequence

import pytest
import trio

from coordinator.execution.drive import ExecutionResult, drive
from coordinator.execution.stop_signal import InterruptGuard
from coordinator.networks.base import Progress, StepResult
from coordinator.planning.plan import make_plan
from coordinator.scenario.model import make_scenario
from emunode.errors import RunError
from emunode.faults.kinds import Fault
from emunode.model import Step

PLAN = make_plan(
    make_scenario({"topology": "ring:5", "collective": "broadcast", "algorithm": "flood", "driver": "memory"})
)


class Rows:
    """A journal that forgets."""

    folder = None

    def add(self, rows: Sequence[bytes | bytearray]) -> None:
        """Forget the rows."""

    def settle(self, step: Step) -> None:
        """Do nothing."""


class DyingNetwork:
    """A network one of whose hosts dies in step 2; SIGTERM comes before that, or while the network is closed."""

    links_opened = 0
    connect_seconds = 0.0

    def __init__(self, signal_comes: str) -> None:
        self._signal_comes = signal_comes

    async def open(self, progress: Progress) -> None:
        pass

    async def step(self, step: Step, faults: Sequence[Fault]) -> StepResult:
        if step == 1:
            return StepResult([], True, [])
        if self._signal_comes == "before":
            os.kill(os.getpid(), signal.SIGTERM)
            await trio.sleep(1)
        raise RunError("host 2 (host_3) died")

    async def close(self) -> None:
        if self._signal_comes == "while closing":
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(
    ("signal_comes", "interrupted", "undecided"),
    [
        ("never", False, "host 2 (host_3) died"),
        # Compose stops the coordinator because a host has died.
        ("while closing", False, "host 2 (host_3) died"),
        ("before", True, "interrupted"),
    ],
)
def test_a_host_that_died_before_a_signal_came_is_the_reason(
    signal_comes: str, interrupted: bool, undecided: str
) -> None:
    async def main() -> ExecutionResult:
        with InterruptGuard() as stop:
            network = DyingNetwork(signal_comes)
            return await drive(PLAN, network, Rows(), lambda *_: None, stop)  # type: ignore[arg-type]

    execution = trio.run(main)
    assert (execution.interrupted, execution.undecided) == (interrupted, undecided)
