"""Registration by name: topologies, algorithms, fault kinds, reproductions and drivers are found through a `Registry`.

The module that defines a base class creates the registry for its subclasses, or for its instances. `register` then adds an
entry to the registry of its base class; the built-in families and plug-ins use the same call:

    from emunode.registry import register

    @register
    class Torus(Topology):
        family = "torus"
        ...
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Generic, TypeVar

from emunode.errors import RegistrationError

Key = TypeVar("Key", bound=str | tuple[str, ...])
Entry = TypeVar("Entry")
Registered = TypeVar("Registered")


class Registry(Mapping[Key, Entry], Generic[Key, Entry]):
    """Entries by key, in the order of registration: subclasses of one base class or, with `instances`, its instances."""

    def __init__(
        self,
        kind: str,
        base: type[Any],
        key: Callable[[Entry], Key],
        required: tuple[str, ...] = (),
        check: Callable[[Entry], None] = lambda _entry: None,
        *,
        instances: bool = False,
        built_in: str = "",
    ) -> None:
        """`kind` is the word for an entry in messages; `required` names the attributes that an entry must define.

        `check` raises RegistrationError for a complete entry that breaks another rule of its kind. The module `built_in`, if
        one is named, adds the built-in entries; it is imported before anything else is registered.
        """
        self.kind = kind
        self.base = base
        self.required = required
        self._key = key
        self._check = check
        self._instances = instances
        self._built_in = built_in
        self._entries: dict[Key, Entry] = {}
        _registries.append(self)

    def takes(self, entry: object) -> bool:
        """Whether an object is of the kind of this registry."""
        if self._instances:
            return isinstance(entry, self.base)
        # Not issubclass, which takes longer for abstract classes than all else that registers one of hundreds.
        return isinstance(entry, type) and self.base in entry.__mro__

    def add(self, entry: Entry) -> bool:
        """Register an entry; registering the same object again changes nothing. Returns whether it is new.

        Raises RegistrationError if a method or a required attribute is missing, if another entry has the same key, or if the
        check of this registry fails.
        """
        missing = [attribute for attribute in self.required if not hasattr(entry, attribute)]
        missing += sorted(getattr(entry, "__abstractmethods__", ()))
        if missing:
            raise RegistrationError(f"{self.kind} {_name(entry)} does not define {', '.join(missing)}")
        key = self._key(entry)
        other = self._entries.get(key, entry)
        if other is not entry:
            called = key if isinstance(key, str) else " ".join(key)
            raise RegistrationError(
                f"{self.kind} {_name(entry)} is called {called!r}, a name already taken by {_name(other)}"
            )
        self._check(entry)
        new = key not in self._entries
        self._entries[key] = entry
        return new

    def remove(self, entry: Entry) -> None:
        """Undo `add`: a plug-in is replaced, or a test registers a class for its own duration."""
        del self._entries[self._key(entry)]

    def prepare(self) -> None:
        """Import the built-in entries, with which a new one must not clash."""
        if self._built_in:
            import_module(self._built_in)

    def __getitem__(self, key: Key) -> Entry:
        return self._entries[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


Addition = tuple[Registry[Any, Any], object]
_registries: list[Registry[Any, Any]] = []
"""Every registry of this process, in the order of creation."""
_recorders: list[list[Addition]] = []
"""The records of plug-ins that are being loaded, the innermost last."""


def register(entry: Registered) -> Registered:
    """Add a class (or an instance of `Driver` or `Reproduction`) to its registry, and return it: usable as a decorator.

    Raises RegistrationError if no registry takes such an entry, or its registry refuses it (see `Registry.add`).
    """
    for registry in _registries:
        if registry.takes(entry):
            registry.prepare()
            if registry.add(entry) and _recorders:
                _recorders[-1].append((registry, entry))
            return entry
    bases = ", ".join(registry.base.__name__ for registry in _registries)
    raise RegistrationError(f"{_name(entry)} is not a subclass of {bases}")


@contextmanager
def recorded() -> Iterator[list[Addition]]:
    """Record what is registered within the block, in the list that is yielded; an exception undoes it."""
    additions: list[Addition] = []
    _recorders.append(additions)
    try:
        yield additions
    except BaseException:
        withdraw(additions)
        raise
    finally:
        _recorders.pop()


def withdraw(additions: list[Addition]) -> None:
    """Undo registrations."""
    for registry, entry in additions:
        registry.remove(entry)


def restore(additions: list[Addition]) -> None:
    """Register again what was withdrawn."""
    for registry, entry in additions:
        registry.add(entry)


def _name(entry: object) -> str:
    named = entry if isinstance(entry, type) else type(entry)
    name = f"{named.__module__}.{named.__qualname__}"
    return name if named is entry else f"{name} {getattr(entry, 'name', '')!r}"
