"""A dataclass decorator that generates the methods of a frozen class when one of them is first used.

`dataclasses.dataclass` compiles six methods for each class, and takes 0.7 ms. A short command defines a hundred records
and uses a few of them.
"""

import abc
import dataclasses
from collections.abc import Callable, Collection, Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

METHODS = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")
ATTRIBUTES = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__signature__")
"""Attributes of the class that `dataclasses` and `inspect` read; only the last one is not set by the standard decorator."""
INSTANCES = ("__dict__", "__weakref__")
"""Attributes of the class that each class makes for its own instances."""
_generating = RLock()


class _Apart:
    """The first base of a class that generates methods for another one: no class learns of this subclass."""

    __slots__ = ()

    def __init_subclass__(cls, **options: object) -> None:
        """Leave out what the bases of the other class do with subclasses."""


class _Later:
    """The methods of one class that have not been generated."""

    def __init__(self, record: type, options: dict[str, bool]) -> None:
        self._record = record
        self._options = options
        self._generated = False
        self._hooks: dict[str, object] = {}
        for name in (*METHODS, *ATTRIBUTES):
            if name not in vars(record):
                self._hooks[name] = self._method(name) if name in METHODS else _Attribute(self, name)
        for name, hook in self._hooks.items():
            setattr(record, name, hook)

    def generate(self) -> None:
        """Generate the methods, unless another thread has done so."""
        with _generating:
            if not self._generated:
                self._install(*self._decorated())
                self._generated = True

    def value(self, name: str) -> Any:
        """Return a generated method or attribute; AttributeError if the class has none of this name."""
        self.generate()
        return getattr(self._record, name)

    def _decorated(self) -> tuple[Mapping[str, object], Collection[str]]:
        """Return the attributes that the standard decorator sets in a class like the record, and names that it deletes.

        The decorator keeps methods that a class has, so the record itself would have to lose its hooks first, and other
        threads would find neither hook nor method.
        """
        record = self._record
        own = {name: value for name, value in dict(vars(record)).items() if name not in {*self._hooks, *INSTANCES}}
        own["__qualname__"] = record.__qualname__
        bases = tuple(base for base in record.__bases__ if base is not object)
        apart: Any = type(record)(record.__name__, (_Apart, *bases), own)
        before = dict(vars(apart))
        dataclasses.dataclass(**self._options)(apart)
        made = {name: value for name, value in vars(apart).items() if name not in before or before[name] is not value}
        for value in made.values():
            # Generated methods compare the class of an instance with theirs, and call the methods of its bases.
            for cell in getattr(value, "__closure__", None) or ():
                if cell.cell_contents is apart:
                    cell.cell_contents = record
        return made, before.keys() - vars(apart).keys()

    def _install(self, made: Mapping[str, object], deleted: Collection[str]) -> None:
        """Do with the record what the decorator did. Other threads find a hook or a method at any time."""
        for name, value in made.items():
            setattr(self._record, name, value)
        for name in deleted:
            delattr(self._record, name)  # a default that a factory makes
        for name, hook in self._hooks.items():
            if vars(self._record)[name] is hook:
                delattr(self._record, name)  # the options leave this method out
        abc.update_abstractmethods(self._record)

    def _method(self, name: str) -> Callable[..., Any]:
        def first_call(instance: object, *values: object, **named: object) -> Any:
            return self.value(name)(instance, *values, **named)

        return first_call


class _Attribute:
    """An attribute of a class whose methods have not been generated."""

    def __init__(self, later: _Later, name: str) -> None:
        self._later = later
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        return self._later.value(self._name)


if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(record=None, /, **options):
        """Make a class a dataclass, at once if instances can be altered or have slots, and otherwise at its first use."""
        if record is None:
            return lambda record: dataclass(record, **options)
        if options.get("frozen") and not options.get("slots"):
            _Later(record, options)
            return record
        return dataclasses.dataclass(**options)(record)
