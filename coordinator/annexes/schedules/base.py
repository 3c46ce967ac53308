"""The common part of all formats of schedule files: the file, its network, and the judgement.

A format is a subclass of `ScheduleFormat` in a module of `coordinator.annexes.schedules.formats`. Its `read` returns a
`ScheduleFile`, or raises `RefusedScheduleError` for a file that cannot be judged. `ScheduleFile.judge` decides the rest.
"""

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from math import isclose
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Self

from coordinator.annexes.schedules.outages import StalledRun, StepOutages
from emunode.errors import ScenarioError
from emunode.model import Collective, Rank, Step
from emunode.registry import Registry
from emunode.topologies.base import Topology

MOST_BYTES: Final = 64 << 20
"""The largest schedule file that is read."""
MOST_OPERATIONS: Final = 500_000
"""The most operations, hops or nodes of one schedule."""
MOST_RANKS: Final = 65_536
"""The most ranks of one schedule."""


LARGEST: Final = 10**9 - 1
"""The largest number where a format has no limit of its own."""
NUMBER: Final = re.compile(r"(?<![0-9A-Za-z_])[0-9]{10,}", re.ASCII)
MOST_LOOKED_AT: Final = 1000
"""The most characters of a text whose numbers are looked at to explain a refusal."""


class RefusedScheduleError(ScenarioError):
    """A schedule file that cannot be judged or run.

    The message names place and value.
    """

    def __init__(self, reason: str, file: str | None = None) -> None:
        super().__init__("schedule", file, reason)

    def within(self, file: str) -> Self:
        """Return the same error with the name of the file."""
        return type(self)(self.allowed, file)


def refuse_large_numbers(at: str, text: str, *patterns: "re.Pattern[str]") -> None:
    """Refuse a text whose only mistake is a number with too many digits.

    One of the patterns then matches the text but for such numbers. The error names the largest allowed number. Does
    nothing if something else is wrong. Raises RefusedScheduleError.
    """
    numbers = list(NUMBER.finditer(text)) if len(text) <= MOST_LOOKED_AT else []
    for pattern in patterns:
        for found in numbers:
            before, after = (NUMBER.sub("1", part) for part in (text[: found.start()], text[found.end() :]))
            digits = next((k for k in range(len(found[0]), 0, -1) if pattern.fullmatch(before + "9" * k + after)), 0)
            if 0 < digits < len(found[0]):
                raise RefusedScheduleError(f"{at}: {found[0]:.40} is too large; expected at most {10**digits - 1:,}")


class WrongScheduleError(RefusedScheduleError):
    """A schedule file that is not run because its judgement is `violated`."""

    exit_status = 1


class FileVerdict(StrEnum):
    """The verdict on a schedule file."""

    HOLDS = "holds"
    VIOLATED = "violated"
    REFUSED = "refused"
    UNDECIDED = "undecided"


class FileClaim(NamedTuple):
    """A number that a file states of itself, and the number that its schedule has."""

    name: str
    stated: int | float
    measured: int | float
    relation: str = "=="
    """`==` or `<=`: measured relation stated."""

    @property
    def holds(self) -> bool:
        """Whether the measured number agrees with the stated one."""
        if self.relation == "<=":
            return self.measured <= self.stated
        return isclose(self.measured, self.stated, rel_tol=1e-6)


@dataclass(frozen=True)
class FileJudgement:
    """The verdict on one schedule file, and what was counted on the way."""

    verdict: FileVerdict
    reason: str = ""
    line: int | None = None
    """The line of the file that the reason is about."""
    collective: str = ""
    ranks: int | None = None
    steps: Step | None = None
    """The last step with a crossing of a link, when executed as soon as possible."""
    links: int | None = None
    """Directed links that are used."""
    chunks: int | None = None
    """Chunks or messages that cross a link, over all links."""
    largest_link_load: int | None = None
    """Chunks or messages that cross the busiest directed link, over all steps."""
    redundant: int = 0
    """Chunks that came to a rank that had them."""
    notes: tuple[str, ...] = ()
    claims: tuple[FileClaim, ...] = ()
    """The numbers that the file states of itself."""

    @property
    def words(self) -> str:
        """The verdict in words: `holds, redundant` where chunks came twice."""
        return f"{self.verdict}, redundant" if self.redundant and self.verdict is FileVerdict.HOLDS else self.verdict

    def violated(self, reason: str, line: int | None = None) -> "FileJudgement":
        """Return this judgement with a violation.

        If there is one already, the first stands.
        """
        if self.verdict is FileVerdict.VIOLATED:
            return self
        return replace(self, verdict=FileVerdict.VIOLATED, reason=reason, line=line)

    def record(self) -> dict[str, Any]:
        """Return the judgement as plain values."""
        claims = [{**each._asdict(), "holds": each.holds} for each in self.claims]
        return {
            **asdict(self), "verdict": str(self.verdict), "words": self.words, "notes": list(self.notes), "claims": claims,
        }  # fmt: skip


class TimedHop(NamedTuple):
    """One chunk that crosses one link of a timetable.

    A chunk of a sum has the sender as its origin while contributions are missing.
    """

    step: Step
    sender: Rank
    receiver: Rank
    origin: Rank
    target: Rank
    """The rank that the chunk is for, or ALL_RANKS."""
    segment: int
    """The number of the chunk among all chunks from the origin to the target."""


@dataclass(frozen=True)
class HopTimetable:
    """The hops of a schedule in the form of algorithms: each chunk with the link that it crosses and the step."""

    collective: Collective
    source: Rank
    ranks: int
    messages: int
    """Chunks from each origin to each target. Each is a message of its own."""
    hops: Sequence[TimedHop]
    folders: tuple[Rank, ...] = ()
    """The ranks that complete the sum of an allreduce in one block.

    Empty where every rank owns a block of it.
    """
    stated_steps: Step = 0
    """The most steps that the file says it takes; 0 if it does not say."""


class TimedOperation(NamedTuple):
    """One operation of a schedule without contents, in the form that runs: a send, a receipt or a computation."""

    way: str
    """`send`, `recv` or `calc`."""
    rank: Rank
    peer: Rank
    """The rank at the other end of the message; the rank itself if it computes."""
    segment: int
    """The number of the message among all from its sender to its receiver."""
    step: Step
    """The step when the message crosses its link; 0 if the rank computes."""
    size: int
    """Bytes of the message."""
    after: Sequence[int]
    """The places of operations that must have ended."""
    after_start: Sequence[int]
    """The places of operations that must have started."""


class ScheduleFile(ABC):
    """A schedule that was read, and whose parts fit together."""

    format: ClassVar[str]
    collective: str = ""
    """The collective that the file names, in the words of the file; empty if it names none."""
    place: ClassVar[str] = ""
    """The word for a node in messages, to stand before its name."""
    switches: frozenset[str] = frozenset()
    """The names of nodes that only forward."""

    @property
    @abstractmethod
    def labels(self) -> Sequence[str]:
        """The names of the nodes, by rank."""

    @abstractmethod
    def sends(self) -> Iterable[tuple[str, str]]:
        """Return (sender, receiver), by name, of every send over one link, in order of the file."""

    def require_network(self, topology: Topology) -> None:
        """Refuse a network that lacks nodes or links of the schedule. Raises RefusedScheduleError."""
        rank_of = self.ranks_on(topology)
        sends = Counter(self.sends())
        missing = {
            pair: count
            for pair, count in sends.items()
            if rank_of[pair[1]] not in {peer for _, peer in topology.adjacent(rank_of[pair[0]])}
        }
        if missing:
            # The lowest pair by ranks, so that the message does not depend on the order of the file.
            sender, receiver = min(missing, key=lambda pair: (rank_of[pair[0]], rank_of[pair[1]]))
            total = sum(missing.values())
            raise RefusedScheduleError(
                f"{self.place}{sender} sends to {receiver}, and no link joins them "
                f"({total} of {sends.total()} sends, {len(missing)} links)"
            )

    def ranks_on(self, topology: Topology) -> Mapping[str, Rank]:
        """Return the rank of every node of the schedule on a network.

        Nodes are found by label if all labels exist, else by number.
        """
        labels = self.labels
        if len(labels) != topology.order:
            nodes = f"{len(labels)} {'gpus' if self.place else 'nodes'}"
            raise RefusedScheduleError(f"the file has {nodes}, {topology.name} has {topology.order} nodes")
        known = {topology.label(rank): rank for rank in topology.ranks()}
        if self.switches and not known.keys() >= set(labels):
            first = next(label for label in labels if label not in known)
            raise RefusedScheduleError(f"the file has a node {first}, {topology.name} has no node of that name")
        # The numbers of a file are ranks, whatever the labels of the network are.
        return {label: known[label] if self.switches else rank for rank, label in enumerate(labels)}

    @abstractmethod
    def judge(self, capacity: int | None = None) -> FileJudgement:
        """Return the judgement, for links that carry `capacity` chunks in one step; None: any number."""

    @abstractmethod
    def timetable(self, capacity: int | None = None) -> HopTimetable:
        """Return the timetable of the schedule. Raises RefusedScheduleError if it cannot run."""

    def stalled(
        self, outages: StepOutages, faulty: Collection[Rank] = (), capacity: int | None = None
    ) -> StalledRun | None:
        """Return the losses to outages in a runtime whose thread blocks wait.

        None if the file has no thread blocks.
        """
        del outages, faulty, capacity
        return None

    def operations_in_steps(self, capacity: int | None = None) -> Sequence[TimedOperation] | None:
        """Return the operations of a schedule without contents; None if it runs by its timetable.

        Raises RefusedScheduleError if it cannot run.
        """
        del capacity
        return None


class ScheduleSource(NamedTuple):
    """The bytes of a schedule file and the options for reading it."""

    path: Path
    data: bytes
    root: Rank = 0
    """The root of a collective whose file names none."""
    collective: str = ""
    """The collective of a file that names none."""


class ScheduleFormat(ABC):
    """One format of schedule files."""

    name: ClassVar[str]
    """The name of the format."""
    suffixes: ClassVar[tuple[str, ...]]
    """The suffixes of its files."""

    @abstractmethod
    def recognises(self, source: ScheduleSource) -> bool:
        """Return whether a file has this format, by its first bytes.

        The file may still be refused.
        """

    @abstractmethod
    def read(self, source: ScheduleSource) -> ScheduleFile:
        """Return the schedule in a file. Raises RefusedScheduleError."""


FORMATS: Final = Registry[str, type[ScheduleFormat]](
    "schedule format", ScheduleFormat, key=lambda entry: entry.name, required=("name", "suffixes")
)
"""The formats by name; `coordinator.annexes.schedules.registry.schedule_formats` has all of them."""
