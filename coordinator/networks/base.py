"""The interface of networks, to hide how packets travel, and its implementation in memory."""

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, Protocol, TypeVar, TypeVarTuple

import trio

from coordinator.history.prediction import prediction
from coordinator.history.timetable import Timetable
from coordinator.planning.plan import Plan
from coordinator.scenario.model import costs_of
from emunode.engine.memory import MemoryEngine
from emunode.engine.rank_set import AlteredCopy, KeptResult, results_of
from emunode.errors import EmulatorError
from emunode.faults.kinds import Fault
from emunode.model import Step

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")
Progress = Callable[[str, int, int], None]
"""Called with a phase, the amount done, and the total (0: unknown)."""

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


class OpenNetwork(Protocol):
    """A network of nodes under either clock: it is brought up, run and taken down, once each."""

    @property
    def links_opened(self) -> int:
        """The number of links that `open` brought up."""

    async def open(self, progress: Progress) -> None:
        """Bring every node and link up; RunError if that fails."""

    async def results(self) -> list[KeptResult]:
        """Return the results of all ranks that run, after the end; RunError if a host does not answer."""

    async def close(self) -> None:
        """Take everything down; safe after a failure at any point, and fast."""

    def dismiss(self, reason: str) -> None:
        """Tell hosts that outlive the run that it is over, and why; `reason` is empty if it ended normally."""


class Network(OpenNetwork, Protocol):
    """A network that runs step by step."""

    async def step(self, step: Step, faults: Sequence[Fault]) -> StepResult:
        """Put `faults` into force and run the step of every rank with work; RunError if the step cannot end."""

    async def look(self, step: Step) -> UnreadArrivals:
        """Return what ranks will read of the packets of the `step` that has just run; nothing changes."""

    async def failure(self) -> EmulatorError:
        """Wait between two steps until a node or link has failed that was not to fail; return the reason."""

    async def reset(self, plan: Plan) -> None:
        """Prepare for another run of the same scenario, with the seed and faults of `plan`; the next step is 1.

        All ranks are in their initial state, no fault is in force, all links are up. RunError if that is not possible.
        """


class Timed(OpenNetwork, Protocol):
    """A network under the timed clock, which runs as a whole."""

    @property
    def rows(self) -> list[bytes]:
        """Journal rows so far."""

    times: list[bytes]
    """Times of hops so far (`wire.TIME`)."""

    @property
    def altered_copies(self) -> list[AlteredCopy]:
        """Altered copies that arrived so far, where copies are voted on."""

    async def run(self, timetable: Timetable, progress: Progress) -> None:
        """Run every node on its own to the end; RunError if the end does not come."""


class MemoryNetwork:
    """The memory driver: the memory engine behind the interface of networks."""

    links_opened = 0

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
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
        # The event loop may resume this task once before it takes note of a signal, so no step begins after one.
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        if self._plan.topology.order <= SMALL_ORDER:
            return function(*arguments)
        return await trio.to_thread.run_sync(function, *arguments, abandon_on_cancel=True)

    async def close(self) -> None:
        self._plan.algorithm.close()
        await trio.lowlevel.checkpoint()

    def dismiss(self, reason: str) -> None:
        """Do nothing: no host outlives the run."""


class TimedMemoryNetwork:
    """The memory driver: no machine can be late, so the achieved times are the times of the timetable."""

    links_opened = 0

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.rows: list[bytes] = []
        self.times: list[bytes] = []
        self.altered_copies: list[AlteredCopy] = []

    async def open(self, progress: Progress) -> None:
        await trio.lowlevel.checkpoint()

    async def run(self, timetable: Timetable, progress: Progress) -> None:
        inputs, algorithm = timetable.inputs, self._plan.algorithm
        network = MemoryEngine(algorithm) if inputs is None else inputs.engine(algorithm)
        self.altered_copies = network.altered_copies
        # Packets that faults make late may be received long after the steps that name them.
        limit = timetable.steps + 1 if inputs is None else self._plan.scenario.step_limit
        for step in range(1, limit + 1):
            if inputs is not None and not network.busy:
                break
            self.rows.append(bytes(network.step(step)))
            progress("steps", step, timetable.steps)
            await trio.lowlevel.checkpoint()
        self.times.append(timetable.times())

    async def results(self) -> list[KeptResult]:
        return list(results_of(self._plan.algorithm))

    async def close(self) -> None:
        await trio.lowlevel.checkpoint()

    def dismiss(self, reason: str) -> None:
        """Do nothing: no host outlives the run."""


async def predict(plan: Plan, progress: Progress) -> Timetable:
    """Compute the timetable of a plan with the memory engine; cancellation is possible at every step."""
    computation = prediction_of(plan)
    while True:
        try:
            progress("timetable", next(computation), 0)
        except StopIteration as ended:
            timetable: Timetable = ended.value
            return timetable
        await trio.lowlevel.checkpoint()


def prediction_of(plan: Plan) -> Generator[Step, None, Timetable]:
    """Return the computation of the timetable of a plan, step by step."""
    return prediction(plan.algorithm, plan.faults, costs_of(plan.scenario), plan.scenario.step_limit)
