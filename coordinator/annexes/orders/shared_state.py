"""State that ranks of one process share, beside their rules: of the algorithm object, and the variables of plug-ins."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import cached_property
from types import ModuleType
from typing import Any, Final

from coordinator.annexes.orders.fingerprints import fingerprint
from emunode.algorithms.base import Algorithm
from emunode.plugins import loaded_modules
from emunode.registry import Registry

NOT_WATCHED: Final = "closures, defaults and caches of functions, other modules, files and the clock"
"""The places in a plug-in where a note is not found."""


def held_by(algorithm: Algorithm) -> Mapping[str, object]:
    """Return what an algorithm object holds, without the tables that built-in code computes once.

    A plug-in may write into a table of its own, so these stay.
    """
    modules = {module.__name__ for module in loaded_modules()}
    tables = {
        name
        for kind in type(algorithm).__mro__
        if kind.__module__ not in modules
        for name, value in vars(kind).items()
        if isinstance(value, cached_property)
    }
    return {name: value for name, value in vars(algorithm).items() if name not in tables}


class PluginVariables:
    """The variables of loaded plug-ins: of their modules, and of the classes that these define.

    `reset` gives them the values that they had at first, as in a new process.
    """

    def __init__(self) -> None:
        self._spaces = [*_spaces()]
        self.unknown: list[str] = []
        """Variables whose values can be neither compared nor copied."""
        self._first: list[dict[str, object]] = []
        for space in self._spaces:
            copies = {}
            for name, value in _variables(space):
                try:
                    fingerprint(value)
                    copies[name] = deepcopy(value)
                except (TypeError, AttributeError):
                    self.unknown.append(f"{space.__name__}.{name}")
            self._first.append(copies)
        self._content = self.content()

    def content(self) -> object:
        """Return the values as one value to compare."""
        return fingerprint([dict(self._known(space)) for space in self._spaces])

    def reset(self) -> None:
        """Give all variables their first values."""
        if self.content() == self._content:
            return
        for space, copies in zip(self._spaces, self._first, strict=True):
            for name in dict(self._known(space)):
                if name not in copies:
                    delattr(space, name)
            for name, value in copies.items():
                setattr(space, name, deepcopy(value))

    def _known(self, space: Any) -> Iterator[tuple[str, object]]:
        return ((name, value) for name, value in _variables(space) if f"{space.__name__}.{name}" not in self.unknown)


def _spaces() -> Iterator[Any]:
    for module in loaded_modules():
        yield module
        kinds = (value for value in vars(module).values() if isinstance(value, type))
        yield from (kind for kind in kinds if kind.__module__ == module.__name__)


def _variables(space: Any) -> Iterator[tuple[str, object]]:
    """Yield the variables of a module or a class: no functions, classes, modules and registries."""
    for name, value in list(vars(space).items()):
        described = hasattr(type(value), "__get__") or callable(value) or type(value).__module__ == "typing"
        if not (name.startswith(("__", "_abc_")) or described or isinstance(value, ModuleType | Registry)):
            yield name, value
