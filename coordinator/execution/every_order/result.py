"""The result of running every order of events, and the first order that deviates."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from coordinator.planning.plan import Plan
from coordinator.results.claims import Judged, Verdict
from emunode.model import Rank, Step

LocalEvent = tuple[str, int]
"""`order`, `turn` of a rank by its index at the host, `packet` by its slot there, or `report` of late arrivals; under the
timed clock `packet` by its port, and `rank`.
"""


@dataclass(frozen=True)
class Deviation:
    """The first step, or time, when the order of events changes the result."""

    step: int
    """The step; under the timed clock the time in nanoseconds."""
    label: str
    """The label of the rank, or of the first rank of the host, where the events are; empty for the whole network."""
    events: Sequence[LocalEvent]
    """The order that deviates."""
    what: str
    names: Sequence[str] = ()
    """The events in words."""
    timed: bool = False

    def words(self) -> str:
        """Return the deviation in one line."""
        order = f" in the order {', '.join(self.names)}" if self.names else ""
        place = self.label or ("all ranks" if self.timed else "coordinator")
        return f"{f'{self.step / 1e6:g} ms' if self.timed else f'step {self.step}'}, {place}: {self.what}{order}"


@dataclass
class EveryOrder(Judged):
    """The result of running every order."""

    plan: Plan
    most: int
    executions: int = 0
    steps: int = 0
    orders: Counter[tuple[Step, Rank]] = field(default_factory=Counter)
    """Orders of events, by step and host in lock-step, or by time and rank; with -1 in place of a rank, orders of ranks."""
    deviation: Deviation | None = None
    journal_hash: str = ""
    exceeded: bool = False

    @property
    def verdict(self) -> Verdict:
        """`undecided` if the bound was reached first."""
        if self.deviation is not None:
            return Verdict.VIOLATED
        return Verdict.UNDECIDED if self.exceeded else Verdict.HOLDS

    def count(self) -> None:
        """Count an execution; BoundReachedError beyond the bound."""
        if self.executions >= self.most:
            self.exceeded = True
            raise BoundReachedError
        self.executions += 1

    def record(self) -> dict[str, object]:
        """Return the result as JSON values."""
        found = self.deviation
        return {
            "verdict": str(self.verdict),
            "executions": self.executions,
            "steps": self.steps,
            "journal_hash": self.journal_hash,
            "deviation": found.words() if found else None,
        }


class BoundReachedError(Exception):
    """The bound on executions was reached."""


class DeviationError(Exception):
    """An order deviates."""

    def __init__(self, deviation: Deviation) -> None:
        super().__init__(deviation)
        self.deviation = deviation
