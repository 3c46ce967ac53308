"""The step loop of runs in one process without a coordinator: one function, for engines, rules and submissions."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, TypeVar

from emunode.model import Step

Turn_co = TypeVar("Turn_co", covariant=True)


class Stepped(Protocol[Turn_co]):
    """Something that runs step by step, such as `MemoryEngine`."""

    @property
    def busy(self) -> bool:
        """Whether a further step has something to do."""

    @property
    def step(self) -> Callable[..., Turn_co]:
        """Run a step, given its number and, if there are any, the faults that begin with it."""


class Starting(Protocol):
    """A fault, as far as the loop needs it."""

    @property
    def step(self) -> Any:
        """The first step of the fault."""


def play(
    engine: Stepped[Turn_co],
    faults: Iterable[Starting] = (),
    *,
    limit: Step = sys.maxsize,
    over: Callable[[Step, bool], bool] = lambda _, busy: not busy,
) -> Iterator[Turn_co]:
    """Run steps 1, 2, .. of an engine until it has nothing left to do, and yield the result of each step.

    Each fault begins in its step. After `limit` steps the loop ends; the engine is then still busy, if it was not done.
    `over`, called with every step and whether the engine is busy, decides otherwise when a run ends.
    """
    starting: dict[Step, list[Starting]] = {}
    for fault in faults:
        starting.setdefault(fault.step, []).append(fault)
    for step in range(1, limit + 1):
        begin = starting.get(step)
        yield engine.step(step) if begin is None else engine.step(step, begin)
        if over(step, engine.busy):
            return
