"""The interface of networks, to hide how packets travel, and its implementation in memory."""

from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar, TypeVarTuple

import trio

from coordinator.planning.plan import Plan
from emunode.engine.memory import MemoryEngine
from emunode.engine.rank_set import AlteredCopy, KeptResult, results_of
from emunode.errors import EmulatorError
from emunode.faults.kinds import Fault
from emunode.model import Step

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
Progress = Callable[[str, int, int], None]
"""Called with a phase, the amount done, and the total (0: unknown)."""
Checkpoint = Callable[[], Awaitable[None]]
"""Lets other work proceed, and ends the work of its caller by an exception once that work is to stop."""

SMALL_ORDER = 5000
"""Up to this many ranks, a step is short enough to run between two checks for Ctrl-C."""


class StepResult(NamedTuple):
    """The hosts' reports of one step, and whether another one has to follow."""

    rows: Sequence[bytes | bytearray]
    """Journal rows: arrivals of the step before, losses of this one."""
    busy: bool
    """Whether packets were sent, or sends are scheduled."""
    altered_copies: Sequence[AlteredCopy] = ()
    """Altered copies that arrived in the step before, where copies are voted on."""


class UnreadArrivals(NamedTuple):
    """Arrivals of a step that ranks have not read yet."""

    rows: Sequence[bytes | bytearray] = ()
    altered_copies: Sequence[AlteredCopy] = ()


class Network(Protocol):
    """A network of nodes that can be brought up, stepped and taken down, once each."""

    @property
    def links_opened(self) -> int:
        """The number of links that `open` brought up."""

    async def open(self, progress: Progress) -> None:
        """Bring every node and link up; RunError if that fails."""

    async def step(self, step: Step, faults: Sequence[Fault]) -> StepResult:
        """Put `faults` into force and run the step of every rank with work; RunError if the step cannot end."""

    async def look(self, step: Step) -> UnreadArrivals:
        """Return what ranks will read of the packets of the `step` that has just run; nothing changes."""

    async def results(self) -> list[KeptResult]:
        """Return the results of all ranks that run, after the last step; RunError if a host does not answer."""

    async def failure(self) -> EmulatorError:
        """Wait between two steps until a node or link has failed that was not to fail; return the reason."""

    async def reset(self, plan: Plan) -> None:
        """Prepare for another run of the same scenario, with the seed and faults of `plan`; the next step is 1.

        All ranks are in their initial state, no fault is in force, all links are up. RunError if that is not possible.
        """

    async def close(self) -> None:
        """Take everything down; safe after a failure at any point, and fast."""


class MemoryNetwork:
    """The memory driver: the memory engine behind the interface of networks."""

    links_opened = 0

    def __init__(self, plan: Plan, checkpoint: Checkpoint = trio.lowlevel.checkpoint) -> None:
        """Prepare a network. `checkpoint` is awaited before each step; a network that `needs_threads` runs within trio."""
        self._plan = plan
        self._checkpoint = checkpoint
        self._engine: MemoryEngine | None = None
        """None before `open`: creating all sources of a large network takes seconds, and Ctrl-C has to work meanwhile."""

    async def open(self, progress: Progress) -> None:
        self._engine = await self._call(MemoryEngine, self._plan.algorithm)

    async def step(self, step: Step, faults: Sequence[Fault]) -> StepResult:
        engine = self._engine
        assert engine is not None, "the network is not open"
        complete = False
        try:
            rows = await self._call(engine.step, step, faults)
            complete = True
        finally:
            if not complete:
                engine.abandon()
        return StepResult([rows], engine.busy, engine.take_altered_copies())

    async def look(self, step: Step) -> UnreadArrivals:
        assert self._engine is not None, "the network is not open"
        rows, altered_copies = await self._call(self._engine.look, step)
        return UnreadArrivals([rows], altered_copies)

    async def results(self) -> list[KeptResult]:
        return list(results_of(self._plan.algorithm))

    async def failure(self) -> EmulatorError:
        # Nothing of this network can fail between its steps.
        await trio.sleep_forever()

    async def reset(self, plan: Plan) -> None:
        self._plan = plan
        await self.open(lambda *_: None)

    async def _call(self, function: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Call a function that may take long: directly if it is short, else in a thread that Ctrl-C abandons."""
        if not needs_threads(self._plan):
            await self._checkpoint()
            return function(*arguments)
        return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)

    async def close(self) -> None:
        self._plan.algorithm.close()
        await self._checkpoint()


def needs_threads(plan: Plan) -> bool:
    """Return whether steps in memory may take so long that they run in a thread, beside an event loop."""
    return plan.topology.order > SMALL_ORDER
