"""A file is data: a value that starts a program or reads a file elsewhere counts only if the user names it too.

The user names it by a flag or an argument of the Python API. `name_values` notes such values;
`require_named` is asked before anything is started, `require_inside` before a file is read. Options state what they can do
(`Option.reach`); a value of an option that does not has to be named. Plug-ins and programs have checks of their own, by
their digests: see `plugins.py` and `programs.py`.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from coordinator.scenario.model import OPTIONS, Scenario
from coordinator.scenario.networks import absolute_value, with_absolute_network
from coordinator.scenario.option import ScenarioOption, options_of
from coordinator.scenario.reach import DATA
from emunode.errors import ScenarioError

NAMED: Final[set[tuple[str, str]]] = set()
"""Keys and values that the user has named in this process."""


def name_values(values: Mapping[str, object]) -> None:
    """Note values that the user gives, so that a file may have them too; paths are absolute."""
    NAMED.update(pair for name, value in values.items() for pair in _pairs(name, value))


def _pairs(name: str, value: object) -> Iterable[tuple[str, str]]:
    # One of a list of words, such as a driver, may be written in capital letters.
    in_any_case = name in OPTIONS and bool(OPTIONS[name].choices)
    return ((name, text.lower() if in_any_case else text) for text in _texts(value))


def require_named(scenario: Scenario) -> None:
    """Raise ScenarioError for a value that starts or reaches something and that only a file names."""
    given = {name: getattr(scenario, name) for name in type(scenario).model_fields}
    _refuse(
        (option, text)
        for name, option in options_of(type(scenario)).items()
        if given[name] != option.field.default
        for text in _texts(given[name])
        if option.acts(text)
    )


def require_value_named(name: str, text: str) -> None:
    """Raise ScenarioError for a value that starts something when it is read, and that the user has not named."""
    _refuse((option, text) for option in [OPTIONS[name]] if option.acts(text))


def values_of_file(values: Mapping[str, object], folder: Path, replaced: Iterable[str] = ()) -> dict[str, object]:
    """Return the values of a scenario in a file of `folder`, with absolute paths.

    ScenarioError for a path that leaves the folder, also through a link, unless the user names it too or the key is
    `replaced`.
    """
    found = with_absolute_network(values, folder)
    if isinstance(varied := values.get("vary"), dict):  # of a campaign
        found["vary"] = varied = {name: _absolute_values(name, value, folder) for name, value in varied.items()}
        require_inside(varied, folder)
    require_inside({name: value for name, value in found.items() if name not in replaced}, folder)
    return found


def _absolute_values(name: str, values: object, folder: Path) -> object:
    return [absolute_value(name, each, folder) for each in values] if isinstance(values, list) else values


def require_inside(values: Mapping[str, object], folder: Path) -> None:
    """Raise ScenarioError for an absolute path that leaves `folder`, unless the user has named it too."""
    _refuse(
        (OPTIONS[name], text)
        for name, value in values.items()
        if name in OPTIONS
        for text in _texts(value)
        if (path := OPTIONS[name].path(text)) is not None and not _is_inside(path, folder)
    )


def name_again(given: Mapping[str, object], refusal: ScenarioError) -> dict[str, object]:
    """Note values that a user names beside a file that has the scenario; returns them with absolute paths.

    Raises `refusal` for an option whose values only describe a run: the file decides it.
    """
    if any(OPTIONS[name].reach is DATA for name in given):
        raise refusal
    named = with_absolute_network(given, Path.cwd())
    name_values(named)
    return named


def require_same(named: Mapping[str, object], values: Mapping[str, object]) -> None:
    """Raise ScenarioError for a value that a user names beside a file with another one."""
    for name, value in named.items():
        if not set(_pairs(name, value)) <= set(_pairs(name, values.get(name))):
            raise ScenarioError(name, value, f"the file has {values.get(name)!r}; the flag may only repeat it")


def _is_inside(path: str, folder: Path) -> bool:
    # A folder may hold a link that leads elsewhere, or round in a circle, and a text may be no path at all.
    try:
        return Path(path).resolve().is_relative_to(folder.resolve())
    except (OSError, RuntimeError, ValueError):
        return False


def _texts(value: object) -> Sequence[str]:
    return [str(each) for each in value] if isinstance(value, list | tuple) else [str(value)]


def _refuse(reaching: Iterable[tuple[ScenarioOption, str]]) -> None:
    """Raise ScenarioError for the first value that the user has not named, with the flags that name all of them."""
    unnamed = [(option, text) for option, text in reaching if (option.name, text) not in NAMED]
    if not unnamed:
        return
    option, text = unnamed[0]
    why = "it does not state that it is only data" if option.reach is None else option.reach.why
    flags = " ".join(f"--{each.name.replace('_', '-')} {shlex.quote(value)}" for each, value in unnamed)
    raise ScenarioError(
        option.name, text, f"a file names it, and {why}; it counts only if you name it too: add {flags}"
    )
