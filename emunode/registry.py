"""Registration by name: every topology, algorithm and fault kind is found through a `Registry`.

The module that defines a base class creates the registry for its subclasses. `register` then adds a class to the registry
of its base class; the built-in families and plug-ins use the same call:

    from emunode.registry import register

    @register
    class Torus(Topology):
        family = "torus"
        ...
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

from emunode.errors import RegistrationError

Key = TypeVar("Key", bound=str | tuple[str, ...])
Base = TypeVar("Base")
Registered = TypeVar("Registered", bound=type)

_registries: "list[Registry[str | tuple[str, ...], object]]" = []
"""Every registry of this process, in the order of creation."""


class Registry(Mapping[Key, type[Base]], Generic[Key, Base]):
    """The registered subclasses of one base class by key, in the order of registration."""

    def __init__(
        self,
        kind: str,
        base: type[Base],
        key: Callable[[type[Base]], Key],
        required: tuple[str, ...],
        check: Callable[[type[Base]], None] = lambda _entry: None,
    ) -> None:
        """`kind` is the word for an entry in messages; `required` names the class attributes that an entry must define.

        `check` raises RegistrationError for a complete entry that breaks another rule of its kind.
        """
        self.kind = kind
        self.base = base
        self.required = required
        self._key = key
        self._check = check
        self._entries: dict[Key, type[Base]] = {}
        _registries.append(self)  # type: ignore[arg-type]  # heterogeneous on purpose: `register` tests the base class

    def add(self, entry: type[Base]) -> None:
        """Register a class; registering the same class again changes nothing.

        Raises RegistrationError if a method or a required attribute is missing, if another class has the same key, or if the
        check of this registry fails.
        """
        name = f"{entry.__module__}.{entry.__qualname__}"
        missing = [attribute for attribute in self.required if not hasattr(entry, attribute)]
        missing += sorted(getattr(entry, "__abstractmethods__", ()))
        if missing:
            raise RegistrationError(f"{self.kind} {name} does not define {', '.join(missing)}")
        key = self._key(entry)
        other = self._entries.get(key, entry)
        if other is not entry:
            called = key if isinstance(key, str) else " ".join(key)
            raise RegistrationError(
                f"{self.kind} {name} is called {called!r}, a name already taken by {other.__module__}.{other.__qualname__}"
            )
        self._check(entry)
        self._entries[key] = entry

    def remove(self, entry: type[Base]) -> None:
        """Undo `add`, so that a test of a plug-in can register a class for its own duration."""
        del self._entries[self._key(entry)]

    def __getitem__(self, key: Key) -> type[Base]:
        return self._entries[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def register(entry: Registered) -> Registered:
    """Add a class to the registry of its base class, and return it: usable as a decorator.

    Raises RegistrationError if no registry takes such a class, or its registry refuses it (see `Registry.add`).
    """
    for registry in _registries:
        if issubclass(entry, registry.base):
            registry.add(entry)
            return entry
    bases = ", ".join(registry.base.__name__ for registry in _registries)
    raise RegistrationError(f"{entry.__qualname__} is not a subclass of {bases}")
