"""Scenarios of the protocols of nodes."""

from typing import Any, Final

import pytest

from emunode.annexes import RELIABLE_LAYER, from_annex
from tests.helpers.command_line import fields

Values = dict[str, Any]
CUBE: Final[Values] = fields("hypercube:3 broadcast sbt")
MANY: Final[Values] = CUBE | {"messages": 12}
RELIABLE: Final[Values] = CUBE | {"reliable": True}
REPAIR: Final[Values] = CUBE | {"repair": "next-port"}
SHRINK: Final[Values] = {"fault_knowledge": "detect:1", "on_failure": "shrink"}
AGREE: Final[Values] = {"fault_knowledge": "detect:1", "on_failure": "agree"}
TIMED: Final[Values] = {"clock": "timed", "startup": "1ms", "per_byte": "0s"}


def give_links_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let reliable links send nothing again."""

    def give_up(layer: Any, now: int) -> None:
        for each in list(layer._outstanding()):
            if each.deadline is not None and each.deadline <= now:
                each.deadline = None

    monkeypatch.setattr(from_annex(*RELIABLE_LAYER), "wake", give_up)
