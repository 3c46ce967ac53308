"""Broadcasts whose nodes share a note within a process, in three places: the order of turns decides what they send."""

from collections.abc import Iterable, Sequence
from functools import cached_property

from emunode.algorithms.base import LocalView, Rule
from emunode.algorithms.flooding import Flood, FloodRule
from emunode.model import PortPacket, Rank, ScheduledSend, Step
from emunode.registry import register

NOTE: dict[Step, Rank] = {}
"""By step, the first rank of this process that read packets."""


class LateRule(FloodRule):
    """Leave out the last port, unless this rank is the first of the process in its step."""

    def __init__(self, algorithm: "Noted", view: LocalView, note: dict[Step, Rank]) -> None:
        super().__init__(algorithm, view)
        self._note = note

    def receive(self, step: Step, packets: Sequence[PortPacket]) -> Iterable[ScheduledSend]:
        sends = list(super().receive(step, packets))
        first = self._note.setdefault(step, self._view.rank) == self._view.rank
        return sends if first else sends[:-1]


class Noted(Flood):
    """A flood whose nodes share a note."""

    tolerated_faults = 0


@register
class OnTheObject(Noted):
    """The note is an attribute of the algorithm."""

    name = "noted-object"

    @cached_property
    def note(self) -> dict[Step, Rank]:
        """By step, the first rank that read packets."""
        return {}

    def rule(self, view: LocalView) -> Rule:
        return LateRule(self, view, self.note)


@register
class InTheModule(Noted):
    """The note is a variable of the module."""

    name = "noted-module"

    def rule(self, view: LocalView) -> Rule:
        return LateRule(self, view, NOTE)


@register
class OnTheClass(Noted):
    """The note is a variable of the class."""

    name = "noted-class"
    note: dict[Step, Rank] = {}  # noqa: RUF012  # the fault that is to be found

    def rule(self, view: LocalView) -> Rule:
        return LateRule(self, view, self.note)
