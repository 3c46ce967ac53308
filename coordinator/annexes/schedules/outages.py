"""Outages of the gpus and links of a schedule, and what they cost in a runtime whose thread blocks wait."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from emunode.model import Rank, Step


class StepOutages(NamedTuple):
    """The gpus and links that are out of service, by step."""

    stops: Callable[[Step, Rank], bool]
    """Whether a gpu executes nothing in a step."""
    blocks: Callable[[Step, Rank, Rank], bool]
    """Whether a message that crosses from one gpu to another in a step is lost."""
    ends: Sequence[Step] = ()
    """The last steps of outages; endless ones have none."""


@dataclass(frozen=True)
class StalledRun:
    """The cells that healthy gpus miss, and the thread blocks that wait for ever."""

    expected: int
    """Output cells of healthy gpus."""
    lost: Mapping[Rank, Sequence[tuple[str, int]]]
    """By healthy gpu, the output cells (buffer, offset) that do not hold what they should, in order."""
    stalled: int
    """Thread blocks of healthy gpus that have operations left."""
    first: str = ""
    """The first of them, and what it waits for, in words."""

    @property
    def lost_count(self) -> int:
        """The lost cells of all gpus."""
        return sum(map(len, self.lost.values()))

    def record(self) -> dict[str, Any]:
        """Return the losses as plain values."""
        cells = {str(gpu): [f"{buffer}[{at}]" for buffer, at in cells] for gpu, cells in self.lost.items()}
        return {"expected": self.expected, "lost": cells, "stalled": self.stalled, "first": self.first}
