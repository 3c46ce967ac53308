"""Plug-ins: modules from outside that register topologies, algorithms, fault kinds, reproductions or drivers.

A plug-in is a self-contained Python file, whose text is sent to the hosts of a run, or an installed module that every
host has to have with the same digest. Loading one executes it with the rights of this process; the caller of `load`
decides that it may. A plug-in that cannot be loaded leaves nothing registered.
"""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from hashlib import sha256
from importlib import import_module, invalidate_caches
from importlib.util import find_spec
from inspect import getsourcelines
from linecache import cache as source_lines
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

# With the built-in algorithms and topologies: no plug-in may clash with them.
import emunode.algorithms.registry  # noqa: F401
from emunode import moved_modules
from emunode.algorithms.base import ALGORITHMS, ANY_FAMILY, Algorithm
from emunode.annexes import ALGORITHMS as FROM_OUTSIDE
from emunode.errors import RegistrationError, ScenarioError
from emunode.faults.kinds import KINDS
from emunode.model import Plugin
from emunode.registry import Addition, recorded, restore, withdraw
from emunode.topologies.base import FAMILIES

moved_modules.install()  # a plug-in of an earlier version may import modules by their old names

MAX_BYTES: Final = 2**20
"""The largest plug-in file."""
MAX_PLUGINS: Final = 16
"""Most plug-ins of a run."""
MAX_FILES: Final = 5_000
MAX_PACKAGE_BYTES: Final = 2**27
"""The largest package of an installed plug-in."""
MODULE_PREFIX: Final = "testbench_plugin_"


class Loaded(NamedTuple):
    """A plug-in whose entries are registered."""

    plugin: Plugin
    additions: list[Addition]

    @property
    def concerns_hosts(self) -> bool:
        """Whether hosts need it: reproductions and drivers concern the coordinator alone."""
        return not self.additions or any(registry in (FAMILIES, ALGORITHMS, KINDS) for registry, _ in self.additions)


LOADED: dict[str, Loaded] = {}
"""Every plug-in of this process, by its digest."""


def read_file(path: Path) -> Plugin:
    """Return the plug-in in a file without executing it; ScenarioError (field `plugin`) if it cannot be read."""
    try:
        if path.exists() and not path.is_file():
            raise ScenarioError("plugin", str(path), "it is not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ScenarioError("plugin", str(path), f"the file cannot be read: {reason}") from None
    if not 0 < len(data) <= MAX_BYTES:
        raise ScenarioError("plugin", str(path), f"expected a file of 1 to {MAX_BYTES:,} bytes")
    try:
        return Plugin(path.name, sha256(data).hexdigest(), data.decode())
    except UnicodeDecodeError as error:
        raise ScenarioError("plugin", str(path), f"it is not UTF-8: {error}") from None


def find_installed(name: str) -> Plugin:
    """Return the installed module `name` as a plug-in without executing it; ScenarioError (field `plugin`) if it is
    missing.
    """
    top = name.partition(".")[0]
    try:
        invalidate_caches()
        spec = find_spec(top)  # of the top-level package only: finding a submodule would import its parents
    except (ImportError, ValueError):
        spec = None
    if spec is None:
        raise ScenarioError("plugin", name, f"no module {top!r} is installed here; a plug-in file ends with .py")
    folders = list(spec.submodule_search_locations or ())
    files = [(path, path.relative_to(folder)) for folder in map(Path, folders) for path in folder.rglob("*.py")]
    if not folders and spec.origin:
        files = [(Path(spec.origin), Path(Path(spec.origin).name))]
    return Plugin(name, _package_sha256(name, files))


def _package_sha256(name: str, files: list[tuple[Path, Path]]) -> str:
    """Return the digest of source files, by their paths within the package."""
    digest, size = sha256(), 0
    if len(files) > MAX_FILES:
        raise ScenarioError("plugin", name, f"its package has more than {MAX_FILES:,} source files")
    for path, inner in sorted(files, key=lambda file: file[1].as_posix()):
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ScenarioError("plugin", name, f"{path} cannot be read: {error.strerror}") from None
        size += len(data)
        if size > MAX_PACKAGE_BYTES:
            raise ScenarioError("plugin", name, f"its package has more than {MAX_PACKAGE_BYTES:,} bytes of source")
        digest.update(f"{inner.as_posix()}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def load(plugin: Plugin, path: Path | None = None) -> None:
    """Execute a plug-in, unless it is loaded. `path` is its file, for messages.

    A file that replaces an earlier version of itself takes the place of that version. Raises ScenarioError (field `plugin`)
    with file, line and reason if it fails, lacks something, or clashes in name; nothing of it is registered then.
    """
    if plugin.sha256 in LOADED:
        return
    shown = str(path or plugin.name)
    older = {digest: loaded for digest, loaded in LOADED.items() if loaded.plugin.name == plugin.name}
    for digest, loaded in older.items():
        withdraw(loaded.additions)
        del LOADED[digest]
    try:
        # Standard output may be one JSON document.
        with _as_scenario_error(shown), redirect_stdout(sys.stderr), recorded() as additions:
            known = plugin.name in sys.modules
            if plugin.text:
                _execute(plugin, shown)
            else:
                import_module(plugin.name)
            if not additions and not known:
                raise RegistrationError(
                    "it registers nothing; decorate a class with emunode.registry.register, or give trees as --trees FILE"
                )
            _require_new_names(additions)
    except BaseException:
        for digest, loaded in older.items():
            restore(loaded.additions)
            LOADED[digest] = loaded
        raise
    LOADED[plugin.sha256] = Loaded(plugin, additions)


def loaded_modules() -> list[ModuleType]:
    """Return the modules of all loaded plug-ins, with those of the packages that they are in."""
    found: dict[str, ModuleType] = {}
    for loaded in LOADED.values():
        name = _module_name(loaded.plugin) if loaded.plugin.text else loaded.plugin.name
        found |= {key: module for key, module in list(sys.modules.items()) if key == name or key.startswith(f"{name}.")}
    return list(found.values())


def load_received(plugin: Plugin) -> None:
    """Load a plug-in that the coordinator sent; ScenarioError if its digest does not fit its text or its package here."""
    found = sha256(plugin.text.encode()).hexdigest() if plugin.text else find_installed(plugin.name).sha256
    if found != plugin.sha256:
        raise ScenarioError(
            "plugin", plugin.name, f"digest mismatch: the coordinator has {plugin.sha256}, this host has {found}"
        )
    load(plugin)


def _execute(plugin: Plugin, shown: str) -> None:
    """Execute the text of a file as a module of its own."""
    module = ModuleType(_module_name(plugin))
    module.__file__ = shown
    sys.modules[module.__name__] = module  # dataclasses look their module up
    source_lines[shown] = (len(plugin.text), None, plugin.text.splitlines(keepends=True), shown)
    try:
        # As Python itself does, skip the byte order mark that some editors write.
        exec(compile(plugin.text.removeprefix("\ufeff"), shown, "exec", dont_inherit=True), module.__dict__)
    except BaseException:
        del sys.modules[module.__name__]
        raise


def _module_name(plugin: Plugin) -> str:
    return f"{MODULE_PREFIX}{Path(plugin.name).stem}_{plugin.sha256[:12]}"


def _require_new_names(additions: list[Addition]) -> None:
    """Refuse an algorithm that would hide one of the same name for any network, or be hidden by it."""
    for _, entry in additions:
        if not isinstance(entry, type) or not issubclass(entry, Algorithm):
            continue
        if entry.name in FROM_OUTSIDE:
            _, line = getsourcelines(entry)
            raise RegistrationError(
                f"line {line}: algorithm {entry.__qualname__} is called {entry.name!r}, a name already taken"
            )
        for other in ALGORITHMS.values():
            same = (other.collective, other.name) == (entry.collective, entry.name)
            if same and other is not entry and ANY_FAMILY in (entry.family, other.family):
                _, line = getsourcelines(entry)
                raise RegistrationError(
                    f"line {line}: algorithm {entry.__qualname__} is called {entry.name!r}, a name already taken by "
                    f"{other.__module__}.{other.__qualname__} for {other.collective} on {other.family}"
                )


@contextmanager
def _as_scenario_error(shown: str) -> Iterator[None]:
    """Translate whatever a plug-in raises into a ScenarioError that says where."""
    try:
        yield
    except KeyboardInterrupt:
        raise
    except SyntaxError as error:
        at = f"line {error.lineno}: " if error.filename == shown else ""
        raise ScenarioError("plugin", shown, f"{at}{type(error).__name__}: {error.msg}") from error
    except BaseException as error:  # SystemExit too: a plug-in does not end this program
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == shown]
        at = f"line {lines[-1]}: " if lines else ""
        kind = "" if isinstance(error, RegistrationError) else f"{type(error).__name__}: "
        raise ScenarioError("plugin", shown, f"{at}{kind}{error}") from error
