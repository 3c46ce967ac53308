"""Plug-ins that a scenario names, and whether they may run.

An entry of a scenario is `FILE.py` or the name of an installed module; stored scenarios add a digest,
`NAME@sha256:HEX`. Only `load_plugins` executes anything, and only plug-ins that a user names: a scenario or a run
directory may come from anybody, so each plug-in that it names has to be loaded already, with the same digest.
"""

from collections.abc import Iterable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Final

from coordinator.history.stored.reading import exists, read_bytes
from coordinator.history.stored.writing import replace_file
from emunode.errors import ScenarioError
from emunode.model import Plugin
from emunode.plugins import LOADED, MAX_PLUGINS, find_installed, load, read_file

ENTRY_POINTS: Final = "collective_testbench.plugins"
"""The group of entry points by whose names installed plug-ins can be named."""
DIGEST: Final = "@sha256:"
FOLDER: Final = "plugins"
"""The folder of a run directory that holds the text of plug-in files."""


def load_plugins(entries: Iterable[str] | None, folder: Path | None = None) -> tuple[str, ...]:
    """Execute the plug-ins that a user names, files relative to `folder`, by default the current one.

    Returns the entries of a scenario that names them. ScenarioError (field `plugin`) if one cannot be loaded; plug-ins
    that were loaded before it stay.
    """
    found: dict[str, tuple[Plugin, Path | None]] = {}
    for entry in absolute_plugins(entries or (), folder or Path.cwd()):
        plugin, path = _find(entry)
        found[_entry(path or plugin.name, plugin)] = plugin, path
    if len(found) > MAX_PLUGINS:
        raise ScenarioError("plugin", len(found), f"at most {MAX_PLUGINS} plug-ins")
    names = [plugin.name for plugin, _ in found.values()]
    for name in names:
        if names.count(name) > 1:
            raise ScenarioError("plugin", name, "two plug-ins have this name; rename one of the files")
    for plugin, path in found.values():
        load(plugin, path)
    return tuple(found)


def require_loaded(entries: Iterable[str]) -> tuple[str, ...]:
    """Return the entries of a scenario with their digests; ScenarioError (field `plugin`) if one is not loaded."""
    return tuple(_require_loaded(entry) for entry in entries)


def _require_loaded(entry: str) -> str:
    name, sha256 = _split(entry)
    same_name = [loaded.plugin for loaded in LOADED.values() if loaded.plugin.name == Path(name).name]
    if not sha256 and same_name:  # a file that only the scenario names is not even read
        sha256 = _find(entry)[0].sha256
    if sha256 in LOADED:
        return f"{name}{DIGEST}{sha256}"
    if same_name:
        raise ScenarioError(
            "plugin",
            name,
            f"digest mismatch: the scenario says {sha256}, the plug-in of --plugin has {same_name[0].sha256}",
        )
    raise ScenarioError(
        "plugin",
        name,
        f"the scenario names it, and it is executed only if you name it too: add --plugin {_short(name)}",
    )


def absolute_plugins(entries: object, folder: Path) -> tuple[str, ...]:
    """Make entries relative to `folder` absolute; ScenarioError unless they are a list of texts."""
    if not isinstance(entries, list | tuple) or not all(isinstance(entry, str) for entry in entries):
        raise ScenarioError("plugin", entries, 'expected a list of texts, such as ["mine.py"]')
    return tuple(str(folder.absolute() / entry) if _is_file(entry) else entry for entry in entries)


def loaded_plugins(entries: Iterable[str], *, all_of_them: bool = False) -> tuple[Plugin, ...]:
    """Return the plug-ins of entries that hosts need, or all of them."""
    found = [LOADED[_split(entry)[1]] for entry in require_loaded(entries)]
    return tuple(loaded.plugin for loaded in found if all_of_them or loaded.concerns_hosts)


def plugin_flags(entries: Iterable[str]) -> str:
    """Return the flags that name the plug-ins of a scenario, each with a space before it, for a command that repeats a
    run or a trial.
    """
    return "".join(f" --plugin {_short(_split(entry)[0])}" for entry in entries)


def keep_plugins(entries: Iterable[str], folder: Path) -> dict[str, object]:
    """Write the plug-in files of a plan into `folder`; returns the values of a scenario there that name them."""
    kept = [_keep(entry, folder) for entry in entries]
    return {"plugin": tuple(kept)} if kept else {}


def _keep(entry: str, folder: Path) -> str:
    plugin = LOADED[_split(entry)[1]].plugin
    if not plugin.text:
        return entry
    path = folder / FOLDER / plugin.name
    data = plugin.text.encode()
    if path.parent.is_symlink():
        raise ScenarioError("plugin", str(path.parent), "it is a symbolic link, and nothing is written through it")
    if exists(path) and not _has(path, data):  # of another plug-in
        path = path.with_name(f"{path.stem}-{plugin.sha256[:12]}.py")
    path.parent.mkdir(exist_ok=True)
    replace_file(path, data)
    return _entry(path.relative_to(folder).as_posix(), plugin)


def _has(path: Path, data: bytes) -> bool:
    try:
        return read_bytes(path, len(data), follow=False) == data
    except (OSError, ValueError):
        return False


def altered_files(entries: Iterable[str], folder: Path) -> list[str]:
    """Return the plug-in files of a stored scenario that are missing in `folder`, or have another digest."""
    altered = []
    for entry in filter(_is_file, entries):
        name, sha256 = _split(entry)
        path = folder.absolute() / name
        shown = path.relative_to(folder.absolute()) if path.is_relative_to(folder.absolute()) else path
        try:
            if read_file(path).sha256 != sha256:
                altered.append(f"{shown}: it has another digest than the scenario says")
        except ScenarioError as error:
            altered.append(f"{shown}: {error.allowed}")
    return altered


def _find(entry: str) -> tuple[Plugin, Path | None]:
    """Return the plug-in that an entry names, and its file; ScenarioError if it is missing or has another digest."""
    name, sha256 = _split(entry)
    path = Path(name) if _is_file(entry) else None
    plugin = read_file(path) if path else find_installed(_module(name))
    if sha256 and sha256 != plugin.sha256:
        raise ScenarioError("plugin", name, f"digest mismatch: the scenario says {sha256}, it has {plugin.sha256}")
    return plugin, path


def _module(name: str) -> str:
    """Return the module that an entry point of this name stands for, or the name itself."""
    found = entry_points(group=ENTRY_POINTS, name=name)
    return next(iter(found)).module if found else name


def _entry(name: object, plugin: Plugin) -> str:
    return f"{name}{DIGEST}{plugin.sha256}"


def _split(entry: str) -> tuple[str, str]:
    name, _, sha256 = entry.partition(DIGEST)
    return name, sha256


def _is_file(entry: str) -> bool:
    name, _ = _split(entry)
    return name.endswith(".py") or "/" in name


def _short(name: str) -> str:
    """Return a path relative to the current folder, if it is below that folder."""
    path = Path(name)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else name
