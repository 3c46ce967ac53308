"""Registration by name: topologies, algorithms, fault kinds, metrics, reproductions and drivers are found in a `Registry`.

The module that defines a base class creates the registry for its subclasses, or for its instances. `register` then adds an
entry to the registry of its base class; the built-in families and plug-ins use the same call:

    from emunode.registry import register

    @register
    class Torus(Topology):
        family = "torus"
        ...

Commands start fast because built-in entries are imported when they are first asked for: `Registry.declare` names the
module that registers each of them.
"""

import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any, Generic, TypeVar

from emunode.errors import RegistrationError

Key = TypeVar("Key", bound=str | tuple[str, ...])
Entry = TypeVar("Entry")
Registered = TypeVar("Registered")


class Registry(Mapping[Key, Entry], Generic[Key, Entry]):
    """Entries by key, in the order of registration.

    Entries are subclasses of one base class or, with `instances`, its instances.
    """

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
        scope: Callable[[Key], Hashable] = lambda key: key,
    ) -> None:
        """Begin an empty registry.

        `kind` is the word for an entry in messages, and `required` names the attributes of an entry. `check` raises
        RegistrationError for a complete entry that breaks another rule of its kind. The module `built_in`, if one is
        named, adds the built-in entries. It is imported before anything else is registered. `scope` is the part of a key
        that leads `declare` to the modules of its entry.
        """
        self.kind = kind
        self.base = base
        self.required = required
        self._key = key
        self._check = check
        self._instances = instances
        self._built_in = built_in
        self._scope = scope
        self._entries: dict[Key, Entry] = {}
        self._by_scope: dict[Hashable, list[Entry]] = {}  # answers of `within`, until an entry comes or goes
        self._modules: dict[Hashable, list[str]] = {}
        self._unread: set[Hashable] = set()  # the scopes whose modules have not all been imported
        _registries.append(self)

    def takes(self, entry: object) -> bool:
        """Return whether an object is of the kind of this registry."""
        if self._instances:
            return isinstance(entry, self.base)
        # Not issubclass: for abstract classes it takes longer than everything else in a registration.
        return isinstance(entry, type) and self.base in entry.__mro__

    def declare(self, modules: Iterable[tuple[Hashable, str]]) -> None:
        """Name the modules that register the built-in entries.

        `modules` are pairs of a scope and a module. Nothing is imported yet. The order of the scopes becomes the order
        of the entries.
        """
        for scope, module in modules:
            self._modules.setdefault(scope, []).append(module)
            self._unread.add(scope)

    def declares(self, module: str) -> bool:
        """Return whether a module was declared to register built-in entries."""
        return any(module in declared for declared in self._modules.values())

    def add(self, entry: Entry, *, built_in: bool = False) -> bool:
        """Register an entry, and return whether it is new.

        To register the same object again changes nothing. With `built_in`, no module is imported to look for entries of
        the same name: while the module of a built-in entry is imported, others that import it would find it incomplete.
        Raises RegistrationError if a method or a required attribute is missing, if another entry has the same key, or if
        the check of this registry fails.
        """
        missing = [attribute for attribute in self.required if not hasattr(entry, attribute)]
        missing += sorted(getattr(entry, "__abstractmethods__", ()))
        if missing:
            raise RegistrationError(f"{self.kind} {_name(entry)} does not define {', '.join(missing)}")
        key = self._key(entry)
        if not built_in:
            self._read(self._scope(key))
        other = self._entries.get(key, entry)
        if other is not entry:
            called = key if isinstance(key, str) else " ".join(key)
            raise RegistrationError(
                f"{self.kind} {_name(entry)} is called {called!r}, a name already taken by {_name(other)}"
            )
        self._check(entry)
        new = key not in self._entries
        self._entries[key] = entry
        self._by_scope.clear()
        if built_in and not self._unread:
            # Its check has read all other modules, so that it would come last.
            self._sort()
        return new

    def remove(self, entry: Entry) -> None:
        """Undo `add`.

        A plug-in is replaced, or a test registers a class for its own duration.
        """
        del self._entries[self._key(entry)]
        self._by_scope.clear()

    def prepare(self) -> None:
        """Import the built-in entries.

        A new entry must not clash with them.
        """
        if self._built_in:
            import_module(self._built_in)

    def within(self, scope: Hashable) -> list[Entry]:
        """Return the entries of a scope, in the order of registration."""
        self._read(scope)
        entries = self._by_scope.get(scope)
        if entries is None:
            entries = [entry for key, entry in self._entries.items() if self._scope(key) == scope]
            self._by_scope[scope] = entries
        return entries.copy()

    def __getitem__(self, key: Key) -> Entry:
        if key not in self._entries:
            self._read(self._scope(key), key)
        return self._entries[key]

    def __iter__(self) -> Iterator[Key]:
        self._read_all()
        return iter(self._entries)

    def __len__(self) -> int:
        self._read_all()
        return len(self._entries)

    def _read(self, scope: Hashable, key: Key | None = None) -> None:
        """Import the modules of the built-in entries of a scope in order, until `key` is registered."""
        if scope in self._unread:
            for module in self._modules[scope]:
                import_module(module)
                if key in self._entries:
                    return
            self._unread.discard(scope)

    def _read_all(self) -> None:
        """Import every declared module, and put the entries in the order of declaration."""
        if self._unread:
            for scope in self._modules:
                self._read(scope)
            self._sort()

    def _sort(self) -> None:
        """Put the entries in the order of declaration."""
        place = {scope: number for number, scope in enumerate(self._modules)}
        entries = sorted(self._entries.items(), key=lambda item: place.get(self._scope(item[0]), len(place)))
        self._entries = dict(entries)
        self._by_scope.clear()


Addition = tuple[Registry[Any, Any], object]
_registries: list[Registry[Any, Any]] = []
"""Every registry of this process, in the order of creation."""
_recorders: list[list[Addition]] = []
"""The records of plug-ins that are being loaded, the innermost last."""


def register(entry: Registered, module: str | None = None) -> Registered:
    """Add a class to its registry, and return it.

    The function can be a decorator. It also takes an instance of `Driver` or `Reproduction`. `module` is the module that
    defines the entry, by default that of the caller. Raises RegistrationError if no registry takes such an entry, or its
    registry refuses it (see `Registry.add`).
    """
    for registry in _registries:
        if registry.takes(entry):
            registry.prepare()
            # Not the module of the entry: a class derived from a built-in one has the module of that one.
            built_in = registry.declares(module or sys._getframe(1).f_globals.get("__name__", ""))
            # A plug-in may be the first to import a built-in entry, which stays when the plug-in is withdrawn.
            if registry.add(entry, built_in=built_in) and _recorders and not built_in:
                _recorders[-1].append((registry, entry))
            return entry
    bases = ", ".join(registry.base.__name__ for registry in _registries)
    raise RegistrationError(f"{_name(entry)} is not a subclass of {bases}")


@contextmanager
def recorded() -> Iterator[list[Addition]]:
    """Record the entries that are registered within the block.

    The list that is yielded has them. An exception undoes their registration.
    """
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
    """Register the withdrawn entries again."""
    for registry, entry in additions:
        registry.add(entry)


def _name(entry: object) -> str:
    named = entry if isinstance(entry, type) else type(entry)
    name = f"{named.__module__}.{named.__qualname__}"
    return name if named is entry else f"{name} {getattr(entry, 'name', '')!r}"
