"""Public modules of version 0.3 under their old names, for one minor version: importing one warns and gives the new one."""

import sys
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Final

MOVED: Final[Mapping[str, str]] = {
    "coordinator.additions": "coordinator.annexes.numbers",
    "coordinator.batch": "coordinator.theory.batch",
    "coordinator.dependence": "coordinator.theory.dependence",
    "coordinator.grading": "coordinator.annexes.grading",
    "coordinator.manifests": "coordinator.annexes.clusters",
    "coordinator.mpi": "coordinator.annexes.mpi",
    "coordinator.papers": "coordinator.annexes.papers",
    "coordinator.placements": "coordinator.planning.placements",
    "coordinator.schedules": "coordinator.annexes.schedules",
    "coordinator.stored": "coordinator.history.stored",
    "emunode.algorithms.repair": "emunode.annexes.repair.rules",
    "emunode.protocols.repair": "emunode.annexes.repair",
    "emunode.trees.components": "emunode.annexes.repair.components",
    "emunode.values": "emunode.annexes.numbers",
}
"""The new names of the packages that plug-ins of 0.3 import; docs/extend/from-0.3.md lists them."""


def new_name(name: str) -> str | None:
    """Return the name that a module has now; None if it has not moved."""
    parts = name.split(".")
    for length in (2, 3):
        if package := MOVED.get(".".join(parts[:length])):
            return ".".join([package, *parts[length:]])
    return None


class MovedFinder(MetaPathFinder):
    """Finds a moved module under its old name."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that leads to the module of today; None for any other name."""
        new = new_name(fullname)
        if new is None:
            return None
        warnings.warn(f"{fullname} is now {new}; the old name goes with version 0.5", DeprecationWarning, stacklevel=2)
        return ModuleSpec(fullname, MovedLoader(new))


class MovedLoader(Loader):
    """Gives the module of another name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Import the module of today."""
        module = import_module(self._name)
        self._spec = module.__spec__  # the import system puts its own in its place
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave the module as it is: it was executed under its name."""
        module.__spec__ = self._spec


def install() -> None:
    """Find moved modules from now on. First of all finders: others would load a submodule a second time."""
    if not any(isinstance(finder, MovedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedFinder())
