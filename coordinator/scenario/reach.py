"""Effects of values beyond the description of a run: start a program, reach a machine, read a file elsewhere.

Every option states one of the values below in its `Option`. `coordinator.scenario.named` holds the rule: a file is data,
and such a value counts only if the user names it too.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from coordinator.planning.placements.base import PLACEMENTS
from coordinator.scenario.traffic_patterns import is_file
from emunode.topologies.table import TableTopology

FILE: Final = f"{TableTopology.family}:"
"""The beginning of the name of a network from a file."""
HARMLESS_DRIVERS: Final = ("memory", "local")
"""The drivers whose ranks are in this process, or in processes of this program on this machine."""


class Reach(NamedTuple):
    """The effects of the values of an option."""

    why: str
    """The effect in words, for the error."""
    acts: Callable[[str], bool] | None = None
    """Says whether a value starts a program or reaches another machine."""
    path: Callable[[str], str | None] | None = None
    """Returns the path of the file that a value names, the end of its text; None for a value that names no file."""
    by_digest: bool = False
    """Whether the values have a check of their own, by digests: plug-ins and programs."""


def _network(text: str) -> str | None:
    return text.removeprefix(FILE) if text.startswith(FILE) else None


def _placement(text: str) -> str | None:
    name, _, parameter = text.partition(":")
    takes_path = name in PLACEMENTS and PLACEMENTS[name].with_absolute_path("x", Path("/")) != "x"
    return parameter if takes_path else None


ELSEWHERE: Final = "it reads a file outside the folder of that file"
DATA: Final = Reach("")
"""The values only describe a run."""
DRIVER: Final = Reach("it starts other programs or reaches other machines", lambda text: text not in HARMLESS_DRIVERS)
BY_DIGEST: Final = Reach("it is executed", by_digest=True)
NETWORK_FILE: Final = Reach(ELSEWHERE, path=_network)
PLACEMENT_FILE: Final = Reach(ELSEWHERE, path=_placement)
PERMUTATION_FILE: Final = Reach(ELSEWHERE, path=lambda text: text if is_file(text) else None)
DATA_FILE: Final = Reach(ELSEWHERE, path=lambda text: None if text.startswith("array:") else text)
