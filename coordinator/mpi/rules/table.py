"""All declared rules, by collective and name."""

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules

from coordinator.mpi import rules
from coordinator.mpi.rules.base import ALGORITHMS, MpiAlgorithm


def all_algorithms() -> Mapping[tuple[str, str], MpiAlgorithm]:
    """Return every algorithm that a module of this folder declares."""
    for module in sorted(each.name for each in iter_modules(rules.__path__)):
        import_module(f"{rules.__name__}.{module}")
    return ALGORITHMS
