"""The result of running every order of events, and the first order that deviates."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from coordinator.planning.plan import Plan
from coordinator.results.claims import Judged, Verdict
from emunode.host.placement import Placement
from emunode.model import Rank, Step

LocalEvent = tuple[str, int]
"""`order`, `turn` of a rank by its index at the host, `packet` by its slot there, or `report` of late arrivals; under the
timed clock `packet` by its port, and `rank`.
"""
EVERYWHERE = -1
"""In place of a rank or a host: the order of all ranks of a time."""


@dataclass(frozen=True)
class EventOrder:
    """An order of events that may be run alone."""

    place: int
    """The host; under the timed clock the rank, or EVERYWHERE for the order in which ranks act at one time."""
    events: Sequence[Sequence[LocalEvent]]
    """The events of each step from the first on, or of each time of the rank; with EVERYWHERE those of `time` alone."""
    time: int = 0
    """The time with EVERYWHERE, in nanoseconds."""


def size(history: Sequence[Sequence[LocalEvent]]) -> tuple[int, int]:
    """Return the length of an order: its events, then its inversions, the pairs of events that the plain order swaps."""
    pairs = (pair for events in history for pair in combinations(events, 2))
    inversions = sum(one[0] == other[0] and one > other for one, other in pairs)
    return sum(map(len, history)), inversions


@dataclass(frozen=True)
class Deviation:
    """A step, or a time, when the order of events changes the result."""

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
    order: EventOrder | None = None
    """The order to run again; None where no order of the events of one host is to blame."""

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
    placement: Placement
    show: Callable[[str, int, int], None] = lambda *_: None
    """A function of the phase, the executions so far and their bound."""
    stopped: Callable[[], bool] = lambda: False
    """Whether the search is to be ended."""
    executions: int = 0
    steps: int = 0
    orders: Counter[tuple[Step, Rank]] = field(default_factory=Counter)
    """Orders of events, by step and host in lock-step, or by time and rank; with -1 in place of a rank, orders of ranks."""
    deviation: Deviation | None = None
    journal_hash: str = ""
    exceeded: bool = False
    interrupted: bool = False
    not_watched: Sequence[str] = ()
    """Variables of plug-ins whose values cannot be compared."""

    @property
    def verdict(self) -> Verdict:
        """`undecided` if the search ended before its end."""
        if self.deviation is not None:
            return Verdict.VIOLATED
        return Verdict.UNDECIDED if self.exceeded or self.interrupted else Verdict.HOLDS

    @property
    def timed(self) -> bool:
        """Whether events have times instead of steps."""
        return self.plan.scenario.clock == "timed"

    def count(self) -> None:
        """Count an execution; BoundReachedError beyond the bound, or if the search is to be ended."""
        self.exceeded, self.interrupted = self.executions >= self.most, self.stopped()
        if self.exceeded or self.interrupted:
            raise BoundReachedError
        self.executions += 1
        self.show("executions", self.executions, self.most)

    def counts(self) -> Iterator[dict[str, object]]:
        """Yield the numbers of orders that can be counted by hand, by step and host, or by time and node."""
        label = self.plan.topology.label
        for (step, place), number in sorted(self.orders.items()):
            if self.timed:
                yield {
                    "milliseconds": step / 1e6,
                    "node": "all" if place == EVERYWHERE else label(place),
                    "orders": number,
                }
            else:
                nodes = " ".join(map(label, self.placement.ranks(place)))
                yield {"step": step, "host": place, "nodes": nodes, "orders": number}

    def record(self) -> dict[str, object]:
        """Return the result as JSON values."""
        found = self.deviation
        return {
            "verdict": str(self.verdict),
            "executions": self.executions,
            "steps": self.steps,
            "orders": list(self.counts()),
            "interrupted": self.interrupted,
            "not_watched": list(self.not_watched),
            "journal_hash": self.journal_hash,
            "deviation": found.words() if found else None,
        }


class BoundReachedError(Exception):
    """The bound on executions was reached, or the search was interrupted."""


class DeviationError(Exception):
    """An order deviates."""

    def __init__(self, deviation: Deviation) -> None:
        super().__init__(deviation)
        self.deviation = deviation
