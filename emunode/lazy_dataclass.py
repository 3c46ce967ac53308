"""A dataclass decorator that generates the methods of a frozen class when one of them is first used.

`dataclasses.dataclass` compiles six methods for each class, which takes 0.7 ms. A short command defines a hundred records
and uses a few of them.
"""

import dataclasses
from collections.abc import Callable
from threading import RLock
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

METHODS = ("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__")
ATTRIBUTES = ("__dataclass_fields__", "__dataclass_params__", "__match_args__", "__signature__")
"""Attributes of the class that `dataclasses` and `inspect` read; only the last one is not set by the standard decorator."""
_generating = RLock()


class _Later:
    """The methods of one class that have not been generated."""

    def __init__(self, record: type, options: dict[str, bool]) -> None:
        self._record = record
        self._options = options
        self._names = [name for name in (*METHODS, *ATTRIBUTES) if name not in vars(record)]
        for name in self._names:
            setattr(record, name, self._method(name) if name in METHODS else _Attribute(self, name))

    def generate(self) -> None:
        """Generate the methods, unless another thread has done so."""
        with _generating:
            # Removed first: the standard decorator keeps the methods that a class has.
            while self._names:
                delattr(self._record, self._names.pop())
            if "__dataclass_fields__" not in vars(self._record):
                dataclasses.dataclass(**self._options)(self._record)

    def value(self, name: str) -> Any:
        """Return a generated method or attribute; AttributeError if the class has none of this name."""
        self.generate()
        return getattr(self._record, name)

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
