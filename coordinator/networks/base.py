"""What the run loop drives: one small interface, whatever carries the packets."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar, TypeVarTuple

import trio

from coordinator.planning.plan import Plan
from emunode.engine.memory import MemoryEngine
from emunode.engine.rank_set import AlteredCopy
from emunode.faults.kinds import Fault
from emunode.model import Step

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
Progress = Callable[[str, int, int], None]
"""Called with a phase and how much of how much of it is done."""

SMALL_ORDER = 5000
"""Up to this many ranks a step is short enough to run between two checks for Ctrl-C."""


class StepResult(NamedTuple):
    """What a network tells of one step."""

    rows: Sequence[bytes | bytearray]
    """Journal rows: arrivals of the step before, losses of this one."""
    busy: bool
    """Whether anything was sent, or will be sent later."""
    altered_copies: Sequence[AlteredCopy] = ()
    """Altered copies that arrived in the step before, where copies are voted on."""


class Network(Protocol):
    """A network of nodes that can be brought up, stepped and taken down, once each."""

    @property
    def links_opened(self) -> int:
        """The number of links that `open` brought up."""

    async def open(self, progress: Progress) -> None:
        """Bring every node and link up; raises RunError when it cannot."""

    async def step(self, step: Step, faults: Sequence[Fault]) -> StepResult:
        """Put `faults` into force and let every rank with work act; raises RunError when the step cannot end."""

    async def reset(self, plan: Plan) -> None:
        """Be as new for another run of the same scenario but for its seed and faults, which `plan` has.

        All ranks forget, all faults are over, all links are up; the next step is 1. Raises RunError when it cannot be.
        """

    async def close(self) -> None:
        """Take everything down; safe after a failure at any point, and quick."""


class MemoryNetwork:
    """The memory driver."""

    links_opened = 0

    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    async def open(self, progress: Progress) -> None:
        self._network = await self._call(MemoryEngine, self._plan.algorithm)

    async def step(self, step: Step, faults: Sequence[Fault]) -> StepResult:
        try:
            rows = await self._call(self._network.step, step, faults)
        except trio.Cancelled:
            self._network.abandon()
            raise
        return StepResult([rows], self._network.busy, self._network.take_altered_copies())

    async def reset(self, plan: Plan) -> None:
        self._plan = plan
        self._network = await self._call(MemoryEngine, plan.algorithm)

    async def _call(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Do something long: between two checks for Ctrl-C, or in a thread that Ctrl-C leaves behind."""
        if self._plan.topology.order <= SMALL_ORDER:
            await trio.lowlevel.checkpoint()
            return function(*arguments)
        return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()
