"""Faults as frozen records, and the one question about them: does this packet, in this step, arrive?

Faults take effect at the beginning of a step, when nothing is in flight. `Faults` holds those in force; both engines ask
it the same question, so both lose the same packets. What is physical (resetting connections, killing a process) is the
engine's business and never changes an answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import ClassVar

from emunode.model import Rank, Step


@dataclass(frozen=True, slots=True, order=True)
class Crash:
    """From the beginning of `step` on, `rank` is gone: its connections are reset, its state is lost."""

    step: Step
    rank: Rank

    form: ClassVar[str] = "crash:LABEL@STEP"


Fault = Crash

KINDS: Mapping[str, type[Fault]] = {"crash": Crash}
"""Every kind of fault, by the name it has in scenarios, journals and on the wire."""


def to_record(fault: Fault) -> tuple[object, ...]:
    """A fault as plain values: its kind, then its fields."""
    kind = next(kind for kind, record in KINDS.items() if isinstance(fault, record))
    return (kind, *astuple(fault))


def from_record(record: Sequence[object]) -> Fault:
    """Inverse of `to_record`."""
    kind, *fields = record
    return KINDS[str(kind)](*fields)  # type: ignore[arg-type]  # values that to_record took from the same fields


class Faults:
    """The faults in force at one step."""

    def __init__(self) -> None:
        self.crashed: set[Rank] = set()

    def apply(self, faults: Iterable[Fault]) -> None:
        """Put faults that are due into force."""
        for fault in faults:
            self.crashed.add(fault.rank)

    def loses(self, sender: Rank, receiver: Rank) -> bool:
        """Whether a packet that leaves now is lost."""
        return receiver in self.crashed or sender in self.crashed
