"""The common part of algorithms that a schedule file defines.

The schedule travels as text in the record of a run, so that every host has it.
"""

import json
from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol

from emunode.algorithms.base import Algorithm, Need
from emunode.annexes import SCHEDULE
from emunode.errors import ScenarioError
from emunode.model import Duplex, Port, Rank, Step

MOST_GIVEN_HOPS: Final = 500_000
MOST_TEXT: Final = 12 * 2**20
"""Characters of a schedule as text. A stored scenario contains this text, and may have 16 megabytes."""
MOST_GIVEN_STEP: Final = 2**20
MOST_NAME: Final = 255
"""Characters of the name of a file."""


def parse_text(text: str, keys: Collection[str]) -> Mapping[str, Any]:
    """Return the object in the text of a schedule, with exactly these keys. Raises ScenarioError (field `schedule`)."""
    if len(text) > MOST_TEXT:
        raise invalid_schedule(f"it has {len(text):,} characters; at most {MOST_TEXT:,} are allowed")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise invalid_schedule("neither a file that can be read nor the text of a schedule") from None
    if not isinstance(found, dict) or set(found) != set(keys):
        raise invalid_schedule(f"its text needs the keys {', '.join(keys)}")
    if not isinstance(found["file"], str) or len(found["file"]) > MOST_NAME:
        raise invalid_schedule(f"file: a text of at most {MOST_NAME} characters is expected")
    return found


def whole_number(value: Any, name: str, least: int, most: int) -> int:
    """Return a number of a text. Raises ScenarioError (field `schedule`) unless it is whole and within the bounds."""
    if type(value) is not int or not least <= value <= most:
        raise invalid_schedule(f"{name}: {value!r:.40} is not a whole number from {least} to {most}")
    return value


def invalid_schedule(reason: str) -> ScenarioError:
    """Return the error for a text that is no schedule."""
    return ScenarioError(SCHEDULE, None, reason)


class GivenText(Protocol):
    """The part of the text of a schedule that all kinds have."""

    @property
    def file(self) -> str:
        """The name of the file."""

    @property
    def ranks(self) -> int:
        """The number of nodes."""


class GivenAlgorithm(Algorithm):
    """An algorithm whose schedule is a text in the job; subclasses parse the text and follow it."""

    family = "any"
    name = SCHEDULE
    duplexes = (Duplex.FULL,)
    citation = "a schedule file"
    needs = frozenset({Need.TABLE, Need.OPEN_CAPACITY})

    @abstractmethod
    def parsed(self, text: str) -> tuple[GivenText, int]:
        """Return the schedule in a text, and the messages of a run of it. Raises ScenarioError (field `schedule`)."""

    @abstractmethod
    def crossings(self) -> Iterable[tuple[Step, Rank, Rank]]:
        """Return (step, sender, receiver) of everything that crosses a link."""

    def validate(self) -> None:
        spec, topology = self.spec, self.topology
        if not spec.schedule:
            raise ScenarioError(SCHEDULE, None, f"algorithm {SCHEDULE!r} needs a file: --schedule FILE")
        given, messages = self.parsed(spec.schedule)
        if given.ranks != topology.order:
            raise invalid_schedule(f"the file has {given.ranks} nodes, {topology.name} has {topology.order} nodes")
        for name, expected in (("messages", messages), ("segments", 1), ("redundancy", 1)):
            if getattr(spec, name) != expected:
                reason = f"a run of {given.file} has {expected}, as the file says; leave it out"
                raise ScenarioError(name, getattr(spec, name), reason)
        super().validate()
        self.ports: Sequence[Mapping[Rank, Port]] = [
            {peer: port for port, peer in topology.adjacent(rank)} for rank in topology.ranks()
        ]
        loads = Counter(self.crossings())
        for _, sender, receiver in loads:
            if receiver not in self.ports[sender]:
                raise invalid_schedule(f"{sender} sends to {receiver}, and no link joins them")
        if spec.link_capacity > 0 and (most := max(loads.values())) > spec.link_capacity:
            reason = f"{given.file} was read for links that carry {most} chunks in a step; name the file again"
            raise ScenarioError("link_capacity", spec.link_capacity, reason)
