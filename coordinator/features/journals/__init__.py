"""Protocols in a journal: their cost, and the hops that they rule out.

The features of the core reach polars and numpy through here alone, as in `journals.detection.detection_metrics`: a module
is imported when it is first named. Features of annexes load theirs by name (`emunode.annexes.load`). Every plan needs the
features, but polars takes as long to import as a plan, and starts threads: a process with threads cannot move to a network
of its own (`enter_own_network`).
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from coordinator.features.journals import detection as detection
    from coordinator.features.journals import rows as rows
    from coordinator.features.journals import waits as waits

MODULES: Final = ("detection", "rows", "waits")


def __getattr__(name: str) -> ModuleType:
    """Import a module of this folder."""
    if name not in MODULES:
        raise AttributeError(f"{__name__} has no module {name}")
    return import_module(f"{__name__}.{name}")
